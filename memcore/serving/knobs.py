"""What servers offer to a plan, unless they have more of their own."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.knobs import Knob

ON_GPU: Mapping[str, Knob] = {}
"""By server: how many layers are on GPUs, for those that keep the others on the host; the knob sets the number."""
