"""Rows of what makes room in a server, and those that several servers have; a server's own module lists all of its."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from memcore.records import dataclass
from memcore.serving.formats import ANY, FORMATS, Capability
from memcore.serving.inference import Inference

Changes: TypeAlias = Mapping[str, object]
"""Settings by path, as they become; None leaves one out."""


@dataclass(frozen=True, slots=True)
class Becomes:
    """Settings as they become, unless one of some settings has one of these values already."""

    to: Changes
    unless: Mapping[str, tuple[object, ...]] | None = None
    """None: the values that they become."""


@dataclass(frozen=True, slots=True)
class Halved:
    """Half of a number, if that is not below `least`."""

    path: str
    least: int


@dataclass(frozen=True, slots=True)
class ForUsers:
    """As many as there are users, or as the cache holds where nobody says how many; the server allows more."""

    path: str


@dataclass(frozen=True, slots=True)
class Share:
    """A larger fraction of GPU memory for the server: the largest with which all that it holds stays on the GPU."""

    path: str


@dataclass(frozen=True, slots=True)
class Utilization:
    """The most that leaves room for what is outside the server's budget, else the least that fits."""

    path: str


@dataclass(frozen=True, slots=True)
class Certain:
    """The most that leaves room for what is outside the server's budget even at the high end, where that is less."""

    path: str


@dataclass(frozen=True, slots=True)
class Doubled:
    """Twice the ranks share each matrix, on twice the GPUs."""


How: TypeAlias = Becomes | Halved | ForUsers | Share | Utilization | Certain | Doubled


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """A row."""

    title: str
    kind: str
    """A key of `memcore.trace.changes.KINDS`."""
    note: str
    how: How
    ladder: bool = True
    """It is a rung of the standard ladder."""
    spare: bool = False
    """Weights of so few bits that a plan has them only where more bits do not fit."""
    capability: Capability = ANY
    """The least compute capability of an NVIDIA GPU that has kernels for it."""


FEW_BITS = ("fp8", "fp8-channel", "fp8-block", "int8", "w8a16", "int4", "awq", "gptq", "nf4", "nf4-double", "mxfp4")
"""Formats of 8 bits and fewer."""
_WHOLE = "nothing else may run on the GPU; memory outside the server's budget still fits"
_FORMAT, _CACHE = Inference.quantization, Inference.kv_cache_dtype


def larger_share(how: Share | Utilization) -> ServerChange:
    """More of the GPU for the server."""
    return ServerChange(title="A larger fraction of GPU memory", kind="free", note=_WHOLE, how=how)


def shares(path: str) -> tuple[ServerChange, ServerChange]:
    """Less of the GPU for the server, where the rest may need more; else more of it."""
    smaller = ServerChange(
        title="A smaller fraction of GPU memory",
        kind="free",
        note="memory outside the server's budget fits for certain; the cache is smaller",
        how=Certain(path),
        ladder=False,
    )
    return smaller, larger_share(Utilization(path))


def fewer_tokens(path: str, least: int = 512) -> ServerChange:
    """Return what the server calls the tokens of a step, and the least that is advised."""
    return ServerChange(
        title="Half the tokens per step",
        kind="latency",
        note="prompts are processed in more, smaller steps; long prompts get their first token later",
        how=Halved(path, least),
    )


AS_USERS = ServerChange(
    title="No more sequences per step than needed",
    kind="free",
    note="graphs and the sampler are made for your users alone, or for what the cache holds; further requests wait",
    how=ForUsers(Inference.max_num_seqs),
    ladder=False,
)
NO_DRAFT = ServerChange(
    title="No draft model",
    kind="latency",
    note="one token per forward pass",
    how=Becomes(
        {Inference.draft_model: None, Inference.num_speculative_tokens: None}, {Inference.draft_model: (None,)}
    ),
)
SHORTER = ServerChange(
    title="Sequences half as long",
    kind="job",
    note="prompt plus answer have half the tokens",
    how=Halved(Inference.max_model_len, 512),
    ladder=False,
)
PAGED: tuple[ServerChange, ...] = (
    NO_DRAFT,
    ServerChange(
        title="KV cache in fp8",
        kind="precision",
        note="keys and values are rounded to 3 bits of mantissa or fewer",
        how=Becomes({_CACHE: "fp8"}, {_CACHE: ("fp8", "fp8_ds_mla", "int8", "int4", "nvfp4")}),
    ),
    ServerChange(
        title="Weights in fp8",
        kind="precision",
        note="weights are rounded to 8 bits, with a scale for each matrix",
        how=Becomes({_FORMAT: "fp8"}, {_FORMAT: FEW_BITS}),
        capability=FORMATS["fp8"].loaded,
    ),
    ServerChange(
        title="Weights in int4 (AWQ)",
        kind="precision",
        note="weights are rounded to 4 bits in groups of 128: measure the effect on your task",
        how=Becomes({_FORMAT: "awq"}, {_FORMAT: ("int4", "awq", "gptq", "nf4", "nf4-double", "mxfp4")}),
        capability=FORMATS["awq"].loaded,
    ),
    ServerChange(
        title="Twice the GPUs, each matrix split over them",
        kind="gpus",
        note="two all-reduces per layer and token",
        how=Doubled(),
        ladder=False,
    ),
    ServerChange(
        title="Half the sequences per step",
        kind="job",
        note="more users wait for their turn",
        how=Halved(Inference.max_num_seqs, 1),
        ladder=False,
    ),
    SHORTER,
)
"""What servers with a pool of blocks have in common."""
