"""The same step on fake tensors: exact allocated peaks without a GPU, for layouts of any size.

    python -m validation.simulate CONFIG.json... [--device cpu] [--out FILE]

Prints truth cases. What it cannot see: workspaces of cuBLAS and cuDNN, NCCL, the CUDA context, the allocator's
fragmentation, and compiled graphs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from validation import fake_cuda, files


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate configs; 2 if one is refused."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.simulate", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("configs", nargs="+", help="files with a config, or with a list of cases")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="what the fake tensors say they are on"
    )
    parser.add_argument("--out", help="a file for the cases; else they are printed")
    options = parser.parse_args(arguments)
    if options.device == "cuda":
        try:
            fake_cuda.install()
        except fake_cuda.Unavailable as error:
            print(error, file=sys.stderr)
            return 2
    from validation.running import tracked

    return files.run_all(options.configs, options.out, lambda config: tracked(config, options.device, simulated=True))


if __name__ == "__main__":
    sys.exit(main())
