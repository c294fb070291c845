"""How a tool is described: which of its keys mean which setting, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from memcore.formats.served import Served
from memcore.records import dataclass

Syntax = Literal["argv", "overrides", "json", "yaml", "toml", "modelfile", "python"]
"""`overrides`: a command line of keys and their values, `KEY=VALUE`."""
_ENDINGS: Mapping[Syntax, str] = {
    "argv": "sh",
    "overrides": "sh",
    "json": "json",
    "yaml": "yaml",
    "toml": "toml",
    "modelfile": "Modelfile",
    "python": "py",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A setting that a tool has under one key, dotted in files; `-` begins a flag of a command line."""

    path: str
    name: str
    also: tuple[str, ...] = ()
    """Other names that it is read by."""
    values: Mapping[Any, Any] | None = None
    """Ours to theirs, where they differ; what is not there cannot be said. None: the same."""
    in_capitals: bool = False
    """Its words are capitals, which the tool makes of others."""
    off: str | None = None
    """The flag that says no, where a bare flag says yes."""
    times: str | None = None
    """Theirs is ours times this setting."""
    but: str = ""
    """A value that it says with other keys, by a meaning."""
    joined: bool = False
    """Several names are one text, with commas between them."""
    spelled: Callable[[Any], Any] | None = None
    """How ours is written, where the tool has another form of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return all of its names."""
        return (self.name, *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Values of settings that a tool says with one or more keys."""

    sets: Mapping[str, Any]
    keys: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a tool of several engines says of one of them."""

    keys: tuple[Key, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    unsaid: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def __add__(self, other: Share) -> Share:
        return Share(
            keys=self.keys + other.keys,
            meanings=self.meanings + other.meanings,
            unsaid={**self.unsaid, **other.unsaid},
            ignored=self.ignored + other.ignored,
        )


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool's own way to describe a job."""

    name: str
    title: str
    syntax: Syntax
    engines: tuple[str, ...]
    """Engines of configs that it runs; the first one is what its files are read as."""
    called: Mapping[str, Any] = field(default_factory=dict)
    """Settings by which a config says that this tool runs it, among those that run its engine."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """Settings that a config has to have to be written so, as those that name a training loop of its own."""
    requires: tuple[str, ...] = ()
    """Settings that a config has to have to be written so, whatever their values."""
    written: Callable[[Any], Mapping[str, Any]] | None = None
    """Keys that several settings of a config give together."""
    code: Callable[[Any, Mapping[str, Any]], str] | None = None
    """Returns a config and its keys as Python, where the tool reads that; nothing for a job whose release reads files
    of its syntax."""
    otherwise: Callable[[Any], Mapping[str, Any]] | None = None
    """Returns keys for what a config leaves open, where a file that says nothing of them means something else."""
    knows: Callable[[Any], bool] | None = None
    """Returns whether it has a config's model, where it runs no others."""
    placed: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Its keys as the file has them, from the words that `normalized` makes of them."""
    adapters: tuple[str, ...] = ()
    """Kinds of adapters that `written` has keys for."""
    loads: Callable[[Any], Any] | None = None
    """Returns a config of what the tool loads as it is: a repository of weights in the config's format."""
    wants: Callable[[Any], Mapping[str, str]] | None = None
    """Returns, by path, what the tool needs besides the text in order to start."""
    implementations: tuple[str, ...] | None = None
    """Whose layers it runs; None is any."""
    keys: tuple[Key, ...]
    meanings: tuple[Meaning, ...] = ()
    tells: tuple[str, ...]
    """Keys by any of which its files are known, perhaps with certain values, or where other keys are not there.

    `stage=sft|dpo`, and `save_safetensors!base_model`.
    """
    program: str = ""
    """How its command line begins; the model follows where the tool takes it so."""
    launch: str = ""
    """How it is started on several GPUs, with names in braces: `all` of them, `nodes`, `each` node's, and the file."""
    launch_of: Callable[[Any], str] | None = None
    """Returns how a config is started, where that is not the same for all; as `launch`, the numbers of GPUs only where
    they are in it."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Programs for other architectures than the usual one."""
    model: str | None = None
    """The key of the model, or `*` where it follows the program."""
    tag: str = ""
    """The setting that follows the model's name behind a colon."""
    model_as: Callable[[str, str | None], Mapping[str, str]] | None = None
    """How a model and the value of `tag` are written, where that is not the name alone."""
    dimensions: Mapping[str, str] = field(default_factory=dict)
    """Keys that describe the network itself, and the keys of a model that they are."""
    described: Callable[[Any], Mapping[str, Any] | None] | None = None
    """Returns the model of a config as one whose keys `dimensions` are, where those describe all of it."""
    family: str = ""
    """The model_type of such a network, where that is not the tool's name."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What its absent keys mean, where that is not what a missing setting means."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Keys without which it runs nothing, whatever the job."""
    without: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What to say where a setting is absent, if the tool would take it to be there."""
    models: Mapping[str, Mapping[str, Any]] | None = None
    """Models that it knows by names of its own, by hub id, and the keys that name them."""
    implied: Mapping[str, Mapping[Any, Mapping[str, Any]]] = field(default_factory=dict)
    """Settings that follow from others: by value, what the others are then."""
    unsaid: Mapping[str, Any] = field(default_factory=dict)
    """What it does where a setting is not said, if that is not what an estimate takes; None where releases differ."""
    fixed: tuple[str, ...] = ()
    """Settings that its loop has whatever a file says, and that an estimate takes otherwise without naming them."""
    ignored: tuple[str, ...] = ()
    """Keys that memory does not depend on; `a.*` is all below."""
    normalized: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], tuple[str, ...]]] | None = None
    """What its keys mean together where that takes more than a table, and notes on it."""
    settles: tuple[str, ...] = ()
    """Keys that `normalized` reads; `a*` is all that begin so."""
    switches: frozenset[str] = frozenset()
    """Keys for which 1 and `yes` are true, and 0 and `no` are false."""
    vocabulary: tuple[str, ...] = ()
    """Tables of all of its keys (`data/keys/`)."""
    read_only: bool = False
    """Its files are read, and no config is written as one."""
    closed: bool = False
    """It takes no other keys than those."""
    alongside: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    """For keys that mean nothing alone, the key that they need as well, and its value; a list is added to another."""
    only_with: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that mean in a config what they do to the tool only where others have these values."""
    world: tuple[str, ...] = ()
    """Keys whose product is the number of GPUs."""
    batch: str = ""
    """The key of the sequences of a step on all GPUs."""
    shares_batch: bool = False
    """The sequences of a step are shared by ranks and micro-batches where those of a micro-batch are not said."""
    cuts_batch: bool = False
    """A micro-batch is cut to the sequences that a rank has in a step, and the last one may be smaller."""
    experts_apart: bool = False
    """Ranks that share experts are neither shards nor copies: the groups' sizes multiply to all GPUs."""
    copies: str = ""
    """The key of the groups that each hold all shards."""
    per_chunk: str = ""
    """The key of the layers in a chunk of a pipeline stage."""
    abbreviates: bool = False
    """A flag that only one of its flags begins with is that (`argparse`, `allow_abbrev`)."""
    takes_file: bool = False
    """Its program takes a file of its flags, without dashes (`--config`)."""
    prefixes: tuple[str, ...] = ()
    """Programs by which a command line is known."""
    served: tuple[Served, ...] = ()
    """Classes and functions of Python that do what its program does."""
    source: str

    @property
    def file(self) -> str:
        """Return what its file is called."""
        return self.file_in(self.syntax)

    def file_in(self, syntax: Syntax) -> str:
        """Return what its file in a syntax is called."""
        apart = "_job" if syntax == "python" else ""  # a module called as the package would hide it
        return f"{self.name}{apart}.{_ENDINGS[syntax]}"

    @cached_property
    def named(self) -> Mapping[str, str]:
        """Return what it calls each setting, by path: the first of its names."""
        found: dict[str, str] = {}
        for key in sorted(self.keys, key=lambda key: key.name.startswith("*")):  # a name of ours stands for several
            found.setdefault(key.path, key.name)
        for meaning in self.meanings:
            for path in meaning.sets:
                for name in meaning.keys:
                    found.setdefault(path, name)
        return found
