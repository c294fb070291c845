"""The GPU that a manifest asks its nodes for: labels of Kubernetes' clouds, and resources of SkyPilot and dstack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memcore.errors import ConfigError
from memcore.hardware import find_accelerator

_LABELS = (
    "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product", "gpu.nvidia.com/class", "gpu.nvidia.com/model",
    "karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name", "accelerator",
)  # fmt: skip
"""Labels of nodes: GKE; NVIDIA's GPU feature discovery; CoreWeave; Karpenter and EKS Auto Mode on AWS."""
_INSTANCE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_CARDS: Mapping[str, str] = {
    "nvidia-tesla-a100": "a100-sxm-40gb", "nvidia-h100-mega-80gb": "h100-sxm-80gb",
    "nvidia-tesla-v100": "v100-sxm2-16gb",
}  # fmt: skip
"""GKE's names that say less than what they stand for: machines a2-highgpu, a3-megagpu and n1 (Compute Engine, GPU
machine types)."""
_INSTANCES: Mapping[str, str] = {
    "p3": "v100-sxm2-16gb", "p3dn": "v100-sxm2-32gb", "p4d": "a100-sxm-40gb", "p4de": "a100-sxm-80gb",
    "p5": "h100-sxm-80gb", "p5e": "h200-sxm-141gb", "p5en": "h200-sxm-141gb", "p6-b200": "b200", "g4dn": "t4",
    "g5": "a10g", "g6": "l4", "g6e": "l40s", "gr6": "l4", "a2-highgpu": "a100-sxm-40gb",
    "a2-megagpu": "a100-sxm-40gb", "a2-ultragpu": "a100-sxm-80gb", "a3-highgpu": "h100-sxm-80gb",
    "a3-megagpu": "h100-sxm-80gb", "a3-ultragpu": "h200-sxm-141gb", "a4-highgpu": "b200", "g2-standard": "l4",
}  # fmt: skip
"""Families of AWS EC2's and Google Compute Engine's machines with one kind of GPU each."""
_PROFILE = re.compile(r"(?:nvidia|amd)-gpu-([a-z0-9-]+):\d")
"""kubeai's profiles of nodes (charts/kubeai/values.yaml): `nvidia-gpu-l4:1`."""
_DEEPEST = 12


def card_of(content: Mapping[Any, Any]) -> str:
    """Return the accelerator that the nodes of a pod or of a job have, by its id; empty where none is named.

    >>> card_of({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}})
    'l4'
    >>> card_of({"resources": {"accelerators": "H100:8"}}), card_of({"resources": {"gpu": "A100:80GB:8"}})
    ('h100-sxm-80gb', 'a100-sxm-80gb')
    """
    found = {card for name, value in _asked(content) if (card := _card(name, value))}
    return found.pop() if len(found) == 1 else ""


def _asked(content: Mapping[Any, Any]) -> Iterator[tuple[str, object]]:
    """Yield labels with their values, and names of resources."""
    selector, resources = content.get("nodeSelector"), content.get("resources")
    profile = _PROFILE.match(str(content.get("resourceProfile")))
    if profile is not None:
        yield _LABELS[0], profile[1]
    if isinstance(selector, Mapping):
        yield from selector.items()
    for name in ("affinity", "nodeSelectorTerms"):
        yield from _expressions(content.get(name), 0)
    if not isinstance(resources, Mapping):
        return
    for wanted in (resources.get("accelerators"), resources.get("gpu")):
        if isinstance(wanted, Mapping):
            name = wanted.get("name", next(iter(wanted), None) if len(wanted) == 1 else None)
            yield _LABELS[0], name
        elif isinstance(wanted, str):
            name, _, rest = wanted.partition(":")
            yield _LABELS[0], name
            yield _LABELS[0], f"{name}-{rest.partition(':')[0]}"  # `A100:80GB:2`


def _expressions(content: object, deep: int) -> Iterator[tuple[str, object]]:
    """Yield labels that an affinity asks for with one value."""
    if deep > _DEEPEST:
        return
    if isinstance(content, list):
        for each in content:
            yield from _expressions(each, deep + 1)
    elif isinstance(content, Mapping):
        values = content.get("values")
        if content.get("operator") == "In" and isinstance(values, list) and len(values) == 1:
            yield str(content.get("key")), values[0]
        for each in content.values():
            yield from _expressions(each, deep + 1)


def _card(name: object, value: object) -> str:
    """Return the id of an accelerator that a label's value names; empty for another label and for an unknown name."""
    said = str(value)
    if name in _INSTANCE:
        family, dot, _ = said.partition(".")
        return _INSTANCES.get(family if dot else said.rpartition("-")[0], "")
    if name not in _LABELS or not isinstance(value, str):
        return ""
    plain = said.removesuffix("-SHARED").replace("_", "-")
    try:
        return _CARDS.get(plain) or find_accelerator(plain).id
    except ConfigError:
        return ""
