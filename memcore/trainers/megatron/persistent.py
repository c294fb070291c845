"""What a Megatron rank keeps over steps: parameters, gradient buffers, optimizer states, workspaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm, prod

from memcore import registry
from memcore.dtypes import ITEMSIZE
from memcore.memory.allocator import BlocksAroundStep
from memcore.memory.ledger import Entry
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape, Smaller, product
from memcore.trace.code import code_of
from memcore.trace.program import aligned
from memcore.trainers.megatron.layer_wise import Matrix, Shares, laid_out, ping_pong
from memcore.trainers.megatron.networks.towers import SEEING
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.megatron.workspaces import Stored, Workspaces, total

_ALWAYS = "during the whole job"
_FROM_FIRST_STEP = "allocated in the first optimizer step and kept"
_FROM_FIRST_USE = "allocated at first use and kept"
_OPTIMIZING = "during the optimizer's step"
_UNTIL_NEXT = "from the optimizer's step until the next step begins"
_MOMENTS = ("moment_1", "moment_2")
_START = 64
"""Elements that the beginning of a parameter is aligned to in a flat buffer."""
_END = 128
"""Elements that the end of a bucket is aligned to, in addition to the ranks that split it."""


@dataclass(frozen=True)
class MegatronPersistent(Workspaces):
    """What one rank keeps; all numbers are bytes."""

    @cached_property
    def parameters(self) -> int:
        """Return parameters as the layers see them."""
        states = self.job.states
        shared = Fraction(1) if states.shares_parameters else None
        found = self._bytes(states.parameter, shared, optimized=False) + self._frozen
        return found + sum(2 * each.count * aligned(size) for each, size in self._measured if self._cached(each))

    @cached_property
    def _frozen(self) -> int:
        """Return parameters that do not learn: no data-parallel rank shares them."""
        item = ITEMSIZE[self.job.states.parameter]
        return sum(each.count * aligned(size * item) for each, size in self._measured if not each.learns)

    @cached_property
    def buffers(self) -> int:
        """Gradient buffers and master weights, which are there from the start."""
        states = self.job.states
        masters = 0 if states.master is None else self._part(states.master, stays=states.master_stays)
        return masters + total(self._flat())

    @cached_property
    def states(self) -> int:
        """Adam's moments, from the first step on."""
        if self.job.states.matrices is not None:
            return total(self.optimizer_states())
        return sum(times * self._part(dtype) for dtype, times in Counter(self.job.states.moments).items())

    @cached_property
    def _measured(self) -> Sequence[tuple[Stored, int]]:
        return list(zip(self.stored, self.elements, strict=True))

    @cached_property
    def _learning(self) -> Mapping[bool, Sequence[tuple[Stored, int]]]:
        """Return the trainable parameters in the buffers of experts, and the others."""
        rows = self._measured
        return {expert: [rows[place] for place in places] for expert, (_, places) in self.content.learning.items()}

    def _optimizer_ranks(self, *, expert: bool) -> str:
        """Return the symbol of the ranks that share a parameter's optimizer."""
        if self.job.states.outer:
            return "zoe" if expert else "zo"
        return _ranks(expert=expert)

    def _bytes(self, dtype: str, share: Fraction | None, *, optimized: bool = True) -> int:
        """Return bytes of something for each parameter that learns: of all of it, or of a share of this rank's part.

        `optimized`: the part whose optimizer is on this rank; else what it stores.
        """
        item, found = ITEMSIZE[dtype], 0
        for expert, rows in self._learning.items():
            if share is None:
                found += sum([each.count * aligned(size * item) for each, size in rows])
                continue
            over = self._optimizer_ranks(expert=expert) if optimized else _ranks(expert=expert)
            times, ranks = -share.numerator, self.job.sizes[over] * share.denominator
            found += sum([each.count * aligned(-(size * times // ranks) * item) for each, size in rows])
        return found

    def _part(self, dtype: str, *, stays: bool = False) -> int:
        """Return bytes of what `_sharded` lists."""
        kept = self._kept(stays=stays)
        if not kept:
            return 0
        if self.job.states.sharded and self.job.states.whole is None:
            return self._bytes(dtype, kept)
        if kept == 1 and self.job.states.whole is None:
            return self._bytes(dtype, None)
        return total(self._sharded("master_weight", dtype, _ALWAYS, stays=stays))

    def _kept(self, *, stays: bool) -> Fraction:
        """The share of parameters whose optimizer is on the GPU."""
        return Fraction(1) if stays else _fraction_on_gpu(self.job.states.offloaded)

    @cached_property
    def workspaces(self) -> int:
        """Return what PyTorch's matrix products take."""
        return total(self._matmul_workspaces())

    @property
    def paged(self) -> int:
        """No optimizer state moves."""
        return 0

    @cached_property
    def before_step(self) -> int:
        """Return what is there before every step but the first."""
        own = total(self._own_workspaces()) + total(self.receive_buffers())
        return self.parameters + self.buffers + self.states + self.workspaces + own

    @property
    def clipping(self) -> int:
        """Norms of gradients need next to nothing."""
        return 0

    @cached_property
    def stepping(self) -> int:
        """Return what the optimizer's step adds."""
        return total(self.step_entries())

    @cached_property
    def copies(self) -> int:
        """fp32 gradients that stay until the next step begins."""
        return total(self._copies())

    @cached_property
    def initialization(self) -> int:
        """Return the peak while buffers are built: the model's own parameters are there too."""
        gradients = total(entry for entry in self._held() if entry.rule == "main_gradient")
        return 2 * self.parameters - self._frozen + gradients

    def resident(self) -> Iterator[Entry]:
        """Yield what is there before the first step."""
        yield from self._parameters()
        yield from self._held()

    def _parameters(self) -> Iterator[Entry]:
        states = self.job.states
        for each in self.stored:
            shape = self._shared(each) if states.shares_parameters and each.learns else each.weight.shape
            yield self.entry("parameter", each.path, shape, states.parameter, each.count, _ALWAYS)
            if self._cached(each):
                copies = 2 * each.count
                yield self.entry("fp8_weight", each.path, each.weight.shape, "fp8", copies, _FROM_FIRST_USE)

    def _cached(self, each: Stored) -> bool:
        """Return whether there are FP8 copies of it."""
        weight, plan = each.weight, self.job.recipe.plan(MegatronPlan)
        gathered = bool(self.job.config.get(MegatronSettings.fp8_param_gather))
        if plan is None or plan.fp8 is None or gathered:
            return False
        multiplied = weight.split is not None and len(weight.axes) > 1
        return multiplied and not weight.precise and weight.kind not in ("embedding", "head", *SEEING)

    def _held(self) -> Iterator[Entry]:
        states = self.job.states
        yield from self._flat()
        if states.master is not None:
            yield from self._sharded("master_weight", states.master, _ALWAYS, stays=states.master_stays)

    def _flat(self) -> Iterator[Entry]:
        """Gradient buffers, and buffers of the model."""
        states = self.job.states
        for expert, rows in self._learning.items():
            if rows:
                name = "expert gradients" if expert else "gradients"
                whole: Shape = (self.content.learning[expert][0],)
                elements, ranks = sum([each.count * size for each, size in rows]), _ranks(expert=expert)
                if states.shares_gradients:
                    whole, elements = (Quotient(whole, ranks),), -(-elements // self.job.sizes[ranks])
                yield self.entry("main_gradient", name, whole, states.gradient, 1, _ALWAYS, elements)
                shared = [row for row in rows if self._is_whole(row[0])] if states.whole else []
                yield from self._padding([row for row in rows if row not in shared] if shared else rows, ranks)
                if shared:
                    yield from self._padded(self._shares[expert].length, shared)
        written = self.job.recipe.implementation in registry.IMPLEMENTATIONS
        code = code_of(self.job.recipe.implementation) if written else None
        for buffer in code.buffers(self.job.recipe.network) if code is not None else ():
            yield self.entry(buffer.rule, buffer.module, buffer.shape, buffer.dtype, 1, _ALWAYS)
        yield from self._reference()
        for ffn, count, chunks in self.content.routed:
            if ffn.correction is not None:
                yield from [self.entry("expert_counts", "mlp.router", ("E",), "fp32", 2 * count, _ALWAYS)] * chunks

    def _reference(self) -> Iterator[Entry]:
        """The frozen copy of what this rank stores, which is in no buffer (`get_model(..., wrap_with_ddp=False)`)."""
        for each in self.stored if self.job.config.get(MegatronSettings.reference_model) else ():
            shape, dtype = each.weight.shape, self.job.states.parameter
            yield self.entry("reference_parameter", each.path, shape, dtype, each.count, _ALWAYS)

    def _padding(self, rows: Sequence[tuple[Stored, int]], ranks: str) -> Iterator[Entry]:
        """Flat buffers of the distributed optimizer align parameters and ends."""
        if not self.job.states.sharded or self.job.engine.name == "megatron-fsdp":
            return
        length = sum([(size + -size % _START) * each.count for each, size in rows])
        yield from self._padded(length + -length % lcm(self.job.sizes[ranks], _END), rows)

    def _padded(self, length: int, rows: Sequence[tuple[Stored, int]]) -> Iterator[Entry]:
        """Yield what a buffer of `length` elements has in addition to its parameters."""
        padding = length - sum([size * each.count for each, size in rows])
        for dtype in (self.job.states.parameter, self.job.states.gradient) if padding else ():
            yield self.entry("bucket_padding", "", (padding,), dtype, 1, _ALWAYS)

    def optimizer_states(self) -> Iterator[Entry]:
        """Yield what the first optimizer step adds."""
        states = self.job.states
        matrices = {each.path for each in self.stored if states.matrices is not None and each.matrix}
        for dtype in states.matrices or ():
            found = self._sharded("momentum_buffer", dtype, _FROM_FIRST_STEP)
            yield from (entry for entry in found if entry.module in matrices)
        for rule, dtype in zip(_MOMENTS, states.moments, strict=False):
            found = self._sharded(rule, dtype, _FROM_FIRST_STEP)
            yield from (entry for entry in found if entry.module not in matrices)

    def _shared(self, each: Stored) -> Shape:
        """This rank's part of a parameter."""
        return (Quotient(each.weight.shape, _ranks(expert=each.expert)),)

    def host_entries(self, activations: int) -> Iterator[Entry]:
        """Return what is on the host: bytes of activations, and what `HybridDeviceOptimizer` has there in fp32."""
        if activations:
            yield self.entry("pinned_activation", "decoder.layers", (activations,), "uint8", 1, _FROM_FIRST_USE)
        moved = 1 - self._kept(stays=False)
        yield from self._divided("host_parameter", "fp32", _ALWAYS, moved)
        yield from self._divided("host_gradient", "fp32", _ALWAYS, moved)
        for _ in self.job.states.moments:
            yield from self._divided("host_state", "fp32", _FROM_FIRST_STEP, moved)

    def _is_whole(self, each: Stored) -> bool:
        """Return whether a rank optimizes all of it or nothing."""
        whole = self.job.states.whole
        return each.learns and (whole == "ping-pong" or (whole == "layout" and each.matrix))

    def _numbered(self, *, expert: bool) -> Iterator[Matrix]:
        """Yield every single parameter that ranks share as a whole; of experts each one's own."""
        for index, each in enumerate(self.stored):
            if self._is_whole(each) and each.expert == expert:
                axes, times = each.weight.axes, each.count
                if each.weight.kind == "routed-expert":
                    axes, times = axes[1:], times * product(each.weight.axes[0], self.job.sizes)
                sides = tuple(product(axis, self.job.sizes) for axis in axes)
                yield from [Matrix(index, sides, prod(sides))] * times

    @cached_property
    def _shares(self) -> tuple[Shares, Shares]:
        """Of dense parameters and of experts."""
        found = []
        for expert, symbol in ((False, "z"), (True, "ze")):
            parameters, ranks = list(self._numbered(expert=expert)), self.job.sizes[symbol]
            if self.job.states.whole == "ping-pong":
                found.append(ping_pong(parameters, ranks))
            else:
                bucketed = self.job.config[MegatronSettings.overlap_grad_reduce] and self.job.stage == 0
                found.append(laid_out(parameters, ranks, max(40_000_000, 1_000_000 * ranks) if bucketed else None))
        return found[0], found[1]

    @cached_property
    def _owned(self) -> Counter[int]:
        """Return how many of each stored parameter the fullest rank optimizes, dense ones and experts'."""
        sizes = {each.index: each.size * (2 if self.stored[each.index].matrix else 3) for expert in (False, True)
                 for each in self._numbered(expert=expert)}  # fmt: skip
        worst = [max(shares.ranks, key=lambda own: sum(sizes[index] for index in own)) for shares in self._shares]
        return Counter(index for own in worst for index in own)

    def _sharded(self, rule: str, dtype: str, lifetime: str, *, stays: bool = False) -> Iterator[Entry]:
        """Something for each parameter whose optimizer is on this rank's GPU."""
        return self._divided(rule, dtype, lifetime, self._kept(stays=stays))

    def _divided(self, rule: str, dtype: str, lifetime: str, kept: Fraction) -> Iterator[Entry]:
        """Something for a share of each parameter that this rank optimizes."""
        states = self.job.states
        for index, each in enumerate(self.stored if kept else ()):
            if not each.learns:
                continue
            shape = each.weight.shape
            if self._is_whole(each):
                shape = shape[1:] if each.weight.kind == "routed-expert" else shape
                if self._owned[index]:
                    yield self.entry(rule, each.path, shape, dtype, self._owned[index], lifetime)
                continue
            over = self._optimizer_ranks(expert=each.expert)
            ranks = self.job.sizes[over] if states.sharded else 1
            if ranks * kept.denominator > 1:
                divisor: str | int = over if kept == 1 else ranks * kept.denominator
                whole: Shape = shape if kept == 1 else (kept.numerator, *shape)
                shape = (Quotient(whole, divisor),)
            yield self.entry(rule, each.path, shape, dtype, each.count, lifetime)

    def clipping_entries(self) -> Iterator[Entry]:
        """Nothing to speak of."""
        return iter(())

    def step_entries(self) -> Iterator[Entry]:
        """Temporaries of the optimizer's step."""
        yield from self._copies()
        for entry in self._sharded("state_scratch", "fp32", _OPTIMIZING) if self.job.states.scratch else ():
            yield replace(entry, copies=entry.copies * self.job.states.scratch)
        yield from max(self._orthogonalized_entries, self._exchanged_entries, key=total)

    @property
    def _orthogonalized_entries(self) -> list[Entry]:
        return list(self._orthogonalized())

    @property
    def _exchanged_entries(self) -> list[Entry]:
        """Return all ranks' updated parameters, which have no layout to be gathered in (`allgather_params`)."""
        if self.job.states.whole != "ping-pong" or self.job.config[MegatronSettings.overlap_param_gather]:
            return []
        found = []
        for expert, symbol in ((False, "z"), (True, "ze")):
            size = sum(each.count * size for each, size in self._learning[expert])
            if self.job.sizes[symbol] > 1 and size:
                found.append(self.entry("layer_wise_gather", "", (size,), self.job.states.parameter, 1, _OPTIMIZING))
        return [max(found, key=lambda entry: entry.bytes)] if found else []

    def _orthogonalized(self) -> Iterator[Entry]:
        """Newton-Schulz of the largest matrix: with tensor parallelism of all of it, after it has been gathered.

        emerging_optimizers, muon_utils.py (`newton_schulz_tp`, duplicated): parts and whole, the iterate and the next
        one, and two squares of the smaller side.
        """
        if self.job.states.matrices is None:
            return
        rows = [(each, size) for each, size in self._measured if each.learns and each.matrix]
        if not rows:
            return
        largest, _ = max(rows, key=lambda row: row[1])
        outer, inner = largest.weight.axes[-2:]
        gathers = largest.weight.split is not None and self.job.ranks.tensor > 1
        ranks = "etp" if largest.expert else "tp"
        outer = (ranks, *outer) if gathers and largest.weight.split == "outer" else outer
        inner = (ranks, *inner) if gathers and largest.weight.split == "inner" else inner
        copies = 4 if gathers else 2
        yield self.entry("orthogonalization", largest.path, (*outer, *inner), "fp32", copies, _OPTIMIZING)
        side = Smaller(Quotient(outer, 1), Quotient(inner, 1))
        yield self.entry("orthogonalization", largest.path, (side, side), "fp32", 2, _OPTIMIZING)

    def _copies(self) -> Iterator[Entry]:
        if self.job.states.copied:
            yield from self._sharded("gradient_copy", "fp32", _UNTIL_NEXT)

    def blocks_around_step(self) -> BlocksAroundStep:
        """Return sizes of the persistent tensors as the allocator's replay needs them."""
        around = [*self.resident(), *self.workspace_entries(), *self.receive_buffers()]
        return BlocksAroundStep(
            resident=[entry.each for entry in around for _ in range(entry.copies)],
            states=[entry.each for entry in self.optimizer_states() for _ in range(entry.copies)],
            temporaries=[entry.each for entry in self.step_entries() for _ in range(entry.copies)],
        )


def _ranks(*, expert: bool) -> str:
    """Return the symbol of the ranks that have a parameter."""
    return "ze" if expert else "z"


@lru_cache(maxsize=64)
def _fraction_on_gpu(offloaded: float) -> Fraction:
    """Return what is left of all when a part is on the host."""
    return 1 - Fraction(offloaded).limit_denominator(1000)
