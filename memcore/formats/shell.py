"""Shell scripts as far as they say what a program is run with: words, variables, arrays, conditions.

Nothing is run. Variables have the values that the script itself assigns to them; those that come from outside have
their defaults, or stand for themselves, as `$NAME`: whoever needs the value asks for it by that name. The words of all
arrays count, used or not; of a condition whose outcome is not known, both branches do. Variables that commands find in
their environment, and files that a script writes for them, follow its words: `*env.NAME=value`, `*file.PATH=text`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from fnmatch import fnmatchcase
from types import MappingProxyType

from memcore.formats.conditions import FLAG, FLAGS, WORD, calculated, chosen, either, outcome
from memcore.formats.functions import called
from memcore.formats.slurm import processes, variables
from memcore.formats.splitting import split_up
from memcore.limits import NESTING, VARIABLES_LENGTH
from memcore.messages import Message
from memcore.records import dataclass

END = ";"
"""The word that ends a command."""
OUTSIDE = re.compile(r"\$\w{1,200}")
"""A variable that the script does not set, or the output of a command."""
_OUTPUT = "$OUTPUT"
"""What stands for the output of a command."""
_ECHOED = re.compile(r"echo[ \t]+\"(\$\w{1,80}|\$\{\w{1,80}\})\"(?:[ \t]*\|[ \t]*(?:tr|sed|xargs)\b[^|\n]{0,80}){0,4}")
"""A variable whose white space other commands tidy up."""
_POSITION = re.compile(r"\$\d{1,2}\b")
"""An argument of the script, which is empty until somebody gives it."""
ENVIRONMENT, FILE = "*env.", "*file."
"""How words begin that stand for a variable of the environment, and for a file that the script writes."""
_WRITTEN = re.compile(r"(?:>>?|\btee(?: -a)?)[ \t]*(\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s<>|&;]{1,200})")
_TARGET = re.compile(r">{1,2}\|?(?:&\d?|&?[ \t]*(?:\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s<>|&;()\"'`]{1,400}))")
"""A redirection of what a command prints: `> "$LOG"`, `>&2`."""
_STORED = re.compile(r"\bread[ \t][^\n<|;]{0,80}?\b(\w{1,80})[ \t]*<<")
"""A document that becomes a variable."""
_HERE = re.compile(r"<<(-?)[ \t]*([\"']?)(\w{1,80})\2([^\n]*)\n")
"""How a document within a script begins."""
_PRINTED = re.compile(r"(?:^|[;{(&])[ \t]*cat[ \t]*$")
"""A command that prints the document behind it, as a script's usage."""
_HANDED = re.compile(r"\b(?:kubectl|oc|compose)\b[^\n]{0,80}(?<!\S)(?:-f|--filename)[ =]?(?:-|/dev/stdin)(?!\S)")
"""A command that takes a file from its standard input."""
_CONFIGS = (".yml", ".yaml", ".json", ".toml")
"""How files end that programs take settings from."""
_NAME = re.compile(r"(?:export\s{1,8})?(\w{1,200})(\+?)=")
_ASSIGNED = re.compile(r"\b(\w{1,200})=[\"']?$")
_LONGEST = 220
"""Characters of what `_NAME` can match, so that a longer word is not tried at every bracket behind it."""
_PLAIN = re.compile(r"\w+")
_PLACEHOLDER = re.compile(r"<([A-Za-z][\w./:-]{0,80})>")
"""What a manual writes for a value that its reader has to give, which is as good as a variable from outside."""
_NO_LETTER = re.compile(r"\W")
_LETTERS = re.compile(r"""[^ \t\r\n;&|<>()`"'\\$]+""")
"""What stands for itself in a word."""
_QUOTED: Mapping[str, re.Pattern[str]] = {"'": re.compile(r"[^']+"), '"': re.compile(r'[^"\\$]+')}
"""What stands for itself within quotes."""
_ESCAPED = '$`"\\\n'
"""What a backslash hides within double quotes, where it stands for itself in front of anything else."""
_DRIVE = re.compile(r"[A-Za-z]:")
"""How paths begin on Windows, whose backslashes hide nothing."""
_BRACKETS: Mapping[str, re.Pattern[str]] = {
    "(": re.compile(r"[()]"), "{": re.compile(r"[{}]"), "[": re.compile(r"[\[\]]"),
}  # fmt: skip
_TICKED = re.compile(r"`([^`\n]{1,400})`")
"""A command whose output stands in its place, as older scripts have it."""
_BEGINS_A_WORD = re.compile(rf"{_TICKED.pattern}|{_PLACEHOLDER.pattern}")
_ARRAY = re.compile(r'"\$(?:\{\w{1,200}\[[@*]\]\}|@|\{@(?::\d{1,2})?\})"')
"""All words of an array, which count where it is assigned, or of what a script is given: no word at all if none."""
_VALUE = re.compile(r"""[^"'$]+""")
_NEXT_LINE = re.compile(r"(?:\\[ \t]*(?:#[^\n]*)?|[`^])\n")
"""How a line goes on in a shell, also where spaces or a comment follow by mistake, in PowerShell and in batch files."""
_LINES = re.compile(r"[^$]+")
_SILENT = frozenset(
    {".", ":", "[", "[[", "break", "case", "cd", "chmod", "continue", "cp", "curl", "do", "done", "echo", "esac",
     "exit", "for", "function", "git", "in", "kill", "ls", "mkdir", "mv", "nvidia-smi", "pip", "pip3", "pkill",
     "printf", "read", "return", "rm", "set", "shift", "shopt", "sleep", "source", "tee", "trap", "ulimit",
     "unset", "wget", "while"}
)  # fmt: skip
"""Commands whose words say nothing of a job."""
_TELLS = re.compile(r"(?:log|echo|print)?_?(?:debug|die|error|fail|fatal|header|info|log|note|ok|success|warn)(?:ing)?")
"""Names of logging functions, which scripts often define or source."""
_DECLARING = frozenset({"declare", "local", "readonly", "typeset"})
"""Commands that assign what stands behind them."""
_SUM = re.compile(r"[0-9+*/%() <>=!?:-]+")
_FILLED = 16
"""Defaults of variables inside each other: each is read once more for every one around it."""
_GIVEN: ContextVar[Mapping[str, str]] = ContextVar("variables_given", default=MappingProxyType({}))


@contextmanager
def variables_given(variables: Mapping[str, str]) -> Iterator[None]:
    """While this lasts, scripts find these variables in their environment."""
    before = _GIVEN.set(variables)
    try:
        yield
    finally:
        _GIVEN.reset(before)


def variable_given(name: str) -> str | None:
    """Return the value of one of them, if it is given."""
    return _GIVEN.get().get(name)


def words(text: str) -> list[str]:
    """Return the words of all commands and arrays of a script, with `END` behind each.

    >>> words('N=2; A=(--nodes $N "--fp8-format hybrid"); torchrun ${A[@]} train.py # here')
    ['--nodes', '2', '--fp8-format', 'hybrid', ';', 'torchrun', 'train.py', ';']

    Raises ValueError for a quotation that does not end.
    """
    text, asked = called(split_up(text, variable_given)), variables(text)
    script = _Script(text, variables={**asked, **_GIVEN.get()})
    script.read()
    if tasks := processes(asked, script.found):
        script.found += [*tasks, END]
    for name, value in script.variables.items():
        if name not in script.used and len(FLAGS.findall(value)) > 1:
            script.found += [*value.split(), END]  # arguments for a script that sources this one
    started = _processes(script.variables)
    if started and ("NPROC_PER_NODE" not in script.used or "NPROC_PER_NODE" in script.exported):
        script.found += [*started, END]  # launchers read it from the environment
    told = {f"{ENVIRONMENT}{name}": script.variables.get(name, "") for name in script.exported}
    told |= {f"{FILE}{name}": content for name, content in script.files.items()}
    return [*script.found, *(each for name, value in told.items() for each in (f"{name}={value}", END))]


def _processes(environment: Mapping[str, str]) -> list[str]:
    """Return the processes that launchers read from their environment, as the flags that say the same."""
    each, nodes = environment.get("NPROC_PER_NODE", ""), environment.get("NNODES", "")
    if not each.isdecimal():
        return []
    several = ["--nnodes", nodes] if nodes not in ("", "1") else []
    return ["--nproc_per_node", each, *several]


@dataclass
class _Branches:
    """Of a condition whose outcome nobody knows: what its branches assign."""

    before: dict[str, str | None] = field(default_factory=dict)
    """The values that variables had before; None for those that had none."""
    ends: list[dict[str, str | None]] = field(default_factory=list)
    """The values at the end of each branch that may be taken."""
    complete: bool = False
    """One of them is taken."""


@dataclass
class _Script:
    text: str
    at: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    """Words of the command that is being read."""
    open: list[tuple[bool, bool | None]] = field(default_factory=list)
    """For each condition around: whether a branch was taken before, and whether this one is; None: nobody knows."""
    branches: list[_Branches] = field(default_factory=list)
    """For each `if` around."""
    guards: int = 0
    """Conditions before the command that is being read, as in `[ A ] && B`."""
    arrays: int = 0
    """Open brackets of arrays."""
    assigned: bool = False
    """What was read last is an array."""
    lists: set[str] = field(default_factory=set)
    """Names of arrays, to which a function of the script may add the words that it is called with."""
    choices: list[str] = field(default_factory=list)
    """What open `case`s choose by."""
    cases: list[tuple[int, dict[str, set[str]]]] = field(default_factory=list)
    """For each open `case`, how many words were found before it, and the values that its branches give variables."""
    patterns: list[str] | None = None
    """Of a branch of the innermost `case` that begins; None within one."""
    used: set[str] = field(default_factory=set)
    """Variables whose values stand somewhere."""
    filled: int = 0
    """Characters that variables have given, or have been given."""
    deep: int = 0
    """Defaults of variables around this text."""
    exported: dict[str, None] = field(default_factory=dict)
    """Variables that commands find in their environment, in order."""
    arguments: list[str] = field(default_factory=list)
    """Words that the script itself gives itself, `set -- …`."""
    files: dict[str, str] = field(default_factory=dict)
    """Files of settings that the script writes, by path."""

    def read(self) -> None:
        """The whole text."""
        while self.at < len(self.text):
            sign = self.text[self.at]
            next_line = _NEXT_LINE.match(self.text, self.at)
            if next_line:
                self.at = next_line.end()
            elif sign in " \t\r":
                self.at += 1
            elif sign == "#":
                self._skip_line()
            elif sign in "<`" and _BEGINS_A_WORD.match(self.text, self.at):
                self._word()
            elif sign in "<>" and (self._here() if sign == "<" else self._redirects()):
                pass
            elif sign in "\n;&|<>`":
                self.at += 1
                self._ends(sign)
            elif sign == "(" and self._compares():
                pass
            elif sign in "()":
                self.at += 1
                self._bracket(sign)
            else:
                self._word()
        self._finish()

    def _here(self) -> bool:
        """Read a file of settings that is written out in the script, or a variable; any other document is read on."""
        begins = _HERE.match(self.text, self.at)
        if begins is None:
            return False
        line = self.text[self.text.rfind("\n", 0, self.at) + 1 : begins.end() - 1]
        ends = re.compile(rf"^[ \t]*{begins[3]}[ \t]*$", re.MULTILINE).search(self.text, begins.end())
        if ends is None:
            return False
        target, stored = _WRITTEN.search(line), _STORED.search(line)
        name = "" if target is None else self._filled_in(target[1]).removeprefix("./")
        body = self.text[begins.end() : ends.start()]
        if target is None and _HANDED.search(line):
            name = f"{len(self.files)}{_CONFIGS[0]}"
        if name.endswith(_CONFIGS) or name.startswith("$"):
            before = self.files.get(name, "") if target and ">>" in target[0] else ""
            self.files[name] = before + (body if begins[2] else self._filled_in(body))
        elif target is None and stored is not None:
            self._given({stored[1]: (self._filled_in(body.replace("\\\n", " ").strip()), False)}, [], exports=False)
        elif target is not None or not _PRINTED.search(line[: line.rfind("<<")]):
            return False
        self.command, self.at = [], ends.end()
        return True

    def _redirects(self) -> bool:
        """Skip a redirection of what a command prints, which is neither a word of the command nor its end."""
        target = None if self._asks() or self.command[:1] in (["["], ["[["]) else _TARGET.match(self.text, self.at)
        if target is None:
            return False
        if self.command and self.text[self.at - 1].isdigit():
            self.command.pop()
        self.at = target.end()
        return True

    def _filled_in(self, text: str) -> str:
        """Return a text with variables filled in, as `as_text` does."""
        inner = _Script(text, variables=self.variables, filled=self.filled, deep=self.deep + 1)
        found = inner.as_document() if "\n" in text else inner.as_text()
        self.filled = inner.filled
        return found

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _ends(self, sign: str) -> None:
        """The end of a command, but not in an array, nor between patterns of `case`."""
        if sign in "<>" and self.command and self.text[self.at - 2].isdigit():
            self.command.pop()
        if sign == "|" and self._chooses():
            self._pattern()
            return
        if sign in "&|" and self._asks() and self.text[self.at : self.at + 1] == sign:
            self.at += 1
            self.command.append(2 * sign)
            return
        double = sign in "&|" and not self.arrays and self.text[self.at : self.at + 1] == sign
        if double and self.command[:1] in (["["], ["[["]):
            self.at += 1
            outcome, self.command = _outcome(self.command), []
            self._opens(outcome if sign == "&" or outcome is None else not outcome)
            self.guards += 1
            return
        waits = not self.command and sign == "\n" and not self.assigned
        self.assigned = False
        if not self.arrays:
            self._finish()
        if self.guards and not self.arrays and not waits:
            self._guarded(otherwise=double and sign == "|")
        if sign == ";" and self.choices and self.text[self.at - 2 : self.at] == ";;":
            self.patterns = []

    def _guarded(self, *, otherwise: bool) -> None:
        """The command behind `[ A ] &&` ends, and another may follow that runs instead."""
        if otherwise:
            self.at += 1
            self._branch("else", [])
            return
        while self.guards:
            self.guards -= 1
            self._branch("fi", [])

    def _asks(self) -> bool:
        """Return whether what is read is a condition."""
        return not self.arrays and self.command[:1] in (["if"], ["elif"])

    def _compares(self) -> bool:
        """Read `(( A > B ))`, where what comes from outside is nothing."""
        if not self._asks() or self.text[self.at : self.at + 2] != "((":
            return False
        inside = self._inside("(")
        held = re.sub(r"[A-Za-z_]\w*", lambda each: self.variables.get(each[0], "0"), inside.replace("$", "")[:200])
        found = self._arithmetic(held)
        self.command += ["((", inside] if not found else ["-n", found.replace("0", "") if found == "0" else found]
        return True

    def _chooses(self) -> bool:
        """Return whether what is read is a pattern of `case`."""
        return self.patterns is not None or self.command[:1] == ["case"]

    def _pattern(self) -> None:
        """What was read is a pattern, perhaps behind `case WORD in`."""
        words, self.command = self.command, []
        if words[:1] == ["case"]:
            self.choices.append(words[1] if len(words) > 1 else "")
            self.cases.append((len(self.found), {}))
            self.open.append((False, False))
            self.patterns, words = [], words[3:]
        self.patterns = [*(self.patterns or ()), *words]

    def _branch_begins(self) -> None:
        """A branch of `case` is taken if a pattern fits what it chooses by; nobody knows where that is from outside."""
        self._pattern()
        word, before = _POSITION.sub("", self.choices[-1]), self.open[-1][0] or self.open[-1][1] is True
        fits = any(fnmatchcase(word[:WORD], each[:WORD]) for each in self.patterns or ())
        outcome = None if OUTSIDE.search(word) else fits
        self.open[-1], self.patterns = (before, False if before else outcome), None

    def _bracket(self, sign: str) -> None:
        """An array opens or closes; else it groups commands, or ends a pattern of `case`, which says nothing."""
        last = self.command[-1] if self.command else ""
        if sign == "(" and last.endswith("=") and len(last) < _LONGEST and _NAME.fullmatch(last):
            self.command.pop()
            self._finish()
            self.arrays += 1
            self.lists.add(last.rstrip("+=").removeprefix("export "))
        elif sign == ")" and self.arrays:
            self.arrays -= 1
            self._emit(self.command)
            self.command, self.assigned = [], True
        elif sign == ")" and self._chooses():
            self._branch_begins()
        elif sign == ")":
            self.command = []
        elif not self.arrays:
            self._finish()

    def _word(self) -> None:
        """One word; what a variable without quotes stands for may be several."""
        whole, quoted, given = "", False, False
        while self.at < len(self.text):
            sign = self.text[self.at]
            placeholder = _PLACEHOLDER.match(self.text, self.at) if sign == "<" else None
            if placeholder:
                whole += f"${re.sub(_NO_LETTER, '_', placeholder[1])}"
                self.at = placeholder.end()
                continue
            ticked = _TICKED.match(self.text, self.at) if sign == "`" else None
            if ticked:
                self.at = ticked.end()
                whole += self._output_of(ticked[1])
                continue
            if sign in " \t\r\n;&|<>()`":
                break
            words_of_array = _ARRAY.match(self.text, self.at) if sign == '"' and not whole else None
            if words_of_array:
                self.at = words_of_array.end()
                self.command += self.arguments if "@" in words_of_array[0][:4] else ()
            elif sign in "\"'":
                given |= whole.endswith("=")
                whole += self._quoted(sign)
                quoted = True
            elif sign == "\\":
                whole += "\\" * bool(_DRIVE.match(whole)) + self.text[self.at + 1 : self.at + 2].strip("\n")
                self.at += 2
            elif sign == "$":
                whole += self._value()
            else:
                whole += self._run(_LETTERS)
        if (FLAG.match(whole) and not given) or not (quoted or _NAME.match(whole)):
            # Scripts put a flag and its value between one pair of quotes.
            self.command += whole.split()
        else:
            self.command.append(whole)

    def _quoted(self, mark: str) -> str:
        self.at += 1
        whole = ""
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == mark:
                self.at += 1
                return whole
            if sign == "\\" and mark == '"':
                escaped = self.text[self.at + 1 : self.at + 2]
                whole += "\\" * (escaped not in _ESCAPED) + escaped.strip("\n")
                self.at += 2
            elif sign == "$" and mark == '"':
                whole += self._value()
            else:
                whole += self._run(_QUOTED[mark])
        raise ValueError("No closing quotation")

    def _run(self, letters: re.Pattern[str]) -> str:
        """Letters that stand for themselves."""
        match = letters.match(self.text, self.at)
        found = match[0] if match else self.text[self.at]
        self.at += len(found)
        return found

    def _value(self) -> str:
        """Return what stands for a `$` and what follows it. Raises ValueError where a script only multiplies itself."""
        to = _ASSIGNED.search(self.text, max(self.at - _LONGEST, 0), self.at)
        given = to is not None and to[1] not in self.used
        found = self._filled()
        if to is not None and given:
            self.used.discard(to[1])  # `A=${A:-1}` takes it from outside, and gives it to nothing
        self.filled += len(found)
        if self.filled > VARIABLES_LENGTH:
            raise ValueError("Its variables expand endlessly")
        return found

    def _filled(self) -> str:
        """Return a variable, an integer, or the output of a command, which nobody knows."""
        self.at += 1
        rest = self.text[self.at : self.at + 2]
        if rest == "((":
            return self._calculation(self._inside("(")[1:-1])
        if rest[:1] == "(":
            return self._output_of(self._inside("(").strip())
        if rest[:1] == "[":
            return self._calculation(self._inside("["))
        if rest[:1] == "{":
            return self._braced(self._inside("{"))
        name = _PLAIN.match(self.text, self.at)
        if name is None:
            self.at += rest[:1] in ("@", "*", "#", "?", "!", "$")
            return "0" if rest[:1] == "#" else ""
        self.at = name.end()
        return self._of(name[0])

    def _output_of(self, command: str) -> str:
        """Return what a command prints: a sum, or a variable; of any other nobody knows."""
        calculated = command.startswith("expr ") and self._arithmetic(command[5:].replace("\\*", "*"))
        printed = _ECHOED.fullmatch(command)
        return calculated or (" ".join(self._filled_in(printed[1]).split()) if printed else _OUTPUT)

    def _calculation(self, text: str) -> str:
        """Return what arithmetic gives; if it needs a variable that comes from outside, that."""
        held = (self.variables.get(each, f"${each}") for each in re.findall(r"[A-Za-z_]\w*", text[:200]))
        missing = next((each for each in held if OUTSIDE.fullmatch(each)), "$CALCULATED")
        return self._arithmetic(text) or missing

    def _of(self, name: str) -> str:
        """Return the value of a variable; of one that comes from outside its name."""
        self.used.add(name)
        return self.variables.get(name, "" if name == "0" else f"${name}")

    def _inside(self, opens: str) -> str:
        """Return what stands between an opening bracket and the one that closes it."""
        start, depth = self.at + 1, 0
        for bracket in _BRACKETS[opens].finditer(self.text, self.at):
            depth += 1 if bracket[0] == opens else -1
            if not depth:
                self.at = bracket.end()
                return self.text[start : bracket.start()]
        raise ValueError("No closing bracket")

    def _braced(self, inside: str) -> str:
        name = _PLAIN.match(inside)
        if name is None:
            return ""
        held, rest = self.variables.get(name[0], ""), inside[name.end() :]
        if rest[:1] == "[":
            rest = rest.partition("]")[2]
            if rest[:2] not in (":-", ":="):
                return held  # an array, whose words count by themselves
        self.used.add(name[0])
        sign = next((each for each in (":-", ":=", "-", "=") if rest.startswith(each)), None)
        held = "" if sign and _POSITION.fullmatch(held) else held
        if held or sign is None or (name[0] in self.variables and not sign.startswith(":")):
            return held or ("" if sign else self._of(name[0]))
        if self.deep >= _FILLED:
            raise ValueError(Message("Variable defaults are nested more than {} levels deep", _FILLED))
        inner = _Script(rest[len(sign) :], variables=self.variables, filled=self.filled, deep=self.deep + 1)
        value = inner.as_text()
        self.filled = inner.filled
        if sign.endswith("=") and self._taken:
            self._assign(name[0], value, more=False)
        return value

    def as_text(self) -> str:
        """Return the text as a value: quotes removed, variables filled in."""
        whole = ""
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in "\"'":
                whole += self._quoted(sign)
            elif sign == "$":
                whole += self._value()
            else:
                whole += self._run(_VALUE)
        return whole

    def as_document(self) -> str:
        """Return the same for a document, whose quotes are its own."""
        whole = ""
        while self.at < len(self.text):
            whole += self._value() if self.text[self.at] == "$" else self._run(_LINES)
        return whole

    def _arithmetic(self, text: str) -> str:
        filled = _PLAIN.sub(lambda each: self.variables.get(each[0], each[0]), text.replace("$", "")[:200])
        filled = filled.replace("{", "").replace("}", "")
        if not _SUM.fullmatch(filled):
            return ""
        try:
            return str(calculated(ast.parse(chosen(filled.strip()), mode="eval").body))
        except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
            return ""

    def _finish(self) -> None:
        """A command ends: it assigns, asks, or runs something."""
        given, self.command = self.command, []
        if given and given[0] in ("then", "do", "{", "}", "else"):
            if given[0] == "else":
                self._branch("else", [])
            given = given[1:]
        if given and given[0] in ("if", "elif", "fi"):
            self._branch(given[0], given[1:])
            return
        if len(given) > 1 and given[0] == "env" and _NAME.match(given[1]):
            given = given[1:]
        exports = bool(given) and given[0] == "export"
        if exports:
            self.exported |= dict.fromkeys(each for each in given if self._taken and each in self.variables)
            given = [each for each in given[1:] if "=" in each]
        if given and given[0] == "eval":
            given = self._evaluated(" ".join(given[1:]))
        if given and given[0] in ("case", "esac"):
            self._choice(given)
            return
        if given and given[0] in _DECLARING:
            given = [each for each in given[1:] if _NAME.match(each)]
        assigned: dict[str, tuple[str, bool]] = {}
        while given and (name := _NAME.match(given[0])) is not None:
            assigned[name[1]] = (given.pop(0)[name.end() :], bool(name[2]))
        self._given(assigned, given, exports=exports)

    def _evaluated(self, text: str) -> list[str]:
        """Return the words of the first command of a text that is read as a script once more."""
        inner = _Script(text, variables=dict(self.variables), filled=self.filled, deep=self.deep + 1)
        if self.deep < _FILLED:
            inner.read()
        self.filled = inner.filled
        return inner.found[: inner.found.index(END)] if END in inner.found else []

    def _given(self, assigned: Mapping[str, tuple[str, bool]], command: list[str], *, exports: bool) -> None:
        """What is assigned holds from here on; in front of a command, for that alone, which finds it around it."""
        if exports or not command:
            for name, (value, more) in assigned.items() if self._taken else ():
                self._assign(name, value, more=more)
            self.exported |= dict.fromkeys(assigned if exports and self._taken else ())
            assigned = {}
        if command[:2] == ["set", "--"] and self._taken:
            self.arguments = command[2:]
        if not command or not (command[0] in _SILENT or _TELLS.fullmatch(command[0])):
            command = command[2:] if command[1:2] and command[1] in self.lists and command[2:] else command
            around = [f"{ENVIRONMENT}{name}={value}" for name, (value, _) in assigned.items()]
            self._emit([*command, *_processes({name: value for name, (value, _) in assigned.items()}), *around])

    def _choice(self, given: list[str]) -> None:
        """A `case` opens, or closes."""
        if given[0] == "case":
            self.command = given
            self._pattern()
            return
        self.patterns = None
        if self.choices:
            asked = OUTSIDE.search(_POSITION.sub("", self.choices.pop()))
            start, given_there = self.cases.pop()
            self.open.pop()
            if asked:
                self._ask(asked[0], start, given_there)

    def _ask(self, variable: str, start: int, given: Mapping[str, set[str]]) -> None:
        """Put a variable from outside where the branches of a `case` on it differ: nobody knows which is taken."""
        self.variables |= {name: variable for name, values in given.items() if len(values) > 1}
        flags: dict[str, set[str]] = {}
        places: dict[str, list[int]] = {}
        first = True
        for at in range(start, len(self.found) - 1):
            word, value = self.found[at : at + 2]
            begins, first = first, word == END
            if begins and not FLAG.match(word):
                return  # a branch runs something itself
            if FLAG.match(word) and value != END and not FLAG.match(value):
                flags.setdefault(word, set()).add(value)
                places.setdefault(word, []).append(at + 1)
        for flag, values in flags.items():
            for at in places[flag] if len(values) > 1 else ():
                self.found[at] = variable

    def _assign(self, name: str, value: str, *, more: bool) -> None:
        """A variable gets a value; what is added to copies what was there."""
        if OUTSIDE.fullmatch(value):  # only who runs the script knows it: an output is asked for by its own name
            given = variable_given(name)
            value = given if given is not None else f"${name}" if value == _OUTPUT else value
        before = self.variables.get(name, "") if more else ""
        self.filled += len(before)
        if self.filled > VARIABLES_LENGTH:
            raise ValueError("Its variables expand endlessly")
        if self.cases:
            known = self.cases[-1][1].setdefault(name, {self.variables[name]} if name in self.variables else set())
            known.add(before + value)
        for frame in self.branches:
            frame.before.setdefault(name, self.variables.get(name))
        self.variables[name] = before + value

    def _branch(self, word: str, condition: list[str]) -> None:
        if word == "if":
            self._opens(_outcome(condition))
        elif self.branches and word == "fi":
            self._branch_ends()
            self.open.pop()
            self._joined(self.branches.pop())
        elif self.branches:
            before = self.open[-1][0] or self.open[-1][1] is True
            unknown = self._branch_ends()
            outcome = (None if unknown else True) if word == "else" else _outcome(condition)
            self.branches[-1].complete |= outcome is True or word == "else"
            self.open[-1] = before, False if before else outcome

    def _opens(self, outcome: bool | None) -> None:
        """A condition begins. Raises ValueError for too many in each other."""
        if len(self.open) >= NESTING:
            raise ValueError(Message("Conditions are nested more than {} levels deep", NESTING))
        self.open.append((False, outcome))
        self.branches.append(_Branches())

    def _branch_ends(self) -> bool:
        """Return whether nobody knows which branch is taken; the next one begins with what held before this one."""
        frame, (_, taken) = self.branches[-1], self.open[-1]
        if taken is None or (frame.ends and taken):
            frame.ends.append({name: self.variables.get(name) for name in frame.before})
            for name, value in frame.before.items():
                self._held(name, value)
        return bool(frame.ends)

    def _held(self, name: str, value: str | None) -> None:
        if value is None:
            self.variables.pop(name, None)
        else:
            self.variables[name] = value

    def _joined(self, frame: _Branches) -> None:
        """What holds behind branches of which nobody knows which is taken: a value that all give, or none."""
        ends = [*frame.ends, *([] if frame.complete or not frame.ends else [{}])]
        for name, before in frame.before.items() if ends else ():
            values = list(dict.fromkeys(end.get(name, before) for end in ends))
            for outer in self.branches:
                outer.before.setdefault(name, before)
            given = variable_given(name)
            self._held(name, values[0] if len(values) == 1 else either(name, values) if given is None else given)

    @property
    def _taken(self) -> bool:
        return all(taken is not False for _, taken in self.open)

    def _emit(self, given: list[str]) -> None:
        if given and self._taken:
            self.found += [each for each, before in zip(given, ["", *given], strict=False) if not _runs(before, each)]
            self.found.append(END)


def _runs(before: str, word: str) -> bool:
    """Return whether a word only says that Python runs a module."""
    return word == "-m" and before.rpartition("/")[2].startswith("python")


def _outcome(condition: list[str]) -> bool | None:
    """Return whether a condition holds, where what comes from outside is empty; None where nobody knows."""
    return outcome([OUTSIDE.sub("", each) for each in condition])
