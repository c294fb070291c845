"""Results side by side: one axis for all bars, what they differ in, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape

from memcore.config.defaults import value_of
from memcore.config.settings import SETTINGS, Config
from memcore.config.url import decode_fragment, encode_fragment
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.faces.page.session import Found, Message, Patch, Pin, Session
from memcore.faces.render.markup import exact, html_table, scrolled
from memcore.faces.render.ranks import Row, grid
from memcore.faces.render.serving_svg import CLASSES, serving_parts
from memcore.faces.render.sharing_html import shared_html, shared_note
from memcore.faces.render.svg import TITLES, parts
from memcore.faces.render.titles import titled
from memcore.i18n.page import label, say, translated
from memcore.questions.describe import readable
from memcore.questions.sharing import Shared, on_gpu_of
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes

MOST = 6
"""Results that stand side by side at most."""


def pin(session: Session, message: Message) -> Iterator[Patch]:
    """Keep the current result for comparison."""
    if session.found is None or session.config is None:
        return
    _keep(session, session.config, session.found)
    yield {**_shown(session), "say": say("pinned")}


def _keep(session: Session, config: Config, found: Found, *, shares: bool = False) -> None:
    """Add a job under the next free letter; the oldest one that shares no GPU makes room."""
    names = {each.name for each in session.pins}
    name = next(letter for letter in "ABCDEFGHIJKL" if letter not in names)
    session.pins = [*session.pins, Pin(name, config, found, shares)]
    while len(session.pins) > MOST:
        oldest = next((each for each in session.pins if not each.shares), session.pins[0])
        session.pins.remove(oldest)


def unpin(session: Session, message: Message) -> Iterator[Patch]:
    """Take one away."""
    shared = bool(session.sharing)
    session.pins = [each for each in session.pins if each.name != message.get("name")]
    yield {**_shown(session), **(_linked(session, message) if shared else {})}


def restore(session: Session, message: Message) -> Iterator[Patch]:
    """Restore what was pinned before the page was reloaded; unreadable entries are left out."""
    links = message.get("pins")
    for link in links[:MOST] if isinstance(links, list) else ():
        with suppress(MemcoreError):
            config = decode_fragment(str(link))
            if all(each.config != config for each in session.pins):
                _keep(session, config, estimate(config))
        yield {}
    if session.pins:
        yield _shown(session)


def share_gpus(session: Session, message: Message) -> Iterator[Patch]:
    """A pinned job runs on the GPUs of the current one at the same time, or no more."""
    session.pins = [
        replace(each, shares=not each.shares) if each.name == message.get("name") else each for each in session.pins
    ]
    yield {**_shown(session), **_linked(session, message)}


def share_with(session: Session, others: Sequence[Config]) -> Iterator[Patch]:
    """A link says which jobs run on the GPUs of the one that is opened; they stand next to it."""
    if not others and not session.sharing:
        return
    session.pins = [replace(each, shares=each.config in others) for each in session.pins]
    for config in others:
        if all(each.config != config for each in session.pins):
            _keep(session, config, estimate(config), shares=True)
            yield {}


def _linked(session: Session, message: Message) -> Patch:
    return {"fragment": session.link, "entry": message.get("entry")}


def _shown(session: Session) -> Patch:
    """Return the comparison, and the links that restore it after the page is reloaded."""
    return {
        "html": {"compare": comparison(session), "together-note": together_note(session)},
        "pins": [f"#{encode_fragment(each.config)}" for each in session.pins],
    }


def _together(session: Session) -> Shared | None:
    """Return the current job with those that share its GPUs, each on its kind of GPU; None without any."""
    if session.config is None or session.found is None or not session.sharing:
        return None
    every = [session.found]
    for each in session.sharing:
        config = on_gpu_of(each.config, session.config)
        fragment = encode_fragment(config)
        found = each.found if config == each.config else session.recent.get(fragment) or estimate(config)
        session.remember(fragment, found)
        every.append(found)
    return Shared(tuple(every))


def together_note(session: Session) -> str:
    """Return what the verdict adds where other jobs run on the same GPUs."""
    found = _together(session)
    names = say("and-also").join(each.name for each in session.sharing)
    return shared_note(found, names) if found else ""


def comparison(session: Session) -> str:
    """Bars on one axis, and the differences of settings and sizes."""
    if session.found is None or session.config is None or not session.pins:
        return ""
    plans = [*session.pins, Pin(say("current"), session.config, session.found)]
    for each in plans[:-1]:
        session.proposals[f"pin-{each.name}"] = each.config
    classes = CLASSES if any(isinstance(each.found, ServingEstimate) for each in plans) else {}
    capacities = {each.found.capacity for each in plans}
    alike = capacities.pop() if len(capacities) == 1 else None
    rows = [
        Row(each.name, each.found.job.num_gpus, _parts(each.found), "", None if alike else each.found.capacity)
        for each in plans
    ]
    bars = grid(rows, alike, classes, name="compared")
    together = _together(session)
    shared = shared_html(together, [say("this-job"), *(each.name for each in session.sharing)]) if together else ""
    return f"{shared}{bars}{_differences(plans)}{_sizes(plans)}"


def _parts(found: Found) -> Mapping[str, int]:
    filling = serving_parts(found) if isinstance(found, ServingEstimate) else parts(found)
    return {part.name: part.size for part in filling}


def _named_parts(found: Found) -> Mapping[str, int]:
    """Return the parts by their titles, which trainers and servers have in common."""
    return {TITLES.get(name, name): size for name, size in _parts(found).items()}


def _differences(plans: list[Pin]) -> str:
    values = {path: [_value(each, path) for each in plans] for path in SETTINGS if _is_set(plans, path)}
    rows = [
        (escape(label(path, SETTINGS[path].label)), *(f"<mark>{escape(each[:60])}</mark>" for each in found))
        for path, found in values.items()
        if len({*found}) > 1
    ]
    head = (say("setting"), *(each.name for each in plans))
    buttons = "".join(_buttons(each) for each in plans[:-1])
    table = scrolled(say("compare"), html_table(say("differences"), head, rows))
    none = f'<p class="note">{escape(say("differences-none"))}</p>'
    return f'<p class="row">{buttons}</p>{table if rows else none}'


def _is_set(plans: Sequence[Pin], path: str) -> bool:
    return any(each.config.get(path) is not None for each in plans)


def _value(plan: Pin, path: str) -> str:
    """Return the value of a setting, or what the answer takes for it where it is not set."""
    value = value_of(plan.config, plan.found.assumptions, path)
    return "—" if value is None else titled(path, readable(path, value))


def _buttons(each: Pin) -> str:
    name = escape(each.name)
    return (
        f'<span class="pair"><b>{name}</b> <button type="button" data-do="propose" data-key="pin-{name}">'
        f'{escape(say("load"))} {name}</button><button type="button" data-do="share" data-name="{name}" '
        f'aria-pressed="{str(each.shares).lower()}">{escape(say("share-gpus", name=each.name))}</button>'
        f'<button type="button" class="square" data-do="unpin" data-name="{name}" '
        f'aria-label="{escape(say("unpin"))} {name}">✕</button></span>'
    )


def _sizes(plans: list[Pin]) -> str:
    first, *others = plans
    names = list(dict.fromkeys(name for each in plans for name in _named_parts(each.found)))
    rows = []
    for name in names:
        base = _named_parts(first.found).get(name, 0)
        cells = [exact(base), *(_against(_named_parts(each.found).get(name, 0), base) for each in others)]
        rows.append((escape(translated(name)), *cells))
    total = first.found.device.expected
    rows.append(
        (escape(say("compared-total")), exact(total), *(_against(each.found.device.expected, total) for each in others))
    )
    head = (say("component"), *(each.name for each in plans))
    return f'<div id="compare-sizes">{scrolled(say("compare"), html_table(say("components"), head, rows))}</div>'


def _against(size: int, base: int) -> str:
    change = size - base
    if not change:
        return exact(size)
    sign = "+" if change > 0 else "−"
    return f'{exact(size)} <span class="delta">{sign}{format_bytes(abs(change))}</span>'
