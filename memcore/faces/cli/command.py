"""What a command is, the parser of its options, and what commands read and print alike."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from memcore.columns import WIDTH, columns, wrapped
from memcore.errors import ConfigError, Problem, nearest
from memcore.messages import Message

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2
"""Exit statuses."""


class Command(NamedTuple):
    """What a command takes and does."""

    options: Callable[[argparse.ArgumentParser, Sequence[str]], None]
    """Adds its options; is given the arguments, too."""
    run: Callable[[argparse.Namespace], int]
    """Prints the answer and returns the exit status."""


MEANT = {
    **dict.fromkeys(("--server", "--trainer"), "--engine"),
    "--card": "--accelerator",
    **dict.fromkeys(("--vram", "--gpu-mem", "--gpu-ram", "--memory"), "--gpu-memory"),
    **dict.fromkeys(("--weight-format", "--weight-quantization", "--quant", "--gguf-type"), "--quantization"),
    **dict.fromkeys(("--ctx-size", "--ctx"), "--context"),
    **dict.fromkeys(("--seq-len", "--seq-length", "--max-seq-length"), "--seq"),
    **dict.fromkeys(("--zero", "--stage"), "--zero-stage"),
    **dict.fromkeys(("--num-gpus", "--n-gpus", "--ngpus", "--gpu-count"), "--gpus"),
    **dict.fromkeys(("--dtype", "--bf16", "--fp16", "--fp8"), "--precision"),
    **dict.fromkeys(("--ac", "--gc"), "--checkpointing"),
    **dict.fromkeys(("--bs", "--batch"), "--micro-batch"),
    **dict.fromkeys(("--qlora", "--load-in-4bit"), "--adapter lora --frozen-weights nf4"),
    "--load-in-8bit": "--adapter lora --frozen-weights int8",
    **dict.fromkeys(("--lora", "--use-lora", "--peft", "--use-peft"), "--adapter lora"),
    **dict.fromkeys(("--rank", "--lora-r", "--lora-rank"), "--adapter-rank"),
    **dict.fromkeys(("--flash-attention", "--flash-attention-2", "--flash"), "--attention flash"),
    **dict.fromkeys(("--format", "--csv", "--output-format", "--yaml"), "--json"),
    **dict.fromkeys(("--task", "--mode", "--serve", "--inference"), "--engine"),
}
"""Flags that people try, and those that are meant, with a value where it is no other."""


REMARKS: Mapping[str, str] = {
    **dict.fromkeys(("--nodes", "--nnodes"), "--gpus counts the GPUs of all nodes"),
    **dict.fromkeys(
        ("--bits", "--4bit", "--int4", "--quantize"),
        "--frozen-weights is the format of a base model under an adapter, --quantization that of a server's weights",
    ),
    **dict.fromkeys(
        ("--global-batch", "--global-batch-size", "--gbs", "--train-batch-size"),
        "a global batch is --micro-batch times --grad-accum times the data-parallel ranks",
    ),
    **dict.fromkeys(("-o", "--output", "--out"), "redirect the output, as in > FILE"),
}
"""What is said of flags that people try and that no single flag stands for."""


EXAMPLE = "example"
"""The option that holds a command line that works, for who leaves out what is required."""


class Parser(argparse.ArgumentParser):
    """Reject unknown arguments and suggest the nearest flag; flags cannot be abbreviated."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError. An argument that nobody asked for is named, with the flag that it may be."""
        path, _, what = message.removeprefix("argument ").partition(": ")
        if path.endswith("required"):
            raise ConfigError.at(what, lacking(self.get_default(EXAMPLE) or f"{self.prog} --help"))
        if path.startswith(_EXTRA):
            flags = [each.partition("=")[0] for each in what.split() if each.startswith("-")]
            raise ConfigError([self._unknown(each) for each in flags or [what]])
        raise ConfigError([Problem(path, what) if what else Problem(self.prog, message)])

    def _unknown(self, name: str) -> Problem:
        """Return the problem of an argument that is none, with what may be meant."""
        flags = [each for action in self._actions for each in action.option_strings]
        if name in REMARKS and self._describes_a_job():
            return Problem(_EXTRA, Message("{}; {}", name, REMARKS[name]))
        meant = MEANT.get(name, "")
        suggestion = meant if meant.split(" ")[0] in flags else self._set_by(name) or nearest(name, flags)
        return Problem(_EXTRA, name, suggestion if name.startswith("-") else None)

    def _describes_a_job(self) -> bool:
        """Return whether there is a flag for each setting."""
        return any(action.dest == "model" and action.option_strings for action in self._actions)

    def _set_by(self, name: str) -> str | None:
        """Return the flag here of what another tool's flag sets."""
        if not self._describes_a_job():
            return None
        from memcore.tools.names import setting_called  # noqa: PLC0415 - only of a mistake

        path = setting_called(name)
        return next((action.option_strings[0] for action in self._actions if action.dest == path), None)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return a value of its type; what is wrong with it is said with its values, so that Chinese has it."""
        made = self._registry_get("type", action.type, action.type)
        try:
            return made(arg_string)
        except argparse.ArgumentTypeError as error:
            raise ConfigError.at(_name(action), str(error)) from None
        except (TypeError, ValueError):
            kind = getattr(action.type, "__name__", "")
            raise ConfigError.at(_name(action), Message("invalid {} value: {!r}", kind, arg_string)) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            allowed = Message("found {!r:.80}; allowed: {}", value, ", ".join(action.choices))
            raise ConfigError([Problem(_name(action), allowed, nearest(value, action.choices))])


_EXTRA = "unrecognized argument"


def lacking(example: str) -> str:
    """Return what is said of an argument that is required and left out."""
    return Message("is required, as in `{}`", example)


def _name(action: argparse.Action) -> str:
    """An argument as its user writes it."""
    return argparse.ArgumentError(action, "").argument_name or ""


class Wide(argparse.HelpFormatter):
    """Help with room for a flag and its value in front of what they mean."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=29)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Return lines of help without breaking names at their hyphens."""
        return wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(wrapped(indent + " ".join(text.split()), width, len(indent)))

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Iterable[Any], prefix: str | None = None
    ) -> None:
        """Begin the usage in the language that is spoken."""
        super().add_usage(usage, actions, groups, prefix or spell("usage: "))

    def add_argument(self, action: argparse.Action) -> None:
        """Take an argument; the names of commands stand further in than argparse counts."""
        super().add_argument(action)
        names = [self._format_action_invocation(each) for each in self._iter_indented_subactions(action)]
        longest = max(map(len, names), default=0) + self._current_indent + self._indent_increment
        self._action_max_length = max(self._action_max_length, longest)

    def format_help(self) -> str:
        """Return the help; Chinese headings end in a Chinese colon."""
        return re.sub(r"(?m)^([\u4e00-\u9fff]+):$", r"\1：", super().format_help())

    def start_section(self, heading: str | None) -> None:
        """Head a group of arguments in the language that is spoken."""
        super().start_section(spell(heading or ""))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return spell(action.help) if action.help else action.help


def usage_of(parser: argparse.ArgumentParser) -> str:
    """Return the usage without the word before it; lines after the first begin below the arguments."""
    before = spell("usage: ")
    lines = parser.format_usage().rstrip().removeprefix(before).split("\n")
    return ("\n" + " " * (columns(before) - len(before))).join(lines).replace("%", "%%")


def alone(given: Sequence[str], parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments, each switch without a value saying so: what follows `--compile` may as well be a file."""
    switches = {each for action in parser._actions if action.nargs == "?" for each in action.option_strings}  # noqa: SLF001
    if not switches:
        yield from given
        return
    from memcore.config.kinds import SWITCHED  # noqa: PLC0415 - what has switches has a config

    for word, following in zip(given, [*given[1:], ""], strict=False):
        yield word if word not in switches or following.lower() in SWITCHED else f"{word}=true"


def nothing_matches(words: Sequence[str], known: Iterable[str], command: str) -> ConfigError:
    """Return the error of a query that no row of a catalog matches, with the row that may be meant."""
    query = " ".join(words)
    message = Message("nothing matches {!r:.80}; `memcore {}` lists all", query, command)
    return ConfigError([Problem("QUERY", message, nearest(query, known))])


def print_json(found: object) -> None:
    """An object as JSON on standard output."""
    import json  # noqa: PLC0415 - most commands print text

    wide = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(found, indent=2, ensure_ascii=not wide))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their columns on standard output."""
    from memcore import escaping  # noqa: PLC0415 - most commands print text

    sys.stdout.writelines(escaping.csv_line(row) for row in [columns, *rows])


def save(name: str, text: str) -> None:
    """Write a text to a file, and say so on standard error."""
    from memcore.i18n.page import say  # noqa: PLC0415 - most commands save nothing

    with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123 - without pathlib the start is shorter
        file.write(text)
    print(say("cli-note", said=say("cli-saved", file=name)), file=sys.stderr)


def width() -> int:
    """Characters of a line: the terminal's, at least 40, or 80 in a pipe; COLUMNS overrides both."""
    from shutil import get_terminal_size  # noqa: PLC0415 - only answers have lines

    return max(get_terminal_size((WIDTH, 24)).columns, 40)


def spell(text: str) -> str:
    """Return a text in the language that is spoken: who speaks Chinese has loaded its words, and English needs none."""
    words = sys.modules.get("memcore.i18n.page")
    return words.translated(text) if words else text


LANGUAGE = "--language"
"""The flag that says in which language answers are."""
_LANGUAGES = ("en", "zh")
_FOR_PROGRAMS = ("--json", "--csv", "github")
"""Arguments whose answers programs read, which are always in English."""


def spoken(given: Sequence[str], environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the language of an answer, and the arguments without the flag that says so.

    The flag counts most, then MEMCORE_LANGUAGE, then the locale (POSIX: the first of LC_ALL, LC_MESSAGES and LANG
    that is set), whose Chinese ones are all `zh`. Raises ConfigError for a flag that names no language of memcore.

    >>> spoken(["estimate", "--language=zh", "job.json"], {"LANG": "en_US.UTF-8"})
    ('zh', ['estimate', 'job.json'])
    """
    names = ("MEMCORE_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    usual = next((environment[each] for each in names if environment.get(each)), "")
    language = "zh" if usual.lower().startswith("zh") else "en"
    rest: list[str] = []
    words = iter(given)
    for word in words:
        name, equals, value = word.partition("=")
        if name != LANGUAGE:
            rest.append(word)
            continue
        language = value if equals else next(words, "")
        if language not in _LANGUAGES:
            raise ConfigError.at(LANGUAGE, Message("found {!r}; allowed: {}", language, ", ".join(_LANGUAGES)))
    return ("en" if any(each in _FOR_PROGRAMS for each in rest) else language), rest


def share(text: str) -> float:
    """Return a share of a GPU's memory for an option: a fraction below 1, or a percentage from 1 on.

    >>> share("0.1"), share("10%"), share("10")
    (0.1, 0.1, 0.1)
    """
    percent = text.strip().endswith("%")
    number = text.strip().removesuffix("%").strip()
    found = float(number) if re.fullmatch(r"[0-9]{0,20}\.?[0-9]{0,20}", number) and re.search("[0-9]", number) else -1.0
    found = found / 100 if percent or found >= 1 else found
    if not 0 <= found < 1:
        raise argparse.ArgumentTypeError(
            Message("found {!r:.40}; expected a fraction such as 0.1 or a percentage such as 10%", text)
        )
    return found


def positive(text: str) -> float:
    """Return a number above 0, as a price is; argparse says what is wrong with any other text."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(Message("expected a number above 0, such as 2.5, found {!r}", text))
    return found


def count(text: str) -> int:
    """A whole number of at least 1, for an option."""
    from memcore.config.kinds import Integer  # noqa: PLC0415 - few commands count

    try:
        found = Integer().parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return int(str(found))


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, for an option."""
    return tuple(count(each) for each in text.split(","))
