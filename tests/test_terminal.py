"""The memory bar and the sparkline of a terminal: when they are printed, in which characters, and how long they are."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from memcore.faces.cli import main, models, waiting
from memcore.faces.cli.terminal import WIDTH, Fitted, Slice, Style, bar, fitted, sparkline, style_of

TRAINING = ["estimate", "--model", "gpt2", "--seq", "512", "--accelerator", "rtx-4090"]
SERVING = ["estimate", "--model", "gpt2", "--engine", "vllm", "--max-len", "512", "--accelerator", "rtx-4090"]


class Stream(io.TextIOWrapper):
    """A stream in an encoding that may be a terminal."""

    def __init__(self, encoding="utf-8", *, terminal=True):
        super().__init__(io.BytesIO(), encoding=encoding)
        self.terminal = terminal

    def isatty(self):
        """As it was made."""
        return self.terminal


@pytest.mark.parametrize(
    ("stream", "environment", "style"),
    [
        (Stream(), {}, Style(colours=True, blocks=True)),
        (Stream(), {"NO_COLOR": "1"}, Style(colours=False, blocks=True)),
        (Stream(), {"NO_COLOR": ""}, Style(colours=True, blocks=True)),
        (Stream(), {"TERM": "dumb"}, Style(colours=False, blocks=True)),
        (Stream("ascii"), {}, Style(colours=True, blocks=False)),
        (Stream("latin-1"), {"NO_COLOR": "1"}, Style(colours=False, blocks=False)),
        (Stream(terminal=False), {}, None),
        (Stream(terminal=False), {"NO_COLOR": "1"}, None),
        (Stream(terminal=False), {"FORCE_COLOR": "1"}, Style(colours=True, blocks=True)),
        (Stream(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, Style(colours=False, blocks=True)),
    ],
)
def test_what_a_stream_can_show(stream, environment, style):
    """Pictures for terminals alone, colours unless NO_COLOR says otherwise, blocks if the encoding has them."""
    assert style_of(stream, environment) == style


@pytest.mark.parametrize("given", [TRAINING, SERVING], ids=["training", "serving"])
def test_a_terminal_sees_what_a_pipe_does_and_a_picture(given, monkeypatch):
    """The picture is added; no other line changes where the terminal is wide enough."""
    monkeypatch.setenv("COLUMNS", "200")
    printed = {}
    for terminal in (False, True):
        stream = Stream(terminal=terminal)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        assert main(given) == 0
        stream.flush()
        printed[terminal] = stream.buffer.getvalue().decode().splitlines()
    added = [line for line in printed[True] if line not in printed[False]]
    assert "\033" not in "".join(printed[True])
    assert added[0].startswith("  [")
    assert [line for line in printed[True] if line not in added][:4] == printed[False][:4]
    assert set(printed[False]) <= set(printed[True])
    assert all(len(line) <= 80 for line in added)


@pytest.mark.parametrize("sizes", [[1], [10, 20, 30], [1, 1, 1, 97], [33, 33, 34], [5] * 20])
@pytest.mark.parametrize("capacity", [None, 50, 100, 1000])
@pytest.mark.parametrize("blocks", [True, False])
def test_the_bar_is_as_long_as_it_is_wide(sizes, capacity, blocks):
    """Whatever the parts, one bar of WIDTH characters, and one line for each part."""
    slices = [Slice(f"part {number}", size) for number, size in enumerate(sizes)]
    lines = list(bar(slices, capacity, Style(colours=True, blocks=blocks)))
    plain = re.sub("\033\\[[0-9]*m", "", lines[0])
    assert len(plain.partition("[")[2].rpartition("]")[0]) == WIDTH
    assert [line for line in lines if "capacity" in line] == lines[1:2] * (
        capacity is not None and sum(sizes) > capacity
    )
    assert sum(": " in line for line in lines) == len(sizes)


@pytest.mark.parametrize(("blocks", "drawn"), [(True, "▁▄█▄"), (False, "_-@=")])
def test_the_sparkline_rises_and_falls(blocks, drawn):
    """A column for each sample while there is room, the peak the highest."""
    (line,) = sparkline([1, 40, 100, 50], Style(colours=False, blocks=blocks))
    assert line.split()[0][0] == drawn[0]
    assert line.split()[0][2] == drawn[2]
    assert len(line.split()[0]) == len(drawn)
    (long,) = sparkline(range(1, 1000), Style(colours=False, blocks=blocks))
    assert len(long.split()[0]) == WIDTH
    assert list(sparkline([], Style(colours=False, blocks=blocks))) == []


@pytest.mark.machine
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_a_stream_without_the_characters_still_gets_the_answer(more):
    """ASCII standard output, forced to pictures: an answer, no error."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "memcore", *TRAINING, *more]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    printed = done.stdout.decode("ascii")
    assert json.loads(printed)["fits"] is True if more else "  [\033[" in printed


def test_the_example_of_the_help_is_a_job(capsys):
    """What `memcore` alone proposes is computed: each command names models and accelerators that exist."""
    main([])
    proposed = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("  memcore")]
    answered = [main(each) for each in proposed if "--model" in each]
    assert len(answered) == 2
    assert set(answered) <= {0, 1}


@pytest.mark.machine  # Pyodide has no timers
@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_a_terminal_sees_that_a_command_works(terminal, shown, monkeypatch, capsys):
    """After a while a line says how long; it is cleared before the answer, and no pipe ever sees it."""
    stream = Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(waiting, "AFTER", 0.02)
    monkeypatch.setattr(waiting, "EVERY", 0.02)
    monkeypatch.setattr(models, "find_model", lambda name, found=models.find_model: (time.sleep(0.1), found(name))[1])
    assert main(["model", "gpt2"]) == 0
    stream.seek(0)
    written = stream.read()
    assert ("memcore model: working, 0 s" in written) is shown
    assert not written.splitlines()[-1:] or not written.splitlines()[-1].strip()
    assert "124,439,808" in capsys.readouterr().out
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert sys.stderr is stream


@pytest.mark.parametrize(
    ("line", "width", "pieces"),
    [
        (
            "  Saving   15.0 GiB  the tensors of one file",
            34,
            ["  Saving   15.0 GiB  the tensors", " " * 21 + "of one file"],
        ),
        ("as long as it is", 16, ["as long as it is"]),
        ("A sentence goes on at the left.", 20, ["A sentence goes on", "at the left."]),
        ("  an indented one goes on below", 20, ["  an indented one", "    goes on below"]),
        ("  a title of a row    why it is", 24, ["  a title of a row", "      why it is"]),
        ("  /a/path/without/any/space/in/it", 20, ["  /a/path/without/any/space/in/it"]),
        ("\033[34m██\033[0m a picture", 5, ["\033[34m██\033[0m a picture"]),
    ],
)
def test_lines_are_as_wide_as_the_terminal(line, width, pieces):
    """The last column goes on below itself; a word is never cut, nor a picture."""
    assert fitted(line, width) == pieces


def test_a_line_is_written_when_it_is_whole():
    """Pieces of lines wait for their end, and are all written in the end."""
    stream = io.StringIO()
    terminal = Fitted(stream, 12)
    terminal.write("one two ")
    terminal.write("three\nfour")
    assert stream.getvalue() == "one two\nthree\n"
    terminal.flush()
    assert stream.getvalue() == "one two\nthree\nfour"
