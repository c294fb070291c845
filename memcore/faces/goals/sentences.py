"""A whole question in one sentence: `serve Llama 3.1 70B to 20 users of 8k on 2 x H100`, in either language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cache

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.kinds import Choice
from memcore.config.settings import MODEL, SETTINGS
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.faces.goals import phrases
from memcore.faces.goals.machines import machines, without
from memcore.faces.goals.names import as_served, is_model, meanings, well_known_first, written
from memcore.faces.goals.tasks import TASKS, with_task
from memcore.hardware import AT_HOME, BY_ID, usual_board
from memcore.messages import Message, joined
from memcore.networks.catalog import catalog, find_model, known
from memcore.records import dataclass
from memcore.registry import SERVERS
from memcore.serving.inference import CHAT, LENGTHS, Inference
from memcore.units import parse_count

_SERVED = frozenset(name for name, task in TASKS.items() if task.engine)
_ENOUGH = 2
"""Settings that make a question of a text without an accelerator."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a sentence asks for."""

    texts: Mapping[str, str]
    """Settings, as text by path."""
    task: str
    """A row of `TASKS`; empty where the sentence names none."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What commands take besides settings, by name: `goal`, `to` (a tool), `tokens`, `batch_tokens`."""
    unread: tuple[str, ...] = ()
    """Words that say something else."""
    others: tuple[str, ...] = ()
    """Further models that are served next to the first."""
    kinds: tuple[str, ...] = ()
    """The GPUs, where they are of several kinds."""
    ram_gb: int | None = None
    """The memory of the computer itself."""

    def of_kinds(self) -> Iterator[Message]:
        """Yield what is said of GPUs of several kinds."""
        if self.kinds:
            yield Message(
                "GPUs of several kinds: {}; each counts as the one with least memory", joined(", ", self.kinds)
            )


def asked(sentence: str) -> Question | None:
    """Return what a sentence asks for; None of a text that is no question.

    >>> asked("QLoRA Qwen3 8B on a 3090, batch 4").texts
    {'model': 'qwen3 8b', 'hardware.accelerator': '3090', 'training.micro_batch_size': '4'}
    """
    if not _is_sentence(sentence) or is_model(sentence):
        return None
    reading = _Reading(sentence)
    reading.model()
    others = reading.further_models()
    reading.rest, kinds = machines(reading.rest, reading.texts)
    ram = reading.take(phrases.RAM) if {Hardware.accelerator, Hardware.gpu_memory_gb} & reading.texts.keys() else None
    task = reading.task()
    reading.settings(task)
    task = reading.with_rank(task) or (reading.run() if others else "")
    tool = reading.tool()
    reading.rollouts()
    reading.flags()
    task = task or reading.run_at_home()
    unread = tuple(
        each for each in _phrases_of(reading.rest) if "model" not in reading.texts or not _SIZE.fullmatch(each)
    )
    if "model" not in reading.texts and unread:
        unread = reading.unknown_model()
    said = len(reading.texts) + (bool(task) or reading.verb) + len(reading.options)
    if said < _ENOUGH + ("model" not in reading.texts) and Hardware.accelerator not in reading.texts:
        return None
    others, unread = (others, unread) if task in _SERVED else ((), (*others, *unread))
    return Question(
        {**tool, **reading.texts}, task, reading.options, unread, others, kinds, int(ram[1]) if ram else None
    )


def _is_sentence(text: str) -> bool:
    return re.search(r"\S\s+\S|[\u4e00-\u9fff]", text.strip()) is not None


def asks_for_models(sentence: str) -> Mapping[str, str]:
    """Return the settings of a sentence that asks which models some GPUs run; empty for any other.

    >>> asks_for_models("what can I run on a 3090?"), asks_for_models("run Qwen3 8B on a 3090")
    ({'hardware.accelerator': '3090'}, {})
    """
    if not _is_sentence(sentence):
        return {}
    reading = _Reading(sentence)
    reading.rest, _ = machines(reading.rest, reading.texts)
    reading.model()
    sized = {Hardware.accelerator, Hardware.gpu_memory_gb} & reading.texts.keys()
    if "model" in reading.texts or not sized or not re.search(phrases.MODELS, reading.rest, re.ASCII):
        return {}
    reading.count(Inference.max_model_len, *phrases.LENGTHS)
    return reading.texts


class _Reading:
    """A sentence while it is read: what it says so far, and what is left of it."""

    def __init__(self, sentence: str) -> None:
        self.rest = sentence.lower()
        for pattern, other in phrases.REWRITTEN:
            self.rest = re.sub(pattern, other, self.rest, flags=re.ASCII)
        self.texts: dict[str, str] = {}
        self.options: dict[str, str] = {}
        self.verb = False
        """Whether it says what is done with the model."""
        self.by = ""
        """The word that named the task: a tool's name, perhaps."""

    def take(self, pattern: str) -> re.Match[str] | None:
        """Return the first match of a pattern, blanked in what is left."""
        found = re.search(pattern, self.rest, re.ASCII)
        if found is not None:
            self.rest = without(self.rest, found)
        return found

    def count(self, path: str, *ways: str) -> None:
        """Read a number, said in one of some ways, into a setting."""
        for pattern in ways:
            if path not in self.texts and (found := self.take(pattern)):
                self.texts[path] = re.sub(r"[,\s]", "", next(filter(None, found.groups())))

    def model(self) -> None:
        """Read the model first: numbers in its name say nothing else."""
        best, span = (False, 0), (0, 0)
        tokens = list(re.finditer(r"[a-z0-9][a-z0-9_./+-]*[a-z0-9+]|[a-z0-9]", self.rest))
        for first, token in enumerate(tokens):
            if _begins(token[0]):
                last = max(_ends(self.rest, tokens[first : first + _LONGEST]), default=0)
                end = tokens[first + last - 1].end() if last else token.start()
                sized = re.search(r"\d", self.rest[token.start() : end]) is not None
                if (sized, last) > best:
                    best, span = (sized, last), (token.start(), end)
        if best[1]:
            name = " ".join(self.rest[slice(*span)].split())
            size = re.search(r"(?<![\w.-])(\d+(?:\.\d+)?b)\s+$", self.rest[: span[0]])
            if size and is_model(f"{name} {size[1]}"):
                name, span = f"{name} {size[1]}", (size.start(), span[1])
            self.texts["model"] = name
            self.rest = f"{self.rest[: span[0]]}{_MODEL}{self.rest[span[1] :]}"

    def further_models(self) -> tuple[str, ...]:
        """Return models that stand next to the first in a list: `Qwen3 8B and Llama 3.1 8B`."""
        first, found = self.texts.get("model"), list[str]()
        for _ in range(_SEVERAL if first else 0):
            before = self.rest
            self.model()
            if not re.search(f"{_MODEL}{phrases.NEXT_TO}{_MODEL}", self.rest):
                self.rest = before
                break
            found.append(self.texts["model"])
            self.rest = re.sub(f"{_MODEL}{phrases.NEXT_TO}{_MODEL}", _MODEL, self.rest)
        if found:
            self.take(phrases.MODELS_COUNTED)
        if first:
            self.texts["model"] = first
            self.rest = self.rest.replace(_MODEL, " , ")
        return tuple(found)

    def task(self) -> str:
        """Return the task, with what makes it one: its name, a format of weights, users, or a verb."""
        self.verb = trains = re.search(phrases.TRAINS, self.rest, re.ASCII) is not None
        served = "" if trains else self._served_by()
        if served or not trains:
            self.count(Inference.max_loras, *([phrases.ADAPTERS] if served else []))
            self.count(Inference.batch_size, phrases.USERS)
        whole = re.search(phrases.WHOLE, self.rest, re.ASCII) is not None
        trained = "" if served else self._named(phrases.TRAINING)
        if whole and trained in ("", "full"):
            self.options["goal"] = "full-fine-tune"
        if trains or trained:
            return self._adapted(trained or "full") if trained in ("", "lora") else trained
        if served or _FORMAT.search(self.rest):
            return served or "gguf"
        runs = re.search(f"{phrases.RUNS}|{phrases.BITS}", self.rest, re.ASCII) or self._places() == {"computer"}
        return self.run() if runs or Inference.batch_size in self.texts else ""

    def with_rank(self, task: str) -> str:
        """Return the task; a rank means that adapters are trained, of whatever kind."""
        ranked = Training.adapter.rank in self.texts and Training.adapter.type not in self.texts
        return "lora" if ranked and task in ("", "full") and "goal" not in self.options else task

    def run_at_home(self) -> str:
        """Return the task of a sentence that says nothing but a model, a GPU as people have at home, and a length."""
        said = {path for path in self.texts if path != MODEL and not path.startswith("hardware.")}
        if self.verb or self.options or not said <= {Training.sequence_length} or not self._at_home():
            return ""
        for path in said:
            self.texts[Inference.max_model_len] = self.texts.pop(path)
        return self.run()

    def _at_home(self) -> bool:
        """Return whether the GPUs that are named are of those that people have at home."""
        places = self._places()
        return bool(places) and places <= AT_HOME

    def _named(self, tasks: Mapping[str, str]) -> str:
        for name, pattern in tasks.items():
            if name in TASKS and (found := self.take(pattern)):
                self.by = found[0]
                return name
        return ""

    def _served_by(self) -> str:
        """Return the task of the server that is named; one without a task of its own is a setting of serving."""
        named = self._named(phrases.SERVING)
        server = self.take(rf"(?<![\w-])(?:{'|'.join(map(re.escape, SERVERS))})(?![\w-])") if not named else None
        if server is not None:
            self.texts[EngineSettings.type] = server[0]
        return named or ("serve" if server else "")

    def _adapted(self, named: str) -> str:
        """Return how adapters are trained: on weights in 4 bits, if the sentence says so."""
        eight = re.search(rf"(?:{phrases.FOUR_BIT})[\s-]*(?:paged\s+)?adam", self.rest, re.ASCII)
        return "qlora" if not eight and "qlora" in TASKS and self.take(phrases.FOUR_BIT) else named

    def run(self) -> str:
        """Return how a model is run on the GPUs that are named: at home with llama.cpp."""
        return "gguf" if self._at_home() and Inference.batch_size not in self.texts else "serve"

    def _places(self) -> set[str]:
        """Return where the GPUs that are named may be found."""
        meant = meanings(Hardware.accelerator, self.texts.get(Hardware.accelerator, ""))
        return {BY_ID[each].place for each in meant}

    def settings(self, task: str) -> None:
        """Read what training or a server is told."""
        if found := self.take(phrases.TOKENS):
            self.options["tokens"] = re.sub(r"\s", "", found[1])
        several = None
        if task not in _SERVED and (found := self.take(phrases.BATCH_TOKENS)):
            self.options["batch_tokens"] = re.sub(r"\s", "", next(filter(None, found.groups())))
        elif task not in _SERVED:
            several = self.take(phrases.GLOBAL_BATCH)
        for path, pattern in phrases.COUNTED.items():
            self.count(path, pattern)
        self.images(served=task in _SERVED)
        if EngineSettings.zero_stage in self.texts:
            self.texts[EngineSettings.type] = "deepspeed"
        if task in _SERVED:
            self._served(phrases.GGUF_OF_BITS if task == "gguf" else phrases.WEIGHTS_OF_BITS)
        else:
            self._trained()
        if several is not None:
            length = self.texts.get(Training.sequence_length) or TASKS[task or "full"].begins[Training.sequence_length]
            self.options["batch_tokens"] = str(parse_count(several[1]) * parse_count(length))

    def images(self, *, served: bool) -> None:
        """Read the images of a sequence, and their size where they are square; servers profile with the largest."""
        if found := self.take(phrases.IMAGES):
            self.texts[Inference.images_per_sequence if served else Training.images_per_sequence] = found[1] or "1"
            size = re.search(phrases.SIZE, self.rest, re.ASCII)
            if size is not None and size[1] == size[2] and not served:
                self.texts[Training.image_size] = size[1]
                self.rest = without(self.rest, size)

    def _served(self, of_bits: Mapping[str, str]) -> None:
        self.count(Inference.prompt_length, phrases.PROMPT)
        self.count(Inference.output_length, phrases.OUTPUT)
        self.count(Inference.batch_size, phrases.BATCH)
        self.count(Inference.max_model_len, *phrases.LENGTHS)
        cache = re.search(phrases.CACHE, self.rest, re.ASCII)
        kinds = _options(Inference.kv_cache_dtype)
        if cache and (kind := next((each for each in cache.groups() if each in kinds), None)):
            self.texts[Inference.kv_cache_dtype] = kind
            self.rest = without(self.rest, cache)
        if found := _FORMAT.search(self.rest) or _WEIGHTS.search(self.rest):
            path = Inference.weight_dtype if found[0] in _options(Inference.weight_dtype) else Inference.quantization
            self.texts[path] = found[0].replace("-", "_") if path == Inference.quantization else found[0]
            self.rest = without(self.rest, found)
        elif (bits := re.search(phrases.BITS, self.rest, re.ASCII)) and (
            kind := of_bits.get(bits[bits.lastindex or 0])
        ):
            self.texts[Inference.quantization] = kind
            self.rest = without(self.rest, bits)

    def _trained(self) -> None:
        self.count(Training.micro_batch_size, phrases.BATCH)
        self.count(Training.sequence_length, *phrases.LENGTHS)
        if found := self.take(phrases.CHECKPOINTS):
            self.texts[Training.activation_checkpointing.policy] = "none" if found[1] else "full"
        if re.search(phrases.PRE_TRAINS, self.rest, re.ASCII):
            self.options["goal"] = "pre-train"
        for path, further in phrases.CHOICES.items():
            words = {**{each: each for each in _options(path) if each not in phrases.PLAIN_WORDS}, **further}
            pattern = "|".join(map(_loose, sorted(words, key=len, reverse=True)))
            if found := self.take(rf"(?<![\w-])(?:{pattern})(?![\w-])"):
                self.texts[path] = next(words[each] for each in words if re.fullmatch(_loose(each), found[0]))

    def tool(self) -> Mapping[str, str]:
        """Return what a tool sets that the sentence names; plans are written for it."""
        words = [each for phrase in _phrases_of(self.rest) for each in phrase.split() if each.isascii()]
        groups = [words[first : first + size] for size in (3, 2, 1) for first in range(len(words) - size + 1)]
        for group in ([self.by], *groups) if self.by in phrases.TOOLS else groups:
            name = _tools().get(_letters("".join(group)))
            if name is not None and name not in _options(EngineSettings.type):
                self.take(r"(?<!\w)" + r"[\s_-]*".join(map(re.escape, group)))
                self.options["to"] = name
                return of_tool(name)
        return {}

    def rollouts(self) -> None:
        """Read that a rollout engine runs on the same GPUs; a tool that is named has its own way of doing so."""
        if self.texts.get(Training.method.name) == "grpo" and "to" not in self.options and self.take(phrases.COLOCATED):
            self.texts[Training.method.rollout_share] = phrases.KEPT_BY_ROLLOUTS

    def flags(self) -> None:
        """Read what is said as a flag of any tool, without dashes: `max-num-seqs 64`."""
        for found in re.finditer(rf"(?<![\w-])([a-z]+(?:[_-][a-z]+)+)[\s=:]+{phrases.VALUE}", self.rest, re.ASCII):
            if path := _setting(found[1]):
                self.texts.setdefault(path, found[2])
                self.rest = without(self.rest, found)

    def unknown_model(self) -> tuple[str, ...]:
        """Take the words that stand together and may name a model that the catalog has not; return the others."""
        runs = _phrases_of(self.rest)
        self.texts["model"] = max(runs, key=lambda words: len(re.findall(r"[a-z][\w./-]*", words)))
        return tuple(words for words in runs if words != self.texts["model"])


_MODEL = " \x00 "
"""What stands in the place of a model's name."""
_SEVERAL = 4
"""Models that are read besides the first."""
_LONGEST = 9
"""Words of a model's name."""
_FORMAT = re.compile(r"(?<![\w-])i?q\d(?:_[a-z0-9]+)+(?![\w-])", re.ASCII)
"""A type of GGUF."""
_SIZE = re.compile(r"(?<![\d.])\d+(?:\.\d+)?[bm]")
"""A number of parameters, which a model's name tells already."""
_WEIGHTS = re.compile(r"(?<![\w-])(?:awq|gptq|fp8|int8|int4|mxfp4|nvfp4|bf16|fp16|fp32)(?![\w-])", re.ASCII)
"""Formats of weights that servers load."""


_WORD = re.compile(r"[\u4e00-\u9fff]+|(?:(?![\u4e00-\u9fff])\w)(?:(?![\u4e00-\u9fff])[\w./+%-])*(?<![./-])")


def _says_nothing(word: str) -> bool:
    return word in phrases.FILLING or word.startswith(phrases.FILLING_STEMS)


def _phrases_of(rest: str) -> list[str]:
    """Return the words of a text that say something, those that stand together as one."""
    found: list[str] = []
    end = -1
    for run in _WORD.finditer(rest):
        chinese = re.sub(phrases.FILLING_CHINESE, "", run[0]) if run[0] >= "\u4e00" else ""
        if chinese or (run[0] < "\u4e00" and not _says_nothing(run[0])):
            together = end >= 0 and not rest[end : run.start()].strip()
            found[-1:] = [f"{found[-1]} {chinese or run[0]}"] if together else [*found[-1:], chinese or run[0]]
            end = run.end()
    return found


@cache
def _beginnings() -> frozenset[str]:
    """Return the first words of names of models and of their makers."""
    names = (each for hub_id in catalog() for each in (hub_id.lower(), *hub_id.lower().split("/")))
    return frozenset(found[0] for name in names if (found := re.match(r"[a-z]{2,}|[a-z]\d", name)))


def _begins(word: str) -> bool:
    """Return whether a word may begin a model's name."""
    first = re.match(r"[a-z]{2,}|[a-z]\d", word)
    if first is None or _says_nothing(word):
        return False
    return "/" in word or first[0] in _beginnings()


def _ends(text: str, tokens: list[re.Match[str]]) -> Iterator[int]:
    """Yield how many of some words, the first ones, name a model."""
    for count, token in enumerate(tokens, 1):
        if count > 1 and text[tokens[count - 2].end() : token.start()].strip(" -·"):
            return
        name = text[tokens[0].start() : token.end()]
        if count == 1 and ((name.isalpha() and len(name) < _SHORTEST) or meanings(Hardware.accelerator, name)):
            continue
        if is_model(name) or (count == 1 and ("/" in name or ("-" in name and known(name)))):
            yield count


_SHORTEST = 4
"""Letters of a name of one word."""


def _options(path: str) -> tuple[str, ...]:
    """Return the words of a choice, the longest first: `paged-adamw-8bit` is no `adamw`."""
    kind = SETTINGS[path].kind
    return tuple(sorted(kind.options, key=len, reverse=True)) if isinstance(kind, Choice) else ()


def _loose(words: str) -> str:
    """Return a pattern of words however they are joined: `8-bit adamw`, `adamw_8bit`."""
    parts = re.findall(r"[a-z.]+|\d+", words)
    return r"[\s_-]*".join(map(re.escape, parts))


def _setting(name: str) -> str | None:
    """Return the setting that a flag sets, memcore's own or any tool's."""
    from memcore.tools.names import setting_called  # noqa: PLC0415 - few sentences name one

    ways = (name, name.replace("-", "_"))
    own = (path for path, setting in SETTINGS.items() if setting.flag == name or path.rpartition(".")[2] in ways)
    return next(own, None) or setting_called(name)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _tools() -> Mapping[str, str]:
    """Return the tools for which plans can be written, by name as it may be written."""
    from memcore.tools import TOOLS  # noqa: PLC0415 - few sentences name one

    written_for = {name: tool for name, tool in TOOLS.items() if not tool.read_only}
    titles = {_letters(tool.title): name for name, tool in written_for.items()}
    return {"trl": "trainer", **titles, **{_letters(name): name for name in written_for}}


def of_tool(name: str) -> Mapping[str, str]:
    """Return the settings that a tool stands for, as text by path."""
    from memcore.tools import TOOLS, needed_by  # noqa: PLC0415 - few sentences name one

    return {path: str(value) for path, value in needed_by(TOOLS[name]).items()}


def job_of(question: Question) -> dict[str, str]:
    """Return the whole job that a question describes, as text by path; empty where it names no model.

    Of boards that a name leaves open, the smallest is taken; of models, the best known.

    >>> job_of(asked("serve Qwen3 32B to 50 users of 8k on 2 x H100"))["engine.type"]
    'vllm'
    """
    if "model" not in question.texts:
        return {}
    job = written(with_task(question.texts, question.task or "full", frozenset(question.texts)))
    if boards := _boards(question):
        job[Hardware.accelerator] = boards[0]
    if models := _models(question):
        job["model"] = models[0]
    if question.task in _SERVED:
        job["model"] = as_served(job["model"])
    if leaves_length(question):
        job[Inference.max_model_len] = str(CHAT)
    open_lengths = {Training.sequence_length, Inference.max_model_len}.difference(question.texts).intersection(job)
    if open_lengths and (longest := _longest(job["model"])):
        job |= {path: str(min(int(job[path]), longest)) for path in open_lengths}
    return job


def _longest(model: str) -> int:
    """Return tokens of the longest sequence of a model; 0 of one that is not known."""
    with suppress(MemcoreError):
        return find_model(model).sizes["P"]
    return 0


def begun_with(question: Question) -> frozenset[str]:
    """Return the settings that a question leaves open and its task begins with."""
    return frozenset(TASKS[question.task or "full"].begins).difference(question.texts)


def leaves_length(question: Question) -> bool:
    """Return whether a question about a server leaves open how long sequences are."""
    return question.task in _SERVED and not any(path in question.texts for path in LENGTHS)


def other_boards(question: Question) -> Sequence[str]:
    """Return the boards that a question may also mean by the name of its GPU."""
    return _boards(question)[1:]


def other_models(question: Question) -> Sequence[str]:
    """Return the models that a question may also mean by the size or the part of a name that it gives."""
    return _models(question)[1:]


def _models(question: Question) -> Sequence[str]:
    """Return the models that a name with a size leaves open, the best known first; none where it means one."""
    name = question.texts["model"]
    return () if known(name) or not _SIZE.search(name) else well_known_first(name)


def _boards(question: Question) -> Sequence[str]:
    """Return the boards that the name of a GPU leaves open, the smallest first; none where it usually means one."""
    meant = meanings(Hardware.accelerator, question.texts.get(Hardware.accelerator, ""))
    if len(meant) == 1 or usual_board(meant):
        return ()
    return sorted(meant, key=lambda each: BY_ID[each].nominal_gb)
