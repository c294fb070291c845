"""Trainable and frozen parts: adapters, modules and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import gcd

from memcore.config.adapted_layers import ranks_of
from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.needs import OF_ADAPTERS
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.dtypes import FLOATING
from memcore.errors import UnsupportedError
from memcore.layers.litgpt.model import check as check_litgpt
from memcore.layers.litgpt.network import FIRST_PROMPTED, HEAD, TARGETS, linear_targets, litgpt, prompted
from memcore.messages import Message, joined
from memcore.networks.adapter_kinds import (
    ADAPTER_KINDS,
    EMBEDDING_ROWS,
    KEYS_AND_VALUES,
    LINEAR_LAYERS,
    LITGPT_LAYERS,
    NORMS,
    SEQUENCE,
)
from memcore.networks.adapters import (
    ALL,
    HEADS,
    Adapter,
    adapted,
    around,
    learns,
    linear_names,
    outside_names,
    prefixed,
    targeted,
    with_saved,
    with_trained_rows,
)
from memcore.networks.nearest import only_counted, seeing
from memcore.networks.network import LANGUAGE_MODEL, SEEING, Model
from memcore.networks.parts import Attention
from memcore.networks.quantized import STORAGES
from memcore.networks.usual_targets import usual_targets
from memcore.networks.weights import Weight
from memcore.symbols import Shape, product
from memcore.trace.engine import Engine, engine_of
from memcore.trainers.pytorch.adapted_experts import converted, expert_targets, names_of
from memcore.trainers.pytorch.expert_parallel import layer_code
from memcore.trainers.pytorch.frameworks import KERNELS, casts_adapters, framework_of
from memcore.trainers.pytorch.frozen import quantized_model, stored_dtype, usual_preset
from memcore.trainers.pytorch.methods import scored


def learning_model(read: Defaults, model: Model, engine: Engine) -> Model:
    """Return the model with what a config adds to it and freezes of it."""
    if read.given(Training.optimizer.name) == "lora-fa" and read.given(Training.adapter.type) != "lora":
        read.refuse(
            Training.optimizer.name, "'lora-fa' freezes LoRA's first matrices; needs training.adapter {}", "lora"
        )
    if read.given(Training.implementation) == "unsloth" and read.given(Training.adapter.type) is None:
        reason = "layers of a full fine-tune, which unsloth_zoo compiles, are counted with fused kernels like Liger's"
        read.assumptions.append(Assumption(Training.implementation, "unsloth", reason, notable=True))
    found = trainable_parts(read, quantized_model(read, _adapted(read, scored(read, model), engine), engine))
    _refuse_mixed(read, found, engine)
    return found


def _refuse_mixed(read: Defaults, model: Model, engine: Engine) -> None:
    """FSDP2 takes one dtype of what learns in a group (`_init_mp_dtypes`); copies of modules have the model's."""
    if not engine.shards or engine.flat or not read.given(Training.adapter.modules_to_save):
        return
    stored = stored_dtype(read, engine)
    dtypes = {
        each.dtype or stored for each in model.network.embedding_and_head.weights() if learns(each, model.network)
    }
    if len(dtypes) > 1:
        raise UnsupportedError(
            Training.adapter.dtype,
            "the embedding and the head are trained in {}; FSDP2 needs a single dtype per group",
            joined(" and ", sorted(dtypes)),
        )


def _next_to_linears(read: Defaults, model: Model, kind: str, engine: Engine) -> Model:
    """Return the model with an adapter next to its linear layers."""
    _refuse_layers(read, kind)
    parameters = expert_targets(read, model, kind)
    only_experts = parameters and read.given(Training.adapter.target_modules) is None
    targets = () if only_experts else _targets(read, model, kind)
    targets, parameters, doubled = converted(read, model, kind, targets, parameters)
    if layer_code(read) == "lit-gpt":
        targets, model = _fused(read, model, TARGETS if ALL in targets else targets)
    outside = _outside(read, model)
    targets = _named(read, model, targets, outside)
    _refuse_dropout(read, kind)
    if around(model.network)[1] in targets:
        _refuse_at_head(read, kind)
    if not read.problems and not parameters and not targeted(model.network, targets):
        raise UnsupportedError(
            Training.adapter.target_modules,
            "found {}; {} has no linear layers with supported adapters",
            joined(", ", targets),
            model.name,
        )
    _refuse_places(read, model, others=bool(parameters or outside))
    adapter = Adapter(
        kind=kind,
        factor=_number(read, kind, Training.adapter.decompose_factor),
        block=_block(read, model, kind, targets),
        projections=_number(read, kind, Training.adapter.u),
        frequencies=_number(read, kind, Training.adapter.n_frequency),
        frozen=read.given(Training.optimizer.name) == "lora-fa",
        rank=_rank(read, kind),
        ranks=ranks_of(read.given(Training.adapter.rank_pattern)),
        layers=read.given(Training.adapter.layers_to_transform),
        within=model.network.path,
        targets=tuple(targets),
        parameters=tuple(parameters),
        doubled=doubled,
        divided=framework_of(read).divides_adapters,
        outside=outside,
        dtype=read.take(Training.adapter.dtype, _usual_dtype(read, engine)),
        dropout=float(read.take(Training.adapter.dropout, 0)),
    )
    return _with_saved(read, adapted(model, adapter))


_PLACES = (Training.adapter.rank_pattern, Training.adapter.layers_to_transform)
"""Where adapters differ."""


def _refuse_places(read: Defaults, model: Model, *, others: bool) -> None:
    """Check which layers have an adapter; `others`: stacked experts or towers are adapted, too."""
    for setting in _PLACES:
        if read.given(setting) is not None and (others or layer_code(read) == "lit-gpt"):
            read.refuse(setting, "supported only for adapters of the decoder's linear layers; leave it out")
    numbers, count = read.given(Training.adapter.layers_to_transform), model.num_layers
    if numbers and min(numbers) >= count:
        read.refuse(
            Training.adapter.layers_to_transform,
            "found {}; {} has layers 0 to {}",
            joined(", ", map(str, numbers)),
            model.name,
            count - 1,
        )


def _refuse_layers(read: Defaults, kind: str) -> None:
    """Check the layers: LoRA takes all, DoRA also transformers' with bitsandbytes, other adapters plain ones."""
    storage = read.given(Training.quantization)
    supported = storage is None or (kind == "dora" and not STORAGES[storage].floating)
    if kind != "lora" and (layer_code(read) != "transformers" or not supported):
        of_dora = "found {!r}; supported only on transformers layers, unquantized or quantized by bitsandbytes"
        of_others = (
            "found {!r}; supported only on unquantized transformers layers: use lora, or drop "
            "training.quantization and set training.implementation to transformers"
        )
        raise UnsupportedError(Training.adapter.type, of_dora if kind == "dora" else of_others, kind)


def _adapted(read: Defaults, model: Model, engine: Engine) -> Model:
    """Return the model with its adapter, if it has one."""
    if read.given(Training.adapter.type) is None:
        for setting in OF_ADAPTERS:
            if read.given(setting) is not None:
                read.refuse(setting, "needs {}", Training.adapter.type)
        return litgpt(model, ()) if layer_code(read) == "lit-gpt" else model
    kind = _kind(read)
    _refuse_foreign(read, kind)
    return _ATTACH[ADAPTER_KINDS[kind].attached_to](read, model, kind, engine)


def _usual_dtype(read: Defaults, engine: Engine) -> str:
    """Return the dtype of an adapter's matrices: PEFT makes them fp32, other frameworks' are of the model's dtype.

    Source: nemo_automodel/components/_peft/lora.py (`lora_dtype`); torchtune/modules/peft/lora.py.
    """
    if casts_adapters(read):
        return "bf16"
    return _stored(read, engine) if framework_of(read).adapts_itself else "fp32"


def _outside(read: Defaults, model: Model) -> tuple[str, ...]:
    """Return which of towers and projectors have adapters too: those that `training.trainable` names."""
    given = read.given(Training.trainable)
    parts = () if given in (None, "all") else names_of(given)
    if LANGUAGE_MODEL not in parts or not seeing(model.network):
        return ()
    if only_counted(model.network):
        message = "found {!r}; adapters are supported only in the language model of {}"
        raise UnsupportedError(Training.trainable, message, given, model.name)
    return tuple(kind for kind in SEEING if kind in parts)


def _named(read: Defaults, model: Model, targets: Sequence[str], outside: Sequence[str]) -> Sequence[str]:
    """Return the targets that are layers of the model. PEFT passes over other names, unless there is nothing else.

    A path, such as `layers.0`, would be the end of other modules' paths (`check_target_module_exists`).
    Source: peft 0.21, tuners/tuners_utils.py, `inject_adapter` ("Target modules … not found in the base model").
    """
    path = Training.adapter.target_modules
    known = (*dict.fromkeys((*linear_names(model.network), *outside_names(model.network, outside))), ALL)
    found = [each for each in targets if each in known]
    others = [each for each in targets if each not in known]
    if found and others and not any("." in each for each in others):
        reason = Message("{} has no {}, so the adapter skips them", model.name, joined(", ", others))
        read.assumptions.append(Assumption(path, found, reason, notable=True))
        return found
    for unknown in others:
        read.refuse(path, "found {!r}; linear layers: {}, or {}", unknown, joined(", ", known[:-1]), ALL)
    return targets


def _targets(read: Defaults, model: Model, kind: str) -> Sequence[str]:
    """Return the linear layers that get an adapter: a framework's choice, where it has one."""
    found, reason = usual_targets(read.given(EngineSettings.framework), model.network.family, kind)
    usual, reason = (list(found), reason) if found else (ALL, "as most recipes do")
    return names_of(read.take(Training.adapter.target_modules, usual, reason))


def _refuse_at_head(read: Defaults, kind: str) -> None:
    """Kernels of a loss are given the head's matrix without its adapter."""
    loss = read.given(Training.loss)
    if loss in KERNELS:
        read.refuse(Training.loss, "found {!r}, which bypasses an adapter on the head; leave one of them out", loss)
    if kind != "lora":
        raise UnsupportedError(
            Training.adapter.target_modules, "on the output head only lora is supported, found {!r}", kind
        )


def _kind(read: Defaults) -> str:
    """Return the kind of adapter; rank-stabilized LoRA differs from LoRA by a number alone."""
    kind = str(read.given(Training.adapter.type))
    return "lora" if kind == "rslora" else kind


def _with_saved(read: Defaults, model: Model) -> Model:
    """Return the model with trained copies of its embedding or head."""
    path = Training.adapter.modules_to_save
    names = names_of(read.given(path) or ())
    if not names:
        return model
    known = around(model.network)
    names = [known[1] if each == HEADS.get(known[0]) else each for each in names]
    for unknown in [each for each in names if each not in known]:
        read.refuse(path, "found {!r}; trained copies are supported only for {}", unknown, joined(" and ", known))
    if layer_code(read) == "lit-gpt":
        raise UnsupportedError(path, "LitGPT's LoRA trains no copies of modules; leave it out")
    if set(names) & set(names_of(read.given(Training.adapter.target_modules) or ())):
        read.refuse(path, "found {}; a module has an adapter or is trained in full, not both", joined(", ", names))
    return model if read.problems else with_saved(model, names)


_OF_LINEAR_LAYERS = (Training.adapter.modules_to_save, Training.adapter.target_parameters)


def _refuse_foreign(read: Defaults, kind: str) -> None:
    """Refuse settings that this kind of adapter does not have."""
    for setting, need in OF_ADAPTERS.items():
        if kind in need.values or read.given(setting) is None:
            continue
        if setting in _OF_LINEAR_LAYERS:
            read.refuse(setting, "supported only with adapters of linear layers, found {!r}", kind)
        elif len(need.values) <= _FEW:
            read.refuse(setting, "applies to {}, found {!r}", joined(" and ", need.values), kind)
        elif setting != Training.adapter.dropout or ADAPTER_KINDS[kind].attached_to != LINEAR_LAYERS:
            read.refuse(setting, "{} has no {}; leave it out", kind, setting.name)


_FEW = 3
"""The most kinds that an error lists."""


def _refuse_dropout(read: Defaults, kind: str) -> None:
    """Refuse a dropout above 0 for kinds whose dropout, if PEFT has one, does not concern the layer's input."""
    dropout = read.given(Training.adapter.dropout)
    if dropout and "dropout" not in ADAPTER_KINDS[kind].settings:
        raise UnsupportedError(
            Training.adapter.dropout, "found {}; not supported yet for {}; allowed: {}", dropout, kind, 0
        )


def _number(read: Defaults, kind: str, setting: Setting[int], reason: str | None = "PEFT's default") -> int:
    """Return a number of the adapter; 0 for kinds that have none."""
    default = ADAPTER_KINDS[kind].settings.get(setting.name)
    return 0 if default is None else read.take(setting, default, reason)


def _block(read: Defaults, model: Model, kind: str, targets: Sequence[str]) -> int:
    """Return the side of the blocks that rotate an input; 0 if there are none, or if the rank is their number."""
    if kind == "oft" and read.given(Training.adapter.rank) is not None:
        if read.given(Training.adapter.block_size) is not None:
            read.refuse(Training.adapter.block_size, "OFT takes a rank (number of blocks) or a block size, not both")
        return 0
    side = _number(read, kind, Training.adapter.block_size)
    widths = {linear.name: product(linear.inner, model.sizes) for linear in targeted(model.network, targets)}
    if kind == "c3a":
        outer = {linear.name: product(linear.outer, model.sizes) for linear in targeted(model.network, targets)}
        widths = {name: gcd(width, outer[name]) for name, width in widths.items()}
    for name, width in widths.items() if kind in ("boft", "c3a") else ():
        if width % side:
            read.refuse(
                Training.adapter.block_size,
                "found {}; {} has width {}, which is not a multiple of the block size",
                side,
                name,
                width,
            )
    return side


def _prepended(read: Defaults, model: Model, kind: str, _: Engine) -> Model:
    """Return the model with learned tokens before the sequence (peft/tuners/prompt_tuning and p_tuning, `model.py`).

    P-tuning makes them with a network of three layers as wide as the model.
    """
    embedding_and_head = model.network.embedding_and_head
    if layer_code(read) != "transformers" or embedding_and_head.start != "decoder" or model.network.towers:
        raise UnsupportedError(Training.adapter.type, "found {!r}; supported only with transformers' decoders", kind)
    tokens = _number(read, kind, Training.adapter.num_virtual_tokens, _OF_EXAMPLES)
    dtype = read.take(Training.adapter.dtype, "fp32")
    module = "prompt_encoder.default"
    axes: dict[str, tuple[Shape, ...]] = {"embedding.weight": (("va",), ("h",))}
    for place in (0, 2, 4) if kind == "p-tuning" else ():
        axes |= {f"mlp_head.{place}.weight": (("h",), ("h",)), f"mlp_head.{place}.bias": (("h",),)}
    added = tuple(Weight(f"{module}.{name}", each, "adapter", dtype=dtype) for name, each in axes.items())
    network = replace(
        model.network,
        embedding_and_head=replace(embedding_and_head, others=(*embedding_and_head.others, *added)),
        adapted=True,
    )
    return replace(model, network=network, sizes={**model.sizes, "va": tokens})


_OF_EXAMPLES = "as in PEFT's examples"


def _prefixed(read: Defaults, model: Model, kind: str, _: Engine) -> Model:
    """Return the model with learned keys and values (peft/tuners/prefix_tuning, without a projection)."""
    mixers = [mixer for layer in model.network.kinds for mixer in layer.mixers]
    simple = [each for each in mixers if isinstance(each, Attention) and (each.variant, each.mask) == _SIMPLE]
    if (
        layer_code(read) != "transformers"
        or len(simple) < len(mixers)
        or model.network.embedding_and_head.start != "decoder"
    ):
        raise UnsupportedError(
            Training.adapter.type, "found {!r}; supported only with transformers' plain decoders", kind
        )
    if read.given(Training.attention) in ("flash", "flex") or read.given(Training.quantization) is not None:
        found = read.given(Training.quantization) or read.given(Training.attention)
        raise UnsupportedError(
            Training.adapter.type,
            "found {!r} with {!r}; supported only with sdpa attention and without quantization",
            kind,
            found,
        )
    given = read.given(EngineSettings.type)
    if given is not None and not engine_of(given).copies:
        raise UnsupportedError(
            Training.adapter.type,
            "found {!r} with {} {!r}; supported only with engine.type none or ddp",
            kind,
            EngineSettings.type,
            given,
        )
    if read.given(Training.activation_checkpointing.policy) not in (None, "none"):
        read.refuse(
            "training.activation_checkpointing", "PEFT's prefix tuning does not support activation checkpointing"
        )
    if read.given(Training.use_cache) is False:
        read.refuse(Training.use_cache, "prefix tuning fills a cache; leave it out")
    tokens = _number(read, kind, Training.adapter.num_virtual_tokens, _OF_EXAMPLES)
    return prefixed(model, tokens, read.take(Training.adapter.dtype, "fp32"))


_SIMPLE = ("attention", "full")


def _with_rows(read: Defaults, model: Model, kind: str, _: Engine) -> Model:
    """Return the model with trainable rows of its embedding (peft/tuners/trainable_tokens)."""
    embedding = model.network.embedding_and_head.embedding.name.removesuffix(".weight")
    if layer_code(read) != "transformers" or read.given(Training.quantization) is not None:
        raise UnsupportedError(Training.adapter.type, "found {!r}; supported only with transformers' layers", kind)
    loss = read.given(Training.loss)
    if model.network.embedding_and_head.tied and loss in KERNELS:
        raise UnsupportedError(Training.loss, "found {!r}; not supported yet when rows of the head are trainable", loss)
    for target in names_of(read.given(Training.adapter.target_modules) or embedding):
        if target.rpartition(".")[2] != embedding.rpartition(".")[2]:
            read.refuse(
                Training.adapter.target_modules, "found {!r}; rows of {} are trainable; leave it out", target, embedding
            )
    reason = "the tokens that begin and end a sequence"
    tokens = _number(read, kind, Training.adapter.num_trainable_tokens, reason)
    return with_trained_rows(model, tokens, read.take(Training.adapter.dtype, "fp32"))


def _trained_norms(read: Defaults, model: Model, _: str, __: Engine) -> Model:
    """Return the model with trainable norms. PEFT trains copies; their frozen originals are a few kilobytes.

    Source: peft/tuners/ln_tuning/layer.py.
    """
    names = sorted(
        {weight.name.rpartition(".")[0].rpartition(".")[2] for weight, _, _ in model.tensors if weight.kind == "norm"}
    )
    targets = names_of(read.given(Training.adapter.target_modules) or ("norm",))
    for unknown in [each for each in targets if each not in ("norm", *names)]:
        read.refuse(Training.adapter.target_modules, "found {!r}; norms: {}", unknown, joined(", ", names))
    return replace(model, network=replace(model.network, trainable=tuple(targets), adapted=True))


def _rank(read: Defaults, kind: str) -> int:
    """Return the rank that an adapter begins with; 1 for kinds that have none, and for OFT with a block size."""
    if kind == "oft":
        return read.given(Training.adapter.rank) or 1
    return _number(read, kind, Training.adapter.init_r) or _number(read, kind, Training.adapter.rank) or 1


def _prompted(read: Defaults, model: Model, kind: str, engine: Engine) -> Model:
    """Return the model with one of LitGPT's adapters of learned tokens."""
    if layer_code(read) != "lit-gpt":
        raise UnsupportedError(
            Training.adapter.type, "found {!r}; supported only with LitGPT's layers; allowed: {}", kind, "lora"
        )
    if [len(run) for run in model.network.runs] != [1] or model.num_layers <= FIRST_PROMPTED:
        raise UnsupportedError(
            Training.adapter.type,
            "found {!r}; needs identical layers, and more than 2 of them, unlike {}",
            kind,
            model.name,
        )
    fused = litgpt(model, ())
    check_litgpt(fused.network)
    tokens = _number(read, kind, Training.adapter.num_virtual_tokens, None)
    dtype = read.take(Training.adapter.dtype, _stored(read, engine))
    return prompted(fused, tokens, dtype, second=kind.endswith("v2"))


_Attach = Callable[[Defaults, Model, str, Engine], Model]
_ATTACH: Mapping[str, _Attach] = {
    LINEAR_LAYERS: _next_to_linears,
    NORMS: _trained_norms,
    EMBEDDING_ROWS: _with_rows,
    SEQUENCE: _prepended,
    KEYS_AND_VALUES: _prefixed,
    LITGPT_LAYERS: _prompted,
}
"""By what a kind of adapter is attached to: from a model and a kind to the model with the adapter."""


def _stored(read: Defaults, engine: Engine) -> str:
    """Return the dtype of parameters that are made like the model's own."""
    stored = read.given(Training.parameter_dtype) or read.given(Training.precision) or usual_preset(read, engine)[0]
    return stored if stored in FLOATING else "fp32"


def _fused(read: Defaults, model: Model, targets: Sequence[str]) -> tuple[Sequence[str], Model]:
    """LitGPT's network, and which of its linear layers have adapters."""
    path = Training.adapter.target_modules
    known = (*TARGETS, HEAD)
    for unknown in [each for each in targets if each not in known]:
        read.refuse(path, "found {!r}; LitGPT supports {}, or {}", unknown, joined(", ", known), ALL)
    found = litgpt(model, targets)
    return linear_targets(found.network, targets), found


def trainable_parts(read: Defaults, model: Model) -> Model:
    """Return the model with everything frozen but the named parts."""
    path = Training.trainable
    given = read.given(path)
    if given is None or given == "all":
        return model
    parts = tuple(names_of(given))
    at_linears = ADAPTER_KINDS[_kind(read)].attached_to == LINEAR_LAYERS if model.network.adapted else None
    if model.network.adapted and not (at_linears and LANGUAGE_MODEL in parts):
        message = "found {!r}; with an adapter, only the adapter is trained; allowed: {}, or this with {}"
        read.refuse(path, message, given, LANGUAGE_MODEL, joined(", ", SEEING))
    if LANGUAGE_MODEL in parts:
        return _without_towers(read, model, parts)
    known = {part for weight, _, _ in model.tensors for part in weight.name.split(".")}
    known |= {weight.kind for weight, _, _ in model.tensors}
    for unknown in [each for each in parts if each not in known]:
        read.refuse(path, "found {!r}; parts of parameter names: {}, or all", unknown, joined(", ", sorted(known)))
    return replace(model, network=replace(model.network, trainable=parts))


def _without_towers(read: Defaults, model: Model, parts: Sequence[str]) -> Model:
    """The model with towers, projectors or both frozen; LLaMA-Factory's `freeze_vision_tower` and others' are this."""
    for unknown in [each for each in parts if each not in (LANGUAGE_MODEL, *SEEING)]:
        read.refuse(
            Training.trainable, "found {!r} with {!r}; allowed: {}", unknown, LANGUAGE_MODEL, joined(", ", SEEING)
        )
    if not seeing(model.network):
        read.refuse(Training.trainable, "found {!r}; {} has no towers; allowed: {}", LANGUAGE_MODEL, model.name, "all")
    frozen = tuple(kind for kind in SEEING if kind not in parts)
    return replace(model, network=replace(model.network, frozen=frozen))
