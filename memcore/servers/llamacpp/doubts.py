"""What is not known of a llama.cpp process, as ranges of entries: its build, Ollama's own graph, a file's layers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from memcore.memory.ledger import Entry, Range
from memcore.servers.llamacpp.gguf import FileTensor
from memcore.servers.llamacpp.mtp import own_bytes
from memcore.servers.llamacpp.plan import Flags
from memcore.serving.entries import observed
from memcore.serving.job import ServingJob
from memcore.serving.weights import CATEGORY

COMPUTED = "activations"
_FOREIGN = Fraction(7, 4)
"""How many times llama.cpp's graph Ollama's own takes at most. Fitted to five starts, 1.1 to 1.7; what else lives there
is not known."""


def foreign(entry: Entry) -> Entry:
    """Return a compute buffer of Ollama's own engine, whose graph is not followed here."""
    if entry.category != COMPUTED:
        return entry
    bounds = Range(entry.bytes, entry.bytes, int(_FOREIGN * entry.bytes))
    return observed(entry.title, entry.category, bounds, entry.source, entry.text, _GRAPH)


def slight(entry: Entry) -> Entry:
    """A context of CUDA's size at most: with Vulkan, two models filled an Arc B390 to 0.996 and 1.002 of its budget."""
    bounds = Range(0, entry.bytes, entry.high)
    return observed(entry.title, entry.category, bounds, entry.source, entry.text, entry.because)


def undated(job: ServingJob, flags: Flags, entry: Entry, former: int | None) -> Entry:
    """Return a compute buffer of any build: before June 2026 llama-server had logits of a whole micro-batch in it.

    Source: ggml-org/llama.cpp#23861.
    """
    rows = min(flags.micro_batch, flags.batch, flags.context) - (flags.outputs or 0)
    if entry.category != COMPUTED or rows <= 0:
        return entry
    least = entry.bytes if former is None else min(former, entry.bytes)
    bounds = Range(least, entry.bytes, entry.bytes + rows * job.basics.sizes["V"] * 4)
    because = _LOGITS if former is None else _UNPACKED
    return observed(entry.title, entry.category, bounds, entry.source, entry.text, because)


_UNPACKED = (
    "builds before June 2026 keep logits of a whole micro-batch, but no room for an unpacked cache (--engine-version)"
)
_LOGITS = "builds before June 2026 keep logits of a whole micro-batch (--engine-version)"
_GRAPH = "Ollama's own engine builds the graph, and this is llama.cpp's"


def unasked(tensors: Sequence[FileTensor]) -> Entry:
    """The layers that predict further tokens, which builds of May to July 2026 load whether they are used or not."""
    bounds = Range(0, 0, own_bytes(tensors))
    text = "if the file has it, builds before August 2026 load it unasked"
    return observed("layer for multi-token prediction", CATEGORY, bounds, "ggml-org/llama.cpp#26296", text)
