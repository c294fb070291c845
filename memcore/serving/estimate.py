"""From a serving config to what each GPU holds, and how many sequences it can take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from memcore.config.engine import EngineSettings, release
from memcore.config.settings import MODEL, Config
from memcore.hardware import monitor
from memcore.memory.answer import Answer
from memcore.memory.ledger import Entry, Ledger
from memcore.memory.readings import Reading
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.serving.budget import Budget, Pool, RankBudget
from memcore.serving.checkpoint import text_config
from memcore.serving.inference import Inference
from memcore.serving.job import ServingJob, resolve
from memcore.serving.settings import ServerSettings
from memcore.units import format_bytes


def estimate(config: Config) -> ServingEstimate:
    """The answer of the server that a config names, and the same for other networks that its model may stand for."""
    job = resolve(config)
    others = tuple(estimate(config.replaced(MODEL, other)) for other in job.model.alternatives)
    stored = [replace(job, basics=replace(job.basics, stored=each), recipes=()) for each in job.recipes]
    recipes = tuple(ServingEstimate(each, each.server.budget(each)) for each in stored)
    return ServingEstimate(job, job.server.budget(job), others, recipes)


_BEYOND = "servers reject that, or warn, unless its rotary positions are scaled (vLLM: VLLM_ALLOW_LONG_MAX_MODEL_LEN)"


@dataclass(frozen=True, repr=False)
class ServingEstimate(Answer):
    """The memory of a server; sizes are bytes per GPU, those of the rank that holds most.

    `estimate` returns it for a config whose engine is a server.
    """

    job: ServingJob
    budget: Budget
    alternatives: tuple[ServingEstimate, ...] = ()
    """The same with other networks that the model may stand for."""
    recipes: tuple[ServingEstimate, ...] = ()
    """The same with what other repositories of the format quantize."""

    @cached_property
    def rank(self) -> RankBudget:
        """Return the class of ranks that holds most."""
        return max(self.budget.ranks, key=lambda rank: rank.ledger.total)

    @property
    def ranks(self) -> tuple[RankBudget, ...]:
        """Return one element for each class of ranks with the same memory."""
        return self.budget.ranks

    @property
    def pool(self) -> Pool | None:
        """Return the KV cache pool, or None if the cache grows with the sequences instead."""
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
        """Return everything that this rank holds."""
        return self.rank.ledger

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes that belong to the numbers."""
        return (*self.budget.notes, *self._recipes_differ, *self.beyond_positions)

    @property
    def beyond_positions(self) -> tuple[str, ...]:
        """Return a note on a context that is longer than the model's positions."""
        most, length = self.job.model.sizes["P"], self.job.basics.max_model_len
        if self.refused is not None:
            return (self.refused,)
        said = Message("{:,} tokens exceed the {:,} positions in the model's config; {}", length, most, _BEYOND)
        own = self.job.server.too_long
        told = own is None or (length == self._asked and self.job.config[ServerSettings.allow_longer])
        return (said,) if told and length > most else ()

    @cached_property
    def refused(self) -> Message | None:
        """Return why the server does not start, as with a longer sequence than its own maximum."""
        if self.budget.refused is not None:
            return self.budget.refused
        own, config, asked = self.job.server.too_long, self.job.config, self._asked
        if own is None or asked is None or config[ServerSettings.allow_longer]:
            return None
        said, scaled = text_config(self.job.basics.raw), config[ServerSettings.scaled_positions]
        if scaled is not None:
            said = {"max_position_embeddings": scaled}
        version = config[EngineSettings.version]
        return own(said, asked, None if version is None else release(version))

    @property
    def _asked(self) -> int | None:
        """Return the longest sequence that the config asks for; None where the server decides."""
        asked: int | None = self.job.config.get(Inference.max_model_len)
        return asked

    @property
    def _recipes_differ(self) -> tuple[str, ...]:
        """Return which repositories the verdict holds for, where another one would not start."""
        left = self._headroom
        tightest = min(self.recipes, key=lambda each: each.headroom or 0, default=None)
        if tightest is None or left is None or left < 0 or (tightest.headroom or 0) >= 0:
            return ()
        most, own = (format_bytes(each.ledger.sum("weights", "draft model")) for each in (tightest, self))
        return (
            Message(
                "repositories of this format differ: weights of {} fit, those of {} do not; name the repository, or "
                "give its config.json",
                own,
                most,
            ),
        )

    @cached_property
    def allocated(self) -> Reading:
        """Return the bytes that PyTorch's or the server's own allocator hands out."""
        held = [entry for entry in self.ledger.entries if entry.category != "outside the allocator"]
        return Reading(
            name="allocated",
            instrument=self.job.server.shows,
            low=sum(entry.low for entry in held),
            expected=sum(entry.bytes for entry in held),
            high=sum(entry.high for entry in held),
            range_because=_doubted(held),
        )

    @cached_property
    def device(self) -> Reading:
        """Return the bytes in use on the GPU as nvidia-smi shows them."""
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
            instrument=monitor(self.job.accelerator),
            low=total - less,
            expected=total,
            high=total + more,
            range_because=_doubted(self.ledger.entries),
        )

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Return both readings: allocated, device."""
        return self.allocated, self.device

    @property
    def users(self) -> int:
        """Return the number of sequences that must fit at the same time."""
        return self.job.basics.batch or 1

    @property
    def asked_length(self) -> int:
        """Return the tokens of each of them: the mean if the config gives it, else the maximum."""
        given = self.job.config[Inference.mean_length]
        if given is not None and self.users > 1:
            return self.job.basics.mean_length
        longest, pool = self.job.basics.max_model_len, self.pool
        if self._shortened and self.job.basics.batch is None and pool is not None and pool.tokens:
            return min(longest, pool.tokens)
        return longest

    @cached_property
    def needed(self) -> int:
        """Return the pool units that the requested sequences take, at least those of one longest sequence."""
        if self.pool is None:
            return 0
        each = -(-self.users // self.pool.replicas)
        longest = 1 if self._shortened else self.pool.needed(self.job.basics.max_model_len)
        if self._shortened and self.job.basics.batch is None:
            return max(self.pool.least, longest)
        return max(self.pool.least, longest, each * self.pool.needed(self.asked_length))

    @property
    def _shortened(self) -> bool:
        """Return whether the server starts although its pool cannot hold the longest sequence."""
        return self.job.server.shortens

    @property
    def spare(self) -> int | None:
        """Return the free bytes of the pool, negative if the requested sequences do not fit."""
        if self.pool is None or self.pool.capacity is None:
            return None
        return (self.pool.capacity - self.needed) * self.pool.bytes_each

    @cached_property
    def headroom(self) -> int | None:
        """Return the free bytes of the GPU with any repository of the format; negative if the job does not fit.

        It is less than nothing, too, where the server refuses to start with all the memory that there is.
        """
        if self._headroom is None:
            return None
        found: list[int] = [self._headroom, *(each.headroom or 0 for each in self.recipes)]
        return min(found) if self.refused is None else min(-1, *found)

    @property
    def _headroom(self) -> int | None:
        """Return the headroom for the usual recipe."""
        left = super().headroom
        if left is None or self.spare is None:
            return left
        # A pool takes all that the server may have: what is left next to it says nothing.
        return self.spare if left >= 0 else min(left, self.spare)

    @property
    def fits(self) -> bool | None:
        """Return whether the server starts and takes the requested sequences; None without an accelerator."""
        return None if self.headroom is None else self.headroom >= 0

    @property
    def certain(self) -> bool:
        """Return whether the whole range gives the same answer, of the pool as of the GPU."""
        pool = self.pool
        if self.refused is not None and self.capacity is not None:
            return True
        sure = pool is None or pool.capacity is None or not pool.capacity_low < self.needed <= pool.capacity_high
        return super().certain and sure and not (self.fits and self.budget.doubted)


def _doubted(entries: Iterable[Entry]) -> str:
    """Return the titles of what no source fixes, the widest range first."""
    ranged = sorted((each for each in entries if each.high > each.low), key=lambda each: each.low - each.high)
    return joined("; ", dict.fromkeys(each.title for each in ranged))
