"""What SGLang captures, and the buffers of FlashInfer that come with it.

Source: sglang, srt/server_args.py (_generate_cuda_graph_batch_sizes; generate_prefill_cuda_graph_batch_sizes) and
srt/compilation; what of it belongs to a release, below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from memcore.hardware import BLACKWELL, HOPPER, matmul_workspaces
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.parts import Attention
from memcore.servers.sglang.attention import HEAD, gathers_logits, groups
from memcore.servers.sglang.backends import FA3, FLASHINFER
from memcore.servers.sglang.splits import accumulators
from memcore.serving.captures import FORMER, PRESENT, count, kept, pool, summed_by_nccl
from memcore.serving.devices import integrated
from memcore.serving.entries import observed, tensor
from memcore.serving.job import ServingJob
from memcore.serving.profile import TOKENS, WORKSPACES, Step
from memcore.serving.stages import Stage
from memcore.units import GiB, MiB, format_bytes

GRAPHS = "CUDA graphs"
_HOOK = "sglang, srt/arg_groups/memory_hook.py"
_MEANWHILE = 0, int(1.2 * GiB), int(2.6 * GiB)
"""What the host's processes take meanwhile where the GPU shares their memory. Fitted to four starts: 0.98 to 2.57."""
_LATER = (0, 5)
"""The first release with which no log shows a driver before CUDA 12.4's."""


def graphs(
    job: ServingJob,
    stage: Stage,
    step: Step,
    *,
    largest: int,
    prompts: int,
    number: tuple[int, ...],
    attention: str | None,
    sizes: int | None,
    kept_for_requests: int,
    received: int = 0,
) -> list[Entry]:
    """Graphs of decoding, each of a whole step, and since 0.5.4 those of prompts, piece by piece, with their pool.

    `largest`: sequences of the largest graph; `sizes`: how many are captured, where somebody says it; `prompts`: tokens
    of the longest captured prompt, 0 if none is; `attention`: the kind of kernels; `kept_for_requests`: bytes of
    attention's tables; `received`: those of what a rank's experts receive and make of it.

    Prompts are captured up to a whole chunk, whose tensors the pool keeps: 2.84 GiB of Qwen3-32B on an H100 and 0.13
    for decoding, 2.32 GiB and 0.60 of Qwen3-8B. What SGLang leaves room for is less.
    """
    basics = job.basics
    pieces = prompt_sizes(prompts)
    whole = sizes or len(list(_sizes(largest)))
    ranks = basics.layout.tensor
    found = count(stage, ranks, pieces=pieces, whole=whole, sums=summed_by_nccl(job))
    major = job.accelerator.major if job.accelerator else None
    former = integrated(job.accelerator) or (major is not None and major < BLACKWELL)
    pooled = pool(step, stage, prompts if pieces else min(largest, step.sizes[TOKENS]))
    pooled += _logits(job, largest, number) if stage.samples else 0
    pooled += kept_for_requests + received
    pooled += accumulators(job, stage, largest, number) if attention == FA3 else 0
    # Each stream has workspaces of cuBLAS.
    pooled += 2 * dict(matmul_workspaces(job.accelerator))["cublas_workspace"]
    bounds = kept(job, FORMER if former else PRESENT, found, pooled, earlier=number < _LATER)
    if integrated(job.accelerator):
        low, middle, high = _MEANWHILE
        bounds = Range(bounds.low + low, bounds.expected + middle, bounds.high + high)
    if not prompts:
        # Twice what it left room for before 0.5.4.
        bounds = replace(bounds, high=max(bounds.high, 2 * (100 + 5 * largest) * MiB))
    text = Message("{} sizes of decoding and {} of prompts, whose pool has {}", whole, pieces, format_bytes(pooled))
    because = "drivers differ, and kernels are loaded during the capture"
    return [observed("captured graphs", GRAPHS, bounds, _HOOK, text, because), *_wrappers(stage, attention, whole)]


_LOGITS_SHARED = (0, 5)
"""The first release but for 0.4.10.post2 whose graphs write their logits to one buffer (srt/model_executor/
cuda_graph_runner.py, `next_token_logits_buffer`); before, each had its own, which later ones cannot use again."""


def _logits(job: ServingJob, largest: int, number: tuple[int, ...]) -> int:
    """Return bytes of logits, in the model's dtype as they are gathered, and in fp32 for each of a rank's sequences.

    Source: sglang, srt/layers/logits_processor.py (`_get_logits`).
    """
    layout, words = job.basics.layout, job.basics.sizes["V"]
    split, count = dict(layout.others).get(HEAD, layout.tensor), groups(layout) if gathers_logits(layout) else 1
    rows = largest if number >= _LOGITS_SHARED else sum(_sizes(largest))
    return largest * count * words * 2 * (1 + (split > 1)) // split + rows * words * 4


def prompt_sizes(largest: int) -> int:
    """Of how many token counts a prefill graph is captured (generate_prefill_cuda_graph_batch_sizes)."""
    steps = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256), (4608, largest + 1, 512))
    return sum(len(range(first, min(stop, largest + 1), step)) for first, stop, step in steps)


def _sizes(largest: int) -> Iterator[int]:
    """Yield the batches of which decoding is captured."""
    for first, stop, step in ((16, 257, 8), (272, 512, 16), (512, largest + 1, 32)):
        yield from range(first, min(stop, largest + 1), step)
    yield from (size for size in (1, 2, 4, 8, 12) if size <= largest)


_INTEGERS = 8 * MiB
"""What each wrapper of FlashInfer's attention has for its plan (flashinfer, decode.py, `_int_workspace_buffer`)."""


def _wrappers(stage: Stage, attention: str | None, sizes: int) -> Iterator[Entry]:
    """Yield one wrapper of FlashInfer's attention for each captured size, and as many again where windows slide."""
    mixers = [mixer for layer in stage.kinds for mixer in layer.mixers if isinstance(mixer, Attention)]
    if not mixers or attention != FLASHINFER:
        return
    each = 2 if any(mixer.mask == "sliding" for mixer in mixers) else 1
    yield Entry(
        title="integer workspaces of FlashInfer's attention",
        category=GRAPHS,
        each=_INTEGERS,
        copies=each * sizes,
        range=Range(0, each * sizes * _INTEGERS, each * sizes * _INTEGERS),
        text=Message("{} captured sizes", sizes),
        source="sglang 0.5.9 and 0.5.15, srt/layers/attention/flashinfer_backend.py",
        because="another attention has none",
    )


_FUSED: Mapping[str, tuple[int, ...]] = {
    "deepseek_v3": (0, 5, 7),
    "gpt_oss": (0, 5, 7),
    "glm4_moe": (0, 5, 7),
    "qwen3_moe": (0, 5, 7),
    "glm4_moe_lite": (0, 5, 9),
    "kimi_k25": (0, 5, 9),
    "qwen3_5": (0, 5, 10),
    "qwen3_5_moe": (0, 5, 10),
    "deepseek_v32": (0, 5, 12),
    "glm_moe_dsa": (0, 5, 12),
    "qwen3_next": (0, 5, 12),
    "nemotron_h": (0, 5, 15),
    "qwen3_vl_moe": (0, 5, 15),
    "deepseek_v4": (0, 5, 20),
}
"""Types of models whose sums over ranks are fused with norms unasked, and the release that was read to do so."""
_FUSED_TOKENS = 2048
"""FUSE_ALLREDUCE_MAX_BATCH_SIZE (srt/layers/communicator.py)."""
_BUFFERS = 4
"""One for values and three for Lamport's flags (flashinfer, comm/trtllm_ar.py,
trtllm_create_ipc_workspace_for_all_reduce_fusion)."""
_NODE = 8
"""GPUs that reach each other."""
_MULTICAST, _STAGES = (0, 5, 15), 6
"""The first release that uses multicast on Blackwell, whose three buffers have two stages each (comm/
trtllm_mnnvl_ar.py, get_required_buffer_size_bytes)."""


def fused_sums(job: ServingJob, number: tuple[int, ...]) -> Iterator[Entry]:
    """FlashInfer's workspace of sums over ranks that are fused with norms, on Hopper and Blackwell's large GPUs.

    Allocated outside PyTorch before graphs are captured; 0.5.7 to 0.5.10 allocate it with the first sum, which is
    in the capture where no kernels of experts are timed first.
    """
    ranks = job.basics.layout.tensor
    accelerator, since = job.accelerator, _FUSED.get(str(job.basics.raw.get("model_type")))
    if accelerator is None or accelerator.major not in (HOPPER, BLACKWELL) or accelerator.id.startswith("h20-"):
        return
    if since is None or number < since or not 1 < ranks <= _NODE:
        return
    multicast = accelerator.major == BLACKWELL and number >= _MULTICAST
    copies = _STAGES if multicast else _BUFFERS * ranks
    yield tensor(
        "workspace of sums fused with norms",
        WORKSPACES,
        (_FUSED_TOKENS, "h"),
        2,
        job.basics.sizes,
        "sglang, srt/layers/flashinfer_comm_fusion.py",
        copies=copies,
    )
