"""Fixed overheads of a GPU: what it holds that no tensor explains.

    python -m validation.overheads [--out FILE]

Each part is measured in a fresh process, so that nothing is loaded already: the CUDA context, the kernels and
workspaces that the first matrix products bring, attention's kernels, a first NCCL communicator, and the sizes in which
the allocator takes memory from the driver.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memcore.units import MiB
from validation.cases import versions
from validation.devices import in_use

Found = dict[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all overheads, or one of them (what the fresh processes do)."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.overheads", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, help="a file; else they are printed")
    parser.add_argument("--part", choices=tuple(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        print("no GPU is available", file=sys.stderr)
        return 2
    if options.part:
        print(json.dumps(PARTS[options.part]()))
        return 0
    write(options.out)
    return 0


def write(target: Path | None) -> None:
    """Measure everything into a file, or onto standard output."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    found = {
        "device": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "total_memory": properties.total_memory,
        "driver_before": in_use(),
        "versions": {**versions(), "cuda": torch.version.cuda},
        "bytes": {name: _fresh(name) for name in PARTS},
    }
    text = json.dumps(found, indent=1) + "\n"
    if target is None:
        print(text, end="")
    else:
        target.write_text(text, encoding="utf-8")


def _fresh(part: str) -> Mapping[str, int] | str:
    """One part in a process of its own; what went wrong, where it did."""
    command = [sys.executable, "-m", "validation.overheads", "--part", part]
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if part == "expandable" else {}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **expandable})
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2][:300]
    found: Found = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def _outside() -> int:
    """Bytes that the driver shows beyond the caching allocator."""
    import torch

    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return int(total - free - torch.cuda.memory_reserved())


def _context() -> Found:
    """The CUDA context, with nothing loaded but PyTorch's own module for filling a tensor."""
    import torch

    before = in_use() or 0
    torch.empty(1, device="cuda")
    bare = _outside()
    torch.zeros(1, device="cuda").add_(1)
    return {"before": before, "context": bare - before, "first_kernel": _outside() - bare}


def _products() -> Found:
    """cuBLAS and cuBLASLt: their workspaces are the allocator's, their kernels the driver's."""
    import torch

    x = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    bias = torch.zeros(256, device="cuda", dtype=torch.bfloat16)
    outside, held = _outside(), torch.cuda.memory_allocated()
    y = x @ x
    found = {
        "cublas_workspace": torch.cuda.memory_allocated() - held - 256 * 256 * 2,
        "cublas_kernels": _outside() - outside,
    }
    held = torch.cuda.memory_allocated()
    z = torch.nn.functional.linear(y, y, bias)
    found["cublaslt_workspace"] = torch.cuda.memory_allocated() - held - 256 * 256 * 2
    held = torch.cuda.memory_allocated()
    z.sum().backward()
    torch.cuda.synchronize()
    del y, z
    left = 2 * 256 * 256 * 2 + 256 * 2
    found["backward_thread_workspaces"] = (
        torch.cuda.memory_allocated() - left - found["cublas_workspace"] - found["cublaslt_workspace"]
    )
    found["all_kernels"] = _outside() - outside
    return found


def _attention() -> Found:
    """Kernels of attention, forward and backward."""
    import torch

    heads = torch.zeros(1, 4, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    outside = _outside()
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum().backward()
    return {"attention_kernels": _outside() - outside}


def _communicator() -> Found:
    """NCCL's buffers for a first communicator of the ranks that run (one, unless under torchrun)."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    x = torch.zeros(1 << 20, device="cuda")
    outside = _outside()
    dist.init_process_group("nccl")
    dist.all_reduce(x)
    first = _outside() - outside
    group = dist.new_group(list(range(dist.get_world_size())))
    dist.all_reduce(x, group=group)
    found = {
        "ranks": dist.get_world_size(),
        "first_communicator": first,
        "second_communicator": _outside() - outside - first,
    }
    dist.destroy_process_group()
    return found


def _granularity() -> Found:
    """Return how the allocator rounds requests, and in which sizes it asks the driver."""
    import torch

    found: Found = {}
    for name, size in (("1B", 1), ("1MiB", MiB), ("1MiB+1", MiB + 1), ("10MiB", 10 * MiB), ("10MiB+1", 10 * MiB + 1)):
        torch.cuda.empty_cache()
        held, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        found[f"{name}_allocated"] = torch.cuda.memory_allocated() - held
        found[f"{name}_reserved"] = torch.cuda.memory_reserved() - reserved
        del block
    return found


PARTS: Mapping[str, Callable[[], Found]] = {
    "context": _context,
    "products": _products,
    "attention": _attention,
    "communicator": _communicator,
    "granularity": _granularity,
    "expandable": _granularity,
}
"""What is measured, each in a fresh process; `expandable` is the granularity with expandable segments."""


if __name__ == "__main__":
    sys.exit(main())
