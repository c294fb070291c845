"""How a server may be divided among GPUs, the simplest ways first."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.config.devices import node_of
from memcore.config.hardware import Hardware
from memcore.config.knobs import Knob
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.questions.searching.spaces import powers
from memcore.serving.estimate import ServingEstimate
from memcore.serving.settings import ServerSettings
from memcore.serving.stages import Layout

_TENSOR, _STAGES, _DATA = (
    Parallelism.tensor_parallel_size,
    Parallelism.pipeline_parallel_size,
    Parallelism.data_parallel_size,
)


def division_of(layout: Layout) -> str:
    """Return a layout as engineers write it: TP8 PP2, DP8 EP."""
    sizes = (("TP", layout.tensor), ("PP", layout.pipeline), ("DP", layout.data))
    names = [f"{name}{size}" for name, size in sizes if size > 1]
    return " ".join((*names, "EP") if layout.expert_parallel and names else names)


def layouts(config: Config, found: ServingEstimate, gpus: int) -> Iterator[Knob]:
    """Layouts in which all GPUs hold parts of the same model.

    vLLM, docs/serving/parallelism_scaling.md: tensor parallel within a node, pipeline stages across nodes;
    docs/serving/data_parallel_deployment.md: attention data-parallel where ranks of tensor parallelism would hold the
    same cache, with experts shared out over all ranks.
    """
    node, server, sizes = node_of(config), found.job.server, found.job.basics.model.sizes
    if gpus > node and gpus % node == 0 and "pipeline" in server.parallel:
        yield _layout(
            gpus,
            {_TENSOR: node, _STAGES: gpus // node},
            "Pipeline across nodes",
            "tensor parallelism stays within a node, and stages send only hidden states between nodes",
        )
    if "tensor" in server.parallel:
        yield _layout(gpus, {_TENSOR: gpus}, "Tensor parallel", "each matrix is split across all GPUs")
    within = server.data_within
    if (server.wide_experts or within is not None) and sizes.get("E", 1) > 1:
        for tensor in powers(min(gpus // 2, node)):
            if gpus % tensor == 0:
                own: dict[str, object] = {_TENSOR: tensor, ServerSettings.enable_expert_parallel: True}
                if within is not None:  # slices of all experts take the same bytes
                    own = {_TENSOR: gpus, within: True}
                elif tensor == 1:
                    own[_TENSOR] = None
                yield _layout(
                    gpus,
                    {**own, _DATA: gpus // tensor},
                    "Data-parallel attention",
                    "each rank has a cache for its own users, and experts are distributed over all ranks",
                )


def replicas(found: ServingEstimate, gpus: int) -> Iterator[Knob]:
    """Whole copies of the model, the smallest first: each serves its share of the users."""
    within = found.job.server.data_within
    if "data" in found.job.server.parallel and found.users > 1:
        for tensor in powers(gpus // 2):
            if gpus % tensor == 0:
                to: dict[str, object] = {_TENSOR: tensor if tensor > 1 else None, _DATA: gpus // tensor}
                yield _layout(
                    gpus,
                    to if within is None else {**to, within: None},
                    "Replicas",
                    "fewer GPUs wait for each other at every layer, and each replica serves a part of the users",
                )


def _layout(gpus: int, to: dict[str, object], title: str, why: str) -> Knob:
    cleared: dict[str, object] = dict.fromkeys((_TENSOR, _STAGES, _DATA))
    return Knob(title=title, to={**cleared, **to, Hardware.num_gpus: gpus}, why=why, source="")
