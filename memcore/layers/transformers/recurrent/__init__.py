"""Mixers that carry a state from token to token: one file for each kind, with PyTorch's code and the fused kernels."""

from __future__ import annotations

from memcore.layers.transformers.recurrent.convolution import short_convolution
from memcore.layers.transformers.recurrent.delta import gated_delta, separate_delta
from memcore.layers.transformers.recurrent.gated import recurrent_gemma
from memcore.layers.transformers.recurrent.kimi import kimi_delta
from memcore.layers.transformers.recurrent.lightning import lightning
from memcore.layers.transformers.recurrent.mamba import mamba
from memcore.layers.transformers.recurrent.mamba2 import mamba2

RECURRENT = {
    "gated-delta": gated_delta,
    "separate-delta": separate_delta,
    "kimi-delta": kimi_delta,
    "lightning": lightning,
    "mamba": mamba,
    "mamba2": mamba2,
    "recurrent-gemma": recurrent_gemma,
    "short-conv": short_convolution,
}
"""By `SpecialMixer.variant`."""
