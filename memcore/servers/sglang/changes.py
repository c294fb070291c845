"""What makes room in SGLang, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.sglang.settings import SglangSettings
from memcore.serving.changes import PAGED, ServerChange, Share, fewer_tokens, larger_share

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "sglang": (
        larger_share(Share(SglangSettings.mem_fraction_static)),
        fewer_tokens(SglangSettings.chunked_prefill_size),
        *PAGED,
    ),
}
"""In order of harm, in which the ladder climbs them."""
