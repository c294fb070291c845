"""Methods other than supervised training: what a step of DPO, KTO, ORPO, reward models and GRPO keeps."""

from __future__ import annotations

import pytest
from conftest import truth

from memcore.config.settings import Config
from memcore.errors import ConfigError, UnsupportedError
from memcore.estimation import estimate
from memcore.networks.catalog import find_model
from memcore.questions.accuracy import accuracy
from memcore.tools.convert import imported
from memcore.tools.exporting import exported

pytestmark = pytest.mark.machine
MODEL = "llama-3.2-1b"
WEIGHTS = 2 * find_model(MODEL).parameters
"""Bytes in bf16."""


def answer(method, engine=None, gpus=1, **training):
    """The estimate of a small job."""
    data = {
        "model": MODEL,
        "training": {
            "sequence_length": 1024,
            "micro_batch_size": 4,
            "activation_checkpointing": "full",
            "precision": "bf16",
            "method": method,
            **training,
        },
        "engine": engine or {"type": "none"},
        "hardware": {"num_gpus": gpus},
    }
    return estimate(Config.from_dict(data))


def logits(sequences, tokens=1024, size=2):
    """Bytes of logits of whole sequences."""
    return sequences * tokens * 128256 * size


def by_rule(rank, moment=None):
    """Bytes of each rule at the peak, or at another moment."""
    entries = rank.ledger(moment or rank.peak).entries
    return {rule: sum(each.bytes for each in entries if each.rule == rule) for rule in {each.rule for each in entries}}


@pytest.mark.parametrize(
    ("engine", "gpus", "parts"),
    [
        ({"type": "none"}, 1, 1),
        ({"type": "ddp"}, 2, 1),
        ({"type": "fsdp", "version": 1}, 8, 8),
        ({"type": "fsdp"}, 8, 8),
        ({"type": "deepspeed", "zero_stage": 2}, 8, 1),
        ({"type": "deepspeed", "zero_stage": 3}, 8, 8),
    ],
    ids=str,
)
def test_the_reference_is_a_copy_that_the_engine_keeps_as_it_keeps_the_model(engine, gpus, parts):
    """trl, dpo_trainer.py: `prepare_fsdp` shards it, `prepare_deepspeed` partitions it at stage 3."""
    copied, alone = (
        answer({"name": "dpo", "reference": reference}, engine, gpus, precision=None).ranks[0]
        for reference in ("copy", "precomputed")
    )
    more = copied.after_init - alone.after_init
    stored = 2 if engine["type"] in ("none", "ddp", "deepspeed") else 4
    assert more == pytest.approx(stored / 2 * WEIGHTS / parts, rel=0.002)


def test_an_adapter_needs_no_copy():
    """`disable_adapter` (trl, dpo_trainer.py: `use_adapter`)."""
    found = answer("dpo", adapter={"type": "lora"})
    assert "reference_parameter" not in by_rule(found.ranks[0])
    assert found.ranks[0].job.recipe.objective.reference == "adapter"


def test_pairs_are_two_sequences():
    """The activations of the model are those of a micro-batch twice as large."""
    pairs, plain = answer("simpo").ranks[0], answer("sft", micro_batch_size=8).ranks[0]
    peaks = [next(moment.end for moment in rank.moments if moment.place == "final norm") for rank in (pairs, plain)]
    assert peaks[0] == peaks[1]


def test_both_models_logits_are_there_when_the_loss_is():
    """trl 1.10, dpo_trainer.py, `_compute_loss`: `outputs` and `ref_outputs` live until it returns."""
    rank = answer("dpo").ranks[0]
    moment = next(moment for moment in rank.moments if moment.place == "objective")
    assert by_rule(rank, moment)["to"] == pytest.approx(2 * logits(8, size=4), rel=0.02)
    rank = answer("dpo", {"type": "deepspeed", "zero_stage": 2}, 8, precision=None).ranks[0]
    held = by_rule(rank, next(moment for moment in rank.moments if moment.place == "objective"))
    assert held["linear"] == pytest.approx(2 * logits(8), rel=0.01)
    assert held["log_softmax"] == pytest.approx(logits(8, 1023), rel=0.001)


def test_logits_are_fp32_where_accelerate_prepares_the_model():
    """accelerate, `convert_outputs_to_fp32`; DeepSpeed's engine returns 16 bits."""
    assert answer("dpo", precision="bf16-mixed").ranks[0].job.recipe.objective.upcasts
    zero = answer("dpo", {"type": "deepspeed", "zero_stage": 2}, 8, precision=None).ranks[0].job.recipe.objective
    assert not zero.upcasts


def test_a_reward_model_has_no_logits():
    """One number for each token."""
    found = answer("reward")
    assert found.ranks[0].job.model.network.embedding_and_head.head.outer == (1,)
    assert found.ranks[0].peak_of("loss") < answer("simpo").ranks[0].peak_of("loss") - 2 * logits(8)


def test_grpo_has_logits_of_completions_alone():
    """trl, grpo_trainer.py: `logits_to_keep`."""
    short, long = (answer({"name": "grpo", "completion_length": tokens}).ranks[0].most for tokens in (512, 1000))
    assert long - short > logits(4, 480)
    with pytest.raises(ConfigError, match="a sequence has 1024 tokens"):
        answer({"name": "grpo", "completion_length": 2000})


def test_a_value_head_sits_on_a_whole_model():
    """LLaMA-Factory computes logits for rewards, casts them to fp32 and drops them (trl 0.9, `AutoModelForCausalLM`)."""
    found = answer("reward", {"type": "none", "framework": "llama-factory"}).ranks[0]
    assert found.job.model.network.embedding_and_head.head.outer == ("V",)
    assert found.peak_of("loss") - answer("reward").ranks[0].peak_of("loss") > logits(8) + logits(8, size=4)


def test_a_fused_loss_has_logits_of_one_pair():
    """liger_kernel, chunked_loss/fused_linear_preference.py."""
    rank = answer("dpo", loss="fused-linear").ranks[0]
    moment = next(moment for moment in rank.moments if moment.place == "objective")
    assert by_rule(rank, moment)["linear"] == pytest.approx(3 * logits(2), rel=0.05)


def test_liger_makes_a_gradient_of_a_frozen_head():
    """chunked_loss/fused_linear_ppo.py; what TRL calls of the model is below what accelerate wraps in autocast."""
    method = {"name": "grpo", "completion_length": 512}
    more = {"loss": "fused-linear", "precision": "bf16-autocast", "adapter": {"type": "lora"}}
    rank = answer(method, {"type": "none", "framework": "trl", "framework_version": "0.26"}, **more).ranks[0]
    found = by_rule(rank, next(moment for moment in rank.moments if moment.place == "objective"))
    assert found["linear"] == 2 * logits(1, 512, size=4)
    assert found["weight_gradient"] == 128256 * 2048 * 4
    assert found["fused_loss_gradient"] > found["weight_gradient"]
    late = answer(method, {"type": "none", "framework": "trl", "framework_version": "1.5"}, **more).ranks[0]
    found = by_rule(late, next(moment for moment in late.moments if moment.place == "objective"))
    assert found["weight_gradient"] == 128256 * 2048 * 4
    assert "linear" not in found


@pytest.mark.parametrize(
    ("framework", "version", "how"),
    [
        ("trl", "0.29", "new"),
        ("trl", "1.9", "in-place"),
        ("trl", "1.10", "new"),
        ("axolotl", "0.7", ""),
        ("axolotl", "0.16", "new"),
        ("axolotl", "0.18", "in-place"),
        ("ms-swift", "3.1", ""),
        ("ms-swift", "4.1", "new"),
        ("ms-swift", "4.2", "in-place"),
        ("ms-swift", None, "in-place"),
        ("verl", None, "in-place"),
    ],
)
def test_logits_over_a_temperature_by_release(framework, version, how):
    engine = {"framework": framework, **({} if version is None else {"framework_version": version})}
    found = answer({"name": "grpo", "completion_length": 512}, engine=engine)
    assert found.ranks[0].job.recipe.objective.tempered == how


def test_entropies_that_are_learned_from():
    """OpenRLHF 0.11, models/actor.py: the kernel of the entropies makes gradients of all logits in fp32 once more."""
    method, engine = {"name": "grpo", "completion_length": 512}, {"type": "deepspeed", "framework": "openrlhf"}
    plain, learned = (
        answer({**method, **more}, engine=engine, precision="bf16-mixed").ranks[0] for more in ({}, {"entropy": True})
    )
    assert learned.peak_of("loss") - plain.peak_of("loss") == pytest.approx(logits(4, 512, size=4), rel=0.01)
    with pytest.raises(ConfigError, match="applies to GRPO in verl, openrlhf"):
        answer({**method, "entropy": True})


@pytest.mark.parametrize(("version", "loss"), [("1.14", "cross-entropy-fp32"), ("1.15", "fused-head")])
def test_trl_fuses_heads_that_liger_leaves(version, loss):
    """trl 1.15, trainer/rloo_trainer.py: Liger's other kernels run with TRL's own head."""
    engine = {"type": "none", "framework": "trl", "framework_version": version}
    found = answer({"name": "grpo", "completion_length": 512}, engine, implementation="liger")
    assert found.ranks[0].job.recipe.loss.kind == loss


def test_unsloth_never_has_logits_of_grpo():
    """unsloth_zoo, rl_replacements.py: head and loss are computed together; other methods are TRL's own."""
    base = {"implementation": "unsloth", "adapter": {"type": "lora"}}
    assert answer({"name": "grpo", "completion_length": 512}, **base).ranks[0].job.recipe.objective.fused
    assert not answer("dpo", **base).ranks[0].job.recipe.objective.fused


SCRIPTS = {
    "DPO": ("dpo", "beta=0.1, max_length=512"),
    "GRPO": ("grpo", "num_generations=4, max_prompt_length=100, max_completion_length=412, use_liger_kernel=True"),
    "RLOO": ("grpo", "num_generations=4, max_prompt_length=100, max_completion_length=412, use_liger_kernel=True"),
    "KTO": ("kto", "max_length=512"),
    "Reward": ("reward", "max_length=512"),
    "GKD": ("distill", "max_length=512"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_say_the_method(name):
    """TRL's configs in Python; RLOO has none of Liger's losses."""
    method, more = SCRIPTS[name]
    text = (
        f"from trl import {name}Config, {name}Trainer\n"
        f"args = {name}Config(per_device_train_batch_size=2, bf16=True, {more})\n"
        f'trainer = {name}Trainer(model="a/b", args=args)\n'
    )
    training = imported(text).config["training"]
    said = training["method"]
    assert (said if isinstance(said, str) else said["name"]) == method
    assert training["sequence_length"] == 512
    assert training["activation_checkpointing"]
    assert training.get("loss") == ("fused-linear" if name == "GRPO" else None)


def test_a_script_of_gkd_names_its_teacher():
    """Or is asked for it."""
    text = "from trl.experimental.gkd import GKDConfig, GKDTrainer\nargs = GKDConfig(max_length=64)\n"
    trainer = 'trainer = GKDTrainer(model="Qwen/Qwen2-0.5B", args=args{})\n'
    found = imported(text + trainer.format(', teacher_model="Qwen/Qwen2-1.5B"'))
    assert found.config["training"]["method"] == {"name": "distill", "teacher": "Qwen/Qwen2-1.5B"}
    with pytest.raises(ConfigError, match=r"needs training\.method\.teacher"):
        estimate(Config.from_dict(imported(text + trainer.format("")).config))


def test_a_rollout_engine_keeps_its_share():
    """vLLM on the same GPU, not asleep."""
    method = {"name": "grpo", "rollout_share": 0.3}
    config = {"model": MODEL, "training": {"sequence_length": 1024, "method": method}}
    unknown = next(each for each in estimate(Config.from_dict(config)).assumptions if "rollout" in each.path)
    assert (unknown.value, unknown.notable) == (0.3, True)
    assert "not counted; set hardware.accelerator" in unknown.reason
    known = {**config, "hardware": {"accelerator": "h100-sxm-80gb"}}
    alone = {**known, "training": {"sequence_length": 1024, "method": "grpo"}}
    several = [estimate(Config.from_dict(each)) for each in (known, alone)]
    assert several[0].device.expected - several[1].device.expected == round(0.3 * several[0].capacity)


READ = {
    "model_name_or_path: a/b\nbf16: true\nbeta: 0.1\nmax_length: 8\n": {"name": "dpo"},
    "model_name_or_path: a/b\nbeta: 0.1\nprecompute_ref_log_probs: true\n": {"name": "dpo", "reference": "precomputed"},
    "model_name_or_path: a/b\ndesirable_weight: 1.0\n": {"name": "kto"},
    "model_name_or_path: a/b\ncenter_rewards_coefficient: 0.01\n": {"name": "reward"},
    "python trl/scripts/kto.py --model_name_or_path a/b --beta 0.1": {"name": "kto"},
    "python examples/scripts/orpo.py --model_name_or_path a/b": {"name": "orpo"},
    "model_name_or_path: a/b\nnum_generations: 8\nmax_prompt_length: 100\nmax_completion_length: 200\nbeta: 0.04\n": {
        "name": "grpo", "completion_length": 200, "reference": "copy"},
    "model_name_or_path: a/b\nnum_generations: 8\nuse_vllm: true\nvllm_mode: colocate\n": {
        "name": "grpo", "completion_length": 512, "rollout_share": 0.3},
    "model_name_or_path: a/b\nnum_generations: 8\nuse_vllm: true\nvllm_mode: server\nuse_peft: true\nbeta: 0.1\n": {
        "name": "grpo", "completion_length": 512},
    "model_name_or_path: a/b\nstage: dpo\n": {"name": "dpo"},
    "model_name_or_path: a/b\nstage: dpo\npref_loss: simpo\n": {"name": "simpo"},
    "model_name_or_path: a/b\nstage: rm\n": {"name": "reward"},
    "model_name_or_path: a/b\nstage: kto\nref_model: c/d\n": {"name": "kto", "reference": "copy"},
    "base_model: a/b\nrl: ipo\n": {"name": "dpo"},
    "base_model: a/b\nreward_model: true\n": {"name": "reward"},
    "base_model: a/b\nrl: grpo\nsequence_len: 1024\ntrl:\n  max_completion_length: 256\n  beta: 0.1\n": {
        "name": "grpo", "completion_length": 256, "reference": "copy"},
    "swift rlhf --model a/b": {"name": "dpo"},
    "swift rlhf --rlhf_type rm --model a/b": {"name": "reward"},
    "swift rlhf --rlhf_type grpo --model a/b --tuner_type full --use_vllm true --vllm_mode colocate --sleep_level 1": {
        "name": "grpo", "completion_length": 512, "reference": "copy"},
    "swift rlhf --rlhf_type grpo --model a/b --tuner_type full --beta 0 --use_vllm true --vllm_mode colocate": {
        "name": "grpo", "completion_length": 512, "rollout_share": 0.9},
    "swift rlhf --rlhf_type grpo --model a/b --use_liger_kernel true": {"name": "grpo", "completion_length": 512},
    "swift rlhf --rlhf_type kto --model a/b --use_liger_kernel true": {"name": "kto"},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_tools_say_the_method(text):
    """TRL's, LLaMA-Factory's, axolotl's and ms-swift's own words for it; Liger's loss of GRPO."""
    found = imported(text)
    assert (found.config["training"].get("loss") == "fused-linear") == ("use_liger" in text and "grpo" in text)
    said = found.config["training"]["method"]
    assert ({"name": said} if isinstance(said, str) else said) == READ[text]
    assert found.accounts.left_out == ()


def test_grpo_reads_prompt_and_completion():
    """A sequence is both."""
    text = "model_name_or_path: a/b\nnum_generations: 8\nmax_prompt_length: 100\nmax_completion_length: 200\n"
    assert imported(text).config["training"]["sequence_length"] == 300


SIMULATED = truth("objectives")
"""Steps on fake tensors whose losses and linear layers are transcribed (validation/objectives.py, rounding.py)."""
_OF_SIMULATION = {"kind": "simulated", "title": "validation/objectives.py"}
STEPS = [
    {
        "id": f"{each['id']}@{name}",
        "config": each["config"],
        "measured": {"quantity": quantity, "moment": moment, "bytes": size},
        "source": _OF_SIMULATION,
        "confidence": "high",
        "within": each.get("within", 1e-4),
    }
    for each in SIMULATED
    for name, size in each["bytes"].items()
    for quantity, _, moment in [name.partition(" ")]
]


@pytest.mark.parametrize("case", STEPS, ids=lambda case: case["id"])
def test_simulated_objectives(case):
    """Right to a ten-thousandth, but for the few bytes of a value head's one row, and for what is not explained."""
    result = accuracy([case]).results[0]
    assert result.reason is None
    assert abs(result.error) < case["within"]


def test_gkd_of_trl_has_a_teacher():
    """trl, experimental/gkd: a mixture of both distributions takes several times the logits."""
    text = "python trl/experimental/gkd/gkd.py --model_name_or_path Qwen/Qwen2-0.5B --teacher_model_name_or_path {}\n"
    found = imported(text.format("Qwen/Qwen2-1.5B"))
    assert found.config["training"]["method"] == {"name": "distill", "teacher": "Qwen/Qwen2-1.5B"}
    assert found.config["engine"]["framework"] == "trl"
    assert found.accounts.left_out == ()
    rank = estimate(Config.from_dict(found.config)).ranks[0]
    assert rank.job.recipe.objective.taught == "jensen"
    with pytest.raises(UnsupportedError, match="use_liger_kernel"):
        imported(text.format("a/b --use_liger_kernel true"))


def test_a_teacher_of_automodel_by_hand():
    """Logits of both in bf16, log-probabilities of the loss, and the local variables of the divergence.

    These are two copies in fp32, their log-probabilities, the teacher's probabilities, the difference, zeros, their
    mask in bytes, and what the mask chooses.
    """
    training = {"sequence_length": 512, "precision": "bf16", "method": {"name": "distill", "teacher": "gpt2-medium"}}
    engine = {"type": "fsdp", "framework": "nemo-automodel"}
    found = estimate(Config.from_dict({"model": "gpt2", "training": training, "engine": engine}))
    logits = 512 * 50257
    sizes = [pytest.approx(each * logits, abs=512) for each in (1, 2, 4)]
    kept = [each for each in found.ledger.entries if each.each in sizes]
    assert sum(each.bytes for each in kept) == pytest.approx(41 * logits, rel=1e-4)


def test_rewards_of_llama_factory_compute_a_loss_too():
    """Its batches of pairs have labels: a run of Qwen3-4B has log-probabilities of all words next to the logits."""
    (case,) = (each for each in truth("winter") if each["id"] == "lf-qwen3-4b-rm-baseline")
    (found,) = accuracy([case]).results
    assert abs(found.error) < 0.01


def test_a_reward_model_of_ppo_is_a_second_copy():
    """LLaMA-Factory, `create_reward_model`; alongside the reference, where no adapter can be switched off."""
    engine = {"type": "none", "framework": "llama-factory"}
    ranks = [
        answer({"name": "ppo", "reference": "precomputed", **more}, engine).ranks[0]
        for more in ({}, {"reference": "copy"}, {"reference": "copy", "reward_model": True})
    ]
    held = [each.after_init for each in ranks]
    assert held[1] - held[0] == pytest.approx(WEIGHTS, rel=0.002)
    assert held[2] - held[1] == held[1] - held[0]
    with pytest.raises(ConfigError, match="reward_model"):
        answer({"name": "dpo", "reward_model": True})


def test_llama_factory_ppo_is_a_prompt_and_an_answer():
    """The sequence is both together; a reward adapter is no further model."""
    base = "model_name_or_path: a/b\nstage: ppo\ncutoff_len: 1000\nreward_model: c/d\n"
    found = imported(base + "finetuning_type: lora\n")
    assert found.config["training"]["sequence_length"] == 1000 + 1024
    assert any("max_new_tokens" in note for note in found.notes)
    whole = imported(base + "finetuning_type: full\nreward_model_type: full\nmax_new_tokens: 24\nppo_epochs: 2\n")
    assert whole.config["training"]["sequence_length"] == 1024
    assert whole.config["training"]["method"] == {"name": "ppo", "reward_model": True}
    assert whole.accounts.left_out == ()


def test_kto_scores_mismatched_pairs_too():
    """Four passes: of both models, over answers and over mismatched ones."""
    rank = answer("kto").ranks[0]
    assert sum(moment.place == "head and loss" for moment in rank.moments) >= 4


@pytest.mark.parametrize(
    ("method", "more", "reason"),
    [
        ("kto", {"loss": "fused-linear"}, "fused-linear"),
        ("dpo", {"compile": True}, "torch.compile"),
    ],
)
def test_what_is_not_known_is_refused(method, more, reason):
    """By name."""
    with pytest.raises(UnsupportedError, match=reason):
        answer(method, **more)


def test_settings_of_other_methods_are_errors():
    """Nothing that is given is ignored."""
    for method in ({"name": "sft", "reference": "copy"}, {"name": "orpo", "reference": "copy"}):
        with pytest.raises(ConfigError, match="reference"):
            answer(method)
    with pytest.raises(ConfigError, match="completion_length"):
        answer({"name": "dpo", "completion_length": 5})


_FACTORY = """model_name_or_path: Qwen/Qwen3-0.6B
finetuning_type: lora
lora_target: all
cutoff_len: 1024
per_device_train_batch_size: 2
bf16: true
"""
_AXOLOTL = """base_model: Qwen/Qwen3-0.6B
sequence_len: 1024
micro_batch_size: 2
bf16: true
adapter: lora
"""
WRITTEN = {
    "LLaMA-Factory's PPO": (f"{_FACTORY}stage: ppo\nreward_model: saves/reward\n", 1, 'stage: "ppo"'),
    "its whole reward model": (f"{_FACTORY}stage: ppo\nreward_model_type: full\n", 1, 'reward_model_type: "full"'),
    "LLaMA-Factory's ORPO": (f"{_FACTORY}stage: dpo\npref_loss: orpo\n", 1, 'pref_loss: "orpo"'),
    "LLaMA-Factory's DPO": (f"{_FACTORY}stage: dpo\nref_model: Qwen/Qwen3-0.6B\n", 1, "ref_model: "),
    "its reward models": (f"{_FACTORY}stage: rm\n", 1, 'stage: "rm"'),
    "axolotl's SimPO": (f"{_AXOLOTL}rl: simpo\n", 1, 'rl: "simpo"'),
    "axolotl's reward models": (f"{_AXOLOTL}reward_model: true\n", 1, "reward_model: true"),
    "axolotl's experts": (
        "base_model: Qwen/Qwen3-30B-A3B\nsequence_len: 1024\nmicro_batch_size: 1\nbf16: true\n"
        "optimizer: adamw_torch_8bit\nexpert_parallel_size: 4\nfsdp_version: 2\n",
        8,
        "expert_parallel.ExpertParallelPlugin",
    ),
    "ms-swift's classifiers": (
        "swift sft --model Qwen/Qwen3-0.6B --task_type seq_cls --max_length 1024 --torch_dtype bfloat16", 1, "seq_cls"
    ),
    "Megatron-SWIFT's classifiers": (
        "NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen3-0.6B --task_type seq_cls --tensor_model_parallel_size 2 "
        "--micro_batch_size 2 --global_batch_size 8 --max_length 1024",
        4,
        "seq_cls",
    ),
    "TRL's GKD": (
        "python trl/scripts/gkd.py --model_name_or_path Qwen/Qwen2-0.5B-Instruct --max_length 512 --bf16 "
        "--teacher_model_name_or_path Qwen/Qwen2-1.5B-Instruct",
        1,
        "teacher_model_name_or_path: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "gpus", "words"), WRITTEN.values(), ids=WRITTEN)
def test_methods_are_written_as_they_are_read(text, gpus, words):
    """A file is written for its own tool again, with the method's keys, and needs the same memory when it is read."""
    read = imported(text)
    config = Config.from_dict(read.config).replaced("hardware.num_gpus", gpus)
    found = estimate(config)
    again = exported(config, read.tool.name, {each.path: each.value for each in found.assumptions})
    assert again.left_out == ()
    assert words in again.text
    back = imported("\n".join(filter(None, (again.command and f"# run: {again.command}", again.text))))
    assert estimate(Config.from_dict(back.config).replaced("hardware.num_gpus", gpus)).device == found.device
