"""The layer of a file that predicts further tokens (`--spec-type draft-mtp`): its weights, and its own context.

It is a layer that attends to everything, behind a matrix that reads a token's embedding and a hidden state; embedding
and head are the model's. Its context has a cache of that layer alone and is as long as the target's, whose recurrent
states are kept once more for each proposed token, to go back to.

Source: llama.cpp, src/models/qwen35.cpp (`load_block_mtp`, `graph_mtp`), src/llama-model.cpp (`create_memory`),
common/common.h (`need_n_rs_seq`) and common/speculative.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memcore.networks.network import Model
from memcore.servers.llamacpp.buffers import Plan
from memcore.servers.llamacpp.gguf import FileTensor, published_file
from memcore.serving.checkpoint import text_config
from memcore.serving.job import Basics
from memcore.serving.speculation import Speculation, predicts, speculation

_SHARED = ("token_embd.weight", "output.weight", "output_norm.weight", "output_norm.bias")
"""What the head has of the model."""


def head_of(model: Model, found: Speculation) -> Model | None:
    """Return the further layers as a model of their own; None where the family has none that is supported."""
    if found.layer is None:
        return None
    return replace(model, network=replace(model.network, runs=((found.layer,),)), repeats=(found.layers,))


def head_file(model: Model, head: Model, file_type: str, overrides: Mapping[str, str]) -> tuple[FileTensor, ...]:
    """The tensors of the head, whose layers llama-quantize counts behind the model's, and the model's that it reads."""
    whole = replace(
        model,
        network=replace(model.network, runs=(*model.network.runs, *head.network.runs)),
        repeats=(*model.repeats, *head.repeats),
    )
    width, last = model.sizes["h"], model.num_layers
    found = []
    for tensor in published_file(whole, file_type, overrides):
        number = int(tensor.name.split(".")[1]) if tensor.name.startswith("blk.") else None
        if number is not None and number >= last:
            own = tensor.name.split(".", 2)[2]
            found.append(replace(tensor, name=f"blk.{number - last}.{own}"))
        elif tensor.name in _SHARED:
            found.append(tensor)
    kinds = {tensor.name: tensor.type for tensor in found}
    for number in range(head.num_layers):
        kind = kinds.get(f"blk.{number}.attn_q.weight", kinds["token_embd.weight"])
        found.append(FileTensor(f"blk.{number}.nextn.eh_proj.weight", (width, 2 * width), kind))
        found += [FileTensor(f"blk.{number}.nextn.{name}.weight", (width,), "F32") for name in _NORMS]
    return tuple(found)


_NORMS = ("enorm", "hnorm", "shared_head_norm")
_LOADED, _ASKED = 9200, 10200
"""Builds, about, that have these layers at all, and that load them only if they are used: ggml-org/llama.cpp#22673 of
May 2026 and #26296 of 31 July (b10091 is of 22 July, b10242 of 4 August)."""


def carried(basics: Basics, build: int | None) -> Model | None:
    """Return the further layers where a build always loads them."""
    if build is None or not _LOADED <= build < _ASKED or not predicts(basics.model):
        return None
    return head_of(basics.model, speculation("mtp", 1, basics.model, text_config(basics.raw), None))


def own_bytes(tensors: Sequence[FileTensor]) -> int:
    """Return bytes of the head's own part of the file."""
    return sum(tensor.bytes for tensor in tensors if tensor.name not in _SHARED)


class HeadWeights(Plan):
    """The head's own part of the file: embedding and head are the model's, and are there once."""

    def placed(self) -> Iterator[tuple[FileTensor, str]]:
        """Return its tensors with their devices."""
        return ((tensor, device) for tensor, device in super().placed() if tensor.name not in _SHARED)
