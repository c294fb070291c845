"""The command line. Exit status: 0, 1 if the job does not fit, 2 if the input is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

import memcore
from memcore.columns import table
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.kinds import SWITCHED, Flag
from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import from_texts, to_texts
from memcore.config.url import LINK, decode_fragment, encode_fragment
from memcore.errors import ConfigError, MemcoreError, Problem, nearest
from memcore.estimation import estimate, estimate_training
from memcore.faces.decisions import DECISIONS, content, count, print_json
from memcore.faces.render import data, text
from memcore.faces.render.formulas import comparison_data, comparison_text
from memcore.faces.render.model import model_data, model_text
from memcore.faces.render.serving_data import serving_explanation_data, serving_summary_data
from memcore.faces.render.serving_text import serving_explanation, serving_summary
from memcore.formats.readers import parsed
from memcore.hardware import ACCELERATORS
from memcore.memory.estimate import Estimate
from memcore.memory.places import PHASES
from memcore.networks.catalog import MATCHES, catalog, find_model, nickname, search
from memcore.networks.read import known_families
from memcore.questions.accuracy import accuracy
from memcore.questions.formulas import compare
from memcore.questions.quick import MEMORY, quick
from memcore.serving.answers import gpus_needed
from memcore.serving.estimate import ServingEstimate
from memcore.serving.presets import PRESETS
from memcore.tools import TOOLS, exported
from memcore.tools.sources import read_source
from memcore.trace.program import Moment
from memcore.units import GiB, format_count
from memcore.untrusted import parse_json

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = _options(given)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except MemcoreError as error:
        return _refuse(error, as_json="--json" in given)
    except BrokenPipeError:
        return FITS
    except OSError as error:
        problem = Problem(str(error.filename or "a file"), error.strerror or "cannot be read or written")
        return _refuse(ConfigError([problem]), as_json="--json" in given)
    except Exception as error:  # noqa: BLE001 - a traceback would exit with 1, which says that the job does not fit
        last = extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        message = f"this is a mistake in memcore, not in the input; please report it with the config. {where}"
        return _refuse(MemcoreError(message), as_json="--json" in given)


def _refuse(error: MemcoreError, *, as_json: bool) -> int:
    problems = error.problems if isinstance(error, ConfigError) else (Problem("", str(error)),)
    if as_json:
        found = [{"path": each.path, "message": each.message, "suggestion": each.suggestion} for each in problems]
        print_json({"problems": found})
    else:
        for each in problems:
            print(f"error: {each}", file=sys.stderr)
    return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """One that refuses what it does not understand like everything else is refused: by name, with the nearest."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError. An argument that nobody asked for is named, with the flag that it may be."""
        path, _, what = message.removeprefix("argument ").partition(": ")
        unknown = next((each for each in what.split() if each.startswith("--")), None)
        flags = [each for action in self._actions for each in action.option_strings]
        suggestion = nearest(unknown.partition("=")[0], flags) if unknown and path == "unrecognized arguments" else None
        raise ConfigError([Problem(path, what, suggestion)] if what else [Problem(self.prog, message)])


def _options(given: Sequence[str]) -> argparse.Namespace:
    """What is asked for. The options of a command may stand anywhere among its files."""
    if any("\0" in each for each in given):
        raise ConfigError([Problem("arguments", "found a null character, which no name of a file and no value has")])
    parser, commands = _parser()
    command = commands.get(given[0]) if given else None
    if command is None:
        return parser.parse_args(given)
    switches = {each for action in command._actions if action.nargs == "?" for each in action.option_strings}  # noqa: SLF001
    return command.parse_intermixed_args(_alone(given[1:], switches))


def _alone(given: Sequence[str], switches: Collection[str]) -> Iterator[str]:
    """The arguments, each switch without a value saying so: what follows `--compile` may as well be a file."""
    for word, following in zip(given, [*given[1:], ""], strict=False):
        yield word if word not in switches or following.lower() in SWITCHED else f"{word}=true"


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and that of each command."""
    parser = _Parser(
        prog="memcore",
        description="How much GPU memory a training or serving job takes, when, and because of which tensors.",
    )
    parser.add_argument("--version", action="version", version=f"memcore {memcore.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (command, summary) in _COMMANDS.items():
        added = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        added.add_argument("--json", action="store_true", help="print JSON")
        added.set_defaults(command=command)
        if name in _TAKES_CONFIG:
            _add_config(added)
        if name == "explain":
            added.add_argument("--at", choices=list(PHASES), help="the highest moment of a phase; default: the peak")
        if name in DECISIONS:
            DECISIONS[name].options(added)
        if name == "quick":
            added.add_argument("size", metavar="SIZE", help="parameters: 7 and 7e9 are 7 billion; or such as 350M")
            added.add_argument("--gpus", type=count, default=1, help="GPUs of the whole job (default: 1)")
            added.add_argument("--engine", help="as engine.type (default: fsdp on several GPUs)")
            added.add_argument("--dtype", default="bf16", help="fp32, fp16 or bf16 (default: bf16)")
            added.add_argument("--gpu-mem", type=float, default=MEMORY, help=f"GiB of a GPU (default: {MEMORY})")
        if name == "convert":
            added.add_argument("--to", choices=list(TOOLS), help="default: the tool that runs the config's engine")
        if name == "model":
            added.add_argument("model", metavar="ID|FILE", help="a catalog id, a hub id, a config.json, or -")
        if name == "models":
            added.add_argument("query", nargs="*", metavar="QUERY", help=f"words that must all match: {MATCHES}")
            added.add_argument("--families", action="store_true", help="list the families that are understood")
        if name == "accuracy":
            added.add_argument("files", nargs="+", metavar="FILE", help="JSON files with measured cases")
    return parser, commands.choices


_GPUS = Hardware.num_gpus
_TAKES_CONFIG = ("estimate", "explain", *DECISIONS, "validate", "url", "gpus", "formulas", "convert")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="?",
        metavar="CONFIG",
        help=f"a JSON file, a file of {', '.join(each.title for each in TOOLS.values())}, - for standard input, "
        f"a URL of the page, a model of the catalog, or one of {', '.join(PRESETS)}; flags come on top",
    )
    for path, setting in SETTINGS.items():
        section = path.partition(".")[0]
        group = next((each for each in parser._action_groups if each.title == section), None)  # noqa: SLF001
        group = group or parser.add_argument_group(section)
        optional = {"nargs": "?", "const": "true"} if isinstance(setting.kind, Flag) else {}
        default = f" (default: {setting.default})" if setting.default else ""
        description = f"{setting.help}{default}".replace("%", "%%")
        group.add_argument(f"--{setting.flag}", dest=path, metavar="VALUE", help=description, **optional)  # type: ignore[arg-type]


def _config(options: argparse.Namespace) -> Config:
    """The config of a file, standard input or a URL, with the flags on top."""
    given = vars(options)
    if given.get("log") and options.config is None and given["model"] is None:
        raise ConfigError([Problem("CONFIG", "two files are expected: a config, and the log of its run; found one")])
    flags = {path: given[path] for path in SETTINGS if given[path] is not None}
    source: str | None = options.config
    if "model" in flags and flags["model"].endswith(".json"):
        return from_texts({**flags, "model": ""}, {**_base(source, flags), "model": _json(flags["model"])})
    return from_texts(flags, _base(source, flags))


def _base(source: str | None, flags: Mapping[str, str]) -> Mapping[str, object]:
    if source is None or source in PRESETS:
        return PRESETS.get(source or "", {})
    if LINK.search(source):
        return decode_fragment(source).to_dict()
    if source in {*catalog(), *map(nickname, catalog())} and not Path(source).exists():
        return {"model": source}
    gpus = from_texts({path: text for path, text in flags.items() if path == _GPUS}, {"model": "any"})[
        Hardware.num_gpus
    ]
    config, notes = read_source(content(source), source, gpus)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return config


def _json(source: str) -> dict[str, Any]:
    return parsed(content(source), source)


def _quick(options: argparse.Namespace) -> int:
    config, assumed = quick(options.size, options.gpus, options.engine, options.dtype, options.gpu_mem)
    found = estimate_training(config)
    if options.json:
        print_json({**data.summary(found), "assumed_from_size": list(assumed)})
    else:
        print(text.summary(found), end="")
        print("\nFrom the size alone it is assumed:", *(f"  {each}" for each in assumed), sep="\n")
    return DOES_NOT_FIT if found.fits is False else FITS


def _estimate(options: argparse.Namespace) -> int:
    found = estimate(_config(options))
    if options.json:
        print_json(serving_summary_data(found) if isinstance(found, ServingEstimate) else data.summary(found))
    else:
        print(serving_summary(found) if isinstance(found, ServingEstimate) else text.summary(found), end="")
    return DOES_NOT_FIT if found.fits is False else FITS


def _explain(options: argparse.Namespace) -> int:
    found = estimate(_config(options))
    if isinstance(found, ServingEstimate):
        return _explain_serving(found, options)
    moment = _moment(found, options.at)
    if options.json:
        print_json(data.explanation(found, moment))
    else:
        print(text.explanation(found, moment), end="")
    return FITS


def _explain_serving(found: ServingEstimate, options: argparse.Namespace) -> int:
    if options.at is not None:
        raise ConfigError([Problem("--at", "a server has no phases of a training step; leave it out")])
    if options.json:
        print_json(serving_explanation_data(found))
    else:
        print(serving_explanation(found), end="")
    return FITS


def _moment(found: Estimate, phase: str | None) -> Moment:
    moments = [moment for moment in found.moments if moment.phase == phase]
    return max(moments, key=lambda moment: moment.peak) if moments else found.peak


def _decide(name: str) -> Callable[[argparse.Namespace], int]:
    """A command of `DECISIONS`."""

    def command(options: argparse.Namespace) -> int:
        return DOES_NOT_FIT if DECISIONS[name].run(_config(options), options) is False else FITS

    return command


def _validate(options: argparse.Namespace) -> int:
    found = estimate(_config(options))
    if options.json:
        print_json({"problems": [], "config": found.job.config.to_dict()})
    else:
        settings = len(to_texts(found.job.config))
        print(f"valid: {settings} settings given, {len(found.assumptions)} assumed")
    return FITS


def _url(options: argparse.Namespace) -> int:
    fragment = "#" + encode_fragment(_config(options))
    if options.json:
        print_json({"fragment": fragment})
    else:
        print(fragment)
    return FITS


def _formulas(options: argparse.Namespace) -> int:
    found = compare(_config(options))
    if options.json:
        print_json(comparison_data(found))
    else:
        print(comparison_text(found), end="")
    return FITS


def _convert(options: argparse.Namespace) -> int:
    config = _config(options)
    found = exported(config, options.to, _taken(config))
    if options.json:
        print_json({"config": config.to_dict(), **found.to_dict()})
        return FITS
    print(found.text, end="")
    started = [f"run: {found.command}"] if found.command and found.tool.syntax == "json" else []  # it has no comments
    for line in (*found.reasons, *started):
        print(line, file=sys.stderr)
    return FITS


def _taken(config: Config) -> Mapping[str, object]:
    """What an estimate takes for what a config leaves open; nothing where there is none."""
    try:
        return {each.path: each.value for each in estimate(config).assumptions}
    except MemcoreError:
        return {}


def _accuracy(options: argparse.Namespace) -> int:
    cases: list[Any] = []
    for name in options.files:
        try:
            found = parse_json(content(name))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError([Problem(name, f"is not JSON: {error}")]) from None
        cases += found if isinstance(found, list) else [found]
    report = accuracy(cases)
    if options.json:
        print_json(report.to_dict())
    else:
        print(report.to_text().rstrip())
    return FITS


def _model(options: argparse.Namespace) -> int:
    source: str = options.model
    found = find_model(_json(source) if source == "-" or source.endswith(".json") else source)
    if options.json:
        print_json(model_data(found))
    else:
        print(model_text(found), end="")
    return FITS


def _models(options: argparse.Namespace) -> int:
    if options.families:
        families = known_families()
        if options.json:
            print_json(families)
        else:
            print("\n".join(families))
        return FITS
    rows = [
        {
            "id": nickname(hub_id),
            "hub_id": hub_id,
            "family": entry["config"]["model_type"],
            "parameters": entry["parameters"],
        }
        for hub_id, entry in search(" ".join(options.query)).items()
    ]
    if options.json:
        print_json(rows)
    else:
        cells = [(row["id"], row["family"], format_count(row["parameters"]), row["hub_id"]) for row in rows]
        print("\n".join(table([("id", "family", "parameters", "hub id"), *cells], right=(2,))))
    return FITS


def _gpus(options: argparse.Namespace) -> int:
    found = estimate(_config(options))
    if not isinstance(found, ServingEstimate):
        raise ConfigError([Problem(EngineSettings.type, "GPUs are counted for servers; name one as engine.type")])
    rows = gpus_needed(found)
    if options.json:
        print_json([{"id": each.id, "name": each.name, "gpus": each.gpus} for each in rows])
    else:
        cells = [(each.id, each.name, "-" if each.gpus is None else str(each.gpus)) for each in rows]
        print("\n".join(table([("id", "name", "GPUs needed"), *cells], right=(2,))))
    return FITS


def _hardware(options: argparse.Namespace) -> int:
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "nominal_gb": each.nominal_gb,
            "usable_bytes": each.usable,
            "source": each.source,
        }
        for each in ACCELERATORS
    ]
    if options.json:
        print_json(rows)
    else:
        cells = [(each.id, each.name, f"{each.usable / GiB:.2f}", each.source) for each in ACCELERATORS]
        print("\n".join(table([("id", "name", "usable GiB", "source of the capacity"), *cells], right=(2,))))
    return FITS


_COMMANDS: Mapping[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "estimate": (_estimate, "what each GPU holds, and whether the job fits"),
    "quick": (_quick, "an answer from a model's size alone, saying what it assumes"),
    "explain": (_explain, "every tensor at a moment, with its formula, its numbers and its source"),
    **{name: (_decide(name), each.summary) for name, each in DECISIONS.items()},
    "validate": (_validate, "check a config without computing more than that takes"),
    "url": (_url, "the part of the page's URL that holds a config"),
    "convert": (_convert, "a config in the words of the tool that runs it; --json has the config itself, too"),
    "accuracy": (_accuracy, "compare predictions with measured cases"),
    "formulas": (_formulas, "what published formulas say about a training job, beside memcore, and why they differ"),
    "model": (_model, "what a model is made of: layers, parameters by kind, cache for each token"),
    "models": (_models, "the catalog of models, or those that match a query"),
    "gpus": (_gpus, "how many of each accelerator a server needs"),
    "hardware": (_hardware, "the catalog of accelerators"),
}
