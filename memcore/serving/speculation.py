"""Tokens that are proposed and checked: by the checkpoint's own further layers, by heads, by a model, or by lookup.

Sources: vllm, model_executor/models/*_mtp.py, llama_eagle.py, llama_eagle3.py, medusa.py, and v1/spec_decode/eagle.py,
which shares the target's embedding and head; sglang, srt/models/*_nextn.py, *_mtp.py, llama_eagle*.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, TypeVar

from memcore.memory.ledger import Entry
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, LatentAttention
from memcore.networks.table import layer_order
from memcore.records import dataclass
from memcore.serving.checkpoint import Stored
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.profile import compresses
from memcore.serving.slots import TENSOR
from memcore.serving.stages import Stage
from memcore.serving.weights import Storage, weight_entries
from memcore.symbols import Shape

MixerT = TypeVar("MixerT")
CATEGORY = "draft model"
PREDICTING: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"), ("mtp_num_hidden_layers", 1)
    ),
    **dict.fromkeys(
        (
            *("deepseek_v3", "deepseek_v32", "deepseek_v4", "glm4_moe"),
            *("glm4_moe_lite", "glm_moe_dsa", "ernie4_5_moe", "mimo", "glm5_next", "nemotron_h"),
        ),
        ("num_nextn_predict_layers", 1),
    ),
}
"""Families whose checkpoints have such layers: the key that counts them, and how many there are without it."""
_SMALL_HEAD = 32000
"""Tokens of EAGLE 3's own vocabulary (`draft_vocab_size` of the published heads)."""
_DENSE_BLOCKS, _ROUTED_BLOCKS, _SEEN = 5, 8, 5
"""Layers of DFlash's published heads, and of how many layers of the model they see the hidden states.

Five layers for Qwen3-4B, Qwen3-8B and Qwen3.6-27B, eight for Qwen3-Coder-30B-A3B, Qwen3.5-35B-A3B and gpt-oss-20b
(z-lab's config.json; sgl-project/SpecForge, configs/*-dflash.json). Where some of its layers see a window alone (2048
tokens in several of these), vLLM keeps their keys and values of the whole context, because the prompt's are written
before the head runs: its attention asks for the pages of full attention (vllm-project/vllm, issue 50707 on 0.27.1 and
pull request 50169), as here.
"""
_PLAIN = {"a": 32, "d": 128}
"""Query heads and their width in DFlash's heads for models with gated attention, where keys and values are as wide as
the model's together: 3.22 GiB for Qwen3.6-27B in a start of vLLM (noonghunna/club-3090, issue 93)."""
PROPOSED: Mapping[str, int] = {"dflash": 15}
"""Tokens of a draft where nobody says it: DFlash's blocks have 16, of which the first is known; of others one."""
_SOURCE = "vllm, model_executor/models/*_mtp.py and v1/spec_decode/eagle.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How tokens are proposed."""

    method: str
    tokens: int
    layer: Layer | None = None
    """Of which there are further ones."""
    layers: int = 0
    quantized: bool = False
    """The further layers are quantized like the rest."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Where its attention's differ from the model's."""
    wide: int = 0
    """Width of its feed-forward layer where the model's own layers have experts alone; EAGLE's heads have none."""


def predicts(model: Model) -> bool:
    """Return whether checkpoints of this family have layers that predict further tokens."""
    return model.network.family in PREDICTING and _attending(model) is not None


def _attending(model: Model) -> Layer | None:
    """The last layer that attends to everything; DeepSeek-V4's further layers see a window alone, if any of it does."""
    layers = layer_order(model)
    for layer in reversed(layers):
        if any(isinstance(mixer, (Attention, LatentAttention)) for mixer in layer.mixers):
            return layer
    compressing = [layer for layer in layers if any(map(compresses, layer.mixers))]
    windows = [layer for layer in compressing if layer.mixers[0].mask == "sliding"]
    return next(reversed(windows or compressing), None)


def _routing(model: Model) -> Experts | None:
    """Return the last experts of a model whose layers have one part each.

    Nemotron-3's further layers are an attention and experts (`mtp_hybrid_override_pattern`).
    """
    found = [ffn for layer in layer_order(model) for ffn in layer.ffns if isinstance(ffn, Experts)]
    return found[-1] if found else None


def speculation(method: str, tokens: int, model: Model, text: Mapping[str, Any], stored: Stored | None) -> Speculation:
    """Return what a method adds to a model."""
    layers = 1
    if method == "mtp":
        key, usual = PREDICTING.get(model.network.family, ("num_nextn_predict_layers", 1))
        found = text.get(key)
        layers = found if isinstance(found, int) and found > 0 else usual
    attends = method in ("mtp", "eagle", "eagle3", "dflash")
    layer, wide, sizes = _attending(model) if attends else None, 0, {}
    if layer is not None and method == "mtp" and not layer.ffns:
        layer = replace(layer, feed_forward=_routing(model))
    if layer is not None and method == "dflash" and any(_gated(mixer) for mixer in layer.mixers):
        layer = replace(layer, mixer=_ungated(layer.mixer))
        sizes = {**_PLAIN, "k": model.sizes["k"] * model.sizes["d"] // _PLAIN["d"]}
    if layer is not None and method != "mtp":
        layer, routed = _dense(layer)
        inner = text.get("intermediate_size")
        layers = _blocks(routed) if method == "dflash" else 1
        wide = 0 if not routed else inner if isinstance(inner, int) and inner > 0 else 4 * model.sizes["h"]
    return Speculation(
        method=method,
        tokens=tokens,
        layer=layer,
        sizes=sizes,
        wide=wide,
        layers=layers if attends else 0,
        quantized=method == "mtp" and stored is not None and stored.native,
    )


def _gated(mixer: object) -> bool:
    return isinstance(mixer, Attention) and mixer.gated


def _ungated(mixer: MixerT) -> MixerT:
    """Return the same attention whose queries bring no gate."""
    if not isinstance(mixer, Attention) or not mixer.gated:
        return mixer
    query, *others = mixer.inputs
    plain = replace(query, outer=(mixer.heads.query, mixer.heads.width))
    return replace(mixer, inputs=(plain, *others), gated=False)


def _blocks(routed: bool) -> int:
    return _ROUTED_BLOCKS if routed else _DENSE_BLOCKS


def _dense(layer: Layer) -> tuple[Layer, bool]:
    """Return a layer without experts, and whether that leaves it without a feed-forward layer.

    EAGLE's heads are layers of Llama whatever the model has (vllm, model_executor/models/llama_eagle3.py).
    """
    ffns = [ffn for ffn in layer.ffns if not isinstance(ffn, Experts)]
    own = ffns[0] if ffns else None
    return replace(layer, feed_forward=own, second_feed_forward=None), own is None


def speculative_entries(found: Speculation, model: Model, storage: Storage) -> Iterator[Entry]:
    """Weights of what proposes tokens; embedding and head are the target's."""
    sizes, size, source = storage.sizes, BYTES[storage.dtype], _SOURCE
    if found.layer is not None:
        stage = Stage(1, 3, model.num_layers, (found.layer,) * found.layers)
        yield from weight_entries(model, stage, replace(storage, sizes={**sizes, **found.sizes}))
        # MTP and EAGLE read a token and a hidden state; EAGLE 3 three hidden states, and a token next to the result.
        # DFlash's layers read a token's embedding; what they know of the past comes of five hidden states.
        inputs: Shape = ({"eagle3": 3, "dflash": _SEEN}.get(found.method, 2), "h")
        yield from _matrix("fc", ("h", *inputs), size, sizes, source, found.layers if found.method == "mtp" else 1)
        yield tensor("vector", CATEGORY, ("h",), size, sizes, source, module="norms", copies=3)
    if found.wide:
        inner = -(-found.wide // sizes.get(TENSOR, 1))
        yield from _matrix("mlp", (inner, "h"), size, sizes, source, 3 * max(found.layers, 1))
    if found.method == "eagle3":
        yield from _matrix("lm_head", (_SMALL_HEAD, "h"), size, sizes, source, 1)
    if found.method == "medusa":
        yield from _matrix("blocks", ("h", "h"), size, sizes, source, found.tokens)
        yield from _matrix("lm_heads", ("V", "h"), size, sizes, source, found.tokens)


def _matrix(
    name: str, shape: Shape, size: Fraction, sizes: Mapping[str, int], source: str, copies: int
) -> Iterator[Entry]:
    yield tensor("matrix", CATEGORY, (*shape[:-1], shape[-1]), size, sizes, source, module=name, copies=copies)
