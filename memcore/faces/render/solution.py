"""How far a setting goes, for a terminal and as JSON."""

from __future__ import annotations

from typing import Any

from memcore.columns import WIDTH, fitted
from memcore.config.devices import node_of
from memcore.config.hardware import Hardware
from memcore.config.texts import as_flags
from memcore.errors import MemcoreError
from memcore.i18n.page import complaint, label, say, translated
from memcore.memory.estimate import Estimate
from memcore.messages import listed, within
from memcore.questions.describe import verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.questions.solving import Found, Remedy, Solution, label_of, text_of
from memcore.serving.estimate import ServingEstimate


def solution_text(found: Solution) -> str:
    """Return what `memcore solve` prints: the value, what it leaves, and what binds."""
    named = {"label": label(found.setting, label_of(found.setting)), "path": found.setting}
    if found.value is None:
        lines = [say("cli-none-fits", **named)]
    else:
        way = "cli-smallest" if found.smallest else "cli-largest"
        lines = [say(way, value=text_of(found.setting, found.value), **named)]
        lines += [f"  {each}" for each in (*_sentences(found.found), *_notes(found.found))]
        if found.certain is not None:
            lines.append("  " + say("cli-certain", value=text_of(found.setting, found.certain)))
    if found.beyond is not None:
        way = "cli-no-more" if _is_in_vain(found) else "cli-closest" if found.value is None else "cli-with"
        lines.append(say(way, value=text_of(found.setting, found.beyond)))
        lines += [f"  {each}" for each in _sentences(found.limit)]
    elif found.value is not None and not found.smallest:
        lines.append(say("cli-unlimited"))
    if found.remedy is not None:
        lines += fitted(remedy_text(found.remedy), WIDTH)
        lines += [f"  {each}" for each in _sentences(found.remedy.solution.found)]
    return "\n".join(lines) + "\n"


def _is_in_vain(found: Solution) -> bool:
    """Return whether more GPUs than fit into a node, which were tried too, did not come closer."""
    if found.setting != Hardware.num_gpus or found.value is not None or not isinstance(found.limit, Estimate):
        return False
    return found.smallest and found.limit.job.num_gpus <= node_of(found.limit.job.config)


def remedy_text(found: Remedy) -> str:
    """Return the changes that let a value fit where none does, as flags too, and how far the setting then goes."""
    there = found.solution
    title = listed(say("and-comma"), map(translated, found.titles))
    way = "solved-remedy-smallest" if there.smallest else "solved-remedy-largest"
    value = "" if there.value is None else text_of(there.setting, there.value)
    return say(way, title=within(title), flags=as_flags(found.changes), value=value)


def solution_data(found: Solution) -> dict[str, Any]:
    """Return a solution as JSON."""
    return {
        "setting": found.setting,
        "goal": "smallest" if found.smallest else "largest",
        "value": found.value,
        "certain": found.certain,
        "step": found.step,
        "estimate": _data(found.found),
        "beyond": found.beyond,
        "limit": _data(found.limit),
        "remedy": None if found.remedy is None else _remedy(found.remedy),
    }


def _remedy(found: Remedy) -> dict[str, Any]:
    there = found.solution
    return {"changes": dict(found.changes), "value": there.value, "estimate": _data(there.found)}


def _sentences(found: Found | MemcoreError | None) -> tuple[str, ...]:
    if found is None:
        return ()
    if isinstance(found, MemcoreError):
        return (complaint(found),)
    said = serving_verdict(found) if isinstance(found, ServingEstimate) else verdict(found)
    return said.headline, said.reason


def _notes(found: Found | MemcoreError | None) -> tuple[str, ...]:
    return tuple(say("cli-warning", said=translated(each)) for each in _warnings(found))


def _warnings(found: Found | MemcoreError | None) -> tuple[str, ...]:
    """Return what a server's tool may have against a value that fits."""
    return found.beyond_positions if isinstance(found, ServingEstimate) else ()


def _data(found: Found | MemcoreError | None) -> dict[str, Any] | None:
    if found is None:
        return None
    if isinstance(found, MemcoreError):
        return {"refused": str(found)}
    device = {"low": found.device.low, "expected": found.device.expected, "high": found.device.high}
    return {
        "fits": found.fits,
        "device": device,
        "capacity": found.capacity,
        "because": _sentences(found)[-1],
        "warnings": list(_warnings(found)),
    }
