"""Answers in notebooks: a line, rows for a table, and pictures that nothing on the page can reach into."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from memcore.faces.render.data import explanation, summary
from memcore.faces.render.poster import WIDTH, poster
from memcore.faces.render.serving_data import serving_explanation_data, serving_summary_data
from memcore.faces.render.serving_svg import users_chart
from memcore.faces.render.svg import standalone, timeline
from memcore.memory.estimate import Estimate
from memcore.questions.describe import verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.serving.estimate import ServingEstimate
from memcore.version import __version__

Found = Estimate | ServingEstimate


def data_of(found: Found) -> dict[str, Any]:
    """Return an answer as plain data."""
    return serving_summary_data(found) if isinstance(found, ServingEstimate) else summary(found)


def rows_of(found: Found) -> list[dict[str, Any]]:
    """Return the tensors at the peak as flat dicts, the largest first."""
    if isinstance(found, ServingEstimate):
        entries = serving_explanation_data(found)["entries"]
    else:
        entries = explanation(found, found.peak)["entries"]
    flat = [
        {name: ", ".join(value) if isinstance(value, list) else value for name, value in entry.items()}
        for entry in entries
    ]
    return sorted(flat, key=lambda each: -each["bytes"])


def line_of(found: Found) -> str:
    """Return model, engine and verdict in a line."""
    said = serving_verdict(found) if isinstance(found, ServingEstimate) else verdict(found)
    return f"{found.job.model.name} on {found.job.engine.title}: {said.headline}"


def text_of(found: Any) -> str:
    """Return what the command line prints of plans, of advice or of a solution."""
    from memcore.faces.render.advice import advice_text  # noqa: PLC0415 - estimates do without
    from memcore.faces.render.plans import plans_text  # noqa: PLC0415
    from memcore.faces.render.solution import solution_text  # noqa: PLC0415
    from memcore.faces.render.together import together_text  # noqa: PLC0415
    from memcore.questions.advising.advise import Advised  # noqa: PLC0415
    from memcore.questions.planning.plan import Planned  # noqa: PLC0415
    from memcore.questions.planning.together import PlannedTogether  # noqa: PLC0415
    from memcore.questions.solving import Solution  # noqa: PLC0415

    texts: Mapping[type, Callable[[Any], str]] = {
        Planned: plans_text, PlannedTogether: together_text, Advised: advice_text, Solution: solution_text,
    }  # fmt: skip
    return texts[type(found)](found).rstrip()


def html_of(found: Found) -> str:
    """Return the pictures of an answer as images, in the order in which they are read."""
    return "".join(
        f'<img alt="{escape(line_of(found))}" style="max-width:100%;display:block" width="{WIDTH}" '
        f'src="data:image/svg+xml;base64,{b64encode(each.encode()).decode()}">'
        for each in _pictures(found)
    )


def _pictures(found: Found) -> Iterator[str]:
    yield poster(found, f"memcore {__version__}", "")[0]
    if isinstance(found, ServingEstimate):
        if found.pool is not None:
            yield standalone(users_chart(found))
    else:
        yield standalone(timeline(found))
