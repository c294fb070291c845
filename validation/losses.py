"""The loss of a micro-batch, inside the model or after it, as a plan asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from validation import models, objectives
from validation.plan import Plan, Refused

Batch = dict[str, Tensor]
Loss = Callable[[Any, Batch], Tensor]
Phase = Callable[[str], None]


def prepare(model: Any, plan: Plan, held: list[Any], device: str, *, simulated: bool) -> Loss:
    """A function that computes the loss of a micro-batch; outputs that a trainer would hold go to `held`.

    Raises Refused for what is not installed here, and for combinations that no trainer has.
    """
    learned = _method(model, plan, held, device, simulated=simulated)
    if learned is not None:
        return learned
    if plan.loss in {"chunked", "fused-linear"}:
        if plan.implementation == "torchtitan" or plan.shifted_outside:
            raise Refused(f"training.loss: {plan.loss} is run inside models of transformers only")
        inner = _chunked(plan.chunks) if plan.loss == "chunked" else _fused(simulated=simulated)
        _causal(model).forward = MethodType(_over_hidden_states(inner), _causal(model))
        return lambda net, batch: net(**batch)
    upcasts = plan.loss == "cross-entropy-fp32"
    if plan.shifted_outside or plan.implementation == "torchtitan":
        return _after_the_model(plan, upcasts=upcasts)
    if not upcasts:
        _causal(model).loss_function = _in_logits_dtype

    def inside(net: Any, batch: Batch) -> Tensor:
        outputs = net(**batch)
        if plan.outputs_kept:
            held.append(outputs)
        loss: Tensor = outputs.loss
        return loss

    return inside


def _method(model: Any, plan: Plan, held: list[Any], device: str, *, simulated: bool) -> Loss | None:
    """The loss of a method other than supervised training."""
    if plan.method == "ppo":
        return objectives.proximal(model, held, device)
    if plan.method == "grpo":
        return objectives.completed(plan.completion, plan.tempers)
    if plan.method != "distill" or plan.teacher is None:
        return None
    alone = replace(plan, model=plan.teacher, adapter=None, checkpoints=replace(plan.checkpoints, policy="none"))
    teacher = models.build(alone, device, simulated=simulated, share=lambda built: built)
    if plan.symmetric:
        return objectives.generalized(model, teacher.requires_grad_(False))
    return objectives.distilled(model, teacher.requires_grad_(False), plan.chunks if plan.loss == "chunked" else 1)


def _causal(model: Any) -> Any:
    """The causal model behind an adapter's wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _after_the_model(plan: Plan, *, upcasts: bool) -> Loss:
    """The trainer's own loss, over labels that it has shifted."""

    def after(net: Any, batch: Batch) -> Tensor:
        labels = batch["labels"]
        if plan.implementation == "torchtitan":
            logits = net(batch["input_ids"])
        else:
            logits = net(**{name: each for name, each in batch.items() if name != "labels"}).logits
        flat = logits.flatten(0, 1)
        return F.cross_entropy(flat.float() if upcasts else flat, labels.flatten(0, 1))

    return after


def _shifted(labels: Tensor) -> Tensor:
    return F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()


def _in_logits_dtype(logits: Tensor, labels: Tensor, vocab_size: int, **_: Any) -> Tensor:
    """`ForCausalLMLoss` without its upcast."""
    return F.cross_entropy(logits.view(-1, vocab_size), _shifted(labels).view(-1))


def _over_hidden_states(inner: Callable[[Tensor, Any, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A forward pass that never makes all logits."""

    def forward(self: Any, labels: Tensor, **given: Any) -> Tensor:
        hidden = self.base_model(**given).last_hidden_state
        return inner(hidden, self.get_output_embeddings(), _shifted(labels))

    return forward


def _chunked(chunks: int) -> Callable[[Tensor, Any, Tensor], Tensor]:
    """torchtune's CEWithChunkedOutputLoss: logits chunk by chunk, each upcast on its own."""

    def loss(hidden: Tensor, head: Any, labels: Tensor) -> Tensor:
        outputs = [head(chunk) for chunk in hidden.chunk(chunks, dim=1)]
        total: Any = 0.0
        for logits, part in zip(outputs, labels.chunk(chunks, dim=1), strict=True):
            # No variable holds an upcast chunk: it is gone when its loss is known.
            total = total + F.cross_entropy(
                logits.reshape(-1, logits.shape[-1]).float(), part.reshape(-1), reduction="sum"
            )
        return total / labels.numel()

    return loss


def _fused(*, simulated: bool) -> Callable[[Tensor, Any, Tensor], Tensor]:
    """Liger's kernel; on fake tensors its allocations, transcribed."""
    if simulated:
        return lambda hidden, head, labels: FusedLinear.apply(
            hidden.reshape(-1, hidden.shape[-1]), head.weight, labels.reshape(-1)
        )
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    except ImportError:
        raise Refused("training.loss: fused-linear needs liger-kernel, which is not installed") from None
    kernel = LigerFusedLinearCrossEntropyLoss()

    def loss(hidden: Tensor, head: Any, labels: Tensor) -> Tensor:
        made: Tensor = kernel(head.weight, hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1))
        return made

    return loss


class FusedLinear(torch.autograd.Function):
    """Allocations of liger_kernel/ops/fused_linear_cross_entropy.py: gradients come out of the forward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        rows, hidden = x.shape
        share = -(-rows // -(-weight.shape[0] // hidden))
        size = 1 << (share - 1).bit_length()
        for_x = torch.zeros_like(x)
        for_weight = torch.zeros_like(weight) if weight.requires_grad else None
        losses = torch.zeros(rows, dtype=torch.float32, device=x.device)
        for start in range(0, rows, size):
            chunk = x[start : start + size]
            logits = (chunk @ weight.t()).contiguous()
            for_x[start : start + size] = logits @ weight
            if for_weight is not None:
                if for_weight.dtype == torch.float32 and logits.dtype != torch.float32:
                    for_weight.mul_(1.0)  # addmm with an fp32 output adds in place
                else:
                    for_weight += torch.mm(logits.t(), chunk).float()
        ctx.save_for_backward(for_x.detach(), for_weight.detach() if for_weight is not None else None)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        for_x, for_weight = ctx.saved_tensors
        for_x.mul_(gradient)
        if for_weight is not None:
            for_weight.mul_(gradient)
        return for_x, for_weight, None


@contextmanager
def without_values(*, padded: bool) -> Iterator[None]:
    """transformers decides two things by looking at values, which fake tensors lack.

    Whether positions are those of packed sequences (no), and whether a mask rules anything out (if there is one).
    """
    from importlib.util import find_spec

    from validation.models import replaced

    if find_spec("transformers.masking_utils") is None:  # before 4.53
        from transformers.modeling_attn_mask_utils import AttentionMaskConverter

        with replaced(AttentionMaskConverter, "_ignore_causal_mask_sdpa", staticmethod(lambda *_, **__: not padded)):
            yield
        return
    from transformers import masking_utils

    with replaced(masking_utils, "find_packed_sequence_indices", lambda *_: None):
        if not padded:
            yield
            return
        with replaced(masking_utils, "_ignore_causal_mask_sdpa", lambda *_, **__: False):
            yield
