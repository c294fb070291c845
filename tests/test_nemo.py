"""NeMo 2's recipes: what scripts and commands make of them, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memcore import Config, estimate
from memcore.errors import ConfigError, MemcoreError
from memcore.formats.builders import handed_over
from memcore.formats.readers import flat
from memcore.tools import imported
from memcore.tools.sources import read_source
from memcore.trainers.megatron.nemo import recipes

HEAD = "import nemo_run as run\nfrom nemo.collections import llm\n"
TUNED = """\
def conversion():
    return run.Partial(llm.import_ckpt, model=llm.llama3_8b.model(), source="hf://meta-llama/Meta-Llama-3-8B")

def recipe_of(nodes: int = 1, gpus_per_node: int = 1):
    recipe = llm.llama3_8b.finetune_recipe(dir="/a", name="b", num_nodes=nodes, num_gpus_per_node=gpus_per_node)
    recipe.trainer.max_steps = 100
    recipe.trainer.strategy.tensor_model_parallel_size = 2
    return recipe

def tune():
    finetune = recipe_of(gpus_per_node=4)
    with run.Experiment("x") as exp:
        exp.add(conversion(), executor=run.LocalExecutor(), name="import_from_hf")
        exp.add(finetune, executor=run.LocalExecutor(), name="peft")
        exp.run()

if __name__ == "__main__":
    tune()
"""
DATA = """\
GPUS, MB = 2, 1
recipe = llm.llama33_nemotron_super_49b.finetune_recipe(num_gpus_per_node=2, peft_scheme='lora', packed_sequence=False)
recipe.data = run.Config(llm.ChatDataModule, seq_length=recipe.model.config.seq_length)
recipe.trainer.strategy.tensor_model_parallel_size = 2
run.run(recipe, direct=True)
"""
PLAIN = "recipe = llm.llama3_8b.{}\n{}\nrun.run(recipe)\n"
TP, PP, CP = (f"parallelism.{each}_parallel_size" for each in ("tensor", "pipeline", "context"))
BATCH, STEPS, LENGTH = (
    f"training.{each}" for each in ("micro_batch_size", "gradient_accumulation_steps", "sequence_length")
)
RANK, TYPE, GPUS = "training.adapter.rank", "training.adapter.type", "hardware.num_gpus"
READ = {
    HEAD + TUNED: {
        "model": "meta-llama/Meta-Llama-3-8B", TP: 2, PP: 1, GPUS: 4, LENGTH: 2048, BATCH: 1, STEPS: 64, RANK: 8,
        "engine.distributed_optimizer": False, "engine.cross_entropy_loss_fusion": False},
    HEAD + DATA: {"model": "nvidia/Llama-3_3-Nemotron-Super-49B-v1", TP: 2, GPUS: 2, BATCH: 4, STEPS: 2, LENGTH: 2048},
    HEAD + PLAIN.format("pretrain_recipe(num_nodes=2)", "recipe.data.micro_batch_size = 2 * 2"): {
        GPUS: 16, CP: 2, BATCH: 4, STEPS: 16, LENGTH: 8192, TYPE: None, "engine.cross_entropy_loss_fusion": True,
        "engine.overlap_grad_reduce": True},
    HEAD + PLAIN.format("finetune_recipe(peft_scheme=None)", ""): {TP: 2, TYPE: None, STEPS: 32},
    HEAD + PLAIN.format("finetune_recipe(peft_scheme='dora')", "recipe.peft.dim = 4"): {TYPE: "dora", RANK: 4},
    HEAD + PLAIN.format("finetune_recipe()", "recipe.peft = llm.peft.LoRA(target_modules=['linear_qkv'], dim=16)"): {
        TYPE: "lora", RANK: 16, "training.adapter.target_modules": ["linear_qkv"]},
    HEAD + PLAIN.format("finetune_recipe()", "recipe.peft = None"): {TYPE: None, TP: 1},
    HEAD + PLAIN.format("finetune_recipe(packed_sequence=True)", ""): {
        LENGTH: 4096, "training.packed_sequences": True, STEPS: 1},
    HEAD + PLAIN.format("pretrain_recipe()", "recipe.trainer.plugins = bf16_with_fp8_current_scaling_mixed()"): {
        "training.precision": "fp8-mixed", "engine.fp8_recipe": "tensorwise"},
    HEAD + PLAIN.format("pretrain_recipe(performance_mode=True)", ""): {
        "training.precision": "bf16-mixed", "engine.tp_comm_overlap": False},
    HEAD + PLAIN.format("pretrain_recipe()", "if 4 == 2 * 2:\n  recipe.data.seq_length = 512\nelse:\n  x = 1"): {LENGTH: 512},
    HEAD + PLAIN.format("pretrain_recipe()", "recipe.model.config.recompute_granularity = 'full'"): {
        "training.activation_checkpointing.policy": "full"},
    "nemo llm finetune --factory llama31_8b trainer.devices=2 data.global_batch_size=8 trainer.max_steps=250 -y": {
        "model": "meta-llama/Llama-3.1-8B", GPUS: 2, STEPS: 4, RANK: 8},
    'nemo llm finetune --factory "qwen3_30b_a3b(peft_scheme=none)" -y': {TYPE: None, TP: 4, PP: 2, GPUS: 8},
    "nemo llm pretrain -f mixtral_8x7b trainer.strategy.expert_model_parallel_size=4": {
        "parallelism.expert_parallel_size": 4, PP: 4, GPUS: 64, "hardware.gpus_per_node": 8},
    "nemo llm finetune -f llama3_8b peft=none": {TYPE: None, TP: 1},
    "nemo llm import model=llama3_8b source=hf://a/b\nsrun singularity exec --nv x.sif nemo llm finetune --factory "
    "llama3_8b peft.dim=16": {RANK: 16, GPUS: 8},
    "nemo llm finetune -f deepseek_v3": {"parallelism.pipeline_layout": [13, 12, 12, 12, 12], TP: 8, GPUS: 40},
}  # fmt: skip
REFUSED = {
    HEAD + PLAIN.format("finetune_recipe()", "recipe.trainer.strategy = 'auto'"): "trainer.strategy: found 'auto'",
    HEAD + PLAIN.format("pretrain_recipe()", "recipe.model.config.num_layers = 4"): r"config\.num_layers: found 4; it",
    HEAD + "run.run(llm.llama9_8b.pretrain_recipe())\n": "the recipe: found 'llama9_8b'; NeMo's recipes: ",
    HEAD + PLAIN.format("finetune_recipe(peft_scheme=sys.argv[1])", ""): "peft_scheme: found ",
    HEAD + PLAIN.format("pretrain_recipe()", "recipe.trainer.plugins = fp16_mixed()"): "trainer.plugins: found 'fp16_mixed'",
    HEAD + PLAIN.format("pretrain_recipe()", "if big:\n  recipe.data.micro_batch_size = 4"): r"found \$big",
    "nemo llm finetune peft=none": "--factory: is required",
    "nemo llm finetune -f hf_auto_model_for_causal_lm model_name=a/b": "found 'hf_auto_model_for_causal_lm'",
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text):
    found = imported(text)
    said = flat({"model": found.config["model"], **found.config})
    assert {path: said.get(path) for path in READ[text]} == READ[text]
    assert found.accounts.unknown == ()
    assert found.tool.title == "NeMo"


@pytest.mark.parametrize("text", REFUSED)
def test_refused_by_key(text):
    with pytest.raises(MemcoreError, match=REFUSED[text]):
        read_source(text)


def test_each_recipe_is_one_job():
    two = HEAD + "a = llm.llama3_8b.pretrain_recipe()\nb = llm.llama3_8b.finetune_recipe()\nrun.run(a)\nrun.run(b)\n"
    with pytest.raises(ConfigError, match="2 commands for 2 jobs"):
        imported(two)
    assert flat(imported(two, job=2).config)[RANK] == 8


def test_estimated():
    found = imported(HEAD + TUNED)
    answer = estimate(Config.from_dict(found.config))
    pairs = (4096 + 6144) + (4096 + 4096) + (4096 + 28672) + (14336 + 4096)
    assert answer.job.model.parameters == 8_030_261_248 + pairs * 8 * 32


def test_conditions_nobody_can_answer():
    code = "r = a.recipe(n=1)\nif x:\n  r.b.c = 1\nelse:\n  r.b.d = 2\nr.e = 3\ngo(r)"
    assert handed_over(code, ("recipe",)) == [{"()": "a.recipe", "n": 1, "b": {"c": "$x", "d": "$x"}, "e": 3}]
    code = "def f(a, b=2):\n  if a == 1:\n    return m.recipe(n=b)\n  return m.recipe(n=a)\nx = f(1)\ny = f(5)"
    assert [each["n"] for each in handed_over(code, ("recipe",))][:2] == [2, 5]


OVERLAPS = "recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback{}))"


@pytest.mark.parametrize(
    ("added", "overlaps"), [("", None), (OVERLAPS.format(""), False), (OVERLAPS.format(", tp_comm_overlap=True"), True)]
)
def test_callbacks_that_a_script_adds(added, overlaps):
    found = imported(HEAD + PLAIN.format("pretrain_recipe()", added)).config["engine"]
    assert (found.get("tp_comm_overlap"), found["overlap_grad_reduce"]) == (overlaps, True)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ("recipe.trainer.callbacks.append(run.Config(MegatronTokenDropCallback))", "dropped tokens"),
        ("recipe.trainer.plugins.fp8 = 'hybrid'", "fp8_param_gather"),
        ("recipe.trainer.plugins.fp8_dot_product_attention = True", "fp8_dot_product_attention"),
    ],
)
def test_what_a_script_changes_that_is_not_read(changed, why):
    with pytest.raises(MemcoreError, match=why):
        imported(HEAD + PLAIN.format("pretrain_recipe()", changed))


KEYS_READ = frozenset({
    "data.global_batch_size", "data.micro_batch_size", "data.packed_sequence_specs.packed_sequence_size",
    "data.seq_length", "model.config.()", "model.config.cross_entropy_loss_fusion",
    "model.config.recompute_granularity", "model.config.recompute_method", "model.config.recompute_modules",
    "model.config.recompute_num_layers", "model.config.tp_comm_overlap", "model.config.mtp_num_layers",
    "optim.config.exp_avg_dtype", "optim.config.exp_avg_sq_dtype", "optim.config.main_grads_dtype",
    "optim.config.main_params_dtype", "optim.config.use_distributed_optimizer",
    "optim.config.use_precision_aware_optimizer", "overlap.tp_comm_overlap", "peft.()", "peft.dim",
    "peft.target_modules", "trainer.devices", "trainer.num_nodes", "trainer.plugins.fp8",
    "trainer.plugins.fp8_param_gather", "trainer.plugins.fp8_recipe", "trainer.plugins.grad_reduce_in_fp32",
    "trainer.plugins.precision", "trainer.strategy.account_for_embedding_in_pipeline_split",
    "trainer.strategy.account_for_loss_in_pipeline_split", "trainer.strategy.context_parallel_size",
    "trainer.strategy.ddp.overlap_grad_reduce", "trainer.strategy.ddp.overlap_param_gather",
    "trainer.strategy.ddp.use_distributed_optimizer", "trainer.strategy.expert_model_parallel_size",
    "trainer.strategy.expert_tensor_parallel_size", "trainer.strategy.fsdp",
    "trainer.strategy.num_layers_in_first_pipeline_stage", "trainer.strategy.num_layers_in_last_pipeline_stage",
    "trainer.strategy.pipeline_model_parallel_size", "trainer.strategy.sequence_parallel",
    "trainer.strategy.tensor_model_parallel_size", "trainer.strategy.virtual_pipeline_model_parallel_size",
})  # fmt: skip
KEYS_OF_NO_ACCOUNT = {
    "data.packed_sequence_specs.()": "the class that holds the size",
    "data.seq_length_dec": "of T5, whose classes are refused",
    "data.tokenizer.0": "tokens", "data.tokenizer.library": "tokens", "data.tokenizer.model_name": "tokens",
    "data.tokenizer.use_fast": "tokens",
    "model.config.mtp_loss_scaling_factor": "a factor of the loss",
    "model.config.seq_length": "the data's length decides",
    "trainer.accumulate_grad_batches": "Megatron's own micro-batches decide",
    "trainer.logger": "logs",
    "trainer.plugins.fp8_amax_compute_algo": "some numbers per tensor", "trainer.plugins.fp8_margin": "a factor",
    "trainer.plugins.fp8_amax_history_len": "some numbers per tensor",
    "trainer.strategy.ddp.align_param_gather": "when messages are sent",
    "trainer.strategy.ddp.grad_reduce_in_fp32": "the precision plugin's holds",
    "trainer.strategy.save_ckpt_format": "files",
    "trainer.strategy.expert_tensor_model_parallel_size": "no field of the strategy (its own is without `model`)",
}  # fmt: skip
KEYS_REFUSED = ("add_bos.()", "add_eos.()", "negative_sample_strategy.()", "num_hard_negatives", "num_hard_negatives.()",
           "max_position_embeddings")  # fmt: skip
"""Fields of `model.config` that make another network of it."""


def test_every_key_of_the_recipes_is_accounted_for():
    rows = [section for row in recipes().values() for section in row.values() if isinstance(section, dict)]
    known = {*KEYS_READ, *KEYS_OF_NO_ACCOUNT, *(f"model.config.{name}" for name in KEYS_REFUSED)}
    assert {name for row in rows for name in row} == known
    assert len(known) == 67


RECIPE = """\
import nemo_run as run
import torch
from lightning.pytorch.callbacks.callback import Callback
from nemo import lightning as nl
from nemo.collections.llm.gpt.model.llama import Llama3Config8B, LlamaModel
from nemo.collections.llm.peft import PEFT_STR2CLS


@run.cli.factory(name="tiny")
def model() -> run.Config[object]:
    return run.Config(LlamaModel, config=run.Config(Llama3Config8B))


def trainer(tensor_parallelism: int = 2, num_gpus_per_node: int = 8) -> run.Config:
    strategy = run.Config(nl.MegatronStrategy, tensor_model_parallel_size=tensor_parallelism, ckpt_async_save=True)
    return run.Config(nl.Trainer, devices=num_gpus_per_node, strategy=strategy, log_every_n_steps=10, callbacks=[])


def pretrain_recipe(name: str = "default", performance_mode: bool = False) -> run.Partial:
    recipe = run.Partial(pretrain, model=model(), trainer=trainer(), data=run.Config(MockDataModule, seq_length=8192))
    if performance_mode:
        recipe.trainer.strategy.tensor_model_parallel_size = 4
    return recipe


def finetune_recipe(peft_scheme: str = "lora", packed_sequence: bool = False) -> run.Partial:
    recipe = run.Partial(pretrain, model=model(), trainer=trainer(), data=run.Config(MockDataModule, seq_length=2048))
    recipe.resume = run.Config(object, restore_config=run.Config(object, path="nemo://org/tiny"))
    if peft_scheme == "lora":
        recipe.peft = run.Config(PEFT_STR2CLS["lora"], dim=8)
    if packed_sequence:
        recipe.data.packed = True
    return recipe


pretrain = MockDataModule = type("MockDataModule", (), {})
"""
HARVEST = """\
import json, sys
sys.path.insert(0, sys.argv[2])
import harvest.nemo as harvest
sys.meta_path.insert(0, harvest._Finder())
print(json.dumps(harvest.harvested()))
"""


def test_recipes_are_harvested(tmp_path):
    """What a recipe's functions make, by kind; what is shared stands once, and what is silent nowhere."""
    folder = tmp_path / "nemo" / "collections" / "llm" / "recipes"
    folder.mkdir(parents=True)
    (folder / "tiny.py").write_text(RECIPE)
    root = Path(__file__).parent.parent
    ran = subprocess.run(
        [sys.executable, "-c", HARVEST, str(tmp_path), str(root)], capture_output=True, text=True, check=True, cwd=root
    )
    found = json.loads(ran.stdout)
    row = {kind: {**found[""][kind], **found["tiny"][kind]} for kind in ("pretrain", "lora", "none")}
    strategy, length = "trainer.strategy.tensor_model_parallel_size", "data.seq_length"
    assert found["tiny"]["hub"] == "org/tiny"
    assert found["tiny"]["pretrain+performance_mode"] == {strategy: 4}
    assert found["tiny"]["lora+packed_sequence"] == {"data.packed": True}
    assert (row["pretrain"][length], row["lora"][length], row["lora"]["peft.dim"]) == (8192, 2048, 8)
    assert {row[kind][strategy] for kind in row} == {2}
    assert row["none"].keys().isdisjoint({"peft.dim", "trainer.log_every_n_steps", "trainer.strategy.ckpt_async_save"})
