"""Commands in files that start containers: compose, Kubernetes, dstack, llama-swap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOLD = ("services", "commands", "apiVersion", "kind", "containers", "models", "spec", "cmd")
"""Keys at the top of such files."""
_IMAGES: Mapping[str, str] = {"vllm": "vllm serve", "llama": "llama-server", "sglang": "sglang.launch_server"}
"""What an image runs where its command begins with a flag: its entry point."""
_PROGRAM = re.compile(r"vllm serve|vllm\.entrypoints|sglang\.launch_server|trtllm-serve|llama-server|llama-cli")
_COMMANDS = ("command", "commands", "args", "cmd")
_DEEPEST = 12


def commands(content: Mapping[Any, Any]) -> str | None:
    """The shell script that a file of containers amounts to; None for a file of something else.

    >>> commands({"services": {"a": {"image": "vllm/vllm-openai", "command": "--model org/m --port 1"}}})
    'vllm serve "--model" "org/m" "--port" "1"'
    """
    if not any(key in content for key in _TOLD):
        return None
    found = list(_scripts(content, 0))
    return "\n".join(found) if found else None


def _scripts(content: object, deep: int) -> Iterator[str]:
    if deep > _DEEPEST:
        return
    if isinstance(content, Mapping):
        own = [content[name] for name in _COMMANDS if content.get(name)]
        if own and all(_is_command(each) for each in own):
            yield "".join(_variables(content)) + _run(content, own)
        else:
            for value in content.values():
                yield from _scripts(value, deep + 1)
    elif isinstance(content, list):
        for value in content:
            yield from _scripts(value, deep + 1)


def _is_command(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(each, str | int | float) for each in value)
    )


def _run(content: Mapping[Any, Any], own: list[Any]) -> str:
    """One container's command: a script is taken as it is, words are quoted."""
    lists = [each if isinstance(each, list) else each.split() if "\n" not in each else [each] for each in own]
    words = [str(word).replace("$$", "$") for each in lists for word in each]
    if content.get("commands"):
        return "\n".join(words)
    script = next((word for word in words if "\n" in word.strip() or word.count(" --") > 1), None)
    if script is not None:
        return script
    image, entry = str(content.get("image", "")), str(content.get("entrypoint") or "")
    named = _PROGRAM.search(entry)
    program = named[0] if named else next((program for name, program in _IMAGES.items() if name in image), "")
    start = f"{program} " if words and words[0].startswith("-") else ""
    return start + " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """A word for the shell, in which variables count."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{escaped}"'


def _variables(content: Mapping[Any, Any]) -> Iterator[str]:
    """Assignments of a container's environment."""
    for name in ("env", "environment"):
        given = content.get(name)
        pairs = given.items() if isinstance(given, Mapping) else [_pair(each) for each in given or ()]
        for key, value in pairs:
            if re.fullmatch(r"\w+", str(key)) and isinstance(value, str | int) and "$" not in str(value):
                yield f'{key}="{value}"\n'


def _pair(each: object) -> tuple[str, object]:
    if isinstance(each, Mapping):
        return str(each.get("name", "")), each.get("value")
    name, _, value = str(each).partition("=")
    return name, value
