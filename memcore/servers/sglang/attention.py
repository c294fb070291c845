"""Data-parallel attention: groups within the tensor-parallel ranks have requests and caches of their own.

Attention and the embedding are split over the ranks of a group, the head over all ranks unless `--enable-dp-lm-head`
says otherwise, dense layers over all unless `--moe-dense-tp-size 1` has them whole, and shared experts are whole where
tokens are sent to experts. Sources: sglang 0.4.1 to 0.5.23, srt/layers/dp_attention.py, srt/models/deepseek_v2.py,
srt/models/qwen3_moe.py, srt/layers/logits_processor.py, and srt/server_args.py (srt/arg_groups since 0.5.19).
"""

from __future__ import annotations

from dataclasses import replace

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings, release
from memcore.config.parallelism import Parallelism
from memcore.networks.network import Model
from memcore.networks.parts import LatentAttention
from memcore.servers.sglang.settings import SglangSettings
from memcore.serving.settings import ServerSettings
from memcore.serving.stages import Layout

DENSE, SHARED, HEAD = "feed-forward", "shared-expert", "head"
_DIVIDED = (0, 4, 5)
"""The first release read in which groups may have several ranks, and the head is split over all of them."""
_RESERVED = (0, 4, 8)
"""The first release that leaves room for data-parallel attention."""
_ROOM, _EACH, _MORE, _MANY = 4 * 1024, 3, 1.5, 300
"""MiB up to 0.5.2; since then MiB of a captured sequence of each rank, and more beyond that many sequences."""
_ALWAYS = (0, 5, 3), (0, 5, 6)
"""The first release that runs sparse attention data-parallel whatever it is told, and the first that does not."""


def lays_out(read: Defaults, layout: Layout, model: Model) -> Layout:
    """Return groups of ranks that attend to the same requests; further copies of a model share no experts."""
    number = release(read.given(EngineSettings.version) or "")
    always = _ALWAYS[0] <= number < _ALWAYS[1] and any(
        isinstance(mixer, LatentAttention) and mixer.indexer for layer, _ in model.layers for mixer in layer.mixers
    )
    if always and layout.data < layout.tensor:
        said = "SGLang 0.5.3 to 0.5.5 run sparse attention data-parallel"
        read.assumptions.append(Assumption(Parallelism.data_parallel_size, layout.tensor, said, notable=True))
        layout = replace(layout, data=layout.tensor)
    if layout.data == 1 or not (always or read.take(SglangSettings.enable_dp_attention, False)):
        layout = replace(layout, experts=layout.tensor)
        return replace(layout, others=((SHARED, 1),)) if _sent(read) else layout
    ranks, count = layout.tensor, layout.data
    if ranks % count:
        said = "found {}, which must divide the tensor-parallel size ({})"
        read.refuse(Parallelism.data_parallel_size, said, count, ranks)
        return layout
    within = ranks // count
    former = bool(number) and number < _DIVIDED
    if former and within > 1:
        said = "found {}, but this release needs the tensor-parallel size ({})"
        read.refuse(Parallelism.data_parallel_size, said, count, ranks)
    whole = read.given(SglangSettings.moe_dense_tp_size)
    if whole not in (None, 1, ranks):
        said = "found {}; allowed: 1, or the tensor-parallel size ({})"
        read.refuse(SglangSettings.moe_dense_tp_size, said, whole, ranks)
    others = {
        DENSE: 1 if whole == 1 else ranks,
        SHARED: 1 if _sent(read) else ranks,
        HEAD: within if former or read.given(SglangSettings.enable_dp_lm_head) else ranks,
    }
    return replace(layout, tensor=within, experts=ranks, others=tuple(others.items()))


def _sent(read: Defaults) -> bool:
    """Return whether tokens are sent to the ranks of their experts."""
    return bool(read.given(ServerSettings.enable_expert_parallel)) and read.given(SglangSettings.moe_a2a_backend) in (
        "deepep",
        "flashinfer",
    )


def groups(layout: Layout) -> int:
    """Return how many groups have requests of their own within the ranks that share experts.

    >>> groups(Layout(tensor=2, data=4, experts=8)), groups(Layout(tensor=8, data=2, experts=8))
    (4, 1)
    """
    return (layout.experts or layout.tensor) // layout.tensor


def gathers_logits(layout: Layout) -> bool:
    """Return whether each rank computes a part of the logits of all groups' sequences."""
    return groups(layout) > 1 and dict(layout.others)[HEAD] > layout.tensor


def reserved(layout: Layout, graphs: int, number: tuple[int, ...], *, derives: bool) -> float:
    """Return MiB that are left for data-parallel attention.

    >>> reserved(Layout(tensor=1, data=8, experts=8), 512, (0, 5, 23), derives=True)
    18432.0
    """
    count = groups(layout)
    if count == 1:
        return 0
    if not derives:
        return _ROOM if number >= _RESERVED else 0
    return graphs * count * (_EACH + (_MORE if graphs > _MANY else 0))
