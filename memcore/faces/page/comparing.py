"""Results side by side: one axis for all bars, what they differ in, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from html import escape

from memcore.config.settings import SETTINGS
from memcore.config.texts import to_texts
from memcore.config.url import decode_fragment, encode_fragment
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.faces.page.session import Found, Message, Patch, Pin, Session
from memcore.faces.render.markup import exact, html_table, scrolled
from memcore.faces.render.ranks import Row, grid
from memcore.faces.render.serving_svg import CLASSES, serving_parts
from memcore.faces.render.svg import TITLES, parts
from memcore.i18n.page import label, say, translated
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes

MOST = 6
"""Results that stand side by side at most."""


def pin(session: Session, message: Message) -> Iterator[Patch]:
    """Keep the current result for comparison."""
    if session.found is None or session.config is None:
        return
    names = {each.name for each in session.pins}
    name = next(letter for letter in "ABCDEFGHIJ" if letter not in names)
    session.pins = [*session.pins, Pin(name, session.config, session.found)][-MOST:]
    yield {**_shown(session), "say": say("pinned")}


def unpin(session: Session, message: Message) -> Iterator[Patch]:
    """Take one away."""
    session.pins = [each for each in session.pins if each.name != message.get("name")]
    yield _shown(session)


def restore(session: Session, message: Message) -> Iterator[Patch]:
    """Restore what was pinned before the page was reloaded; unreadable entries are left out."""
    links = message.get("pins")
    for name, link in zip("ABCDEF", links if isinstance(links, list) else (), strict=False):
        with suppress(MemcoreError):
            config = decode_fragment(str(link))
            session.pins.append(Pin(name, config, estimate(config)))
        yield {}
    if session.pins:
        yield _shown(session)


def _shown(session: Session) -> Patch:
    """Return the comparison, and the links that restore it after the page is reloaded."""
    return {
        "html": {"compare": comparison(session)},
        "pins": [f"#{encode_fragment(each.config)}" for each in session.pins],
    }


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
    return f"{bars}{_differences(plans)}{_sizes(plans)}"


def _parts(found: Found) -> Mapping[str, int]:
    filling = serving_parts(found) if isinstance(found, ServingEstimate) else parts(found)
    return {part.name: part.size for part in filling}


def _differences(plans: list[Pin]) -> str:
    texts = [to_texts(each.config) for each in plans]
    paths = [path for path in SETTINGS if len({text.get(path, "") for text in texts}) > 1]
    rows = [
        (
            escape(label(path, SETTINGS[path].label)),
            *(f"<mark>{escape(text.get(path, '—')[:60])}</mark>" for text in texts),
        )
        for path in paths
    ]
    head = (say("setting"), *(each.name for each in plans))
    buttons = "".join(_buttons(each) for each in plans[:-1])
    return f'<p class="row">{buttons}</p>{scrolled(say("compare"), html_table(say("differences"), head, rows))}'


def _buttons(each: Pin) -> str:
    name = escape(each.name)
    return (
        f'<span class="pair"><b>{name}</b> <button type="button" data-do="propose" data-key="pin-{name}">'
        f'{escape(say("load"))} {name}</button><button type="button" class="square" data-do="unpin" data-name="{name}" '
        f'aria-label="{escape(say("unpin"))} {name}">✕</button></span>'
    )


def _sizes(plans: list[Pin]) -> str:
    first, *others = plans
    names = list(dict.fromkeys(name for each in plans for name in _parts(each.found)))
    rows = []
    for name in names:
        base = _parts(first.found).get(name, 0)
        cells = [exact(base), *(_against(_parts(each.found).get(name, 0), base) for each in others)]
        rows.append((escape(translated(TITLES.get(name, name))), *cells))
    total = first.found.device.expected
    rows.append(("Σ nvidia-smi", exact(total), *(_against(each.found.device.expected, total) for each in others)))
    head = (say("component"), *(each.name for each in plans))
    return f'<div id="compare-sizes">{scrolled(say("compare"), html_table(say("components"), head, rows))}</div>'


def _against(size: int, base: int) -> str:
    change = size - base
    if not change:
        return exact(size)
    sign = "+" if change > 0 else "−"
    return f'{exact(size)} <span class="delta">{sign}{format_bytes(abs(change))}</span>'
