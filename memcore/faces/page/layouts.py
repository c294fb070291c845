"""Every way to split a training job over its GPUs: a search on the page, with progress and cancel."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.config.settings import Config
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.faces.page.answering import config_of, form_of
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.layouts import Layout, layouts_html
from memcore.faces.render.search import is_open, policy_of
from memcore.i18n.page import complaint, say
from memcore.questions.searching.found import Found, Progress
from memcore.questions.searching.search import search as searched
from memcore.records import dataclass

KEEP = 30
"""The best layouts, which are shown."""
OFTEN = 8
"""After how many steps of the search its results are drawn again."""


@dataclass(frozen=True, slots=True)
class Search:
    """How far the search of a job is."""

    base: Config
    progress: Progress

    @property
    def table(self) -> str:
        """Return what fits, as a picture and a table."""
        best = [each for each in self.progress.best[:KEEP] if each.device is not None and each.capacity is not None]
        return layouts_html([_row(each, self.base) for each in best])

    def status(self, state: str) -> str:
        """Return how far it is, in words."""
        return escape(say(f"search-{state}", count=self.progress.seen, fitting=len(self.progress.best)))


def _row(each: Found, base: Config) -> Layout:
    layout = each.layout
    return Layout(
        tensor=layout.tensor,
        stages=layout.stages,
        context=layout.context,
        experts=layout.experts,
        data=layout.data,
        replicas=layout.replicas,
        policy=f"{each.engine}, {policy_of(each)}" if is_open(each) else policy_of(each),
        sequences=layout.micro_batch,
        device=each.device or 0,
        capacity=each.capacity or 0,
        per_token=each.cost.per_token,
        link=f"#{encode_fragment(each.config(base))}",
    )


def search(session: Session, message: Message) -> Iterator[Patch]:
    """Search the layouts of the job, with progress, and results as they come."""
    yield {"progress": 0, "html": {"search": "", "search-status": escape(say("working"))}}
    base = config_of(form_of(message["texts"]))
    try:
        for number, progress in enumerate(searched(base, keep=KEEP)):
            found = session.searched = Search(base, progress)
            patch: Patch = {
                "progress": progress.seen / max(progress.total, 1),
                "html": {"search-status": found.status("running")},
            }
            ahead = progress.best and not progress.total
            if ahead or (progress.new and number % OFTEN == 0):
                patch["html"]["search"] = found.table
            yield patch
    except MemcoreError as error:
        yield {"progress": None, "html": {"search": f"<p>{escape(complaint(error))}</p>", "search-status": ""}}
        return
    changes = f'<button type="button" class="link" data-show="plans">{escape(say("search-plans"))}</button>'
    table = found.table or f"<p>{escape(say('search-none'))} {changes}</p>"
    yield {"progress": None, "html": {"search": table, "search-status": found.status("done")}}


def cancel(session: Session, message: Message) -> Iterator[Patch]:
    """Stop the search; what was found stays."""
    last = session.searched
    if isinstance(last, Search):
        yield {"progress": None, "html": {"search": last.table, "search-status": last.status("cancelled")}}
    else:
        yield {"progress": None}
