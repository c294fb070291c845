"""Users of a server against the length of their sequences, as a table painted by what fits."""

from __future__ import annotations

from html import escape

from memcore.faces.render.markup import scrolled
from memcore.faces.render.serving_svg import short
from memcore.i18n.page import say
from memcore.questions.concurrency import Concurrency, users
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_count

MARKS = {"fits": "✓", "waits": "~", "no": "✕"}
"""What a cell shows besides its colour, by state."""


def concurrency_map(every: list[Concurrency], found: ServingEstimate) -> str:
    """Return the table; a cell is a button that asks for it, and the one that is asked for is marked."""
    asked = found.users, found.job.basics.max_model_len
    heads = "".join(f'<th scope="col">{escape(short(each.length))}</th>' for each in every)
    rows = "".join(
        f'<tr{_between(count, found.users)}><th scope="row">{format_count(count)}</th>'
        f"{''.join(_cell(count, each, asked) for each in every)}</tr>"
        for count in users(every, found.users)
    )
    corner = f'<th scope="col">{escape(say("crowd-corner"))}</th>'
    caption = f'<caption class="unseen">{escape(say("crowd"))}</caption>'
    table = f"<table>{caption}<thead><tr>{corner}{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return scrolled(say("crowd"), table)


def _between(count: int, asked: int) -> str:
    """Mark every second power of two, which narrow windows leave out."""
    return ' class="between"' if count != asked and count.bit_length() % 2 == 0 else ""


def _cell(count: int, each: Concurrency, asked: tuple[int, int]) -> str:
    state = "fits" if count <= each.full else "waits" if count <= each.usual else "no"
    chosen = (count, each.length) == asked
    said = say("crowd-cell", users=format_count(count), length=format_count(each.length), state=say(f"crowd-{state}"))
    return (
        f'<td class="{state}"><button type="button" data-do="crowd" data-users="{count}" data-length="{each.length}" '
        f'aria-label="{escape(said)}" aria-pressed="{str(chosen).lower()}" tabindex="{0 if chosen else -1}">'
        f'<span aria-hidden="true">{MARKS[state]}</span></button></td>'
    )
