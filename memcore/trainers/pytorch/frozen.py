"""Frozen weights in few bits, as a config asks for them."""

from __future__ import annotations

from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.adapters import ALL, targeted
from memcore.networks.network import Model
from memcore.networks.parts import Experts, FeedForward, SpecialMixer
from memcore.networks.quantized import STORAGES, quantized
from memcore.networks.separate_experts import experts_of
from memcore.tensors.modes import Quantization
from memcore.trace.engine import Engine
from memcore.trace.recipe import Precision
from memcore.trainers.pytorch.expert_parallel import layer_code
from memcore.trainers.pytorch.frameworks import casts_ends, framework_of, usual_precision
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.transformers_releases import STARTS_NEW, before, loading_of, loop_of


def quantized_model(read: Defaults, model: Model, engine: Engine) -> Model:
    """Return the model with its frozen linear layers in few bits; FSDP shards them only in the dtype of the rest."""
    path = Training.quantization
    storage = read.given(path)
    if storage is None:
        for other in (TorchSettings.prepare_model_for_kbit_training, TorchSettings.quantize_moe_experts):
            if read.given(other):
                read.refuse(other, "prepares quantized models; needs {}", path)
        return model
    if not model.network.adapted:
        read.refuse(
            path,
            "found {!r}; quantized weights are frozen, so nothing is trainable without an adapter: set "
            "training.adapter",
            storage,
        )
    model = _with_mixers(_with_experts(read, model))
    row = STORAGES[storage]
    bits = row.bits
    if row.floating:
        _refuse_fp8(read, model, engine)
    if row.grouped:
        _refuse_gptq(read, model, engine)
    experts = before(read, STARTS_NEW) or bool(read.given(TorchSettings.quantize_moe_experts))
    experts = experts or _splits_experts(read, model)
    if not engine.shards:
        head = framework_of(read).quantizes_head
        return quantized(model, storage, row.dtype, ITEMSIZE[row.dtype] * 8 // bits, head=head, experts=experts)
    dtype, ranks = _as_sharded(read, engine)
    return quantized(model, storage, dtype, ITEMSIZE[dtype] * 8 // bits, experts=experts, ranks=ranks)


def _as_sharded(read: Defaults, engine: Engine) -> tuple[str, str]:
    """Return the dtype in which matrices are packed, and over which ranks they are sharded (`Weight.ranks`).

    FSDP2 shards no integers: every rank has all of them, and no hook gathers them (accelerate 1.15,
    utils/fsdp_utils.py, `fsdp2_prepare_model`: `incompatible_params4bit`).
    """
    storage, path = str(read.given(Training.quantization)), TorchSettings.bnb_4bit_quant_storage
    if STORAGES[storage].bits == 8:
        message = "found {!r}; FSDP cannot shard bitsandbytes' 8-bit matrices; allowed: {}"
        read.refuse(Training.quantization, message, storage, "nf4, nf4-double")
    if read.given(path) != "uint8":
        return stored_dtype(read, engine), "z"
    if engine.flat:
        read.refuse(path, "FSDP1 cannot flatten integers; allowed: {}", "float")
    return STORAGES[storage].dtype, ""


def _with_experts(read: Defaults, model: Model) -> Model:
    """Return the model with a warning about routed experts, which stay as they are where transformers 5 stacks them.

    Source: transformers 5.23, integrations/bitsandbytes.py (`replace_with_bnb_linear`: `type(module) is nn.Linear`) and
    quantizers/base.py (`MODULES_TO_PATCH_FOR_QUANTIZATION`: Llama 4's experts become lists).
    """
    path = Training.quantization
    found = list(experts_of(model.network))
    if not found:
        return model
    if _splits_experts(read, model):
        return model
    if before(read, STARTS_NEW):
        separate = all(ffn.gated and len(ffn.experts) == 2 and not ffn.adapters for ffn in found)
        if not separate or any(ffn.variant in ("llama4", "dbrx", "gpt_oss") for ffn in found):
            raise UnsupportedError(path, "not supported yet for {}'s experts with transformers 4", model.name)
        if STORAGES[str(read.given(path))].bits == 8:
            raise UnsupportedError(path, "8 bits are not supported yet for routed experts with transformers 4")
        return model
    if any(ffn.variant == "llama4" for ffn in found):
        raise UnsupportedError(
            path, "transformers splits Llama 4's experts to quantize them, which is not supported yet"
        )
    if read.given(TorchSettings.quantize_moe_experts):
        _refuse_experts(read, found)
        return model
    warning = (
        "its routed experts are not quantized: transformers 5 stacks their matrices, and bitsandbytes "
        "replaces only nn.Linear (transformers 4 had one per expert)"
    )
    return replace(model, warnings=(*model.warnings, warning))


def _splits_experts(read: Defaults, model: Model) -> bool:
    """Return whether each expert is a linear layer.

    Source: unsloth_zoo, temporary_patches/gpt_oss.py (`GptOssExpertsBnb4bit`).
    """
    found = experts_of(model.network)
    return layer_code(read) == "unsloth" and any(ffn.variant == "gpt_oss" for ffn in found)


def _refuse_experts(read: Defaults, found: list[Experts]) -> None:
    """Refuse experts that are quantized when they are loaded with what that is not supported for yet.

    Source: axolotl, monkeypatch/moe_quant.py (`patch_moe_quantization_on_load`).
    """
    path, row = TorchSettings.quantize_moe_experts, STORAGES[str(read.given(Training.quantization))]
    if row.grouped or row.floating:
        read.refuse(path, "found {!r}; needs {}", True, "training.quantization 'nf4'")
    if any(len(ffn.experts) != 2 for ffn in found):
        raise UnsupportedError(path, "not supported yet for experts that have biases")


def _with_mixers(model: Model) -> Model:
    """Return the model with a warning about recurrent layers, whose linear layers are counted as they are stored."""
    kinds = {
        mixer.variant for layer in model.network.kinds for mixer in layer.mixers if isinstance(mixer, SpecialMixer)
    }
    if not kinds:
        return model
    warning = Message(
        "matrices of its {} layers are counted in 16 bits, although bitsandbytes quantizes most of them",
        joined(", ", sorted(kinds)),
    )
    return replace(model, warnings=(*model.warnings, warning))


def _refuse_fp8(read: Defaults, model: Model, engine: Engine) -> None:
    """Refuse what transformers' fp8 layers are not supported with."""
    path = Training.quantization
    if not engine.copies or layer_code(read) not in ("transformers", "liger"):
        found = Message("engine.type {!r} and {!r} layers", engine.name, layer_code(read))
        raise UnsupportedError(
            path, "'fp8' is supported only with engine.type none or ddp and transformers' layers; {}", found
        )
    if any(not isinstance(ffn, FeedForward) for layer in model.network.kinds for ffn in layer.ffns):
        raise UnsupportedError(path, "'fp8' would also quantize {}'s experts, which is not supported yet", model.name)
    if any(linear.transposed for linear in targeted(model.network, (ALL,))):
        read.refuse(path, "'fp8' replaces only nn.Linear, and {} has none", model.name)
    for other in (Training.compute_dtype, TorchSettings.prepare_model_for_kbit_training):
        if read.given(other):
            read.refuse(other, "applies to weights quantized by bitsandbytes; leave it out with 'fp8'")


def _refuse_gptq(read: Defaults, model: Model, engine: Engine) -> None:
    """Refuse what GPTQ's layers are not supported with; FSDP and ZeRO-3 do not shard integer buffers."""
    path = Training.quantization
    if not engine.copies or layer_code(read) not in ("transformers", "liger"):
        found = Message("engine.type {!r} and {!r} layers", engine.name, layer_code(read))
        raise UnsupportedError(
            path, "GPTQ and AWQ are supported only with engine.type none or ddp and transformers' layers; {}", found
        )
    if not before(read, STARTS_NEW) and any(True for _ in experts_of(model.network)):
        raise UnsupportedError(
            path, "GPTQ and AWQ are not supported yet for {}'s experts with transformers 5", model.name
        )
    if any(linear.transposed for linear in targeted(model.network, (ALL,))):
        raise UnsupportedError(path, "GPTQ and AWQ are not supported yet for {}, whose layers are Conv1D", model.name)
    kind = read.given(Training.adapter.type)
    if kind != "lora":
        raise UnsupportedError(
            Training.adapter.type, "found {!r}; only lora is supported next to GPTQ and AWQ so far", kind
        )


def usual_preset(read: Defaults, engine: Engine) -> tuple[str, str]:
    """Return the precision where none is asked for, and why."""
    reason = (
        "the engine's mixed-precision policy" if engine.default_preset.endswith("mixed") else "the checkpoint's dtype"
    )
    usual = usual_precision(read) if engine.copies else None
    return usual or (engine.default_preset, reason)


def undated(read: Defaults, model: Model, engine: Engine) -> Model:
    """Return the model with a warning where a release of transformers that is not named decides the weights' dtype."""
    said = (EngineSettings.framework_version, Training.precision, Training.parameter_dtype, Training.quantization)
    if not engine.copies or loop_of(read) != "transformers" or any(read.given(each) is not None for each in said):
        return model
    warning = (
        "weights are counted in the checkpoint's dtype, as transformers 5 loads them; transformers 4 loads them in "
        "fp32, which doubles parameters, gradients and states: set engine.framework_version"
    )
    return replace(model, warnings=(*model.warnings, warning))


def stored_dtype(read: Defaults, engine: Engine) -> str:
    """Return the dtype in which parameters are stored."""
    usual, _ = usual_preset(read, engine)
    preset = engine.presets.get(str(read.given(Training.precision)), engine.presets[usual])
    found: str = read.given(Training.parameter_dtype) or preset.parameter
    return found


def is_prepared(read: Defaults) -> bool:
    """Return whether PEFT casts the rest of a quantized model to fp32.

    Of GPTQ's it casts nothing (peft/utils/other.py).
    """
    asked = bool(read.given(TorchSettings.prepare_model_for_kbit_training))
    return asked and not STORAGES[str(read.given(Training.quantization))].grouped


def quantization_of(read: Defaults, precision: Precision, engine: Engine) -> Quantization | None:
    """Return how frozen matrices are computed with.

    What is prepared for few bits was loaded in the dtype of the products.
    """
    storage = read.given(Training.quantization)
    if storage is None:
        return None
    row = STORAGES[storage]
    given = read.given(Training.compute_dtype)
    if is_prepared(read):
        half = precision.autocast or ("fp16" if "fp16" in (read.given(Training.precision) or "") else "bf16")
        compute = stored = given or half
    else:
        compute, stored = given or precision.autocast or precision.compute, precision.compute
    early = framework_of(read).early_bitsandbytes
    stored = "fp16" if early else stored
    return Quantization(
        bits=row.bits,
        double=row.double,
        stored=stored,
        compute=compute,
        floating=row.floating,
        grouped=row.grouped,
        early=early and not row.grouped,
        whole=bool(read.given(TorchSettings.quantize_moe_experts)),
        loading="each" if row.floating or row.grouped or engine.shards else loading_of(read),
        casts_ends=casts_ends(read) and not engine.shards,
    )
