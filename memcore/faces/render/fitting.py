"""Models that some GPUs run, for a terminal, as links and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from memcore.columns import WIDTH, fitted, table
from memcore.config.settings import SETTINGS, Config
from memcore.config.url import encode_fragment
from memcore.i18n.page import say
from memcore.questions.planning.fitting import Fitting
from memcore.serving.inference import CHAT, Inference
from memcore.units import format_bytes


def fitting_text(found: Sequence[Fitting], hardware: Config, width: int = WIDTH) -> str:
    """Return what `memcore plan` prints of a question about models: a line for each, and how to see one whole."""
    length = hardware.get(Inference.max_model_len) or CHAT
    if not found:
        return "\n".join(fitted(say("cli-no-model-fits", length=f"{length:,}"), width)) + "\n"
    rows = [tuple(map(say, ("cli-needs", "cli-left", "cli-per-second", "cli-tokens", "cli-format", "cli-name")))]
    rows += [
        (
            format_bytes(each.found.device.expected),
            format_bytes((each.found.capacity or 0) - each.found.device.expected),
            "-" if each.pace is None else f"{each.pace:.3g}",
            f"{each.length:,}",
            each.format,
            each.name,
        )
        for each in found
    ]
    title = found[0].found.job.title
    flags = " ".join(f"--{SETTINGS[path].flag} {value}" for path, value in found[0].found.job.config.values.items())
    said = say("cli-models-that-fit", server=title, flags=flags, length=f"{length:,}")
    return "\n".join(line for text in (*table(rows, right=(0, 1, 2, 3)), said) for line in fitted(text, width)) + "\n"


def fitting_link(each: Fitting) -> str:
    """Return a model as a link to its job, with its format, what it needs and how fast it is."""
    pace = [] if each.pace is None else [say("models-pace", pace=f"{each.pace:.3g}")]
    said = ", ".join((each.format, format_bytes(each.found.device.expected), *pace))
    job = escape(f"#{encode_fragment(each.found.job.config)}")
    return f'<a href="{job}">{escape(each.name.rpartition("/")[2])}</a> <span class="note">({escape(said)})</span>'


def fitting_data(found: Sequence[Fitting]) -> dict[str, Any]:
    """Return the models as JSON."""
    return {
        "models": [
            {
                "model": each.name,
                "format": each.format,
                "max_model_len": each.length,
                "device_bytes": each.found.device.expected,
                "tokens_per_second": each.pace,
                "config": each.found.job.config.to_dict(),
            }
            for each in found
        ]
    }
