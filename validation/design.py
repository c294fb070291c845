"""The suite's design: tables of configs in which one thing changes at a time, so that each term can be told apart.

    python -m validation.design            writes suite.json
    python -m validation.design --check    fails if it is out of date

Every config takes one GPU and a few seconds: models are those of the catalog, most with fewer layers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from memcore.networks.catalog import catalog

SUITE = Path(__file__).with_name("suite.json")
Config = dict[str, Any]

MODELS: Mapping[str, tuple[str, int | None]] = {
    "llama-1b": ("meta-llama/Llama-3.2-1B", None),
    "llama-8b-4": ("meta-llama/Llama-3.1-8B", 4),
    "smollm-135m": ("HuggingFaceTB/SmolLM-135M", None),
    "qwen2.5-0.5b": ("Qwen/Qwen2.5-0.5B", None),
    "qwen3-0.6b": ("Qwen/Qwen3-0.6B", None),
    "qwen3.5-0.8b": ("Qwen/Qwen3.5-0.8B", None),
    "gemma-2b-6": ("google/gemma-2b", 6),
    "gemma-2-2b-6": ("google/gemma-2-2b", 6),
    "gemma-3-1b": ("google/gemma-3-1b-pt", None),
    "mistral-7b-4": ("mistralai/Mistral-7B-v0.1", 4),
    "phi-2-8": ("microsoft/phi-2", 8),
    "phi-3-6": ("microsoft/Phi-3-mini-4k-instruct", 6),
    "pythia-410m": ("EleutherAI/pythia-410m", None),
    "gpt2": ("openai-community/gpt2", None),
    "opt-1.3b-8": ("facebook/opt-1.3b", 8),
    "bloom-560m": ("bigscience/bloom-560m", None),
    "falcon-7b-4": ("tiiuae/falcon-7b", 4),
    "starcoder2-3b-6": ("bigcode/starcoder2-3b", 6),
    "olmo2-1b": ("allenai/OLMo-2-0425-1B", None),
    "granite-2b-8": ("ibm-granite/granite-3.1-2b-base", 8),
    "stablelm-8": ("stabilityai/stablelm-2-1_6b", 8),
    "cohere-2": ("CohereForAI/aya-23-8B", 2),
    "glm4-4": ("THUDM/GLM-4-9B-0414", 4),
    "mixtral-1": ("mistralai/Mixtral-8x7B-v0.1", 1),
    "qwen3-moe-2": ("Qwen/Qwen3-30B-A3B", 2),
    "olmoe-3": ("allenai/OLMoE-1B-7B-0924", 3),
    "deepseek-v2-lite-3": ("deepseek-ai/DeepSeek-V2-Lite", 3),
    "moonlight-3": ("moonshotai/Moonlight-16B-A3B", 3),
    "gpt-oss-2": ("openai/gpt-oss-20b", 2),
    "mamba-130m-8": ("state-spaces/mamba-130m-hf", 8),
}
"""Short names: a checkpoint of the catalog, and how many of its layers are kept (None: all)."""


def network(name: str) -> Config:
    """The config.json of a model's language model, with as many layers as are kept."""
    hub, layers = MODELS[name]
    config = catalog()[hub]["config"]
    found: Config = dict(config.get("text_config", config))
    found.pop("mamba_ssm_dtype", None)  # of states that a server keeps
    if layers is not None:
        key = next(each for each in ("num_hidden_layers", "n_layer") if each in found)
        found[key] = layers
        for lists in ("layer_types", "mlp_layer_types"):
            if lists in found:
                found[lists] = found[lists][:layers]
    return found


def _job(model: str, batch: int = 4, sequence: int = 1024, **training: Any) -> Config:
    """A config; what is left out is `BASE`."""
    engine = training.pop("engine", {})
    settings = {**BASE, "sequence_length": sequence, "micro_batch_size": batch, **training}
    return {"model": network(model), "training": settings, "engine": {"type": "none", **engine}}


BASE: Mapping[str, Any] = {
    "precision": "bf16",
    "optimizer": {"name": "adamw", "implementation": "fused"},
    "activation_checkpointing": "none",
}
"""What every config has unless it is about that."""


def _families() -> Iterator[tuple[str, Config]]:
    """Layers of every kind, with two shapes of the same number of tokens."""
    for name in MODELS:
        fallback = {"kernels": "fallback"} if name.startswith(("mamba", "qwen3.5")) else {}
        short = name.startswith(("gpt2", "mamba"))
        for batch, length in (
            ((4, 512), (2, 1024)) if short else ((4, 1024), (1, 4096 if name != "opt-1.3b-8" else 2048))
        ):
            yield f"{name}-b{batch}s{length}", _job(name, batch, min(length, _positions(name)), **fallback)


def _positions(name: str) -> int:
    config = network(name)
    return int(config.get("max_position_embeddings") or config.get("n_positions") or 1 << 20)


def _shapes() -> Iterator[tuple[str, Config]]:
    """Batch against sequence: what grows with tokens, with sequences, and with their square."""
    for batch, length in ((1, 512), (1, 2048), (1, 8192), (1, 16384), (8, 512), (16, 512), (8, 2048), (3, 1000)):
        yield f"b{batch}s{length}", _job("llama-1b", batch, length)


def _checkpoints() -> Iterator[tuple[str, Config]]:
    policies: Mapping[str, Any] = {
        "full": "full",
        "op": {"policy": "selective", "mode": "op"},
        "every2": {"policy": "selective", "every": 2},
        "part": {"policy": "selective", "mode": "part"},
        "whole": {"policy": "full", "early_stop": False},
        "switch": {"policy": "full", "entry": "gradient_checkpointing_enable"},
    }
    for model in ("llama-1b", "qwen3-0.6b", "gemma-3-1b"):
        for name, policy in policies.items():
            yield f"{name}-{model}", _job(model, 4, 2048, activation_checkpointing=policy)


def _attentions() -> Iterator[tuple[str, Config]]:
    for model in ("llama-1b", "pythia-410m"):
        for kernel in ("flash", "efficient", "cudnn", "math"):
            yield f"{kernel}-{model}", _job(model, 2, 2048, attention=kernel)
        for kernel in ("sdpa", "math"):
            yield f"padded-{kernel}-{model}", _job(model, 2, 2048, attention=kernel, attention_mask="padded")
    yield "efficient-fp32", _job("llama-1b", 2, 2048, attention="efficient", precision="fp32")


def _losses() -> Iterator[tuple[str, Config]]:
    for model in ("llama-1b", "gpt2"):
        length = min(2048, _positions(model))
        for loss in ("cross-entropy", "chunked:8", "fused-linear"):
            yield f"{loss.replace(':', '')}-{model}", _job(model, 4, length, loss=loss)
        yield f"preshifted-{model}", _job(model, 4, length, loss_shift="labels-preshifted")
        yield f"kept-{model}", _job(model, 4, length, outputs_kept=True)
    yield "chunked16-qwen2.5-0.5b", _job("qwen2.5-0.5b", 4, 2048, loss="chunked:16")
    taught = {"name": "distill", "teacher": "llama-3.2-1b"}
    yield "rounded-llama-1b", _job("llama-1b", 2, 1024, fake_quantization="int8-int4")
    yield "distill-llama-1b", _job("llama-1b", 2, 2048, method=taught, loss="chunked:8")
    yield "grpo-llama-1b", _job("llama-1b", 2, 2048, method={"name": "grpo", "completion_length": 1024})
    yield "ppo-llama-1b", _job("llama-1b", 2, 2048, method={"name": "ppo", "reference": "precomputed"})


def _optimizers() -> Iterator[tuple[str, Config]]:
    choices: Sequence[Config] = [
        {"name": "adamw", "implementation": "foreach"},
        {"name": "adamw-8bit", "implementation": "bitsandbytes"},
        {"name": "sgd"},
        {"name": "adamw", "implementation": "for-loop"},
        {"name": "sgd", "momentum": 0.9},
        {"name": "adafactor"},
        {"name": "lion"},
        {"name": "lion-8bit"},
        {"name": "lamb"},
        {"name": "adam", "implementation": "foreach"},
        *({"name": each} for each in ("amsgrad", "nadam", "radam", "adamax", "adadelta", "adagrad", "rmsprop", "asgd")),
        {"name": "sgd-nesterov"},
        {"name": "rmsprop", "momentum": 0.9},
        {"name": "sgd", "implementation": "fused"},
    ]
    for each in choices:
        name = "-".join(str(value) for value in each.values())
        # Few tokens: so that the step of the optimizer is the peak.
        yield name, _job("llama-1b", 1, 256, optimizer=each)


def _precisions() -> Iterator[tuple[str, Config]]:
    for model in ("llama-1b", "qwen3-0.6b"):
        for precision in ("bf16-autocast", "fp32", "bf16-mixed"):
            yield f"{precision}-{model}", _job(model, 4, 1024, precision=precision)
    for precision in ("fp16", "fp16-mixed"):
        yield precision, _job("llama-1b", 4, 1024, precision=precision)
    full = {"precision": "bf16-autocast", "activation_checkpointing": "full"}
    yield "bf16-autocast-full", _job("llama-1b", 4, 2048, **full)


def _adapters() -> Iterator[tuple[str, Config]]:
    choices: Mapping[str, Config] = {
        "r16": {"type": "lora", "rank": 16},
        "r64": {"type": "lora", "rank": 64},
        "attention": {"type": "lora", "rank": 16, "target_modules": ["q_proj", "v_proj"]},
        "bf16": {"type": "lora", "rank": 16, "dtype": "bf16"},
        "dropout": {"type": "lora", "rank": 16, "dropout": 0.05},
        "dora": {"type": "dora", "rank": 16},
    }
    for name, adapter in choices.items():
        yield name, _job("llama-8b-4", 4, 1024, adapter=adapter)
    for model in ("llama-8b-4", "mistral-7b-4"):
        full = {"adapter": choices["r16"], "activation_checkpointing": "full"}
        yield f"full-{model}", _job(model, 4, 2048, **full)


def _quantized() -> Iterator[tuple[str, Config]]:
    adapter = {"type": "lora", "rank": 16}
    for model in ("llama-8b-4", "mistral-7b-4"):
        for kind in ("nf4", "nf4-double", "int8"):
            yield f"{kind}-{model}", _job(model, 4, 1024, adapter=adapter, quantization=kind)
        full = {"adapter": adapter, "quantization": "nf4", "activation_checkpointing": "full"}
        yield f"nf4-full-{model}", _job(model, 4, 2048, **full)


def _compiled() -> Iterator[tuple[str, Config]]:
    for model in ("llama-1b", "qwen3-0.6b", "gpt2"):
        length = min(2048, _positions(model))
        yield f"{model}", _job(model, 4, length, compile=True)
        yield f"full-{model}", _job(model, 4, length, compile=True, activation_checkpointing="full")
    for model in ("mistral-7b-4", "gemma-3-1b", "olmo2-1b", "phi-3-6"):
        yield f"{model}", _job(model, 2, 2048, compile=True)
    yield "mixed-llama-1b", _job("llama-1b", 2, 2048, compile=True, precision="bf16-mixed")
    yield "lora-llama-8b-4", _job("llama-8b-4", 2, 2048, compile=True, adapter={"type": "lora", "rank": 16})
    yield (
        "op-llama-1b",
        _job("llama-1b", 2, 2048, compile=True, activation_checkpointing={"policy": "selective", "mode": "op"}),
    )


def _loops() -> Iterator[tuple[str, Config]]:
    """Yield what a trainer does around the model."""
    yield "accumulate2", _job("llama-1b", 4, 1024, gradient_accumulation_steps=2)
    yield "expandable", _job("llama-1b", 4, 2048, engine={"expandable_segments": True})
    yield "keep", _job("llama-1b", 4, 1024, zero_grad="keep")
    yield "cache", _job("llama-1b", 4, 1024, use_cache=True)
    yield "unclipped", _job("llama-1b", 1, 256, gradient_clipping=False)
    yield "accumulate4", _job("qwen2.5-0.5b", 4, 1024, gradient_accumulation_steps=4)


def _titan() -> Iterator[tuple[str, Config]]:
    """torchtitan's layers."""
    policies: Sequence[tuple[str, Any]] = [
        ("none", "none"),
        ("full", "full"),
        ("op", {"policy": "selective", "mode": "op"}),
    ]
    for name, policy in policies:
        yield name, _job("llama-8b-4", 2, 2048, implementation="torchtitan", activation_checkpointing=policy)
    yield "compiled", _job("llama-8b-4", 2, 2048, implementation="torchtitan", compile=True)


def _generations() -> Iterator[tuple[str, Config]]:
    """A prompt's forward pass against a cache that grows."""
    shapes = ((1, 4096, 16), (8, 512, 128), (1, 64, 256))
    for model in ("llama-1b", "qwen3-0.6b"):
        for batch, prompt, output in shapes:
            lengths = {"batch_size": batch, "prompt_length": prompt, "output_length": output, "weight_dtype": "bf16"}
            job = {"model": network(model), "inference": lengths, "engine": {"type": "transformers"}}
            yield f"{model}-b{batch}p{prompt}o{output}", job


def _too_large() -> Iterator[tuple[str, Config]]:
    """Out of memory on every GPU that there is: outcomes, not numbers."""
    yield "llama-1b", _job("llama-1b", 64, 16384)


TERMS = {
    "shape": _shapes, "checkpoint": _checkpoints, "attention": _attentions, "loss": _losses, "optimizer": _optimizers,
    "precision": _precisions, "lora": _adapters, "qlora": _quantized, "compile": _compiled, "loop": _loops,
    "titan": _titan, "generate": _generations, "family": _families, "memory": _too_large,
}  # fmt: skip
"""What is told apart, and by which configs."""


def suite() -> Sequence[Config]:
    """All configs, most informative first: one of every term, then a second one of every term, and so on."""
    rows = [[{"id": f"{term}-{name}", "config": job} for name, job in made()] for term, made in TERMS.items()]
    return [each for row in zip_longest(*rows) for each in row if each is not None]


def main() -> int:
    """Write or check the suite."""
    text = "[\n" + ",\n".join(json.dumps(each) for each in suite()) + "\n]\n"
    if "--check" in sys.argv:
        return 0 if SUITE.read_text(encoding="utf-8") == text else 1
    SUITE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
