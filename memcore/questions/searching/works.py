"""What layouts of one job have to compute: kernels that nothing fuses depend on how their layers are divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

from memcore.questions.dividing import Layers, layers_of_ranks
from memcore.questions.searching.layouts import Layout
from memcore.questions.searching.spaces import Shared, Space
from memcore.questions.searching.tasks import Alike, alike_of, job_at, work_at
from memcore.questions.work import Work, composes
from memcore.records import dataclass
from memcore.trace.job import Job

_NOTHING = 1e-9
"""Kernels of a layout whose step is not recorded, where 0 would say that it is never recorded."""


@dataclass(frozen=True)
class Works:
    """The work of a job's layouts."""

    job: Job
    """The job that is searched."""
    usual: Work
    """Its own work."""
    text: str
    """Its config, as workers remember it."""
    space: Space
    even: Shared
    """Layers of a pipeline's ranks where the search itself shares them."""
    shared: dict[tuple[int, int], Layers] = field(default_factory=dict)
    """The same where the job does, by stages and the chunks of each."""
    known: dict[Alike, Work] = field(default_factory=dict)

    @cached_property
    def same(self) -> bool:
        """Return whether all layouts have the same work: an engine fuses what a layer does between its products."""
        return not composes(self.job)

    @cached_property
    def least(self) -> Work:
        """No layout has less: all that kernels of a recorded step move is left out, and the launches of its kernels."""
        return self.usual if self.same else replace(self.usual, elementwise=0.0, kernels=_NOTHING, launched=0.0)

    def of(self, layout: Layout) -> Work:
        """The work of a layout, from the step of one that is divided alike; the job's own where there is none."""
        if self.same:
            return self.usual
        key = alike_of(layout)
        if key not in self.known:
            self.learn({key: work_at(self.text, self.space, layout)})
        return self.known[key]

    def learn(self, works: Mapping[Alike, Work | None]) -> None:
        """Keep the work that tasks found, by what their layouts have in common."""
        self.known.update({key: work or self.usual for key, work in works.items()})

    def layers(self, layout: Layout) -> Layers:
        """Return layers of the ranks of a layout's pipeline."""
        row, chunks = self.space.row, self.space.row.policies[layout.policy].chunks
        if layout.stages == 1 or row.uneven or row.counted is not None:
            return self.even(layout.stages, chunks)
        key = layout.stages, chunks
        if key not in self.shared:
            job = job_at(self.text, self.space, layout)
            self.shared[key] = self.even(layout.stages, chunks) if job is None else layers_of_ranks(job)
        return self.shared[key]
