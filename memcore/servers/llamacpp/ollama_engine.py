"""What Ollama runs a network with, by its release: which build of llama.cpp, or its own engine on ggml.

Since 0.30 it starts llama-server, of the build that `LLAMA_CPP_VERSION` names. Before, its runner used llama.cpp as a
library, whose commit is in Makefile.sync (of April, August, October and December 2025; none after 0.13.5), and its own
engine ran more and more networks. That one reserves logits for a token of each sequence, keeps copies of recurrent
states to go back to, and more tokens of a sliding window than it sees.

Sources: ollama/ollama#16031 and LLAMA_CPP_VERSION of each release; fs/ggml/ggml.go (`OllamaEngineRequired`,
`FlashAttention`), llm/server.go; of 0.24 runner/ollamarunner/runner.go (`reserveWorstCaseGraph`: `batch.Outputs`),
kvcache/recurrent.go (`DefaultCheckpointCount`, 32 at first) and the models' `NewSWAMemCache`.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import release
from memcore.records import dataclass
from memcore.units import GiB, MiB


@dataclass(frozen=True, slots=True)
class Own:
    """A family that Ollama's own engine runs."""

    since: tuple[int, ...]
    flash: tuple[int, ...]
    """The first release that attends to it with flash attention unasked."""
    window: int = 0
    """Tokens that its sliding windows keep, if more than they see."""


_NEVER = (1,)
_FAMILIES: Mapping[str, Own] = {
    **dict.fromkeys(("gemma3", "gemma3_text"), Own((0, 6), (0, 12, 6))),
    "mistral3": Own((0, 6, 5), (0, 13, 2)),
    "llama4": Own((0, 6, 7), _NEVER),
    "qwen2_5_vl": Own((0, 7), _NEVER),
    **dict.fromkeys(("gemma3n", "gemma3n_text"), Own((0, 9, 3), _NEVER)),
    "gpt_oss": Own((0, 11), (0, 11, 8), 4096),
    "qwen3": Own((0, 12), (0, 12, 4)),
    "qwen3_moe": Own((0, 12, 2), (0, 12, 4)),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe"), Own((0, 12, 7), (0, 12, 8))),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), Own((0, 13), _NEVER)),
    "olmo3": Own((0, 13, 4), (0, 13, 4)),
    **dict.fromkeys(("glm4_moe_lite", "lfm2"), Own((0, 14, 3), (0, 14, 3))),
    "qwen3_next": Own((0, 15, 5), (0, 15, 5)),
    **dict.fromkeys(("nemotron_h", "qwen3_5", "qwen3_5_moe", "lfm2_moe"), Own((0, 17, 1), (0, 17, 1))),
    **dict.fromkeys(("gemma4", "gemma4_text"), Own((0, 20), (0, 20, 4), 4096)),
}
_SERVER, _ASKS_GPU = (0, 30), (0, 13, 5)
"""The first releases that start llama-server, and whose runner of llama.cpp has flash attention where a GPU has it."""
_OFFLOADS = (0, 12, 8)
_BUILDS: tuple[tuple[tuple[int, ...], int], ...] = (
    ((0, 32, 15), 10488), ((0, 32, 14), 10434), ((0, 32, 10), 10380), ((0, 32, 8), 10353), ((0, 32, 6), 10242),
    ((0, 32, 3), 10091), ((0, 32, 2), 10069), ((0, 31, 2), 9888), ((0, 31), 9840), ((0, 30, 11), 9781),
    ((0, 30, 10), 9672), ((0, 30, 9), 9626), ((0, 30, 5), 9509), ((0, 30, 4), 9493), ((0, 30, 1), 9479),
    ((0, 30), 9452), ((0, 13, 5), 7430), ((0, 12, 11), 6870), ((0, 12, 4), 6700), ((0, 11, 5), 6160), ((0,), 5190),
)  # fmt: skip
"""Builds of llama.cpp from a release on; before 0.30 about, by the date of the commit."""
CHECKPOINTS = 24
"""Copies of each sequence's states: 1.1 GiB on a GPU with 20 layers of Qwen3-Coder-Next and 1.5 on the host with 28,
with 32,768 tokens, of which those are 0.8 and 1.1."""


def runs(version: object, family: str) -> bool:
    """Return whether Ollama's own engine runs a network in a release; not where no release is given.

    >>> runs("0.20.2", "qwen3_next"), runs("0.20.2", "qwen2"), runs("0.30.0", "gpt_oss"), runs(None, "gpt_oss")
    (True, False, False, False)
    """
    own = _FAMILIES.get(family)
    return own is not None and isinstance(version, str) and own.since <= release(version) < _SERVER


def serves(version: object) -> bool:
    """Return whether a release starts llama-server; where none is given, the newest does."""
    return not isinstance(version, str) or release(version) >= _SERVER


def build_of(version: object) -> int | None:
    """Return the build of llama.cpp in a release; None where none is given.

    >>> build_of("0.31.1"), build_of("0.20.2")
    (9840, 7430)
    """
    if not isinstance(version, str):
        return version if isinstance(version, int) else None
    return next(build for first, build in _BUILDS if release(version) >= first)


_LONG: tuple[tuple[int, int, int, int], ...] = ((32768, 2048, 60, 2 * GiB), (4096, 1024, 75, 768 * MiB))
"""Beyond how many tokens, which batch, up to which percent of free memory before it, and what is set apart for it."""
_USUAL, _MOST = 512, 80


def batch_of(version: object, context: int, needed: int, free: int | None) -> int:
    """Return tokens of a batch, which llama-server computes at once, where `num_batch` does not say it.

    `context`: tokens of all slots; `needed`: the file and a cache in 16 bits; `free`: bytes of all GPUs, None where
    nobody knows. Source: ollama 0.32, server/sched.go (`automaticGenerationBatch`), since 0.30.

    >>> batch_of("0.24.0", 65536, 0, None), batch_of("0.32.14", 65536, 0, None), batch_of("0.32.14", 65536, 9, 10)
    (512, 2048, 512)
    """
    if not serves(version):
        return _USUAL
    for beyond, batch, percent, apart in _LONG:
        if context > beyond and (free is None or needed <= min(free * percent, free * _MOST - apart * 100) // 100):
            return batch
    return _USUAL


def attends_quickly(version: object, family: str) -> bool | None:
    """Return whether a release uses flash attention unasked; None where the GPU decides.

    >>> attends_quickly("0.12.6", "qwen3"), attends_quickly("0.12.6", "qwen2"), attends_quickly("0.20.2", "qwen2")
    (True, False, None)
    """
    if serves(version) or not isinstance(version, str):
        return None
    if runs(version, family):
        return release(version) >= _FAMILIES[family].flash
    return None if release(version) >= _ASKS_GPU else False


def offloads(version: object) -> bool:
    """Return whether its own engine computes large products with weights of the host on the GPU (`op_offload`)."""
    return not isinstance(version, str) or release(version) >= _OFFLOADS


def window_of(version: object, family: str) -> int:
    """Return tokens that a sliding window keeps besides those of a batch, where that is more than it sees; else 0."""
    return _FAMILIES[family].window if runs(version, family) else 0
