"""Several jobs that share the same GPUs, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.errors import ConfigError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate

Found = Estimate | ServingEstimate
_GPU = (Hardware.accelerator, Hardware.mig, Hardware.gpu_memory_gb)
"""Settings that say which GPU the jobs share."""


@dataclass(frozen=True)
class Shared:
    """Jobs on the same GPUs, and what they need together; `share` returns it."""

    found: tuple[Found, ...]
    """The estimate of each job, in the order given."""
    taken: int = 0
    """Bytes of each GPU that other processes hold."""
    apart: bool = False
    """Each job has GPUs of its own: what the largest needs is what a GPU must have."""

    @cached_property
    def low(self) -> int:
        """Return the low end of the range, bytes."""
        return self._on_a_gpu(each.device.low for each in self.found)

    @cached_property
    def expected(self) -> int:
        """Return the expected bytes of all processes, as nvidia-smi shows them for the GPU."""
        return self._on_a_gpu(each.device.expected for each in self.found)

    @cached_property
    def high(self) -> int:
        """Return the high end of the range, bytes."""
        return self._on_a_gpu(each.device.high for each in self.found)

    def _on_a_gpu(self, needs: Iterable[int]) -> int:
        """Return what the jobs of one GPU need."""
        return max(needs) if self.apart else sum(needs)

    @property
    def whole(self) -> int | None:
        """Return the bytes of a GPU that programs can use, or None if no config names an accelerator."""
        return min((each.capacity for each in self.found if each.capacity is not None), default=None)

    @property
    def capacity(self) -> int | None:
        """Return the bytes of a GPU that other processes leave, or None if no config names an accelerator."""
        return None if self.whole is None else max(self.whole - self.taken, 0)

    @property
    def headroom(self) -> int | None:
        """Return the free bytes of a GPU; negative if the jobs do not fit together."""
        return None if self.capacity is None else self.capacity - self.expected

    @property
    def fits(self) -> bool | None:
        """Return whether all jobs fit at once, or None if no config names an accelerator."""
        return None if self.headroom is None else self.headroom >= 0

    def left_for(self, job: Found) -> int | None:
        """Return the bytes of a GPU that the other jobs leave for one of them."""
        others = sum(each.device.expected for each in self.found if each is not job)
        return None if self.capacity is None else self.capacity - others

    @property
    def rooms(self) -> dict[int, tuple[int, float]]:
        """Return what each server could have where the jobs do not fit together, by its place among them.

        That is the bytes which the other jobs leave, and the share of the GPU, rounded down to hundredths.
        """
        if self.fits is not False or self.whole is None:
            return {}
        found = {}
        for place, each in enumerate(self.found):
            if isinstance(each, ServingEstimate):
                room = max(self.left_for(each) or 0, 0)
                found[place] = room, 100 * room // self.whole / 100
        return found


def share(*configs: Config | Mapping[str, object], taken: int = 0) -> Shared:
    """Estimate jobs that run on the same GPUs at the same time, each in a process of its own.

    A process keeps what its allocator has taken at its peak, so the jobs' peaks add up even where they come at
    different times, and each process has a CUDA context of its own. A server's cache fills the share of the whole GPU
    that its settings name, whatever else runs there.

    Args:
        configs: The jobs, as in `estimate`. One that names no GPU runs on that of the first that does.
        taken: Bytes of each GPU that other processes hold, as nvidia-smi shows them.

    Returns:
        A `Shared` with an estimate of each job and the sum of their device memory, in bytes.

    Raises:
        ConfigError: If the jobs name different GPUs, and as in `estimate`.
        UnsupportedError: As in `estimate`.

    Sources: c10/cuda/CUDACachingAllocator.cpp: blocks go back to the driver only where an allocation fails.

    Examples:
        >>> train = {"model": "gpt2", "training": {"sequence_length": 1024}, "hardware": {"accelerator": "t4"}}
        >>> serve = {"model": "gpt2", "engine": {"type": "transformers"}}
        >>> found = share(train, serve)
        >>> found.fits, found.expected == sum(each.device.expected for each in found.found)
        (True, True)
    """
    read = [each if isinstance(each, Config) else Config.from_dict(each) for each in configs]
    return Shared(tuple(estimate(each) for each in on_one_gpu(read)), taken)


def on_gpu_of(config: Config, other: Config) -> Config:
    """Return a job on the GPU of another one, whichever it names itself."""
    return config.changed({path: other.get(path) for path in _GPU})


def on_one_gpu(read: list[Config]) -> list[Config]:
    """Return jobs on the GPU of the first that names one.

    Raises ConfigError if another names a different one.
    """
    first = next((each for each in read if _gpu_of(each)), None)
    if first is not None:
        gpu = _gpu_of(first)
        read = [each if _gpu_of(each) else each.changed(gpu) for each in read]
        other = next((each for each in read if _gpu_of(each) != gpu), None)
        if other is not None:
            raise ConfigError.at(
                Hardware.accelerator,
                "jobs on the same GPU name different accelerators, {} and {}; give the same one for all of them",
                _named(first), _named(other),
            )  # fmt: skip
    return read


def _gpu_of(config: Config) -> dict[str, object]:
    return {path: value for path in _GPU if (value := config.get(path)) is not None}


def _named(config: Config) -> str:
    return " ".join(str(each) for each in _gpu_of(config).values())
