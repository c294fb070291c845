"""Runs the whole suite, most informative configs first, and writes measured/<device>.json after every one.

    python -m validation.suite [--minutes 25] [--only TERM...] [--device cpu] [--configs FILE] [--out FOLDER]

Resumable: configs already in the file are skipped; delete the file to start over. The device's fixed overheads
come first, in measured/<device>-overheads.json; seconds per step are in measured/<device>-speed.json.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from memcore.units import format_bytes
from validation import files, overheads
from validation.cases import Case, Run, cases_of, versions
from validation.design import SUITE, TERMS
from validation.devices import in_use
from validation.plan import Refused
from validation.running import on_gpu, tracked

MEASURED = Path(__file__).with_name("measured")
BUSY = 256 << 20
"""Bytes on a GPU that somebody else uses: more than an idle driver keeps for itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has not been run; 2 if there is no GPU, 3 if some configs could not be run."""
    parser = argparse.ArgumentParser(prog="python -m validation.suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, help="stop when so much time is over")
    parser.add_argument("--only", nargs="*", choices=tuple(TERMS), help="only configs about these terms")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--configs", default=str(SUITE), help="another suite")
    parser.add_argument("--out", type=Path, default=MEASURED, help="another folder")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU is available: the suite is made for one", file=sys.stderr)
        return 2
    if options.device == "cuda" and (in_use() or 0) > BUSY:
        print("another process uses the GPU: what the driver shows would not be this run's", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"{slug(options.device)}.json"
    if options.device == "cuda" and not target.exists():
        overheads.write(target.with_name(f"{target.stem}-overheads.json"))
    try:
        wanted = [each for each in files.read_configs([options.configs]) if _about(each, options.only)]
    except Refused as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2
    run = partial(on_gpu, timed=True) if options.device == "cuda" else _on_cpu
    seconds = options.minutes * 60 if options.minutes else None
    return run_missing(wanted, target, run, seconds)


def slug(device: str) -> str:
    """A file's name for the device."""
    name = torch.cuda.get_device_name() if device == "cuda" else device
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _about(config: Mapping[str, Any], terms: Sequence[str] | None) -> bool:
    return terms is None or str(config["_id"]).partition("-")[0] in terms


def _on_cpu(config: Mapping[str, Any]) -> Run:
    return next(tracked(config, "cpu", simulated=False))


def run_missing(
    wanted: Sequence[Mapping[str, Any]], target: Path, run: Callable[[Mapping[str, Any]], Run], seconds: float | None
) -> int:
    """Run every config that the file lacks, and write the file after each; 3 if some could not be run."""
    cases: list[Case] = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
    done = {each["id"] for each in cases}
    began, failed = time.monotonic(), 0
    missing = [each for each in wanted if each["_id"] not in done]
    for number, config in enumerate(missing):
        if seconds is not None and time.monotonic() - began > seconds:
            print(f"time is over: {len(missing) - number} configs are left; run the same command again")
            break
        started = time.monotonic()
        try:
            ran = run(config)
            found = list(cases_of(ran))
        except Refused as error:
            print(f"{config['_id']}: refused: {error}", flush=True)
            failed += 1
            continue
        except Exception as error:  # noqa: BLE001 - one config must not end the suite
            print(f"{config['_id']}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed += 1
            continue
        cases += found
        files.write(cases, str(target))
        if ran.seconds is not None:
            _keep_seconds(target.with_name(f"{target.stem}-speed.json"), config["_id"], ran.seconds)
        measured = found[0]["measured"]
        size = format_bytes(measured["bytes"]) if "bytes" in measured else "out of memory"
        print(f"{config['_id']}: {size}, {time.monotonic() - started:.1f} s", flush=True)
    return 3 if failed else 0


def _keep_seconds(target: Path, name: str, seconds: float) -> None:
    """Put a step's seconds into the file of the device's speed."""
    kept: dict[str, Any] = {"versions": versions()}
    if target.exists():
        kept = json.loads(target.read_text(encoding="utf-8"))
    kept.setdefault("seconds_per_step", {})[name] = round(seconds, 5)
    target.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
