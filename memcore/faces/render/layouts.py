"""Layouts that fit: a picture of their time against what is left of the GPU, and a table that leads to each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from memcore.faces.render.markup import scrolled
from memcore.faces.render.svg import caption, gridline, picture, ticks
from memcore.i18n.page import say, translated
from memcore.records import dataclass
from memcore.units import GiB, format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout that fits."""

    tensor: int
    stages: int
    data: int
    context: int
    experts: int
    replicas: int
    """Groups of ranks that each hold all parameters, where they are sharded over fewer than all."""
    policy: str
    sequences: int
    device: int
    capacity: int
    per_token: float
    """GPU-seconds for a token by the roofline, which ranks and promises nothing."""
    link: str

    @property
    def left(self) -> int:
        """Return bytes of the GPU that are left."""
        return self.capacity - self.device

    @property
    def title(self) -> str:
        """Return the layout in a few letters."""
        sizes = {"TP": self.tensor, "PP": self.stages, "CP": self.context, "EP": self.experts, "DP": self.data}
        named = [f"{name} {size}" for name, size in sizes.items() if size > 1 or name == "DP"]
        return " · ".join([*named, *([f"HSDP {self.replicas}"] if self.replicas > 1 else [])])


def layouts_html(found: Sequence[Layout]) -> str:
    """Return the picture and the table, the least time first."""
    if not found:
        return ""
    least = found[0].per_token
    keys = ("layout", "needs", "left-of", "time", "sequences", "checkpoints")
    heads = "".join(
        f'<th scope="col"><button type="button" data-sort="{number}">{escape(say(f"column-{key}"))}</button></th>'
        for number, key in enumerate(keys)
    )
    rows = "".join(_row(each, least) for each in found)
    table = (
        f'<table class="layouts"><caption>{escape(say("search-caption"))}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    return f"{scatter(found) if len(found) > 1 else ''}{scrolled(say('search'), table)}"


def _row(each: Layout, least: float) -> str:
    time = each.per_token / least
    cells = (
        (each.device, format_bytes(each.device)),
        (each.left, format_bytes(each.left)),
        (time, f"{time:.2f}×"),
        (each.sequences, str(each.sequences)),
        (escape(each.policy), escape(translated(each.policy))),
    )
    title, link = escape(each.title), escape(each.link)
    shown = "".join(f'<td data-value="{value}">{text}</td>' for value, text in cells)
    return f'<tr><th scope="row" data-value="{title}"><a href="{link}">{title}</a></th>{shown}</tr>'


_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 9.0, 97.0, 20, 176, 214


def scatter(found: Sequence[Layout]) -> str:
    """Time against what is left; those that no other beats in both are filled."""
    least = min(each.per_token for each in found)
    slowest = max(max(each.per_token for each in found) / least, 1.2)
    most = max(*(each.left for each in found), 1)
    body: list[str] = []
    for size in ticks(most):
        body += gridline(f"{size:g}", _BOTTOM - (_BOTTOM - _TOP) * size * GiB / most, _LEFT, _RIGHT)
    body.append(f'<text x="0%" y="12">{escape(say("column-left-of"))}, GiB</text>')
    for part in range(4):
        time = 1 + (slowest - 1) * part / 3
        body.append(caption(f"{time:.2f}×", _LEFT + (_RIGHT - _LEFT) * part / 3, _BOTTOM + 18))
    middle = (_LEFT + _RIGHT) / 2
    body.append(f'<text x="{middle}%" y="{_BOTTOM + 34}" text-anchor="middle">{escape(say("column-time"))}</text>')
    for each in found:
        x = _LEFT + (_RIGHT - _LEFT) * (each.per_token / least - 1) / (slowest - 1)
        y = _BOTTOM - (_BOTTOM - _TOP) * each.left / most
        beaten = any(
            other.per_token < each.per_token and other.left >= each.left for other in found if other is not each
        )
        title = f"{each.title}: {format_bytes(each.left)}, {each.per_token / least:.2f}×"
        kind = "peak beaten" if beaten else "peak"
        dot = f'<circle class="{kind}" cx="{x:.2f}%" cy="{y:.1f}" r="5"><title>{escape(title)}</title></circle>'
        body.append(f'<g class="dot" data-plan="{escape(each.link)}">{dot}</g>')
    described = say("and-also").join(f"{each.title} {format_bytes(each.left)}" for each in found[:5])
    return picture("scatter", _HEIGHT, say("search-picture"), described, body)
