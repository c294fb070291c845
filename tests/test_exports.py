"""Files for other tools: their own parsers read them, they come back as the same job, and say what they cannot."""

import argparse
import csv
import io
import json
import re
import shlex
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import setting_values
from test_session import Visit

from memcore import Config, estimate
from memcore.config.engine import EngineSettings
from memcore.config.settings import SETTINGS
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError
from memcore.escaping import csv_line, in_markdown
from memcore.faces.cli import main
from memcore.faces.goals.tasks import TASKS, task_of, with_task
from memcore.formats.readers import flat, read_file
from memcore.formats.writing import as_json, as_toml, as_yaml, nested
from memcore.limits import GPUS
from memcore.memory.estimate import Estimate
from memcore.registry import SERVERS
from memcore.tools import TOOLS, exported, imported
from memcore.tools.vocabulary import vocabulary

pytestmark = pytest.mark.machine  # files are written alike everywhere; tests/test_session.py exports inside Pyodide

LLAMA = {"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 1000}  # fmt: skip
MEGATRON = {"model_type": "megatron", "num_layers": 4, "hidden_size": 128, "num_attention_heads": 4,
            "max_position_embeddings": 512, "vocab_size": 1024, "swiglu": True}  # fmt: skip
MODELS = {"megatron": MEGATRON, "megatron-fsdp": MEGATRON, "nanotron": LLAMA}
"""Models that the tools of these engines describe by their sizes; the others take a name."""
OF_TOOLS = {"nemo": "llama-3.1-8b", "nemo-rl": "llama-3.1-8b"}
"""Models of tools that take only names, or only those that they have recipes of."""
PAIRS = [(name, engine) for name, tool in TOOLS.items() if not tool.read_only for engine in tool.engines]
EXAMPLES = 10
"""Random jobs of each tool and engine; `python -m fuzzing --only trip` tries thousands, and checks more of each."""
FOLLOW = {
    "hardware.num_gpus": "sizes of groups",
    "parallelism.data_parallel_size": "GPUs and the other sizes",
    "parallelism.data_parallel_shard_size": "GPUs and the other sizes",
    "training.precision": "nanotron's dtype of summed gradients",
}
"""Settings that need not be said, and what says them."""


def content_of(text, syntax):
    """The keys of a file as its tool's own parser reads them."""
    if syntax == "json":
        return json.loads(text)
    if syntax == "toml":
        return pytest.importorskip("tomllib").loads(text)
    return pytest.importorskip("yaml").safe_load(text)


def arguments_of(tool, text):
    """The arguments of a command line as argparse reads them, behind the words of the program."""
    words = shlex.split(text.replace("\\\n", " "))
    parser = argparse.ArgumentParser(allow_abbrev=False)
    flags = {name: key for key in tool.keys for name in (key.name, key.off) if name and name.startswith("-")}
    flags |= {name: None for meaning in tool.meanings for name in meaning.keys}
    flags |= {name: None for name in (*tool.dimensions, tool.batch, tool.model, *tool.alongside) if name}
    flags |= {name: None for name, _ in tool.alongside.values()}
    flags |= dict.fromkeys(vocabulary(tool.vocabulary)) if tool.written else {}
    for name in (name for name in flags if name.startswith("-")):
        parser.add_argument(name, nargs="*")
    script = next((number for number, word in enumerate(words) if word.endswith(".py")), 0)
    first = next((number for number, word in enumerate(words) if number > script and word in flags), len(words))
    return parser.parse_args(words[first:])


def applies(path, engine):
    """Whether a setting is one of a job of the engine."""
    engines = SETTINGS[path].engines
    other = "training." if engine in SERVERS else "inference."
    return path not in ("model", "engine.type") and not path.startswith(other) and (not engines or engine in engines)


@st.composite
def jobs(draw, engine):
    """A job of an engine with any of its settings, also such as contradict each other."""
    config = Config({"model": MODELS.get(engine, "llama-3.1-8b")}).replaced("engine.type", engine)
    paths = [path for path in SETTINGS if applies(path, engine)]
    for path in draw(st.lists(st.sampled_from(paths), max_size=12, unique=True)):
        config = config.replaced(path, draw(setting_values(path)))
    taught = config.get("training.method.teacher") is not None
    assume(not (taught and config.get("training.loss") == "fused-linear"))  # TRL's file of these is refused
    return config


def of_loop(name, config):
    """The job of a tool that is a training loop of its own."""
    config = config.replaced("model", OF_TOOLS[name]) if name in OF_TOOLS else config
    for path, value in TOOLS[name].needs.items():
        config = config.replaced(path, value)
    for path in TOOLS[name].requires:
        config = config.replaced(path, config.get(path) or SETTINGS[path].kind.options[0])
    return config


def is_default(path, value):
    """Whether a value is what the schema's words for a missing setting begin with."""
    setting = SETTINGS[path]
    return setting.default.split(";")[0].split(",")[0] == setting.kind.spell(value)


SIZES = [f"parallelism.{each}_parallel_size" for each in ("data", "tensor", "pipeline", "context", "ulysses")]


@pytest.mark.parametrize(("name", "engine"), PAIRS)
def test_there_and_back(name, engine):
    """Each setting is read again as it was, or is named among those that are not."""

    @settings(max_examples=EXAMPLES)
    @given(jobs(engine))
    def check(config):
        config = of_loop(name, config)
        assume(prod(config.get(size) or 1 for size in SIZES) <= GPUS)  # a file says them as one number
        found = exported(config, name)
        back = Config.from_dict({"model": "gpt2", **imported(found.text).config})
        assert [each.partition(":")[0] for each in found.reasons] == list(found.left_out)
        wanted = TOOLS[name].wants(config) if TOOLS[name].wants else ()
        for path in (path for path in SETTINGS if config.get(path) is not None and path != "model"):
            value, again = config.get(path), back.get(path)
            if path in found.left_out:
                assert again != value or path in wanted, path
            elif again is None:
                does = {**TOOLS[name].unsaid, **TOOLS[name].defaults}
                usual = does.get(path) == value or is_default(path, value)
                assert usual or path in FOLLOW or path == "engine.type", path
            else:
                assert again == value, path

    check()


@pytest.mark.parametrize(("name", "engine"), PAIRS)
def test_their_own_parsers_read_it(name, engine):
    """A file means to a library what it means here; a command line has no argument that its tool does not know."""
    tool = TOOLS[name]

    @settings(max_examples=EXAMPLES)
    @given(jobs(engine))
    def check(config):
        written = exported(of_loop(name, config), name)
        text = written.text
        started = re.sub(r"^PYTORCH_CUDA_ALLOC_CONF=\S+ ", "", text)
        if written.syntax == "python":
            compile(text, written.file, "exec")
        elif tool.syntax == "argv":
            assert started.startswith(tool.program.split()[0]) or any(each in started for each in tool.prefixes)
            arguments_of(tool, text)
        elif tool.syntax == "overrides":
            assert started.startswith(tool.prefixes)
        elif tool.syntax == "modelfile":
            assert text.startswith("FROM ./")
            assert read_file(text)[0] == tool.syntax
        else:
            content = flat(content_of(text, tool.syntax))
            assert content
            assert content == read_file(text)[1]

    check()


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.booleans() | st.integers(-(2**60), 2**60) | NUMBERS | st.text(max_size=30)
CONTENTS = st.dictionaries(
    st.text(max_size=20) | st.sampled_from(["on", "No", "y", "1", "a-b", "null", "~", "a.b", "- a", "#", "a: b"]),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


@given(CONTENTS)
def test_whatever_is_written_is_read_by_libraries(content):
    """Nested tables, lists of tables, numbers with exponents, words that are keywords, and any letters."""
    for syntax, written in (("json", as_json), ("yaml", as_yaml), ("toml", as_toml)):
        assert content_of(written(content), syntax) == content


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": {"b": {"c": 1}}}, "[a.b]\nc = 1\n"),
        ({"linear": {"float8": {"recipe": "rowwise"}}}, '[linear.float8]\nrecipe = "rowwise"\n'),
        ({"a": {}, "b": [{"c": [1.5, True]}]}, "b = [{c = [1.5, true]}]\n\n[a]\n"),
        ({"a b": 1e-5, "c": 1e16, "d": None}, '"a b" = 1.0e-05\nc = 1.0e+16\n'),
        ({"a": '\x7f\n"\\ \U0001f600'}, 'a = "\\u007f\\n\\"\\\\ \U0001f600"\n'),
    ],
)
def test_toml(content, text):
    """Tables below tables have their own headings; TOML has no null."""
    assert as_toml(content) == text


def answered(config):
    """The bytes that a job needs, and what was assumed."""
    found = estimate(config)
    if isinstance(found, Estimate):
        size = found.allocated.expected
    else:
        size = sum(rank.ledger.total for rank in found.budget.ranks)
    return size, {each.path: each.value for each in found.assumptions}


SHARDS_SEVERAL = ("litgpt", "llm-foundry", "nemo-automodel")
"""Loops that shard nothing on a single GPU."""


@st.composite
def runs(draw, engine, name):
    """A job of an engine that makes sense, with a few settings that many tools have."""
    alone = [] if name in SHARDS_SEVERAL else [1]
    gpus = 1 if engine == "none" else draw(st.sampled_from([*alone, 2, 4, 16]))
    values = {"engine.type": engine, "hardware.num_gpus": gpus}
    for path, choices in (OF_SERVERS if engine in SERVERS else OF_TRAINING).items():
        if applies(path, engine) and draw(st.booleans()):
            values[path] = draw(st.sampled_from(choices))
    values.setdefault(LENGTHS[engine in SERVERS], 512)
    model = MODELS.get(engine, draw(st.sampled_from(["gpt2", "qwen3-0.6b"])))
    if name == "torchtitan":
        values["training.implementation"] = "torchtitan"
    model = "llama-3.1-8b" if name in ("torchtitan", "litgpt") else model
    config = Config({"model": model})
    for path, value in values.items():
        config = config.replaced(path, value)
    return of_loop(name, config)


LENGTHS = ("training.sequence_length", "inference.max_model_len")
OF_SERVERS = {
    "inference.max_model_len": [1024, 2048],
    "inference.kv_cache_dtype": ["auto", "fp8", "bf16"],
    "inference.quantization": ["fp8", "awq", "gptq", "nf4", "q8_0"],
    "inference.weight_dtype": ["bf16", "fp16"],
    "inference.batch_size": [1, 4],
    "inference.max_num_seqs": [16, 256],
    "parallelism.tensor_parallel_size": [1, 2],
    "engine.enforce_eager": [True, False],
    "engine.flash_attn": [True, False],
    "engine.kv_unified": [True, False],
    "engine.n_gpu_layers": [0, 4],
}
OF_TRAINING = {
    "training.micro_batch_size": [1, 2, 8],
    "training.gradient_accumulation_steps": [1, 4],
    "training.precision": ["fp32", "bf16", "bf16-mixed", "fp16-mixed"],
    "training.gradient_clipping": [True, False],
    "training.attention": ["sdpa", "flash", "math"],
    "training.implementation": ["transformers", "liger", "torchtitan"],
    "training.packed_sequences": [True, False],
    "training.activation_checkpointing.policy": ["none", "full", "selective"],
    "training.activation_checkpointing.use_reentrant": [True, False],
    "training.optimizer.name": ["adamw", "adamw-8bit", "adamw-4bit", "paged-adamw-8bit", "adafactor", "sgd", "lion"],
    "training.adapter.type": ["lora", "dora"],
    "training.adapter.rank": [8, 32],
    "training.adapter.target_modules": ["all-linear", ["q_proj", "v_proj"]],
    "training.quantization": ["nf4", "nf4-double", "int8"],
    "parallelism.data_parallel_shard_size": [1, 2],
    "parallelism.tensor_parallel_size": [1, 2],
    "parallelism.pipeline_layout": [[2, 2], [1, 3]],
    "engine.reshard_after_forward": [True, False],
    "engine.cpu_offload": [True, False],
    "engine.version": [1, 2],
    "engine.zero_stage": [0, 1, 2, 3],
    "engine.offload_optimizer": ["none", "cpu"],
    "engine.reduce_bucket_size": [10**6, 5 * 10**8],
    "engine.accumulate_grad_in_fp32": [True, False],
    "engine.distributed_optimizer": [True, False],
    "hardware.gpus_per_node": [4, 8],
}


@pytest.mark.parametrize(("name", "engine"), PAIRS)
def test_what_is_exported_runs_the_job_that_was_estimated(name, engine):
    """What is read again needs the same bytes, apart from settings of which it says that they are not carried."""
    compared = []

    @settings(max_examples=40)
    @given(runs(engine, name))
    def check(config):
        try:
            _, taken = answered(config)
        except MemcoreError:
            return
        found = exported(config, name, taken)
        back = imported(found.text).config
        again = Config.from_dict({"model": "gpt2", **back})
        for path in found.left_out:  # both jobs have what was read instead
            config = config.replaced(path, again.get(path)) if path != "model" else config
        if again.get("engine.framework") != config.get("engine.framework"):  # a loop that nobody named is the file's
            said = {path: value for path, value in again.values.items() if config.get(path) is None}
            config = Config({**config.values, **said})
        try:
            size, _ = answered(config)
        except MemcoreError:
            return
        model = config.model if "model" in found.left_out else back["model"]
        compared.append(size)
        assert answered(Config.from_dict({**back, "model": model}))[0] == size

    check()
    assert compared


def of(**sections):
    """A config from its sections."""
    return Config.from_dict({"model": "llama-3.1-8b", **sections})


EIGHT = {"num_gpus": 8, "accelerator": "h100-sxm-80gb"}
LORA = {"adapter": {"type": "lora", "rank": 16}, "sequence_length": 1024}
LINES = {
    "vllm serve on two GPUs": (
        of(engine={"type": "vllm"}, inference={"max_model_len": 4096}, hardware={**EIGHT, "num_gpus": 2}), None,
        ("  --tensor-parallel-size 2",)),
    "llama.cpp's file and GPUs": (
        of(engine={"type": "llama.cpp"}, inference={"max_model_len": 4096}, hardware={**EIGHT, "num_gpus": 2}), None,
        ("  -m ./Llama-3.1-8B-Q4_K_M.gguf", "  --device CUDA0,CUDA1")),
    "the Trainer's precision and launcher": (
        of(training={"sequence_length": 1024}, engine={"type": "fsdp"}, hardware=EIGHT), None,
        ("# run: torchrun --nnodes 1 --nproc_per_node 8 train.py --config trainer.yaml", "bf16: true",
         'optim: "adamw_torch_fused"', "gradient_checkpointing: false")),
    "an engine that was assumed": (
        of(training={"sequence_length": 1024}, hardware=EIGHT), None, ('fsdp: "full_shard auto_wrap"', "  version: 2")),
    "an optimizer without its implementation": (
        of(training={"sequence_length": 1024, "optimizer": {"name": "adamw-8bit"}}), None, ('optim: "adamw_bnb_8bit"',)),
    "TRL's samples of GRPO, which have no length of their own": (
        of(training={"sequence_length": 1024, "method": "grpo"}, hardware=EIGHT), "trainer",
        ("num_generations: 8", "max_prompt_length: 768", "max_completion_length: 256")),
    "TRL's pairs": (
        of(training={"sequence_length": 1024, "method": "dpo"}, hardware=EIGHT), "trainer", ("max_length: 1024", "beta: 0.1")),
    "axolotl on several nodes": (
        of(training=LORA, engine={"type": "ddp"}, hardware={**EIGHT, "num_gpus": 16}), "axolotl",
        ("# run: accelerate launch --num_machines 2 --num_processes 16 -m axolotl.cli.train axolotl.yaml",
         'adapter: "lora"', "lora_target_linear: true")),
    "axolotl's list of what FSDP is told": (
        of(training={"sequence_length": 1024, "method": "kto", "precision": "bf16"}, engine={"type": "fsdp"},
           hardware=EIGHT), "axolotl",
        ('fsdp: ["full_shard", "auto_wrap"]', 'rl: "kto"', "remove_unused_columns: false")),
    "LLaMA-Factory without an adapter": (
        of(training={"sequence_length": 1024}, hardware={"num_gpus": 1}), "llama-factory",
        ('finetuning_type: "full"', "disable_gradient_checkpointing: true", "pure_bf16: true")),
    "LLaMA-Factory's reward model, without which no PPO starts": (
        of(training={**LORA, "method": {"name": "ppo", "reward_model": True}}, engine={"framework": "llama-factory"},
           hardware={"num_gpus": 1}), "llama-factory",
        ('stage: "ppo"', 'reward_model: "saves/reward"', 'reward_model_type: "full"')),
    "LLaMA-Factory's names of layers": (
        of(training={**LORA, "adapter": {"type": "lora", "target_modules": ["q_proj", "v_proj"]}}), "llama-factory",
        ('lora_target: "q_proj,v_proj"',)),
    **{f"DeepSpeed inside {name}": (
        of(training={"sequence_length": 1024}, engine={"type": "deepspeed", "zero_stage": 3}, hardware=EIGHT), name,
        ("deepspeed:", "  zero_optimization:", "    stage: 3", '  train_micro_batch_size_per_gpu: "auto"', "bf16: true"))
       for name in ("axolotl", "llama-factory", "trainer")},
    "LitGPT's matrices with LoRA": (
        of(training={**LORA, "adapter": {"type": "lora", "target_modules": ["q_proj", "v_proj"], "dtype": "bf16"},
                     "loss": "chunked:8", "precision": "bf16", "optimizer": {"name": "adamw", "implementation": "foreach"}},
           engine={"framework": "lit-gpt"}, hardware={"num_gpus": 1}), "litgpt",
        ("# run: litgpt finetune_lora --config litgpt.yaml", 'checkpoint_dir: "checkpoints/meta-llama/Llama-3.1-8B"',
         "devices: 1", "lora_query: true", "lora_key: false", '  class_path: "torch.optim.AdamW"')),
    "OpenRLHF's loop of preferences": (
        of(training={"sequence_length": 1024, "method": "dpo", "precision": "bf16-mixed", "attention": "flash"},
           engine={"type": "deepspeed", "framework": "openrlhf", "zero_stage": 3, "hidden_size_buckets": True},
           hardware=EIGHT), "openrlhf",
        ("deepspeed --num_nodes 1 --num_gpus 8 --module openrlhf.cli.train_dpo", "  --ds.zero_stage 3",
         "  --model.model_name_or_path meta-llama/Llama-3.1-8B", "  --train.batch_size 8")),
    "OpenRLHF's actor, with nodes of its own": (
        of(training={"sequence_length": 1024, "method": {"name": "grpo", "completion_length": 1024},
                     "precision": "bf16-mixed", "attention": "flash", "activation_checkpointing": "full"},
           engine={"type": "deepspeed", "framework": "openrlhf", "zero_stage": 3, "hidden_size_buckets": True},
           hardware=EIGHT), "openrlhf",
        ("python3 -m openrlhf.cli.train_ppo_ray", "  --actor.num_gpus_per_node 8", "  --actor.num_nodes 1",
         "  --actor.gradient_checkpointing_enable", "  --algo.advantage.estimator group_norm")),
    "torchtune's components with LoRA on a GPU": (
        of(training={**LORA, "adapter": {"type": "lora", "target_modules": ["q_proj", "o_proj"]}},
           engine={"framework": "torchtune"}, hardware={"num_gpus": 1}), "torchtune",
        ("# run: tune run lora_finetune_single_device --config torchtune.yaml",
         '  _component_: "torchtune.models.llama3_1.lora_llama3_1_8b"',
         '  lora_attn_modules: ["q_proj", "output_proj"]', "  apply_lora_to_mlp: false",
         '  _component_: "torchtune.models.llama3.llama3_tokenizer"', '  model_type: "LLAMA3"', "  fused: true")),
    "torchtune's QLoRA": (
        of(training={**LORA, "quantization": "nf4-double", "loss": "chunked:8"}, engine={"framework": "torchtune"},
           hardware={"num_gpus": 1}), "torchtune",
        ('  _component_: "torchtune.models.llama3_1.qlora_llama3_1_8b"', "  apply_lora_to_mlp: true",
         '  _component_: "torchtune.modules.loss.CEWithChunkedOutputLoss"')),
    "torchtune's preferences on all GPUs": (
        of(training={"sequence_length": 1024, "method": "dpo", "precision": "bf16"},
           engine={"type": "fsdp", "framework": "torchtune"}, hardware=EIGHT), "torchtune",
        ("# run: tune run --nnodes 1 --nproc_per_node 8 full_dpo_distributed --config torchtune.yaml",
         "ref_checkpointer:", '  _component_: "torchtune.rlhf.loss.DPOLoss"')),
    "torchtune's quantization-aware training": (
        of(training={"sequence_length": 1024, "fake_quantization": "int8-int4", "precision": "bf16"},
           engine={"type": "fsdp", "framework": "torchtune"}, hardware=EIGHT), "torchtune",
        ("# run: tune run --nnodes 1 --nproc_per_node 8 qat_distributed --config torchtune.yaml",
         '  _component_: "torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer"')),
    "torchtune's teacher": (
        of(training={**LORA, "method": {"name": "distill", "teacher": "meta-llama/Llama-3.1-70B"}, "loss": "chunked:8"},
           engine={"framework": "torchtune"}, hardware={"num_gpus": 1}), "torchtune",
        ("# run: tune run knowledge_distillation_single_device --config torchtune.yaml",
         '  _component_: "torchtune.models.llama3_1.llama3_1_70b"', '    max_filename: "00030"',
         '  _component_: "torchtune.modules.loss.ForwardKLWithChunkedOutputLoss"')),
    "accelerate's version of FSDP": (
        of(training={"sequence_length": 1024}, engine={"type": "fsdp"}, hardware=EIGHT), "accelerate",
        ("num_processes: 8", "  fsdp_version: 2", 'mixed_precision: "bf16"')),
    "DeepSpeed's batch and clipping": (
        of(training={"sequence_length": 1024, "micro_batch_size": 2}, engine={"type": "deepspeed"}, hardware=EIGHT),
        None, ('  "train_batch_size": 16', '  "gradient_accumulation_steps": 1', '  "gradient_clipping": 1.0')),
    "Megatron's launcher and stages": (
        Config.from_dict({"model": MEGATRON, "training": {"sequence_length": 128}, "engine": {"type": "megatron"},
                          "parallelism": {"pipeline_parallel_size": 2, "pipeline_layout": [1, 3]},
                          "hardware": {"num_gpus": 16}}), None,
        ("torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py", "  --micro-batch-size 1",
         "  --pipeline-model-parallel-layout 'Et*1|t*3L'")),
    "Megatron's sizes of a model by name": (
        of(training={"sequence_length": 1024}, engine={"type": "megatron"}, hardware=EIGHT), None,
        ("  --num-layers 32", "  --hidden-size 4096", "  --ffn-hidden-size 14336", "  --num-query-groups 8",
         "  --group-query-attention", "  --vocab-size 128256", "  --untie-embeddings-and-output-weights",
         "  --tokenizer-model meta-llama/Llama-3.1-8B")),
    "Megatron's experts of a model by name": (
        Config.from_dict({"model": "deepseek-ai/DeepSeek-V2-Lite", "training": {"sequence_length": 1024},
                          "engine": {"type": "megatron"}}), None,
        ("  --multi-latent-attention", "  --kv-lora-rank 512", "  --num-experts 64", "  --moe-ffn-hidden-size 1408",
         "  --moe-layer-freq '([0]*1+[1]*26)'", "  --moe-shared-expert-intermediate-size 2816")),
    "nanotron's sizes of a model by name": (
        of(training={"sequence_length": 1024}, engine={"type": "nanotron"}, hardware=EIGHT), None,
        ("    num_hidden_layers: 32", "    intermediate_size: 14336")),
    "NeMo's recipe with what a job overrides": (
        of(training=LORA, engine={"type": "megatron", "framework": "nemo"}, hardware=EIGHT), "nemo",
        ("nemo llm finetune", """  --factory 'llama31_8b(peft_scheme="lora")'""", "  trainer.devices=8",
         "  data.seq_length=1024", "  peft.dim=16", "  model.config.cross_entropy_loss_fusion=True")),
    "NeMo's pretraining with FP8": (
        of(training={"sequence_length": 1024, "precision": "fp8-mixed"}, hardware={**EIGHT, "num_gpus": 16},
           engine={"type": "megatron", "framework": "nemo", "fp8_recipe": "tensorwise"}), "nemo",
        ("nemo llm pretrain", "  --factory llama31_8b", "  trainer.num_nodes=2", "  trainer.plugins.fp8=hybrid",
         "  trainer.plugins.fp8_recipe=tensorwise")),
    "NeMo RL's preferences under FSDP2": (
        of(training={**LORA, "method": {"name": "dpo", "reference": "precomputed"}, "attention": "flash"},
           engine={"type": "fsdp", "framework": "nemo-rl"}, hardware=EIGHT), "nemo-rl",
        ("# run: uv run examples/run_dpo.py --config examples/configs/nemo-rl.yaml", 'defaults: "dpo.yaml"',
         '    name: "torch.optim.AdamW"', "      dim: 16", "  gpus_per_node: 8")),
    "NeMo RL's Megatron": (
        of(training={"sequence_length": 1024}, engine={"type": "megatron", "framework": "nemo-rl"},
           parallelism={"tensor_parallel_size": 2}, hardware=EIGHT), "nemo-rl",
        ('defaults: "sft.yaml"', "    tensor_model_parallel_size: 2", "      grad_reduce_in_fp32: true")),
    "Megatron-SWIFT's fields of Megatron-Core's config": (
        of(training={"sequence_length": 1024, "dropout": {"hidden": 0.1}, "attention": "flash"}, hardware=EIGHT,
           engine={"type": "megatron", "framework": "ms-swift", "deterministic_mode": True}), None,
        ("megatron_extra_kwargs:", "  hidden_dropout: 0.1", "  deterministic_mode: true")),
    "verl with Megatron, which Hydra composes": (
        of(training={"sequence_length": 1024, "attention": "flash"}, hardware=EIGHT,
           engine={"type": "megatron", "framework": "verl"}), "verl-megatron",
        ('defaults: ["ppo_megatron_trainer", "_self_"]', '  searchpath: ["pkg://verl.trainer.config"]')),
    "verl's supervised trainer of today": (
        of(training={"sequence_length": 1024, "attention": "flash", "loss": "fused-linear"}, hardware=EIGHT,
           engine={"type": "fsdp", "framework": "verl"}), "verl-sft",
        ("# run: torchrun --nnodes 1 --nproc_per_node 8 -m verl.trainer.sft_trainer --config-path=$PWD "
         "--config-name=verl-sft.yaml", 'defaults: ["sft_trainer_engine", "_self_"]', '  strategy: "fsdp2"',
         "  use_dynamic_bsz: false")),
    "Megatron's way to recompute all": (
        Config.from_dict({"model": MEGATRON, "engine": {"type": "megatron"},
                          "training": {"sequence_length": 128, "activation_checkpointing": "full"}}), None,
        ("  --recompute-granularity full", "  --recompute-method uniform", "  --recompute-num-layers 1")),
    "Ollama's file of a job that names Ollama": (
        of(engine={"type": "llama.cpp", "fork": "ollama"}, inference={"max_model_len": 4096}), None,
        ("FROM ./Llama-3.1-8B-Q4_K_M.gguf", "PARAMETER num_ctx 4096")),
    "nanotron's sizes": (
        Config.from_dict({"model": LLAMA, "training": {"sequence_length": 128}, "engine": {"type": "nanotron"},
                          "hardware": {"num_gpus": 8}, "parallelism": {"tensor_parallel_size": 2}}), None,
        ("  dp: 4", "  tp: 2", "  pp: 1", "  micro_batch_size: 1")),
}  # fmt: skip
"""A job, the tool if it is not the job's own, and lines of its file."""


LOOPS_OF_THEIR_OWN = {
    "Automodel's adapter and packed sequences": (
        of(training={**LORA, "packed_sequences": True}, engine={"type": "fsdp", "framework": "nemo-automodel"},
           hardware=EIGHT), "nemo-automodel",
        ("# run: torchrun --nnodes 1 --nproc_per_node 8 -m nemo_automodel.cli.app nemo-automodel.yaml",
         '  strategy: "fsdp2"', "  match_all_linear: true", "  packed_sequence_size: 1024")),
    "Megatron Bridge's sections": (
        of(training={"sequence_length": 1024},
           engine={"type": "megatron", "framework": "megatron-bridge", "distributed_optimizer": True,
                   "grad_reduce_in_bf16": True}, parallelism={"tensor_parallel_size": 2},
           hardware=EIGHT), "megatron-bridge",
        ("model:", "  tensor_model_parallel_size: 2", "  use_distributed_optimizer: true",
         "  grad_reduce_in_fp32: false", '  hf_model_id: "meta-llama/Llama-3.1-8B"', 'mixed_precision: "bf16_mixed"')),
    "Megatron-LM's YAML": (
        Config.from_dict({"model": MEGATRON, "training": {"sequence_length": 128}, "engine": {"type": "megatron"},
                          "parallelism": {"tensor_parallel_size": 2}, "hardware": {"num_gpus": 8}}), "megatron-yaml",
        ("model_parallel:", "  tensor_model_parallel_size: 2", '  activation_func: "swiglu"')),
    "LLM Foundry's FSDP": (
        of(training={"sequence_length": 1024}, engine={"type": "fsdp", "framework": "llm-foundry"}, hardware=EIGHT),
        "llm-foundry",
        ("# run: composer --nproc 8 --world_size 8 train.py llm-foundry.yaml", '  sharding_strategy: "FULL_SHARD"',
         '  attn_implementation: "sdpa"')),
    "an adapter of PEFT": (
        of(training={"adapter": {"type": "dora", "rank": 16}, "sequence_length": 1024}), "peft",
        ('  "peft_type": "LORA"', '  "use_dora": true', '  "r": 16', '  "target_modules": "all-linear"')),
    "EasyR1's actor": (
        of(training={"sequence_length": 1024, "method": "grpo"}, engine={"type": "fsdp", "framework": "verl"},
           hardware=EIGHT), "easyr1",
        ("    global_batch_size: 8", "    micro_batch_size_per_device_for_update: 1", "  n_gpus_per_node: 8")),
}  # fmt: skip
"""The same for loops that leave more of a job to themselves."""


@pytest.mark.parametrize("case", LOOPS_OF_THEIR_OWN)
def test_files_of_loops_of_their_own(case):
    """Their own keys, and how they are started."""
    config, to, lines = LOOPS_OF_THEIR_OWN[case]
    found = exported(config, to, answered(config)[1])
    assert set(lines) <= {each.rstrip(" \\,") for each in found.text.splitlines()}
    assert imported(found.text).tool.name == to


@pytest.mark.parametrize("case", LINES)
def test_what_is_said(case):
    """What was assumed and is not what the tool does, and how it is started on all GPUs."""
    config, to, lines = LINES[case]
    found = exported(config, to, answered(config)[1])
    assert set(lines) <= {each.rstrip(" \\,") for each in found.text.splitlines()}
    without = {"model", "training.sequence_length"} if found.tool.name in ("accelerate", "deepspeed") else set()
    assert set(found.left_out) <= {"hardware.accelerator", *without}


TITAN = {"sequence_length": 1024, "micro_batch_size": 2, "implementation": "torchtitan"}
SHARDED = {"type": "fsdp"}
SCRIPTS = {
    "torchtitan's function of a flavor, copies of shards and float8": (
        of(training={**TITAN, "precision": "fp8-mixed"}, engine=SHARDED, parallelism={"data_parallel_shard_size": 4},
           hardware=EIGHT), "torchtitan",
        ("-m torchtitan.train --module torchtitan_job --config llama3_8b", "def llama3_8b() -> Trainer.Config:",
         "flavor='8B',", "num_tokens_per_microbatch_per_dp_rank=2048", "max_context_length=1024",
         "data_parallel_shard_degree=4", "data_parallel_replicate_degree=2", "Float8LinearConverter.Config(",
         "activation_checkpoint=None,")),
    "torchtitan's function while micro-batches were of sequences": (
        of(training=TITAN, engine={**SHARDED, "framework": "torchtitan", "framework_version": "395833a"},
           hardware=EIGHT), "torchtitan",
        ("local_batch_size=2", "seq_len=1024", "def llama3_8b() -> Trainer.Config:")),
    "torchtitan's file of an earlier release": (
        of(training={**TITAN, "precision": "fp8-mixed"}, parallelism={"data_parallel_shard_size": 4}, hardware=EIGHT,
           engine={**SHARDED, "enable_fsdp_float8_all_gather": True, "framework": "torchtitan",
                   "framework_version": "v0.2.2"}), "torchtitan",
        ("--job.config_file torchtitan.toml", 'flavor = "8B"', "data_parallel_shard_degree = 4",
         "data_parallel_replicate_degree = 2", "[quantize.linear.float8]", "enable_fsdp_float8_all_gather = true",
         'converters = ["quantize.linear.float8"]')),
    "Unsloth's script of LoRA in 4 bits": (
        of(training={**LORA, "quantization": "nf4-double", "activation_checkpointing": {"policy": "full"},
                     "offload": {"activations": "cpu"}},
           engine={"framework": "unsloth"}, hardware={"num_gpus": 1}), "unsloth",
        ("from unsloth import FastLanguageModel", "load_in_4bit=True,", "FastLanguageModel.get_peft_model(",
         "use_gradient_checkpointing='unsloth',", "args=SFTConfig(", "trainer.train()")),
    "Unsloth's script of a full fine-tune by another method": (
        of(training={"sequence_length": 1024, "precision": "bf16", "method": {"name": "dpo"}},
           engine={"framework": "unsloth"}, hardware={"num_gpus": 1}), "unsloth",
        ("full_finetuning=True,", "load_in_4bit=False,", "trainer = DPOTrainer(", "args=DPOConfig(")),
}  # fmt: skip


@pytest.mark.parametrize("case", SCRIPTS)
def test_what_a_release_reads(case):
    """A module where torchtitan reads one (its 9810191), a file before; a script where there is nothing else."""
    config, to, lines = SCRIPTS[case]
    found = exported(config, to, answered(config)[1])
    assert [line for line in lines if line not in found.text] == []
    assert found.file.endswith("_job.py" if found.syntax == "python" else ".toml")
    assert imported(found.text).tool.name == to


def test_no_recomputation_is_no_flag_of_megatron():
    """`--recompute-granularity` is full or selective (Megatron-LM, megatron/training/arguments.py)."""
    job = {"sequence_length": 128, "activation_checkpointing": "none"}
    found = exported(Config.from_dict({"model": MEGATRON, "training": job, "engine": {"type": "megatron"}}))
    assert "--recompute" not in found.text
    assert found.left_out == ()


def test_a_loss_that_is_not_compiled_compiles_no_blocks():
    """A key that says two settings is not written where one of them is known to be something else."""
    job = {"model": LLAMA, "engine": {"type": "fsdp"}, "training": {"compile_loss": False, "sequence_length": 64},
           "hardware": {"num_gpus": 4}}  # fmt: skip
    config = Config.from_dict(job)
    _, taken = answered(config)
    assert taken[Training.compile] is False
    written = exported(config, "torchtitan", taken)
    assert "[compile]" not in written.text
    assert Training.compile_loss in written.left_out
    compiled = exported(config.replaced(Training.compile, True), "torchtitan", taken)
    assert imported(compiled.text).config["training"]["compile_loss"] is False


def test_micro_batches_of_accelerate():
    """Its file has them for DeepSpeed alone, and is refused with the key elsewhere (`ClusterConfig`)."""
    config = of(engine={"type": "fsdp"}, training={"gradient_accumulation_steps": 4}, hardware=EIGHT)
    found = exported(config, "accelerate")
    assert "gradient_accumulation_steps" not in found.text
    assert (
        "training.gradient_accumulation_steps: set ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 in the environment"
        in found.reasons
    )
    sharded = exported(config.replaced("engine.type", "deepspeed"), "accelerate").text
    assert content_of(sharded, "yaml")["deepspeed_config"]["gradient_accumulation_steps"] == 4


@pytest.mark.parametrize(
    ("name", "engine", "parallelism", "whole"),
    [
        ("megatron-swift", "megatron", {}, "global_batch_size: 3"),
        ("openrlhf", "deepspeed", {"ulysses_parallel_size": 3}, "--train.batch_size 3"),
        ("nemo-automodel", "fsdp", {"data_parallel_size": 1}, "global_batch_size: 3"),
    ],
)
def test_a_batch_is_one_that_the_gpus_of_the_file_divide(name, engine, parallelism, whole):
    """A tool's own batch would not be, nor one over ranks that its file has no key for."""
    config = of(engine={"type": engine}, hardware={"num_gpus": 3}, training={"sequence_length": 64})
    for path, value in parallelism.items():
        config = config.replaced(f"parallelism.{path}", value)
    found = exported(of_loop(name, config), name)
    assert whole in found.text
    assert imported(found.text).config["training"]["gradient_accumulation_steps"] == 1


DESCRIBED = [
    *((engine, name)
      for engine in ("megatron", "megatron-yaml")
      for name in ("gpt2", "Qwen/Qwen2.5-0.5B", "qwen3-0.6b", "google/gemma-2b",
                   "Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1",
                   "deepseek-ai/DeepSeek-V2-Lite", "zai-org/GLM-4.5-Air", "facebook/opt-125m")),
    *(("nanotron", name) for name in ("llama-3.1-8b", "Qwen/Qwen2.5-0.5B", "HuggingFaceTB/SmolLM3-3B", "qwen3-0.6b")),
]  # fmt: skip
NOT_DESCRIBED = {"google/gemma-2b", "facebook/opt-125m", ("nanotron", "qwen3-0.6b")}
"""Scaled embeddings and ReLU, which no argument says; norms of queries, which nanotron lacks."""


@pytest.mark.parametrize(("name", "model"), DESCRIBED)
def test_a_model_by_name_is_written_with_its_sizes(name, model):
    """Read again, they are a network that needs the same bytes; what sizes cannot describe is said to be left out."""
    config = Config.from_dict({
        "model": model, "training": {"sequence_length": 256}, "engine": {"type": name.removesuffix("-yaml")},
        "hardware": {"num_gpus": 2},
    })  # fmt: skip
    try:
        size, taken = answered(config)
    except MemcoreError:
        assert {model, (name, model)} & NOT_DESCRIBED
        return
    found = exported(config, name, taken)
    assert ("model" in found.left_out) == bool({model, (name, model)} & NOT_DESCRIBED)
    if "model" not in found.left_out:
        back = imported(found.text)
        assert back.unknown in ((), ("--moe-router-group-topk", "--moe-router-num-groups"))
        assert answered(Config.from_dict(back.config))[0] == size


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, ("adamw", "for-loop")), ({"policy.optimizer.kwargs.foreach": None}, ("adamw", "foreach")),
        ({"policy.optimizer.kwargs.fused": True}, ("adamw", "fused")),
        ({"policy.optimizer.name": "torch.optim.SGD"}, ("sgd", "for-loop")),
        ({"policy.optimizer.name": "torch.optim.NAdam"}, None),
    ],
)  # fmt: skip
def test_nemo_rls_optimizer_is_the_class_that_its_file_names(change, found):
    """With the kernel that its arguments ask for; AdamW of one parameter at a time in all of its complete configs."""
    job = {"type": "fsdp", "framework": "nemo-rl"}
    config = of(training={"sequence_length": 64}, engine=job, hardware={"num_gpus": 1})
    base = {"policy.optimizer.kwargs.fused": False, "policy.optimizer.kwargs.foreach": False, "defaults": None}
    keys = {**flat(content_of(exported(config, "nemo-rl").text, "yaml")), **base, **change}
    text = as_yaml(nested({name: value for name, value in keys.items() if value is not None}))
    if found is None:
        with pytest.raises(MemcoreError, match="policy.optimizer.name: found 'torch.optim.NAdam'; supported: "):
            imported(text)
    else:
        back = Config.from_dict(imported(text).config)
        assert (back["training.optimizer.name"], back["training.optimizer.implementation"]) == found


def test_a_model_without_a_recipe_is_no_job_of_nemos():
    """Its command names a recipe, which is a model's."""
    config = of(training={"sequence_length": 64}, engine={"type": "megatron", "framework": "nemo"})
    with pytest.raises(ConfigError, match="model: found 'gpt2'; NeMo has no recipe for it"):
        exported(config.replaced("model", "gpt2"), "nemo")


def test_groups_of_heads_need_no_switch_in_megatrons_yaml():
    """They are a field of its config there (yaml_arguments.py, `core_transformer_config_from_yaml`)."""
    text = "language_model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, num_query_groups: 2}\n"
    assert imported(text).config["model"]["num_query_groups"] == 2


def test_a_command_without_arguments():
    """A model that no command line can name leaves the program alone, which is read."""
    config = Config.from_dict({"model": LLAMA, "engine": {"type": "tensorrt-llm"}})
    written = exported(config)
    assert (written.text, written.left_out) == ("trtllm-serve\n", ("model",))
    assert imported(written.text).tool.name == "tensorrt-llm"


def test_what_is_not_said_has_a_reason(tmp_path, capsys):
    """A setting without a key, a value without a word, and GPUs of a file that has no comments."""
    job = {
        "model": "llama-3.1-8b",
        "training": {"loss": "chunked:8", "sequence_length": 64, "optimizer": {"name": "soap"}},
        "engine": {"type": "deepspeed"},
        "hardware": {"num_gpus": 2},
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    assert main(["convert", str(path), "--to", "trainer"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "note: training.optimizer.name: transformers.TrainingArguments and TRL cannot set it to 'soap' next to the other "
        "settings"
    )
    assert main(["convert", str(path)]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "note: run: deepspeed --num_nodes 1 --num_gpus 2 train.py --deepspeed deepspeed.json"
    )


@pytest.mark.parametrize("layout", [[1, 3], [2, 2], [3, 1], [2, 0, 2, 0]])
def test_layouts_in_either_form(layout):
    """Numbers of layers and Megatron's text of them are the same pipeline."""
    text = {4: "Et*2||t*2|L"}.get(len(layout), f"Et*{layout[0]}|t*{layout[-1]}L")
    job = {
        "model": MEGATRON,
        "training": {"sequence_length": 128, "gradient_accumulation_steps": 4},
        "engine": {"type": "megatron"},
        "parallelism": {"pipeline_parallel_size": len(layout)},
        "hardware": {"num_gpus": len(layout)},
    }
    parallel = job["parallelism"]
    sizes = {
        answered(Config.from_dict({**job, "parallelism": {**parallel, "pipeline_layout": each}}))[0]
        for each in (layout, text)
    }
    assert len(sizes) == 1


FILES = {
    "none": ("trainer.yaml", "application/yaml"),
    "ddp": ("trainer.yaml", "application/yaml"),
    "fsdp": ("trainer.yaml", "application/yaml"),
    "deepspeed": ("deepspeed.json", "application/json"),
    "megatron-deepspeed": ("deepspeed.json", "application/json"),
    "megatron": ("megatron.sh", "text/x-shellscript"),
    "megatron-fsdp": ("megatron.sh", "text/x-shellscript"),
    "nanotron": ("nanotron.yaml", "application/yaml"),
    "transformers": ("generate_job.py", "text/x-python"),
    "vllm": ("vllm.sh", "text/x-shellscript"),
    "sglang": ("sglang.sh", "text/x-shellscript"),
    "tensorrt-llm": ("tensorrt-llm.sh", "text/x-shellscript"),
    "tgi": ("tgi.sh", "text/x-shellscript"),
    "lmdeploy": ("lmdeploy.sh", "text/x-shellscript"),
    "llama.cpp": ("llama.cpp.sh", "text/x-shellscript"),
}
"""What a job's own file is called, by engine; a script of one's own has none."""


def test_every_engine_has_a_row():
    """No engine is forgotten here."""
    assert list(FILES) == sorted(FILES, key=SETTINGS["engine.type"].kind.options.index)
    assert set(FILES) == set(SETTINGS["engine.type"].kind.options)


@pytest.mark.parametrize("engine", FILES)
def test_the_dialog_of_every_engine_opens(engine):
    """With everything that can be taken away, and the tool's file under its own name."""
    length = "max-len=1024" if engine in SERVERS else "seq=128"
    visit = Visit(f"#v1&model=llama-3.1-8b&{length}&engine={engine}&accelerator=h100-sxm-80gb&gpus=1")
    assert visit.session.config[EngineSettings.type] == engine
    visit.do("exports", base="https://example.org/")
    assert visit.last("open") == "exports"
    kinds = {kind for kind in ("flags", "cli", "python", "markdown", "json", "csv")
             if f'id="export-{kind}"' in visit.html["exports-list"]}  # fmt: skip
    assert kinds == {"cli", "python", "markdown", "json", "csv", *(["flags"] if FILES[engine] else [])}
    if FILES[engine]:
        visit.do("export", kind="flags", way="save", base="https://example.org/")
        saved = visit.last("download")
        assert (saved["name"], saved["type"]) == FILES[engine]
        assert saved["text"]


@pytest.mark.parametrize("task", TASKS)
def test_the_dialog_of_every_task_opens(task):
    """From the example, as the page's menu changes it."""
    visit = Visit()
    visit.do("edit", texts=with_task(visit.texts, task), entry=1).do("exports", base="https://example.org/")
    assert task_of(visit.texts) == task
    assert visit.last("open") == "exports"


@pytest.mark.parametrize(
    ("link", "tools"),
    [
        (
            "",
            {
                "peft": "peft.json",
                "llama-factory-v1": "llama-factory-v1.yaml",
                "axolotl": "axolotl.yaml",
                "ms-swift": "ms-swift.yaml",
                "llama-factory": "llama-factory.yaml",
            },
        ),
        (
            "#v1&model=llama-3.1-8b&seq=128&engine=megatron&accelerator=h100-sxm-80gb&gpus=8",
            {"megatron-yaml": "megatron-yaml.yaml"},
        ),
        ("#v1&model=llama-3.1-8b&max-len=1024&engine=vllm&accelerator=h100-sxm-80gb&gpus=1", {}),
    ],
)
def test_every_tool_that_runs_the_job_gets_its_file(link, tools):
    """Next to the tool of the job's own; read again, it is the same job."""
    visit = Visit(link).do("exports", base="https://example.org/")
    offered = [name for name in TOOLS if f'id="export-{name}"' in visit.html["exports-list"]]
    assert offered == list(tools)
    for name, file in tools.items():
        visit.do("export", kind=name, way="save", base="https://example.org/")
        saved = visit.last("download")
        assert saved["name"] == file
        back = imported(saved["text"]).config["training"]
        assert back.get("adapter", {}).get("rank") == (None if "engine=megatron" in link else 16)
        if name != "peft":  # an adapter's file says nothing of the run
            assert back["sequence_length"] == visit.session.config[Training.sequence_length]


HOSTILE = "https://example.org/memcore/?a=,=HYPERLINK(1);@SUM(1)%0a&b=%22,+1|[x](y)<img>`"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_page_address_cannot_write_formulas(separator):
    """Whatever somebody adds to the page's address, and however a spreadsheet cuts lines into cells."""
    visit = Visit().do("export", kind="csv", way="copy", base=HOSTILE)
    rows = list(csv.reader(io.StringIO(visit.last("copy")), delimiter=separator))
    assert len(rows) > 10
    assert [cell for row in rows for cell in row if cell.lstrip()[:1] in {"=", "+", "-", "@"}] == []
    for kind in ("markdown", "cli", "python", "flags", "json", "csv"):
        visit.do("export", kind=kind, way="copy", base=HOSTILE)
        assert f"https://example.org/memcore/#{visit.session.fragment}" in visit.last("copy")
        assert "HYPERLINK" not in visit.last("copy")


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"), ("+1+1", "'+1+1"), ("-1+1", "'-1+1"), ("@SUM(1)", "'@SUM(1)"), ("\tx", "'\tx"),
        ("\rx", '"\'\nx"'), ("a\r=1", '"a\n\'=1"'), (" =1", "' =1"), ("\uff1d1", "'\uff1d1"), ("--tp 8", "'--tp 8"), ("-", "'-"),
        ("a;=1", "a;'=1"), ("a; -b", "a; '-b"), ("-5", "-5"), ("+1.5e-3", "+1.5e-3"), (-5, "-5"), ("-.5", "-.5"),
        ("-5%", "-5%"), ("a=b", "a=b"), ("2 - 1", "2 - 1"), ("", '""'), (None, '""'), (True, "True"),
        ('a "b", c', '"a ""b"", c"'),
    ],
)  # fmt: skip
def test_cells(cell, written):
    """What a spreadsheet would calculate is text, and numbers stay numbers."""
    assert csv_line([cell]) == f"{written}\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", r"a\|b"), ("`x`", r"\`x\`"), ("[a](b)", r"\[a\](b)"), ("![a](b)", r"\!\[a\](b)"), ("<b>", "&lt;b&gt;"),
        ("a & b", "a &amp; b"), ("a\n\n# b", r"a \# b"), ("*a* _b_ ~c~", r"\*a\* \_b\_ \~c\~"), ("\\|", r"\\\|"),
        ("@all", "&#64;all"), ("38.5 GiB (35%).", "38.5 GiB (35%)."),
    ],
)  # fmt: skip
def test_markdown(text, written):
    """Signs of Markdown and of HTML are letters, and a text is one line."""
    assert in_markdown(text) == written


def test_a_report_holds_any_config():
    """A model's own description may contain what ends a block of code, a link or a row."""
    model = {**LLAMA, "_name_or_path": "a```\n<img src=x>|[b](c)"}
    visit = Visit().do("edit", texts={"model-json": json.dumps(model), "training.sequence_length": "64"}, entry=1)
    text = visit.do("report", base="https://example.org/").last("copy")
    before, fence, block = text.partition("\n````json\n")
    assert fence
    assert "<img" not in before
    assert json.loads(block.removesuffix("````\n"))["model"] == model


def test_tables_of_the_command_line_hold_no_formulas(capsys):
    """Advice begins with flags, which a spreadsheet would take for sums."""
    assert main(["advise", "--model", "llama-3.1-8b", "--seq", "8192", "--gpus", "8", "--accelerator",
                 "h100-sxm-80gb", "--csv"]) in (0, 1)  # fmt: skip
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert any(cell.startswith("'--") for row in rows for cell in row)
    assert [cell for row in rows for cell in row if cell[:1] in {"=", "@"} or cell.startswith("--")] == []


def test_sequences_are_shared_within_tensor_parallelism():
    """vLLM's decode context parallelism takes no GPUs of its own (vllm, config/parallel.py)."""
    sizes = {"tensor_parallel_size": 4, "context_parallel_size": 2}
    served = {"model": "qwen3-8b", "engine": {"type": "vllm"}, "parallelism": sizes, "hardware": {"num_gpus": 4}}
    config = Config.from_dict(served)
    written = exported(config)
    assert written.left_out == ()
    assert estimate(Config.from_dict(imported(written.text).config)).job.num_gpus == 4
    with pytest.raises(MemcoreError, match="found 4, which must divide the tensor-parallel size \\(2\\)"):
        estimate(Config.from_dict({**served, "parallelism": {"tensor_parallel_size": 2, "context_parallel_size": 4},
                                   "hardware": {}}))  # fmt: skip


@pytest.mark.parametrize("name", ["trainer", "axolotl"])
def test_a_fused_loss_and_the_allocator_are_in_the_file(name):
    """What plans propose first: Liger's loss next to transformers' layers, and growing segments."""
    training = {"adapter": "lora", "sequence_length": 4096, "loss": "fused-linear"}
    job = {"training": training, "engine": {"expandable_segments": True}, "hardware": {"num_gpus": 1}}
    found = exported(Config.from_dict({"model": "llama-3.1-8b", **job}), name)
    assert not found.left_out
    config = Config.from_dict(imported(found.text).config)
    assert (config["training.loss"], config["training.implementation"]) == ("fused-linear", None)
    assert (config["engine.expandable_segments"] is True) or name == "axolotl"


def test_an_allocator_that_no_file_has_is_set_in_the_environment():
    """A JSON file has no command; the variable is named."""
    job = {"engine": {"type": "deepspeed", "max_split_size_mb": 128}, "hardware": {"num_gpus": 8}}
    found = exported(Config.from_dict({"model": "llama-3.1-8b", **job}), "deepspeed")
    assert "engine.max_split_size_mb: set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 in the environment" in (
        found.reasons
    )
    assert found.command.startswith("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 deepspeed ")


@pytest.mark.parametrize(
    ("model", "quantization", "word", "wants"),
    [
        ("llama-3.1-8b", "awq", "awq", (
            "inference.quantization: name a repository with awq weights, such as "
            "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4 of the same shapes; the server does not quantize "
            "llama-3.1-8b",
        )),
        ("gpt2", "awq", "awq", ("inference.quantization: name a repository with awq weights; the server does not "
                                "quantize gpt2",)),
        ("llama-3.1-8b", "fp8", "fp8", ()),
        ("llama-3.1-8b", "nf4", "bitsandbytes", ()),
        ("Qwen/Qwen3-32B-AWQ", "awq", "awq", ()),
    ],
)  # fmt: skip
def test_a_server_is_not_asked_for_weights_that_it_cannot_make(model, quantization, word, wants):
    """vLLM raises an error if a checkpoint of 16 bits is said to be AWQ; fp8 and 4 bits of bitsandbytes it makes."""
    job = {"model": model, "engine": {"type": "vllm"}, "inference": {"quantization": quantization}}
    found = exported(Config.from_dict(job), "vllm")
    assert f"--quantization {word}" in found.text
    assert found.reasons == wants


@pytest.mark.parametrize(
    ("tool", "begins"),
    [
        ("megatron", "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py"),
        ("torchtune", "# run: tune run"),
        ("torchtitan", "# run: torchrun"),
        ("vllm", "vllm serve Qwen/Qwen3-32B"),
    ],
)
def test_who_names_a_tool_names_its_engine(tool, begins, capsys):
    """A job that leaves open what runs it is run by the tool that it is converted to."""
    assert main(["convert", "--model", "qwen3-32b", "--gpus", "8", "--to", tool]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(begins)
    assert "training.implementation" not in said.err


def test_an_engine_that_is_named_stays(capsys):
    """Only what a job leaves open follows from the tool."""
    assert main(["convert", "--model", "qwen3-32b", "--gpus", "8", "--engine", "ddp", "--to", "megatron"]) == 2
    assert "found 'ddp'; Megatron-LM needs engine.type megatron" in capsys.readouterr().err
