"""What starting costs: commands of memcore in a fresh process, beside Python that does nothing.

    python benchmarks/startup.py [--runs N] [--write]

Time of the processor, which what else a machine does changes least; commands take turns, and of each the fastest run
counts. Bytecode is there, as pip leaves it. `--write` puts the table into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

ROOT = Path(__file__).parent.parent
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- startup -->\n", "<!-- /startup -->\n"
ESTIMATE = ("-m", "memcore", "estimate", "--model", "llama-3.1-8b", "--seq", "2048", "--engine", "fsdp", "--gpus", "8")
COMMANDS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "Python alone (`python -c pass`)": (("-c", "pass"), None),
    "`python -c 'import memcore'`": (("-c", "import memcore"), None),
    "`memcore --version`": (("-m", "memcore", "--version"), 50),
    "`memcore hardware`": (("-m", "memcore", "hardware"), 50),
    "`memcore estimate`, Llama 3.1 8B under FSDP": (ESTIMATE, 250),
}
"""By title: arguments of Python, and the milliseconds that it may take beyond Python alone."""


def seconds(arguments: tuple[str, ...], bytecode: str) -> float:
    """Time of the processor, of the program and the system, for one fresh process; where its bytecode is kept."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=tempfile.gettempdir(), env=environment, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(runs: int) -> dict[str, float]:
    """The fastest run of each command, after one that leaves bytecode."""
    found = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.TemporaryDirectory() as bytecode:
        for arguments, _ in COMMANDS.values():
            seconds(arguments, bytecode)
        for _ in range(runs):
            for title, (arguments, _) in COMMANDS.items():
                found[title] = min(found[title], seconds(arguments, bytecode))
    return found


def table(found: dict[str, float]) -> str:
    """The figures in milliseconds, as Markdown."""
    alone = next(iter(found.values()))
    lines = ["| Command | ms | beyond Python alone | at most |", "| --- | ---: | ---: | ---: |"]
    for title, taken in found.items():
        most = COMMANDS[title][1]
        beyond = "" if taken == alone else f"{1000 * (taken - alone):.0f}"
        lines.append(f"| {title} | {1000 * taken:.0f} | {beyond} | {'' if most is None else most} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table(measured(options.runs))
    print(text, end="")
    if options.write:
        before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        version = ".".join(map(str, sys.version_info[:3]))
        README.write_text(
            f"{before}{BEGIN}Python {version} on Linux, {os.cpu_count()} cores, the fastest of {options.runs} runs.\n\n"
            f"{text}{END}{rest.partition(END)[2]}",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
