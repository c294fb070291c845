"""Scripts that load a model of transformers and generate with it, without a trainer and without a server.

Sources: transformers 5.23, pipelines/__init__.py (`pipeline`: a model by its name is loaded with what is in
`model_kwargs`, its dtype and `device_map`), generation/utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memcore.errors import UnsupportedError
from memcore.formats.expressions import is_open
from memcore.formats.python import Call, Change
from memcore.formats.tracked import SETS
from memcore.messages import Message
from memcore.tools.altered import OPTIMIZERS
from memcore.tools.loads import BITS, loads_unread, of_loads, other_bits

_TASKS = ("text-generation", "image-text-to-text", "text2text-generation", "summarization", "translation",
          "any-to-any", "automatic-speech-recognition", "image-to-text")  # fmt: skip
"""Pipelines that generate."""
_PIPELINE, _GENERATE = "pipeline", "generate"
_TRAINS = ("backward", "get_peft_model", *OPTIMIZERS)
"""Calls of a training loop, which is another job than what it generates in between."""
_LENGTHS = ("max_new_tokens", "max_length")
_TAKEN = ("torch_dtype", "dtype", "attn_implementation", *BITS)
_CONFIG, _PART = "GenerationConfig", "generation_config"
_TOKENIZES = frozenset({"return_tensors", "truncation", "padding"})
"""Arguments by which a tokenizer's call is known; its `max_length` is that of the prompt."""
_SEVERAL = ("num_beams", "num_return_sequences")
"""How many sequences each text becomes: the larger of both (`_expand_inputs_for_generation`)."""
PROGRAM = "generate()"


def of_generation(found: Sequence[Call], changes: Sequence[Change]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return what a script says of a model that it generates with, and notes; None for a script that does not."""
    pipes = [each for each in found if each.name == _PIPELINE and _task(each) in _TASKS]
    trains = any(each.name in _TRAINS or each.name.endswith("Trainer") or _fits(each) for each in found)
    if trains or not (pipes or any(each.name == _GENERATE and each.of for each in found)):
        return None
    loads, made = of_loads(found, [], changes, named=False, generates=True)
    loads |= {name: value for each in pipes for name, value in _of_pipeline(each).items() if name not in loads}
    model = loads.get("model_name_or_path") if made is None else made.model
    if model is None:
        return None
    keys: dict[str, Any] = {"": PROGRAM, "model": model, **_stored(loads), **_few_bits(found, loads)}
    keys |= {name: loads[name] for name in ("attn_implementation",) if name in loads}
    texts = [each for each in found if not each.of and _TOKENIZES & {*each.arguments}]
    said = [each.arguments for each in found if _tells(each) and each not in texts]
    said += [each.arguments for each in changes if each.how == SETS and each.path[:-1] == (_PART,)]
    lengths, notes = _lengths(said)
    prompt = _prompt(texts)
    notes += [] if prompt or "max_length" in lengths else [Message(_UNREAD, "--prompt")]
    lengths |= prompt
    batch = _batch(said, texts)
    if batch is None:
        notes.append(
            Message("texts that are generated at once are not read: one is counted; give it with {}", "--batch")
        )
    several = max([each[name] for each in said for name in _SEVERAL if type(each.get(name)) is int], default=1)
    batch = batch if several < 2 else several * (batch if isinstance(batch, int) else 1)
    keys |= lengths | ({} if batch is None else {"batch_size": batch})
    keys |= {"use_cache": False} if any(each.get("use_cache") is False for each in said) else {}
    return keys, (*notes, *loads_unread(found, (), made))


_ELSEWHERE: Mapping[str, str] = {
    "init_inference": "vllm",
    "mii": "vllm",
    **dict.fromkeys(
        ("SentenceTransformerTrainer", "SentenceTransformerTrainingArguments", "CrossEncoderTrainer"),
        "transformers.Trainer",
    ),
}
"""Functions, classes and modules that run a model in ways of their own, and what comes nearest: DeepSpeed's inference
with its kernels and ranks, DeepSpeed-MII, sentence-transformers."""


def refuse_others(found: Sequence[Call]) -> None:
    """Raise UnsupportedError for a script that runs its model with a library which is not supported."""
    for name, nearest in _ELSEWHERE.items():
        line = next((each.line for each in found if name in (each.name, each.of)), None)
        if line is not None:
            message = "found in line {}; this library is not supported yet; the nearest is {}"
            raise UnsupportedError(name, message, line, nearest)


_INT4: Mapping[object, str] = {4: "int4", 8: "w8a16"}
_WEIGHTS: Mapping[object, str] = {"int8": "int8", "int4": "int4", "float8": "fp8-channel"}
_OF_TORCHAO = re.compile(r"(int4|int8|float8)_?(?:weight_?only|dynamic)", re.IGNORECASE)
_FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "GPTQConfig": lambda given: "gptq" if given.get("bits") == 4 else _INT4.get(given.get("bits")),
    "AwqConfig": lambda given: "awq" if given.get("bits", 4) == 4 else None,
    "HqqConfig": lambda given: _INT4.get(given.get("nbits", 4)),
    "QuantoConfig": lambda given: _WEIGHTS.get(given.get("weights", "int8")),
    "EetqConfig": lambda given: "int8",
    "FineGrainedFP8Config": lambda given: "fp8-block",
    "FbgemmFp8Config": lambda given: "fp8-channel",
    "Mxfp4Config": lambda given: "mxfp4",
}
"""The format of the weights that each of transformers' configs makes (utils/quantization_config.py)."""


def _few_bits(found: Sequence[Call], loads: Mapping[str, Any]) -> dict[str, Any]:
    """Return the format of weights that are quantized while they are loaded, by another library than bitsandbytes.

    torchao names its formats by texts or by classes. Raises UnsupportedError for one that is not known.
    """
    made = other_bits(found, loads)
    if made is None:
        return {}
    kinds = f"{made.first or ''} {made.arguments.get('quant_type', '')}"
    named = _OF_TORCHAO.search(kinds) if made.name == "TorchAoConfig" else None
    plain = _FORMATS[made.name](made.arguments) if made.name in _FORMATS else None
    form = _WEIGHTS[named[1].lower()] if named else plain
    if form is None:
        message = "found in line {}; this value is not supported yet; leave it out to count 16-bit weights"
        raise UnsupportedError(made.name, message, made.line)
    return {"quantization": form}


def _fits(call: Call) -> bool:
    """Return whether a call trains as a trainer of Lightning's or a model of Keras' does."""
    return call.name == "fit" and ("trainer" in call.of.lower() or "model" in call.of.lower())


def _tells(call: Call) -> bool:
    """Return whether a call says how to generate."""
    made = call.name in (_GENERATE, _PIPELINE, _CONFIG) or (call.name == "from_pretrained" and call.of == _CONFIG)
    return made or (not call.of and bool({*_LENGTHS} & {*call.arguments}))


def _prompt(texts: Sequence[Call]) -> dict[str, Any]:
    """Return the length to which a tokenizer cuts prompts."""
    cut = [each.arguments.get("max_length") for each in texts if each.arguments.get("truncation") not in (None, False)]
    known = [each for each in cut if type(each) is int]
    return {"prompt_length": max(known)} if known else {}


_UNREAD = "the prompt's length is not read: the longest that fits the model is counted; give it with {}"


def _batch(said: Sequence[Mapping[str, Any]], texts: Sequence[Call]) -> Any:
    """Return the sequences that a pipeline takes at once, or the texts that a script lists for its tokenizer."""
    listed = [len(each.first) for each in texts if isinstance(each.first, list) and each.first
              and all(isinstance(one, str) and not is_open(one) for one in each.first)]  # fmt: skip
    return next((each["batch_size"] for each in said if "batch_size" in each), max(listed, default=None))


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
