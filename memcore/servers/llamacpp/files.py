"""llama.cpp's command line, and what names of GGUF files and repositories say.

Source: llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from memcore.config.hardware import Hardware
from memcore.formats.normalized import GPUS, Normalized
from memcore.formats.shell import ENVIRONMENT
from memcore.formats.tool import Key, Tool
from memcore.messages import Message
from memcore.networks.catalog import find_model, known, named
from memcore.servers.llamacpp.gguf_tensors import layers_in_order
from memcore.servers.llamacpp.projector import has_towers
from memcore.servers.llamacpp.python import SERVED
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.serving.gguf_mixes import WIDER, plain_type
from memcore.serving.inference import Inference

_DEVICE, WEIGHTS = "--device", "*weights"
"""The key of the format that a file's name says is the second."""


def _devices(count: int) -> str | None:
    """Return llama.cpp's names of `count` GPUs; without them it uses all that it finds, at most 16 (ggml-cuda.h).

    >>> _devices(2)
    'CUDA0,CUDA1'
    """
    return ",".join(f"CUDA{number}" for number in range(count)) if count <= 16 else None


_FORMAT = re.compile(
    r"(?:[-.]i1)?[-_.*](?:ud-)?((?:i?q\d\w*)|bf16|fp?16|fp?32|mxfp4\w*)\*?(?:-\d{1,6}-of-\d{1,6})?\.gguf$",
    re.IGNORECASE,
)
"""The format that the name of a GGUF file, or a pattern of names, ends with."""


def weights_of(text: str, notes: list[Message]) -> str:
    """Return a format in the words of llama-quantize; what is computed as another one is noted."""
    found = plain_type(text)
    if found in WIDER:
        message = "{} is computed as {}: such files keep some tensors in wider types, a few percent more"
        notes.append(Message(message, found, WIDER[found]))
    return WIDER.get(found, found)


def of_gguf(path: str, flag: str = "-m") -> tuple[dict[str, Any], list[Message]]:
    """Return what the name of a GGUF file says: its format, and the model if the catalog knows it."""
    name = path.replace("\\", "/").rpartition("/")[2]
    file = _FORMAT.search(name)
    notes: list[Message] = []
    if file is None:
        return {}, [
            Message("{}: the name {} does not say which format it is; give it with {}", flag, name, _ASKED[flag])
        ] if name else []
    said: dict[str, Any] = {WEIGHTS: weights_of(file[1], notes)}
    model = named(name[: file.start()])
    if model is None:
        unknown = "{}: no model in the catalog is called {}; give it with {}"
        return said, [*notes, Message(unknown, flag, name[: file.start()], _MODELS[flag])]
    return {**said, "-hf": model.base}, [
        *notes,
        Message("{}: {} is assumed to be {}, from its name", flag, name, model.base),
    ]


_ASKED: Mapping[str, str] = {"-m": "--quantization", "-md": "--draft-quantization"}
"""What says the format of a file whose name does not."""
_MODELS: Mapping[str, str] = {"-m": "--model", "-md": "--draft-model"}
"""What names the model of such a file."""
_DRAFT, _DRAFT_WEIGHTS = "-hfd", "*draft-weights"
_DRAFT_FILES = ("-md", "--model-draft", "--spec-draft-model")
_DRAFT_HUB = ("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf")


def _drafted(normalized: dict[str, Any], notes: list[Message]) -> dict[str, Any]:
    """Return the draft model with the format that its file or its repository's tag says."""
    file = next((str(normalized.pop(name)) for name in _DRAFT_FILES if name in normalized), None)
    hub = next((str(normalized.pop(name)) for name in _DRAFT_HUB if name in normalized), None)
    if hub is not None:
        found: list[Message] = []
        said = _of_repository({"-hf": hub}, found)
        notes += found
        normalized[_DRAFT] = said.get("-hf", hub)
    elif file is not None:
        said, found = of_gguf(file, "-md")
        notes += found
        normalized[_DRAFT] = said.get("-hf", file)
    else:
        return normalized
    return normalized | ({_DRAFT_WEIGHTS: said[WEIGHTS]} if WEIGHTS in said else {})


def _proposing(normalized: dict[str, Any]) -> dict[str, Any]:
    """`--spec-type`: a list of ways to propose tokens; lookups take nothing (common/speculative.cpp).

    ik_llama.cpp has a way's own settings behind a colon: `mtp:n_max=3,p_min=0.0` (common/common.cpp).
    """
    given = normalized.get(_TYPE)
    if given is None:
        return normalized
    way, colon, settings = str(given).partition(":")
    if colon:
        most = dict(each.partition("=")[::2] for each in settings.split(",")).get("n_max", "")
        own = {_DRAFTED: int(most)} if most.isdecimal() and not way.startswith("ngram") else {}
        normalized, given = {**own, **normalized}, way
    given = _SPELLED.get(str(given), given)
    named = [each.strip() for each in str(given).split(",") if not each.strip().startswith("ngram")]
    rest = [each for each in named if each != "none"]
    kept = {name: value for name, value in normalized.items() if name != _TYPE}
    if rest:
        return kept | {_TYPE: ",".join(rest)}
    return kept if "none" in named else kept | {_TYPE: "ngram-simple"}


_TYPE = "--spec-type"
_DRAFTED = "--draft-max"
_SPELLED: Mapping[str, str] = {"draft": "draft-simple", "mtp": "draft-mtp", "ngram": "ngram-simple"}
_PROMPTS = ("--cache-ram", "-cram")
"""Room for the caches of former prompts, on the host (tools/server/server-context.cpp, `server_prompt_cache`)."""
_REPOSITORY = re.compile(r"[-_.]((?:i?q\d\w*)|bf16|f16|f32)(?:-gguf)?$", re.IGNORECASE)
"""The format that the name of a repository ends with, which has no other files."""
_FILES = ("--hf-file", "-hff")
_VISIBLE = f"{ENVIRONMENT}CUDA_VISIBLE_DEVICES"
_NUMBERED = re.compile(r"\d{1,3}(?:,\d{1,3})*")


_USUAL: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers"), ("all", "auto", -1)),
    **dict.fromkeys(("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"), ("all", "auto", -1)),
    **dict.fromkeys(("-c", "--ctx-size"), (0,)),
}
"""As many layers as there are (common/arg.cpp), and the model's own context (common/common.h)."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """llama.cpp's arguments with the format of the weights apart from the repository, and GPUs counted."""
    normalized = dict(found)
    for long, short in (("--hf-repo", "-hf"), ("-hfr", "-hf"), ("--model", "-m")):
        if long in normalized:
            normalized[short] = normalized.pop(long)
    said, notes = of_gguf(str(normalized.get("-m", "")))
    normalized = {**said, **normalized}
    if "-hf" in said:
        del normalized["-m"]  # it was read
    for name in _FLASH:
        if name in normalized:
            normalized[name] = _SWITCHED.get(str(normalized[name]).lower(), normalized[name])
    normalized = {name: value for name, value in normalized.items() if value not in _USUAL.get(name, ())}
    normalized = _proposing(_drafted(normalized, notes))
    kept = next((normalized.pop(name) for name in _PROMPTS if name in normalized), 0)
    if isinstance(kept, int) and kept > 0:
        notes.append(Message("{}: {} MiB of host memory for the prompt cache, no GPU memory", _PROMPTS[0], kept))
    if "-hf" in normalized and not said and "-m" not in normalized:
        normalized |= _of_repository(normalized, notes)
    normalized = _with_experts_moved(_with_towers(normalized, notes), notes)
    devices = str(normalized.get(_DEVICE, normalized.get("-dev", normalized.get(_VISIBLE, "")))).split(",")
    if all(each.startswith("CUDA") or _NUMBERED.fullmatch(each) for each in devices):
        normalized = {key: value for key, value in normalized.items() if key not in (_DEVICE, "-dev")} | {
            GPUS: len(devices)
        }
    elif devices == [""] and (shares := str(normalized.get("-ts", normalized.get("--tensor-split", "")))):
        normalized = {GPUS: len(re.split("[,/]", shares)), **normalized}
    return normalized, tuple(notes)


_TOWERS, _AUTO, _ON_GPU = "--mmproj", "--mmproj-auto", "--mmproj-offload"
_OFF, _URLS = ("--no-mmproj", "--no-mmproj-auto"), ("--mmproj-url", "-mmu", "-mm")
_OF_TOWERS = (*_OFF, *_URLS, _AUTO, _ON_GPU, "--no-mmproj-offload")
_HALF = "f16"
_TYPE_OF_TOWERS = re.compile(r"(bf16|f16|fp16|f32|fp32|q8_0)", re.IGNORECASE)


def _as_projector(name: str) -> str:
    """Return a file of towers, as repositories call it."""
    return f"mmproj-{name.upper()}.gguf"


def type_of_towers(file: object) -> str:
    """Return the type that the name of a file of towers says; else F16, which most are.

    >>> type_of_towers("mmproj-model-bf16.gguf"), type_of_towers("mmproj.gguf")
    ('bf16', 'f16')
    """
    found = _TYPE_OF_TOWERS.search(str(file).rpartition("/")[2])
    return found[1].lower().replace("fp", "f") if found else _HALF


def _with_towers(normalized: dict[str, Any], notes: list[Message]) -> dict[str, Any]:
    """Return the arguments with the type of the file of towers, which `-hf` brings along (common/arg.cpp).

    Without it on a GPU, towers are on the host.
    """
    urls = next((normalized.pop(name) for name in _URLS if name in normalized), None)
    file = normalized.pop(_TOWERS, urls)
    off = any(normalized.pop(name, False) for name in _OFF) or normalized.pop(_AUTO, True) is False
    on_host = normalized.pop(f"--no-{_ON_GPU[2:]}", False) or normalized.pop(_ON_GPU, True) is False
    brings = file is None and not off and "-m" not in normalized and "GGUF" in str(normalized.get("-hf", "")).upper()
    if file is None and not (brings and _sees(str(normalized["-hf"]))):
        return normalized
    if on_host:
        notes.append(Message("{}: towers stay on the host and are not counted", f"--no-{_ON_GPU[2:]}"))
        return normalized
    if file is None:
        notes.append(Message("-hf: brings the towers of {} along, assumed to be in F16; --no-mmproj leaves them out",
                             normalized["-hf"]))  # fmt: skip
    notes.append(Message("{}: what encoding a picture takes is not counted", _TOWERS))
    return {**normalized, _TOWERS: type_of_towers(file)}


def _sees(model: str) -> bool:
    """Return whether a repository's model has towers."""
    return known(model) and has_towers(find_model(model))


_FLASH = ("-fa", "--flash-attn")
_SWITCHED: Mapping[str, str] = {
    **dict.fromkeys(("1", "true", "enabled"), "on"), **dict.fromkeys(("0", "false", "disabled"), "off"),
}  # fmt: skip
"""What stands for yes and no (common/arg.cpp, `is_truthy`, `is_falsey`)."""
_OVERRIDES, _EVERY_EXPERT = ("-ot", "--override-tensor"), ("-cmoe", "--cpu-moe")
_MOVES = (*_OVERRIDES, *_EVERY_EXPERT, "-ncmoe")
_LAYERS = 1000
"""More layers than a network has; `--n-cpu-moe` takes as many as there are."""


def _with_experts_moved(normalized: dict[str, Any], notes: list[Message]) -> dict[str, Any]:
    """Return the arguments with the layers whose experts stay on the host as a number, however they are given."""
    patterns = any(name in normalized for name in _OVERRIDES)
    layers = _with_experts(str(normalized.get("-hf", ""))) if patterns else ()
    moved, first = _experts_moved(normalized, layers)
    if moved is None:
        return normalized
    if not first:
        notes.append(
            Message("{}: as many layers as the patterns match are counted, from the first one on", _OVERRIDES[1])
        )
    return {name: value for name, value in normalized.items() if name not in _MOVES} | {"--n-cpu-moe": moved}


def _experts_moved(found: Mapping[str, Any], layers: Sequence[int]) -> tuple[int | None, bool]:
    r"""Of how many layers the experts stay on the host, and whether these are the first ones.

    None where nothing says it, or patterns move something else. `layers` are those of the model that have experts, none
    where nobody knows the model. Patterns name tensors, the first that is found in a name decides
    (src/llama-model-loader.cpp, `create_tensor`).

    >>> _experts_moved({"-ot": r"blk\.(0|1|2)\.ffn_.*_exps.*=CPU"}, ()), _experts_moved({"-ot": "exps=CPU"}, range(48))
    ((3, True), (1000, True))
    >>> even = {"-ot": r"blk\.([0-9]*[02468])\.ffn_.*_exps\.=CPU"}
    >>> _experts_moved(even, range(48)), _experts_moved(even, range(3, 61)), _experts_moved(even, ())
    ((24, False), (32, False), (None, False))
    >>> _experts_moved({"--cpu-moe": True}, ()), _experts_moved({"-ot": "attn=CPU"}, ())
    ((1000, True), (None, False))
    """
    if any(found.get(name) for name in _EVERY_EXPERT):
        return _LAYERS, True
    given = next((found[name] for name in _OVERRIDES if name in found), None)
    if given is None:
        return None, False
    rules = [rule.rpartition("=") for each in (given if isinstance(given, list) else [given]) for rule in _rules(each)]
    try:
        patterns = [(re.compile(pattern), device) for pattern, _, device in rules]
    except re.error:
        return None, False

    def on_host(tensor: str) -> bool:
        return next((device for pattern, device in patterns if pattern.search(tensor)), "") == "CPU"

    if any(on_host(f"{layer}.{tensor}.weight") for layer in ("blk.0", "blk.40") for tensor in ("attn_q", "ffn_norm")):
        return None, False
    there = layers or range(_LAYERS)
    moved = [{on_host(f"blk.{each}.ffn_{part}_exps.weight") for part in ("up", "gate", "down")} for each in there]
    count = moved.count({True})
    if {True, False} in moved or not count:
        return None, False
    if count == len(there):
        return _LAYERS, True
    if not layers and {True} in moved[_LAYERS // 2 :]:
        return None, False  # as many as the model has
    return there[count - 1] + 1, moved[:count].count({True}) == count


@lru_cache(maxsize=8)
def _with_experts(model: str) -> tuple[int, ...]:
    """Return the layers of a model that have experts; none of an unknown one.

    >>> _with_experts("Qwen/Qwen3-30B-A3B") == tuple(range(48)), _with_experts("Qwen/Qwen3-8B"), _with_experts("a/b")
    (True, (), ())
    """
    if not known(model):
        return ()
    return tuple(at for at, layer in enumerate(layers_in_order(find_model(model))) if layer.has_experts)


def _rules(text: object) -> list[str]:
    """Patterns with their devices, which commas separate outside of brackets."""
    found, depth = [""], 0
    for sign in str(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth <= 0:
            found.append("")
        else:
            found[-1] += sign
    return found


def _of_repository(found: Mapping[str, Any], notes: list[Message]) -> dict[str, Any]:
    """The repository, and the format that its tag, the file's name or its own name says (common/arg.cpp, `-hf`)."""
    whole = str(found["-hf"])
    name, colon, tag = whole.rpartition(":")
    if colon and "/" in name:
        return {"-hf": name, WEIGHTS: weights_of(tag, notes)}
    file = next((str(found[each]) for each in _FILES if each in found), None)
    said = _FORMAT.search(file) if file else _REPOSITORY.search(whole)
    return {WEIGHTS: weights_of(said[1], notes)} if said else {}


def as_file(name: str, weights: str | None) -> str:
    """Return a GGUF file of a model, as files are usually called.

    >>> as_file("Qwen/Qwen3-8B", "q8_0")
    './Qwen3-8B-Q8_0.gguf'
    """
    return f"./{name.rpartition('/')[2]}-{(weights or 'q4_k_m').upper()}.gguf"


def _model(name: str, weights: str | None) -> Mapping[str, str]:
    """A repository of GGUF files by its name, and any other model as its file: the hub has none in its repository.

    >>> _model("Qwen/Qwen3-8B", "q8_0"), _model("unsloth/Qwen3-8B-GGUF", None)
    ({'-m': './Qwen3-8B-Q8_0.gguf'}, {'-hf': 'unsloth/Qwen3-8B-GGUF'})
    """
    if "gguf" in name.lower():
        return {"-hf": name + (f":{weights.upper()}" if weights else "")}
    return {"-m": as_file(name, weights)}


LLAMA_CPP = Tool(
    name="llama.cpp",
    title="llama.cpp",
    syntax="argv",
    engines=("llama.cpp",),
    program="llama-server",
    prefixes=("llama-server", "llama-cli"),
    served=SERVED,
    tells=("-ngl", "--n-gpu-layers", "-ctk", "-ub", "--n-cpu-moe"),
    model="-hf",
    tag=Inference.quantization,
    model_as=_model,
    normalized=_normalized,
    settles=(*_EVERY_EXPERT, *_DRAFT_FILES, *_DRAFT_HUB, *_OF_TOWERS),
    unsaid={Inference.quantization: None},
    keys=(
        Key(path=Inference.quantization, name=WEIGHTS),
        Key(path=Hardware.num_gpus, name=_DEVICE, spelled=_devices),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(
            path=Inference.max_model_len, name="-c", also=("--ctx-size",), times=Inference.batch_size,
        ),
        Key(path=Inference.batch_size, name="-np", also=("--parallel",)),
        Key(path=LlamaCppSettings.n_batch, name="-b", also=("--batch-size",)),
        Key(path=LlamaCppSettings.n_ubatch, name="-ub", also=("--ubatch-size",)),
        Key(path=LlamaCppSettings.n_gpu_layers, name="-ngl", also=("--gpu-layers", "--n-gpu-layers")),
        Key(path=LlamaCppSettings.cache_type_k, name="-ctk", also=("--cache-type-k",)),
        Key(path=LlamaCppSettings.cache_type_v, name="-ctv", also=("--cache-type-v",)),
        Key(path=LlamaCppSettings.flash_attn, name="-fa", also=("--flash-attn",), values={True: "on", False: "off"}),
        Key(path=LlamaCppSettings.kv_unified, name="--kv-unified", also=("-kvu",), off="--no-kv-unified"),
        Key(path=LlamaCppSettings.swa_full, name="--swa-full", off=""),
        Key(path=LlamaCppSettings.split_mode, name="-sm", also=("--split-mode",)),
        Key(path=LlamaCppSettings.tensor_split, name="-ts", also=("--tensor-split",)),
        Key(path=LlamaCppSettings.n_cpu_moe, name="--n-cpu-moe", also=("-ncmoe",)),
        Key(path=LlamaCppSettings.mmproj, name=_TOWERS, spelled=_as_projector),
        Key(path=Inference.draft_model, name=_DRAFT),
        Key(path=LlamaCppSettings.draft_quantization, name=_DRAFT_WEIGHTS),
        Key(path=Inference.speculative_method, name=_TYPE, values=_SPELLED),
        Key(
            path=Inference.num_speculative_tokens, name=_DRAFTED,
            also=("--draft", "--draft-n", "--spec-draft-n-max"),
        ),
        Key(
            path=LlamaCppSettings.n_gpu_layers_draft, name="-ngld",
            also=("--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"),
        ),
        Key(
            path=LlamaCppSettings.cache_type_k_draft, name="-ctkd",
            also=("--cache-type-k-draft", "--spec-draft-type-k"),
        ),
        Key(
            path=LlamaCppSettings.cache_type_v_draft, name="-ctvd",
            also=("--cache-type-v-draft", "--spec-draft-type-v"),
        ),
    ),
    ignored=("--host", "--port", "-m", "--model", *_FILES, "-t", "--threads", "--temp", "--top-p", "--top-k", "--min-p",
             "--seed", "--jinja", "--mlock", "--no-mmap", "--alias", "-a", "--api-key"),
    vocabulary=("llama.cpp",),
    source="llama.cpp, common/arg.cpp",
)  # fmt: skip
TOOLS = (LLAMA_CPP,)
