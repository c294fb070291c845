"""A whole question in the place of the model fills the form, or lists the models that some GPUs run."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore import messages
from memcore.config.hardware import Hardware
from memcore.config.settings import MODEL, Config
from memcore.config.texts import from_texts
from memcore.faces.goals.names import meanings, written
from memcore.faces.goals.sentences import asked, asks_for_models
from memcore.faces.goals.tasks import task_of, with_task
from memcore.faces.page.answering import edit, form_of, load
from memcore.faces.page.examples import record_example
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.fitting import fitting_link
from memcore.faces.render.page import Form
from memcore.i18n.page import say, translated
from memcore.questions.planning.fitting import WELL_KNOWN, fitting
from memcore.serving.inference import CHAT, Inference


def ask(session: Session, message: Message) -> Iterator[Patch]:
    """The model's field was left: a question in it fills the sentence; anything else is an edit of the model."""
    form, sentence = form_of(message["texts"]), str(message.get("value") or "")
    if hardware := asks_for_models(sentence):
        yield from _models(session, from_texts({**hardware, MODEL: WELL_KNOWN[0]}))
        return
    question = asked(sentence)
    if question is None or meanings("model", sentence):
        yield from edit(session, {**message, "path": "model"})
        return
    found = dict(question.texts)
    task = question.task or task_of(form.texts)
    own = ""
    if MODEL not in found and session.config is not None:
        if isinstance(session.config.model, str):
            found[MODEL] = session.config.model
        else:
            own = form.pasted
    named = Hardware.accelerator in found or Hardware.gpu_memory_gb in found
    kept: dict[str, str] = {Hardware.num_gpus: "1"} if named else {path: form.texts.get(path, "") for path in _PLACE}
    texts = {path: text for path, text in {**kept, **found}.items() if text}
    fresh = with_task(texts, task, frozenset(texts))
    record_example(session, Form({}), "")
    session.from_task = {path: text for path, text in fresh.items() if path not in texts}
    for note in question.of_kinds():
        yield {"say": translated(note)}
    ram = () if question.ram_gb is None else (f"{question.ram_gb} GB RAM",)
    if unread := (*question.others, *ram, *question.unread):
        yield {"say": translated(messages.Message("not read: {}", messages.joined(", ", unread)))}
    yield from load(session, Form(written(fresh), own), message)


def _models(session: Session, hardware: Config) -> Iterator[Patch]:
    """Yield the models that some GPUs run under the question, each as a link to its job, as they are found."""
    length = f"{hardware.get(Inference.max_model_len) or CHAT:,}"
    links: list[str] = []
    yield _noted(session, escape(say("models-looking")))
    for each in fitting(hardware):
        links.append(fitting_link(each))
        said = say("models-that-fit", server=each.found.job.title, length=length)
        yield _noted(session, f"{escape(said)} {' · '.join(links)}")
    if not links:
        yield _noted(session, escape(say("cli-no-model-fits", length=length)))


def _noted(session: Session, markup: str) -> Patch:
    said: Patch = {"note": markup, "error": ""}
    session.fields.setdefault(MODEL, {}).update(said)
    return {"fields": {MODEL: said}, "html": {"problems": ""}, "hidden": {"problems": True}}


_PLACE: tuple[str, ...] = (Hardware.accelerator, Hardware.num_gpus, Hardware.gpu_memory_gb)
"""What a question without a GPU leaves as it is."""
