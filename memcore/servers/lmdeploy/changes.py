"""What makes room in LMDeploy, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.lmdeploy.settings import LmdeploySettings
from memcore.serving.changes import PAGED, ServerChange, Share, fewer_tokens, larger_share

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "lmdeploy": (
        larger_share(Share(LmdeploySettings.cache_max_entry_count)),
        fewer_tokens(LmdeploySettings.max_prefill_token_num),
        *PAGED,
    ),
}
"""In order of harm, in which the ladder climbs them."""
