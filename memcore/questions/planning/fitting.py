"""Models that some GPUs can serve: of well-known ones those that fit, in the format with most bits that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import MODEL, Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.hardware import AT_HOME, find_accelerator
from memcore.networks.catalog import catalog
from memcore.questions.planning.bench import Bench
from memcore.questions.serving_speed import serving_speed
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import CHAT, Inference
from memcore.serving.quantized import LIKE_AWQ, repository
from memcore.units import GiB

WELL_KNOWN: tuple[str, ...] = (
    "moonshotai/Kimi-K2.6", "deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct", "zai-org/GLM-4.7", "Qwen/Qwen3-235B-A22B", "MiniMaxAI/MiniMax-M2",
    "openai/gpt-oss-120b", "zai-org/GLM-4.5-Air", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3.6-35B-A3B",
    "Qwen/Qwen3-32B", "google/gemma-4-31B", "Qwen/Qwen3-30B-A3B", "google/gemma-3-27b-it", "Qwen/Qwen3.6-27B",
    "google/gemma-4-26B-A4B", "mistralai/Mistral-Small-3.2-24B-Instruct-2506", "openai/gpt-oss-20b", "Qwen/Qwen3-14B",
    "microsoft/phi-4", "google/gemma-3-12b-it", "Qwen/Qwen3.5-9B", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct",
    "google/gemma-3-4b-it", "Qwen/Qwen3-4B", "meta-llama/Llama-3.2-3B-Instruct", "Qwen/Qwen3-1.7B",
    "meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen3-0.6B",
)  # fmt: skip
"""Open models of each size that people name most: those of questions, logs and recipes in tests/truth."""
MOST = 10
"""Models that are listed."""
_IN_FILES: Mapping[str, float] = {"q8_0": 8.5, "q6_k": 6.6, "q4_k_m": 4.8}
_IN_SERVERS: Mapping[str, float] = {"": 0, "fp8": 8, "awq": 4}
"""Formats with the least bits of a weight, most first; an empty name is the checkpoint's own, whatever that is."""
_LONGER = (16384, 32768, 65536, 131072)
"""Usual lengths."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """A model that fits, with the longest usual sequence that it takes."""

    found: ServingEstimate
    pace: float | None
    """Tokens per second of one user; None where no source tells."""

    @property
    def name(self) -> str:
        """Return the model's id."""
        return str(self.found.job.config.model)

    @property
    def format(self) -> str:
        """Return the format of its weights."""
        stored, given = self.found.job.basics.stored, self.found.job.config.get(Inference.quantization)
        return str(given or (stored.format.name if stored is not None else self.found.job.basics.dtype))

    @property
    def length(self) -> int:
        """Return the tokens of the longest usual sequence that fits."""
        return self.found.job.basics.max_model_len


def fitting(hardware: Config, models: Sequence[str] = WELL_KNOWN, most: int = MOST) -> Iterator[Fitting]:
    """Yield the models that some GPUs can serve, the largest first; the config's own model says nothing.

    At home with llama.cpp, elsewhere with vLLM on all GPUs. A length that the config names holds; else a model takes
    8,192 tokens at least.

    Raises ConfigError for an unknown accelerator.
    """
    bench = Bench(most=0)
    found = (next(_of_model(hardware, model, bench), None) for model in models)
    yield from islice((each for each in found if each is not None), most)


def _of_model(hardware: Config, model: str, bench: Bench) -> Iterator[Fitting]:
    """Yield a model in each format in which it fits, most bits first."""
    at_home = _is_at_home(hardware)
    server = "llama.cpp" if at_home else "vllm"
    length = hardware.get(Inference.max_model_len)
    for form, bits in (_IN_FILES if at_home else _IN_SERVERS).items():
        if bits * catalog()[model]["parameters"] / 8 > _memory(hardware):
            continue
        named = next((each for each in LIKE_AWQ if repository(model, each)), LIKE_AWQ[0]) if form == "awq" else form
        of_model: dict[str, object] = {
            MODEL: model, EngineSettings.type: server, Inference.quantization: named or None,
            Inference.max_model_len: length or CHAT,
        }  # fmt: skip
        found = _safe(hardware.changed(of_model), bench)
        if found is not None:
            speed = serving_speed(found)
            yield Fitting(found if length else _longest(found, bench), None if speed is None else speed.tokens[1])


def _longest(found: ServingEstimate, bench: Bench) -> ServingEstimate:
    """Return a server with the longest usual sequence with which it is certain to fit."""
    low, high = 0, len(_LONGER)
    while low < high:
        middle = (low + high) // 2
        longer = _safe(found.job.config.changed({Inference.max_model_len: _LONGER[middle]}), bench)
        low, high = (low, middle) if longer is None else (middle + 1, high)
        found = longer or found
    return found


def _is_at_home(hardware: Config) -> bool:
    name = hardware[Hardware.accelerator]
    return name is None or find_accelerator(name).place in AT_HOME


def _memory(hardware: Config) -> float:
    """Return the bytes of all GPUs."""
    name, given = hardware[Hardware.accelerator], hardware[Hardware.gpu_memory_gb]
    each = find_accelerator(name).usable if name is not None and given is None else (given or 0) * GiB
    return float(each * (hardware[Hardware.num_gpus] or 1))


def _safe(config: Config, bench: Bench) -> ServingEstimate | None:
    """Return a server that is certain to fit; None for another, and for one that is refused."""
    try:
        found = estimate(config)
    except MemcoreError:
        return None
    return found if isinstance(found, ServingEstimate) and bench.safe(found) else None
