"""A whole question in the place of the model fills the form."""

from __future__ import annotations

from collections.abc import Iterator

from memcore import messages
from memcore.config.hardware import Hardware
from memcore.faces.goals.names import meanings
from memcore.faces.goals.sentences import asked
from memcore.faces.goals.tasks import task_of, with_task
from memcore.faces.page.answering import edit, form_of, load
from memcore.faces.page.examples import record_example
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.page import Form
from memcore.i18n.page import translated


def ask(session: Session, message: Message) -> Iterator[Patch]:
    """The model's field was left: a question in it fills the sentence; anything else is an edit of the model."""
    form = form_of(message["texts"])
    question = asked(str(message.get("value") or ""))
    if question is None or meanings("model", str(message.get("value") or "")):
        yield from edit(session, {**message, "path": "model"})
        return
    found = dict(question.texts)
    task = question.task or task_of(form.texts)
    if "model" not in found and session.config is not None and isinstance(session.config.model, str):
        found["model"] = session.config.model
    named = Hardware.accelerator in found or Hardware.gpu_memory_gb in found
    kept: dict[str, str] = {Hardware.num_gpus: "1"} if named else {path: form.texts.get(path, "") for path in _PLACE}
    texts = {path: text for path, text in {**kept, **found}.items() if text}
    fresh = with_task(texts, task, frozenset(texts))
    record_example(session, Form({}), "")
    session.from_task = {path: text for path, text in fresh.items() if path not in texts}
    if question.unread:
        yield {"say": translated(messages.Message("not read: {}", messages.joined(", ", question.unread)))}
    yield from load(session, Form(fresh), message)


_PLACE: tuple[str, ...] = (Hardware.accelerator, Hardware.num_gpus, Hardware.gpu_memory_gb)
"""What a question without a GPU leaves as it is."""
