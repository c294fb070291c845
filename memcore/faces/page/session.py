"""What the page remembers, and how messages change it.

A message is a plain dictionary with a `do`; the answer is a stream of patches, plain dictionaries by kind of change
(`html`, `fields`, `fragment`, …), that `site/view.js` applies. Between two patches other messages may be handled, so
nothing blocks the page; a newer message on the same channel ends the older one's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from memcore.config.settings import Config
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.faces.render.page import Form
from memcore.i18n.page import complaint, speaking
from memcore.memory.estimate import Estimate
from memcore.memory.rank import Rank
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.tools.sources import Source

Message = Mapping[str, Any]
Patch = dict[str, Any]
Found = Estimate | ServingEstimate


@dataclass(frozen=True, slots=True)
class Pin:
    """A result that is kept for comparison."""

    name: str
    config: Config
    found: Found
    shares: bool = False
    """Whether it runs on the GPUs of the current job at the same time."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a run printed."""

    text: str
    reading: str | None
    """What a number without a name is."""


@dataclass(frozen=True, slots=True)
class Track:
    """What a slider's track is painted as."""

    key: str
    """The job, whatever the slider says."""
    marks: tuple[str, ...]
    """Of each step; empty where nothing can be said."""
    edge: int = 0
    """The exact value up to which the job fits, or from which on; 0 until it is known."""


RECENT = 8
"""How many answers are remembered."""


@dataclass
class Session:
    """One visit."""

    language: str = "en"
    form: Form = field(default_factory=lambda: Form({}))
    config: Config | None = None
    """The last config that was answered."""
    found: Found | None = None
    fragment: str = ""
    recent: dict[str, Found] = field(default_factory=dict)
    """The last answers by fragment, the newest last: who takes an edit back does not wait for it again."""
    unfinished: bool = False
    """The page does not show all of it yet."""
    pins: list[Pin] = field(default_factory=list)
    stage: str = ""
    """The rank whose step is shown, by its name; empty: the one that needs most."""
    part: str = ""
    """The component that the drawer explains."""
    fields: dict[str, Patch] = field(default_factory=dict)
    """What the page shows of each field."""
    proposals: dict[str, Config] = field(default_factory=dict)
    """Configs that a button on the page may load, by key."""
    drawn: dict[str, Config | None] = field(default_factory=dict)
    """The job that a curve or suggestions are about, by their element's id; None if an edit came in between."""
    from_file: Mapping[str, str] = field(default_factory=dict)
    """What the last file said, as text by path."""
    sources: tuple[Source, ...] = ()
    """The files of the last import."""
    example: str = ""
    """The name of the example that filled the form last."""
    from_example: dict[str, str] = field(default_factory=dict)
    """What of the form is still as that example has it, as text by path."""
    from_task: dict[str, str] = field(default_factory=dict)
    """What of the form came with the task that was chosen, as text by path."""
    searched: object = None
    """How far the last search came."""
    painted: dict[str, Track] = field(default_factory=dict)
    """The tracks of sliders, by path."""
    log: Log | None = None
    """The log that is compared with the answer."""
    ways: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """The parts of the page with plans or free room, by language and fragment, the newest last."""
    shows_plans: bool | None = None
    """Whether the page shows plans rather than free room; None before either."""
    adopted: dict[str, str] = field(default_factory=dict)
    """The fragment of the plan that was adopted last, and what the plan changed in words."""
    message_counts: dict[str, int] = field(default_factory=dict)
    """How many messages each channel has had."""
    fills: list[tuple[Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)
    """What the form held before Python filled it, and what with, as text by path; each time."""

    def resume(self, other: Session) -> None:
        """Go on where another visit stopped after its first answer."""
        self.form, self.config, self.found, self.fragment = other.form, other.config, other.found, other.fragment
        self.fields = {path: dict(shown) for path, shown in other.fields.items()}
        self.shows_plans = other.shows_plans
        self.recent, self.ways, self.fills = dict(other.recent), dict(other.ways), list(other.fills)
        self.example, self.from_example, self.from_task = other.example, dict(other.from_example), dict(other.from_task)

    @property
    def sharing(self) -> list[Pin]:
        """Jobs that run on the GPUs of the current one at the same time."""
        return [each for each in self.pins if each.shares]

    @property
    def link(self) -> str:
        """Return the fragment of the job, and of those that share its GPUs."""
        if self.config is None:
            return self.fragment
        return encode_fragment(self.config, [each.config for each in self.sharing])

    def remember(self, fragment: str, found: Found) -> None:
        """Keep an answer, as long as there are not many newer ones."""
        self.recent.pop(fragment, None)
        self.recent[fragment] = found
        for oldest in list(self.recent)[:-RECENT]:
            del self.recent[oldest]

    def rank_of(self, found: Found) -> Rank | None:
        """Return the rank whose step is shown, where a job has it; None stands for the one that needs most."""
        ranks = found.ranks if isinstance(found, Estimate) else ()
        return next((rank for rank in ranks if self.stage and rank.name == self.stage), None)

    @property
    def earlier(self) -> dict[str, bool]:
        """Return whether to hide, by element id, that a curve or suggestions are about an earlier job."""
        return {f"{name}-earlier": about == self.config for name, about in self.drawn.items()}

    def _caught_up(self, message: Message) -> Message:
        """Return a message with the form as it would be if the page had shown what Python has filled it with since."""
        texts, seen = message.get("texts"), message.get("fills")
        if not texts or seen is None:
            return message
        for before, after in self.fills[int(seen) :]:
            changed = {path for path in {*before, *after} if texts.get(path, "") == before.get(path, "")}
            texts = {**texts, **{path: after.get(path, "") for path in changed}}
        return {**message, "texts": texts}

    def steps(self, channel: str, action: Action, message: Message) -> Iterator[Patch]:
        """The patches of an action, until a newer one takes over its channel."""
        self.message_counts[channel] = turn = self.message_counts.get(channel, 0) + 1
        # The language is set around every step, because another stream may run between two of them.
        yield {}  # an edit that comes right behind replaces this one before anything is computed
        steps = action(self, self._caught_up(message))
        while self.message_counts[channel] == turn:
            with speaking(self.language):
                try:
                    patch = next(steps, None)
                except MemcoreError as error:
                    patch = {"say": complaint(error)}
            if patch is None:
                return
            yield patch


Action = Callable[[Session, Message], Iterator[Patch]]
