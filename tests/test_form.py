"""The form: only what says something about a job is shown, and every field has its help and its flag."""

import pytest

from memcore import estimate, registry
from memcore.config.kinds import Choice, Flag, Integer, Number
from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import from_texts
from memcore.errors import MemcoreError
from memcore.faces.render.applying import NEEDS, REFUSED, SAID_ELSEWHERE, applies
from memcore.faces.render.form import is_of_task, is_shown
from memcore.faces.render.page import defaults
from memcore.tools.names import name_of, shown_names
from memcore.trainers.megatron.demands import DEMANDS

ENGINES = SETTINGS["engine.type"].kind.options
JOBS = {
    "none": {"hardware.num_gpus": "1"},
    "megatron-deepspeed": {"model": "gpt2", "hardware.num_gpus": "8"},
    "transformers": {"hardware.num_gpus": "1"},
    "llama.cpp": {"hardware.num_gpus": "2"},
}
SHARING = {
    "parallelism.data_parallel_size",
    "parallelism.tensor_parallel_size",
    "parallelism.pipeline_parallel_size",
    "parallelism.context_parallel_size",
}
"""Whether they can be other than they are depends on the GPUs and the model."""
DEMANDED = {each.of for each in DEMANDS}
"""What Megatron-LM's script refuses alone: the error names what to set with it."""


def job(engine, **more):
    """A small job of an engine, as a form holds it."""
    texts = {"model": "llama-3.2-1b", "engine.type": engine, "hardware.num_gpus": "8", **JOBS.get(engine, {}), **more}
    return {**texts, "training.sequence_length": "512"} if is_of_task("training.sequence_length", engine) else texts


def tried(path):
    """Values that a setting might have."""
    kind = SETTINGS[path].kind
    if isinstance(kind, Flag):
        return ("true", "false")
    if isinstance(kind, Choice):
        return kind.options
    return ("1", "2", "16") if isinstance(kind, Integer) else ("0.5",) if isinstance(kind, Number) else ()


def is_taken(texts):
    """Whether a job is understood."""
    try:
        estimate(from_texts(texts))
    except MemcoreError:
        return False
    return True


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_shown_can_be_set(engine):
    """A field whose every value would be refused is not shown, whatever the engine."""
    texts = job(engine)
    taken = defaults(estimate(from_texts(texts)))
    shown = [
        path
        for path in SETTINGS
        if path not in texts and is_shown(path, engine, "") and applies(path, engine, texts, taken)
    ]
    useless = [
        path
        for path in shown
        if path not in SHARING | DEMANDED
        and (values := [value for value in tried(path) if value != taken.get(path)])
        and not any(is_taken({**texts, path: value}) for value in values)
    ]
    assert useless == []
    assert len(shown) > 10


def test_every_rule_is_about_settings_that_there_are():
    """No row is left of a setting or an engine that is gone, and none can never be met."""
    paths = {*NEEDS, *SAID_ELSEWHERE, *(path for paths in REFUSED.values() for path in paths)}
    assert paths <= set(SETTINGS)
    assert {need.path for need in NEEDS.values()} <= {*SETTINGS, "model.experts", "model.recurrent", "model.towers"}
    assert set(REFUSED) <= set(ENGINES)


@pytest.mark.parametrize(
    ("path", "hidden", "shown"),
    [
        ("training.adapter.rank", {}, {"training.adapter.type": "lora"}),
        ("training.quantization", {}, {"training.adapter.type": "lora"}),
        (
            "training.adapter.num_virtual_tokens",
            {"training.adapter.type": "lora"},
            {"training.adapter.type": "p-tuning"},
        ),
        ("training.images_per_sequence", {}, {"model": "qwen2-vl-2b-instruct"}),
        ("parallelism.expert_parallel_size", {}, {"model": "qwen3-30b-a3b"}),
        ("training.kernels", {}, {"model": "mamba2-130m-hf"}),
        (
            "parallelism.virtual_pipeline_parallel_size",
            {},
            {
                "model": "llama-3.1-8b",
                "parallelism.pipeline_parallel_size": "2",
                "training.gradient_accumulation_steps": "2",
            },
        ),
        ("training.activation_checkpointing.every", {}, {"training.activation_checkpointing.policy": "selective"}),
        ("engine.sub_group_size", {"engine.type": "deepspeed"}, {"engine.type": "deepspeed", "engine.zero_stage": "3"}),
        ("engine.bucket_cap_mb", {}, {"engine.type": "ddp"}),
        ("training.activation_checkpointing.every", {}, {"training.activation_checkpointing.every": "2"}),
    ],
)
def test_what_waits_for_something_else(path, hidden, shown):
    """A setting is put away until what it waits for is there; one that has a value is seen, to be removed."""

    def is_seen(more):
        texts = {**job("fsdp"), **more}
        engine = texts["engine.type"]
        taken = defaults(estimate(from_texts({**texts, path: ""})))
        return is_shown(path, engine, texts.get(path, "")) and applies(path, engine, texts, taken)

    assert not is_seen(hidden)
    assert is_seen(shown)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_field_says_what_its_engine_calls_it(engine):
    """The tool's key, the argument or call of its API, or what memcore calls it; never a name that only tables have."""
    config = Config.from_dict({"model": "gpt2", "engine": {"type": engine}})
    shown = shown_names(config, engine)
    assert all(name and "*" not in name for name in shown.values())
    assert set(registry.merged("spelling", "TOOL_NAMES")[engine]) <= set(SETTINGS)


@pytest.mark.parametrize(
    ("engine", "path", "name"),
    [
        ("fsdp", "hardware.num_gpus", "torchrun --nnodes"),
        ("fsdp", "engine.reshard_after_forward", "fully_shard(reshard_after_forward=)"),
        ("fsdp", "training.micro_batch_size", "per_device_train_batch_size"),
        ("ddp", "engine.bucket_cap_mb", "DistributedDataParallel(bucket_cap_mb=)"),
        ("deepspeed", "engine.zero_stage", "zero_optimization.stage"),
        ("deepspeed", "training.sequence_length", "max_length"),
        ("megatron", "parallelism.tensor_parallel_size", "--tensor-model-parallel-size"),
        ("nanotron", "training.micro_batch_size", "tokens.micro_batch_size"),
        ("vllm", "inference.max_model_len", "--max-model-len"),
        ("sglang", "model", "--model-path"),
        ("tensorrt-llm", "inference.max_num_seqs", "--max_batch_size"),
        ("tgi", "inference.max_model_len", "--max-total-tokens"),
        ("lmdeploy", "inference.max_model_len", "--session-len"),
        ("llama.cpp", "engine.n_gpu_layers", "-ngl"),
        ("transformers", "inference.output_length", "max_new_tokens"),
        ("fsdp", "hardware.gpu_memory_gb", ""),
    ],
)
def test_what_engines_call_settings(engine, path, name):
    """Of every engine, as its own documentation spells it."""
    assert name_of(Config.from_dict({"model": "gpt2", "engine": {"type": engine}}), engine, path) == name
