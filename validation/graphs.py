"""What CUDA graphs hold on a GPU: by graph and by node for the driver, and what a server's captures add up to.

    python -m validation.graphs [--out FILE]

The driver's part is what `cudaMemGetInfo` loses while graphs of one kind of node are captured and first launched; it is
outside PyTorch's allocator, and a server's line about captured graphs contains it. The second part captures the decode
steps of a Llama-3-8B-shaped network for a server's batch sizes, the largest first, into one pool of memory: whole steps,
and one graph between each layer's attention and the next one's.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

from validation.cases import versions
from validation.gpu import shown

NODES = (1, 10, 100, 1000)
"""Nodes of a graph."""
GRAPHS = 16
"""Graphs of each size."""
SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Batch sizes that vLLM captures by default for 512 and more sequences (`cudagraph_capture_sizes`)."""
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, FFN, CACHED = 4096, 32, 32, 8, 128, 14336, 256


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 2 if there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m validation.graphs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="a file for the result; else it is printed")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no GPU is available", file=sys.stderr)
        return 2
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "versions": {**versions(), "cuda": torch.version.cuda},
    }
    for name, rows in (("nodes", _by_nodes()), ("servers", _servers())):
        found[name] = []
        for row in rows:
            found[name].append(row)
            print(json.dumps(row), flush=True)
            if options.out:
                options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _settle() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def _by_nodes() -> Iterator[Mapping[str, Any]]:
    """Yield the driver's bytes for graphs of one kind of node."""
    small, large = torch.zeros(8, device="cuda"), torch.zeros(1 << 20, device="cuda")
    target = torch.empty_like(large)
    rows, square = (torch.zeros(shape, device="cuda", dtype=torch.bfloat16) for shape in ((64, 4096), (4096, 4096)))
    product = torch.empty_like(rows)
    kinds: Mapping[str, Callable[[], Any]] = {
        "elementwise": lambda: small.add_(1),
        "memcpy": lambda: target.copy_(large),
        "product": lambda: torch.mm(rows, square, out=product),
        "memset": small.zero_,
    }
    for kind, run in kinds.items():
        for nodes in NODES:
            yield {"kind": kind, "nodes": nodes, **_captured(nodes, run)}


def _captured(nodes: int, run: Callable[[], Any]) -> Mapping[str, int]:
    """Bytes of the driver for GRAPHS graphs of `nodes` calls each: when captured, and when launched."""
    run()
    pool = torch.cuda.graph_pool_handle()
    first = torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):  # a pool lasts as long as one of its graphs
        run()
    _settle()
    before, held = shown(), torch.cuda.memory_reserved()
    graphs = []
    for _ in range(GRAPHS):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            for _ in range(nodes):
                run()
        graphs.append(graph)
    torch.cuda.synchronize()
    captured = shown()
    for graph in graphs:
        graph.replay()
    torch.cuda.synchronize()
    launched, reserved = shown(), torch.cuda.memory_reserved() - held
    del graphs, graph, first
    _settle()
    return {
        "graphs": GRAPHS, "captured": captured - before, "launched": launched - before, "reserved": reserved,
        "left": shown() - before,
    }  # fmt: skip


class _Decoder:
    """Decode steps of a Llama-3-8B-shaped network; all layers use the same weights."""

    def __init__(self) -> None:
        shapes = {
            "qkv": (HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD), "o": (HEADS * HEAD, HIDDEN), "up": (HIDDEN, 2 * FFN),
            "down": (FFN, HIDDEN),
        }  # fmt: skip
        make: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
        self.weights = {name: torch.randn(shape, **make) * 0.01 for name, shape in shapes.items()}
        self.norm = torch.ones(HIDDEN, **make)
        most = max(SIZES)
        self.cache = torch.randn(2, most, KV_HEADS, CACHED, HEAD, **make)
        self.tokens = torch.randn(most, HIDDEN, **make)
        self.attended = torch.empty(most, HEADS * HEAD, **make)

    def before(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return [tokens, qkv] of the input, [tokens, hidden]."""
        return F.rms_norm(hidden, (HIDDEN,), self.norm) @ self.weights["qkv"]

    def attention(self, qkv: torch.Tensor, out: torch.Tensor) -> None:
        """Attend to the cache; [tokens, heads · head] into `out`."""
        users = len(qkv)
        query = qkv[:, : HEADS * HEAD].view(users, HEADS, 1, HEAD)
        keys, values = self.cache[0, :users], self.cache[1, :users]
        out.copy_(F.scaled_dot_product_attention(query, keys, values, enable_gqa=True).view(users, -1))

    def after(self, hidden: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the layer's output, [tokens, hidden]."""
        hidden = hidden + attended @ self.weights["o"]
        gate, up = (F.rms_norm(hidden, (HIDDEN,), self.norm) @ self.weights["up"]).chunk(2, dim=-1)
        return hidden + (F.silu(gate) * up) @ self.weights["down"]

    def step(self, users: int) -> torch.Tensor:
        """A whole step."""
        hidden = self.tokens[:users]
        for _ in range(LAYERS):
            qkv = self.before(hidden)
            self.attention(qkv, self.attended[:users])
            hidden = self.after(hidden, self.attended[:users])
        return hidden


def _servers() -> Iterator[Mapping[str, Any]]:
    decoder = _Decoder()
    with torch.inference_mode():
        for users in (1, 8, 64, 256, 512):
            decoder.step(users)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            decoder.step(64)
            torch.cuda.synchronize()
        kernels = sum(each.count for each in profile.key_averages() if each.self_device_time_total > 0)
        for name, capture in (("whole steps", _whole), ("pieces", _pieces)):
            for sizes in ((1,), SIZES[-1:], SIZES):
                _settle()
                pool = torch.cuda.graph_pool_handle()
                before, held = shown(), torch.cuda.memory_reserved()
                graphs: list[Any] = []
                for users in reversed(sizes):
                    capture(decoder, users, pool, graphs)
                torch.cuda.synchronize()
                captured, reserved = shown() - before, torch.cuda.memory_reserved() - held
                for graph in graphs:
                    graph.replay()
                torch.cuda.synchronize()
                yield {
                    "captures": name, "sizes": len(sizes), "largest": sizes[-1], "graphs": len(graphs),
                    "kernels_of_a_step": kernels, "captured": captured, "launched": shown() - before,
                    "reserved": reserved,
                }  # fmt: skip
                del graphs, graph


def _whole(decoder: _Decoder, users: int, pool: Any, graphs: list[Any]) -> None:
    graph = torch.cuda.CUDAGraph()
    decoder.step(users)
    with torch.cuda.graph(graph, pool=pool):
        decoder.step(users)
    graphs.append(graph)


def _pieces(decoder: _Decoder, users: int, pool: Any, graphs: list[Any]) -> None:
    """One graph from attention to attention: LAYERS + 1 of them."""
    hidden = decoder.tokens[:users]
    qkv = None
    for layer in range(LAYERS + 1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            if layer:
                hidden = decoder.after(hidden, decoder.attended[:users])
            if layer < LAYERS:
                qkv = decoder.before(hidden)
        graphs.append(graph)
        if layer < LAYERS and qkv is not None:
            decoder.attention(qkv, decoder.attended[:users])


if __name__ == "__main__":
    sys.exit(main())
