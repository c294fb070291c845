"""Losses of reinforcement learning and of distillation, as the trainers compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

Batch = dict[str, Tensor]


class ValueHead(nn.Module):
    """trl 0.9.6, models/modeling_value_head.py."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.summary = nn.Linear(width, 1, device=device)

    def forward(self, hidden: Tensor) -> Tensor:
        """One number for each token, in fp32."""
        found: Tensor = self.summary(self.dropout(hidden).to(self.summary.weight.dtype))
        return found


def proximal(model: Any, held: list[Any], device: str) -> Callable[[Any, Batch], Tensor]:
    """The update step of trl 0.9.6's PPOTrainer (`batched_forward_pass`, `loss`), after the rollouts."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    head = ValueHead(causal.config.hidden_size, device)

    def wrapped(net: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        outputs = net(input_ids=batch["input_ids"], output_hidden_states=True)
        values = head(outputs.hidden_states[-1]).squeeze(-1)
        return outputs.logits.float(), values

    def forward_pass(net: Any, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        logits, values = wrapped(net, batch)
        logp = F.log_softmax(logits[:, :-1, :], dim=2)
        logprobs = torch.gather(logp, 2, batch["input_ids"][:, 1:].unsqueeze(2)).squeeze(-1)
        del logp
        return torch.cat([logprobs]), torch.cat([logits])[:, :-1], torch.cat([values])[:, :-1]

    def losses(logprobs: Tensor, logits: Tensor, values: Tensor) -> Tensor:
        ratio = torch.exp(logprobs - logprobs.detach())
        loss = (-ratio).mean() + 0.1 * (values**2).mean()
        pd = F.softmax(logits, dim=-1)
        entropy = (torch.logsumexp(logits, dim=-1) - torch.sum(pd * logits, dim=-1)).mean()
        entropy.detach()
        return loss

    def update(net: Any, batch: Batch) -> Tensor:
        logprobs, logits, values = forward_pass(net, batch)
        held.append(logits)
        return losses(logprobs, logits, values)

    return update


def distilled(model: Any, teacher: Any, chunks: int) -> Callable[[Any, Batch], Tensor]:
    """torchtune 0.6.1, recipes/knowledge_distillation_single_device.py (`_loss_step`), modules/loss/kd_losses.py."""

    def logits_of(causal: Any, tokens: Tensor) -> list[Tensor]:
        hidden = causal.base_model(input_ids=tokens).last_hidden_state
        head = causal.get_output_embeddings()
        return [head(chunk) for chunk in hidden.chunk(chunks, dim=1)]

    def divergence(student: Tensor, taught: Tensor) -> Tensor:
        teacher_prob = F.softmax(taught, dim=-1, dtype=torch.float32)
        inf_mask = torch.isinf(student)
        student_logprob = F.log_softmax(student, dim=-1, dtype=torch.float32)
        prod_probs = torch.masked_fill(teacher_prob * student_logprob, inf_mask, 0)
        return -torch.sum(torch.sum(prod_probs, dim=-1).view(-1))

    def loss(net: Any, batch: Batch) -> Tensor:
        logits = logits_of(net, batch["input_ids"])
        with torch.no_grad():
            taught = logits_of(teacher, batch["input_ids"])
        labels = F.pad(batch["labels"], (0, 1), value=-100)[..., 1:].contiguous()
        total: Any = 0.0
        for student, other in zip(logits, taught, strict=True):
            total = total + divergence(student.reshape(-1, student.size(-1)), other.reshape(-1, other.size(-1)))
        for student, part in zip(logits, labels.chunk(chunks, dim=1), strict=True):
            total = total + F.cross_entropy(
                student.reshape(-1, student.size(-1)).float(), part.reshape(-1), reduction="sum"
            )
        return total

    return loss


def generalized(model: Any, teacher: Any) -> Callable[[Any, Batch], Tensor]:
    """trl 1.9, experimental/gkd/gkd_trainer.py (`compute_loss`, `generalized_jsd_loss`), over all tokens."""

    def divergence(student: Tensor, taught: Tensor, beta: float, temperature: float, places: Tensor) -> Tensor:
        student = student / temperature
        taught = taught / temperature
        student_log_probs = F.log_softmax(student, dim=-1)
        teacher_log_probs = F.log_softmax(taught, dim=-1)
        weight = torch.tensor(beta, dtype=student_log_probs.dtype, device=student_log_probs.device)
        mixture_log_probs = torch.logsumexp(
            torch.stack([student_log_probs + torch.log1p(-weight), teacher_log_probs + torch.log(weight)]), dim=0
        )
        kl_teacher = F.kl_div(mixture_log_probs, teacher_log_probs, reduction="none", log_target=True)
        kl_student = F.kl_div(mixture_log_probs, student_log_probs, reduction="none", log_target=True)
        jsd = weight * kl_teacher + (1 - weight) * kl_student
        jsd = jsd.index_select(1, places)  # a mask's selection, whose length fake tensors do not have
        return jsd.sum() / places.shape[0]

    def loss(net: Any, batch: Batch) -> Tensor:
        student = net(input_ids=batch["input_ids"]).logits.float()
        with torch.no_grad():
            taught = teacher(input_ids=batch["input_ids"]).logits.float()
        places = torch.arange(student.shape[1] - 1, device=student.device)
        return divergence(student[:, :-1, :], taught[:, :-1, :], 0.5, 0.9, places)

    return loss


def completed(length: int, tempers: str) -> Callable[[Any, Batch], Tensor]:
    """trl, trainer/grpo_trainer.py (`_get_per_token_logps_and_entropies`), over logits that accelerate casts to fp32.

    Logits are divided by the temperature in place (`logits.div_`) from 1.0 to 1.9, before and later into a tensor of
    their own. Source: trl 0.29, 1.9.2 and 1.12, trainer/utils.py (`selective_log_softmax`, `entropy_from_logits`).
    """

    def log_probabilities(outputs: Any, tokens: Tensor) -> Tensor:
        logits = outputs.float()[:, :-1, :]
        logits = logits[:, -length:, :]
        if tempers == "in-place":
            logits.div_(0.9)
        elif tempers:
            logits = logits / 0.9
        selected = torch.gather(logits, dim=-1, index=tokens[:, -length:].unsqueeze(-1))
        sums = torch.stack([torch.logsumexp(each, dim=-1) for each in logits])
        found = (selected - sums.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            for chunk in logits.reshape(-1, logits.shape[-1]).split(128, dim=0):
                logps = F.log_softmax(chunk, dim=-1)
                -(torch.exp(logps) * logps).sum(-1)
        return found

    def loss(net: Any, batch: Batch) -> Tensor:
        tokens = batch["input_ids"]
        found = log_probabilities(net(input_ids=tokens, logits_to_keep=length + 1).logits, tokens)
        return -torch.exp(found - found.detach()).mean()

    return loss
