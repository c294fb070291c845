"""What engines print of their memory, line by line, and how it stands beside a prediction."""

import json
import subprocess
import sys

import pytest

import memcore
from memcore import hardware
from memcore.faces.render.reconciled import case_text, reconciled_data, reconciled_html, reconciled_text
from memcore.questions.accuracy import accuracy
from memcore.questions.reconciling.logs import LARGEST, sightings
from memcore.questions.reconciling.reconcile import reconcile
from memcore.units import GB, GiB, MiB

JOB = {
    "model": "gpt2",
    "training": {"sequence_length": 512, "micro_batch_size": 8},
    "hardware": {"accelerator": "t4"},
}
OUT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {request}. GPU 0 has a total capacity of 14.74 GiB of "
    "which 9.00 MiB is free. Including non-PyTorch memory, this process has 14.72 GiB memory in use. Of the allocated "
    "memory 14.33 GiB is allocated by PyTorch, and 192.50 MiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True"
)

LINES = {
    "\x1b[31mstep: 10  \x1b[32mloss:  4.02  \x1b[36mmemory: 42.12GiB(53.20%)  \x1b[34mtps: 7,000": [
        ("torchtitan", "max_reserved", "peak", 42.12 * GiB)],
    "step:  1  memory:  5.25GiB(6.60%)": [("torchtitan", "max_reserved", "peak", 5.25 * GiB)],
    "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory": [("torchtitan", "capacity", None, 79.10 * GiB)],
    "[Rank 0] (after 10 iterations) memory (MB) | allocated: 3274.00 | max allocated: 5443.50 | reserved: 5800.00 "
    "| max reserved: 5900.00 | total device memory used: 7000.25": [
        ("Megatron-LM", "allocated", "steady", 3274 * MiB), ("Megatron-LM", "max_allocated", "peak", 5443.5 * MiB),
        ("Megatron-LM", "reserved", None, 5800 * MiB), ("Megatron-LM", "max_reserved", "peak", 5900 * MiB),
        ("Megatron-LM", "device_used", "peak", 7000.25 * MiB)],
    "MA 14.96 GB         Max_MA 15.1 GB         CA 15.3 GB         Max_CA 15 GB ": [
        ("DeepSpeed", "allocated", None, 14.96 * GiB), ("DeepSpeed", "max_allocated", "peak", 15.1 * GiB),
        ("DeepSpeed", "reserved", None, 15.3 * GiB), ("DeepSpeed", "max_reserved", "peak", 15 * GiB)],
    # what the start needed is no peak of a step
    "[INFO] [utils.py:800:see_memory_usage] After initializing ZeRO optimizer\n[INFO] [utils.py:801:see_memory_usage] "
    "MA 14.96 GB         Max_MA 15.1 GB         CA 15.3 GB         Max_CA 15 GB \nCPU Virtual Memory:  used = 40 GB\n"
    "Engine after backward\nMA 20.5 GB         Max_MA 24.5 GB         CA 25.5 GB         Max_CA 26 GB ": [
        ("DeepSpeed", "allocated", None, 20.5 * GiB), ("DeepSpeed", "max_allocated", None, 15.1 * GiB),
        ("DeepSpeed", "reserved", None, 25.5 * GiB), ("DeepSpeed", "max_reserved", None, 15 * GiB),
        ("DeepSpeed", "max_allocated", "peak", 24.5 * GiB), ("DeepSpeed", "max_reserved", "peak", 26 * GiB)],
    "CurrSamplesPerSec=30.2, MemAllocated=17.94GB, MaxMemAllocated=54.06GB": [
        ("DeepSpeed", "allocated", None, 17.94 * GiB), ("DeepSpeed", "max_allocated", "peak", 54.06 * GiB)],
    "memory (GB) | mem-allocated-gigabytes: 63.66 | mem-reserved-gigabytes: 182.2 | mem-max-allocated-gigabytes: 153.4 "
    "| mem-max-reserved-gigabytes: 182.2 | mem-alloc-retires: 0": [
        ("Megatron Bridge", "allocated", "steady", 63.66 * GB), ("Megatron Bridge", "reserved", None, 182.2 * GB),
        ("Megatron Bridge", "max_allocated", "peak", 153.4 * GB),
        ("Megatron Bridge", "max_reserved", "peak", 182.2 * GB)],
    "[RANK:0] GPU memory usage after adapters: 25.701GB (+0.079GB cache, +1.045GB misc)": [
        ("axolotl", "allocated", None, 25.701 * GiB)],
    "MFU: 1.0% | Peak Mem.: 7.8/23.7 GiB (32.9%)": [("prime-rl", "max_reserved", "peak", 7.8 * GiB)],
    " Memory usage: 123.50MiB. Peak allocated 223.25MiB. Peak reserved: 456.00MiB": [
        ("nanotron", "allocated", None, 123.5 * MiB), ("nanotron", "max_allocated", "peak", 223.25 * MiB),
        ("nanotron", "max_reserved", "peak", 456 * MiB)],
    "[After model building] Memory usage: 8.00MiB. Peak allocated: 9.00MiB Peak reserved: 10.00MiB": [
        ("nanotron", "allocated", None, 8 * MiB), ("nanotron", "max_allocated", None, 9 * MiB),
        ("nanotron", "max_reserved", None, 10 * MiB)],
    "Memory used: 21.30 GB": [("LitGPT", "max_allocated", "peak", 21.3 * GB)],
    "| - Memory Used               :  21.30 GB                  ": [("LitGPT", "max_allocated", "peak", 21.3 * GB)],
    "\tGPU peak memory alloc: 13.25 GiB": [("torchtune", "max_allocated", "peak", 13.25 * GiB)],
    "Step 4 | loss:1.2 peak_memory_alloc:13.25 peak_memory_reserved:15.5 ": [
        ("torchtune", "max_allocated", "peak", 13.25 * GiB), ("torchtune", "max_reserved", "peak", 15.5 * GiB)],
    "{'loss': '0.7157', 'memory/max_allocated (GiB)': '2.50', 'epoch': '0.1'}": [
        ("axolotl", "max_allocated", "peak", 2.5 * GiB)],
    "{'loss': 2.93, 'memory(GiB)': 57.75, 'train_speed(iter/s)': 0.1}": [
        ("ms-swift", "max_reserved", "peak", 57.75 * GiB)],
    "Peak reserved memory = 12.5 GB.": [("Unsloth", "max_reserved", "peak", 12.5 * GiB)],
    "| Allocated memory      |   1024 MiB |  20480 MiB |   9216 GiB |   9215 GiB |": [
        ("PyTorch", "allocated", None, 1024 * MiB), ("PyTorch", "max_allocated", "peak", 20480 * MiB)],
    "| GPU reserved memory   |     30 GiB |     31 GiB |     31 GiB |      0 B   |": [
        ("PyTorch", "reserved", None, 30 * GiB), ("PyTorch", "max_reserved", "peak", 31 * GiB)],
    "torch.cuda.max_memory_allocated() = 41234567890": [("PyTorch", "max_allocated", "peak", 41234567890)],
    "max_memory_reserved: 38.5 GB": [("PyTorch", "max_reserved", "peak", 38.5 * GB)],
    '"allocated_bytes.all.peak": 123456789, "reserved_bytes.all.peak": 223456789': [
        ("PyTorch", "max_allocated", "peak", 123456789), ("PyTorch", "max_reserved", "peak", 223456789)],
    OUT.format(request="1.25 GiB"): [
        ("PyTorch", "fits", "peak", 0), ("PyTorch", "request", "out_of_memory", 1.25 * GiB),
        ("PyTorch", "capacity", None, 14.74 * GiB), ("PyTorch", "free", "out_of_memory", 9 * MiB),
        ("PyTorch", "process", "out_of_memory", 14.72 * GiB), ("PyTorch", "allocated", "out_of_memory", 14.33 * GiB),
        ("PyTorch", "unallocated", "out_of_memory", 192.5 * MiB), ("PyTorch", "needed", "out_of_memory", 15.58 * GiB),
        ("PyTorch", "non_torch", "out_of_memory", (14.72 - 14.33) * GiB - 192.5 * MiB),
        ("PyTorch", "others", "out_of_memory", (14.74 - 14.72) * GiB - 9 * MiB)],
    "RuntimeError: CUDA out of memory. Tried to allocate 448.00 MiB (GPU 7; 79.25 GiB total capacity; 78.50 GiB already "
    "allocated; 259.50 MiB free; 78.75 GiB reserved in total by PyTorch)": [
        ("PyTorch", "fits", "peak", 0), ("PyTorch", "request", "out_of_memory", 448 * MiB),
        ("PyTorch", "capacity", None, 79.25 * GiB), ("PyTorch", "allocated", "out_of_memory", 78.5 * GiB),
        ("PyTorch", "free", "out_of_memory", 259.5 * MiB), ("PyTorch", "reserved", "out_of_memory", 78.75 * GiB),
        ("PyTorch", "needed", "out_of_memory", 78.9375 * GiB)],
    "  before_init_mem_gpu = 1MB\n  init_mem_gpu_alloc_delta   =      230MB\n  train_mem_gpu_alloc_delta  =      693MB\n"
    "  train_mem_gpu_peaked_delta =        7MB": [
        ("transformers", "before_init_mem_gpu", None, MiB),
        ("transformers", "init_mem_gpu_alloc_delta", None, 230 * MiB),
        ("transformers", "train_mem_gpu_alloc_delta", None, 693 * MiB),
        ("transformers", "train_mem_gpu_peaked_delta", None, 7 * MiB),
        ("transformers", "max_allocated", "peak", 931 * MiB), ("transformers", "allocated", "after_init", 231 * MiB)],
    '"train_mem_gpu_alloc_delta": 726663168, "train_loss": 1.5': [
        ("transformers", "train_mem_gpu_alloc_delta", None, 726663168)],
    "INFO [worker.py:267] the current vLLM instance can use total_gpu_memory (79.25GiB) x gpu_memory_utilization (0.90)": [
        ("vLLM", "capacity", None, 79.25 * GiB)],
    "model weights take 8.50GiB; non_torch_memory takes 0.25GiB; PyTorch activation peak memory takes 0.75GiB; the rest "
    "of the memory reserved for KV Cache is 2.25GiB.": [
        ("vLLM", "weights", "after_init", 8.5 * GiB), ("vLLM", "non_torch", None, 0.25 * GiB),
        ("vLLM", "activations", "steady", 0.75 * GiB), ("vLLM", "kv_cache", "steady", 2.25 * GiB)],
    "INFO gpu_executor.py:76] # GPU blocks: 715, # CPU blocks: 1310": [("vLLM", "kv_cache_blocks", "steady", 715)],
    "(Worker_TP0) Model loading took 12.5625 GiB memory and 3.1 seconds": [
        ("vLLM", "weights", "after_init", 12.5625 * GiB)],
    "Loading model weights took 8.5 GB": [("vLLM", "weights", "after_init", 8.5 * GiB)],
    "INFO gpu_worker.py:359] Available KV cache memory: 52.25 GiB": [("vLLM", "kv_cache", "steady", 52.25 * GiB)],
    "INFO kv_cache_utils.py:1286] GPU KV cache size: 11,686,320 tokens": [
        ("vLLM", "kv_cache_tokens", "steady", 11686320)],
    "Graph capturing finished in 12 secs, took 0.75 GiB": [("vLLM", "cuda_graphs", None, 0.75 * GiB)],
    "gpu_model_runner.py:5955] Estimated CUDA graph memory: 0.84 GiB total": [
        ("vLLM", "cuda_graphs_estimated", None, 0.84 * GiB)],
    "CUDA graph pool memory: 0.96 GiB (actual), 0.84 GiB (estimated), difference: 0.12 GiB (12.4%).": [
        ("vLLM", "cuda_graphs", None, 0.96 * GiB), ("vLLM", "cuda_graphs_estimated", None, 0.84 * GiB)],
    "Free memory on device (78.75/79.25 GiB) on startup. Desired GPU memory utilization is (0.9, 71.25 GiB). Actual usage "
    "is 14.25 GiB for weight, 1.5 GiB for peak activation, 0.25 GiB for non-torch memory, and 0.75 GiB for CUDAGraph "
    "memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1` (0.0 GiB) to fit into requested memory": [
        ("vLLM", "weights", "after_init", 14.25 * GiB), ("vLLM", "activations", "steady", 1.5 * GiB),
        ("vLLM", "non_torch", None, 0.25 * GiB), ("vLLM", "cuda_graphs", None, 0.75 * GiB)],
    "Actual usage is 15.25 GiB for consumed memory (weights + non-torch), 1.5 GiB for peak activation, and 0.5 GiB for "
    "CUDAGraph memory.": [("vLLM", "cuda_graphs", None, 0.5 * GiB)],
    "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=7.37 GB, mem usage=15.25 GB.": [
        ("SGLang", "weights", "after_init", 15.25 * GiB)],
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 38141, K size: 2.25 GB, V size: 2.25 GB": [
        ("SGLang", "kv_cache_tokens", "steady", 38141), ("SGLang", "kv_cache", "steady", 4.5 * GiB)],
    "KV Cache is allocated. #tokens: 524288, KV size: 17.25 GB": [
        ("SGLang", "kv_cache_tokens", "steady", 524288), ("SGLang", "kv_cache", "steady", 17.25 * GiB)],
    "KV Cache is allocated. #tokens: 148717, K size: 10.25 GB, V size: 10.25 GB\nKV Cache is allocated. #tokens: 185897, "
    "K size: 4.25 GB, V size: 4.25 GB\nSWAKVPool mem usage: 29.0 GB, swa size: 148717, full size: 185897\n"
    "KV Cache is allocated. #tokens: 185897, K size: 2.25 GB, V size: 2.25 GB": [
        ("SGLang", "kv_cache_tokens", "steady", 185897), ("SGLang", "kv_cache", "steady", 29 * GiB)],
    "[2026-08-01 23:43:38] Capture target prefill CUDA graph end. elapsed=216.19 s, mem usage=5.25 GB, avail mem=7.27 GB.\n"
    "[2025-09-01 10:00:00 DP0 TP1] Capture cuda graph end. Time elapsed: 5.1 s. mem usage=1.5 GB. avail mem=9.3 GB.\n"
    "[2025-09-01 10:00:00 TP0] Capture cuda graph end. Time elapsed: 5.1 s. mem usage=1.5 GB. avail mem=9.3 GB.": [
        ("SGLang", "cuda_graphs", None, 6.75 * GiB)],
    "main: loading model\nllama_kv_cache: size =  640.00 MiB ( 32768 cells\nsched_reserve: CUDA0 compute buffer size = "
    "372.00 MiB\nsched_reserve: CUDA1 compute buffer size = 637.00 MiB\nmain: loading model\n"
    "llama_kv_cache: size =  640.00 MiB ( 32768 cells": [
        ("llama.cpp", "kv_cache", "steady", 640 * MiB), ("llama.cpp", "activations", "steady", 637 * MiB)],
    "load_tensors: Metal_Mapped model buffer size =   606.50 MiB\nllama_context:      Metal compute buffer size = 66.50 MiB": [
        ("llama.cpp", "weights", "after_init", 606.5 * MiB), ("llama.cpp", "activations", "steady", 66.5 * MiB)],
    "load_tensors:        CUDA0 model buffer size = 15339.50 MiB": [
        ("llama.cpp", "weights", "after_init", 15339.5 * MiB)],
    "llm_load_tensors:      CUDA0 buffer size =  5434.38 MiB\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 8900.01 "
    "MiB on device 0: cudaMalloc failed: out of memory": [
        ("llama.cpp", "weights", "after_init", 5434.38 * MiB), ("llama.cpp", "fits", "peak", 0),
        ("llama.cpp", "request", "out_of_memory", 8900.01 * MiB)],
    "(4.11 GiB KV cache is needed, which is larger than the available KV cache memory (4.0 GiB). Based on": [
        ("vLLM", "fits", "peak", 0), ("vLLM", "kv_cache", "steady", 4 * GiB)],
    "llama_new_context_with_model: KV self size  =  640.00 MiB, K (f16):  320.00 MiB, V (f16):  320.00 MiB": [
        ("llama.cpp", "kv_cache", "steady", 640 * MiB)],
    "llama_kv_cache_unified: size = 1024.00 MiB (  8192 cells,  32 layers), K (f16):  512.00 MiB": [
        ("llama.cpp", "kv_cache", "steady", 1024 * MiB)],
    "llama_context:      CUDA0 compute buffer size =   280.00 MiB": [("llama.cpp", "activations", "steady", 280 * MiB)],
    "| N/A   45C    P0    70W / 700W |  23034MiB / 24564MiB |     98%      Default |": [
        ("nvidia-smi", "device_used", "peak", 23034 * MiB), ("nvidia-smi", "capacity", None, 24564 * MiB)],
    "|    0   N/A  N/A     12345      C   python                          23020MiB |": [
        ("nvidia-smi", "process", None, 23020 * MiB)],
    "23034 MiB, 24564 MiB": [
        ("nvidia-smi", "device_used", "peak", 23034 * MiB), ("nvidia-smi", "capacity", None, 24564 * MiB)],
    "about 71.5 GiB, I think": [("", "number", None, 71.5 * GiB)],
}  # fmt: skip
"""A line as its engine's source prints it, and everything that is in it."""


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:40])
def test_lines(line):
    """Each line gives its quantities, to what it rounds away."""
    found = [(each.tool, each.quantity, each.moment) for each in sightings(line)]
    assert found == [expected[:3] for expected in LINES[line]]
    for each, (*_, value) in zip(sightings(line), LINES[line], strict=True):
        assert each.low <= value <= each.high
        assert abs(each.value - value) <= 1


def test_lines_that_say_nothing_of_a_gpu():
    """Memory of the host, percentages and losses are no sightings."""
    for line in (
        "CPU Virtual Memory:  used = 125.3, percent = 12.5%",
        "load_tensors:   CPU_Mapped model buffer size =   417.66 MiB"[:55],
        "loss 3.2, lr 1e-4",
        "before_init_mem_cpu = 12",
        "memory: 17179869184.00GiB(1%)",
        "",
    ):
        assert sightings(line) == (), line


def test_what_counts_of_many_lines():
    """Peaks: the highest; servers' first rank; the least room; all caches of llama.cpp; a dry run's zeros are skipped."""
    peaks = sightings("memory: 5.00GiB(1%)\nmemory: 9.00GiB(2%)\nmemory: 8.00GiB(2%)")
    assert [(each.value, each.line, each.times) for each in peaks] == [(9 * GiB, 2, 3)]
    weights = sightings("Model loading took 4.0 GiB\nModel loading took 3.5 GiB")
    assert [each.value for each in weights] == [4 * GiB]
    room = sightings("GPU KV cache size: 2,000 tokens\nGPU KV cache size: 1,000 tokens")
    assert [each.value for each in room] == [1000]
    size = "llama_kv_cache: size = {} MiB (1 cells)"
    caches = sightings(f"{size.format('10.00')}\n{size.format('30.00')}")
    assert [(each.value, each.rank) for each in caches] == [(40 * MiB, "total")]
    dry = sightings("CUDA0 model buffer size = 0.00 MiB\nCUDA0 model buffer size = 7.00 MiB")
    assert [each.value for each in dry] == [7 * MiB]


def test_what_follows_is_of_one_tool():
    """The driver's capacity is another one than PyTorch's: what other processes have is not told from both."""
    alone = [each for each in sightings(OUT.format(request="1.25 GiB")) if each.quantity == "others"]
    both = sightings(f"|  15000MiB / 15360MiB |\n{OUT.format(request='1.25 GiB')}")
    assert [each.value for each in both if each.quantity == "others"] == [alone[0].value]


def test_a_wrapped_message():
    """A terminal that wraps an out-of-memory message loses nothing of it."""
    whole = sightings(OUT.format(request="1.25 GiB"))
    words = OUT.format(request="1.25 GiB").split(" ")
    wrapped = sightings("\n".join(" ".join(words[start : start + 14]) for start in range(0, len(words), 14)))
    assert [each.value for each in wrapped] == [each.value for each in whole]


@pytest.mark.parametrize(
    "text",
    ["9" * 10**6, "memory: " * 10**5, "(" * 10**6, OUT.format(request="1" * 3000) * 1000, "MiB / " * 10**5,
     "\n".join(["CUDA out of memory. Tried to allocate " + "1." * 700] * 500), "\x00\x1b[" * 10**5,
     "12345MiB / " * 10**4, "Load weight end." + "a" * 10**6, " MiB, " * 10**5],
    ids=range(10),
)  # fmt: skip
def test_hostile_logs_are_read_in_passing(text):
    """Patterns look at each character a bounded number of times: a megabyte of the worst is nothing."""
    assert len(sightings(text)) <= 8


def test_a_log_is_cut_to_a_size():
    """What is beyond the limit is not read, and that is said."""
    text = "memory: 5.00GiB(1%)\n" + "x\n" * (LARGEST // 2) + "memory: 9.00GiB(1%)"
    found = reconcile(JOB, text)
    assert found.rows[0].seen.value == 5 * GiB
    assert "Only the first" in reconciled_text(found)


def gib(size):
    return f"{size / GiB:.2f} GiB"


def test_a_log_beside_its_prediction():
    """Inside, below and above the stated range; the difference with its sign."""
    reading = memcore.estimate(JOB).allocated
    for value, verdict in (
        (reading.expected, "inside"),
        (reading.high + GiB, "above"),
        (reading.low - GiB, "below"),
    ):
        row = reconcile(JOB, f"max_memory_allocated: {value}").rows[0]
        assert (row.predicted, row.range, row.verdict) == (reading.expected, (reading.low, reading.high), verdict)
        assert row.difference == reading.expected - value
    rounded = reconcile(JOB, f"memory: {gib(reading.high).replace(' ', '')}(1%)")
    assert rounded.rows[0].quantity == "max_reserved"


def test_a_number_without_a_name():
    """It stands beside all three readings until somebody says which it is; only then it is a case."""
    found = memcore.estimate(JOB)
    rows = reconcile(JOB, "2.5 GiB").rows
    assert [row.predicted for row in rows] == [each.expected for each in found.readings]
    assert reconcile(JOB, "2.5 GiB").cases() == []
    named = reconcile(JOB, "2.5 GiB", reading="device_used")
    assert [row.predicted for row in named.rows] == [found.device.expected]
    assert named.cases()[0]["measured"] == {
        "quantity": "device_used", "bytes": 5 * GiB // 2, "rank": "max", "moment": "peak",
    }  # fmt: skip
    with pytest.raises(memcore.ConfigError, match="reading"):
        reconcile(JOB, "2.5 GiB", reading="everything")


def test_out_of_memory():
    """The allocation that failed is named if a tensor asks for just as much; the case says only that it does not fit."""
    found = memcore.estimate(JOB)
    logits = max(entry.each for entry in found.ledger.entries if entry.category == "logits and loss")
    log = OUT.format(request=f"{-(-logits // (2 * MiB)) * 2}.00 MiB")  # what PyTorch asks the driver for
    rows = {row.quantity: row for row in reconcile(JOB, log).rows}
    assert any(match.bytes == logits for match in rows["request"].matches)
    assert rows["needed"].verdict == "above"
    assert rows["capacity"].predicted == found.capacity
    context = hardware.context(found.job.accelerator)
    assert rows["non_torch"].range == (context.low, context.high)
    assert [each["measured"]["quantity"] for each in reconcile(JOB, f"memory: 9.00GiB(1%)\n{log}").cases()] == ["fits"]
    assert reconcile(JOB, log).cases()[0]["measured"]["value"] is False
    assert "ran out of memory" in reconciled_text(reconcile(JOB, log))


def test_a_difference_is_explained_by_the_ledger_alone():
    """What is missing in the log and is a tensor of just that size is named; what matches nothing is not."""
    found = memcore.estimate(JOB)
    largest = max(found.ledger.entries, key=lambda entry: entry.bytes)
    row = reconcile(JOB, f"max_memory_allocated: {found.allocated.expected - largest.bytes}").rows[0]
    assert row.matches[0].bytes == largest.bytes
    assert largest.title in reconciled_text(reconcile(JOB, f"max_memory_allocated: {row.seen.value}"))
    odd = found.allocated.expected - largest.bytes - 123_456_789
    assert reconcile(JOB, f"max_memory_allocated: {odd}").rows[0].matches == ()
    vague = f"{(found.allocated.expected - largest.bytes) / GiB:.0f} GiB"
    assert reconcile(JOB, vague, reading="max_allocated").rows[0].matches == ()


MEGATRON = "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1900.00 | max allocated: 2500.00 | reserved: 2600.00 | max reserved: 2700.00"  # fmt: skip
SERVER = {
    "model": "llama-3.1-8b",
    "engine": {"type": "vllm"},
    "inference": {"max_model_len": 8192},
    "hardware": {"accelerator": "h100-sxm-80gb"},
}
SERVED = "Model loading took 14.99 GiB\nAvailable KV cache memory: 53.25 GiB\nGPU KV cache size: 436,224 tokens"


@pytest.mark.parametrize(("config", "log", "count"), [(JOB, MEGATRON, 3), (SERVER, SERVED, 3)])
def test_cases_say_what_accuracy_says(config, log, count):
    """The file that is written gives the same predictions and errors where it is read again."""
    found = reconcile(config, log)
    cases = json.loads(case_text(found, "train.log"))
    rows = {(row.quantity, row.seen.moment): row for row in found.rows if row.quantity in {c["measured"]["quantity"] for c in cases}}  # fmt: skip
    assert len(cases) == count
    assert len({each["id"] for each in cases}) == count
    assert {each.get("same_run_as") for each in cases} == {None, cases[0]["id"]}
    for case, result in zip(cases, accuracy(cases).results, strict=True):
        row = rows[case["measured"]["quantity"], case["measured"]["moment"]]
        assert (result.predicted, result.measured) == (row.predicted, row.seen.value)
        assert result.error == pytest.approx(row.share)
        assert case["source"]["where"].startswith("train.log, line ")


def test_what_no_source_fixes_of_a_server_has_a_range():
    """Weights by what loading adds, what is left for the cache, how many tokens that is, and what graphs take."""
    found = reconcile(SERVER, f"{SERVED}\nGraph capturing finished in 12 secs, took 0.75 GiB")
    assert [(row.quantity, row.range is not None) for row in found.rows] == [
        ("weights", True), ("kv_cache", True), ("kv_cache_tokens", True), ("cuda_graphs", True),
    ]  # fmt: skip
    for row in found.rows:
        low, high = row.range
        assert low < row.predicted < high
    assert f"{found.rows[2].range[0]:,} – {found.rows[2].range[1]:,}: " in reconciled_text(found)


def test_nothing_of_a_log_becomes_markup():
    """Neither its texts nor a config's, on the page."""
    hostile = "<img src=x onerror=alert(1)> max_memory_allocated: 5 GiB <script> CUDA capacity: <b> with 5.00GiB memory"
    found = reconcile({**JOB, "engine": {"framework": "trl", "framework_version": "<script>"}}, hostile)
    markup = reconciled_html(found, case=case_text(found, "<img>"))
    assert "<img" not in markup
    assert "<script" not in markup
    assert json.loads(json.dumps(reconciled_data(found, "<img>")))["rows"][0]["tool"]


def test_a_log_that_says_nothing_is_refused():
    """With what is missing, not with an empty table."""
    with pytest.raises(memcore.ConfigError, match="no GPU memory value that memcore can read"):
        reconcile(JOB, "hello")


@pytest.mark.machine
def test_the_command(tmp_path):
    """A file or standard input beside a config; the case is written; wrong input ends with 2."""
    job, log, case = tmp_path / "job.json", tmp_path / "train.log", tmp_path / "case.json"
    job.write_text(json.dumps(JOB))
    log.write_bytes(b"\xff\xfe broken\nmemory: 2.50GiB(17.0%)\n")

    def run(*arguments, given=""):
        command = [sys.executable, "-m", "memcore", "reconcile", *map(str, arguments)]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)

    done = run(job, log, "--case", case)
    assert done.returncode == 0
    assert "torchtitan: peak reserved (line 2)" in done.stdout
    assert json.loads(case.read_text())[0]["source"]["where"] == "train.log, line 2"
    done = run("--model", "gpt2", "--seq", "512", "-", "--as", "max_allocated", "--json", given="2.5 GiB")
    assert json.loads(done.stdout)["rows"][0]["quantity"] == "max_allocated"
    assert run(job, tmp_path / "missing.log").returncode == 2
    assert run(job, "-", given="hello").returncode == 2
    assert run("-", "-", given="{}").returncode == 2


@pytest.mark.parametrize(
    "said", ["max memory {}: 20.1 GiB", "Peak memory {} = 20.1 GiB", "step 3 maximum memory {} 20.1GiB"]
)
def test_a_scripts_own_words_for_pytorchs_peaks_say_which(said):
    """A line that names the quantity is not compared with every one."""
    for word, quantity in (("allocated", "max_allocated"), ("reserved", "max_reserved")):
        assert [each.quantity for each in sightings(said.format(word))] == [quantity]
