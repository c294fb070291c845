"""Pictures of a server: what fills the GPU against the server's budget and the capacity, and users against context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2, log10

from memcore.faces.render.svg import Part, block, capacity_line, caption, picture, segment, whisker
from memcore.i18n.page import say, translated
from memcore.questions.describe_serving import serving_verdict
from memcore.serving.answers import Point, curve
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes, format_count

CLASSES: Mapping[str, str] = {
    "weights": "parameters",
    "draft model": "gradients",
    "adapters": "optimizer-states",
    "KV cache": "communication",
    "recurrent states": "recomputation",
    "activations": "activations",
    "workspaces": "buffers",
    "CUDA graphs": "temporaries",
    "outside the allocator": "outside",
}
"""The colour of each category, by the class of a training category that never appears with it."""


def serving_parts(found: ServingEstimate) -> list[Part]:
    """Return what fills the GPU, in stacking order."""
    return [Part(name, size) for name, size in found.ledger.by_category.items()]


def serving_bar(found: ServingEstimate) -> str:
    """Return what one GPU holds as a stacked bar, with the server's budget and the capacity as lines."""
    device, capacity, line = found.device, found.capacity, found.budget.line
    scale = 100 / (1.04 * max(device.high, capacity or 0, line or 0))
    body, start = [], 0.0
    for part in serving_parts(found):
        width = part.size * scale
        name = "" if CLASSES[part.name] == "outside" else translated(part.name)
        shape = block(CLASSES[part.name], name, start, width, (capacity or 0) * scale)
        body.append(segment(part.name, part.size, device.expected, shape, first=not start))
        start += width
    body.append(whisker(device.low * scale, device.high * scale))
    if line is not None:
        edge = line * scale
        body.append(f'<line class="phase" x1="{edge:.3f}%" x2="{edge:.3f}%" y1="20" y2="90"/>')
        body.append(caption(f"{translated(found.budget.line_title)}: {format_bytes(line)}", edge, 102))
    if capacity is not None:
        body.append(capacity_line(capacity, capacity * scale))
    described = "; ".join(f"{translated(part.name)} {format_bytes(part.size)}" for part in serving_parts(found))
    return picture("bar", 108, serving_verdict(found).headline, described, body)


_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 9.0, 99.0, 20, 216, 250


def users_chart(found: ServingEstimate) -> str:
    """Users that fit against the length of their sequences, both on logarithmic scales; empty without a pool."""
    points = [point for point in curve(found) if point.users]
    if len(points) < 2:
        return ""
    most = 10 ** _decades(points)
    shortest, longest = points[0].length, points[-1].length

    def across(length: int) -> float:
        return log2(length / shortest) / log2(longest / shortest)

    def down(users: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * log10(users) / log10(most)

    body = list(_grid(points, across, down))
    drawn = " ".join(f"{1000 * across(each.length):.1f},{down(each.users) - _TOP:.1f}" for each in points)
    body.append(
        f'<svg x="{_LEFT}%" y="{_TOP}" width="{_RIGHT - _LEFT}%" height="{_BOTTOM - _TOP}" '
        f'viewBox="0 0 1000 {_BOTTOM - _TOP}" preserveAspectRatio="none" overflow="visible">'
        f'<polyline fill="none" points="{drawn}" stroke="currentColor" stroke-width="2" '
        'vector-effect="non-scaling-stroke"/></svg>'
    )
    for each in points:
        title = say("serves-users-at", users=format_count(each.users), length=format_count(each.length))
        x = _LEFT + (_RIGHT - _LEFT) * across(each.length)
        body.append(
            f'<circle class="peak" cx="{x:.3f}%" cy="{down(each.users):.1f}" r="3"><title>{title}</title></circle>'
        )
    sizes = ((format_count(each.users), format_count(each.length)) for each in points)
    described = "; ".join(say("serves-at", users=users, length=length) for users, length in sizes)
    return picture("users", _HEIGHT, say("serves-users-picture"), described, body)


def _decades(points: Sequence[Point]) -> int:
    return max(len(str(max(point.users for point in points))), 1)


def _grid(points: Sequence[Point], across: Callable[[int], float], down: Callable[[float], float]) -> Iterator[str]:
    for power in range(_decades(points) + 1):
        y = down(10**power)
        yield f'<line class="grid" x1="{_LEFT}%" x2="{_RIGHT}%" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 0.8:.1f}%" y="{y + 4:.1f}" text-anchor="end">{format_count(10**power)}</text>'
    yield f'<text x="0%" y="9">{say("serves-users")}</text>'
    step = 1 if len(points) < 7 else 2
    for point in points[::step]:
        x = _LEFT + (_RIGHT - _LEFT) * across(point.length)
        yield caption(short(point.length), x, _BOTTOM + 18)
    middle = (_LEFT + _RIGHT) / 2
    yield f'<text x="{middle:.1f}%" y="{_BOTTOM + 32}" text-anchor="middle">{say("serves-tokens-each")}</text>'


def short(length: int) -> str:
    """Return a number of tokens, in thousands of 1024 where it is one."""
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else format_count(length)
