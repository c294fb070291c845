"""A few steps of training, with every phase told to a recorder."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn
from torch.distributed.tensor.parallel import loss_parallel

from validation import losses, optimizers, pipeline
from validation.models import TORCH, replaced
from validation.plan import Plan

STEPS = 2
"""Steps that are run: the first one without optimizer states, the second one like all later ones."""


TIMED = 3
"""Steps that are timed after those, of which the fastest counts."""


class Recorder(Protocol):
    """What watches a step."""

    def phase(self, name: str) -> None:
        """Whatever comes now belongs to another phase."""

    def follow(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """These tensors are of a category."""


class Silent:
    """Records nothing, so that a step takes as long as it takes."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def follow(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """Nothing."""


def train(
    plan: Plan,
    model: nn.Module,
    net: Any,
    recorder: Recorder,
    device: str,
    *,
    simulated: bool,
    stage: int | None = None,
    group: Any = None,
    timed: bool = False,
) -> float | None:
    """Train for some steps; `net` is the model, or what an engine has wrapped around it.

    `stage` is that of a pipeline, and `group` the process group of its stages, if a library runs them. Returns the
    seconds of a step on a GPU if they are asked for and there is no pipeline.
    """
    optimizer = optimizers.build(model.parameters(), plan.optimizer, simulated=simulated)
    around = partial(_around, plan, device, simulated=simulated)
    single = None
    if stage is None:
        single = _Single(plan, model, net, recorder, device, around, simulated=simulated)
        run = single.step
    elif plan.layout.runtime == "ideal":
        run = pipeline.Runner(plan, net, stage, device, recorder, around).step
    else:
        run = pipeline.Scheduled(plan, net, stage, device, recorder, around, group).step
    recorder.phase("after_init")
    for step in range(STEPS):
        run(step)
        recorder.follow((each.grad for each in model.parameters() if each.grad is not None), "gradients")
        # Adafactor reads numbers back, which fake tensors do not have.
        with replaced(torch.Tensor, "item", lambda _: 1.0) if simulated else nullcontext():
            take_step(plan, model, optimizer, recorder, step)
    recorder.phase("done")
    if single is None or not timed:
        return None
    single.recorder = Silent()
    seconds = []
    for step in range(TIMED):
        torch.cuda.synchronize()
        began = time.perf_counter()
        single.step(step)
        take_step(plan, model, optimizer, single.recorder, step)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


class _Single:
    """Micro-batches one after the other, through the whole model."""

    def __init__(
        self, plan: Plan, model: nn.Module, net: Any, recorder: Recorder, device: str, around: Any, *, simulated: bool
    ) -> None:
        self.recorder = recorder
        self._plan, self._net, self._device, self._around = plan, net, device, around
        self._held: list[Any] = []
        self._loss_of = losses.prepare(model, plan, self._held, device, simulated=simulated)

    def step(self, step: int) -> None:
        """All micro-batches of a step."""
        plan, recorder = self._plan, self.recorder
        for number in range(plan.accumulation):
            with _synchronized(self._net, plan, last=number == plan.accumulation - 1):
                recorder.phase(f"{step}.data")
                batch = _batch(plan, plan.model["vocab_size"], self._device)
                recorder.follow(batch.values(), "inputs")
                recorder.phase(f"{step}.forward")
                with self._around(forward=True):
                    loss = self._loss_of(self._net, batch)
                    if plan.accumulation > 1:
                        loss = loss / plan.accumulation
                recorder.phase(f"{step}.backward")
                with self._around(forward=False):
                    loss.backward()
            del loss, batch
            self._held.clear()
            if not isinstance(recorder, Silent):
                gc.collect()  # what a trainer's own variables would have let go of


@contextmanager
def _around(plan: Plan, device: str, *, simulated: bool, forward: bool) -> Iterator[None]:
    """Return what a trainer enters for a pass."""
    with ExitStack() as stack:
        if simulated and plan.implementation == "transformers":
            stack.enter_context(losses.without_values(padded=plan.padded))
        stack.enter_context(_kernel(plan, simulated=simulated))
        if plan.layout.loss_parallel and plan.layout.tensor > 1:
            stack.enter_context(loss_parallel())
        if forward and plan.precision.autocast:
            stack.enter_context(torch.autocast(device, dtype=TORCH[plan.precision.autocast]))
        yield


def take_step(plan: Plan, model: nn.Module, optimizer: torch.optim.Optimizer, recorder: Recorder, step: int) -> None:
    """Clip, update and let the gradients go."""
    recorder.phase(f"{step}.gradient_clipping")
    if plan.clips:
        learning = [each for each in model.parameters() if each.requires_grad]
        torch.nn.utils.clip_grad_norm_(learning, 1.0, foreach=True)
    recorder.phase(f"{step}.optimizer_step")
    optimizer.step()
    states = (each for state in optimizer.state.values() for each in state.values())
    recorder.follow((each for each in states if isinstance(each, torch.Tensor)), "optimizer states")
    recorder.phase(f"{step}.zero")
    model.zero_grad(set_to_none=not plan.keeps_gradients)
    recorder.phase(f"{step}.between")


def _batch(plan: Plan, vocabulary: int, device: str) -> dict[str, torch.Tensor]:
    shape = (plan.micro_batch, plan.sequence)
    batch = {name: torch.randint(0, vocabulary, shape, device=device) for name in ("input_ids", "labels")}
    if plan.padded:
        batch["attention_mask"] = torch.ones(shape, dtype=torch.long, device=device)
        batch["attention_mask"][0, -1] = 0
    if plan.layout.tensor > 1 and plan.implementation == "transformers":
        batch["position_ids"] = torch.arange(plan.sequence, device=device).unsqueeze(0)
    return batch


def _kernel(plan: Plan, *, simulated: bool) -> AbstractContextManager[Any]:
    """The kernel of scaled_dot_product_attention, if the plan names one."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    named = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    backend = named.get(plan.attention)
    return nullcontext() if backend is None or simulated else sdpa_kernel(backend)


@contextmanager
def _synchronized(net: Any, plan: Plan, *, last: bool) -> Iterator[None]:
    """Without communication until the last micro-batch, where the plan asks for that."""
    with ExitStack() as stack:
        if plan.layout.no_sync and plan.layout.engine == "fsdp":
            net.set_requires_gradient_sync(last)
        elif plan.layout.no_sync and plan.layout.engine == "ddp" and not last:
            stack.enter_context(net.no_sync())
        yield
