"""Every tool whose files are known, and the one that runs a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.formats.tool import Tool
from memcore.tools.fine_tuning import ACCELERATE, AXOLOTL, LLAMA_FACTORY, TRAINER
from memcore.tools.litgpt import LITGPT
from memcore.tools.peft import PEFT
from memcore.tools.swift import LLAMA_FACTORY_V1, MS_SWIFT
from memcore.tools.unsloth import UNSLOTH

TOOLS: Mapping[str, Tool] = {
    each.name: each
    for each in (
        PEFT, *registry.tools(), LITGPT, LLAMA_FACTORY_V1, AXOLOTL, MS_SWIFT, LLAMA_FACTORY, UNSLOTH, TRAINER,
        ACCELERATE,
    )
}  # fmt: skip
"""By name, in the order in which a file is compared with them."""


LOOPS: Mapping[str, tuple[Tool, ...]] = {
    "axolotl": (AXOLOTL,),
    "llama-factory": (LLAMA_FACTORY,),
    "ms-swift": (MS_SWIFT, TOOLS["megatron-swift"]),
    "megatron-bridge": (TOOLS["megatron-bridge"],),
    "torchtune": (TOOLS["torchtune"],),
}
"""Tools whose files say how a training loop runs, by its name (`engine.framework`)."""


def runs(tool: Tool, config: Config) -> bool:
    """Return whether a tool runs the engine of a config."""
    fits = (config[EngineSettings.type] or "none") in tool.engines and (tool.knows is None or tool.knows(config))
    return fits and not tool.read_only and _is_loop(tool, config)


def _is_loop(tool: Tool, config: Config) -> bool:
    """Whether a tool that is a training loop of its own is the one that a config names."""
    has = all(config.get(path) is not None for path in tool.requires)
    return has and all(config.get(path) == value for path, value in tool.needs.items())


def loops_of(config: Config) -> Iterator[Tool]:
    """Yield training loops that run a config once it names them, where it names none."""
    if config[EngineSettings.framework] is None:
        named = (each for loop in LOOPS.values() for each in loop if each.needs)
        yield from (each for each in named if runs(each, config.changed(each.needs)))


def needed_by(tool: Tool) -> Mapping[str, object]:
    """Return the settings that a tool implies: its engine unless it also runs without one, its layers, its needs."""
    found: dict[str, object] = dict(tool.needs)
    if "none" not in tool.engines:
        found[EngineSettings.type] = tool.engines[0]
    if tool.implementations is not None and len(tool.implementations) == 1:
        found[Training.implementation] = tool.implementations[0]
    return found


def is_called(tool: Tool, config: Config) -> bool:
    """Return whether a config names a tool by its settings."""
    return bool(tool.called) and all(config.get(path) == value for path, value in tool.called.items())


def tool_of(config: Config, brought: Tool | None = None) -> Tool:
    """The tool that runs a config: its engine's own, torchtitan for its layers, else a Hugging Face script.

    `brought` is the tool whose file the job came in; where it runs the config too, it goes before them, as does the
    training loop that the config names.
    """
    engine = config[EngineSettings.type] or "none"
    implementation = config[Training.implementation] or "transformers"
    if brought is not None and runs(brought, config):
        return brought
    loop = next((each for each in LOOPS.get(config[EngineSettings.framework] or "", ()) if runs(each, config)), None)
    if loop is not None:
        return loop
    named = next((each for each in TOOLS.values() if is_called(each, config) and runs(each, config)), None)
    if named is not None:
        return named
    for tool in (*TOOLS.values(), TRAINER):
        fits = _is_loop(tool, config) and (tool.implementations is None or implementation in tool.implementations)
        if (
            engine in tool.engines
            and fits
            and not tool.read_only
            and tool not in (PEFT, AXOLOTL, MS_SWIFT, LLAMA_FACTORY_V1, LLAMA_FACTORY)
        ):
            return tool
    return TRAINER


def tools_of(config: Config, brought: Tool | None = None) -> Iterator[Tool]:
    """Yield the tool that runs a config, and other training loops where nobody has named one."""
    first = tool_of(config, brought)
    yield first
    if brought is None and config[EngineSettings.framework] is None:
        loops = {each.name: each for loop in LOOPS.values() for each in loop}
        others = {name: each for name, each in {**loops, **TOOLS}.items() if name != first.name}
        yield from (each for each in others.values() if each is not PEFT and runs(each, config))
