"""Fields of classes and arguments of command lines, read from syntax trees."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LONGEST = 60
"""Characters of a default that is an expression."""


class Field(NamedTuple):
    """A key as its tool declares it."""

    type: str
    default: Any
    """A JSON value; a text that begins with `=` is an expression that only the tool can compute."""


class Classes:
    """Every class of some files, by name."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        for text in texts.values():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                    self.constants.setdefault(node.targets[0].id, node.value)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                    self.constants.setdefault(node.target.id, node.value)

    def fields(self, name: str, nested: bool = False, above: str = "", depth: int = 0) -> dict[str, Field]:
        """Fields of a class and of those it derives from; of the classes of its fields too, if `nested`, dotted."""
        found: dict[str, Field] = {}
        node = self.classes[name]
        for base in reversed(node.bases):
            text = ast.unparse(base).rpartition(".")[2].partition("[")[0]
            if text in self.classes and text != name:
                found |= self.fields(text, nested, above, depth)
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                key, typed = each.target.id, ast.unparse(each.annotation)
                if key.startswith("_") or key == "model_config" or "ClassVar" in typed:
                    continue
                for one in (key, _alias(each.value) or key):
                    found[f"{above}{one}"] = Field(_short(typed), self.default(each.value, name))
                for inner in re.findall(r"\w+", typed) if nested and depth < 3 else ():
                    if inner in self.classes and inner != name and not _is_enum(self.classes[inner]):
                        found |= self.fields(inner, nested, f"{above}{key}.", depth + 1)
        return found

    def default(self, node: ast.expr | None, within: str = "") -> Any:
        """The value of a default, as far as the source says it."""
        if node is None:
            return "=required"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("field", "Field", "pydantic_field", "HfArg", "Annotated"):
                return self._of_field(node, within)
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            return self._named(node, within)
        return value if value is None or isinstance(value, bool | int | float | str) else _plain(value)

    def _of_field(self, node: ast.Call, within: str) -> Any:
        given = {each.arg: each.value for each in node.keywords}
        if "default" in given:
            return self.default(given["default"], within)
        factory = given.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return self.default(factory.body, within)
        if factory is not None:
            text = ast.unparse(factory)
            return {"list": [], "dict": {}}.get(text, f"={text}")
        if node.args and not (isinstance(node.args[0], ast.Constant) and node.args[0].value is Ellipsis):
            return self.default(node.args[0], within)
        return "=required"

    def _named(self, node: ast.expr, within: str) -> Any:
        if isinstance(node, ast.Name) and node.id in self.constants and self.constants[node.id] is not node:
            other = self.constants[node.id]
            if isinstance(other, ast.Constant):
                return self.default(other, within)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.classes:
            owner = self.classes[node.value.id]
            for each in owner.body:
                if (
                    isinstance(each, ast.AnnAssign)
                    and isinstance(each.target, ast.Name)
                    and each.target.id == node.attr
                ):
                    return self.default(each.value, node.value.id)
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.attr:
                    return self.default(each.value, node.value.id)
        return f"={ast.unparse(node)[:LONGEST]}"


def _alias(node: ast.expr | None) -> str | None:
    """The name under which pydantic reads a field, where that is another."""
    for each in node.keywords if isinstance(node, ast.Call) else ():
        if each.arg == "alias" and isinstance(each.value, ast.Constant):
            return str(each.value.value)
    return None


def _is_enum(node: ast.ClassDef) -> bool:
    return any("Enum" in ast.unparse(base) for base in node.bases)


def _plain(value: object) -> Any:
    return (
        list(value)
        if isinstance(value, tuple | set | list) and len(str(value)) <= LONGEST
        else f"={str(value)[:LONGEST]}"
    )


def _short(annotation: str) -> str:
    """A type without what says how it is documented."""
    text = re.sub(r"^(?:Annotated|A)\[(.+?), (?:'|\"|Arg\().*\]$", r"\1", annotation.replace("\n", " "))
    text = re.sub(r"Optional\[(.*)\]$", r"\1 | None", text)
    return text.replace("typing.", "")[:LONGEST]


def arguments(texts: Mapping[str, str], known: Classes) -> Iterator[tuple[str, Field]]:
    """Flags that `add_argument` declares, each of its names, with type and default."""
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("add_argument"):
                continue
            names = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            given = {each.arg: each.value for each in node.keywords if each.arg}
            action = ast.unparse(given["action"]).strip("'") if "action" in given else ""
            default = {"store_true": False, "store_false": True}.get(action)
            if "default" in given:
                default = known.default(given["default"])
            typed = "bool" if action.startswith("store_") else ast.unparse(given["type"]) if "type" in given else "str"
            yield from ((name, Field(_short(typed), default)) for name in names if name.startswith("-"))


_FLAGS_OF_CPP = re.compile(r"\{\s*((?:\"-[\w-]+\"\s*,?\s*)+)\}")


def flags_of_cpp(texts: Mapping[str, str]) -> Iterator[tuple[str, Field]]:
    """Flags that llama.cpp's `add_opt(common_arg({"-x", "--y"}, …))` declares; their defaults are in C++."""
    for text in texts.values():
        for names in _FLAGS_OF_CPP.findall(text):
            yield from ((name, Field("flag", "=C++")) for name in re.findall(r"\"(-[\w-]+)\"", names))


_CLAP = re.compile(r"#\[clap\(([^\]]*\blong\b[^\]]*)\)\]\s*(\w+): ([^\n]+),\n")


_DEFAULT = re.compile(r"default_value = \"(?!/)([^\"]*)\"")
"""Places on the machine that it runs on are no defaults worth keeping."""


def flags_of_rust(texts: Mapping[str, str]) -> Iterator[tuple[str, Field]]:
    """Flags that `#[clap(long)]` declares, above fields of a struct."""
    for text in texts.values():
        for attribute, name, typed in _CLAP.findall(text):
            default = _DEFAULT.search(attribute)
            yield f"--{name.replace('_', '-')}", Field(typed, default[1] if default else None)


_GO_STRUCT = re.compile(r"type (?:Options|Runner) struct \{\n(.*?)\n\}", re.DOTALL)
_GO_TAG = re.compile(r"^\t(\w+) +(\S+) +`json:\"(\w+)", re.MULTILINE)
_GO_DEFAULT = re.compile(r"^\t+(\w+): +(-?[\d.]+),$", re.MULTILINE)


def options_of_go(texts: Mapping[str, str]) -> Iterator[tuple[str, Field]]:
    """Options of a model that Ollama's API declares, with the defaults of `DefaultOptions`."""
    for text in texts.values():
        defaults = dict(_GO_DEFAULT.findall(text.partition("func DefaultOptions")[2].partition("\n}")[0]))
        for struct in _GO_STRUCT.findall(text):
            yield from (
                (tag, Field(typed, _word(defaults.get(name, "null")))) for name, typed, tag in _GO_TAG.findall(struct)
            )


_DECLARED = re.compile(r"^      ([a-z_]+):\n((?:        .*\n)*)", re.MULTILINE)
_REFERENCES = {
    "llm.yaml": ("  __init__:\n", "\n  generate:"),
    "trtllm_serve_cli.yaml": ("  serve:\n", "\n  disaggregated:"),
}
"""What begins and what ends the part that declares keys."""


def keys_of_references(texts: Mapping[str, str]) -> Iterator[tuple[str, Field]]:
    """What TensorRT-LLM's own tests hold its interfaces against: arguments of a class, flags, fields of configs."""
    for path, text in texts.items():
        if path.endswith(".json"):
            fields = [each["path"] for rows in json.loads(text).values() for each in rows]
            yield from ((name, Field("any", None)) for name in fields if "." in name)
            continue
        begins, ends = _REFERENCES[path.rpartition("/")[2]]
        for name, body in _DECLARED.findall(text.partition(begins)[2].partition(ends)[0] + "\n"):
            default = re.search(r"default: *(.+)", body)
            value = None if default is None else _word(default[1].strip("\"'"))
            for each in re.findall(r"- \"(--[\w-]+)\"", body) or [name]:
                yield each, Field("any", value)


def _word(text: str) -> Any:
    """A plain value of YAML."""
    words = {"null": None, "true": True, "false": False, "True": True, "False": False}
    return words[text] if text in words else int(text) if text.isdigit() else text


_YAML_KEY = re.compile(r"^( *)([A-Za-z_][\w.-]*) *:(?: +(.*))?$")


def keys_of_yaml(texts: Mapping[str, str]) -> Iterator[tuple[str, Field]]:
    """Dotted keys of block mappings, for tools whose only schema is the configs that they ship."""
    for text in texts.values():
        above: list[tuple[int, str]] = []
        for line in text.splitlines():
            matched = _YAML_KEY.match(line)
            if matched is None:
                continue
            indent, name = len(matched[1]), matched[2]
            while above and above[-1][0] >= indent:
                above.pop()
            yield ".".join([*(each for _, each in above), name]), Field("any", "=of each config")
            above.append((indent, name))


def keys_of_groups(texts: Mapping[str, str]) -> Iterator[tuple[str, Field]]:
    """The same of a config that Hydra composes: a file of a group's folder has the keys below the group's name."""
    for path, text in texts.items():
        folder = path.split("/")[-2]
        start = "" if folder == "config" else f"{folder}."
        yield from ((f"{start}{name}", field) for name, field in keys_of_yaml({path: text}))
