"""The commands that take a config and more: advise, solve, search and reconcile."""

from __future__ import annotations

import argparse
import json
import os
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memcore import escaping
from memcore.config.hardware import Hardware
from memcore.config.kinds import Integer
from memcore.config.settings import Config
from memcore.errors import ConfigError, Problem
from memcore.faces.render.advice import ADVICE_COLUMNS, advice_data, advice_rows, advice_text
from memcore.faces.render.reconciled import case_text, reconciled_data, reconciled_text
from memcore.faces.render.search import search_data, search_text
from memcore.faces.render.solution import solution_data, solution_text
from memcore.hardware import ACCELERATORS
from memcore.questions.advising.advise import advise
from memcore.questions.costs import Roofline, roofline_of
from memcore.questions.reconciling.reconcile import READINGS, reconcile
from memcore.questions.searching.found import Key, Measured, Progress
from memcore.questions.searching.records import COLUMNS, csv_line, json_line, record, recorded
from memcore.questions.searching.rows import SCHEDULES
from memcore.questions.searching.search import KEEP, search
from memcore.questions.solving import SOLVABLE, flag_of, solve


@dataclass(frozen=True, slots=True)
class Decision:
    """A command: what it does with a config, its options, and what it says of itself."""

    run: Callable[[Config, argparse.Namespace], bool | None]
    """Prints, and returns whether something fits."""
    options: Callable[[argparse.ArgumentParser], None]
    summary: str


def _advise(config: Config, options: argparse.Namespace) -> bool | None:
    found = advise(config, ladder=options.ladder)
    if options.json:
        print_json(advice_data(found))
    elif options.csv:
        print_csv(ADVICE_COLUMNS, advice_rows(found))
    else:
        print(advice_text(found), end="")
    return found.estimate.fits


def _advise_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ladder", action="store_true", help="also standard changes one on top of another")
    parser.add_argument("--csv", action="store_true", help="print rows for a spreadsheet")


def _solve(config: Config, options: argparse.Namespace) -> bool | None:
    found = solve(config, options.setting, smallest=options.smallest)
    if options.json:
        print_json(solution_data(found))
    else:
        print(solution_text(found), end="")
    return found.value is not None


def _solve_options(parser: argparse.ArgumentParser) -> None:
    settings = ", ".join(flag_of(path) for path in SOLVABLE)
    parser.add_argument("--for", dest="setting", required=True, metavar="SETTING", help=f"one of: {settings}")
    goal = parser.add_mutually_exclusive_group()
    for word, smallest in {"largest": False, "smallest": True}.items():
        goal.add_argument(f"--{word}", dest="smallest", action="store_const", const=smallest, help="that fits")


def _search(config: Config, options: argparse.Namespace) -> bool | None:
    kinds = [each.id for each in ACCELERATORS] if options.on == "all" else options.on.split(",") if options.on else None
    assumed = None
    if options.assume:
        assumed = roofline_of(config[Hardware.accelerator], config[Hardware.gpus_per_node]).adjusted(
            **dict(options.assume)
        )
    output = Path(options.write) if options.write else None
    known = _known(output)
    with _processes(options.jobs) as pool:
        run = search(
            config,
            gpus=options.counts,
            accelerators=kinds,
            sequences=options.sequences,
            roofline=assumed,
            keep=options.keep,
            every=options.every,
            micro_batches=options.micro_batches,
            schedules=options.schedules.split(","),
            offload=options.offload,
            executor=pool,
            known=known,
        )
        last = _followed(run, output)
    if options.json:
        print_json(search_data(last, config))
    elif options.csv:
        print_csv(COLUMNS, [list(record(each).values()) for each in last.best])
    else:
        print(search_text(last, config), end="")
    return bool(last.best)


@contextmanager
def _processes(jobs: int) -> Iterator[futures.Executor | None]:
    """An executor of several processes, of no more than there are cores; they start with the first work for them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(jobs, cores)
    if count == 1:
        yield None
        return
    pool = futures.ProcessPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _known(output: Path | None) -> dict[Key, Measured]:
    """What a file has already."""
    if output is None or not output.exists():
        return {}
    try:
        with output.open(encoding="utf-8", newline="") as lines:
            return recorded(lines)
    except (ValueError, KeyError, TypeError):
        raise ConfigError([Problem(str(output), "has rows that no search wrote; name another file")]) from None


def _followed(run: Iterator[Progress], output: Path | None) -> Progress:
    """Take a search to its end: rows to a file as they come, and a bar to a terminal."""
    bar = sys.stderr.isatty()
    as_csv = output is not None and output.suffix == ".csv"
    with _opened(output) as file:
        for last in run:
            for each in last.new if file else ():
                file.write(csv_line(each) if as_csv else json_line(each))
            if bar:
                share = last.seen / max(last.total, 1)
                print(f"\r[{'#' * int(40 * share):<40}] {last.seen:,} of {last.total:,}", end="", file=sys.stderr)
    if bar:
        print("\r" + " " * 72 + "\r", end="", file=sys.stderr)
    return last


def _search_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--counts", type=counts, metavar="N,N", help="numbers of GPUs that are tried (default: the config's)"
    )
    parser.add_argument("--on", metavar="ID,ID", help="accelerators that are tried, or `all` (default: the config's)")
    parser.add_argument("--sequences", type=count, metavar="N", help="sequences of a step of the whole job")
    parser.add_argument(
        "--micro-batches", type=counts, default="1,2,4,8", metavar="N,N", help="sizes that are tried (default: 1,2,4,8)"
    )
    parser.add_argument(
        "--schedules",
        default="1f1b",
        metavar="NAME,NAME",
        help=f"of pipelines in PyTorch that are tried, of {', '.join(SCHEDULES)} (default: 1f1b)",
    )
    parser.add_argument("--offload", action="store_true", help="try parameters or the optimizer on the host, too")
    parser.add_argument(
        "--keep", type=count, default=KEEP, metavar="N", help=f"the cheapest that are kept (default: {KEEP})"
    )
    parser.add_argument("--every", action="store_true", help="measure every layout, also those that cannot be best")
    parser.add_argument(
        "--assume",
        action="append",
        type=_assumption,
        metavar="NAME=VALUE",
        help=f"of the cost model: {', '.join(_INPUTS)}",
    )
    parser.add_argument(
        "--jobs",
        type=count,
        default=1,
        metavar="N",
        help="processes that share the work of --every, if it is worth their start (default: 1)",
    )
    parser.add_argument(
        "--write", metavar="FILE", help="write measured layouts there as they come (.csv or .jsonl), and resume"
    )
    parser.add_argument("--csv", action="store_true", help="print rows for a spreadsheet")


_INPUTS = tuple(each.name for each in fields(Roofline))


def _opened(output: Path | None) -> Any:
    """A file to append to, its heading written."""
    if output is None:
        return nullcontext()
    new = not output.exists()
    file = output.open("a", encoding="utf-8", newline="", buffering=1)
    if new and output.suffix == ".csv":
        file.write(csv_line())
    return file


def _reconcile(config: Config, options: argparse.Namespace) -> bool | None:
    if options.config == options.log == "-":
        raise ConfigError([Problem("LOG", "standard input is the config already")])
    found = reconcile(config, content(options.log, strict=False), reading=options.reading)
    where = "standard input" if options.log == "-" else Path(options.log).name
    if options.case:
        Path(options.case).write_text(case_text(found, where) or "[]\n", encoding="utf-8")
    if options.json:
        print_json(reconciled_data(found, where))
    else:
        print(reconciled_text(found), end="")
    return None


def _reconcile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", help="what the run printed: a file, or - for standard input")
    parser.add_argument("--as", dest="reading", choices=list(READINGS), help="what a number without a name is")
    parser.add_argument("--case", metavar="FILE", help="write what was measured there, as `memcore accuracy` reads it")


def count(text: str) -> int:
    """A whole number of at least 1, for an option."""
    try:
        found = Integer().parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return int(str(found))


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, for an option."""
    return tuple(count(each) for each in text.split(","))


def _assumption(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        example = "" if equals else ", such as flops_efficiency=0.5"
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE with a number{example}, found {text!r}") from None


def content(source: str, *, strict: bool = True) -> str:
    """The text of a file, or of standard input for `-`; with `strict`, one that is not text is refused."""
    try:
        if source == "-":
            return sys.stdin.read()
        held = Path(source).read_bytes()
        wide = held.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) and b"\0" in held[:64]
        if wide and strict:
            raise ConfigError([Problem(source, "the text is in UTF-16, not in UTF-8: save it again as UTF-8")])
        return held.decode("utf-16" if wide else "utf-8-sig", errors="strict" if strict else "replace")
    except OSError as error:
        raise ConfigError([Problem(source, error.strerror or "cannot be read")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem(source, "is not text")]) from None


def print_json(found: object) -> None:
    """An object as JSON on standard output."""
    print(json.dumps(found, indent=2, ensure_ascii=False))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their columns on standard output."""
    sys.stdout.writelines(escaping.csv_line(row) for row in [columns, *rows])


DECISIONS: Mapping[str, Decision] = {
    "advise": Decision(
        _advise, _advise_options, "every change that applies: what it saves, what it costs, and how to make it"
    ),
    "solve": Decision(_solve, _solve_options, "the largest or smallest value of a setting that fits, and what binds"),
    "search": Decision(_search, _search_options, "all layouts of a cluster: those that fit, cheapest first"),
    "reconcile": Decision(
        _reconcile, _reconcile_options, "what a run printed beside what is predicted, and the measured case of it"
    ),
}
"""By name."""
