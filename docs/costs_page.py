"""Writes `costs.md`: the cost model of a search with its inputs, as they stand in the code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from memcore.hardware import ACCELERATORS, Speed
from memcore.questions.dividing import IDLE
from memcore.questions.roofline import Roofline
from memcore.questions.searching.kinds import KINDS, ROWS

ROOT = Path(__file__).parent.parent
INPUTS: Mapping[str, tuple[str, str]] = {
    "flops": ("dense matrix products in 16 bits, operations per second", "the table below"),
    "flops_efficiency": (
        "share of it that large products reach",
        "the best shape's as measured (stas00/ml-engineering), times what large products of transformers reach of that: "
        "0.97 on an A100 and 0.64 on a B200 (MooreThreads/SimuMax, configs/system), all on an H100 (openxla/xla, "
        "matmul_interpolator_data.h), else their mean",
    ),
    "narrow_efficiency": ("share of twice `flops` that large products in 8 bits reach", "the same"),
    "attention_efficiency": (
        "share of it that FlashAttention-2 reaches in long sequences; cuDNN's kernel is faster on Hopper and Blackwell",
        "arXiv 2407.08608, figures 5 and 6; MooreThreads/SimuMax, configs/system",
    ),
    "memory": ("bandwidth of the GPU's memory", "the table below"),
    "memory_efficiency": (
        "share of it that kernels reach",
        "an A100's and a B200's as measured (MooreThreads/SimuMax, configs/system, bandwidth); assumed for others",
    ),
    "scan_efficiency": (
        "share of it that the chunked scans of Mamba 2 and of the delta rule reach",
        "0.34 to 0.40: Mamba 2 on an H100 (vllm-project/vllm, pull request 27299), the gated delta rule on a GB200 "
        "(fla-org/flash-linear-attention, README)",
    ),
    "link": ("fast links between GPUs, of one GPU in one direction", "half of the table's bandwidth"),
    "domain": ("GPUs that the fast links join; `hardware.gpus_per_node` makes it smaller", "the table below"),
    "network": (
        "between domains, of one GPU in one direction",
        "ports of DGX systems: 100 Gb/s for a V100, 200 for an A100, 400 for an H100 and a B200, 800 for a B300",
    ),
    "communication_efficiency": ("share of a link's bandwidth that collectives reach", "assumed"),
    "communication_units": (
        "share of the GPU that a collective takes from what it overlaps with",
        "assumed: NCCL's channels take 20 of an H100's 132 multiprocessors, and tiles of products wait for them",
    ),
    "collective_latency": ("seconds of a collective of any size", "MooreThreads/SimuMax, configs/system, B200"),
    "rank_latency": ("seconds that each further rank adds to it", "the same"),
    "hop_latency": (
        "further seconds of each step of a ring over nodes, which waits for the network",
        "none: FSDP on 16 to 512 GPUs (mosaicml/llm-foundry). On AWS (EFA) 52 µs: a layer of nanotron's tensor parallelism"
        " over 16 and 32 GPUs takes 8 and 15 ms whatever its width (the Ultra-Scale Playbook)",
    ),
    "kernel_latency": (
        "seconds of a memory-bound kernel of any size",
        "MooreThreads/SimuMax, configs/system, B200 (40 µs on an A100)",
    ),
    "host": ("link to the host, in one direction", "assumed: PCIe 4.0 × 16 as measured by many"),
    "host_memory": ("bandwidth of the host's memory, one GPU's share", "assumed: eight channels of DDR5 for four GPUs"),
    "host_room": (
        "memory of a node's host, which ranks plans that offload",
        "up to 4 TB in a DGX B200; 128 GB in a desktop (AMD, Ryzen 9 7950X); assumed: 512 GB in a workstation, 64 GB in "
        "a laptop",
    ),
}
"""What each input is, and where its value comes from."""

HEAD = """# The cost model of a search

`memcore search` ranks layouts that fit by GPU-seconds per token. `memcore advise` uses the same costs to compare what a change
saves with what it costs, and plans show the time of a step with a range. The costs are a *roofline*: the time of each kind of
work is its amount divided by a rate that was measured in public.

**What it does not know**: your network, jitter, stragglers, and versions of kernels. Eight in ten published step times lie in
the predicted range (tests/test_speed.py states the error for each source). If the costs of two layouts are within a few percent
of each other, the model cannot tell them apart: measure both. Memory is exact in comparison: every recommended layout has been
through `estimate`.

**What is off, and where**: steps of less than about 60 ms on one GPU wait for the host, which starts kernels up to 1.7 times
as slowly as expected: small models without compilation take that much longer. torchtitan's DeepSeek-V3 on 512 GPUs takes 23 to
26 % longer than expected, on one GPU with fake communication 7 % (torchtitan 00cffaeb3). The rest is probably communication,
ranks that wait for each other, or both: these runs do not tell them apart, nor links in a node from the network.

**How well it ranks**: of vTrain's 109 runs of four models on 64 to 512 A100s (VIA-Research/vTrain, ground_truth_multi.csv)
times are 7 % off on average, and the layout that is expected to be fastest takes 1.3 % longer than the one that was. Of
nanotron's sweep (its Ultra-Scale Playbook; 1,671 runs of four models on 8 to 512 H100s that ended and leave a tenth of the GPU
free) the rank correlation is 0.85 in the median of 26 groups of a model and a number of nodes. On up to 8 nodes the layout
expected first of those with tensor parallelism in a node takes 1.7 % longer than the fastest; on 16 nodes it takes 20 % longer,
on 32 12 %, and on 64, where runs of one layout differ by up to six times, several times as long. The likely cause on 16 and 32,
inferred and not measured in these runs, is that sums of gradients are slower there than expected. The playbook's own measurements fit that (assets/data/benchmarks/pp_comm_bandwidth.html): all-reduces of 256 MB
reach 436, 362, 160, 100, 85, 65 and 33 GB/s on 1 to 64 nodes, and all-gathers 250, 185, 119, 69, 55, 28 and 11, as a ring whose
every step over 16 to 512 GPUs takes 26 to 43 µs longer than its bytes. They say too that the network is uneven: one all-reduce
in twenty on 64 nodes is below 12 GB/s and one in twenty above 177. Runs of the same layout under ZeRO-0 and ZeRO-1, which send
nearly the same, differ by more than half in a quarter of pairs on 16 and 32 nodes and in four of ten on 64 (3.0 and 0.5 s in
one of them). No model of a layout can tell these apart: even a choice by the mean of both runs is 23 % slower than the fastest
beyond 8 nodes. Of 624 runs with pipelines, 65 of 232 on 16 nodes, 105 of 216 on 32 and all but one on 64 wait in every slot of
the pipeline, 0.8 s whatever the model and the layout. These ran a version of nanotron whose hosts ask every 0.1 s whether a
message has arrived (branch nouamane/bench2, parallel/pipeline_parallel/p2p.py, `_send_meta`, `_recv_meta`): a stage receives
twice and sends twice in a slot, and each time two messages say the shape. With those 0.8 s the rank correlation is 0.92 to 0.98
on 16 to 64 nodes, and the median of expected over measured times 0.9 to 1.1.

## Formulas

One GPU's step takes

    busy    = max(computing, data + context) + tensor + expert + pipeline + host, or launches if they take longer
    seconds = busy × (slowest + bubble) + waited + update
    cost    = seconds × GPUs / tokens of the step

The symbols: `P` parameters, `R` of them in routed experts; `L` layers of width `h`, each a mixer and a
feed-forward layer (one of them alone counts half); sequences of `s` tokens; `K` elements of
keys and values per token over all layers; `t` tensor-parallel, `c` context-parallel, `p` pipeline and `e` expert-parallel ranks;
`z` ranks per shard group and `d` replicas; `m` micro-batches of `b` sequences; `n = b·s/c` tokens in a rank's micro-batch; `w`
bytes per element sent and `g` per gradient summed. A ring of `k` ranks sends (k-1)/k of a tensor.

| Term | Seconds or bytes | Rate |
| --- | --- | --- |
| products | forward pass: 2 operations for each active parameter and token; ×3 for forward and backward, ×2 where weights are frozen; + what checkpoints compute again: layers without the head and, where PyTorch's end early, without each layer's last product | `flops` × `flops_efficiency`, in 8 bits 2 × `flops` × `narrow_efficiency`, where the head stays in 16; a product of m × n × k takes 1 + 120 · (1/m + 1/n + 1/k) times as long, of which only the 1 is shorter in 8 bits, and where it runs in pieces m is a piece's; one whose rows are no multiple of 16 bytes (a head with an odd number of words) 6.5 times; a further token that is predicted takes the head's product once more; fp32 runs at the peak of fp32, without TF32 |
| products of experts | an expert with N tokens takes 1 + 1.2·balance/N times as long; balance: operations that products do while the GPU reads a byte (measured: 1.1 on an A100, 1.3 on a B200) | |
| attention | 2·s·(d_qk + d_v)·heads for each token (half of it under a causal mask); ×3.5, since the backward pass computes the scores once more; + what is computed again | `flops` × `attention_efficiency` × s/(s + 350); cuDNN's kernel is 1.6 times as fast on an H100, eager attention moves 12 bytes for each score |
| scans | what each kernel reads and writes, forward and backward passes (`memcore/questions/scans.py`): for Nemotron 3's heads of 64 with a state of 128 and chunks of 128 1.4 and 5.1 kB of a token and head, for Qwen3-Next's of 128 5.6 and 12.8; the forward part again where whole layers run again. Convolutions and gated norms, where they are not recorded, count as elementwise; Mamba 1 and lightning attention have no scans here | `memory` × `scan_efficiency` |
| elementwise | PyTorch without compiling: 2.8 bytes for each byte that kernels other than products and attention allocate on the recorded tape (`python -m validation.kernels`), and 3 µs for each kernel. Else, for each token 2·P_active/h bytes for what products wrote, 20·h·L for norms and residual sums if kernels are fused (Megatron, compiled layers), 84·h·L in a pipeline's stages of PyTorch, 114·h·L where norms are composed of several kernels, 12 bytes·h for each chosen expert (all-to-all; torchtitan's own kernels 42·h; 4·h with HybridEP, 4·h and 4·h for each rank with DeepEP), 8/3 bytes of each product's inputs in 8 bits (torchao: 7 bytes in a step, 22 with a scale for each row, on all that tensor parallelism gathers), and 16 for each word of the vocabulary; ×3; 50 bytes in a step of each element of Megatron's experts with a squared ReLU that no kernel weighs; + again; `kernel_latency` for each of 6 kernels of a layer, 12 where it has routed experts | `memory` × `memory_efficiency` |
| further kernels | where they are not recorded, adapters: 12 bytes of each input and 20 of each output element of an adapted matrix, 30 and 56 if the adapter is in fp32; weights in four bits: made 16-bit again in each pass; latent attention without fused kernels: 15 bytes of each element of queries, keys and values; further norms: 39 bytes of each element | `memory` × `memory_efficiency` |
| products, at least | m · P/(t·p) · (w·(2 + again) + 2·g): parameters read in each pass, gradients added up | `memory` × `memory_efficiency` |
| data | P/(t·p) · (z-1)/z · (w·gathers + g·reductions) + 2·P/(t·p·z) · g · (d-1)/d; nanotron sums all gradients on all ranks: no reductions, and 2·P/(t·p) · g · (z-1)/z | the link that t·z, or all ranks, need; over nodes the ports of all ranks of the group in a node; `collective_latency` and `rank_latency`, in rings over nodes `hop_latency` too, for each bucket or layer |
| context | m · (3 + again) · K/(t·p) · n · w · (c-1) | the link that t·c ranks need |
| tensor | m · L/p · 4·(2 + again) · n · h · w · (t-1)/t: two all-gathers and two reduce-scatters in each pass; torchtitan's async tensor parallelism and Megatron's `tp_comm_overlap` hide (t-1)/t of each as far as the product next to it takes as long; in a backward pass torchtitan's hides only what is gathered for the last product of attention and feed-forward layers | the link that t ranks need |
| copies | PyTorch with sequence parallelism: m · L/p · 4·(2 + again) · 2 · n · h · w, what is gathered or reduced along the sequence, which is not the first axis | `memory` × `memory_efficiency` |
| expert | m · copies · n/t · h · w · 2·(2 + again), to the experts and back. Copies of a token that leave its rank, in each layer with k chosen experts: k·(e-1)/e (all-to-all), e·(1 - (1 - 1/e)^k)·(e-1)/e (DeepEP, HybridEP: once to each rank), e - 1 (all-gather) | between nodes `network`, with DeepEP and HybridEP once to each node; within one `link`, at the same time |
| pipeline | 2 · m · chunks · n · h · w / t | `network`, or `link` within a node |
| launches | 20 µs of the host for each kernel on the tape; in a pipeline or with fused kernels for each of 100 of a layer (0.3 of them where blocks are compiled), 250 where it has routed experts, 16 for each adapted matrix, and 6 of each expert (18 in 8 bits); nanotron's as measured; none for what runs in CUDA graphs (Megatron's `--cuda-graph-impl`), whose kernels take 3 µs each at least. Megatron's hosts count each expert's tokens before they start its kernels: in forward passes the GPU waits for these as far as they take longer than experts and dispatch | |
| waited | what is sent once a step: as far as a backward pass (gradients) or a forward pass (parameters) of one micro-batch does not hide it, or all of it where the engine waits | |
| slowest | time of the pipeline's slowest rank over the mean: the one with most layers, or the last, which has head and loss | |
| update | P/(t·p·z) · bytes for each parameter; with 8-bit states of bitsandbytes at least 34 ps for each, and 150 µs for each tensor. PyTorch: fused kernels read parameter, gradient and states and write all but the gradient; `foreach` moves three times as much; clipping 3 times over gradients. Else 38: Adam reads gradient, parameter and moments and writes the latter three, and gradients are read for their norm and filled with zeros | `memory` × `memory_efficiency` |
| host | P/(t·p·z) · 4 · (gathers + reductions) over `host`; 28 bytes for each parameter of Adam's step over `host_memory` | `host`, `host_memory` |
| bubble | (p - 1) / (m · chunks) × the schedule's share | |

*Gathers* and *reductions* are those of the engine: FSDP gathers for each micro-batch, twice if it frees them in between;
stages of a pipeline reduce once; DeepSpeed's stages 1 and 2 gather once for the step, and so does Megatron's distributed
optimizer, which waits for both unless `--overlap-grad-reduce` and `--overlap-param-gather` are set. FSDP's and
context-parallel communication overlaps with compute, which is slower by `communication_units` in the meantime; tensor,
expert (unless `--overlap-moe-expert-parallel-comm` is set) and pipeline communication (unless Megatron's stages have several
chunks) is exposed, and each of its collectives takes `collective_latency` and `rank_latency` (over nodes `hop_latency` too) for each further rank.
Ranks are placed as torchtitan places them: tensor parallelism innermost, then context, data, and pipelines outermost; a group
that fits into the `domain` of the fast links uses them, all others the network.

"""


def page() -> str:
    """The page."""
    return (
        f"{HEAD}{SCHEDULED}{_idle()}{INTRODUCED}{_inputs()}{CHANGED}{_speeds()}{PRICES}{SERVED}{_served()}{_searched()}"
    )


SCHEDULED = """Schedules that split the backward pass idle for a share of 1F1B's bubble (arXiv 2401.10241, table 2; arXiv
2412.19437, table 2; all chunks of a V are half a stage):

"""
INTRODUCED = """
## Inputs

"""
CHANGED = """
Every input can be changed for a search:

    memcore search --model llama-3.1-70b --gpus 64 --accelerator h100-sxm-80gb --seq 32k \\
        --assume network=25e9 --assume flops_efficiency=0.4

```python
from memcore import advise, search
from memcore.questions.roofline import roofline_of

mine = roofline_of("h100-sxm-80gb").adjusted(network=25e9, flops_efficiency=0.4)
*_, last = search(job, roofline=mine)
advised = advise(job, roofline=mine)
```

Use `--assume` for an efficiency that you measured on your cluster. It does not change which layouts fit.

## Accelerators

Peak rates as vendors state them, in 10¹² operations and 10⁹ bytes per second. Links count both directions.

"""
PRICES = """
## Days and money

    memcore plan --model llama-3.1-8b --gpus 64 --accelerator h100-sxm-80gb --seq 8k --goal pre-train --tokens 300B --price 2.5

Days are the tokens divided by tokens per second, with the step time's range. Failures, restarts and evaluation are not counted.
No price is built in. Examples of on-demand prices, in US dollars per GPU-hour:

| GPU | Price | As of | Source |
| --- | --- | --- | --- |
| A100 80 GB | 0.80 to 3.00 | May 2026 | mercatus-ai.com, cloud GPU pricing |
| H100 SXM | 1.99 to 5.00 | May 2026 | the same |
| H200 SXM | 2.50 to 7.00 | May 2026 | the same |
"""
SEARCHED = """
Policies are checkpointing, parameters that stay gathered, model chunks, ZeRO stages, and experts that tensor parallelism does
not split. `--offload` adds parameters and optimizers on the host, `--schedules` adds PyTorch pipelines other than 1F1B.

The search starts with the cheapest layout. It skips a layout without estimating it if a lower bound shows that it cannot fit; the
bound counts parameters, gradients and optimizer states by dtype, and the activations of a recorded forward pass. After enough
layouts fit, it also skips those that cost a quarter more, and those that cannot leave a fifth of the GPU more free than a cheaper
one. `--every` estimates all layouts.

[Layouts](layouts.md) shows where published runs stand in this ranking, and why.

## Several processes

A search without `--every` runs in one process, because each estimate decides whether the next one is needed. With `--every`,
several processes divide the layouts among them:

    memcore search --model llama-3.1-8b --gpus 8 --accelerator h100-sxm-80gb --seq 8k --every --jobs 2 --write sweep.jsonl

Two processes take little more than half the time of one. memcore starts them only if more than a second or two of work is left
after the first half second, and never more than there are cores. Layouts that are already in the file of `--write` are not
estimated again, so an interrupted sweep continues where it stopped.

In Python, any executor of `concurrent.futures` works:

```python
from concurrent.futures import ProcessPoolExecutor

from memcore import search

job = {
    "model": "llama-3.2-1b",
    "training": {"sequence_length": 8192},
    "hardware": {"num_gpus": 2, "accelerator": "rtx-4090"},
}
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as processes:
        *_, last = search(job, every=True, executor=processes)
    print(f"{len(last.best)} of {last.total} layouts fit")  # 23 of 81 layouts fit
```

A Dask cluster works too. Each task is a config as JSON with some layouts, and its result is a few numbers per layout. If a worker
is lost, its task is sent again, and finally run by the process that started the search.

```python
from distributed import Client

with Client("tcp://scheduler:8786") as client:
    *_, last = search(job, every=True, executor=client.get_executor())
```
"""


def _idle() -> str:
    rows = [(f"`{name}`", f"{share:.2g}") for name, share in IDLE.items()]
    return table(("Schedule", "Share"), rows)


def _inputs() -> str:
    default = Roofline()
    rows = [
        (f"`{each.name}`", INPUTS[each.name][0], _number(getattr(default, each.name)), INPUTS[each.name][1])
        for each in fields(Roofline)
    ]
    return table(("Input", "What it is", "H100", "Source"), rows)


def _speeds() -> str:
    named = [(each.name, each.speed) for each in ACCELERATORS]
    rows = [
        (name, f"{row.tflops:g}", f"{row.memory:g}", str(row.domain), f"{row.link:g}", _source(row))
        for name, row in named
    ]
    return table(("Accelerator", "Products in 16 bits", "Memory", "Domain", "Links", "Source"), rows)


def _source(row: Speed) -> str:
    alike = row.link == 0 or row.source == row.link_source
    return row.source if alike else f"{row.source}; links: {row.link_source}"


SERVED = """
## Servers

Tokens per second of a server follow from the same rates: a step reads the weights that its tokens pass and what is cached,
and its kernels take some microseconds for each layer on top (`memcore.questions.serving_speed` has the formula). Those
microseconds, and the share of a memory's bandwidth that kernels reach, are fitted to published rates, by server and kind
of GPU; half of the rates of November 2026 were put aside before, and the first prediction of these was off by 10 % in the median
and 30 % in the 90th percentile, with 96 % of them inside the stated range. Errors are absolute, of seconds; where there is a
dash nothing was said.

"""


def _served() -> str:
    """Errors by source or regime, as tests/test_serving_speed.py checks them."""
    told = json.loads((ROOT / "tests" / "truth" / "serving_speed_errors.json").read_text(encoding="utf-8"))
    rows = [
        (kind, str(each["cases"]), str(each["answered"]), *_percents(each["now"]), *_percents(each["before"]))
        for kind, each in told.items()
    ]
    head = ("Source or regime", "Rates", "Answered", "Median", "90th percentile", "Median before", "90th before")
    return table(head, rows)


def _percents(errors: Sequence[float] | None) -> Sequence[str]:
    return ("-", "-") if errors is None else [f"{100 * each:.0f} %" for each in errors]


def _searched() -> str:
    titles = ", ".join(each.title for each in KINDS)
    head = f"\n## What is searched\n\nWhere a config names no engine: {titles}. Where it names one, that one.\n\n"
    rows = [(f"`{name}`", ", ".join(sorted(row.divides)) or "-", str(len(row.policies))) for name, row in ROWS.items()]
    return head + table(("Engine", "Divides", "Policies"), rows) + SEARCHED


def _number(value: float) -> str:
    return f"{value:g}" if value < 10**6 else f"{value / 10**9:,g} × 10⁹"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
