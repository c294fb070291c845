"""Counts what the kernels of a family's layer read and write, and how many there are, on fake tensors.

    python -m validation.kernels [MODEL...]

Every operation that PyTorch dispatches in a forward and a backward pass counts as a kernel that reads its inputs and
writes its results; views do not count, and neither do the bytes of products and attention. Two models of different
depth are compared, so that the embedding and the head cancel (attention with dropout, GPT-2's, is not fused here). The last columns set this against what memcore's tape
allocates: `memcore.questions.kernels.MOVED` is the median of their quotients.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from memcore import Estimate, estimate
from memcore.questions.kernels import MOVED, kernels_of
from validation.design import MODELS, network
from validation.plan import has_recurrent_mixers

TOKENS = 1024
DEPTHS = (3, 5)
_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "_grouped_mm", "convolution", "convolution_backward"))
_NO_KERNELS = frozenset(("empty", "empty_like", "new_empty", "empty_strided", "detach", "arange"))
_WRITE_ONLY = frozenset(("zero_", "fill_", "copy_"))


@dataclass
class Counted:
    """Bytes that kernels other than products and attention move, and kernels of any kind."""

    bytes: float = 0
    kernels: float = 0


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counted = Counted()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        given, made = (
            [each for each in tree_flatten(of)[0] if isinstance(each, torch.Tensor)] for of in ((args, kwargs), out)
        )
        in_place = name.endswith("_") and not name.endswith("__")
        storages = {each.untyped_storage()._cdata for each in given}
        view = not in_place and all(each.untyped_storage()._cdata in storages for each in made)
        if not made or view or name in _NO_KERNELS:
            return out
        self.counted.kernels += 1
        if name not in _PRODUCTS and "attention" not in name:
            read = given[1:] if name in _WRITE_ONLY else given
            # What is expanded is read once.
            self.counted.bytes += sum(min(_size(each), each.untyped_storage().nbytes()) for each in read)
            self.counted.bytes += sum(map(_size, made))
        return out


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def count(config: Mapping[str, Any], layers: int) -> Counted:
    """Count the forward and backward pass of a model's layers."""
    from transformers import AutoConfig, AutoModelForCausalLM

    content = {key: value for key, value in _of_depth(config, layers).items() if key not in ("model_type", "dtype")}
    described = AutoConfig.for_model(config["model_type"], **content)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model: Any = AutoModelForCausalLM.from_config(described, attn_implementation="sdpa", dtype=torch.bfloat16)
        body = model.train().base_model
        tokens = torch.randint(0, 100, (1, TOKENS))
        with _Counting() as counting:
            hidden = body(input_ids=tokens, use_cache=False)[0]
            hidden.backward(torch.empty_like(hidden))
    return counting.counted


def recorded(config: Mapping[str, Any], layers: int) -> Counted:
    """Count the same on memcore's tape; its bytes are those that kernels move for what they allocate."""
    kernels = {"kernels": "fallback"} if has_recurrent_mixers(config) else {}
    job: dict[str, Any] = {
        "model": _of_depth(config, layers),
        "training": {"precision": "bf16", "sequence_length": TOKENS, "micro_batch_size": 1, **kernels},
        "engine": {"type": "none"},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 1},
    }
    found = kernels_of(cast("Estimate", estimate(job)).job)
    return Counted(found.bytes, found.count)


def _of_depth(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    lists = {key: list(config[key] * layers)[:layers] for key in ("layer_types", "mlp_layer_types") if config.get(key)}
    return {**config, "n_layer" if "n_layer" in config else "num_hidden_layers": layers, **lists}


def per_layer(counts: Sequence[Counted]) -> Counted:
    """Return what one layer adds, given the counts of both depths."""
    few, many = counts
    layers = DEPTHS[1] - DEPTHS[0]
    return Counted((many.bytes - few.bytes) / layers, (many.kernels - few.kernels) / layers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.kernels", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("models", nargs="*", default=list(MODELS), help="rows of validation.design.MODELS")
    warnings.filterwarnings("ignore")
    quotients = []
    print(f"{'':20s} {'MB':>8s} {'kernels':>8s} {'tape, MB':>9s} {'kernels':>8s} {'for each byte':>14s}")
    for name in parser.parse_args(arguments).models:
        config = network(name)
        try:
            real = per_layer([count(config, layers) for layers in DEPTHS])
        except ValueError as error:  # transformers has no fused attention for it
            print(f"{name:20s} {str(error)[:80]}")
            continue
        tape = per_layer([recorded(config, layers) for layers in DEPTHS])
        quotients.append(real.bytes / tape.bytes * MOVED)
        print(
            f"{name:20s} {real.bytes / 1e6:8.0f} {real.kernels:8.0f} {tape.bytes / MOVED / 1e6:9.0f} {tape.kernels:8.0f}"
            f" {quotients[-1]:14.2f}"
        )
    print(f"median: {median(quotients):.2f}" if quotients else "nothing was counted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
