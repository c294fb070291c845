"""Jobs that share GPUs, on the page: whether they fit together, as a sentence and as one bar."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from memcore.faces.render.markup import between
from memcore.faces.render.svg import block, capacity_line, caption, picture, whisker
from memcore.i18n.page import say
from memcore.questions.describe import level
from memcore.questions.sharing import Shared
from memcore.units import format_bytes

_COLOURS = ("parameters", "optimizer-states", "activations", "communication", "buffers", "recomputation")
"""Of the jobs, by classes of categories that stand far apart."""


def shared_note(found: Shared, names: str) -> str:
    """Return one line for below the verdict."""
    said = escape(f"{say('together-with', names=names)} {_sentence(found)}")
    button = f'<button type="button" class="link" data-go="compare-part">{escape(say("view-compare"))}</button>'
    return f'<p class="together" data-fits="{_fits(found)}">{said} {button}</p>'


def shared_html(found: Shared, names: Sequence[str]) -> str:
    """Return the verdict about all jobs at once, their bar, and what a server may take where it is too much."""
    said = _sentence(found)
    rooms = "".join(
        f"<p>{escape(say('together-room', name=names[place], size=format_bytes(room), share=f'{share:.2f}'))}</p>"
        for place, (room, share) in found.rooms.items()
    )
    return (
        f'<section class="together" data-fits="{_fits(found)}"><h3>{escape(say("together"))}</h3>'
        f"<p><b>{escape(said[0].upper() + said[1:])}</b></p>{_bar(found, names)}"
        f'{rooms}<p class="note">{escape(say("together-how"))}</p></section>'
    )


def _fits(found: Shared) -> str:
    return "" if found.fits is None else str(found.fits).lower()


def _sentence(found: Shared) -> str:
    need = format_bytes(found.expected)
    if found.capacity is None or found.headroom is None:
        return say("together-unknown", need=need)
    key = f"together-{level(found.low, found.expected, found.high, found.capacity)}"
    sizes = {"capacity": format_bytes(found.capacity), "size": format_bytes(abs(found.headroom))}
    return say(key, need=need, **sizes, range=between(found.low, found.high))


def _bar(found: Shared, names: Sequence[str]) -> str:
    """Every job's share of one GPU, stacked, against its capacity."""
    scale = 100 / (1.04 * max(found.high, found.capacity or 0))
    edge = (found.capacity or 0) * scale
    body, start = [], 0.0
    for colour, name, each in zip(_COLOURS, names, found.found, strict=False):
        width = each.device.expected * scale
        said = f"{name} {format_bytes(each.device.expected)}"
        body.append(f"<g><title>{escape(said)}</title>{block(colour, said, start, width, edge)}</g>")
        start += width
    low, high = found.low * scale, found.high * scale
    body += [whisker(low, high), caption(between(found.low, found.high), (low + high) / 2, 98)]
    if found.capacity is not None:
        body.append(capacity_line(found.capacity, edge))
    described = "; ".join(
        f"{name} {format_bytes(each.device.expected)}" for name, each in zip(names, found.found, strict=True)
    )
    return picture("shared", 104, say("together"), described, body)
