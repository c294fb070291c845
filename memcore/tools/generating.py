"""Scripts that load a model of transformers and generate with it, without a trainer and without a server.

Sources: transformers 5.23, pipelines/__init__.py (`pipeline`: a model by its name is loaded with what is in
`model_kwargs`, its dtype and `device_map`), generation/utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memcore.formats.python import Call
from memcore.messages import Message
from memcore.tools.altered import OPTIMIZERS
from memcore.tools.loads import BITS, loads_unread, of_loads

_TASKS = ("text-generation", "image-text-to-text", "text2text-generation", "summarization", "translation",
          "any-to-any", "automatic-speech-recognition", "image-to-text")  # fmt: skip
"""Pipelines that generate."""
_PIPELINE, _GENERATE = "pipeline", "generate"
_TRAINS = ("backward", "fit", "get_peft_model", *OPTIMIZERS)
"""Calls of a training loop, which is another job than what it generates in between."""
_LENGTHS = ("max_new_tokens", "max_length")
_TAKEN = ("torch_dtype", "dtype", "attn_implementation", *BITS)
_TOLD = (_GENERATE, _PIPELINE, "GenerationConfig")
PROGRAM = "generate()"


def of_generation(found: Sequence[Call]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return what a script says of a model that it generates with, and notes; None for a script that does not."""
    pipes = [each for each in found if each.name == _PIPELINE and _task(each) in _TASKS]
    trains = any(each.name in _TRAINS or each.name.endswith("Trainer") for each in found)
    if trains or not (pipes or any(each.name == _GENERATE and each.of for each in found)):
        return None
    loads = of_loads(found, [], named=False, trained=())
    loads |= {name: value for each in pipes for name, value in _of_pipeline(each).items() if name not in loads}
    model = loads.get("model_name_or_path")
    if model is None:
        return None
    keys: dict[str, Any] = {"": PROGRAM, "model": model, **_stored(loads)}
    keys |= {name: loads[name] for name in ("attn_implementation",) if name in loads}
    said = [each.arguments for each in found if each.name in _TOLD or (not each.of and {*_LENGTHS} & {*each.arguments})]
    lengths, notes = _lengths(said)
    batch = next((each["batch_size"] for each in said if "batch_size" in each), None)
    if batch is None:
        notes.append(
            Message("texts that are generated at once are not read: one is counted; give it with {}", "--batch")
        )
    keys |= lengths | ({} if batch is None else {"batch_size": batch})
    keys |= {"use_cache": False} if any(each.get("use_cache") is False for each in said) else {}
    return keys, (*notes, *loads_unread(found, ()))


def _lengths(said: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[Message]]:
    """Return the longest of the lengths that calls are told, or what nobody knows if none is known; and notes."""
    keys: dict[str, Any] = {}
    notes: list[Message] = []
    for name in _LENGTHS:
        every = [each[name] for each in said if each.get(name) is not None]
        known = {each for each in every if isinstance(each, int)}
        keys |= {name: max(known)} if known else {name: every[0]} if every else {}
        if len(known) > 1:
            notes.append(Message("{}: the longest of several is counted: {}", name, max(known)))
    if not keys:
        notes.append(Message("tokens to generate are not read; give it with {}", "--output"))
    return keys, notes


def _task(call: Call) -> object:
    """Return the task of a pipeline; text generation where only a model is named."""
    return call.arguments.get("task", call.first if call.first is not None else _TASKS[0])


def _of_pipeline(call: Call) -> dict[str, Any]:
    """Return how a pipeline loads the model that it knows by its name."""
    inner = call.arguments.get("model_kwargs")
    given = {**call.arguments, **(inner if isinstance(inner, Mapping) else {})}
    model = given.get("model", call.places[1] if len(call.places) > 1 else None)
    named = {"model_name_or_path": model} if isinstance(model, str) and not model.startswith("$") else {}
    return named | {name: given[name] for name in _TAKEN if name in given}


def _stored(loads: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type of the weights: bits of bitsandbytes, or a dtype that is not the checkpoint's own."""
    if loads.get(BITS[0]) is True:
        return {"quantization": "nf4-double" if loads.get("use_bnb_nested_quant") is True else "nf4"}
    if loads.get(BITS[1]) is True:
        return {"quantization": "int8"}
    dtype = loads.get("torch_dtype", loads.get("dtype"))
    return {} if dtype in (None, "auto") else {"dtype": dtype}
