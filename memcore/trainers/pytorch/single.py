"""The engine `none`: one GPU."""

from __future__ import annotations

from memcore.trace.engine import AUTOCAST_PRESETS, Engine, Runtime

ENGINE = Engine(
    name="none",
    title="one GPU",
    runtime=Runtime,
    presets=AUTOCAST_PRESETS,
    default_preset="bf16",
    stored=lambda weight: weight.stored_axes,
    native=True,
    composes=True,
    distributed=False,
    communicators=0,
)
