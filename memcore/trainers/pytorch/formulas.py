"""What two calculators for any PyTorch job say, line by line, and why memcore says something else.

Sources: George614/gpu-mem-calculator, src/gpu_mem_calculator/core/formulas.py and engines/*.py (2f345d1, January 2026);
the script `gpu_memory_calculator.py`, which counts parameters on the meta device (`calculate_training_memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.memory.published import FormulaResult, Published, Term
from memcore.messages import Message
from memcore.networks.catalog import catalog, find_model
from memcore.records import dataclass
from memcore.trainers.pytorch.settings import TorchSettings

_MULTIPLES: Mapping[str, float] = {
    "sgd": 0,
    "sgd-nesterov": 1,
    "adagrad": 1,
    "rmsprop": 1,
    "adam": 2,
    "adamw": 2,
    "adafactor": 0.5,
    "lamb": 2,
    "lion": 1,
    "nadam": 2,
    "amsgrad": 2,
    "shampoo": 3,
    "adabelief": 2,
}
"""The script's `OptimizerType`: states as multiples of the weights; it takes AdamW if none is named."""
_STAGE = EngineSettings.zero_stage
_CHECKPOINTED = 0.3
"""The script's GRADIENT_CHECKPOINTING_MULTIPLIER."""
_STATES: Mapping[str, int] = {"adamw-8bit": 2, "sgd": 4}
"""gpu-mem-calculator's `calculate_optimizer_memory`: bytes for each parameter; 12 for any other optimizer."""
_LEVELS: Mapping[str, tuple[float, str]] = {"none": (1.0, "1"), "selective": (0.8, "0.8"), "full": (0.2, "0.2")}
"""gpu-mem-calculator's factors for its levels 0, 1 and 4."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What both read of a job, by their formulas' letters."""

    p: int
    w: int
    b: int
    s: int
    h: int
    layers: int
    f: int
    vocabulary: int
    gpus: int
    tensor: int
    stages: int
    sequence_parallel: bool
    policy: str
    optimizer: str
    engine: str
    stage: int
    """DeepSpeed's ZeRO stage; FSDP that keeps parameters gathered is 2."""
    offloaded: bool
    routed: tuple[int, int, int] | None
    """Experts, those of a token, and their width."""


def published(config: Config) -> Published:
    """Return what both calculators say, each line with its formula."""
    job = _read(config)
    answers = {"meta-device-script": _script(job), "gpu-mem-calculator": _calculator(job)}
    plain = {
        name: {
            "title": said.title,
            "total_bytes": said.total,
            "lines": [
                {"name": each.name, "formula": each.formula, "bytes": each.size, "memcore": each.reason}
                for each in said.terms
            ],
        }
        for name, said in answers.items()
    }
    return Published(data={"calculators": plain}, answers=tuple(answers.values()))


def _read(config: Config) -> _Job:
    model = find_model(config.model)
    given: object = config.model if isinstance(config.model, Mapping) else catalog().get(model.name, {}).get("config")
    described: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    text = described.get("text_config")
    network = text if isinstance(text, Mapping) else described

    def stated(*names: str) -> int | None:
        return next((found for found in map(network.get, names) if isinstance(found, int) and found), None)

    precision = config[Training.compute_dtype] or config[Training.precision] or "bf16"
    experts = stated("num_experts", "num_local_experts", "n_routed_experts")
    width = stated("moe_intermediate_size", "intermediate_size")
    return _Job(
        p=model.parameters,
        w=ITEMSIZE["fp32" if precision == "fp32" else "bf16"],
        b=_given(config, Training.micro_batch_size) or 1,
        s=_given(config, Training.sequence_length) or min(model.sizes.get("P", 4096), 4096),
        h=model.sizes["h"],
        layers=model.num_layers,
        f=stated("intermediate_size", "ffn_dim", "d_ff") or 4 * model.sizes["h"],
        vocabulary=model.sizes["V"],
        gpus=max(_given(config, Hardware.num_gpus) or 1, 1),
        tensor=_given(config, Parallelism.tensor_parallel_size) or 1,
        stages=_given(config, Parallelism.pipeline_parallel_size) or 1,
        sequence_parallel=bool(_given(config, Parallelism.sequence_parallel)),
        policy=config[Training.activation_checkpointing.policy] or "none",
        optimizer=config[Training.optimizer.name] or "adamw",
        engine=config[EngineSettings.type] or "none",
        stage=2 if _given(config, TorchSettings.reshard_after_forward) is False else int(_given(config, _STAGE) or 0),
        offloaded=_given(config, "engine.offload_optimizer") == "cpu",
        routed=None if experts is None else (experts, stated("num_experts_per_tok") or 1, width or 0),
    )


def _given(config: Config, path: str) -> Any:
    return config.get(path) if path in SETTINGS else None


def _script(job: _Job) -> FormulaResult:
    multiple = _MULTIPLES.get(job.optimizer, _MULTIPLES["adamw"])
    tokens, checkpointed = job.b * job.s, job.policy == "full"
    factor, shown = (_CHECKPOINTED, f"·{_CHECKPOINTED}") if checkpointed else (1.0, "")
    recomputed = "full checkpointing keeps one input of width h per layer and recomputes one layer at a time"
    saved = "memcore counts the tensors that autograd saves, and the logits b·s·V, which the script leaves out"
    return FormulaResult.of_terms(
        "meta-device script (gpu_memory_calculator.py)",
        Term("weights", "P·w", job.p * job.w, "each parameter has its own dtype, and engines split them over GPUs"),
        Term("gradients", "P·w", job.p * job.w, "only trainable parameters have gradients"),
        Term(
            "optimizer states",
            f"{multiple:g}·P·w",
            job.p * job.w * multiple,
            "states have the parameters' dtype (fp32 in mixed precision), not the compute dtype",
        ),
        Term(
            "activations",
            f"b·s·L·(5·h + f)·w{shown}",
            tokens * job.layers * (5 * job.h + job.f) * job.w * factor,
            Message("{}; {}", recomputed, saved) if checkpointed else saved,
            held=False,
        ),
        Term("embeddings", "V·h·w", job.vocabulary * job.h * job.w, "part of the P parameters: counted twice"),
        Term(
            "input",
            "b·s·h·w",
            tokens * job.h * job.w,
            "the input is b·s token ids of 8 bytes each",
            held=False,
        ),
    )


_Lines = tuple[tuple[str, float], tuple[str, float], tuple[str, float]]
"""Parameters, gradients and optimizer states: formula and bytes."""


def _replicated(job: _Job) -> _Lines:
    states = _STATES.get(job.optimizer, 12)
    return ("P·w", job.p * job.w), ("P·w", job.p * job.w), (f"{states}·P", states * job.p)


def _megatron(job: _Job) -> _Lines:
    states, own = _STATES.get(job.optimizer, 12), job.p // job.tensor
    return ("P·w/t", own * job.w), ("P·w/t", own * job.w), (f"{states}·P/t", states * own)


def _zero_1(job: _Job) -> _Lines:
    return ("2·P", 2 * job.p), ("2·P", 2 * job.p), ("12·P/N", 12 * job.p / job.gpus)


def _zero_2(job: _Job) -> _Lines:
    return ("2·P", 2 * job.p), ("2·P/N", 2 * job.p / job.gpus), ("12·P/N", 12 * job.p / job.gpus)


def _largest(job: _Job) -> tuple[str, int]:
    """Return 4 bytes for each parameter of what it takes for the largest layer (`calculate_largest_layer`)."""
    if job.routed is None:
        return "16·h²", 16 * job.h**2
    return "8·h·e", 8 * job.h * (job.routed[2] or 4 * job.h)


def _zero_3(job: _Job) -> _Lines:
    return _largest(job), ("2·P/N", 2 * job.p / job.gpus), ("16·P/N", 16 * job.p / job.gpus)


def _full_shard(job: _Job) -> _Lines:
    layer, size = _largest(job)
    parameters = f"{layer} + 2·P/N", size + 2 * job.p / job.gpus
    return parameters, ("2·P/N", 2 * job.p / job.gpus), ("12·P/N", 12 * job.p / job.gpus)


_ENGINES: Mapping[tuple[str, int], tuple[str, Callable[[_Job], _Lines]]] = {
    ("deepspeed", 1): ("DeepSpeed ZeRO-1", _zero_1),
    ("deepspeed", 2): ("DeepSpeed ZeRO-2", _zero_2),
    ("deepspeed", 3): ("DeepSpeed ZeRO-3", _zero_3),
    ("fsdp", 0): ("FSDP full_shard", _full_shard),
    ("fsdp", 2): ("FSDP shard_grad_op", _zero_2),
    ("megatron", 0): ("Megatron-LM", _megatron),
}
"""Its engines; any other job is its default, PyTorch DDP."""


def _calculator(job: _Job) -> FormulaResult:
    engine, lines = _ENGINES.get((job.engine, job.stage), ("PyTorch DDP", _replicated))
    parameters, gradients, states = lines(job)
    if job.offloaded and job.stage:
        states = ("0 (offloaded)", 0.0)
    activation, formula = _activations(job, pipelined=lines is _megatron)
    base = parameters[1] + gradients[1] + states[1] + activation
    unsummed = 2 * job.p / job.gpus if lines is _zero_3 else 0.0
    return FormulaResult.of_terms(
        Message("gpu-mem-calculator ({})", engine),
        Term("parameters", *parameters, _PARAMETERS.get(engine, _PARAMETERS[""])),
        Term("gradients", *gradients, "frozen parameters have none; FSDP and Megatron may keep them in fp32"),
        Term("optimizer states", *states, "12 bytes are an fp32 copy and two states; PyTorch keeps no copy"),
        Term(
            "activations",
            formula,
            activation,
            "16·h is the same for every model, and the factor for checkpointing for every sequence length; memcore "
            "counts the tensors that autograd saves, and the logits b·s·V, which are left out",
            held=False,
        ),
        Term(
            "overhead",
            "20% of the lines above and of 2·P/N" if unsummed else "20% of the lines above",
            0.2 * (base + unsummed),
            "memcore replays the caching allocator; the CUDA context does not grow with the job",
            held=False,
        ),
    )


_PARAMETERS: Mapping[str, str] = {
    "": "each parameter has its own dtype, fp32 in mixed precision",
    "FSDP full_shard": "the first term is the largest layer; FSDP prefetches a second one",
    "DeepSpeed ZeRO-3": "the shard, 2·P/N, is left out of the sum; only the largest layer is counted",
    "Megatron-LM": "pipeline stages, which split the layers, are left out",
}


def _activations(job: _Job, *, pipelined: bool) -> tuple[float, str]:
    """Return bytes and the formula; mixtures of experts have fewer than dense layers there."""
    factor, shown = _LEVELS[job.policy if job.policy in _LEVELS else "selective"]
    formula, found = "b·s·L·16·h", float(job.b * job.s * job.layers * 16 * job.h)
    if job.routed is not None:
        experts, used, width = job.routed
        found *= min(1.0, used / experts + 0.1) * (min(2.0, width / (2 * job.h)) if width else 1.0)
        formula += "·(k/E + 0.1)·e/(2·h)"
    split = "/t" if job.tensor > 1 else ""
    found /= job.tensor
    if pipelined:
        ranks = job.tensor if job.sequence_parallel else 1
        found /= job.stages * ranks
        split += ("/t" if ranks > 1 else "") + ("/p" if job.stages > 1 else "")
    return found * factor, formula + split + ("" if factor == 1 else f"·{shown}")
