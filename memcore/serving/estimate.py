"""From a serving config to what each GPU holds, and how many sequences it can take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from memcore.config.defaults import Assumption
from memcore.config.settings import MODEL, Config
from memcore.memory.readings import Reading
from memcore.messages import Message
from memcore.serving.budget import Budget, Pool, RankBudget
from memcore.serving.entries import Ledger
from memcore.serving.inference import Inference
from memcore.serving.job import ServingJob, resolve
from memcore.shown import Shown


def estimate(config: Config) -> ServingEstimate:
    """The answer of the server that a config names, and the same for other networks that its model may stand for."""
    job = resolve(config)
    others = tuple(estimate(config.replaced(MODEL, other)) for other in job.model.alternatives)
    stored = [replace(job, basics=replace(job.basics, stored=each), recipes=()) for each in job.recipes]
    recipes = tuple(ServingEstimate(each, each.server.budget(each)) for each in stored)
    return ServingEstimate(job, job.server.budget(job), others, recipes)


_BEYOND = "servers reject that, or warn, unless its rotary positions are scaled (vLLM: VLLM_ALLOW_LONG_MAX_MODEL_LEN)"


@dataclass(frozen=True, repr=False)
class ServingEstimate(Shown):
    """The answer for one server; bytes are of the rank that holds most."""

    job: ServingJob
    budget: Budget
    alternatives: tuple[ServingEstimate, ...] = ()
    """The same with other networks that the model may stand for."""
    recipes: tuple[ServingEstimate, ...] = ()
    """The same with what other repositories of the format quantize."""

    @cached_property
    def rank(self) -> RankBudget:
        """The class of ranks that holds most."""
        return max(self.budget.ranks, key=lambda rank: rank.ledger.total)

    @property
    def ranks(self) -> tuple[RankBudget, ...]:
        """Every class of ranks that hold the same."""
        return self.budget.ranks

    @property
    def pool(self) -> Pool | None:
        """Where sequences live; None where the cache grows with them."""
        pool, others = self.budget.pool, [each.budget.pool for each in self.recipes]
        found = [each for each in others if each is not None]
        if pool is None or pool.capacity is None or not found:
            return pool
        return replace(
            pool,
            capacity_low=min([pool.capacity_low, *(each.capacity_low for each in found)]),
            capacity_high=max([pool.capacity_high, *(each.capacity_high for each in found)]),
        )

    @property
    def ledger(self) -> Ledger:
        """Everything that this rank holds."""
        return self.rank.ledger

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the config leaves open, and what was taken."""
        return self.job.assumptions

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know beside the numbers."""
        most, length = self.job.model.sizes["P"], self.job.basics.max_model_len
        if length <= most:
            return self.budget.notes
        beyond = Message("{:,} tokens exceed the {:,} positions in the model's config; {}", length, most, _BEYOND)
        return (*self.budget.notes, beyond)

    @cached_property
    def allocated(self) -> Reading:
        """Bytes that PyTorch, or the server's own allocator, hands out."""
        held = [entry for entry in self.ledger.entries if entry.category != "outside the allocator"]
        return Reading(
            name="allocated",
            instrument="torch.cuda.max_memory_allocated",
            low=sum(entry.low for entry in held),
            expected=sum(entry.bytes for entry in held),
            high=sum(entry.high for entry in held),
            range_because="not documented by any source",
        )

    @cached_property
    def device(self) -> Reading:
        """Bytes that the driver shows for the GPU."""
        own, others = self._device, [other.device for other in (*self.alternatives, *self.recipes)]
        return replace(
            own,
            low=min([own.low, *(each.low for each in others)]),
            high=max([own.high, *(each.high for each in others)]),
        )

    @property
    def _device(self) -> Reading:
        total, (less, more) = self.ledger.total, self.rank.spread
        return Reading(
            name="device",
            instrument="nvidia-smi",
            low=total - less,
            expected=total,
            high=total + more,
            range_because="context, communicators and graphs, not documented by any source",
        )

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Both."""
        return self.allocated, self.device

    @property
    def capacity(self) -> int | None:
        """Bytes of a GPU that a job can use; None if no accelerator is named."""
        return self.job.capacity

    @property
    def users(self) -> int:
        """Sequences that must fit at the same time."""
        return self.job.basics.batch or 1

    @property
    def asked_length(self) -> int:
        """Tokens of each of them: their mean where the config says it, else the longest."""
        given = self.job.config[Inference.mean_length]
        if given is not None and self.users > 1:
            return self.job.basics.mean_length
        longest, pool = self.job.basics.max_model_len, self.pool
        if self._shortened and self.job.basics.batch is None and pool is not None and pool.tokens:
            return min(longest, pool.tokens)
        return longest

    @cached_property
    def needed(self) -> int:
        """Units of the pool that the sequences asked for take; one of the longest at least."""
        if self.pool is None:
            return 0
        each = -(-self.users // self.pool.replicas)
        longest = 1 if self._shortened else self.pool.needed(self.job.basics.max_model_len)
        if self._shortened and self.job.basics.batch is None:
            return max(self.pool.least, longest)
        return max(self.pool.least, longest, each * self.pool.needed(self.asked_length))

    @property
    def _shortened(self) -> bool:
        """Whether the server starts with less room than the longest sequence takes."""
        return self.job.server.shortens

    @property
    def spare(self) -> int | None:
        """Bytes of the pool that are left; negative if the sequences asked for do not fit."""
        if self.pool is None or self.pool.capacity is None:
            return None
        return (self.pool.capacity - self.needed) * self.pool.bytes_each

    @property
    def headroom(self) -> int | None:
        """Bytes of a GPU that are left; negative if the job does not fit."""
        if self.capacity is None:
            return None
        left = self.capacity - self.device.expected
        if self.spare is None:
            return left
        # A pool takes all that the server may have: what is left beside it says nothing.
        return self.spare if left >= 0 else min(left, self.spare)

    @property
    def fits(self) -> bool | None:
        """Whether the server starts and takes what is asked; None if no accelerator is named."""
        return None if self.headroom is None else self.headroom >= 0

    @property
    def certain(self) -> bool:
        """Whether all of the range says the same."""
        if self.capacity is None:
            return False
        if self.device.low <= self.capacity < self.device.high:
            return False
        pool = self.pool
        return pool is None or pool.capacity is None or not pool.capacity_low < self.needed <= pool.capacity_high
