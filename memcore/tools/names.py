"""What people who run an engine write to set a setting: a key of its tool's, else the argument or call of its API.

The latter are in the modules of engines that are named `spelling`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from memcore import registry
from memcore.config.settings import SETTINGS, Config
from memcore.formats.tool import Tool
from memcore.tools.fine_tuning import TRAINER
from memcore.tools.table import TOOLS, tool_of


def shown_names(config: Config, engine: str) -> Mapping[str, str]:
    """Return the name of every setting for a form: memcore's own where the engine has none."""
    return _shown(tool_of(config).name, engine)


@lru_cache(maxsize=64)
def _shown(tool: str, engine: str) -> Mapping[str, str]:
    return {path: _called(TOOLS[tool], engine, path) or f"memcore --{each.flag}" for path, each in SETTINGS.items()}


@lru_cache(maxsize=1)
def known_as() -> Mapping[str, str]:
    """Everything that any tool calls each setting, and memcore's own flag for it, as one text by path.

    >>> "--recompute-granularity" in known_as()["training.activation_checkpointing.policy"]
    True
    """
    found: dict[str, dict[str, None]] = {path: {f"--{each.flag}": None, path: None} for path, each in SETTINGS.items()}
    for tool in TOOLS.values():
        pairs = [(key.path, key.name) for key in tool.keys]
        pairs += [(path, name) for each in tool.meanings for path in each.sets for name in each.keys]
        for path, name in (*pairs, *tool.named.items()):
            if path in found and name:
                found[path][name] = None
    for names in registry.merged("spelling", "TOOL_NAMES").values():
        for path, name in names.items():
            if path in found:
                found[path][name] = None
    return {path: " ".join(names) for path, names in found.items()}


def setting_called(name: str) -> str | None:
    """Return the one setting that a flag of any tool sets, or whose own name it is.

    >>> setting_called("--tensor-parallel-size"), setting_called("--learning-rate")
    ('parallelism.tensor_parallel_size', None)
    """
    wanted = _plain(name)
    own = [path for path in SETTINGS if _plain(path.rpartition(".")[2]) == wanted]
    found = own or [path for path, names in known_as().items() if wanted in map(_plain, names.split())]
    return found[0] if len(found) == 1 else None


def _plain(name: str) -> str:
    """Without what tells flags of different tools apart."""
    return re.sub(r"[-_.]+", "-", name.lower()).strip("-")


def name_of(config: Config, engine: str, path: str) -> str:
    """Return what a setting is called where a job runs; empty for what only a plan knows, such as the size of the GPU.

    >>> name_of(Config.from_dict({"model": "gpt2"}), "fsdp", "training.reduce_dtype")
    'MixedPrecisionPolicy(reduce_dtype=)'
    """
    return _called(tool_of(config), engine, path)


def _called(tool: Tool, engine: str, path: str) -> str:
    # A tool for anyone's layers says its own part; transformers' Trainer says the rest.
    trained = TRAINER.named if tool.implementations is None and engine in TRAINER.engines else {}
    for names in (tool.named, _own(engine), trained):
        found = names.get(path, "")
        if found and not found.startswith("*"):
            return found
    return ""


def _own(engine: str) -> Mapping[str, str]:
    """Arguments and calls that set what the engine's tool has no key for."""
    module = registry.engine_module(engine, "spelling") if engine in registry.ENGINES else None
    table: Mapping[str, Mapping[str, str]] = getattr(module, "TOOL_NAMES", {})
    return table.get(engine, {})
