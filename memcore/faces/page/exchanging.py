"""What goes in and out: files and pasted texts, and every form in which an answer can be taken away."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from html import escape, unescape
from typing import Any
from urllib.parse import quote

from memcore.config.engine import EngineSettings
from memcore.config.settings import MODEL, SETTINGS, Config
from memcore.config.texts import to_texts
from memcore.config.url import EMBED, LINK, decode_fragment
from memcore.errors import ConfigError, MemcoreError, problems_of
from memcore.escaping import csv_line, fenced, in_markdown
from memcore.estimation import estimate
from memcore.faces.goals.names import meanings
from memcore.faces.goals.sentences import asked, asks_for_models
from memcore.faces.page.answering import PASTED, form_of, load
from memcore.faces.page.asking import ask
from memcore.faces.page.checkpoints import gpus_of, is_of_checkpoint, noted, of_files, over, text_of
from memcore.faces.page.examples import of_file, record_example
from memcore.faces.page.session import Found, Message, Patch, Session
from memcore.faces.render import html, page
from memcore.faces.render.data import summary
from memcore.faces.render.page import Form
from memcore.faces.render.poster import WIDTH, poster
from memcore.faces.render.serving_data import serving_summary_data
from memcore.faces.render.social import CARD, badge, card, short, subject
from memcore.formats.tool import Syntax, Tool
from memcore.i18n.page import complaint, say, translated
from memcore.limits import CONFIG_LENGTH
from memcore.messages import Message as Words
from memcore.messages import joined
from memcore.questions.reconciling.logs import is_log
from memcore.serving.estimate import ServingEstimate
from memcore.tools import TOOLS, Exported, exported, imported, runs, tool_of
from memcore.tools.companions import apart
from memcore.tools.convert import is_command
from memcore.tools.exporting import syntax_of
from memcore.tools.sources import Source, tool_brought
from memcore.units import format_bytes
from memcore.untrusted import MARK
from memcore.version import __version__

_STAMP = re.compile(r"#v[0-9]+&[^\s)\"'<>]+")
"""The link that every export is stamped with."""


def take(session: Session, message: Message) -> Iterator[Patch]:
    """A file was dropped or a text pasted; a log is compared, and what is not understood changes nothing."""
    name = str(message.get("name") or "")
    form = before = form_of(message["texts"])
    names = [str(each) for each in message.get("names") or [name] * len(message["files"])]
    texts = [str(each or "").removeprefix(MARK) for each in message["files"]]
    try:
        read = [Source(name, text_of(name, text)) for name, text in zip(names, texts, strict=False)]
        sources, silent = apart([each.name for each in read], read)
        if len(sources) > 1 or is_of_checkpoint(sources[0].text):
            form, said = of_files(sources, form)
        else:
            form, said = understood(sources[0].text, form)
    except MemcoreError as error:
        yield from _otherwise(session, message, error, names, texts)
        return
    if silent:
        said += f" {noted([Words('no effect on memory: {}', joined(', ', silent))])}"
    record_example(session, form, "")
    session.sources = tuple(sources)
    session.from_file = {path: text for path, text in form.texts.items() if before.texts.get(path) != text}
    yield {"close": "import", "html": {"import-error": ""}}
    yield from load(session, form, message, f"{say('imported', name=name[:60])} {said}")


def take_or_ask(session: Session, message: Message) -> Iterator[Patch]:
    """The model's field was left: a command that starts a job is taken like a file, anything else is asked."""
    typed = str(message.get("value") or "")
    if not is_command(typed) or asks_for_models(typed):
        yield from ask(session, message)
        return
    texts = {**message["texts"], MODEL: session.form.texts.get(MODEL, ""), PASTED: session.form.pasted}
    yield from take(session, {**message, "texts": texts, "name": say("pasted"), "files": [typed]})


def _otherwise(
    session: Session, message: Message, error: MemcoreError, names: Sequence[str], texts: Sequence[str]
) -> Iterator[Patch]:
    """Take what describes no job as a log or as a question, or say what is wrong with it."""
    logs = [each for each in texts if is_log(each, error)]
    text = texts[0].strip() if len(texts) == 1 else ""
    if logs:
        yield {"close": "import", "log": "\n".join(logs)}
    elif len(text.splitlines()) == 1 and _is_question(text):
        yield {"close": "import", "html": {"import-error": ""}}
        yield from ask(session, {**message, "texts": {**message["texts"], MODEL: text}, "value": text})
    else:
        yield _refused(session, error, names)


def _is_question(text: str) -> bool:
    """Return whether a line, which is no command, asks for a job, or names one model."""
    return "--" not in text and (asked(text) is not None or len(meanings(MODEL, text)) == 1)


def _refused(session: Session, error: MemcoreError, names: Sequence[str]) -> Patch:
    """Return what is wrong with files, by the name of the one file that there is; the answer is still the form's."""
    named = error.within(names[0][:60]) if isinstance(error, ConfigError) and len(names) == 1 else error
    said = {"problems": html.problems(problems_of(named)), "import-error": escape(complaint(named))}
    return {"html": said, "hidden": {"problems": False}}


def understood(text: str, form: Form) -> tuple[Form, str]:
    """Return the form after an import, and what was taken.

    A link, a picture that holds a config, an export, a config, a config.json, another tool's file or command line.
    Raises ConfigError if it is none of them, and UnsupportedError for what makes another network of it.
    """
    stripped = text.strip()
    if len(stripped) > CONFIG_LENGTH:
        raise ConfigError.at("the file", "longer than {:,} characters", CONFIG_LENGTH)
    if LINK.search(stripped) and "\n" not in stripped and " " not in stripped:
        return page.fill(decode_fragment(stripped)), ""
    stripped = _held(stripped) or (unescape(stripped) if stripped.startswith("<iframe ") else stripped)
    notes: list[str] = []
    data = _object(stripped, notes)
    if isinstance(data.get("config"), dict) and "memcore" in data:
        return page.fill(Config.from_dict(data["config"])), noted(notes)
    if "model" in data or "model_type" in data:
        return page.read_file(stripped, form), noted(notes)
    stamped = _STAMP.search(stripped) if "memcore" in stripped else None
    if stamped is not None:
        return page.fill(decode_fragment(stamped[0])), ""
    return _of_tool(stripped, form)


def _object(text: str, said: list[str]) -> dict[str, object]:
    """Return a JSON object; empty if the text is none and may be another tool's."""
    return page.parsed(text, said, "the file") if text.startswith("{") else {}


def _of_tool(text: str, form: Form) -> tuple[Form, str]:
    """Another tool's file over the model and the GPUs of the form."""
    found = imported(text, gpus_of(form))
    after, kept = over(form, found.config)
    said = [say("import-keys", tool=translated(found.tool.title), read=len(found.read))]
    if found.assumed:
        said.append(say("import-assumed", assumed=len(found.assumed)))
    if found.unknown:
        said.append(say("import-unknown", keys=", ".join(found.unknown)[:300]))
    return after, " ".join(filter(None, [*said, noted(found.notes), kept]))


def _held(picture: str) -> str:
    """Return the config that a picture holds; empty if it holds none."""
    inside = picture.partition("<metadata")[2].partition(">")[2]
    text, closed, _ = inside.partition("</metadata>")
    return _unescaped(text) if closed else ""


def _unescaped(text: str) -> str:
    return unescape(text.replace("<![CDATA[", "").replace("]]>", ""))


def exports(session: Session, message: Message) -> Iterator[Patch]:
    """The dialog with everything that can be taken away, of the job or of a plan."""
    if (subject := _subject(session, message)) is None:
        return
    config, found, link = subject
    job = str(message.get("job") or "")
    items = []
    for number, (kind, (title, text)) in enumerate(texts_of(config, found, link, _brought(session)).items()):
        items.append(
            f"<section><details{' open' if number == 0 else ''}><summary><h3>{escape(title)}</h3></summary>"
            f'<pre tabindex="0" id="export-{kind}">{escape(text[:4000])}</pre></details>'
            f'<p class="row">{_button(kind, "copy", job)}{_button(kind, "save", job)}</p></section>'
        )
    items += (
        f'<section><h3>{escape(say(f"export-{kind}"))}</h3><p class="row">{_button(kind, "save", job)}</p></section>'
        for kind in ("svg", "png", "badge", "card")
    )
    plan = f"<p>{escape(str(message.get('said') or ''))}</p>" if job else ""
    yield {"html": {"exports-list": plan + "".join(items)}, "open": "exports"}


def _subject(session: Session, message: Message) -> tuple[Config, Found, str] | None:
    """Return what is taken away: the job, or the plan that the message names; with its link."""
    job = str(message.get("job") or "")
    if job:
        config = decode_fragment(job)
        return config, estimate(config), _link(message, job)
    if session.config is None or session.found is None:
        return None
    return session.config, session.found, _link(message, session.fragment)


def _link(message: Message, fragment: str) -> str:
    """Return the link of a job, in one line, without what somebody has added to the page's address."""
    base = "".join(str(message.get("base") or "").split())[:500].partition("#")[0].partition("?")[0]
    return f"{quote(base, safe='/:%[]')}#{fragment}"


def _button(kind: str, way: str, job: str) -> str:
    of = f' data-job="{escape(job)}"' if job else ""
    return (
        f'<button type="button" data-do="export" data-kind="{kind}" data-way="{way}"{of} '
        f'aria-label="{escape(say(f"export-{way}"))} {kind}">{escape(say(f"export-{way}"))}</button>'
    )


FILES: Mapping[str, tuple[str, str]] = {
    "json": ("memcore.json", "application/json"),
    "csv": ("memcore.csv", "text/csv"),
    "markdown": ("memcore.md", "text/markdown"),
    "python": ("memcore-plan.py", "text/x-python"),
    "cli": ("memcore.sh", "text/x-shellscript"),
    "embed": ("memcore-embed.html", "text/html"),
    "svg": ("memcore.svg", "image/svg+xml"),
    "badge": ("memcore-badge.svg", "image/svg+xml"),
}
"""Name and type of each saved file; that of a tool is called after the tool."""
_TYPES: Mapping[Syntax, str] = {
    "argv": "text/x-shellscript", "json": "application/json", "yaml": "application/yaml", "toml": "application/toml",
    "python": "text/x-python",
}  # fmt: skip


def export(session: Session, message: Message) -> Iterator[Patch]:
    """Copy or save one of them."""
    kind = str(message.get("kind"))
    if (subject := _subject(session, message)) is None:
        return
    config, found, link = subject
    note = json.dumps({"memcore": __version__, "config": config.to_dict(), "link": link})
    if kind in ("png", "card"):
        yield {"picture": {**_picture(kind, found, stamp_of(link), note), "note": note}}
        return
    if kind in ("svg", "badge"):
        text = badge(found) if kind == "badge" else poster(found, stamp_of(link), note)[0]
    else:
        text = texts_of(config, found, link, _brought(session)).get(kind, ("", ""))[1]
    if message.get("way") == "copy":
        yield {"copy": text, "done": say("export-copied")}
    elif text:
        tool = TOOLS.get(kind) or tool_of(_decided(config, found), _brought(session))
        syntax = syntax_of(tool, text)
        name, mime = FILES.get(kind) or (tool.file_in(syntax), _TYPES[syntax])
        yield {"download": {"name": name, "type": mime, "text": text}}


def _picture(kind: str, found: Found, stamp: str, note: str) -> dict[str, Any]:
    """Return what the page draws as a PNG: an SVG, its size, and how many times as large it is for sharp screens."""
    if kind == "card":
        (width, height), version = CARD, f"memcore {__version__}, {today()}"
        return {
            "svg": card(found, version, note),
            "name": "memcore-card.png",
            "width": width,
            "height": height,
            "scale": 1,
        }
    text, height = poster(found, stamp, note)
    return {"svg": text, "name": "memcore.png", "width": WIDTH, "height": height, "scale": 2}


def _brought(session: Session) -> Tool | None:
    """Return the tool whose file was imported, as long as one of its values is in force."""
    return tool_brought(session.sources) if of_file(session) else None


def texts_of(config: Config, found: Found, link: str, brought: Tool | None = None) -> dict[str, tuple[str, str]]:
    """Return every textual export by kind: its title and its content, stamped with version and link.

    The first is for the job's own tool, which is the one that `brought` it where it runs the job.
    """
    stamp, stamped = stamp_of(link), {**_summary(found), "made": today(), "link": link}
    every = {
        "flags": _flags(config, found, stamp, brought),
        **_others(config, found, stamp, brought),
        "cli": (say("export-cli"), f"# {stamp}\n{command_line(config)}"),
        "python": (say("export-python"), python_snippet(config, stamp)),
        "markdown": (say("export-markdown"), f"{pictured(found, link)}\n\n{markdown(found, link)}"),
        "embed": (say("export-embed"), embedded(found, link)),
        "json": (say("export-json"), json.dumps(stamped, indent=2, ensure_ascii=False)),
        "csv": (say("export-csv"), csv_of(found, stamp)),
    }
    return {kind: each for kind, each in every.items() if each[1]}


def _flags(config: Config, found: Found, stamp: str, brought: Tool | None) -> tuple[str, str]:
    """Return what the job's own tool reads; empty for a script of one's own, which reads nothing."""
    whole = _decided(config, found)
    own = tool_of(whole, brought)
    if not runs(own, whole):
        return "", ""
    flags = exported(whole, own.name, _taken(found))
    return say("export-flags", engine=translated(flags.tool.title)), _stamped(flags, stamp)


def _others(config: Config, found: Found, stamp: str, brought: Tool | None) -> dict[str, tuple[str, str]]:
    """Return what other tools read that run the same engine, of those whose file says at least which model it is."""
    whole = _decided(config, found)
    own = tool_of(whole, brought)
    every = (exported(whole, tool.name, _taken(found)) for tool in TOOLS.values() if tool != own and runs(tool, whole))
    return {
        each.tool.name: (say("export-file", tool=translated(each.tool.title), file=each.file), _stamped(each, stamp))
        for each in every
        if "model" not in each.left_out
    }


def _decided(config: Config, found: Found) -> Config:
    """Return the config with its engine, which decides the tool."""
    engine = config[EngineSettings.type] or _taken(found).get(EngineSettings.type)
    return config.replaced(EngineSettings.type, engine) if engine else config


def _taken(found: Found) -> dict[str, object]:
    return {each.path: each.value for each in found.assumptions}


def today() -> str:
    """Return the day of an export."""
    return datetime.now(timezone.utc).date().isoformat()


def stamp_of(link: str) -> str:
    """Return what every export says of itself: version, day and link."""
    return f"memcore {__version__}, {today()}, {link}"


def _summary(found: Found) -> dict[str, Any]:
    return serving_summary_data(found) if isinstance(found, ServingEstimate) else summary(found)


def _stamped(found: Exported, stamp: str) -> str:
    """Return a tool's text with version and link, where its syntax has comments, and what the tool has no key for."""
    if found.tool.syntax == "json":
        return found.text
    rest = "".join(f"# {say('export-left-out', reason=translated(each))}\n" for each in found.reasons)
    return f"# {stamp}\n{found.text}{rest}"


def command_line(config: Config) -> str:
    """Return the command that gives the same answer."""
    if not isinstance(config.model, str):
        return f"echo {shlex.quote(json.dumps(config.to_dict()))} | memcore estimate -"
    return " ".join(
        [
            "memcore estimate",
            *(f"--{SETTINGS[path].flag} {shlex.quote(text)}" for path, text in to_texts(config).items()),
        ]
    )


def python_snippet(config: Config, stamp: str) -> str:
    """Return a Python snippet that estimates the same job."""
    asked = f"found = memcore.estimate({config.to_dict()!r})"
    return f"# {stamp}\nimport memcore\n\n{asked}\nprint(found.fits, found.device.expected)\n"


def markdown(found: Found, link: str) -> str:
    """Return the verdict and the components as a table, for an issue."""
    said = _summary(found)
    verdict, reason = in_markdown(said["verdict"]), in_markdown(said["reason"])
    rows = "\n".join(
        f"| {in_markdown(name)} | {format_bytes(size)} | {size} |" for name, size in found.ledger.by_category.items()
    )
    return (
        f"**{verdict}** {reason}\n\n| component | size | bytes |\n| --- | ---: | ---: |\n{rows}\n\n"
        f"memcore {__version__}, {today()} · [{_title(found)}]({link})\n"
    )


def pictured(found: Found, link: str) -> str:
    """Return the badge as a picture in Markdown that leads to the page; where pictures are not shown, its text does."""
    data = base64.b64encode(badge(found).encode()).decode()
    said = in_markdown(f"{say('badge')}: {short(found)}")
    return f"[![{said}](data:image/svg+xml;base64,{data})]({link})"


def embedded(found: Found, link: str) -> str:
    """Return what shows the live picture in another page."""
    title = escape(f"memcore, {subject(found)}: {short(found)}")
    return (
        f'<iframe src="{escape(link)}&amp;{EMBED}" title="{title}" width="100%" height="600" loading="lazy"></iframe>\n'
    )


def _title(found: Found) -> str:
    return in_markdown(found.job.model.name)


def csv_of(found: Found, stamp: str) -> str:
    """Return every tensor at the peak, and the stamp in one cell."""
    rows: list[list[object]] = [["component", "tensor", "module", "bytes", "formula", "source"]]
    rows += (
        [entry.category, entry.title, entry.module, entry.bytes, entry.formula, entry.source]
        for entry in found.ledger.entries
    )
    rows.append([f"# {stamp}"])
    return "".join(map(csv_line, rows))


def report(session: Session, message: Message) -> Iterator[Patch]:
    """A report of a mismatch, ready to be filled in."""
    config, found = session.config, session.found
    if config is None or found is None:
        return
    link = _link(message, session.fragment)
    text = (
        f"{markdown(found, link)}\nMeasured (max_memory_allocated, max_memory_reserved or nvidia-smi): \n"
        f"Versions (torch, engine, driver): \n\n{fenced(json.dumps(config.to_dict(), indent=2), 'json')}"
    )
    yield {"copy": text, "done": say("report-copied")}
