"""Plans as cards, with what each changes, needs and gives up, and buttons that take it; free room as buttons."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from memcore.config.knobs import TIERS
from memcore.config.settings import SETTINGS
from memcore.config.url import encode_fragment
from memcore.i18n.page import label, say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.readings import Reading
from memcore.messages import listed, within
from memcore.questions.describe import spelled
from memcore.questions.describe_serving import pace_in_words
from memcore.questions.headroom import Headroom
from memcore.questions.planning.plan import Planned, Proposal
from memcore.units import format_bytes

ELSEWHERE = ("work", "hardware")
"""Tiers that do not do what is asked on the hardware that there is."""


def plan_cards(found: Planned, *, certain: bool, done: bool) -> str:
    """Return the plans that help, and why there is none where nothing keeps work and hardware."""
    why = _limit(found) if done and found.none_because else ""
    return f"{why}{_list('ways', ''.join(map(_card, _helping(found, certain=certain))), done=done)}"


def _helping(found: Planned, *, certain: bool) -> list[Proposal]:
    """Return the plans that change something; `certain`: of these, if there are any, those that are sure to fit."""
    changed = [each for each in found.plans if each.moves]
    return [each for each in changed if each.safe and certain] or changed


def headroom_buttons(every: Sequence[Headroom], *, done: bool) -> str:
    """Return values with which the job still fits, each as a button that sets it."""
    none = f"<p>{escape(say('room-none'))}</p>" if done and not every else ""
    return f"{none}{_list('room', ''.join(map(_more, every)), done=done)}"


LEVELS = {"fits": False, "tight": True, "over": True, "no": True}
"""Levels of a verdict, and whether plans help there; with any other no capacity is known."""


def waiting(level: str) -> dict[str, str]:
    """Return what stands in the place of plans, or of free room, until some are found, by element id."""
    if not LEVELS[level]:
        return {"ways-heading": escape(say("room")), "ways": looking("room-looking")}
    return {
        "ways-heading": escape(say("ways-sure" if level == "tight" else "ways-plans")),
        "ways": looking("ways-looking"),
    }


def looking(key: str) -> str:
    """Return what stands there until something is found."""
    return f'<p class="note">{escape(say(key))}</p>{_list("ways", "", done=False)}'


def _list(name: str, items: str, *, done: bool) -> str:
    return f'<ul class="{name}" aria-busy="{str(not done).lower()}">{items}</ul>'


def _more(each: Headroom) -> str:
    text = spelled(each.path, each.value)
    value = f"{each.value:,}" if isinstance(each.value, int) else text
    said = say("room-set", label=label(each.path, SETTINGS[each.path].label), value=value)
    needs = ""
    if isinstance(each.found, Estimate):  # a server takes what there is, whatever it is asked
        needs = f' <span class="note">{format_bytes(each.found.device.expected)}</span>'
    return (
        f'<li><button type="button" data-do="set" data-path="{each.path}" data-value="{escape(text)}">{escape(said)}'
        f"</button>{needs}</li>"
    )


def heading(found: Planned, *, certain: bool) -> str:
    """Return what the cards are: `certain` for a job that fits as expected, so that only plans that are sure help."""
    kept = [each for each in found.plans if each.moves and each.tier not in ELSEWHERE]
    if kept or not found.none_because:
        sure = certain and all(each.safe for each in _helping(found, certain=certain))
        return say("ways-sure" if sure else "ways-plans")
    return say("ways-other" if found.plans else "ways-none")


def _limit(found: Planned) -> str:
    why = say("ways-limit", reason=translated(found.none_because or ""))
    least = "" if found.plans else f" {say('ways-least')}"
    return f'<p class="limit">{escape(why + least)}</p>'


def in_words(each: Proposal) -> str:
    """Return what a plan changes, first what costs something."""
    costly, free = _split(each)
    return listed(say("and-comma"), [*costly, *free])


def _heading(moves: Sequence[str]) -> str:
    return listed(say("ways-plus"), moves)


def _split(each: Proposal) -> tuple[list[str], list[str]]:
    free = {knob.title for knob in each.knobs if not knob.source}
    moves = [(translated(move), move in free) for move in each.moves]
    return [text for text, is_free in moves if not is_free], [text for text, is_free in moves if is_free]


def _card(each: Proposal) -> str:
    words, device = in_words(each), each.found.device
    costly, free = _split(each)
    also = say("ways-free", moves=say("and-comma").join(map(within, free))) if costly and free else ""
    needs = say("ways-needs", **dict(zip(("need", "low", "high", "unit"), _sizes(device), strict=True))).strip()
    left = say("ways-left", size=format_bytes(each.headroom))
    host = [say("ways-host", size=format_bytes(each.host))] if each.host else []
    gives = [translated(TIERS[each.tier]), *([] if each.safe else [say("ways-tight")])]
    gives += [] if each.host_room is None else [say("ways-spills", usual=format_bytes(int(each.host_room)))]
    if each.seconds is not None:
        gives.insert(0, say("ways-step", seconds=f"{each.seconds[1]:.3g}"))
    if each.speed is not None:
        gives.insert(0, say("ways-pace", tokens=pace_in_words(each.speed)))
    notes = "".join(
        f"<p{extra}>{escape(text)}</p>"
        for text, extra in (
            (say("and-comma").join([needs, left, *host]), ' class="needs"'),
            (say("and-comma").join(gives), f' class="gives" title="{escape(translated(each.quality))}"'),
            *([(also, f' class="also" title="{escape(also)}"')] if also else []),
        )
    )
    return (
        f'<li class="way" data-tier="{each.tier}" data-safe="{str(each.safe).lower()}" '
        f'data-device-bytes="{device.expected}"><h3>{escape(_heading(costly or free))}</h3>{gauge(each)}'
        f'<div class="numbers">{notes}</div><div class="takes">{"".join(_buttons(each, words))}</div></li>'
    )


def _sizes(reading: Reading) -> tuple[str, ...]:
    """Return what is expected, the low and the high end, and their unit.

    Where they have different ones, each has its own.
    """
    said = [format_bytes(size).split() for size in (reading.expected, reading.low, reading.high)]
    units = {unit for _, unit in said}
    if len(units) == 1:
        return (*(number for number, _ in said), *units)
    return (*(" ".join(each) for each in said), "")


def _buttons(each: Proposal, words: str) -> Sequence[str]:
    job = escape(encode_fragment(each.config))
    return [
        f'<button type="button" data-do="{doing}" data-job="{job}" data-said="{escape(words)}" '
        f'aria-label="{escape(say("ways-of", action=say(key), what=words))}">{escape(say(key))}</button>'
        for doing, key in (("adopt", "ways-use"), ("exports", "export"))
    ]


def gauge(each: Proposal) -> str:
    """Return the need against the capacity, with its range as a line."""
    device, capacity = each.found.device, each.found.capacity or 1
    share = 100 / max(capacity, device.high)
    need, low, high = device.expected * share, device.low * share, device.high * share
    end = capacity * share
    said = say("ways-gauge", need=format_bytes(device.expected), capacity=format_bytes(capacity))
    return (
        f'<svg class="gauge" width="100%" height="10" role="img" aria-label="{escape(said)}">'
        f'<rect class="has" width="{end:.2f}%" height="10" rx="2"/>'
        f'<rect class="need" y="2" width="{need:.2f}%" height="6" rx="1"/>'
        f'<line class="range" x1="{low:.2f}%" x2="{high:.2f}%" y1="5" y2="5"/>'
        f'<line class="end" x1="{end:.2f}%" x2="{end:.2f}%" y1="0" y2="10"/></svg>'
    )
