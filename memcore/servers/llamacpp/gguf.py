"""GGUF files to the byte: the tensors of a model, and the type that each has in a file of a given type.

Sources: llama.cpp 0.5 (ggml 0.25): `convert_hf_to_gguf.py` with `conversion/`, and `src/llama-quant.cpp`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from memcore.errors import ConfigError, Problem, nearest
from memcore.messages import Message, joined
from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention
from memcore.records import dataclass
from memcore.servers.llamacpp.gguf_tensors import GgufTensor, gguf_tensors, layers_in_order
from memcore.serving.gguf_mixes import ABOVE, ALIASES, CONDITIONS, FALLBACK, FILE_TYPES, TWO_BITS, Place, decided
from memcore.serving.gguf_types import BLOCK_TYPES, tensor_bytes
from memcore.serving.inference import Inference


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor as a file holds it."""

    name: str
    shape: tuple[int, ...]
    type: str

    @property
    def bytes(self) -> int:
        """Return the bytes of its data."""
        return tensor_bytes(self.type, self.shape)


def file_type_of(name: str) -> str:
    """Return the file type of a name in any spelling; raises ConfigError with the nearest.

    >>> file_type_of("q4_k")
    'Q4_K_M'
    """
    found = name.strip().upper().replace("-", "_")
    found = ALIASES.get(found, found)
    if found not in FILE_TYPES:
        message = Message(
            "found {!r}, which llama-quantize does not know; it supports {}", name, joined(", ", FILE_TYPES)
        )
        raise ConfigError([Problem(Inference.quantization, message, nearest(found, FILE_TYPES))])
    return found


def gguf_file(
    model: Model,
    file_type: str,
    *,
    imatrix: bool = False,
    pure: bool = False,
    overrides: Mapping[str, str] | None = None,
) -> tuple[FileTensor, ...]:
    """Return every tensor with its type in a file of this type.

    `imatrix`: quantized with an importance matrix, which some mixes take into account. `pure`: no mixes. `overrides`:
    types of tensors by a part of their name between `^` and `$`, such as `{"ffn_down_exps": "Q6_K"}` (`--tensor-type`,
    `--output-tensor-type`, `--token-embedding-type`).

    >>> from memcore.networks.catalog import find_model
    >>> sum(tensor.bytes for tensor in gguf_file(find_model("llama-3.1-8b"), "Q4_K_M"))
    4912898304
    """
    return _file(model, _placed(model, imatrix=imatrix), file_type_of(file_type), pure=pure, overrides=overrides or {})


def published_file(model: Model, file_type: str, overrides: Mapping[str, str]) -> tuple[FileTensor, ...]:
    """Return every tensor of a file as they are published: those of IQ types are made with an importance matrix.

    A type that llama-quantize does not have is that of every quantized tensor.
    """
    if file_type not in FILE_TYPES:
        return gguf_file(model, "Q8_0", overrides={**overrides, "": file_type})
    return gguf_file(model, file_type, imatrix=file_type.startswith("IQ"), overrides=overrides)


def _file(
    model: Model,
    placed: Sequence[tuple[GgufTensor, Place | None]],
    file_type: str,
    *,
    pure: bool = False,
    overrides: Mapping[str, str],
) -> tuple[FileTensor, ...]:
    found = []
    for tensor, place in placed:
        kind = next((kind for part, kind in overrides.items() if part in f"^{tensor.name}$"), None) if place else None
        if place is None:
            kind = _stored(tensor, file_type)
        elif kind is None:
            kind = _type(tensor, place, file_type, pure=pure, tied=model.network.embedding_and_head.tied)
        found.append(FileTensor(tensor.name, tensor.shape, _fitting(tensor.row, kind) if place else kind))
    return tuple(found)


_ROLES: Sequence[tuple[str, str]] = (
    ("attn_qkv.weight", "value"),
    ("attn_kv_b.weight", "value"),
    ("attn_v.weight", "value"),
    ("attn_k.weight", "key"),
    ("attn_q.weight", "query"),
    ("attn_output.weight", "attention-output"),
    ("ffn_up", "up"),
    ("ffn_gate", "gate"),
    ("ffn_down", "down"),
)


def _role(name: str) -> str:
    """Return the category of a tensor (`tensor_get_category`); a fused projection counts as one of values."""
    if name == "output.weight":
        return "output"
    if name in {"token_embd.weight", "per_layer_token_embd.weight"}:
        return "embedding"
    return next((role for part, role in _ROLES if part in name), "other")


_KEPT = (
    "_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "per_layer_model_proj", "position_embd", "ssm_conv1d",
    "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight",
)  # fmt: skip
"""Parts of names of tensors that are never quantized (`tensor_allows_quantization`)."""


def quantizable(tensor: GgufTensor) -> bool:
    """Return whether a file type decides about it: a matrix, or one for each expert, that is none of the small ones."""
    kept = any(part in tensor.name for part in _KEPT)
    return tensor.axes >= 2 and tensor.name.endswith("weight") and not kept


def _placed(model: Model, *, imatrix: bool) -> list[tuple[GgufTensor, Place | None]]:
    """Return every tensor with where it stands, or None where no file type decides about it.

    Counters advance in the order of layers and, within them, of names.
    """
    tensors = gguf_tensors(model)
    layers, experts = model.num_layers, _experts(model)
    groups, seventy = _groups(model), _is_70b(model)
    roles = {tensor.name: _role(tensor.name) for tensor in tensors}
    values = sum(role == "value" for role in roles.values())
    counters: Counter[str] = Counter()
    found: dict[str, Place] = {}
    for layer, name in sorted(_order(tensor) for tensor in tensors if quantizable(tensor)):
        role = roles[name]
        found[name] = Place(
            role=role,
            index=layer if experts > 1 and role in {"down", "gate", "up"} else counters[role],
            counted=counters[role],
            count=values if role == "value" else layers,
            groups=groups,
            experts=experts,
            seventy=seventy,
            falcon=model.network.family == "falcon",
            imatrix=imatrix,
        )
        counters[role] += 1
    return [(tensor, found.get(tensor.name)) for tensor in tensors]


def _order(tensor: GgufTensor) -> tuple[int, str]:
    """By layer, then by name (`weight_name_comparer`)."""
    parts = tensor.name.split(".")
    return (int(parts[1]) if parts[0] == "blk" else -1, tensor.name)


def _experts(model: Model) -> int:
    return model.sizes["E"] if model.has_experts else 0


def _groups(model: Model) -> int:
    """Query heads for each key head of the first layer (`n_gqa`): none without attention, all with a latent one."""
    layers = tuple(layers_in_order(model))
    # llama.cpp reads one number for all layers of Qwen3-Next, whose first has no attention
    shown = layers if any(getattr(mixer, "variant", "") == "gated-delta" for mixer in layers[0].mixers) else layers[:1]
    for mixer in (mixer for layer in shown for mixer in layer.mixers):
        if isinstance(mixer, Attention):
            return model.size((mixer.heads.query,)) // model.size((mixer.heads.key,))
        if isinstance(mixer, LatentAttention):
            return model.size((mixer.heads.query,))
    return 0


def _is_70b(model: Model) -> bool:
    """Return whether llama.cpp takes a model for 70B: it has 80 layers, with grouped queries if it is a Llama."""
    return model.num_layers == 80 and (
        (model.network.family in _LLAMAS and _groups(model) > 1) or model.network.family in _EIGHTY
    )


_LLAMAS = frozenset({"llama", "mistral", "mixtral", "llava"})
_EIGHTY = frozenset({"qwen2", "olmo"})


def _stored(tensor: GgufTensor, file_type: str) -> str:
    """Return the type of a tensor that is never quantized: F32, or that of the file which is quantized."""
    base = FILE_TYPES[file_type]
    return "F32" if tensor.fixed == "F32" or base == "F32" else "BF16" if base == "BF16" else "F16"


def _type(tensor: GgufTensor, place: Place, file_type: str, *, pure: bool, tied: bool) -> str:
    base = FILE_TYPES[file_type]
    quantized = BLOCK_TYPES[base].quantized
    if tensor.fixed is not None and (tensor.fixed == "MXFP4" or not quantized):
        return tensor.fixed  # llama-quantize refuses to quantize again what is published in four bits
    return base if pure or not quantized else _mixed(tensor, place, file_type, tied=tied)


def _mixed(tensor: GgufTensor, place: Place, file_type: str, *, tied: bool) -> str:
    base, role = FILE_TYPES[file_type], place.role
    if role == "output" or (role == "embedding" and tied):
        if file_type == "MXFP4_MOE" or place.falcon or tensor.row % BLOCK_TYPES[base].elements:
            return "Q8_0"
        return "Q8_0" if base == "Q8_0" else decided("output", file_type, place) or "Q6_K"
    if file_type == "MXFP4_MOE":
        return "MXFP4" if len(tensor.shape) > 2 else "Q8_0"
    found = decided(role, file_type, place) or base
    for _, condition, then in () if file_type in TWO_BITS else ABOVE.get(role, ()):
        if CONDITIONS[condition](place):
            found = then if isinstance(then, str) else then.get(found, found)
    return found


def _fitting(row: int, kind: str) -> str:
    """Return the type, or one of smaller blocks where the row is no whole number of them."""
    if row % BLOCK_TYPES[kind].elements == 0:
        return kind
    smaller = FALLBACK.get(kind, kind)
    return smaller if row % BLOCK_TYPES[smaller].elements == 0 else "F16"
