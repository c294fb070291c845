"""What messages can ask for. Messages of one channel replace each other; channels run side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.config.settings import Config
from memcore.faces.page import (
    answering,
    checkpoints,
    comparing,
    exchanging,
    explaining,
    exploring,
    framing,
    layouts,
    moments,
    next_steps,
    origins,
    reconciling,
    setting_search,
    suggestions,
    tracks,
)
from memcore.faces.page.examples import record_example
from memcore.faces.page.presets import presets
from memcore.faces.page.session import Action, Message, Patch, Session
from memcore.faces.render import page


def handle(session: Session, message: Message) -> Iterator[Patch]:
    """The patches for a message; nothing for one that is not known."""
    found = ACTIONS.get(str(message.get("do")))
    if found is not None:
        yield from session.steps(*found, message)


def load_preset(session: Session, message: Message) -> Iterator[Patch]:
    """A preset was chosen."""
    chosen = presets().get(str(message.get("name")))
    if chosen is not None:
        form = page.fill(Config.from_dict(chosen.config))
        record_example(session, form, chosen.name)
        yield from answering.load(session, form, message)


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "start": ("answer", framing.start),
    "open": ("answer", answering.open_link),
    "edit": ("answer", answering.edit),
    "ask": ("answer", exchanging.take_or_ask),
    "task": ("answer", answering.choose_task),
    "preset": ("answer", load_preset),
    "reset": ("answer", answering.reset),
    "drop": ("answer", answering.drop),
    "set": ("answer", answering.set_field),
    "propose": ("answer", answering.propose),
    "import": ("answer", exchanging.take),
    "hub": ("hub", checkpoints.ask_hub),
    "language": ("answer", framing.switch_language),
    "adopt": ("answer", next_steps.adopt),
    "ways": ("ways", next_steps.ways),
    "crowd": ("answer", next_steps.crowd),
    "practise": ("practise", answering.practise),
    "advise": ("advise", suggestions.suggest),
    "search": ("search", layouts.search),
    "cancel": ("search", layouts.cancel),
    "solve": ("solve", exploring.most),
    "curve": ("curve", exploring.curve),
    "find": ("find", setting_search.find),
    "explain": ("explain", explaining.explain),
    "origins": ("explain", origins.show_origins),
    "moment": ("moment", moments.moment),
    "stage": ("stage", moments.stage),
    "tracks": ("tracks", tracks.paint),
    "pin": ("compare", comparing.pin),
    "restore": ("compare", comparing.restore),
    "unpin": ("compare", comparing.unpin),
    "share": ("compare", comparing.share_gpus),
    "exports": ("export", exchanging.exports),
    "export": ("export", exchanging.export),
    "reconcile": ("reconcile", reconciling.reconcile),
    "case": ("export", reconciling.case),
    "report": ("export", exchanging.report),
    "say": ("say", framing.say_word),
}
"""Channel and action by the name that messages carry."""
LONG, SEEN, NOBODY_WAITS = 1, 2, 3
_TURNS: Mapping[str, int] = {
    "advise": LONG, "curve": LONG, "search": LONG, "solve": LONG,
    "tracks": SEEN, "practise": NOBODY_WAITS, "ways": NOBODY_WAITS,
}  # fmt: skip


def turn_of(message: Message) -> int:
    """Return whose turn it is first.

    0 for answers and 1 for clicks that take long; of what the page asks for by itself, 2 for tracks, which are next to
    the number that was edited, and 3 for their exact values and everything else.
    """
    return NOBODY_WAITS if message.get("exact") else _TURNS.get(str(message.get("do")), 0)
