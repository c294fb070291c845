"""Runs a config: on a GPU with the allocator's counters, or under a tracker on the CPU and on fake tensors."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from memcore.questions.reconciling.reconcile import name_of
from memcore.units import GiB
from validation import gpu, models, parallel, pipeline, sdpa, steps, torchtitan
from validation.cases import Phase, Run
from validation.plan import KERNELS, Generation, Plan, Refused, has_recurrent_mixers, plan
from validation.tracking import Tracker


def _wanted(config: Mapping[str, Any]) -> Plan | Generation:
    return plan({key: value for key, value in config.items() if not key.startswith("_")})


def tracked(config: Mapping[str, Any], device: str, *, simulated: bool) -> Iterator[Run]:
    """A run of every stage in which every storage is followed; `simulated` makes all tensors fake.

    `hardware.gpu_memory_gb` is a limit: reaching it is out of memory. Raises Refused for what this tool cannot run.
    """
    wanted = _wanted(config)
    if isinstance(wanted, Generation):
        if simulated:
            raise Refused("inference: when a generation ends depends on values, which fake tensors lack")
        yield _generated(config, wanted, device)
        return
    if wanted.layout.stages > 1 and not simulated:
        raise Refused("parallelism.pipeline_parallel_size: pipelines are simulated only")
    if wanted.compiled and simulated:
        raise Refused("training.compile: compiled graphs run on GPUs only")
    if wanted.layout.stages == 1:
        yield _one(config, wanted, device, None, simulated=simulated)
        return
    only = config.get("_rank")
    for stage in [only] if isinstance(only, int) else range(wanted.layout.stages):
        described = config if only == stage else {**config, "_id": f"{name_of(config)}.{stage}"}
        yield _one(described, wanted, device, stage, simulated=simulated)


def _one(config: Mapping[str, Any], wanted: Plan, device: str, stage: int | None, *, simulated: bool) -> Run:
    """One rank's run."""
    limit = config.get("hardware", {}).get("gpu_memory_gb")
    tracker = Tracker(device, workspaces=simulated and device == "cuda", limit=int(limit * GiB) if limit else None)
    out_of_memory = False
    staged = stage is not None and wanted.layout.runtime == "torch"
    spread = wanted.layout.world > 1 or wanted.layout.engine != "none"
    if spread:
        # An ideal pipeline's stages are jobs of their own: nothing but sizes passes between them.
        inside = wanted.layout.world // wanted.layout.stages
        rank, world = (inside * (stage or 0), wanted.layout.world) if staged else (0, inside)
        parallel.group(rank, world, "fake" if simulated else "gloo")
    ranks = parallel.ranks_of(wanted.layout, device, staged=staged) if spread else parallel.Ranks(None, None, None)
    with ExitStack() as stack:
        if simulated:
            _fake(stack, wanted, device)
        wanted = wanted if stage is None else pipeline.of_stage(wanted, stage)
        model = models.build(wanted, device, simulated=simulated, share=partial(_shared, wanted, ranks, stage))
        if ranks.data is not None:
            parallel.shard(model, wanted, ranks.data)
        gc.freeze()  # what is there by now is not looked through again after every micro-batch
        stack.enter_context(parallel.sharding_unseen(tracker))
        if staged:
            stack.enter_context(pipeline.without_votes())
        try:
            with tracker:
                _follow(tracker, model)
                net: Any = model
                group = None if ranks.stages is None else ranks.stages.get_group()
                if wanted.layout.engine == "ddp":
                    net = parallel.replicate(model, wanted.layout, simulated=simulated)
                steps.train(wanted, model, net, tracker, device, simulated=simulated, stage=stage, group=group)
        except torch.OutOfMemoryError:
            out_of_memory = True
    gc.unfreeze()
    phases = [Phase(name=each.name, allocated=each.end, peak=each.peak) for each in tracker.finish()]
    return Run(
        config=config,
        phases=parallel.widest(phases),
        device=f"fake tensors ({device})" if simulated else device,
        kind="simulated" if simulated else "cpu",
        rank="max" if stage is None else stage,
        out_of_memory=out_of_memory,
    )


def _generated(config: Mapping[str, Any], wanted: Generation, device: str) -> Run:
    """A prompt and its continuation on the CPU."""
    tracker = Tracker(device)
    with tracker:
        _generate(wanted, tracker, device)
    phases = [Phase(name=each.name, allocated=each.end, peak=each.peak) for each in tracker.finish()]
    return Run(config=config, phases=phases, device=device, kind="cpu")


def _shared(wanted: Plan, ranks: parallel.Ranks, stage: int | None, model: Any) -> Any:
    """Return what pipelines and tensor parallelism leave of a model."""
    staged = model if stage is None else pipeline.cut(model, wanted, stage)
    if ranks.tensor is not None:
        prefix = "lm." if isinstance(staged, pipeline.Stage) else ""
        parallel.share_tensors(staged, wanted, ranks.tensor, prefix)
    return staged


def _fake(stack: ExitStack, wanted: Plan, device: str) -> None:
    """Fake tensors for as long as the stack is open, with the kernels that a GPU would choose."""
    stack.enter_context(FakeTensorMode())
    if device == "cuda":
        stack.enter_context(models.replaced(F, "scaled_dot_product_attention", sdpa.choosing(wanted.attention)))
        stack.enter_context(models.replaced(torchtitan, "SIMULATED", value=True))


def _follow(recorder: steps.Recorder, model: nn.Module) -> None:
    """Record what exists before the first step."""
    for each in model.parameters():
        recorder.follow([each], "parameters" if each.requires_grad else "frozen parameters")
    recorder.follow(model.buffers(), "buffers")


def on_gpu(config: Mapping[str, Any], *, snapshots: bool = False, timed: bool = False) -> Run:
    """A run on this process's GPU; out of memory is an outcome. Steps after the recorded ones are timed if asked for.

    Raises Refused for what this tool cannot run.
    """
    wanted = _wanted(config)
    if isinstance(wanted, Plan) and wanted.layout.stages > 1:
        raise Refused("parallelism.pipeline_parallel_size: pipelines are simulated only")
    layout = wanted.layout if isinstance(wanted, Plan) else None
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    ranks = parallel.Ranks(None, None, None)
    if layout is not None and (layout.world > 1 or layout.engine != "none"):
        parallel.group(0, layout.world, "nccl")
        ranks = parallel.ranks_of(layout, "cuda", staged=False)
    gpu.start(expandable=isinstance(wanted, Plan) and wanted.expandable)
    described = _as_it_runs(config, layout.world if layout else 1)
    recorder, out_of_memory = gpu.Recorder(), False
    categories: Mapping[str, int] | None = None
    seconds = None
    try:
        if isinstance(wanted, Generation):
            _generate(wanted, recorder, "cuda")
        else:
            model = models.build(wanted, "cuda", share=partial(_shared, wanted, ranks, None))
            if ranks.data is not None:
                parallel.shard(model, wanted, ranks.data)
            gpu.settle()
            _follow(recorder, model)
            net = parallel.replicate(model, wanted.layout, simulated=False) if wanted.layout.engine == "ddp" else model
            seconds = steps.train(wanted, model, net, recorder, "cuda", simulated=False, timed=timed)
            categories = recorder.by_category() if snapshots else None
            del model, net
    except torch.OutOfMemoryError:
        out_of_memory = True
    finally:
        name = torch.cuda.get_device_properties(torch.cuda.current_device()).name
        gpu.start(expandable=False)
    last = recorder.phases[-1] if recorder.phases else None
    outside = {"outside_the_allocator": gpu.shown() - torch.cuda.memory_reserved()} if last else None
    return Run(
        config=described,
        phases=parallel.widest(recorder.phases),
        device=name,
        kind="hardware",
        out_of_memory=out_of_memory,
        components=outside,
        categories=categories,
        seconds=seconds,
    )


def _as_it_runs(config: Mapping[str, Any], ranks: int) -> Mapping[str, Any]:
    """A config with what this machine decides: its GPU, and whether there are kernels for recurrent mixers."""
    described = {**config, "hardware": {**config.get("hardware", {}), **gpu.hardware(ranks)}}
    if has_recurrent_mixers(config["model"]) and not any(find_spec(name) for name in KERNELS):
        described["training"] = {"kernels": "fallback", **config.get("training", {})}
    return described


def _generate(wanted: Generation, recorder: steps.Recorder, device: str) -> None:
    """Read a prompt and continue it greedily."""
    model: Any = models.build_for_generation(wanted, device)
    if device == "cuda":
        gpu.settle()
    recorder.phase("after_init")
    tokens = torch.randint(0, wanted.model["vocab_size"], (wanted.batch, wanted.prompt), device=device)
    recorder.phase("0.generate")
    with torch.inference_mode():
        model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            min_new_tokens=wanted.output,
            max_new_tokens=wanted.output,
            do_sample=False,
            pad_token_id=0,
        )
    recorder.phase("done")
