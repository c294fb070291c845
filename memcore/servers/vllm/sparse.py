"""What the indexer of sparse attention brings (DeepSeek-V3.2, GLM-5): keys that it gathers, and scores of all tokens.

Sources: vllm, v1/attention/backends/mla/indexer.py (get_max_prefill_buffer_size), model_executor/layers/
sparse_attn_indexer.py, v1/worker/workspace.py and v1/attention/backends/mla/flashinfer_mla_sparse.py (read in 0.13,
0.19, 0.22 and 0.26). A start of GLM-5.2 with 819,200 tokens on GB200 says 6.31 GiB of peak activations, of which 4.03
are the keys, and 4.13 GiB of graphs, of which 3.13 are scores.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.config.engine import EngineSettings, release
from memcore.memory.ledger import Entry
from memcore.networks.parts import LatentAttention
from memcore.servers.vllm.experts import PLAIN_BLACKWELL, major
from memcore.servers.vllm.options import Options
from memcore.serving.checkpoint import text_config
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.job import ServingJob
from memcore.serving.profile import TOKENS, WORKSPACES, compresses
from memcore.serving.stages import Stage
from memcore.units import MiB

_INDEXER = "vllm, model_executor/layers/sparse_attn_indexer.py"
_KEYS, _KEY = 40, 132
"""Keys that are gathered for each token of the longest sequence, and bytes of one: 128 in fp8 and a scale."""
_SCORES = 512 * MiB
"""VLLM_SPARSE_INDEXER_MAX_LOGITS_MB."""
_SCORED = (0, 19)
"""The first release that was read in which profiling has them; 0.13 has not."""
_WORKSPACE = 394 * MiB
"""VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE (vllm, envs.py)."""
_DATA_CENTER = 10
"""Compute capability of the GPUs whose sparse attention is FlashInfer's."""
_DRAFTS_ALONE = (0, 27)
"""The first release that was read in which DeepSeek-V4's streams are kept only for a draft."""
_COMPRESSED, _PROMPTS = 4, 4
"""Tokens of DeepSeek-V4 that an indexer's key stands for, and PREFILL_CHUNK_SIZE."""


def indexes(stage: Stage) -> bool:
    """Return whether some layer has an indexer."""
    mixers = [mixer for layer in stage.kinds for mixer in layer.mixers]
    return any(isinstance(mixer, LatentAttention) and mixer.indexer for mixer in mixers)


def _compressing(stage: Stage) -> bool:
    """Return whether some layer is DeepSeek-V4's."""
    return any(compresses(mixer) for layer in stage.kinds for mixer in layer.mixers)


_ON_PLAIN_BLACKWELL = (0, 24)
"""The first release with DeepSeek-V4's attention for compute capability 12 (models/deepseek_v4/nvidia/model.py; until
0.23 `supports_compute_capability` of sparse_mla.py, which has 9 and 10, is all there is)."""


def without_kernels(job: ServingJob) -> Iterator[str]:
    """Say that a release has no attention for a network on a GPU."""
    found = any(compresses(mixer) for layer, _ in job.model.layers for mixer in layer.mixers)
    version = job.config[EngineSettings.version]
    if found and version is not None and release(version) < _ON_PLAIN_BLACKWELL and major(job) == PLAIN_BLACKWELL:
        yield "before vLLM 0.24, DeepSeek-V4 has no attention for compute capability 12; such a start ends in an error"


def step_buffers(job: ServingJob, chosen: Options, stage: Stage) -> Iterator[Entry]:
    """Yield what such a model allocates for a step while it loads: choices, and DeepSeek-V4's streams for a draft."""
    basics = job.basics
    chosen_keys = text_config(basics.raw).get("index_topk")
    streams = _compressing(stage)
    if isinstance(chosen_keys, int) and (streams or indexes(stage)):
        sizes, source = {TOKENS: chosen.tokens, "k": chosen_keys}, "vllm, model_executor/models/deepseek_v2.py"
        yield tensor("topk_indices_buffer", "weights", (TOKENS, "k"), 4, sizes, source)
    if streams and stage.samples and (basics.speculation is not None or chosen.facts.since < _DRAFTS_ALONE):
        sizes, source = {**basics.sizes, TOKENS: chosen.tokens}, "vllm, models/deepseek_v4/nvidia/model.py"
        yield tensor("_mtp_hidden_buffer", "weights", (TOKENS, "hc", "h"), BYTES[basics.dtype], sizes, source)


def gathered(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Keys of a chunk of prompts, in the workspace that experts have, too; before 0.13 they are gone with the step."""
    if not chosen.facts.keeps_expert_workspace:
        return []
    if _compressing(stage):
        return _gathered_compressed(job, chosen)
    if not indexes(stage):
        return []
    sizes = {"L": job.basics.max_model_len, "chunk": _KEYS, "key": _KEY}
    source = "vllm, v1/attention/backends/mla/indexer.py, get_max_prefill_buffer_size"
    return [tensor("keys that the indexer gathers", WORKSPACES, ("L", "chunk", "key"), 1, sizes, source)]


def _gathered_compressed(job: ServingJob, chosen: Options) -> list[Entry]:
    """Return DeepSeek-V4's: an indexer's key is of four tokens, and FlashMLA unpacks the vectors of four prompts."""
    length = -(-job.basics.max_model_len // _COMPRESSED)
    sizes = {"L/4": length, "chunk": _KEYS, "key": _KEY, "prompts": _PROMPTS, "d": job.basics.sizes["d"]}
    source = "vllm, models/deepseek_v4/attention.py, DeepseekV4Indexer"
    keys = tensor("keys that the indexer gathers", WORKSPACES, ("L/4", "chunk", "key"), 1, sizes, source)
    if major(job) == PLAIN_BLACKWELL:  # FlashInfer reads packed vectors
        return [keys]
    window = text_config(job.basics.raw).get("sliding_window")
    sizes["keys"] = length + (window if isinstance(window, int) else 0) + chosen.tokens
    source = "vllm, models/deepseek_v4/nvidia/flashmla.py"
    vectors = tensor("vectors that FlashMLA unpacks", WORKSPACES, ("prompts", "keys", "d"), 2, sizes, source)
    return [max(keys, vectors, key=lambda entry: entry.bytes)]


def profiled_scores(chosen: Options) -> int:
    """Return bytes that stand for the scores of a chunk of prompts while profiling runs."""
    return _SCORES if chosen.facts.since >= _SCORED else 0


def captured_scores(job: ServingJob, chosen: Options, stage: Stage, tokens: int) -> list[Entry]:
    """Scores of all tokens of the longest sequence, for each of the largest whole graph: captured, and warmed up.

    FlashInfer's workspace is allocated with the first step that has metadata.
    """
    if not tokens or not indexes(stage) or not chosen.facts.keeps_expert_workspace:
        return []
    sizes = {TOKENS: tokens, "L": job.basics.max_model_len}
    title = "scores of the indexer in whole graphs and in what warms them up"
    found = [tensor(title, "CUDA graphs", (TOKENS, "L"), 4, sizes, _INDEXER, copies=2)]
    if job.accelerator is not None and job.accelerator.major == _DATA_CENTER:
        source = "vllm, v1/attention/backends/mla/flashinfer_mla_sparse.py"
        text = "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"
        title = "workspace of FlashInfer's attention"
        found.append(Entry(title=title, category="CUDA graphs", each=_WORKSPACE, text=text, source=source))
    return found
