"""Visits of the page without a browser: messages in any order, with any content."""

from __future__ import annotations

import json
from itertools import islice
from random import Random
from typing import Any

from fuzzing import texts
from fuzzing.answers import expect
from fuzzing.jobs import any_job, job
from fuzzing.values import WRONG
from memcore.config.settings import SETTINGS
from memcore.faces.goals.tasks import TASKS
from memcore.faces.page.actions import ACTIONS, handle
from memcore.faces.page.answering import PASTED
from memcore.faces.page.presets import presets
from memcore.faces.page.session import Session

DOING = [name for name in ACTIONS if name not in ("start", "practise")]
KINDS = ("json", "csv", "markdown", "python", "cli", "flags", "svg", "png", "nothing")
MOST = 3000
"""Patches of one message."""
_SENT = [each for each in WRONG if isinstance(each, str)]
"""What somebody may type; of other types the page sends nothing."""


def visit(rng: Random) -> dict[str, Any]:
    """Return what a page sends: it opens, and then something happens a few times."""
    first = {
        "do": "start",
        "link": texts.link(rng) if rng.random() < 0.8 else "",
        "language": rng.choice(["en", "zh"]),
        "entry": 0,
    }
    return {"messages": [first, *(_message(rng) for _ in range(rng.randrange(1, 5)))]}


def _message(rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = {"do": rng.choice(DOING), "texts": _texts(rng), "entry": 1}
    found |= {
        "value": rng.choice([*TASKS, "training.micro_batch_size", "training.sequence_length", "2", texts.log(rng)]),
        "path": rng.choice(list(SETTINGS)),
        "name": rng.choice([*presets(), "a file", "x" * 200]),
        "key": rng.choice(["cancel", "advice-0", "layout-0", "pin-0"]),
        "kind": rng.choice(KINDS),
        "way": rng.choice(["copy", "save"]),
        "part": rng.choice(["activations", "parameters", "optimizer states", "weights", "nothing", ""]),
        "language": rng.choice(["en", "zh", "xx"]),
        "also": rng.choice(["", "max_allocated", "device_used", "x"]),
        "link": texts.link(rng),
        "files": [texts.file(rng) for _ in range(rng.randrange(1, 3))],
        "pins": rng.choice([None, [], [texts.link(rng)], [{"link": texts.link(rng), "name": "x"}]]),
        "base": rng.choice(["https://example.org/", "=1+1", None]),
    }
    for name in rng.sample([each for each in found if each != "do"], 1 if rng.random() < 0.1 else 0):
        found[name] = rng.choice(_SENT) if name not in ("texts", "files", "pins") else {}
    return found


def _texts(rng: Random) -> dict[str, str]:
    """The fields of the form."""
    tree = job(rng) if rng.random() < 0.8 else any_job(rng)
    found = dict(texts.spelled(tree))
    if rng.random() < 0.2:
        found[PASTED] = texts.file(rng)
    if rng.random() < 0.2:
        found[rng.choice(list(SETTINGS))] = str(rng.choice(WRONG))
    return found


def of_visit(given: Any) -> None:
    """Patches that travel as JSON, and a page that is answered or says why not."""
    session = Session()
    for message in given["messages"]:
        for patch in islice(handle(session, message), MOST):
            json.dumps(patch, allow_nan=False)
        if message["do"] in ("edit", "reset", "task") and session.found is not None:
            expect(not session.unfinished, "an answer that is not finished")
