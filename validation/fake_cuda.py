"""Lets a build of PyTorch without CUDA take fake tensors that say they are on `cuda:0`.

Fake tensors have no storage, but C++ code still asks for the device's guard, autograd for its queues, and FSDP for
streams. No public interface answers for a device that the build lacks, so `fake_cuda.cpp` registers a guard that does
nothing (compiled once, with the machine's C++ compiler), and the functions of `torch.cuda` that engines call are
replaced. Must be installed before torch is imported.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

COMPILER = shutil.which("g++") or shutil.which("c++")
"""What compiles the guard, or None."""
_SOURCE = Path(__file__).with_name("fake_cuda.cpp")


class Unavailable(Exception):
    """There is no compiler, or torch has been imported before."""


def install() -> None:
    """Make `cuda:0` a device for fake tensors.

    Raises Unavailable.
    """
    if "torch" in sys.modules:
        raise Unavailable("torch has been imported before the fake device was installed")
    if COMPILER is None:
        raise Unavailable("a C++ compiler is needed to simulate CUDA on a machine without it")
    ctypes.CDLL(str(_library()), mode=ctypes.RTLD_GLOBAL).install_guard()
    import torch

    _replace(torch)


def _library() -> Path:
    """The compiled guard; compiled into a folder of this process, which is removed with it."""
    folder = Path(sysconfig.get_paths()["purelib"]) / "torch"
    target = Path(_KEPT.name) / "guard.so"
    options = ["-O1", "-std=c++20", "-fPIC", "-shared", f"-I{folder / 'include'}"]
    libraries = [f"-L{folder / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{folder / 'lib'}"]
    subprocess.run([str(COMPILER), *options, str(_SOURCE), *libraries, "-o", str(target)], check=True)
    return target


_KEPT = tempfile.TemporaryDirectory(prefix="memcore-")


class Stream:
    """A stream on which nothing runs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stream_id = self.cuda_stream = 0
        self.device_index, self.device_type, self.priority = 0, 1, 0

    def __getattr__(self, name: str) -> Any:
        """Waiting and recording return at once."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: True

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or Stream()

    def __enter__(self) -> Stream:  # noqa: PYI034 - Self came after Python 3.10
        """The stream is current."""
        return self

    def __exit__(self, *_: object) -> None:
        """It is not any more."""


def _replace(torch: Any) -> None:
    """Replace what engines ask `torch.cuda` for."""
    stream = Stream()
    answers: dict[str, Any] = {
        "current_stream": stream, "default_stream": stream, "set_stream": None, "current_device": 0, "set_device": None,
        "device_count": 8, "synchronize": None, "is_initialized": True, "_lazy_init": None, "empty_cache": None,
        "get_device_capability": (8, 0), "get_device_name": "fake", "is_bf16_supported": True, "stream": stream,
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    torch.cuda.Stream = torch.cuda.Event = Stream
    torch.accelerator.current_stream = lambda *_: stream
    from torch._subclasses import fake_tensor
    from torch.cuda.amp import common

    fake_tensor.init_gpu_context = lambda _: None
    common.amp_definitely_not_available = lambda: False
    _meshes_outside(torch)


def _meshes_outside(torch: Any) -> None:
    """A DeviceMesh keeps small real tensors of rank numbers, which an active fake mode must not see."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp._fully_shard import _fsdp_init, _fully_shard

    def outside(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with unset_fake_temporarily():
                return function(*args, **kwargs)

        return run

    DeviceMesh.mesh = property(outside(DeviceMesh.mesh.fget))
    for name in ("__init__", "__getitem__", "_flatten", "get_local_rank", "get_coordinate", "get_all_groups"):
        setattr(DeviceMesh, name, outside(getattr(DeviceMesh, name)))
    DeviceMesh._concatenate = staticmethod(outside(DeviceMesh._concatenate))
    found = outside(_fsdp_init._get_post_forward_mesh_info)
    for module in (_fsdp_init, _fully_shard):
        if hasattr(module, "_get_post_forward_mesh_info"):
            module._get_post_forward_mesh_info = found
