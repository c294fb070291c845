"""The router's sampling of Phi-3.5-MoE (transformers, models/phimoe/modeling_phimoe.py, `sparsemixer`)."""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import cat, elementwise, like, only, to
from memcore.tensors.indexing import gather, largest, scatter
from memcore.tensors.operations import softmax, sub
from memcore.tensors.running import masked_fill
from memcore.tensors.tensor import Tensor


def sparsemixer(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and indices of two experts; the second is drawn from what the first leaves.

    Local variables live to the end, or until the second turn gives them another value.
    """
    local: dict[str, Tensor] = {}
    multiplier, selected_experts, *_first = _draw(scores, scores, local)
    masked_scores = scatter(scores, selected_experts)
    multiplier_top2, selected_experts_top2, *_second = _draw(scores, masked_scores, local)
    shape = (*scores.shape[:-1], 2)
    multiplier = cat([multiplier, multiplier_top2], shape)
    selected_experts = cat([selected_experts, selected_experts_top2], shape)
    return multiplier, selected_experts


def _draw(scores: Tensor, masked_scores: Tensor, local: dict[str, Tensor]) -> list[Tensor]:
    """Return one expert for each token, and what the caller's local variables keep."""
    with scores.tape.no_grad():
        local["mask"], local["max_ind"] = largest(masked_scores)
        local["factor"] = like(like(scores, "abs"), "clamp")
        local["mask"] = _exceeds(local["mask"], scores)
    masked_gates = masked_fill(masked_scores, local["mask"])
    selected_experts = _sample(masked_gates)
    masked_gates = softmax(masked_gates)
    multiplier_o = gather(masked_gates, selected_experts)
    local["max_scores"], local["max_ind"] = largest(masked_gates)
    mask_for_one = _either(like(local["max_ind"], "equal", "bool"), _coin(local["max_scores"]))
    mask_for_one = like(mask_for_one, "add", "fp32")
    mask_for_one = to(mask_for_one, masked_gates.dtype)
    multiplier = _multiplier(scores, multiplier_o, selected_experts, masked_gates, mask_for_one)
    return [multiplier, selected_experts, masked_gates, multiplier_o, mask_for_one]


def _exceeds(threshold: Tensor, scores: Tensor) -> Tensor:
    """Return whether the distance from the largest score, over a factor, is more than noise."""
    return like(like(elementwise("sub", threshold, scores), "div"), "greater", "bool")


def _sample(masked_gates: Tensor) -> Tensor:
    """Gumbel sampling; autocast takes logarithms in fp32."""
    noise = like(masked_gates, "exponential")
    logarithms = like(to(noise, "fp32") if noise.tape.autocast else noise, "log")
    del noise
    distances = sub(masked_gates, logarithms)
    del logarithms
    return largest(distances)[1]


def _coin(x: Tensor) -> Tensor:
    return like(like(x, "random"), "greater", "bool")


def _either(x: Tensor, y: Tensor) -> Tensor:
    return like(x, "logical_or")


def _multiplier(
    scores: Tensor, multiplier: Tensor, selected_experts: Tensor, masked_gates: Tensor, mask_for_one: Tensor
) -> Tensor:
    """`PhimoeMultiplier`: its gradient goes to the scores."""
    needs = tracked(scores)
    out = elementwise("mul", multiplier, mask_for_one)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        at_output = elementwise("mul_backward", only(gradients), saved[0])
        negated = like(at_output, "mul_backward")
        return [elementwise("mul_backward", saved[2], negated), None, None]

    if needs:
        saved = save(scores.tape, multiplier, selected_experts, masked_gates)
        attach([out], [scores, multiplier, masked_gates], saved, apply)
    return out
