"""An answer as others show it: a badge for a README, and a card (1200 by 630 pixels) for where links are previewed.

Both have a light ground wherever they are shown, hold no fonts, and are drawn from the same answer as the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from unicodedata import east_asian_width

from memcore.config.defaults import value_of
from memcore.config.training import Training
from memcore.faces.render.serving_svg import CLASSES, serving_parts
from memcore.faces.render.svg import COLOURS, TITLES, parts, slug
from memcore.faces.render.titles import accelerator_title, model_title
from memcore.i18n.page import say, translated
from memcore.memory.estimate import Estimate
from memcore.questions.describe import Verdict, readable, verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.units import format_bytes

LEVELS = {"fits": "#0a6b3d", "tight": "#7d4a00", "over": "#a83a00", "no": "#b3121d", "unknown": "#4b5866"}
"""The colour of each level of a verdict; white text stands out on every one."""
CARD = (1200, 630)
"""Pixels of a card, the size that link previews ask for."""
_FONT = "font-family:system-ui,Verdana,sans-serif"
_MARGIN, _SHOWN = 64, 6


def subject(found: Estimate | ServingEstimate) -> str:
    """Return the job of an answer in a few words: `Llama 3.1 8B · LoRA · 4,096 tokens · 1 × RTX 4090 · 24 GB`."""
    job = found.job
    where = "" if job.accelerator is None else f"{job.num_gpus} × {accelerator_title(job.accelerator)}"
    return " · ".join(each for each in (translated(model_title(job.model.name)), *_asked(found), where) if each)


def _asked(found: Estimate | ServingEstimate) -> tuple[str, ...]:
    """Return the method of a training and its length, or what a server is asked for."""
    config = found.job.config
    if isinstance(found, ServingEstimate):
        length = value_of(config, found.assumptions, Inference.max_model_len)
        return (say("subject-users", users=readable("", found.users), length=readable("", length)),)
    adapter = config[Training.adapter.type]
    meanings: Mapping[object, str] = getattr(Training.adapter.type.kind, "meanings", {})
    titled, named, _ = meanings.get(adapter, "").partition(":")
    length = value_of(config, found.assumptions, Training.sequence_length)
    return (titled if named else adapter or "", say("subject-tokens", length=readable("", length)))


def short(found: Estimate | ServingEstimate) -> str:
    """Return the verdict in a few words: for training the need and the capacity, for a server what it serves."""
    if isinstance(found, ServingEstimate):
        return _said(found).headline.partition(". ")[0].partition("。")[0].rstrip(".。")
    need = format_bytes(found.device.expected)
    if found.capacity is None:
        return need
    size = say("ways-gauge", need=need, capacity=format_bytes(found.capacity))
    return say("badge-said", level=say(f"verdict-{verdict(found).level}"), size=size)


def badge(found: Estimate | ServingEstimate) -> str:
    """Return the verdict as a badge of 20 pixels."""
    left, right = say("badge"), short(found)
    one, other = _width(left) + 12, _width(right) + 12
    title = escape(f"{left}: {right}")
    texts = _fitted(left, 6, one - 12) + _fitted(right, one + 6, other - 12)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{one + other}" height="20" role="img" aria-label="{title}">'
        f'<title>{title}</title><clipPath id="r"><rect width="{one + other}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{one}" height="20" fill="#3a4550"/>'
        f'<rect x="{one}" width="{other}" height="20" fill="{LEVELS[_said(found).level]}"/></g>'
        f'<g fill="#fff" style="{_FONT}" font-size="11">{texts}'
        "</g></svg>"
    )


def _fitted(text: str, x: int, width: int) -> str:
    return f'<text x="{x}" y="14" textLength="{width}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'


def _width(text: str) -> int:
    """Pixels that a text of 11 pixels takes, about; `textLength` makes it exact."""
    return round(5.5 * _letters(text)) + 6


def card(found: Estimate | ServingEstimate, stamp: str, note: str) -> str:
    """Return the verdict, the memory of one GPU against its capacity, and the largest parts, with a note inside."""
    width, height = CARD
    said = _said(found)
    body = [
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<rect width="16" height="{height}" fill="{LEVELS[said.level]}"/>',
        _text(_MARGIN, 92, _size(subject(found), 34), subject(found), "#4b5866"),
    ]
    y = 168
    for line in _lines(said.headline, 42)[:3]:
        body.append(_text(_MARGIN, y, 44, line, LEVELS[said.level], bold=True))
        y += 56
    body += _bar(found, 340)
    body.append(_text(_MARGIN, height - 36, 22, stamp, "#4b5866"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<metadata>{escape(note)}</metadata>{''.join(body)}</svg>\n"
    )


def _bar(found: Estimate | ServingEstimate, top: int) -> list[str]:
    """Return what fills one GPU, the capacity as a line, and the largest parts by name below."""
    shown = serving_parts(found) if isinstance(found, ServingEstimate) else parts(found)
    classes = CLASSES if isinstance(found, ServingEstimate) else {}
    capacity = found.capacity
    scale = (CARD[0] - 2 * _MARGIN) / (1.02 * max(found.device.expected, capacity or 0, 1))
    fills = {each.name: COLOURS[classes.get(each.name, slug(each.name))][0] for each in shown}
    body, x = [], float(_MARGIN)
    for each in shown:
        body.append(
            f'<rect x="{x:.1f}" y="{top}" width="{each.size * scale:.1f}" height="72" fill="{fills[each.name]}"/>'
        )
        x += each.size * scale
    if capacity is not None:
        edge = _MARGIN + capacity * scale
        line = f'x1="{edge:.1f}" x2="{edge:.1f}" y1="{top - 12}" y2="{top + 84}" stroke="#c00000" stroke-width="4"'
        body.append(f'<line {line} stroke-dasharray="10 6"/>')
        body.append(
            _text(edge, top - 22, 24, say("capacity-label", size=format_bytes(capacity)), "#17202a", end=edge > 600)
        )
    largest = sorted(shown, key=lambda each: -each.size)[:_SHOWN]
    for number, each in enumerate(largest):
        left = _MARGIN + number % 2 * 560
        y = top + 136 + number // 2 * 40
        name = re.split("[:：,，]", translated(TITLES.get(each.name, each.name)))[0]
        body.append(f'<rect x="{left}" y="{y - 20}" width="24" height="24" rx="4" fill="{fills[each.name]}"/>')
        body.append(_text(left + 38, y, 26, f"{name} {format_bytes(each.size)}", "#17202a"))
    return body


def _size(text: str, most: int) -> int:
    """Return the pixels of a text that is to fit a card in one line, about."""
    return min(most, (CARD[0] - 2 * _MARGIN) * 100 // (58 * _letters(text)))


def _text(x: float, y: int, size: int, text: str, fill: str, *, bold: bool = False, end: bool = False) -> str:
    more = (' font-weight="650"' if bold else "") + (' text-anchor="end"' if end else "")
    shown = f'font-size="{size}" fill="{fill}" style="{_FONT}"{more}'
    return f'<text x="{x:.1f}" y="{y}" {shown}>{escape(text)}</text>'


def _lines(text: str, most: int) -> list[str]:
    """Return a text in lines of at most `most` letters; a wide letter counts twice, numbers and words stay whole."""
    lines = [""]
    for word in re.findall(r"[!-~]+\s*|[^!-~]", text):
        if _letters(lines[-1]) + _letters(word.rstrip()) > most:
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines]


def _letters(text: str) -> int:
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


def _said(found: Estimate | ServingEstimate) -> Verdict:
    return serving_verdict(found) if isinstance(found, ServingEstimate) else verdict(found)
