"""What makes room in TGI, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.tgi.settings import TgiSettings
from memcore.serving.changes import PAGED, ServerChange, Share, fewer_tokens, larger_share

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "tgi": (
        larger_share(Share(TgiSettings.cuda_memory_fraction)),
        fewer_tokens(TgiSettings.max_batch_prefill_tokens),
        *PAGED,
    ),
}
"""In order of harm, in which the ladder climbs them."""
