"""Every way to show an answer or to ask further: none crashes, and none refuses what was answered."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import shlex
from contextlib import suppress
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree as ET

from fuzzing.answers import BrokenError, answered, expect, never_refused, normalized, said, strict
from fuzzing.trips import may_be_written, round_trip
from memcore.config.settings import Config
from memcore.config.url import decode_fragment, encode_fragment
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate
from memcore.faces.cli import main
from memcore.faces.page import exchanging
from memcore.faces.render import data, page, svg, text
from memcore.faces.render.advice import advice_data, advice_html, advice_rows, advice_text
from memcore.faces.render.formulas import comparison_data, comparison_text
from memcore.faces.render.model import model_data, model_html, model_text
from memcore.faces.render.page import Form
from memcore.faces.render.plans import plans_data, plans_text
from memcore.faces.render.poster import poster
from memcore.faces.render.reconciled import case_text, reconciled_data, reconciled_html, reconciled_text
from memcore.faces.render.search import search_data, search_text
from memcore.faces.render.serving_data import serving_explanation_data
from memcore.faces.render.serving_text import serving_explanation, serving_summary
from memcore.faces.render.solution import solution_data, solution_text
from memcore.i18n.page import speaking
from memcore.memory.estimate import Estimate
from memcore.networks.catalog import find_model
from memcore.questions.accuracy import accuracy
from memcore.questions.advising.advise import advise
from memcore.questions.formulas import compare
from memcore.questions.planning.plan import plan
from memcore.questions.quick import quick
from memcore.questions.reconciling.logs import sightings
from memcore.questions.reconciling.reconcile import reconcile
from memcore.questions.searching.records import record
from memcore.questions.searching.search import search
from memcore.questions.solving import solve
from memcore.tools import TOOLS
from memcore.tools.sources import read_source

OWN_MISTAKE = "this is a mistake in memcore"
"""How the command line says that it crashed."""
LINK = "https://example.org/#v1&model=gpt2"
LONGEST_LINK = 2**16
"""Characters; memcore reads no more."""
_EXAMPLE = {"model": "gpt2", "training": {"sequence_length": 128}}


class CrashError(Exception):
    """The command line crashed; the message has the place."""


def of_job(given: Any) -> None:
    """Its estimate, in words and as JSON."""
    found = answered(normalized(given))
    with never_refused("the summary"):
        said(found)
        shown = text.summary(found) if isinstance(found, Estimate) else serving_summary(found)
    expect(shown.strip(), "a summary without text")


def of_explanation(given: Any) -> None:
    """Every moment of the step with all of its entries."""
    found = answered(normalized(given))
    with never_refused("explain"):
        if not isinstance(found, Estimate):
            strict(serving_explanation_data(found))
            expect(serving_explanation(found).strip(), "an explanation without text")
            return
        for moment in (found.peak, found.moments[0], found.moments[-1]):
            explained = data.explanation(found, moment)
            strict(explained)
            total = sum(explained["breakdown"].values())
            expect(total == explained["bytes"] == moment.peak, f"parts that do not add up: in {moment.phase}")
            text.explanation(found, moment)


def of_pictures(given: Any) -> None:
    """The page's answer in both languages, and the picture that is saved."""
    found = answered(normalized(given))
    for language in ("en", "zh"):
        with never_refused("the page"), speaking(language):
            for stage in page.stages(found):
                for part in stage.values():
                    _well_formed(f"<div>{part}</div>")
            page.defaults(found)
            _well_formed(poster(found, "stamp", "note")[0])
    if isinstance(found, Estimate):
        _well_formed(svg.standalone(svg.timeline(found)))


def _well_formed(markup: str) -> None:
    plain = re.sub(r"<(br|input|img|hr)\b([^<>]*?)/?>", r"<\1\2/>", markup).replace("&nbsp;", " ")
    plain = _NO_XML.sub("", plain)
    try:
        ET.fromstring(plain)  # noqa: S314 - memcore's own
    except ET.ParseError as error:
        line, column = error.position
        near = plain.split("\n")[line - 1][max(0, column - 60) : column + 60]
        raise BrokenError(f"markup is not well-formed: {error}: {near}") from error


_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""Characters that HTML takes and XML does not."""


def of_exports(given: Any) -> None:
    """In the words of every tool that runs it, as their own parsers read them, and everything that the page exports."""
    found = answered(normalized(given))
    config = found.job.config
    for tool in TOOLS.values():
        if may_be_written(found, tool):
            round_trip(found, tool)
    with never_refused("the dialog of exports"):
        texts = exchanging.texts_of(config, found, LINK)
    ast.parse(texts["python"][1])
    shlex.split(texts["cli"][1], comments=True)
    json.loads(texts["json"][1])
    rows = list(csv.reader(io.StringIO(texts["csv"][1])))
    expect(not any(cell[:1] in set("=+-@\t\r") for row in rows for cell in row if cell), "a cell that is a formula")


OF_FILES = ("read", "of_no_account", "left_out", "assumed")
"""What an answer says besides of the keys of a file."""


def of_command(given: Any) -> None:
    """The command line, Python and a link give the same answer."""
    given = normalized(given)
    config = Config.from_dict(given)
    fragment = encode_fragment(config)
    if len(fragment) <= LONGEST_LINK:
        expect(decode_fragment(fragment) == config, "a link is another job")
    expect(Config.from_dict(config.to_dict()) == config, "a dictionary is another job")
    found = answered(config)
    summary = json.loads(strict(said(found)))
    status = {True: 0, False: 1, None: 0}[found.fits]
    ways = [(["estimate", "-", "--json"], json.dumps(given), summary)]
    if len(fragment) <= LONGEST_LINK:
        # A link says what a file was taken as, not what it said.
        ways.append((["estimate", f"#{fragment}", "--json"], "", {**summary, "taken_otherwise": []}))
    for arguments, typed, same in ways:
        code, printed = command(arguments, typed)
        way = f"the command with {'a file' if typed else 'a link'}"
        expect(code == status, f"{way} has another status: {code} instead of {status}: {printed[:500]}")
        answer = {key: value for key, value in json.loads(printed).items() if key in summary or key not in OF_FILES}
        expect(answer == same, f"{way} says something else: memcore estimate {arguments[1][:200]}")


def command(arguments: list[str], typed: str = "") -> tuple[int, str]:
    """Return what a command prints to a terminal, and its status.

    Raises CrashError where it says that the mistake is memcore's.
    """
    printed, failed = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with patch("sys.stdin", io.StringIO(typed)), patch("sys.stdout", printed), patch("sys.stderr", failed):
        try:
            status = main(arguments)
        except SystemExit as ended:  # of --help
            status = int(ended.code or 0)
        said_out, said_err = (_content(each) for each in (printed, failed))
    if OWN_MISTAKE in said_out + said_err:
        raise CrashError((said_out + said_err)[-600:])
    expect(status in (0, 1, 2), f"status {status}")
    expect(status != 2 or said_err.strip() or "--json" in arguments, "refused without a word")
    return status, said_out


def _content(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    return buffer.getvalue().decode() if isinstance(buffer, io.BytesIO) else ""


def of_arguments(given: Any) -> None:
    """A command with flags of any value; whether it is answered shows in its status."""
    status, _ = command(given["arguments"], given.get("typed", ""))
    if status == 2:
        raise MemcoreError("refused")


def of_advice(given: Any) -> None:
    """Suggestions, and the ladder."""
    found = advise(normalized(given["config"]), ladder=given["ladder"])
    with never_refused("advice"):
        strict(advice_data(found))
        advice_text(found)
        list(advice_rows(found))
        _well_formed(f"<div>{advice_html(found)}</div>")
    for each in found.advice[:2]:
        again = estimate(each.config)
        expect(again.device.expected == each.after.device.expected, f"advice promises other bytes: {each.title}")


def of_solution(given: Any) -> None:
    """What fits; the value that is found does, and the next one does not."""
    found = solve(normalized(given["config"]), given["setting"], smallest=given["smallest"])
    strict(solution_data(found))
    expect(solution_text(found).strip(), "a solution without text")
    if found.value is not None and found.found is not None:
        expect(found.found.fits, f"a solution that does not fit: {found.value}")
    if found.beyond is not None and not isinstance(found.limit, MemcoreError) and found.limit is not None:
        expect(not found.limit.fits, f"more fits, too: {found.beyond} beside {found.value}")


def of_plan(given: Any) -> None:
    """Plans; each is estimated the same on its own, and where none keeps the job it is said what binds."""
    found = plan(normalized(given["config"]), **given["options"])
    strict(plans_data(found))
    expect(plans_text(found).strip(), "plans without text")
    kept = [each for each in found.plans if each.tier not in ("work", "hardware")]
    expect(bool(kept) == (found.none_because is None), "no plan, and no reason")
    for each in found.plans[:3]:
        again = estimate(each.config.to_dict())
        own = each.found.device
        same = (again.device.low, again.device.expected, again.device.high) == (own.low, own.expected, own.high)
        expect(same, f"a plan promises other bytes: {each.title}")
        expect(bool(again.fits), f"a plan that does not fit: {each.title}")


def of_search(given: Any) -> None:
    """Layouts; those that are recommended are estimated the same."""
    base = Config.from_dict(normalized(given["config"]))
    *_, last = search(base, **given["options"])
    strict(search_data(last, base))
    search_text(last, base)
    for each in last.best[:2]:
        record(each)
        again = estimate(each.config(base))
        expect(again.allocated.expected == each.allocated, "a layout is promised other bytes")


def of_formulas(given: Any) -> None:
    """Published formulas beside the answer."""
    found = compare(normalized(given))
    strict(comparison_data(found))
    comparison_text(found)


def of_log(given: Any) -> None:
    """What a run printed, beside an example."""
    expect(isinstance(sightings(given["text"]), tuple), "sightings are a tuple")
    of_reconciled({"config": _EXAMPLE, **given})


def of_reconciled(given: Any) -> None:
    """What a run printed, beside its job."""
    found = reconcile(normalized(given["config"]), given["text"], reading=given.get("reading"))
    strict(reconciled_data(found, "run.log"))
    reconciled_text(found)
    case = case_text(found, "run.log")
    _well_formed(f"<div>{reconciled_html(found, case=case)}</div>")
    if case:
        accuracy(json.loads(case)).to_text()


def of_case(given: Any) -> None:
    """A measured case, as `memcore accuracy` reads it."""
    found = accuracy([given])
    strict(found.to_dict())
    found.to_text()


def of_file(given: Any) -> None:
    """A file, on the command line and on the page."""
    written = given["text"]
    with suppress(MemcoreError):
        exchanging.understood(written, Form({"hardware.num_gpus": "8"}))
    config, notes = read_source(written, given.get("name", "the file"), given.get("gpus"))
    expect(all(each.strip() for each in notes), "an empty note")
    answered(normalized({"model": "gpt2", **config}))


def of_link(given: Any) -> None:
    """A link: what is understood of it makes the same link again."""
    config = decode_fragment(given["link"])
    expect(decode_fragment(encode_fragment(config)) == config, "a link is another job")
    answered(normalized(config.to_dict()))


def of_model(given: Any) -> None:
    """The content of a config.json: what memcore says of it, a step, and a server."""
    found = find_model(given)
    with never_refused("memcore model"):
        strict(model_data(found))
        model_text(found)
        _well_formed(f"<div>{model_html(found)}</div>")
    expect(found.parameters >= 0, "negative parameters")
    refused: list[ConfigError | MemcoreError] = []
    for engine in ("none", "vllm"):
        try:
            answered({"model": given, "engine": {"type": engine}, "hardware": {"accelerator": "h100-sxm-80gb"}})
        except MemcoreError as error:
            refused.append(error)
    if len(refused) > 1:
        raise refused[0]


def of_size(given: Any) -> None:
    """A job from a size alone."""
    config, notes = quick(given["size"], given["gpus"], given["engine"], given["dtype"], given["memory"])
    expect(notes, "nothing is assumed")
    answered(config)
