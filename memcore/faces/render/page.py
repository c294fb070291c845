"""What the page shows for a form, a link or a file: plain strings that `site/main.py` puts in their places."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import MODEL, Config
from memcore.config.texts import from_texts, to_texts
from memcore.config.url import encode_fragment
from memcore.errors import ConfigError, MemcoreError, Problem, problems_of
from memcore.estimation import estimate, is_serving
from memcore.faces.render import html
from memcore.faces.render.applying import traits
from memcore.faces.render.form import is_of_task
from memcore.faces.render.ranks import ranks
from memcore.faces.render.serving_html import serving_attributes, serving_stages
from memcore.faces.render.stages import stages as stage_pictures
from memcore.faces.render.used import used_of_all
from memcore.i18n.page import say
from memcore.limits import CONFIG_LENGTH
from memcore.memory.estimate import Estimate
from memcore.memory.rank import Rank
from memcore.questions.describe import spelled
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.untrusted import fault, parse_json

EXAMPLE: Mapping[str, object] = {
    "model": "llama-3.1-8b",
    "training": {
        "sequence_length": 4096,
        "micro_batch_size": 1,
        "activation_checkpointing": "full",
        "adapter": {"type": "lora", "rank": 16, "target_modules": "all-linear"},
    },
    "hardware": {"accelerator": "rtx-4090", "num_gpus": 1},
}
"""The job that the page opens with: what people most often ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What changes on the page: an answer, or problems and no answer."""

    problems: tuple[Problem, ...] = ()
    fragment: str = ""
    engine: str = ""
    """The engine that runs the job, by which fields are shown."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Markup by element id."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes of the verdict."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What was taken for settings that are absent, as text by path."""


@dataclass(frozen=True, slots=True)
class Form:
    """The content of the form."""

    texts: Mapping[str, str]
    """By path, as text."""
    pasted: str = ""
    """A config.json, which replaces the model."""


def example() -> Config:
    """Return the job that the page opens with, as a config."""
    return Config.from_dict(EXAMPLE)


def fill(config: Config) -> Form:
    """Return the form of a config."""
    texts = to_texts(config)
    if is_serving(config):
        texts.setdefault(EngineSettings.type, registry.USUAL_SERVER)
    if isinstance(config.model, str):
        return Form(texts)
    return Form({**texts, "model": ""}, json.dumps(dict(config.model), indent=2))


def answer(form: Form) -> Update:
    """Return the answer for a form."""
    try:
        base = {"model": parsed(form.pasted)} if form.pasted.strip() else None
        texts = {**form.texts, "model": ""} if base else dict(form.texts)
        return answer_config(from_texts(_of_task(texts), base))
    except MemcoreError as error:
        return Update(problems=problems_of(error))


def _of_task(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what the form says about the task of its engine; fields of the other task are hidden and wait."""
    engine = texts.get(EngineSettings.type, "")
    return {path: text for path, text in texts.items() if is_of_task(path, engine)}


def answer_config(config: Config) -> Update:
    """Return the answer for a config; problems where it cannot be computed."""
    try:
        found = estimate(config)
        return Update(
            fragment=encode_fragment(config),
            engine=found.job.engine.name,
            sections=sections(found),
            attributes=attributes(found),
            defaults=defaults(found),
        )
    except MemcoreError as error:
        return Update(problems=problems_of(error))


def stages(found: Estimate | ServingEstimate, rank: Rank | None = None) -> Iterator[dict[str, str]]:
    """Yield the content of each part of the page that shows an answer, by element id, what matters most first.

    The picture of a step of training is that of a rank, of the one that needs most if none is given.
    """
    if isinstance(found, ServingEstimate):
        yield from serving_stages(found)
        yield {"ranks": ranks(found)}
        return
    yield from html.stages(found, rank)
    yield {"ranks": ranks(found)}
    for markup in stage_pictures(found, rank or found.rank):
        yield {"stages": markup} if markup or len(found.ranks) == 1 else {}
    if len(found.ranks) > 1:
        for each in found.ranks:
            _ = each.reserved  # asks the allocator, one rank after the other
            yield {}
        yield {"used": used_of_all(found)}


def sections(found: Estimate | ServingEstimate) -> dict[str, str]:
    """Return the content of each part of the page that shows an answer, by element id."""
    return {name: markup for stage in stages(found) for name, markup in stage.items()}


def attributes(found: Estimate | ServingEstimate) -> dict[str, str]:
    """Return the `data-` attributes of the verdict."""
    return serving_attributes(found) if isinstance(found, ServingEstimate) else html.attributes(found)


def attributes_with(stage: Mapping[str, str], found: Estimate | ServingEstimate) -> dict[str, str]:
    """The attributes of the verdict that a stage of the answer brings: none without a verdict or a part of it."""
    if "verdict" in stage:
        return {**attributes(found), "aria-busy": "false"}
    if "verdict-reason" not in stage or isinstance(found, ServingEstimate):
        return {}
    return html.early_attributes(found)


def defaults(found: Estimate | ServingEstimate) -> dict[str, str]:
    """Return what was taken for absent settings, as text by path, and the model's traits that settings wait for."""
    taken = {each.path: spelled(each.path, each.value) for each in found.assumptions}
    name = "" if isinstance(found.job.config.model, str) else say("own-model", name=found.job.model.name)
    return {MODEL: name, Hardware.num_gpus: str(found.job.num_gpus), **taken, **traits(found)}


def read_file(text: str, form: Form) -> Form:
    """The form after a file was dropped: a memcore config replaces it, a config.json only the model.

    Raises ConfigError if the file is neither.
    """
    data = parsed(text, where="the file")
    if "model" in data:
        return fill(Config.from_dict(data))
    if "model_type" in data:
        return Form({**form.texts, MODEL: ""}, json.dumps(data, indent=2))
    message = "expected a memcore config with a 'model', or a config.json with a 'model_type'"
    raise ConfigError.at("the file", message)


def parsed(text: str, said: list[str] | None = None, where: str = "model-json") -> dict[str, object]:
    """Return the JSON object of a text; notes on what is in it are `said`.

    Raises ConfigError, which names where the text stands, if it is none.
    """
    if len(text) > CONFIG_LENGTH:
        raise ConfigError.at(where, "longer than {:,} characters", CONFIG_LENGTH)
    try:
        found = parse_json(text, said)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError.at(where, "not JSON: {}", fault(error)) from None
    if not isinstance(found, dict):
        raise ConfigError.at(where, "expected a JSON object")
    return found
