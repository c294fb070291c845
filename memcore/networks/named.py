"""Names of re-uploaded and quantized repositories: the model that they are of, and the recipe that they name.

`RedHatAI/Qwen3-8B-FP8-dynamic` is Qwen3-8B in fp8 with one scale for each channel, `unsloth/Qwen3-8B-bnb-4bit` is
Qwen3-8B as bitsandbytes has it in 4 bits, `llama3-8b` is Meta-Llama-3-8B. Endings that change a shape, a vocabulary or
a dtype are not among those that are left off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from memcore.messages import Message, joined
from memcore.records import dataclass

_BLOCKS = frozenset({"qwen", "deepseek-ai", "zai-org", "minimaxai", "moonshotai", "stepfun-ai", "xiaomimimo"})
"""Makers whose own `-FP8` repositories have blocks of 128 × 128 (`weight_block_size`)."""
_ENDINGS: tuple[tuple[str, str], ...] = (
    (r"-fp8-dynamic|-fp8-channel", "fp8-channel"),
    (r"-fp8-block|-block-fp8", "fp8-block"),
    (r"-fp8(?:-kv)?|\.fp8", "fp8"),
    (r"-quantized\.w8a8|-w8a8|-int8-w8a8", "int8"),
    (r"-quantized\.w8a16|-w8a16|-gptq-int8|-gptq-8bit|-awq-8bit|-awq-int8", "w8a16"),
    (r"-quantized\.w4a16|-w4a16(?:-g128|-autoround|-ct)?|-int4-autoround|-autoround(?:-int4)?|-int4", "int4"),
    (r"-awq(?:-int4|-4bit|-w4a16|-marlin)?(?:-mtp)?|-int4-awq", "awq"),
    (r"(?:-autoround)?-gptq(?:-int4|-4bit)?(?:-g?\d+)?|-gptq-4b-\d+g", "gptq"),
    (r"(?:-text)?-nvfp4(?:a16)?(?:-mtp)?|-fp4", "nvfp4"),
    (r"-mxfp4(?:-preview)?", "mxfp4"),
    (r"-mxfp8", "mxfp8"),
    (r"(?:-unsloth)?-bnb-4bit|-bnb-nf4(?:-int4|-bf16)?", "nf4"),
    (r"-bnb-8bit", "int8"),
    (r"(?:[-.]i1)?(?:-(?:q\d_(?:0|1|k(?:_[sml])?)|f16|bf16))?-gguf|-q\d_(?:0|1|k(?:_[sml])?)|-qat", "gguf"),
    (r"-bf16|-dequantized|-qat(?:-(?:q4_0|int4))?-unquantized", "bf16"),
)
"""How names end, after `-qat` where training knew it, and which format that is."""
_FROZEN: tuple[tuple[str, str], ...] = (
    (r"-bnb-4bit|-bnb-nf4(?:-int4|-bf16)?", "nf4-double"),
    (r"-bnb-8bit", "int8"),
    (r"-bf16|-dequantized|-unquantized", ""),
    (r"-gptq(?:-int4|-4bit)?(?:-g?\d+)?|-gptq-4b-\d+g|-awq(?:-int4|-4bit|-w4a16|-marlin)?", "gptq"),
)
"""The same where a training library loads it: `training.quantization`.

AWQ's matrices are packed as GPTQ's are, 4 bits with a scale and a zero point for each 128 inputs (autoawq,
modules/linear/gemm.py), but for an index of the groups of a few kB.

Source: unsloth, models/llama.py (`bnb_config`: `bnb_4bit_use_double_quant=True`, `bnb_4bit_quant_type="nf4"`), which
such repositories are saved with.
"""
DYNAMIC = re.compile(r"-unsloth-bnb-4bit$", re.IGNORECASE)
"""Repositories that leave some layers in 16 bits (`llm_int8_skip_modules`), each others."""
_TUNED = re.compile(
    r"-(?:instruct|it|pt|chat|base|thinking|hf|bf16|fp16|sft|dpo|rlhf|orpo|kto|simpo|cpo|ipo|rdpo|grpo|full|lora|qlora|mixture|merged|linearized|"
    r"checkpoints?|finetuned|abliterated|uncensored|heretic|think|terminus|speciale|rope-\d+k)(?:-\d{4})?$|-\d{4}$",
    re.IGNORECASE,
)
"""Endings that change no shape: of how a model was trained on, and of longer rotations."""
_WITHOUT = ("-hf", "-BF16", "-Base", "-Instruct", "-beta")
"""Such endings of the catalog's own names; all but the first two are of models that others are trained from."""
_RANKING = re.compile(
    r"-(?:embedding|reranker|safeguard)(?=-\d)|-(?:base|instruct|chat)(?=-\d{1,3}(?:\.\d{1,3})?b(?![\w.]))",
    re.IGNORECASE,
)
"""What the same layers were trained for, in front of their size."""
_SUCCESSORS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^qwen2\.5(?:\.1)?-coder(?=-)", re.IGNORECASE), "Qwen2.5"),
    (re.compile(r"^starcoderplus$", re.IGNORECASE), "starcoder"),
    (re.compile(r"^tinyllama$", re.IGNORECASE), "TinyLlama-1.1B-Chat-v1.0"),
    (re.compile(r"^gemma-1\.1(?=-)", re.IGNORECASE), "gemma"),
    (re.compile(r"^lfm2\.5(?=-1\.2b)", re.IGNORECASE), "LFM2"),
    (
        re.compile(r"^TinyLlama-1\.1B-intermediate-step-\d{1,5}k-(?:[\d.]{1,4}[BT]|token-[\d.]{1,4}T)$", re.IGNORECASE),
        "TinyLlama-1.1B-Chat-v1.0",
    ),
    (re.compile(r"^(pythia-[\d.]{1,4}[bm])-deduped(?![\w.])", re.IGNORECASE), r"\1"),
)
"""Series of the same shapes as another one, trained further on it.

Sources: Qwen2.5-Coder's technical report, section 2.1 (derived from Qwen2.5; sizes of table 1); Gemma 1.1's model card
(Gemma 1.0 with other training of instructions); LFM2.5-1.2B-Base's model card (LFM2 with more pretraining: 16 layers,
of which 10 are convolutions, 1.17 billion parameters); Pythia's table of models (README.md: deduplicated data, the
same sizes); StarCoderPlus's model card (StarCoderBase, trained further); TinyLlama's README.md (chat models are
fine-tuned from its intermediate checkpoints).
"""
_OTHERWISE = re.compile(r"-thinking\b", re.IGNORECASE)
"""Kimi K2's thinking models are stored otherwise than its base."""
_HUB = re.compile(r"^(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/(?=[^/]+/[^/]+$)", re.IGNORECASE)
"""The hub in front of a repository, as Ollama takes it and as a browser shows it."""
_TYPED = re.compile(
    r"(.+gguf):(?:ud-)?((?:i?q\d\w*)|bf16|f16|f32|mxfp4\w*)|.+?[-.]((?:i?q\d\w*))[-.]gguf", re.IGNORECASE
)
"""A repository of GGUF files with the type of one of them, as llama.cpp and Ollama are told, or in its own name."""
_MAKERS = ("Meta-", "NVIDIA-")
_UPLOADED = re.compile(r"^[A-Za-z][A-Za-z0-9-]*_(?=[A-Za-z])")
"""A maker in front of a model's name: `google_gemma-3-12b-it`."""
_SEVERAL = 4
"""Such endings, one behind the other."""
_MARKS = re.compile(r"[-_ ]")
_ROUTED = re.compile(r":(?:free|beta|extended|exacto|nitro|floor|online|thinking|batch)$", re.IGNORECASE)
"""How OpenRouter asks for a price or a provider of a model (openrouter.ai/docs, Model Variants)."""
_DISTILLED: Mapping[str, str] = {
    **{f"deepseek-r1:{size}": f"DeepSeek-R1-Distill-Qwen-{size}" for size in ("1.5b", "7b", "14b", "32b")},
    "deepseek-r1:8b": "DeepSeek-R1-0528-Qwen3-8B",
    "deepseek-r1:70b": "DeepSeek-R1-Distill-Llama-70B",
    "deepseek-r1:671b": "DeepSeek-R1-0528",
}
"""Tags that name another network than the model before them (ollama.com/library/deepseek-r1)."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for."""

    base: str
    """The hub id of the catalog."""
    format: str | None = None
    """How the name says it is quantized; `gguf` leaves the type open."""
    frozen: str | None = None
    """The same as training has it: `training.quantization`; empty if it is in 16 bits, None if it is not trained so."""
    others: tuple[str, ...] = ()
    """Other hub ids that a short name may mean, of models as large."""
    file_type: str | None = None
    """The type of the GGUF file that the name says, in lower case: `q4_k_m`."""

    @property
    def reason(self) -> str:
        """Return why a name stands for the model."""
        if self.others:
            return Message("the usual meaning of this name; others: {}", joined(", ", self.others[:4]))
        return "the same network, by the repository's name"


def plain(name: str) -> str:
    """Return a name without the marks between its words, which every tool has its own of: `llama38b`."""
    return _MARKS.sub("", name.lower())


_CACHED = re.compile(r"(?:^|/)models--([^/]+?)--([^/]+)(?=$|/)")
"""The folder of a repository in the hub's cache (huggingface_hub, file_download.py, `repo_folder_name`)."""


def named(name: str, find: Callable[[str], str | None]) -> Named | None:
    """Return the model and the format behind a name; `find` knows the hub id of its last part."""
    cached = _CACHED.search(name)
    plainly = "/".join(cached.groups()) if cached else _HUB.sub("", name.strip())
    maker, _, last = _ROUTED.sub("", plainly).rpartition("/")
    last = _DISTILLED.get(last.lower(), last)
    typed = _TYPED.fullmatch(last)
    if typed is None:
        return _by_ending(maker, last, find)
    found = _by_ending(maker, typed[1] or last, find)
    return found and replace(found, file_type=(typed[2] or typed[3]).lower())


def _by_ending(maker: str, last: str, find: Callable[[str], str | None]) -> Named | None:
    """Return the model and the format behind the last part of a name."""
    for ending, format_ in _ENDINGS:
        found = re.fullmatch(rf"(.+?)(?:-qat)?(?:{ending})(?:-v\d)?", last, re.IGNORECASE)
        base = _base(found[1].replace(":", "-"), find) if found else None
        if base is not None:
            blocks = format_ == "fp8" and maker.lower() in _BLOCKS
            return Named(base, "fp8-block" if blocks else format_, _frozen(last, blocks))
    base = _base(last, find)
    return None if base is None else Named(base, None, "")


_MLX = re.compile(r"(?:-qat)?(?:-mlx)?-(?:mxfp4-q8|[2-8]bit(?:-dwq)?)|-mlx(?:-[2-8]bit)?", re.IGNORECASE)


def for_mlx(name: str, find: Callable[[str], str | None]) -> str | None:
    """Return the model of a repository whose weights only MLX loads, as its name says; None where it does not."""
    maker, _, last = name.strip().rpartition("/")
    ending = re.search(rf"(?:{_MLX.pattern})$", last, re.IGNORECASE)
    told = ending is not None and ("mlx" in ending[0].lower() or maker.lower() == "mlx-community")
    return _base(last[: ending.start()], find) if ending is not None and told else None


def _frozen(last: str, blocks: bool) -> str | None:
    """Return how a training library has the weights; fp8 in blocks is transformers' FineGrainedFP8."""
    kind: Mapping[str, str] = dict(_FROZEN)
    return next(
        (kind[end] for end in kind if re.search(rf"(?:{end})$", last, re.IGNORECASE)), "fp8" if blocks else None
    )


def _base(last: str, find: Callable[[str], str | None]) -> str | None:
    names = [last, _UPLOADED.sub("", last)] if _UPLOADED.match(last) else [last]
    names += [start.sub(before, name) for name in names for start, before in _SUCCESSORS if start.match(name)]
    others = (each for name in names for each in _others(name))
    return next((found for each in others if (found := find(each)) is not None), None)


def _others(last: str) -> Iterator[str]:
    """Yield what else a repository of the same shape may be called."""
    names = [_RANKING.sub("", last)] if _RANKING.search(last) else [last]
    for _ in range(_SEVERAL):
        shorter = _TUNED.sub("", names[-1])
        if shorter == names[-1]:
            break
        names.append(shorter)
    for name in names:
        yield name
        for maker in _MAKERS:
            yield name[len(maker) :] if name.lower().startswith(maker.lower()) else f"{maker}{name}"
        for ending in _WITHOUT[:2] if _OTHERWISE.search(last) else _WITHOUT:
            yield f"{name}{ending}"
            yield from (f"{maker}{name}{ending}" for maker in _MAKERS)


_DATE = re.compile(r"(\d\d)-(20\d\d)$")
_FRACTION = re.compile(r"(?<=\d)_(?=\d)")
_DASHED = re.compile(r"(?<=\d)-(?=\d-)")
"""A point that a name has as a dash: `llama-3-1-8b`."""
_WORD = re.compile(r"[^-_ :]+")
_PURPOSE = re.compile(r"instruct|it|chat|thinking|hf")
"""Words of names that say what a model was trained further for, or how it is stored."""
_VERSION = re.compile(r"v\d+(\.\d+)?|\d{4}|\d{6}")
"""A version or a date."""
_SIZE = re.compile(r"\d+(\.\d+)?b")
_LEFT_OUT = re.compile(
    rf"{_PURPOSE.pattern}|{_VERSION.pattern}|{_SIZE.pattern}|base|pt|preview|uncased|\d+k|a\d+b|\d+e|c4ai|ai21|meta"
)
"""What people leave out of a name: also size, context, active parameters, experts and maker."""


def meant(name: str, nicknames: Iterable[str]) -> list[str]:
    """Return the nicknames that a shorter name may mean: plain before those for a purpose, newer before older.

    >>> meant("mistral-7b", ["mistral-7b-instruct-v0.3", "mistral-7b-v0.1", "mistral-7b-v0.3", "mistral-nemo"])
    ['mistral-7b-v0.3', 'mistral-7b-v0.1', 'mistral-7b-instruct-v0.3']
    """
    return _meant(_words(name), list(nicknames))


def _meant(given: Sequence[str], nicknames: Iterable[str]) -> list[str]:
    wanted, sized, found = "".join(given), any(map(_SIZE.fullmatch, given)), []
    for each in nicknames:
        words = _words(each)
        said = (word for word in words if word in given or not (_is_left_out(word) or (sized and word == "vision")))
        if "".join(said) == wanted:
            versions = [word for word in words if _VERSION.fullmatch(word)]
            found.append((not any(map(_PURPOSE.fullmatch, words)), versions, -len(words), each))
    return [each for *_, each in sorted(found, reverse=True)]


def meant_otherwise(name: str, nicknames: Iterable[str]) -> Iterator[tuple[list[str], float | None]]:
    """Other readings of a name that `meant` does not understand, and the size that they must have in billions.

    Without its purpose; with points for dashes; without a size that the model's own name does not have.

    >>> list(meant_otherwise("mistral-nemo:12b", ["mistral-nemo-base-2407"]))[-1]
    (['mistral-nemo-base-2407'], 12.0)
    """
    known, given = list(nicknames), _words(_ROUTED.sub("", name))
    plainly = [word for word in given if not _PURPOSE.fullmatch(word)]
    yield _meant(plainly, known), None
    yield _meant(_words(_DASHED.sub(".", name.lower())), known), None
    size = next((word for word in given if _SIZE.fullmatch(word)), None)
    if size is not None and len(plainly) > 1:
        yield _meant([word for word in plainly if word != size], known), float(size[:-1])


def same_maker(given: str, maker: str) -> bool:
    """Return whether two names are one maker's: `ibm` and `ibm-granite`, `z-ai` and `zai-org`.

    >>> same_maker("z-ai", "zai-org"), same_maker("cohere", "CohereForAI"), same_maker("me", "meta-llama")
    (True, True, False)
    """
    return len(given) > 2 and plain(maker).startswith(plain(given))


@lru_cache(maxsize=1 << 14)
def _words(name: str) -> Sequence[str]:
    return tuple(_WORD.findall(_FRACTION.sub(".", _DATE.sub(r"\2\1", name.lower()))))


@lru_cache(maxsize=1 << 12)
def _is_left_out(word: str) -> bool:
    return _LEFT_OUT.fullmatch(word) is not None
