"""Runs configs for real and prints what the GPU and the allocator held, as truth cases.

    python -m validation.measure CONFIG.json... [--device cpu] [--snapshots] [--out FILE]

Without a GPU, tiny models run on the CPU, where a dispatch mode follows every storage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch import distributed as dist

from validation import files
from validation.running import on_gpu, tracked


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure configs; 2 if one is refused."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.measure", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("configs", nargs="+", help="files with a config, or with a list of configs or cases")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: a GPU where there is one")
    parser.add_argument("--snapshots", action="store_true", help="bytes by category after the last step")
    parser.add_argument("--out", help="a file for the cases; else they are printed")
    options = parser.parse_args(arguments)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.device is None and device == "cpu":
        print("no GPU is available: on the CPU, where such cases show that the tool works", file=sys.stderr)
    if device == "cuda" and not torch.cuda.is_available():
        print("no GPU is available; --device cpu measures tiny models", file=sys.stderr)
        return 2
    if device == "cpu":
        return files.run_all(options.configs, options.out, lambda each: tracked(each, "cpu", simulated=False))
    return files.run_all(options.configs, options.out, lambda each: [on_gpu(each, snapshots=options.snapshots)])


if __name__ == "__main__":
    status = main()
    if dist.is_initialized():
        dist.destroy_process_group()  # whose threads would abort the process while it ends
    sys.exit(status)
