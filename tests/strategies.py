"""Random configs: valid models, and jobs that every face must answer."""

from __future__ import annotations

from functools import partial

from conftest import truth
from hypothesis import strategies as st

from memcore import Config
from memcore.config.adapted_layers import LayerNumbers, Ranks
from memcore.config.kinds import (
    Choice,
    Counted,
    Flag,
    FlagOrCount,
    Integer,
    Listed,
    ModelName,
    Names,
    Number,
    Proportions,
    Version,
)
from memcore.config.pipelines import Layout
from memcore.config.settings import SETTINGS
from memcore.servers.llamacpp.tensor_types import TensorTypes

TINY = [case["config"]["model"] for case in truth("tapes").values()]
"""The networks of the tapes: small ones of every kind."""
EVERY_OTHER = {"policy": "selective", "every": 2}
DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma2")


@st.composite
def models(draw, families=("llama", "mistral", "qwen2", "qwen3", "gemma2", "gpt2", "gpt_neox", "phi")):
    """A config.json with up to twelve layers."""
    family = draw(st.sampled_from(families))
    heads, width = draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from([16, 64]))
    layers = draw(st.integers(1, 12))
    if family == "gpt2":
        dropout = draw(st.sampled_from([0.0, 0.1]))
        return {
            "model_type": "gpt2",
            "n_embd": heads * width,
            "n_layer": layers,
            "n_head": heads,
            "vocab_size": draw(st.integers(500, 4000)),
            "n_positions": 4096,
            "attn_pdrop": dropout,
            "resid_pdrop": dropout,
            "embd_pdrop": dropout,
        }
    found = {
        "model_type": family,
        "hidden_size": heads * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": draw(st.integers(1, 8)) * 64,
        "vocab_size": draw(st.integers(500, 4000)),
        "max_position_embeddings": 4096,
        "tie_word_embeddings": draw(st.booleans()),
    }
    if family in DENSE:
        found["num_key_value_heads"] = draw(st.sampled_from([each for each in (1, 2, heads) if heads % each == 0]))
        found["sliding_window"] = draw(st.sampled_from([None, 64, 4096]))
    return found


@st.composite
def trainings(draw):
    """Settings of one step that go together."""
    return {
        "sequence_length": draw(st.integers(1, 40)) * 16,
        "micro_batch_size": draw(st.integers(1, 3)),
        "gradient_accumulation_steps": draw(st.integers(1, 3)),
        "optimizer": {
            "name": draw(st.sampled_from(["adamw", "adam", "sgd"])),
            "implementation": draw(st.sampled_from(["fused", "foreach", "for-loop"])),
        },
        "activation_checkpointing": draw(
            st.sampled_from(
                [{"policy": "none"}, {"policy": "full"}, {"policy": "selective", "mode": "op"}, EVERY_OTHER]
            )
        ),
        "attention": draw(st.sampled_from(["math", "sdpa"])),
        "attention_mask": draw(st.sampled_from(["none", "padded"])),
        "loss": draw(st.sampled_from(["cross-entropy-fp32", "cross-entropy", "chunked:4"])),
        "outputs_kept": draw(st.booleans()),
        "use_cache": draw(st.booleans()),
        "zero_grad": draw(st.sampled_from(["set-to-none", "keep"])),
    }


@st.composite
def jobs(draw, engines=("none", "ddp", "fsdp")):
    """A job of any engine and precision."""
    engine = draw(st.sampled_from(engines))
    settings = {"type": engine}
    training = draw(trainings())
    parallelism = {}
    gpus = 1 if engine == "none" else draw(st.sampled_from([2, 4, 8]))
    if engine == "fsdp":
        settings |= {
            "reshard_after_forward": draw(st.sampled_from([True, False])),
            "root_reshard_after_forward": draw(st.booleans()),
            "wrap": draw(st.sampled_from(["layer", "torchtitan-2024"])),
            "no_sync": draw(st.booleans()),
            "cpu_offload": draw(st.booleans()),
        }
        parallelism["data_parallel_shard_size"] = draw(st.sampled_from([gpus, gpus // 2]))
        training["precision"] = draw(st.sampled_from(["bf16", "bf16-mixed", "fp32", "bf16-autocast"]))
    else:
        training["precision"] = draw(st.sampled_from(["bf16", "fp32", "bf16-autocast"]))
    return {
        "model": draw(models() | st.sampled_from(TINY)),
        "training": training,
        "parallelism": parallelism,
        "engine": settings,
        "hardware": {"num_gpus": gpus, "accelerator": draw(st.sampled_from(["h100-sxm-80gb", "t4"]))},
    }


_MATRICES = st.sampled_from(["q_proj", "k_proj", "gate_proj", "all-linear"])
_SAMPLES = {
    Layout: st.lists(st.integers(0, 99), min_size=1, max_size=5) | st.sampled_from(["Et*3|(tt|)*29m|L", "2,3"]),
    Names: _MATRICES | st.lists(_MATRICES, min_size=1, max_size=3),
    TensorTypes: st.sampled_from(["token_embd=q8_0", "output=f16,blk.0-1+3.ffn_down=q6_k"]),
    Proportions: st.sampled_from(["17,13", "3/1.50", "0,2"]),
    LayerNumbers: st.lists(st.integers(0, 40), min_size=1, max_size=3) | st.integers(0, 3),
    Ranks: st.sampled_from(["q_proj=4", "layers.0.self_attn.q_proj=2,k_proj=32"]),
    Version: st.integers(0, 999) | st.sampled_from(["0.19.0", "1.2", "v0.6.3.post1", "7"]),
}


def setting_values(path):
    """Values of a setting by its path."""
    return _values(SETTINGS[path].kind)


def _values(kind):
    """Values of a setting."""
    if type(kind) in _SAMPLES:
        return _SAMPLES[type(kind)]
    match kind:
        case Flag():
            return st.booleans()
        case Choice():
            return st.sampled_from(kind.options)
        case Counted():
            return st.sampled_from([*kind.options, f"{kind.prefix}:3"])
        case FlagOrCount():
            return st.one_of(st.booleans(), st.integers(2, 512))
        case Integer():
            return st.integers(kind.minimum, min(kind.maximum, 10**6))
        case Number():
            return st.floats(kind.minimum, kind.maximum, allow_nan=False) | st.integers(
                int(kind.minimum) + 1, int(kind.maximum)
            )
        case Listed():
            return st.sampled_from(list(kind.titles))
        case ModelName():
            return (
                st.just("gpt2")
                | models()
                | st.sampled_from(TINY)
                | st.text(min_size=1, max_size=20).filter(lambda text: text.strip() == text)
            )
        case _:
            return st.text(max_size=40).filter(partial(_is_allowed, kind))


def _is_allowed(kind, text):
    """Whether a text is a value: not all white space, nor a name of something else."""
    try:
        kind.check(text)
    except ValueError:
        return False
    return True


@st.composite
def any_configs(draw):
    """A config with any settings, also such that contradict each other."""
    config = Config({"model": draw(_values(ModelName()))})
    for path in draw(st.sets(st.sampled_from([path for path in SETTINGS if path != "model"]))):
        config = config.replaced(path, draw(_values(SETTINGS[path].kind)))
    return config
