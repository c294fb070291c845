"""One stage of a pipeline: its part of the model, and the order of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from validation.models import TORCH, replaced
from validation.plan import Plan, Refused

UnitContext = Callable[..., AbstractContextManager[Any]]
_EMBEDDINGS = ("embed_tokens", "wte", "embed_in")
_NORMS = ("norm", "ln_f", "final_layer_norm")


def layers_in(count: int, stages: int, stage: int) -> int:
    """Layers of a stage: the first ones have one more where they do not divide."""
    return count // stages + (stage < count % stages)


def of_stage(plan: Plan, stage: int) -> Plan:
    """The plan of one stage: with its layers only."""
    key = next(each for each in ("num_hidden_layers", "n_layer") if each in plan.model)
    return replace(plan, model={**plan.model, key: layers_in(plan.model[key], plan.layout.stages, stage)})


def cut(model: Any, plan: Plan, stage: int) -> nn.Module:
    """A model with the layers of a stage, without the ends that other stages have."""
    first, last = stage == 0, stage == plan.layout.stages - 1
    if plan.implementation != "torchtitan":
        return Stage(model, first=first, last=last)
    if not first:
        model.tok_embeddings = None
    if not last:
        model.norm = model.output = None
    return model


class Stage(nn.Module):
    """A stage of a causal model of transformers."""

    def __init__(self, lm: Any, *, first: bool, last: bool) -> None:
        super().__init__()
        self.lm, self.first, self.last = lm, first, last
        base = lm.base_model
        for name in () if first else _EMBEDDINGS:
            if hasattr(base, name):
                setattr(base, name, None)
        if not last:
            for name in _NORMS:
                if hasattr(base, name):
                    setattr(base, name, nn.Identity())
            lm.set_output_embeddings(None)
            if hasattr(lm, "lm_head"):
                lm.lm_head = None

    def forward(self, x: Tensor) -> Tensor:
        """Tokens or hidden states to hidden states or logits."""
        given = {"use_cache": False, "input_ids" if self.first else "inputs_embeds": x}
        out: Tensor = self.lm(**given).logits if self.last else self.lm.base_model(**given).last_hidden_state
        return out


class Scheduled:
    """Runs the micro-batches of one stage through torch.distributed.pipelining, with its own buffers."""

    def __init__(
        self, plan: Plan, net: Any, stage: int, device: str, recorder: Any, around: UnitContext, group: Any
    ) -> None:
        self._plan, self._stage, self._device = plan, stage, device
        self._recorder, self._around = recorder, around
        self._first, self._last = stage == 0, stage == plan.layout.stages - 1
        self._schedule = self._made(net, group)

    def _made(self, net: Any, group: Any) -> Any:
        """The library's schedule over the library's stage."""
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

        plan = self._plan
        classes = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}
        if plan.layout.schedule not in classes:
            raise Refused(f"parallelism.pipeline_schedule: found {plan.layout.schedule!r}; allowed: 1f1b, gpipe")
        dtype = TORCH[plan.precision.compute]
        hidden = torch.empty(*received(plan), dtype=dtype, device="meta", requires_grad=True)
        tokens = torch.empty(plan.micro_batch, plan.sequence, dtype=torch.long, device="meta")
        logits = torch.empty(
            plan.micro_batch, plan.sequence, plan.model["vocab_size"], dtype=dtype, device="meta", requires_grad=True
        )
        made = PipelineStage(
            net,
            self._stage,
            plan.layout.stages,
            torch.device(self._device),
            input_args=(tokens if self._first else hidden,),
            output_args=(logits if self._last else hidden,),
            group=group,
        )
        self._name_phases(made)
        loss = partial(loss_of, upcasts=plan.loss == "cross-entropy-fp32")
        return classes[plan.layout.schedule](made, n_microbatches=plan.accumulation, loss_fn=loss)

    def _name_phases(self, made: Any) -> None:
        """The schedule interleaves passes: the stage's own calls say which one runs."""
        for name, phase in (("forward_one_chunk", "forward"), ("backward_one_chunk", "backward")):
            setattr(made, name, partial(self._named, phase, getattr(made, name)))

    def _named(self, phase: str, run: Callable[..., Any], *given: Any, **more: Any) -> Any:
        self._recorder.phase(f"{self._step}.{phase}")
        return run(*given, **more)

    def step(self, step: int) -> None:
        """All micro-batches of a step."""
        plan, self._step = self._plan, step
        self._recorder.phase(f"{step}.data")
        tokens = None
        if self._first or self._last:
            shape = (plan.micro_batch * plan.accumulation, plan.sequence)
            tokens = torch.randint(0, plan.model["vocab_size"], shape, device=self._device)
        more = {} if plan.layout.return_outputs else {"return_outputs": False}
        with self._around(forward=True):
            if self._last:
                self._schedule.step(target=tokens, losses=[], **more)
            else:
                self._schedule.step(*([tokens] if self._first else []), **more)


@contextmanager
def without_votes() -> Iterator[None]:
    """The schedule's first step votes by value on how shapes are found out, and forks CUDA's generator of numbers."""
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import InferenceMode

    def static(_: Any, stages: Any, *__: Any, **___: Any) -> None:
        for each in stages:
            each._inference_mode = InferenceMode.STATIC

    with (
        replaced(schedules._PipelineSchedule, "_warmup_p2p", static),
        replaced(torch.random, "fork_rng", lambda *_, **__: nullcontext()),
    ):
        yield


def loss_of(logits: Tensor, labels: Tensor, *, upcasts: bool) -> Tensor:
    """Cross-entropy after the model."""
    flat = logits.flatten(0, 1)
    return F.cross_entropy(flat.float() if upcasts else flat, labels.flatten(0, 1))


def received(plan: Plan) -> tuple[int, int, int]:
    """The shape of hidden states between stages."""
    length = plan.sequence // plan.layout.tensor if plan.layout.sequence_parallel else plan.sequence
    return plan.micro_batch, length, int(plan.model.get("hidden_size") or plan.model["n_embd"])


class Runner:
    """Runs the micro-batches of one stage, as a schedule orders them."""

    def __init__(self, plan: Plan, net: Any, stage: int, device: str, recorder: Any, around: UnitContext) -> None:
        self._plan, self._net, self._stage, self._device = plan, net, stage, device
        self._recorder, self._around = recorder, around
        self._first, self._last = stage == 0, stage == plan.layout.stages - 1
        self._live: list[tuple[Tensor, Tensor]] = []
        self._done = 0

    def step(self, step: int) -> None:
        """All micro-batches of a step: fill the pipeline, then one backward pass for every forward pass."""
        layout, count = self._plan.layout, self._plan.accumulation
        if layout.schedule not in {"1f1b", "gpipe"}:
            raise Refused(f"parallelism.pipeline_schedule: found {layout.schedule!r}; allowed: 1f1b, gpipe")
        waiting = layout.stages - self._stage - 1 if layout.schedule == "1f1b" else count
        self._done = 0
        for _ in range(min(waiting, count)):
            self._forward(step)
        for _ in range(min(waiting, count), count):
            self._forward(step)
            self._backward(step)
        while self._live:
            self._backward(step)

    def _forward(self, step: int) -> None:
        plan = self._plan
        self._recorder.phase(f"{step}.data")
        shape = (plan.micro_batch, plan.sequence)
        labels = None
        if self._first or self._last:
            tokens, labels = (torch.randint(0, plan.model["vocab_size"], shape, device=self._device) for _ in range(2))
        x = tokens if self._first else self._received()
        self._recorder.phase(f"{step}.forward")
        with self._around(forward=True):
            y = self._net(x)
            if self._last and labels is not None:
                y = loss_of(y, labels, upcasts=plan.loss == "cross-entropy-fp32")
        self._live.append((x, y))

    def _received(self) -> Tensor:
        """Hidden states of the stage before."""
        dtype = TORCH[self._plan.precision.compute]
        return torch.empty(*received(self._plan), dtype=dtype, device=self._device, requires_grad=True)

    def _backward(self, step: int) -> None:
        x, y = self._live.pop(0)
        self._done += 1
        if self._plan.layout.engine == "fsdp":
            last = self._done == self._plan.accumulation
            self._net.set_is_last_backward(last)
            self._net.set_reshard_after_backward(last)
            self._net.set_requires_gradient_sync(last)
        gradient = None if self._last else torch.empty_like(y)
        self._recorder.phase(f"{step}.backward")
        with self._around(forward=False):
            torch.autograd.backward(y, gradient)
        del x, y, gradient
