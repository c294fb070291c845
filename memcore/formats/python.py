"""Python scripts and notebooks as far as they say what a library is called with. Nothing is run.

A call's keyword arguments count where they are literals, names that the script gives one literal, or arithmetic of
these. What nobody knows stands as `$name`, which whoever needs the value asks for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from memcore.errors import ConfigError
from memcore.formats.assignments import (
    alike_all,
    block_of,
    constructors,
    end_of,
    made_by,
    of_classes,
    one_after_another,
    otherwise_given,
    own_attribute,
    part_kept,
    sifts,
)
from memcore.formats.expressions import (
    BUILTINS,
    COMPARED,
    OPERATIONS,
    asks,
    is_open,
    item_of,
    names_it,
    of_builtin,
    of_method,
    path_of,
    plainly,
    size,
    takes,
    turns,
)
from memcore.formats.notebooks import tree_of
from memcore.formats.objects import Objects, alive, constant, last, options, settle
from memcore.formats.scopes import Scopes, part_of
from memcore.formats.shell import variable_given
from memcore.formats.tracked import Deed, Touch, touches
from memcore.limits import NESTING
from memcore.records import dataclass

_OF_GPU: Mapping[str, object] = {
    "is_bfloat16_supported": True, "is_bf16_supported": True, "get_device_capability": [8, 0],
}  # fmt: skip
"""What a script hears of a GPU with bf16."""
_HAS_GPU = "torch.cuda.is_available"
_TORCH: Mapping[str, str] = {"half": "float16", "float": "float32"}
"""Other names of dtypes (torch/__init__.py)."""
_SWITCHES: Mapping[object, bool] = {"store_true": False, "store_false": True}
"""What options are that only switch something, unless somebody does (Lib/argparse.py)."""
_OF_TEXTS: Mapping[str, tuple[int, ...]] = {
    "split": (0, 1), "lower": (0,), "upper": (0,), "strip": (0, 1), "replace": (2,), "startswith": (1,),
    "endswith": (1,),
}  # fmt: skip
"""Methods of texts, and how many arguments they may have."""
_FETCHES = "snapshot_download"
"""What brings a repository here, whose folder stands for it (huggingface_hub, modelscope)."""
_REMOVING = frozenset({"pop", "popitem", "clear", "setdefault"})
_JOINING = frozenset({"Path", "PurePath", "join", "joinpath"})
_LARGEST, _LARGE, LONGEST = 2**63, 4096, 2**20
"""Of a number, of the parts of a value, and of the letters of a script."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a class or function."""

    name: str
    """Its last name: `from_pretrained`."""
    of: str
    """What it is called on: `FastLanguageModel`; empty for nothing."""
    line: int
    arguments: Mapping[str, Any]
    first: Any = None
    """Its first argument, where that has no keyword."""
    hidden: tuple[str, ...] = ()
    """Names of mappings that hold further arguments, which nobody knows."""
    into: str = ""
    """The name that its result is first assigned to."""
    maybe: bool = False
    """Whether only the run decides on it: it stands below a condition."""
    places: tuple[Any, ...] = ()
    """Its arguments without a keyword."""


@dataclass(frozen=True, slots=True)
class Change(Deed):
    """A deed with what is known of its values."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the method; for a part that is set, its name and its value, `$` and the name if only the run decides that."""
    first: Any = None


_NOBODYS = "$EXPRESSION"
"""The value of an expression without a name, which nobody knows."""
FREEZES, PARSED, CUTS, STEPS = "requires_grad_", "parse_args", "[:]", "%"
"""Names of calls that switch gradients off or on, of those that stand for a class which a command line fills, of those
that cut tokens, and of those that update after several batches."""
_ACCUMULATES = "gradient_accumulation_steps"
_TOKENS = "input_ids"


def calls(code: str) -> list[Call]:
    r"""The calls of a script in the order of its lines, those below `if False` left out.

    >>> [(each.name, each.arguments) for each in calls("n = 2\nf(a=n * 8, b=torch.bfloat16, c=g())")]
    [('f', {'a': 16, 'b': 'bfloat16', 'c': '$g'}), ('g', {})]

    Raises ConfigError for what is no Python.
    """
    return followed(code)[0]


def followed(code: str, makes: Callable[[str, str], str] | None = None) -> tuple[list[Call], list[Change]]:
    """Return the calls of a script, and what it does to objects; `makes` is the role of what a call makes.

    Raises ConfigError for what is no Python.
    """
    if len(code) > LONGEST:
        raise ConfigError.at("the file", "is longer than {} characters", f"{LONGEST:,}")
    try:
        tree = tree_of(code)
        settle(tree)
        known = Known(tree, Scopes(tree))
        never = known.never()
        nodes = [node for node in alive(tree, 0) if id(node) not in never]
        found = [known.call(node) for node in nodes if isinstance(node, ast.Call)]
        found += [frozen for node in nodes if isinstance(node, ast.Assign) and (frozen := known.frozen(node))]
        found += [cut for node in nodes if isinstance(node, ast.Subscript | ast.DictComp) and (cut := known.cut(node))]
        found += [steps for node in nodes if isinstance(node, ast.If) and (steps := known.steps(node))]
        found += known.parsed()
        changes = known.changes_of_objects(makes, never) if makes else []
    except SyntaxError as error:
        raise ConfigError.at("the file", "is not Python: line {}: {}", error.lineno or 0, error.msg) from None
    except (ValueError, RecursionError, MemoryError):
        raise ConfigError.at("the file", "is nested too deeply to be read") from None
    return sorted(found, key=lambda each: each.line), changes


@dataclass
class Known:
    """What names of a script stand for."""

    tree: ast.Module
    scopes: Scopes
    names: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    several: set[str] = field(default_factory=set)
    """Names that have other values elsewhere."""
    otherwise: set[str] = field(default_factory=set)
    """Names that are given values by something else than an assignment."""
    straight: dict[str, list[tuple[int, ast.expr]]] = field(default_factory=dict)
    """The values of names that are only given some one after another, each with its line."""
    functions: list[tuple[int, int]] = field(default_factory=list)
    """The first and the last lines of functions, whose calls may come at any time."""
    line: int = 0
    """Of the call that is looked at; 0 in a function."""
    objects: Objects = field(default_factory=Objects)
    given: dict[str, list[ast.expr]] = field(default_factory=dict)
    """All values that names are given, in the order of the script."""
    changes: list[tuple[str, str | None, ast.expr]] = field(default_factory=list)
    """Mappings, the keys that they are given after they are made, and the values; no key for another mapping."""
    loose: set[str] = field(default_factory=set)
    """Mappings that are changed in ways that only the run knows."""
    changing: set[str] = field(default_factory=set)
    """Mappings whose changes are looked at."""
    handed: set[str] = field(default_factory=set)
    """Parameters of functions that every call gives the same value."""
    placed: dict[tuple[str, int], Any] = field(default_factory=dict)
    """What `_of_scope` has found, by name and line."""
    below: dict[int, bool] | None = None
    """What `_branches` has found, while it looks too; None before."""

    def __post_init__(self) -> None:
        self.straight = one_after_another(self.tree)
        self.objects.find(self.tree)
        attributes = of_classes(self.tree)
        for node in alive(self.tree, 0):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                self.functions.append((node.lineno, node.end_lineno or node.lineno))
            if node not in attributes:
                self._note(node)
        self.otherwise = otherwise_given(self.tree)
        self.several |= self.otherwise & self.names.keys()
        self.names |= {f"args.{name}": constant(value) for name, value in options().items()}
        self._hand_over()
        self.found, self.placed, self.below = {}, {}, None  # with what is known now

    def _note(self, node: ast.AST) -> None:
        """Record what a statement, a function or a call gives names."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.Delete):
            self.loose |= {last(each.value) for each in node.targets if isinstance(each, ast.Subscript)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for name, default in zip(given, node.args.defaults, strict=True):
                self.names.setdefault(name.arg, default)
        elif isinstance(node, ast.Call):
            self._called(node)

    def _hand_over(self) -> None:
        """What functions are called with stands for their parameters, where every call that may run says the same.

        So do values that a script gives options which nobody has given.
        """
        known = {each.name: each for each in alive(self.tree, 0) if isinstance(each, ast.FunctionDef)}
        made = constructors(self.tree)
        given: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in alive(self.tree, 0):
            if not isinstance(node, ast.Call):
                self._fill_in(node)
                continue
            function = known.get(last(node.func))
            function = function if function is not None and takes(function, node) else made.get(made_by(node))
            if function is None:
                continue
            names = [each.arg for each in function.args.args if each.arg != "self"]
            said = dict(zip(names, node.args, strict=False))
            inner = [self.value(each.value, 0) for each in node.keywords if each.arg is None]
            said |= {
                name: plainly(name, value) for each in inner if isinstance(each, dict) for name, value in each.items()
            }
            unsaid = zip(names[len(names) - len(function.args.defaults) :], function.args.defaults, strict=False)
            said = {**dict(unsaid), **said, **{each.arg: each.value for each in node.keywords if each.arg}}
            for name, value in said.items():
                if not (isinstance(value, ast.Name) and value.id == name):  # else it is the caller's own
                    given.setdefault(name, []).append((id(node), value))
        defaults = {id(each) for function in known.values() for each in function.args.defaults}
        for name, every in given.items():
            free = name not in self.names or id(self.names[name]) in defaults
            below = self._branches() if free and not alike_all(value for _, value in every) else {}
            values = [value for node, value in every if below.get(node) is not False]
            alike = alike_all(values)
            if free and alike and not isinstance(values[0], ast.Starred):
                self.names[name] = values[0]
                self.handed |= set() if id(values[0]) in defaults else {name}
            elif free and values and not alike:
                self.several.add(name)

    def _fill_in(self, node: ast.AST) -> None:
        """An option that nobody has given is what the script gives it: `if args.a is None: args.a = 1`."""
        test = node.test if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Is):
            return
        for each in node.body:
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == ast.unparse(test.left):
                name = f"args.{last(test.left)}"
                said = self.names.get(name)
                if isinstance(said, ast.Constant) and said.value is None and isinstance(test.left, ast.Attribute):
                    self.names[name] = each.value

    def _called(self, node: ast.Call) -> None:
        """An option of a command line, or what makes a mapping longer: `a.update(b=1)`."""
        if last(node.func) == "add_argument":
            self._option(node)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            if node.func.attr == "update":
                self._updated(node.func.value.id, node)
            elif node.func.attr in _REMOVING:
                self.loose.add(node.func.value.id)

    def _updated(self, name: str, node: ast.Call) -> None:
        given = [(each.arg, each.value) for each in node.keywords]
        for each in node.args:
            literal = isinstance(each, ast.Dict) and all(isinstance(key, ast.Constant) for key in each.keys)
            pairs = zip(each.keys, each.values, strict=True) if isinstance(each, ast.Dict) and literal else ()
            given += [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
            given += [] if literal else [(None, each)]
        self.changes += [(name, key, value) for key, value in given]

    def _changed(self, name: str, line: int) -> dict[str, Any]:
        """What a mapping is given after it is made, before a line; `$` and the key where only the run decides."""
        if name in self.changing:
            return {}
        changes = [each for each in self.changes if each[0] == name and each[2].lineno < line]
        self.changing.add(name)
        below = self._branches() if changes else {}
        said: dict[str, Any] = {}
        for _, key, value in changes:
            found = self.value(value, 0)
            if below.get(id(value), True) and key is not None:
                said[key] = f"${key}" if id(value) in below else found
            elif isinstance(found, dict) and id(value) not in below:
                said |= found
            elif below.get(id(value), True):
                self.loose.add(name)
        self.changing.discard(name)
        return said

    def _branches(self) -> dict[int, bool]:
        """Return whether only the run decides on a node below a condition, by its `id`; False for what never runs."""
        if self.below is not None:
            return self.below
        here, self.below = self.line, {}
        for node in alive(self.tree, 0):
            if isinstance(node, ast.If | ast.IfExp):
                self.line = 0 if self._within(node) else node.lineno
                test = self.value(node.test, 0)
                for branch, taken in ((node.body, True), (node.orelse, False)):
                    left = None if is_open(test) else bool(test) is taken
                    parts = branch if isinstance(branch, list) else [branch]
                    inner = () if left is True else (id(each) for one in parts for each in alive(one, 0))
                    self.below |= {each: left is None and self.below.get(each, True) for each in inner}
        self.line = here
        return self.below

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            self.changes += [(target.value.id, key, value)] if isinstance(key, str) else []
            self.loose |= set() if isinstance(key, str) else {target.value.id}
        known = isinstance(value, ast.Tuple) or (isinstance(value, ast.Call) and bool(self.scopes.returned(value)))
        several = target.elts if isinstance(target, ast.Tuple) and known else []
        for at, each in enumerate(several):
            self._assign(each, part_of(value, at, len(several)))
        name = target.id if isinstance(target, ast.Name) else own_attribute(target)
        if not name or sifts(value, name):
            return
        if name in self.names and ast.dump(self.names[name]) != ast.dump(value):
            self.several.add(name)
        self.given.setdefault(name, []).append(value)
        self.names[name] = value

    def _option(self, node: ast.Call) -> None:
        """An option of a command line, whose default is its value unless somebody gives another."""
        said = {each.arg: each.value for each in node.keywords}
        action = said.get("action")
        switch = _SWITCHES.get(action.value) if isinstance(action, ast.Constant) else None
        default = said.get("default", None if switch is None else ast.Constant(switch))
        names = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        place = said.get("dest")
        name = (
            place.value if isinstance(place, ast.Constant) else next((each for each in names if each[:2] == "--"), "")
        )
        if default is not None and name:
            self.names[f"args.{str(name).lstrip('-').replace('-', '_')}"] = default

    def frozen(self, node: ast.Assign) -> Call | None:
        """Return `p.requires_grad = False` as the call that does the same; None for another assignment."""
        target = node.targets[0]
        if not isinstance(target, ast.Attribute) or target.attr != FREEZES.rstrip("_"):
            return None
        self.line = 0 if self._within(node) else node.lineno
        return Call(FREEZES, last(target.value), node.lineno, {}, first=self.value(node.value, 0))

    def cut(self, node: ast.Subscript | ast.DictComp) -> Call | None:
        """Return `input_ids[:512]`, or blocks of as many, as the call of a tokenizer that truncates so; else None."""
        part = block_of(node) if isinstance(node, ast.DictComp) else end_of(node, _TOKENS)
        if part is None:
            return None
        length = self.value(part, 0)
        whole = isinstance(length, int) and length > 0
        return Call(CUTS, _TOKENS, node.lineno, {"truncation": True, "max_length": length}) if whole else None

    def steps(self, node: ast.If) -> Call | None:
        """Return `if step % 4 == 0: optimizer.step()` as a call with that number; None for another condition."""
        if not any(
            isinstance(each, ast.Call) and last(each.func) == "step" for one in node.body for each in ast.walk(one)
        ):
            return None
        every = [
            each.right for each in ast.walk(node.test) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)
        ]
        number = self.value(every[0], 0) if len(every) == 1 else 0
        return Call(STEPS, "", node.lineno, {_ACCUMULATES: number}) if isinstance(number, int) and number > 1 else None

    def parsed(self) -> Iterator[Call]:
        """Yield the classes of the script's own that a command line fills, with the values that they begin with."""
        for name in self.objects.parsed:
            fields = {each: self.value(said, 0) for each, said in self.objects.fields.get(name, {}).items()}
            known = {each: value for each, value in fields.items() if not is_open(value)}
            yield Call(PARSED, self.objects.base(name), 0, known)

    def changes_of_objects(self, makes: Callable[[str, str], str], never: Collection[int]) -> list[Change]:
        """Return what is done to objects, with the values that are known."""
        base = self.objects.base
        found = touches(self.tree, lambda name, of: makes(base(name), base(self._class_of(of))), never)
        below = self._branches()
        return [self._change(each) for each in found if below.get(id(each.node), True)]

    def _change(self, touch: Touch) -> Change:
        node, arguments, first = touch.node, {}, None
        if touch.value is not None:
            self.line = 0 if self._within(touch.value) else touch.line
            left = self._branches().get(id(node), False)
            arguments = {touch.path[-1]: f"${touch.path[-1]}" if left else self.value(touch.value, 0)}
        elif isinstance(node, ast.Call):
            call = self.call(node)
            arguments, first = dict(call.arguments), call.first
        arguments |= self._kept(touch)
        return Change(touch.how, touch.role, touch.path, touch.line, touch.text, touch.made, touch.to, arguments, first)

    def _kept(self, touch: Touch) -> dict[str, Any]:
        """Return the bounds and the step of the part of a list that an object keeps of it, or loses."""
        deleted = touch.node.targets[0] if isinstance(touch.node, ast.Delete) else None
        part = next((each for node in (touch.value, deleted) if node and (each := part_kept(node)) is not None), None)
        if part is None:
            return {}
        bounds = [None if each is None else self.value(each, 0) for each in (part.lower, part.upper, part.step)]
        whole = all(each is None or (type(each) is int and abs(each) < _LARGE) for each in bounds) and bounds[2] != 0
        return {CUTS: bounds} if whole else {}

    def _within(self, node: ast.stmt | ast.expr) -> bool:
        """Return whether a node is in a function."""
        return any(first <= node.lineno <= last for first, last in self.functions)

    def never(self) -> set[int]:
        """The nodes below expressions that an option of the command line leaves out: `A() if args.a else None`."""
        found: set[int] = set()
        for node in alive(self.tree, 0):
            if isinstance(node, ast.IfExp | ast.If):
                test = self.value(node.test, 0)
                if not is_open(test) and asks(node.test, self.handed):
                    rest = node.orelse if test else node.body
                    below = rest if isinstance(rest, list) else [rest]
                    found |= {id(inner) for each in below for inner in alive(each, 0)}
        return found | {node for node, runs in self._branches().items() if runs is False}

    def call(self, node: ast.Call) -> Call:
        """A call with what is known of its arguments."""
        self.line = 0 if self._within(node) else node.lineno
        arguments: dict[str, Any] = {}
        hidden = []
        for each in node.keywords:
            value = self.value(each.value, 0)
            if each.arg is not None:
                arguments[each.arg] = f"${each.arg}" if value == _NOBODYS else value
            elif isinstance(value, dict):
                arguments |= value
                hidden += sorted({each.id for each in ast.walk(each.value) if isinstance(each, ast.Name)} & self.loose)
            else:
                hidden.append(str(value).lstrip("$"))
        hidden += [last(each.value) for each in node.args if isinstance(each, ast.Starred)]
        places = tuple(self.value(each, 0) for each in node.args if not isinstance(each, ast.Starred))
        first = places[0] if places and not isinstance(node.args[0], ast.Starred) else None
        of = self.objects.base(self._class_of(last(node.func.value))) if isinstance(node.func, ast.Attribute) else ""
        name = last(node.func)
        own = self.objects.fields.get(name, {}) if self.objects.base(name) != name else {}
        arguments = {each: self.value(said, 0) for each, said in own.items()} | arguments
        name = self.objects.base(name)
        into, maybe = self.objects.given.get(id(node), ""), self._branches().get(id(node), False)
        return Call(name, of, node.lineno, arguments, first, tuple(hidden), into, maybe, places)

    def _class_of(self, name: str) -> str:
        """Return the class that a name stands for, if the script gives it one: `kind = AutoModelForCausalLM`."""
        found = (
            self.value(self.names[name], 0)
            if isinstance(self.names.get(name), ast.Name | ast.Attribute | ast.IfExp)
            else ""
        )
        return found[1:] if is_open(found) and found[1:2].isupper() else name

    def value(self, node: ast.expr, deep: int) -> Any:
        """Return what an expression is; `$name` for one that nobody knows."""
        if deep > NESTING:
            return "$NESTED"
        found = self._literal(node, deep + 1)
        if isinstance(found, list | dict | str) and size(found) > _LARGE:
            return "$LARGE"
        if found is not NotImplemented:
            return found
        return f"${last(node)}" if last(node) else _NOBODYS

    def _literal(self, node: ast.expr, deep: int) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self.value(each, deep) for each in node.elts]
        if isinstance(node, ast.Dict):
            return self._mapping(node, deep)
        if isinstance(node, ast.Name):
            found = "__main__" if node.id == "__name__" else self._named(node.id, deep, node.lineno)
            return {**found, **self._changed(node.id, node.lineno)} if isinstance(found, dict) else found
        if isinstance(node, ast.Attribute):
            return self._attribute(node, deep)
        if isinstance(node, ast.Call):
            own = self.scopes.returned(node)
            found = "$" if own is None else self.value(own, deep)
            return self._result(node, deep) if is_open(found) else found
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            left, right = self.value(node.left, deep), self.value(node.comparators[0], deep)
            try:
                return NotImplemented if is_open(left) or is_open(right) else COMPARED[type(node.ops[0])](left, right)
            except TypeError:
                return NotImplemented
        if isinstance(node, ast.Subscript):
            return self._item(last(node.value), self.value(node.slice, deep), node.value, deep)
        return self._computed(node, deep)

    def _item(self, name: str, key: Any, of: ast.expr, deep: int) -> Any:
        """Return an item of a mapping or a list; of a library's table by their names."""
        if name == "environ":
            return self._variable([key])
        found = item_of(self.value(of, deep), key)
        constant = name.isupper() and isinstance(key, str) and not is_open(key)
        return f"${name}.{key}" if found is NotImplemented and constant else found

    def _mapping(self, node: ast.Dict, deep: int) -> dict[str, Any]:
        """A mapping with those that are unpacked in it."""
        found: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            said = self.value(value, deep)
            name = None if key is None else self.value(key, deep)
            if isinstance(name, str):
                found[name] = said
            elif key is None and isinstance(said, dict):
                found |= said
        return found

    def _named(self, name: str, deep: int, line: int = 0) -> Any:
        """Return what a name stands for, looked up once; a name that stands for itself is nobody's."""
        if name in self.several:
            found = self._at_this_line(name, deep)
            return self._of_scope(name, deep, line) if found is NotImplemented and line else found
        if name not in self.names:
            return NotImplemented
        if name not in self.found:
            self.found[name] = f"${name}"
            self.found[name] = self.value(self.names[name], deep)
        return self.found[name]

    def _at_this_line(self, name: str, deep: int) -> Any:
        """The value that a name has before the line of a call, if it is given others only one after another."""
        here = self.line
        before = [each for each in self.straight.get(name, ()) if each[0] < here]
        if not before:
            return self._of_branch(name, deep)
        self.line, value = before[-1]
        found = self.value(value, deep)
        self.line = here
        return found

    def _of_branch(self, name: str, deep: int) -> Any:
        """Return the value that the only branch which runs gives a name."""
        below = self._branches()
        runs = [each for each in self.given.get(name, ()) if below.get(id(each), None) is not False]
        decided = len(runs) == 1 and not below.get(id(runs[0])) and name not in self.otherwise
        return self.value(runs[0], deep) if decided else NotImplemented

    def _of_scope(self, name: str, deep: int, line: int) -> Any:
        """Return the value that the statements before a line give a name, in the function that it is in."""
        at = (name, line)
        if at not in self.placed:
            self.placed[at] = NotImplemented
            value = self.scopes.value_at(name, line, lambda test, said: self._holds(name, test, said, deep))
            if value is not None:
                here, self.line = self.line, 0 if self._within(value) else value.lineno
                found, self.line = self.value(value, deep), here
                self.placed[at] = NotImplemented if found == _NOBODYS else found
        return self.placed[at]

    def _holds(self, name: str, test: ast.expr, value: ast.expr | None, deep: int) -> bool | None:
        """Return whether a condition holds while a name has a value; None where nobody knows."""
        if value is None and names_it(test, name):
            return None
        before = self.names, self.several, self.found
        self.names, self.several, self.found = dict(self.names), self.several - {name}, {}
        self.names |= {} if value is None else {name: value}
        found = self.value(test, deep + 1)
        self.names, self.several, self.found = before
        return None if is_open(found) else bool(found)

    def _attribute(self, node: ast.Attribute, deep: int) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "torch":
            return _TORCH.get(node.attr, node.attr)
        of = node.value.id if isinstance(node.value, ast.Name) else ""
        if own_attribute(node) in self.names:
            return self._named(own_attribute(node), deep)
        if ("arg" in of or of in self.objects.namespaces) and f"args.{node.attr}" in self.names:
            return self._named(f"args.{node.attr}", deep)
        handed = self.names.get(of, node.value)
        said = self.objects.attribute(last(handed) if isinstance(handed, ast.Name) else last(node.value), node.attr)
        return NotImplemented if said is None else self.value(said, deep)

    def _result(self, node: ast.Call, deep: int) -> Any:
        """Return what a call gives, where that is known without it."""
        name = last(node.func)
        values = [self.value(each, deep) for each in node.args]
        if name in _OF_GPU or ast.unparse(node.func) == _HAS_GPU:
            return _OF_GPU.get(name, True)
        if name == "getattr" and values[:1] == ["$torch"] and isinstance(values[-1], str):
            return values[-1]
        asked = name == "getenv" or (name == "get" and "environ" in ast.dump(node.func))
        if asked and values and isinstance(values[0], str):
            return self._variable(values)
        if name == _FETCHES:
            named = [self.value(each.value, deep) for each in node.keywords if each.arg in ("repo_id", "model_id")]
            return [*values, *named, NotImplemented][0]
        if name in BUILTINS and isinstance(node.func, ast.Name):
            return of_builtin(name, values)
        if isinstance(node.func, ast.Attribute) and (name == "get" or len(values) in _OF_TEXTS.get(name, ())):
            return of_method(self.value(node.func.value, deep), name, values)
        if name in _JOINING and len(values) > (name == "join" and "path" not in ast.dump(node.func)):
            return path_of(values)
        if name == "dict" and not values:
            keys: list[ast.expr | None] = [ast.Constant(each.arg) if each.arg else None for each in node.keywords]
            return self._mapping(ast.Dict(keys, [each.value for each in node.keywords]), deep)
        return NotImplemented

    @staticmethod
    def _variable(values: Sequence[Any]) -> Any:
        """Return a variable of the environment by its name, or what is said where nobody gives it."""
        given = variable_given(values[0]) if isinstance(values[0], str) else None
        return given if given is not None else values[1] if len(values) > 1 else f"${values[0]}"

    def _chosen(self, node: ast.BoolOp | ast.IfExp, deep: int) -> Any:
        """Return the value that decides `A or B`, or that a condition chooses."""
        if isinstance(node, ast.IfExp):
            test = self.value(node.test, deep)
            return NotImplemented if is_open(test) else self.value(node.body if test else node.orelse, deep)
        value = None
        for each in node.values:
            value = self.value(each, deep)
            if is_open(value) or bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _computed(self, node: ast.expr, deep: int) -> Any:
        if isinstance(node, ast.UnaryOp):
            value = self.value(node.operand, deep)
            if isinstance(node.op, ast.Not) and not is_open(value):
                return not value
            return -value if isinstance(node.op, ast.USub) and isinstance(value, int | float) else NotImplemented
        if isinstance(node, ast.BoolOp | ast.IfExp):
            return self._chosen(node, deep)
        if isinstance(node, ast.ListComp):
            every = turns(node, self.value(node.generators[0].iter, deep))
            return NotImplemented if every is None else [self.value(each, deep) for each in every]
        if isinstance(node, ast.JoinedStr):
            inner = [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
            parts = [self.value(each, deep) for each in inner]
            if len(parts) > 1 and is_open(parts[0]) and str(parts[1]).startswith("/"):
                parts[0] = "."  # below a folder that nobody knows
            plain = all(isinstance(each, int | float | str) and not is_open(each) for each in parts)
            return NotImplemented if not plain else "".join(map(str, parts))
        return self._binary(node, deep) if isinstance(node, ast.BinOp) else NotImplemented

    def _binary(self, node: ast.BinOp, deep: int) -> Any:
        """Return a sum, product or quotient of numbers, a joined text, list or mapping, or a path."""
        left, right = self.value(node.left, deep), self.value(node.right, deep)
        if isinstance(node.op, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
            return {**left, **right}
        if isinstance(node.op, ast.Div) and isinstance(right, str):
            return path_of([left, right])
        kinds = (str, list) if isinstance(node.op, ast.Add) else ()
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        longer = any(isinstance(left, kind) and isinstance(right, kind) for kind in kinds)
        if type(node.op) not in OPERATIONS or not (numbers or longer) or is_open(left) or is_open(right):
            return NotImplemented
        try:
            found = OPERATIONS[type(node.op)](left, right)
        except (ZeroDivisionError, OverflowError):
            return NotImplemented
        return found if longer or abs(found) < _LARGEST else NotImplemented
