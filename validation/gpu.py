"""What a GPU holds: by PyTorch's allocator, by the driver, and by category from a snapshot."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from memcore.units import GiB
from validation.cases import Phase
from validation.devices import matching


def shown() -> int:
    """Bytes of this process's GPU that are not free, by the driver; also those of other processes."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


class Recorder:
    """The counters of the caching allocator, phase by phase."""

    def __init__(self) -> None:
        self._name = "start"
        self._categories: dict[int, str] = {}
        self.phases: list[Phase] = []
        torch.cuda.reset_peak_memory_stats()

    def phase(self, name: str) -> None:
        """Read the counters for what has been, and start anew."""
        torch.cuda.synchronize()
        self.phases.append(
            Phase(
                name=self._name,
                allocated=torch.cuda.memory_allocated(),
                peak=torch.cuda.max_memory_allocated(),
                reserved=torch.cuda.max_memory_reserved(),
                device=shown(),
            )
        )
        torch.cuda.reset_peak_memory_stats()
        self._name = name

    def follow(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """Remember where these tensors lie, so that a snapshot can be sorted."""
        for each in tensors:
            local = getattr(each, "_local_tensor", each)
            if local.is_cuda:
                self._categories[local.untyped_storage().data_ptr()] = category

    def by_category(self) -> Mapping[str, int]:
        """Bytes that are allocated now, by category; `other` is what nobody has named."""
        found: dict[str, int] = {}
        for segment in torch.cuda.memory_snapshot():
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    category = self._categories.get(block["address"], "other")
                    found[category] = found.get(category, 0) + int(block["size"])
        return found


def start(*, expandable: bool) -> None:
    """Give everything back to the driver, so that a run starts like the first one of a process."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{expandable}")
    torch.cuda.reset_peak_memory_stats()


def settle() -> None:
    """Give back what only building a model took: a checkpoint is loaded without it."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def hardware(ranks: int) -> Mapping[str, Any]:
    """The hardware section of a config that runs here: the catalog's id, else how much memory there is."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = matching(properties.name, properties.total_memory)
    if found is not None:
        return {"accelerator": found, "num_gpus": ranks}
    return {"gpu_memory_gb": round(properties.total_memory / GiB, 2), "num_gpus": ranks}
