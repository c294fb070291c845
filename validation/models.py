"""From a plan to a model that can be trained: random weights, adapters, quantized weights, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from validation import rounding, torchtitan
from validation.plan import Adapter, Checkpoints, Generation, Plan, Refused

TORCH: Mapping[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_LISTS = ("layers", "h", "blocks")
"""How models name the list of their layers."""


Change = Callable[[Any], Any]


def build(plan: Plan, device: str, *, simulated: bool = False, share: Change | None = None) -> nn.Module:
    """The model of a plan on a device, ready to train; `share` is what parallelism makes of it before checkpoints.

    Raises Refused for what is not installed here.
    """
    with _default(TORCH[plan.precision.parameters]), torch.device(device):
        model = torchtitan.Transformer(plan.model, plan.sequence) if plan.implementation == "torchtitan" else None
    if model is None:
        model = _causal(plan.model, plan.precision.parameters, plan.attention, device, plan.quantization)
        model.config.use_cache = plan.use_cache
    model.train()
    if plan.adapter is not None:
        model = _adapted(model, plan.adapter, device, simulated=simulated, quantized=plan.quantization is not None)
        if plan.checkpoints.policy != "none":
            model.enable_input_require_grads()
    if plan.rounds:
        rounding.swap(model, model.get_output_embeddings() if model.config.tie_word_embeddings else None)
    if share is not None:
        model = share(model)
    checkpoint(model, plan.checkpoints)
    if plan.compiled:
        _, layers = layers_of(model)
        for layer in layers:
            layer.compile()
    return model


def build_for_generation(wanted: Generation, device: str) -> nn.Module:
    """A model that only generates."""
    return _causal(wanted.model, wanted.dtype, wanted.attention, device, None).eval()


def _causal(config: Mapping[str, Any], dtype: str, attention: str, device: str, quantization: str | None) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    kept = {_dtype_name(): TORCH[dtype]}
    content = {key: value for key, value in config.items() if key not in {"model_type", "torch_dtype", "dtype"}}
    described = AutoConfig.for_model(config["model_type"], **content)
    implementation = "eager" if attention == "math" else "sdpa"
    if quantization is None:
        with torch.device(device):
            return AutoModelForCausalLM.from_config(described, attn_implementation=implementation, **kept)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(described, attn_implementation=implementation, **kept)
    return _quantized(model, TORCH[dtype], device, quantization)


def _dtype_name() -> str:
    """What transformers calls the dtype of weights: `torch_dtype` before 4.56 (modeling_utils.py, from_pretrained)."""
    from transformers import __version__

    return "torch_dtype" if tuple(map(int, __version__.split(".")[:2])) < (4, 56) else "dtype"


def _quantized(model: nn.Module, dtype: torch.dtype, device: str, quantization: str) -> nn.Module:
    """Linear layers of bitsandbytes with random weights, as `from_pretrained` of a quantized model leaves them."""
    try:
        import bitsandbytes as bnb
    except ImportError:
        raise Refused(f"training.quantization: {quantization} needs bitsandbytes, which is not installed") from None
    head = model.get_output_embeddings()
    for name, module in list(model.named_modules()):
        if not isinstance(module, nn.Linear) or module is head:
            continue
        sizes, bias = (module.in_features, module.out_features), module.bias is not None
        if quantization == "int8":
            linear = bnb.nn.Linear8bitLt(*sizes, bias, has_fp16_weights=False, device="cpu")
        else:
            double = quantization == "nf4-double"
            linear = bnb.nn.Linear4bit(*sizes, bias, dtype, double, quant_type="nf4", device="cpu")
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, linear.to(dtype).to(device))
    for part in model.modules():
        if any(each.is_meta for each in (*part.parameters(recurse=False), *part.buffers(recurse=False))):
            part.to_empty(device=device, recurse=False)
    model.is_loaded_in_4bit = quantization != "int8"
    for parameter in model.parameters():
        parameter.requires_grad_(requires_grad=False)
    return model


def _adapted(model: nn.Module, wanted: Adapter, device: str, *, simulated: bool, quantized: bool) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
        from peft.tuners.tuners_utils import BaseTunerLayer
    except ImportError:
        raise Refused("training.adapter: needs peft, which is not installed") from None
    config = LoraConfig(
        r=wanted.rank,
        lora_alpha=2 * wanted.rank,
        lora_dropout=wanted.dropout,
        target_modules=wanted.targets,
        use_dora=wanted.dora,
        task_type="CAUSAL_LM",
    )
    if not simulated:
        own = {"fp32"} if quantized else {"fp32", str(next(model.parameters()).dtype).rpartition(".")[2]}
        adapted = get_peft_model(model, config, autocast_adapter_dtype=wanted.dtype == "fp32")
        if wanted.dtype not in own:
            for each in adapted.parameters():
                if each.requires_grad:
                    each.data = each.data.to(TORCH[wanted.dtype])
        return adapted
    # `Module.to` cannot swap fake parameters: they are made in their final dtype and place.
    with (
        _default(TORCH[wanted.dtype]),
        replaced(BaseTunerLayer, "_move_adapter_to_device_of_base_layer", lambda *_, **__: None),
        replaced(nn.Module, "to", lambda self, *_, **__: self),
        torch.device(device),
    ):
        return get_peft_model(model, config, autocast_adapter_dtype=False)


def layers_of(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """The longest list of layers, and its name."""
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and name.rpartition(".")[2] in _LISTS
    ]
    return max(lists, key=lambda each: len(each[1]))


def checkpoint(model: Any, wanted: Checkpoints) -> None:
    """Wrap layers into activation checkpoints."""
    if wanted.policy == "none":
        return
    if wanted.entry == "gradient_checkpointing_enable" or wanted.reentrant:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": wanted.reentrant})
        if wanted.reentrant:
            model.enable_input_require_grads()
        return
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    options: dict[str, Any] = {"preserve_rng_state": False, "early_stop": wanted.early_stop}
    _, layers = layers_of(model)
    for number, layer in enumerate(list(layers)):
        if wanted.policy == "selective" and wanted.mode == "op":
            layers[number] = checkpoint_wrapper(layer, context_fn=_selective_contexts(), **options)
        elif wanted.policy == "selective" and wanted.mode == "part":
            for name, part in list(layer.named_children()):
                layer.register_module(name, checkpoint_wrapper(part, **options))
        elif wanted.policy == "full" or (number + 1) % wanted.every == 0:
            layers[number] = checkpoint_wrapper(layer, **options)


def _selective_contexts() -> Callable[[], Any]:
    """torchtitan's policy: keep attention, communication and every second matrix product."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    aten = torch.ops.aten
    kept = {
        aten.mm.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_cudnn_attention.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops._c10d_functional.reduce_scatter_tensor.default,
        aten.max.default,
    }

    def contexts() -> Any:
        products = {True: 0, False: 0}

        def policy(context: Any, func: Any, *_: Any, **__: Any) -> Any:
            if func is aten.mm.default:
                products[context.is_recompute] += 1
                keep = products[context.is_recompute] % 2 == 1
            else:
                keep = func in kept
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    """New floating-point tensors have this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute has another value for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
