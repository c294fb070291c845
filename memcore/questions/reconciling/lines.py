"""Lines of engines' logs that state memory: how they look, and what each number in them is.

Format strings are those of the engines' sources. What they call GB is often GiB; the meaning says so where it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from memcore.records import dataclass
from memcore.units import GB, KB, MB, TB, GiB, KiB, MiB, TiB

UNITS: Mapping[str, int] = {
    "": 1, "b": 1, "bytes": 1, "kb": KB, "mb": MB, "gb": GB, "tb": TB, "kib": KiB, "mib": MiB, "gib": GiB, "tib": TiB,
}  # fmt: skip
MOST, FIRST, LEAST, SUM = "most", "first", "least", "sum"
"""Which counts when several lines state the same."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a number in a line is."""

    quantity: str
    """As in a truth case, or one that only logs have."""
    moment: str | None = None
    """As in a truth case; None where the line does not say."""
    unit: int | None = None
    """Bytes of a unit; None if the number has its own."""
    take: str = MOST
    rank: int | str = "max"
    cut: bool = False
    """Printed without its fraction, not rounded."""


@dataclass(frozen=True, slots=True)
class Line:
    """A kind of line. Its pattern has one group for each meaning; or none, and one meaning without a number."""

    tool: str
    hint: str
    """What every such line has: most lines of a log are passed over for want of it."""
    pattern: str
    meanings: Sequence[Meaning]
    source: str
    also: str = ""
    """What the message has besides, where a search for its pattern would look at every number."""
    before: str = ""
    """A pattern that the line before must have, where that says when the numbers were read."""

    @property
    def text(self) -> re.Pattern[str]:
        """Return the pattern, compiled when it is first asked for: most commands read no log."""
        return _compiled(self.pattern)

    def follows(self, line: str) -> bool:
        """Return whether the line before is one that this kind follows."""
        return not self.before or _compiled(self.before).search(line) is not None


_compiled = cache(re.compile)


_N = r"([0-9]{1,18}(?:\.[0-9]{1,12})?)"
_SIZE = r"(?<![0-9.])([0-9]{1,18}(?:\.[0-9]{1,6})? ?(?:bytes|[KMGT]?i?B))"
_BYTES = r"([0-9]{1,18}(?:\.[0-9]{1,6})? ?(?:[KMGT]i?B)?)(?![\w.])"
_COUNT = r"([0-9]{1,18}(?:,[0-9]{3}){0,5})"
_DEVICE = r"(?:(?:CUDA|ROCm|Vulkan|SYCL|MUSA|CANN|MTL)[0-9]{1,2}|Metal)(?:_Mapped)?"
_IS = r"(?:\(\))?['\"]?[ \t]{0,24}[:=]?[ \t]{0,24}['\"]?"
"""Between a metric's name and its number: `name: 1.2`, `'name': '1.2'`, `name = 1.2`, `name 1.2`."""


def _line(
    tool: str, hint: str, pattern: str, source: str, *meanings: Meaning, also: str = "", before: str = ""
) -> Line:
    return Line(tool, hint, pattern, meanings, source, also, before)


def _metric(tool: str, name: str, source: str, meaning: Meaning) -> Line:
    number = _BYTES if meaning.unit is None else _N
    return _line(tool, name, rf"(?<!\w){re.escape(name)}{_IS}{number}", source, meaning)


def _peak(unit: int | None = None, *, cut: bool = False) -> Meaning:
    return Meaning("max_allocated", "peak", unit, cut=cut)


def _reserved(unit: int | None = None, *, cut: bool = False) -> Meaning:
    return Meaning("max_reserved", "peak", unit, cut=cut)


def _now(quantity: str, unit: int | None = None, moment: str | None = None, *, cut: bool = False) -> Meaning:
    return Meaning(quantity, moment, unit, cut=cut)


def _out(quantity: str) -> Meaning:
    """Return where memory was out: of the first message, because others may be another rank's."""
    return Meaning(quantity, "out_of_memory", take=FIRST)


_ALLOCATOR = "c10/cuda/CUDACachingAllocator.cpp"
_MEMORY = "torch/cuda/memory.py"
_CAPACITY = Meaning("capacity", take=FIRST)

PYTORCH = (
    _line("PyTorch", "out of memory", r"(?:CUDA|HIP) out of memory", _ALLOCATOR, Meaning("fits", "peak")),
    _line("PyTorch", "out of memory", rf"Tried to allocate {_SIZE}", _ALLOCATOR, _out("request")),
    _line("PyTorch", "out of memory", rf"total capac?i?ty of {_SIZE} of which {_SIZE} is free", _ALLOCATOR,
          _CAPACITY, _out("free")),
    _line("PyTorch", "out of memory", rf"this process has {_SIZE} memory in use", _ALLOCATOR, _out("process")),
    _line("PyTorch", "out of memory", rf"Process [0-9]{{1,12}} has {_SIZE} memory in use", _ALLOCATOR,
          _out("other_process")),
    _line("PyTorch", "out of memory", rf"{_SIZE} is allocated by PyTorch", _ALLOCATOR, _out("allocated"),
          also=" is allocated by PyTorch"),
    _line("PyTorch", "out of memory", rf"{_SIZE} is reserved by PyTorch but unallocated", _ALLOCATOR,
          _out("unallocated"), also=" is reserved by PyTorch but unallocated"),
    _line("PyTorch", "out of memory",
          rf"; {_SIZE} total capacity; {_SIZE} already allocated; {_SIZE} free; {_SIZE} reserved in total by PyTorch",
          f"{_ALLOCATOR}, before PyTorch 2.0", _CAPACITY, _out("allocated"), _out("free"), _out("reserved")),
    *(
        _line("PyTorch", f"| {name}", rf"\| {name} {{0,16}}\| {{0,8}}{_SIZE} {{0,4}}\| {{0,8}}{_SIZE}",
              f"{_MEMORY}, memory_summary: fractions are cut", *meanings)
        for name, meanings in {
            "Allocated memory": (_now("allocated", cut=True), _peak(cut=True)),
            "Active memory": (_now("active", cut=True), _now("max_active", cut=True)),
            "GPU reserved memory": (_now("reserved", cut=True), _reserved(cut=True)),
        }.items()
    ),
    _metric("PyTorch", "max_memory_allocated", _MEMORY, _peak()),
    _metric("PyTorch", "max_memory_reserved", _MEMORY, _reserved()),
    *(
        _line("PyTorch", f"memory {quantity}", rf"(?i:(?:max|peak)(?:imum)? memory {quantity})\b{_IS}{_BYTES}",
              f"{_MEMORY}, in a script's own words", meaning)
        for quantity, meaning in {"allocated": _peak(), "reserved": _reserved()}.items()
    ),
    _metric("PyTorch", "allocated_bytes.all.peak", f"{_MEMORY}, memory_stats", _peak()),
    _metric("PyTorch", "reserved_bytes.all.peak", f"{_MEMORY}, memory_stats", _reserved()),
)  # fmt: skip

_TITAN = "torchtitan/components/metrics.py"
_TUNE = "torchtune/training/memory.py"
_TRAINER = "transformers/trainer_pt_utils.py, metrics_format: MB are MiB, fractions are cut; trainer_utils.py"

_STARTING = "nitializ|DeepSpeed Engine: |bf16_ ?optimizer|fp(?:16|32) partitions|param group|params in |After configur"
"""Words of DeepSpeed's messages before the first step (deepspeed/runtime: engine.py, bf16_optimizer.py and zero/); the
maxima of such a message are those since the message before it."""
_SEEN = rf"MA {_N} GB\s{{1,16}}Max_MA {_N} GB\s{{1,16}}CA {_N} GB\s{{1,16}}Max_CA {_N} GB"
_SEES = "deepspeed/runtime/utils.py, see_memory_usage: GB are GiB, the last one is rounded to whole ones"
_USED = rf"Memory usage: {_N}MiB\.? Peak allocated:? {_N}MiB\.? Peak reserved: {_N}MiB"

TRAINING = (
    _line("torchtitan", "memory: ", rf"memory: {{1,4}}{_N}GiB\(", f"{_TITAN}, MetricsProcessor.log", _reserved(GiB)),
    _line("torchtitan", "CUDA capacity: ", rf"CUDA capacity: .{{1,80}} with {_N}GiB memory", _TITAN,
          Meaning("capacity", None, GiB, FIRST)),
    _metric("torchtitan", "memory/max_reserved(GiB)", _TITAN, _reserved(GiB)),
    _metric("torchtitan", "memory/max_active(GiB)", _TITAN, _now("max_active", GiB)),
    _line("Megatron-LM", "memory (MB) | allocated:",
          rf"memory \(MB\) \| allocated: {_N} \| max allocated: {_N} \| reserved: {_N} \| max reserved: {_N}",
          "megatron/training/utils, report_memory: after an iteration; MB are MiB",
          _now("allocated", MiB, "steady"), _peak(MiB), _now("reserved", MiB), _reserved(MiB)),
    _line("Megatron-LM", "total device memory used: ", rf"total device memory used: {_N}",
          "megatron/training/utils, report_memory: with --log-device-memory-used", _now("device_used", MiB, "peak")),
    _metric("Megatron-LM", "mem-max-allocated-bytes", "megatron/training/training.py", _peak(1)),
    _metric("Megatron-LM", "mem-allocated-bytes", "megatron/training/training.py", _now("allocated", 1, "steady")),
    *(
        _metric("Megatron Bridge", f"mem-{name}-gigabytes", "bridge/training/utils/train_utils.py: / 1e9", meaning)
        for name, meaning in {
            "allocated": _now("allocated", GB, "steady"), "reserved": _now("reserved", GB),
            "max-allocated": _peak(GB), "max-reserved": _reserved(GB),
        }.items()
    ),
    _line("DeepSpeed", "MaxMemAllocated=", rf"MemAllocated={_N}GB, MaxMemAllocated={_N}GB",
          "deepspeed/utils/timer.py, ThroughputTimer: GB are GiB", _now("allocated", GiB), _peak(GiB)),
    _line("DeepSpeed", "Max_MA ", _SEEN, _SEES, _now("allocated", GiB), _peak(GiB), _now("reserved", GiB),
          _reserved(GiB), before=f"^(?!.{{0,300}}(?:{_STARTING}))"),
    _line("DeepSpeed", "Max_MA ", _SEEN, f"{_SEES}; before the first step", _now("allocated", GiB),
          _now("max_allocated", GiB), _now("reserved", GiB), _now("max_reserved", GiB), before=_STARTING),
    _line("nanotron", "Memory usage: ", f"(?<! building\\] ){_USED}", "nanotron/logging/base.py, log_memory",
          _now("allocated", MiB), _peak(MiB), _reserved(MiB)),
    _line("nanotron", " building] Memory usage: ", _USED, "nanotron/trainer.py: before the first step",
          _now("allocated", MiB), _now("max_allocated", MiB), _now("max_reserved", MiB)),
    _line("LitGPT", "emory ", rf"[Mm]emory [Uu]sed {{0,24}}: {{1,4}}{_N} GB",
          "litgpt/utils.py: max_memory_allocated / 1e9", _peak(GB)),
    *(
        _line("torchtune", f"peak memory {name}", rf"peak memory {name}: {_N} GiB", _TUNE, meaning)
        for name, meaning in {
            "alloc": _peak(GiB), "reserved": _reserved(GiB), "active": _now("max_active", GiB),
        }.items()
    ),
    _metric("torchtune", "peak_memory_alloc", _TUNE, _peak(GiB)),
    _metric("torchtune", "peak_memory_reserved", _TUNE, _reserved(GiB)),
    _metric("torchtune", "peak_memory_active", _TUNE, _now("max_active", GiB)),
    _metric("axolotl", "memory/max_allocated (GiB)", "axolotl, get_gpu_memory_usage", _peak(GiB)),
    _metric("axolotl", "memory/max_active (GiB)", "axolotl, get_gpu_memory_usage", _now("max_active", GiB)),
    _metric("axolotl", "memory/device_reserved (GiB)", "axolotl, get_gpu_memory_usage", _now("reserved", GiB)),
    _line("axolotl", "memory usage ", rf"memory usage [\w ]{{1,40}}: {_N}GB \(\+",
          "axolotl, utils/bench.py: GB are GiB", _now("allocated", GiB)),
    _line("prime-rl", "Peak Mem.", rf"Peak Mem\.:? {_N}(?:/[0-9.]{{1,12}})? GiB",
          "prime_rl/trainer/sft/train.py: max_memory_reserved", _reserved(GiB)),
    _metric("ms-swift", "memory(GiB)", "swift/trainers/patcher.py: max_memory_reserved", _reserved(GiB)),
    _line("Unsloth", "Peak reserved memory = ", rf"Peak reserved memory = {_N} GB",
          "Unsloth's notebooks: max_memory_reserved in GiB", _reserved(GiB)),
    *(
        _line("transformers", name, rf"(?<!\w){name}{_IS}{number}(?![\w.])", _TRAINER, _now(name, unit, cut=True))
        for name in ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta",
                     "train_mem_gpu_peaked_delta")
        for number, unit in ((r"([0-9]{1,15})MB", MiB), (r"([0-9]{1,15})", 1))
    ),
)  # fmt: skip

_VLLM = "vllm/worker: GiB, also where it says GB"
_SGLANG = "sglang/srt/model_executor and mem_cache/memory_pool.py: GB are GiB"
_LLAMA, _GGML = "llama.cpp/src", "llama.cpp/ggml/src/ggml-cuda/ggml-cuda.cu"


def _served(quantity: str, unit: int | None = GiB, moment: str | None = "steady", take: str = FIRST) -> Meaning:
    return Meaning(quantity, moment, unit, take)


SERVING = (
    _line("vLLM", "oading", rf"(?:Model loading|Loading model weights) took {_N} Gi?B", _VLLM,
          _served("weights", moment="after_init")),
    _line("vLLM", "total_gpu_memory (", rf"total_gpu_memory \({_N}GiB\)", _VLLM, Meaning("capacity", None, GiB, FIRST)),
    _line("vLLM", "model weights take ",
          rf"model weights take {_N}GiB; non_torch_memory takes {_N}GiB; PyTorch activation peak memory takes {_N}GiB; "
          rf"the rest of the memory reserved for KV Cache is {_N}GiB", _VLLM,
          _served("weights", moment="after_init"), _served("non_torch", moment=None), _served("activations"),
          _served("kv_cache")),
    _line("vLLM", "vailable KV cache memory: ", rf"vailable KV cache memory: {_N} GiB", _VLLM, _served("kv_cache")),
    _line("vLLM", "larger than the available KV cache memory", "larger than the available KV cache memory", _VLLM,
          Meaning("fits", "peak")),
    _line("vLLM", "larger than the available KV cache memory",
          rf"larger than the available KV cache memory \({_N} GiB\)", _VLLM, _served("kv_cache")),
    _line("vLLM", "KV cache size: ", rf"KV cache size: {_COUNT} tokens", _VLLM,
          _served("kv_cache_tokens", 1, take=LEAST)),
    _line("vLLM", "# CPU blocks", rf"# (?:GPU|cuda|CUDA) blocks: {_COUNT}", _VLLM,
          _served("kv_cache_blocks", 1, take=LEAST)),
    _line("vLLM", "raph capturing finished", rf"raph capturing finished in [0-9]{{1,6}} secs, took {_N} GiB", _VLLM,
          _served("cuda_graphs", moment=None)),
    _line("vLLM", "Estimated CUDA graph memory: ", rf"Estimated CUDA graph memory: {_N} GiB total", _VLLM,
          _served("cuda_graphs_estimated", moment=None)),
    _line("vLLM", "GiB (estimated)", rf"graph pool memory: {_N} GiB \(actual\), {_N} GiB \(estimated\)", _VLLM,
          _served("cuda_graphs", moment=None), _served("cuda_graphs_estimated", moment=None)),
    _line("vLLM", "Actual usage is ",
          rf"Actual usage is {_N} GiB for weight, {_N} GiB for peak activation, {_N} GiB for non-torch memory, and "
          rf"{_N} GiB for CUDAGraph", _VLLM, _served("weights", moment="after_init"), _served("activations"),
          _served("non_torch", moment=None), _served("cuda_graphs", moment=None)),
    _line("vLLM", "GiB for peak activation, and ", rf"GiB for peak activation, and {_N} GiB for CUDAGraph", _VLLM,
          _served("cuda_graphs", moment=None)),
    _line("SGLang", "Load weight end.", rf"Load weight end\..{{1,300}}mem usage={_N} GB", _SGLANG,
          _served("weights", moment="after_init")),
    _line("SGLang", "#tokens: ", rf"KV Cache is allocated\..{{0,80}}#tokens: {_COUNT}", _SGLANG,
          _served("kv_cache_tokens", 1, take=MOST)),
    _line("SGLang", "K size: ", rf"K size: {_N} GB, V size: {_N} GB", _SGLANG,
          *2 * [_served("kv_cache", take=MOST)]),
    _line("SGLang", "KV size: ", rf"#tokens: [0-9,]{{1,20}}, KV size: {_N} GB", _SGLANG,
          _served("kv_cache", take=MOST)),
    _line("SGLang", "SWAKVPool mem usage: ", rf"SWAKVPool mem usage: {_N} GB", f"{_SGLANG}: both pools together",
          _served("kv_cache", take=MOST)),
    _line("SGLang", "graph end.", rf"^(?!.{{0,60}}\b[TPE]P[1-9]).{{0,80}}Capture .{{0,40}}graph end\..{{0,60}}"
          rf"mem usage={_N} GB", _SGLANG, _served("cuda_graphs", moment=None, take=SUM)),
    _line("llama.cpp", "model buffer size = ", rf"{_DEVICE} model buffer size = {{1,12}}{_N} MiB", _LLAMA,
          _served("weights", MiB, "after_init", MOST)),
    _line("llama.cpp", "llm_load_tensors: ", rf"llm_load_tensors: {{1,12}}{_DEVICE} buffer size = {{1,12}}{_N} MiB",
          f"{_LLAMA}, until build 4300", _served("weights", MiB, "after_init", MOST)),
    _line("llama.cpp", "failed: out of memory", "cudaMalloc failed: out of memory", _GGML, Meaning("fits", "peak")),
    _line("llama.cpp", "failed: out of memory",
          rf"allocating {_N} MiB on device [0-9]{{1,3}}: cudaMalloc failed: out of memory", _GGML,
          Meaning("request", "out_of_memory", MiB, FIRST)),
    _line("llama.cpp", "KV self size", rf"KV self size {{1,4}}= {{1,12}}{_N} MiB", _LLAMA,
          Meaning("kv_cache", "steady", MiB, SUM, "total")),
    _line("llama.cpp", "llama_kv_cache", rf"llama_kv_cache\w{{0,24}}: size = {{1,12}}{_N} MiB \(", _LLAMA,
          Meaning("kv_cache", "steady", MiB, SUM, "total")),
    _line("llama.cpp", "compute buffer size = ", rf"{_DEVICE} compute buffer size = {{1,12}}{_N} MiB", _LLAMA,
          _served("activations", MiB, take=MOST)),
)  # fmt: skip

_SMI = "nvidia-smi: MiB of all processes on a GPU"

DRIVER = (
    _line("nvidia-smi", "MiB / ", r"(?<!\w)([0-9]{1,7}MiB) / {1,6}([0-9]{1,7}MiB)", _SMI,
          _now("device_used", None, "peak"), _CAPACITY),
    _line("nvidia-smi", " MiB, ", r"(?<![\w.])([0-9]{1,7} MiB), ([0-9]{1,7} MiB)", f"{_SMI}, --query-gpu=memory.used,"
          "memory.total", _now("device_used", None, "peak"), _CAPACITY),
    _line("nvidia-smi", "MiB |", r" C(?:\+G)? {1,4}\S.{0,80} ([0-9]{1,7}MiB) \|", "nvidia-smi: MiB of a process",
          _now("process")),
)  # fmt: skip

STARTS = ("main: loading model",)
"""What servers print once at each start (llama.cpp, tools/server/server.cpp): a log may have several."""

LINES: Sequence[Line] = (*PYTORCH, *TRAINING, *SERVING, *DRIVER)
"""Every kind of line."""
