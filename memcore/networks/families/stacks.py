"""What vision towers are described with: their sizes, the parts of a layer, and stacks of layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from memcore.messages import joined
from memcore.networks.network import Layer, Tower
from memcore.networks.parts import Attention, Extra, FeedForward, Heads
from memcore.networks.patterns import compress
from memcore.networks.reader import Reader
from memcore.networks.weights import Linear, Norm, Weight
from memcore.symbols import Axis, Shape
from memcore.units import approximate

Tensors: TypeAlias = list[Weight]
Stack: TypeAlias = tuple[Tower, tuple[int, ...]]
"""A tower, and how often the pattern of each of its runs repeats."""
PATCH: tuple[Shape, ...] = (("ct",), ("pt",), ("pt",))
HEADS: Shape = ("at", "dt")


def tensor(name: str, *axes: Axis | Shape, kind: str = "tower") -> Weight:
    """Return a parameter."""
    return Weight(name, tuple(axis if isinstance(axis, tuple) else (axis,) for axis in axes), kind)


def affine(name: str, width: Axis | Shape, kind: str = "tower", *, bias: bool = True) -> Tensors:
    """Return a norm."""
    found = [tensor(f"{name}.weight", width, kind=kind)]
    return [*found, tensor(f"{name}.bias", width, kind=kind)] if bias else found


def linear(name: str, outer: Axis | Shape, inner: Axis | Shape, kind: str = "tower", *, bias: bool = True) -> Tensors:
    """Return a matrix with a bias."""
    found = [replace(tensor(f"{name}.weight", outer, inner, kind=kind), linear=True)]
    return [*found, tensor(f"{name}.bias", outer, kind=kind)] if bias else found


def _side(reader: Reader, name: str) -> int:
    """Return an image's or a patch's side, which may be given as height and width."""
    found = reader.value(name)
    if isinstance(found, list) and len(found) == 2 and found[0] == found[1] and isinstance(found[0], int):
        return int(found[0])
    return reader.integer(name)


def side_of(reader: Reader) -> tuple[int, int]:
    """Sides of an image and of a patch, in pixels."""
    image, patch = _side(reader, "image_size"), _side(reader, "patch_size")
    if patch > image:
        reader.refuse("patch_size", "expected an integer of at most {}, found {}", image, approximate(patch))
        return image, image
    return image, patch


def sizes(reader: Reader, hidden: str = "hidden_size") -> None:
    """Widths of the tower, its heads, and of a patch."""
    width, heads = reader.integer(hidden), reader.integer("num_attention_heads")
    if width % heads:
        reader.refuse("num_attention_heads", "{} does not divide the hidden size {}", heads, width)
    reader.symbol("ht", width)
    reader.symbol("at", heads)
    reader.symbol("dt", width // heads or 1)
    reader.symbol("pt", _side(reader, "patch_size"))
    channels = "in_channels" if reader.has("in_channels") else "num_channels"
    reader.symbol("ct", reader.integer(channels, 3))


def positions(reader: Reader, more: int = 0) -> None:
    """Patches of an image, and further positions."""
    reader.symbol("nt", (_side(reader, "image_size") // reader.sizes["pt"]) ** 2 + more)


def widths(reader: Reader) -> None:
    """The width of feed-forward layers."""
    reader.symbol("ft", reader.integer("intermediate_size"))


def attention(
    reader: Reader, module: str, output: str, *, bias: bool = True, output_bias: bool = True, **more: object
) -> Attention:
    """Attention with a matrix each for queries, keys and values, unless `inputs` says otherwise."""
    width = reader.sizes["dt"]
    heads = Heads("at", "at", 1, "dt", "dt", "dt", unaligned=width % 8 != 0)
    inputs = tuple(Linear(f"{module}.{each}_proj", HEADS, ("ht",), bias) for each in "qkv")
    fields = {
        "module": module,
        "inputs": inputs,
        "output": Linear(f"{module}.{output}", ("ht",), HEADS, output_bias),
        "heads": heads,
        "grouped": False,
        "rotary": "none",
        "dropout": reader.number("attention_dropout", 0.0),
        **more,
    }
    return Attention(**fields)  # type: ignore[arg-type]


def ffn(activation: str, module: str = "mlp", names: str = "fc1 fc2", *, bias: bool = True) -> FeedForward:
    """Return a feed-forward layer; three names are those of a gated one."""
    *gate, up, down = (f"{module}.{name}" for name in names.split())
    return FeedForward(
        module=module,
        gate=Linear(gate[0], ("ft",), ("ht",), bias) if gate else None,
        up=Linear(up, ("ft",), ("ht",), bias),
        down=Linear(down, ("ht",), ("ft",), bias),
        activation=activation,
    )


def norms(first: str, second: str, kind: str = "layer") -> tuple[Norm, Norm]:
    """Return the norms of a layer in order of use."""
    return Norm(first, kind, ("ht",), kind == "layer"), Norm(second, kind, ("ht",), kind == "layer")


def layer_of(
    mixer: Attention, ffn: FeedForward, norms: tuple[Norm, Norm], residual: str = "sequential", *own: Weight
) -> Layer:
    """Return a layer of a tower; `own` are parameters that belong to none of its parts."""
    extra = Extra(residual, own) if own else None
    return Layer(mixer, ffn, residual, norms, extra=extra, kind="tower")


def stack(layers: Sequence[Layer], taps: Iterable[int], **fields: object) -> Stack:
    """Return a tower over its layers from first to last; `taps` number those whose results go on to the decoder."""
    kinds, among = list(dict.fromkeys(layers)), set(taps)
    cuts = sorted({0, len(layers), *(tap + 1 for tap in among)})
    runs, repeats, last = [], [], []
    for start, end in pairwise(cuts):
        found = compress([kinds.index(layer) for layer in layers[start:end]])
        runs += [tuple(kinds[kind] for kind in pattern) for pattern, _ in found]
        repeats += [times for _, times in found]
        last += [None] * (len(found) - 1) + [end - 1]
    tapped = tuple(run for run, layer in enumerate(last) if layer in among)
    return Tower(runs=tuple(runs), taps=tapped, **fields), tuple(repeats)  # type: ignore[arg-type]


def equal(reader: Reader, layer: Layer, taps: Sequence[int], **fields: object) -> Stack:
    """Read a stack whose layers are all alike; a tap may count from the end, and -1 is the last layer."""
    count = reader.integer("num_hidden_layers")
    if any(not -count <= tap < count for tap in taps):
        reader.refuse(
            "num_hidden_layers", "found {}; results of layers {} are needed", count, joined(", ", map(str, taps))
        )
        return stack([layer] * count, (count - 1,), **fields)
    return stack([layer] * count, [tap % count for tap in taps], **fields)
