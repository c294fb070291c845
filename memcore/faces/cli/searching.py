"""All layouts of a cluster, followed as they are measured."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from memcore.config.hardware import Hardware
from memcore.errors import ConfigError
from memcore.faces.cli.calibrating import add_assumptions
from memcore.faces.cli.command import DOES_NOT_FIT, FITS, Command, count, counts, print_csv, print_json, share, width
from memcore.faces.cli.describing import add_config, config_of
from memcore.faces.cli.planning import print_brief
from memcore.faces.render.search import search_data, search_text
from memcore.hardware import alike
from memcore.messages import Message
from memcore.questions.roofline import roofline_for
from memcore.questions.searching.found import Key, Measured, Progress
from memcore.questions.searching.records import COLUMNS, csv_line, json_line, record, recorded
from memcore.questions.searching.search import HEADROOM, KEEP, search
from memcore.trace.searching import SCHEDULES


def _search(options: argparse.Namespace) -> int:
    config = config_of(options)
    kinds = [each.id for each in alike(None)] if options.on == "all" else options.on.split(",") if options.on else None
    assumed = None
    if options.assume:
        assumed = roofline_for(config).adjusted(**dict(options.assume))
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
            headroom=options.headroom,
        )
        last = _followed(run, output)
    if options.json:
        print_json(search_data(last, config))
    elif options.csv:
        print_csv(COLUMNS, [list(record(each).values()) for each in last.best])
    else:
        print(search_text(last, config, width()), end="")
        asked_alone = not options.on and not options.counts
        if not last.best and asked_alone and config.get(Hardware.accelerator) is not None:
            print_brief(config)
    return FITS if last.best else DOES_NOT_FIT


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
        raise ConfigError.at(str(output), "has rows that `memcore search` did not write; name another file") from None


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


def _search_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    parser.add_argument("--counts", type=counts, metavar="N,N", help="numbers of GPUs to try (default: the config's)")
    parser.add_argument("--on", metavar="ID,ID", help="accelerators to try, or `all` (default: the config's)")
    parser.add_argument("--sequences", type=count, metavar="N", help="sequences per optimizer step, over all GPUs")
    parser.add_argument(
        "--micro-batches",
        type=counts,
        default="1,2,4,8",
        metavar="N,N",
        help="micro-batch sizes to try (default: 1,2,4,8)",
    )
    parser.add_argument(
        "--schedules",
        default="1f1b",
        metavar="NAME,NAME",
        help=Message("PyTorch's pipeline schedules to try: {:s} (default: 1f1b)", ", ".join(SCHEDULES)),
    )
    parser.add_argument(
        "--offload", action="store_true", help="also try keeping parameters or the optimizer on the host"
    )
    parser.add_argument(
        "--keep",
        type=count,
        default=KEEP,
        metavar="N",
        help=Message("how many layouts to show, cheapest first (default: {})", KEEP),
    )
    parser.add_argument(
        "--headroom", type=share, default=HEADROOM, metavar="FRACTION",
        help=Message("fraction of each GPU to leave free, if a layout can (default: {})", HEADROOM),
    )  # fmt: skip
    parser.add_argument(
        "--every", action="store_true", help="estimate every layout, even those that cannot be the best"
    )
    add_assumptions(parser)
    parser.add_argument(
        "--jobs",
        type=count,
        default=1,
        metavar="N",
        help="processes for --every; a short search uses one (default: 1)",
    )
    parser.add_argument("--write", metavar="FILE", help="append estimates to FILE (.csv or .jsonl), and resume from it")
    parser.add_argument("--csv", action="store_true", help="print rows for a spreadsheet")


def _opened(output: Path | None) -> Any:
    """A file to append to, its heading written."""
    if output is None:
        return nullcontext()
    new = not output.exists()
    file = output.open("a", encoding="utf-8", newline="", buffering=1)
    if new and output.suffix == ".csv":
        file.write(csv_line())
    return file


COMMANDS: Mapping[str, Command] = {"search": Command(_search_options, _search)}
