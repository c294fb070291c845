"""Keys that affect memory change the job that a tool's file describes, or an error names them."""

import pytest

import memcore
from memcore import Config, estimate
from memcore.errors import MemcoreError
from memcore.faces.cli import main
from memcore.formats.readers import flat
from memcore.networks.catalog import catalog, find_model
from memcore.tools.checkpoints import checkpoint_of, pruned
from memcore.tools.sources import Source, read_sources

FACTORY = "stage: sft\nfinetuning_type: lora\nmodel_name_or_path: Qwen/Qwen2.5-7B\ncutoff_len: 512\n"
AXOLOTL = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 512\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n"
TRL = "model_name_or_path: Qwen/Qwen2.5-7B\nmax_length: 512\nper_device_train_batch_size: 1\nbf16: true\n"
TITAN = '[model]\nname = "llama3"\nflavor = "8B"\n[activation_checkpoint]\nmode = "none"\n[training]\nseq_len = 512\n'
TUNE = (
    "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\nbatch_size: 2\ndtype: bf16\n"
    "checkpointer:\n  _component_: torchtune.training.FullModelHFCheckpointer\n"
)
AUTOMODEL = (
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
    "step_scheduler:\n  global_batch_size: 64\n  local_batch_size: 8\n"
    "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
    "  pretrained_model_name_or_path: Qwen/Qwen3-8B\ndataset:\n  seq_length: 512\n"
)
TAUGHT = AUTOMODEL.replace("TrainFinetune", "KnowledgeDistillation") + (
    "teacher_model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
    "  pretrained_model_name_or_path: Qwen/Qwen3-14B\n"
)
TEACHER = "training.method.teacher"
FUSED_ADAM = "transformer_engine.pytorch.optimizers.fused_adam.FusedAdam"
VERL_SFT = (
    "torchrun --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer data.max_length=512"
    " model.partial_pretrain=Qwen/Qwen2.5-7B data.train_batch_size=64 "
)
VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B"
    " actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4"
    " trainer.n_gpus_per_node=8 trainer.nnodes=1 "
)
FSDP = "actor_rollout_ref.actor.fsdp_config"
SWIFT = "NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B --max_length 512 --micro_batch_size 1 "
MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8"
    " --vocab-size 6400 --max-position-embeddings 512 --seq-length 512 --micro-batch-size 1 --bf16 "
)


def read(text, gpus=8):
    """The settings that a text says, and the notes on it."""
    config, notes = read_sources([Source("job", text)], gpus)
    return flat(config), notes


MICRO, STEPS = "training.micro_batch_size", "training.gradient_accumulation_steps"
NAME, RANK = "training.optimizer.name", "training.optimizer.rank"
HOW, MASTER = "training.optimizer.implementation", "training.master_dtype"
SHARDS, RANKS = "parallelism.data_parallel_shard_size", "parallelism.data_parallel_size"
DECIDING = (
    # LLaMA-Factory 0.9.6, hparams/finetuning_args.py: examples/extras/adam_mini/qwen2_full_sft.yaml
    (FACTORY, "use_adam_mini: true\n", {NAME: "adam-mini"}),
    # transformers, trainer.py: GaLore's rank is an argument of the optimizer, 128 where nothing is said
    (TRL, "optim: galore_adamw\noptim_args: rank=64, scale=0.25\n", {NAME: "galore", RANK: 64}),
    (TRL, "optim: galore_adamw\n", {RANK: 128}),
    (FACTORY, "optim: galore_adamw\noptim_args: rank=32\n", {RANK: 32}),
    (FACTORY, "use_apollo: true\napollo_rank: 128\napollo_layerwise: true\n",
     {NAME: "apollo", RANK: 128, "engine.optimizer_in_bwd": True}),
    (AXOLOTL, "optimizer: galore_adamw\noptim_args:\n  rank: 64\n", {NAME: "galore", RANK: 64}),
    (TRL, "use_liger: true\n", {"training.loss": "fused-linear", "training.implementation": "liger"}),
    (AXOLOTL, "sequence_parallel_degree: 2\n", {"parallelism.context_parallel_size": 2}),
    # torchtitan until March 2025, train_configs/llama3_70b.toml
    (TITAN, "batch_size = 1\ntensor_parallel_degree = 2\ndata_parallel_shard_degree = 4\n",
     {MICRO: 1, "parallelism.tensor_parallel_size": 2, SHARDS: 4}),
    (TITAN, "batch_size = 8\n[experimental]\npipeline_parallel_degree = 2\n",
     {"parallelism.pipeline_parallel_size": 2, MICRO: 4, STEPS: 2}),
    (TITAN, "batch_size = 8\n[experimental]\npipeline_parallel_degree = 2\npipeline_parallel_microbatches = 8\n",
     {MICRO: 1, STEPS: 8}),
    (TITAN, "[float8]\nenable_float8_linear = true\n", {"training.precision": "fp8-mixed"}),
    (TITAN, "[float8]\nenable_float8_linear = false\n", {"training.precision": None}),
    # distributed/pipeline_parallel.py: one sequence makes a micro-batch where nothing is said
    (TITAN, "local_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\n", {MICRO: 1, STEPS: 8}),
    (TITAN, "local_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 2\n",
     {MICRO: 2, STEPS: 4}),
    (TITAN, "local_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 1\npipeline_parallel_microbatch_size = 2\n",
     {MICRO: 8, STEPS: None}),
    (TITAN, "[parallelism]\ndata_parallel_replicate_degree = 2\n", {SHARDS: 4, RANKS: 8}),
    (TITAN, "[parallelism]\ntensor_parallel_degree = 2\ndisable_loss_parallel = true\n",
     {"parallelism.loss_parallel": False}),
    # NeMo Automodel, components/distributed/pipelining/config.py
    (AUTOMODEL, "distributed:\n  pp_size: 2\n", {MICRO: 1, STEPS: 16}),
    (AUTOMODEL, "distributed:\n  pp_size: 2\n  pipeline:\n    pp_microbatch_size: 4\n", {MICRO: 4, STEPS: 4}),
    (AUTOMODEL, "distributed:\n  pp_size: 1\n  pipeline:\n    pp_microbatch_size: 4\n", {MICRO: 8, STEPS: 1}),
    # optimizers with a copy of the weights: TransformerEngine's, and Databricks'
    (AUTOMODEL, f"optimizer:\n  _target_: {FUSED_ADAM}\n  master_weights: true\n  store_param_remainders: true\n"
     "  exp_avg_dtype: torch.bfloat16\n  exp_avg_sq_dtype: torch.bfloat16\n",
     {NAME: "adamw", HOW: "transformer-engine", "training.optimizer.state_dtype": "bf16", MASTER: "int16"}),
    (AUTOMODEL, f"optimizer:\n  _target_: {FUSED_ADAM}\n  adam_w_mode: false\n",
     {NAME: "adam", HOW: "transformer-engine", "training.optimizer.state_dtype": "fp32", MASTER: "none"}),
    (AUTOMODEL, "optimizer:\n  _target_: flashoptim.FlashAdamW\n  master_weight_bits: 32\n",
     {NAME: "adamw", HOW: "flashoptim", MASTER: "int16"}),
    # recipes/llm/kd.py: weights in fp32 unless an optimizer has its own copy
    (TAUGHT, "kd_ratio: 0.5\n", {"training.method.name": "distill", TEACHER: "Qwen/Qwen3-14B", "training.precision": "bf16-mixed"}),
    (TAUGHT, "optimizer:\n  _target_: flashoptim.FlashAdamW\n", {"training.precision": "bf16", MASTER: "int8"}),
    (TUNE, "optimizer:\n  _component_: torch.optim.AdamW\nloss:\n"
     "  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n  num_output_chunks: 16\n",
     {"training.loss": "chunked:16"}),
    # verl, workers/config/engine.py: what FSDP computes in, and a newer place for Ulysses' ranks
    (VERL, f"{FSDP}.mixed_precision.param_dtype=fp32", {"training.precision": "fp32"}),
    (VERL, f"{FSDP}.dtype=float16", {"training.precision": "fp16-mixed"}),
    (VERL, f"{FSDP}.ulysses_sequence_parallel_size=2", {"parallelism.ulysses_parallel_size": 2, STEPS: 4}),
    # verl of January 2025: the sequences of all GPUs
    (VERL_SFT, "data.micro_batch_size=16", {MICRO: 2, STEPS: 4}),
    (VERL_SFT, "data.micro_batch_size=16 data.micro_batch_size_per_gpu=4", {MICRO: 4}),
)  # fmt: skip


@pytest.mark.parametrize(("base", "keys", "wanted"), DECIDING, ids=[keys.split("\n")[0] for _, keys, _ in DECIDING])
def test_keys_that_decide_are_read(base, keys, wanted):
    found, notes = read(base + keys)
    assert {path: found.get(path) for path in wanted} == wanted
    assert not any("not supported yet: ignored" in note for note in notes)


REFUSED = (
    (FACTORY, "quantization_bit: 4\nquantization_method: hqq\n", "quantization_method: found 'hqq'"),
    (FACTORY, "use_apollo: true\napollo_proj: svd\n", "apollo_proj: found 'svd'; supported: 'random'"),
    (AXOLOTL, "peft_layer_replication: [[0, 4], [2, 5]]\n", "peft_layer_replication"),
    (MEGATRON, "--export-num-eagle-layers 1", "--export-num-eagle-layers"),
    (MEGATRON, "--export-num-medusa-heads 2", "--export-num-medusa-heads"),
    (MEGATRON, "--retro-add-retriever", "--retro-add-retriever"),
    # recipes/configs/qwen3/evaluation.yaml, generation.yaml, quantization.yaml
    (TUNE, "tasks: [truthfulqa_mc2]\n", "tasks: found .*evaluates a model instead of training"),
    (TUNE, "prompt:\n  user:\n    text: hello\n", r"prompt\.user\.text: found .*generates text instead of training"),
    (TUNE, "quantizer:\n  _component_: torchtune.training.quantization.Int4WeightOnlyQuantizer\n",
     "quantizes a checkpoint instead of training"),
    (TITAN, "local_batch_size = 3\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 2\n",
     "does not divide the 3 sequences of a rank"),
    (AUTOMODEL, "distributed:\n  pp_size: 2\n  pipeline:\n    pp_microbatch_size: 3\n", "does not divide"),
    (TAUGHT, "separate_meshes: true\n", "separate_meshes: found True"),
    (AUTOMODEL, f"optimizer:\n  _target_: {FUSED_ADAM}\n  exp_avg_dtype: torch.uint8\n", "exp_avg_dtype uint8"),
)  # fmt: skip


@pytest.mark.parametrize(("base", "keys", "why"), REFUSED, ids=[keys.split("\n")[0] for _, keys, _ in REFUSED])
def test_keys_that_make_something_else_are_refused_by_name(base, keys, why):
    read(base.replace("batch_size: 2\n", "batch_size: 2\noptimizer:\n  _component_: torch.optim.AdamW\n"))
    with pytest.raises(MemcoreError, match=why):
        read(base + keys)


def test_kernels_that_are_not_counted_are_said():
    """axolotl, core/trainers/dpo: the loss of pairs without logits."""
    for keys in ("rl: dpo\ndpo_use_liger_kernel: true\n", "rl: grpo\ntrl:\n  use_liger_loss: true\n"):
        assert any("use_liger" in note and "not supported yet: ignored" in note for note in read(AXOLOTL + keys)[1])


def test_an_inference_engine_that_does_not_sleep_is_said():
    """ms-swift, examples/megatron/grpo/sapo.sh: with `sleep_level` 2 nothing of vLLM's is left during the update."""
    engine = "--use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.7 --offload_model true "
    asleep, awake = (read(f"{SWIFT}{engine}--sleep_level {level}")[1] for level in (2, 0))
    assert not any("vLLM" in note or "not supported yet" in note for note in asleep)
    assert [note for note in awake if "vLLM keeps 0.7 of the GPU" in note]


def test_a_tag_behind_a_script_of_an_entrypoint():
    """noonghunna/club-3090, models/qwen3.6-35b-a3b/vllm/compose/dual/autoround-int4/fp8.yml."""
    text = (
        "services:\n  a:\n    image: ${IMAGE:-vllm/vllm-openai:v0.22.1}\n    entrypoint:\n      - bash\n      - -c\n"
        '      - |\n        source /etc/x.sh\n        exec vllm serve "$$@"\n      - --\n'
        "    command: --model Qwen/Qwen3-8B --max-model-len 4096\n"
    )
    found, _ = read(text, None)
    assert (found["engine.version"], found["inference.max_model_len"]) == ("v0.22.1", 4096)


def test_a_config_that_a_command_names_behind_its_folder():
    """verl, examples/sglang_multiturn: the command overrides it, in whichever order both are given."""
    command = (
        "python3 -m verl.trainer.main_ppo --config-path=\"$PWD/examples/config\" --config-name='geo3k'"
        " algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-3B"
        " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.n_gpus_per_node=4 trainer.nnodes=1\n"
    )
    config = (
        "hydra:\n  searchpath: [file://verl/trainer/config]\ndefaults: [ppo_trainer, _self_]\n"
        "data:\n  max_prompt_length: 2048\n  max_response_length: 1024\nactor_rollout_ref:\n  model:\n    path: x\n"
    )
    sources = [Source("run.sh", command), Source("geo3k.yaml", config)]
    for order in (sources, sources[::-1]):
        found = flat(read_sources(order)[0])
        assert (found["model"], found["training.sequence_length"], found[MICRO]) == ("Qwen/Qwen2.5-3B", 3072, 4)


QWEN = {
    "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128,
    "intermediate_size": 128, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64,
}  # fmt: skip
BITS = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (BITS, "nf4"),
        ({**BITS, "bnb_4bit_use_double_quant": True}, "nf4-double"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "awq", "bits": 4}, "gptq"),
        ({"quant_method": "fp8"}, None),
    ],
)
def test_a_checkpoint_that_is_quantized(stored, kind):
    """Under an adapter its weights are as they are stored; where they are all trained, that they are not is said."""
    model = {**QWEN, "quantization_config": stored}
    training = {"sequence_length": 16, "precision": "bf16"}
    whole = estimate(Config.from_dict({"model": model, "training": training}))
    said = [each.reason for each in whole.assumptions if "quantization_config" in each.reason]
    assert bool(said) == (kind is not None)
    adapter = {"type": "lora", "rank": 4}
    found, wanted = (
        estimate(Config.from_dict({"model": each, "training": {**training, "adapter": adapter, **more}}))
        for each, more in ((model, {}), (QWEN, {"quantization": kind} if kind else {}))
    )
    assert found.allocated.expected == wanted.allocated.expected


def test_a_checkpoint_with_fewer_experts():
    """bryce-hoehn/Qwen3.5-25B-REAP-A3B-Coding: pruned by routers' saliency, without towers."""
    base = catalog()["Qwen/Qwen3.5-35B-A3B"]["config"]["text_config"]
    parameters = find_model({**base, "num_experts": 180}).parameters
    names = {f"model.language_model.layers.39.mlp.experts.{each}.up_proj.weight": "a" for each in range(180)}
    index = {"metadata": {"total_parameters": parameters, "total_size": 2 * parameters}, "weight_map": names}
    config, said = pruned(checkpoint_of(index))
    assert find_model(config).parameters == parameters == 25091371648
    assert "180 of its 256 experts" in said
    index["metadata"] = {"total_parameters": parameters + 10**6, "total_size": 2 * parameters + 2 * 10**6}
    assert pruned(checkpoint_of(index)) is None


def test_another_makers_model_names_what_it_may_be_trained_from():
    with pytest.raises(MemcoreError, match=r"name mistralai/Mistral-7B-v0\.3 if it has the same shapes"):
        find_model("Locutusque/Hercules-2.5-Mistral-7B")
    with pytest.raises(MemcoreError, match="give its config.json, or name a model of the same shapes"):
        find_model("mistral-9x9b")


def test_what_a_user_wants_ignored(capsys):
    """ms-swift, examples/train/grpo/internal/fipo.sh: keys of a release that is not known yet."""
    command = "swift sft --model Qwen/Qwen2.5-7B --max_length 512 --fipo_decay_rate 32"
    assert main(["estimate", command]) == 2
    assert "no known release of ms-swift has this key; leave it out, or pass --ignore fipo_decay_rate" in (
        capsys.readouterr().err
    )
    for spelled in ("fipo_decay_rate", "--fipo-decay-rate"):
        assert main(["estimate", command, f"--ignore={spelled}"]) == 0
        assert "ignored, as you asked, so the answer is for the job without it: " in capsys.readouterr().err
    assert main(["estimate", command]) == 2


def test_ranks_beside_zero():
    """TRL, examples/accelerate_configs/alst_ulysses_4gpu.yaml."""
    start = "parallelism_config:\n  parallelism_config_dp_shard_size: 2\n  parallelism_config_sp_size: 2\n"
    text = f"compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 4\n{start}"
    found, notes = read(f"{text}deepspeed_config:\n  zero_stage: 3\n", None)
    assert (found["engine.zero_stage"], found["hardware.num_gpus"]) == (3, 4)
    assert (found["parallelism.ulysses_parallel_size"], found.get(SHARDS)) == (2, None)
    assert any("ZeRO shards over all data-parallel ranks" in note for note in notes)


def test_scripts_that_bring_flash_attention():
    """LLaVA, scripts/v1_5/finetune.sh."""
    for script, kernel in (("llava/train/train_mem.py", "flash"), ("llava/train/train.py", None)):
        keys = "--model_name_or_path lmsys/vicuna-13b-v1.5 --per_device_train_batch_size 16 --model_max_length 2048"
        assert read(f"deepspeed --num_gpus 8 {script} {keys}")[0].get("training.attention") == kernel


def test_texts_that_are_compared_with_megatron():
    """ms-swift, examples/megatron/embedding/qwen3_emb.sh and reranker/qwen3_reranker.sh: two texts of a pair."""
    command = "NPROC_PER_NODE=2 megatron sft --model Qwen/Qwen3-Embedding-0.6B --max_length 512 --micro_batch_size 16"
    command += " --global_batch_size 256"
    kinds = {"embedding": "classify", "reranker": "classify", "generative_reranker": None}
    for task, head in kinds.items():
        found, notes = read(f"{command} --task_type {task}")
        assert (found[MICRO], found.get("training.method.name")) == (32, head)
        assert any(f"task_type {task}: texts are counted in pairs" in note for note in notes)
    with pytest.raises(MemcoreError, match="supported: causal_lm, seq_cls"):
        read(f"{command} --task_type prm")


@pytest.mark.parametrize(
    ("said", "method", "tokens"),
    [
        ("--spec-type mtp:n_max=3,p_min=0.0", "mtp", 3),
        ("--spec-type mtp", "mtp", None),
        ("--spec-type draft-mtp --draft-max 4", "mtp", 4),
        ("--spec-type ngram-mod:n_max=4,n_min=2,ngram_size_n=16", None, None),
    ],
)
def test_ways_to_propose_with_settings_of_their_own(said, method, tokens):
    """noonghunna/club-3090, models/ornith-1.0-9b/ik-llama/compose/single/deepreinforce-q4km/ngram.yml."""
    found, _ = read(f"llama-server -m Qwen3.6-27B-Q4_K_M.gguf -c 8192 -ngl 99 {said}", None)
    assert found.get("inference.num_speculative_tokens") == tokens
    assert found.get("inference.speculative_method") in (method, "ngram" if method is None else method)


def test_files_in_python(tmp_path):
    """`memcore.load` reads what the command line reads, and leaves out the same keys."""
    script = tmp_path / "fipo.sh"
    script.write_text(
        "swift sft --model Qwen/Qwen2.5-7B --max_length 512 --fipo_decay_rate 32\nswift sft --model gpt2\n"
    )
    with pytest.raises(MemcoreError, match="2 commands for 2 jobs"):
        memcore.load(script)
    with pytest.raises(MemcoreError, match="pass --ignore fipo_decay_rate"):
        memcore.load(f"{script}#1")
    job = memcore.load(f"{script}#1", gpus=2, ignore=["fipo_decay_rate"])
    assert (job["training.sequence_length"], job["hardware.num_gpus"]) == (512, 2)
    assert any("ignored, as you asked" in note for note in job.notes)
    with pytest.raises(MemcoreError, match="no known release of ms-swift"):
        memcore.load(f"{script}#1")  # what was ignored once is not ignored for good
    with pytest.raises(MemcoreError, match="No such file"):
        memcore.load(tmp_path / "absent.yaml")
    assert memcore.estimate(job).peak.peak > 0


SAID = (
    ("--gradient_checkpointing 0", "training.activation_checkpointing.policy", "none"),
    ("--gradient_checkpointing no", "training.activation_checkpointing.policy", "none"),
    ("--gradient_checkpointing 1", "training.activation_checkpointing.policy", "full"),
    ("--packing 1", "training.packed_sequences", True),
    ("--use_liger_kernel t", "training.implementation", "liger"),
)


@pytest.mark.parametrize(("flag", "path", "wanted"), SAID)
@pytest.mark.parametrize("command", ["swift sft --model", "python sft.py --use_peft y --model_name_or_path"])
def test_words_for_true_and_false(command, flag, path, wanted):
    """transformers, hf_argparser.py, `string_to_bool`: 1, t, y and yes."""
    found, _ = read(f"{command} Qwen/Qwen2.5-7B --max_length 512 --per_device_train_batch_size 1 {flag}", 1)
    assert found.get(path) == wanted
    assert found["training.adapter.rank"] == (8 if "swift" in command else 16)  # of the tool, not of PEFT


BATCHES = (
    # OpenRLHF, cli/train_sft.py: 128 sequences in a step; ms-swift, megatron_args.py: 16; verl, sft_trainer.yaml: 256
    (
        "deepspeed --module openrlhf.cli.train_sft --model.model_name_or_path Qwen/Qwen2.5-7B --train.micro_batch_size 2",
        8,
    ),
    ("NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-7B --max_length 512 --micro_batch_size 1", 2),
    ("torchrun --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen2.5-7B", 8),
)


@pytest.mark.parametrize(("command", "steps"), BATCHES)
def test_sequences_of_a_step_where_nothing_is_said(command, steps):
    assert read(command)[0][STEPS] == steps


NOTEBOOK = """\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from peft import LoraConfig, prepare_model_for_kbit_training
from trl import SFTTrainer

model = AutoModelForCausalLM.from_pretrained("NousResearch/Llama-2-7b-chat-hf",
    quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"))
lora = LoraConfig(r=64, target_modules=["q_proj", "v_proj"])
args = TrainingArguments(per_device_train_batch_size=4, gradient_checkpointing=True, bf16=BF16)
"""
PREPARES = (
    # trl 0.9.6, trainer/sft_trainer.py: cast to fp32, and with bf16 back again
    ("SFTTrainer(model=model, args=args, peft_config=lora, max_seq_length=1024)", False, True),
    ("SFTTrainer(model=model, args=args, peft_config=lora, max_seq_length=1024)", True, None),
    ("SFTTrainer(model=model, args=args, peft_config=lora)", False, None),  # trl 0.24 casts nothing
    (
        "model = prepare_model_for_kbit_training(model)\ntokenizer(text, truncation=True, max_length=512)\nTrainer(model=model, args=args)",
        True,
        True,
    ),
)


@pytest.mark.parametrize(("trains", "half", "wanted"), PREPARES)
def test_what_is_not_quantized_is_cast_to_fp32(trains, half, wanted):
    """huggingface/cookbook, fine_tuning_llm_to_generate_persian_product_catalogs_in_json_format.ipynb."""
    text = NOTEBOOK.replace("BF16", str(half)) + trains + "\n"
    found, _ = read_sources([Source("train.py", text)], 1)
    assert flat(found).get("engine.prepare_model_for_kbit_training") is wanted
