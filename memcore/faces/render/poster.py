"""The peak as a picture that is understood on its own: the verdict, the bar, what its colours mean, and the link.

It has a light ground wherever it is shown, and no fonts of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap

from memcore.faces.render.serving_svg import CLASSES, serving_bar, serving_parts
from memcore.faces.render.svg import COLOURS, STYLE, TITLES, Part, alone, bar, parts, slug
from memcore.i18n.page import translated
from memcore.memory.estimate import Estimate
from memcore.questions.describe import Verdict, verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes

WIDTH, MARGIN = 900, 24
"""Pixels."""
_COLUMNS, _ROW = 2, 22
_BAR = 108
"""The height that the bar needs."""


def poster(found: Estimate | ServingEstimate, stamp: str, note: str) -> tuple[str, int]:
    """Return the picture as SVG with a note inside, and its height; `stamp` says where it comes from."""
    served = isinstance(found, ServingEstimate)
    said = serving_verdict(found) if isinstance(found, ServingEstimate) else verdict(found)
    drawn = serving_bar(found) if isinstance(found, ServingEstimate) else bar(found)
    shown = serving_parts(found) if isinstance(found, ServingEstimate) else parts(found)
    body, top = _sentences(found.job.model.name, said)
    inner = alone(drawn).replace('width="100%"', f'x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}"', 1)
    body.append(inner)
    body += _legend(shown, top + _BAR + 20, CLASSES if served else {})
    top += _BAR + 20 + _ROW * -(-len(shown) // _COLUMNS) + 8
    for line in wrap(stamp, 140, break_on_hyphens=False):
        body.append(f'<text class="stamp" x="{MARGIN}" y="{top}">{escape(line)}</text>')
        top += 14
    height = top + MARGIN - 14
    fills = "".join(f".{name}{{fill:{light}}}" for name, (light, _) in COLOURS.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}">'
        f"<metadata>{escape(note)}</metadata>"
        f"<style>{STYLE}.headline{{font-size:17px;font-weight:600}}.stamp{{font-size:10px;fill:#555}}{fills}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>\n'
    ), height


def _sentences(name: str, said: Verdict) -> tuple[list[str], int]:
    """Name, verdict and reason, and where they end."""
    body, top = [], MARGIN + 8
    for kind, text, width, step in (
        ("", name, 130, 18),
        ("headline", said.headline, 92, 22),
        ("", said.reason, 130, 17),
    ):
        for line in wrap(text, width):
            body.append(f'<text class="{kind}" x="{MARGIN}" y="{top}">{escape(line)}</text>')
            top += step
    return body, top


def _legend(shown: Sequence[Part], top: int, classes: Mapping[str, str]) -> list[str]:
    """Return what each colour means, with its size, in columns."""
    found = []
    for number, part in enumerate(shown):
        x = MARGIN + (number % _COLUMNS) * (WIDTH - 2 * MARGIN) // _COLUMNS
        y = top + (number // _COLUMNS) * _ROW
        text = f"{translated(TITLES.get(part.name, part.name))}  {format_bytes(part.size)}"
        fill = classes.get(part.name, slug(part.name))
        found.append(
            f'<rect class="{fill}" x="{x}" y="{y - 10}" width="12" height="12" rx="2"/>'
            f'<text x="{x + 20}" y="{y}">{escape(text)}</text>'
        )
    return found
