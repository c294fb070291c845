"""The recipe of a step: everything that decides which tensors come and go, and no sizes.

Two jobs with the same recipe leave the same tape, whatever their width, depth, batch or sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from memcore.messages import Message
from memcore.networks.network import Layer, Network
from memcore.records import dataclass
from memcore.symbols import Axis, Shape
from memcore.tensors.modes import Float8, Quantization, TensorParallel
from memcore.tensors.selection import Selection
from memcore.tensors.tensor import Tensor
from memcore.trace.ulysses import Ulysses

PlanT = TypeVar("PlanT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Dtypes of one job."""

    parameter: str
    """As the optimizer keeps them."""
    compute: str
    """As the layers see them; FSDP gathers in it."""
    reduce: str
    """In which gradients are summed over ranks."""
    autocast: str | None = None
    """The dtype of `torch.autocast`, if the forward pass runs under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How the loss is computed from the hidden states."""

    kind: str
    """As `training.loss`, without a number of chunks."""
    chunks: int = 1
    compiled: bool = False
    """It runs in compiled kernels."""
    whole: bool = False
    """They are part of one graph of the whole model, which returns the logits as well."""
    model_upcasts: bool = False
    """The logits that the model returns are in fp32."""
    shifts_labels: bool = True
    """The model shifts labels itself, as transformers does."""
    slices_logits: bool = False
    """It copies the logits without those of the last token instead, as transformers did before 4.49."""
    keeps_outputs: bool = False
    """The model's output object, and with it the logits, lives through the backward pass."""
    adds_in_place: bool = False
    """A fused linear loss adds each chunk's gradient of the head to their sum as it computes it."""
    chunks_apart: bool = False
    """A fused linear loss frees the logits of a chunk before it computes the next one's."""
    folds_words: bool = False
    """A fused head has some words at a time."""
    folds_whole: bool = False
    """It has them of all tokens."""

    @property
    def of_a_chunk(self) -> Loss:
        """Return the loss of one part of the tokens: logits are upcast."""
        return Loss(kind="cross-entropy-fp32", compiled=self.compiled, shifts_labels=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What a step of preference or reinforcement learning computes instead of the next token's cross-entropy."""

    method: str
    """A key of `memcore.trainers.pytorch.methods.METHODS`."""
    reference: str = ""
    """`copy`: a frozen copy of the model runs too; `adapter`: the model without its adapter; empty: neither runs."""
    copies: bool = False
    """A frozen copy of the model is in memory, during the step too."""
    whole: bool = False
    """Log-probabilities of the whole vocabulary are one tensor, else row after row of the batch."""
    upcasts: bool = False
    """The logits that leave the model are cast to fp32."""
    divergence: bool = False
    """Mismatched pairs are scored as well, without gradients (KTO)."""
    supervised: bool = False
    """The cross-entropy of the chosen half is added (ORPO)."""
    completes: bool = False
    """The head sees the completion's tokens alone (GRPO)."""
    scores: bool = False
    """The head has one output, and there are no logits (reward models)."""
    values: bool = False
    """A value head reads the last hidden states; where there are `scores`, the logits of the model are dropped."""
    proximal: bool = False
    """Log-probabilities and values are learned from, and entropies of copied logits are measured (PPO)."""
    distills: bool = False
    """The logits of a frozen teacher are learned from."""
    taught: str = ""
    """How the loss compares all logits with the teacher's; nothing: chunk after chunk (`_distilled`)."""
    rewards: bool = False
    """A frozen reward model as large as the model is in memory."""
    fused: bool = False
    """Liger's kernels compute head, loss and gradients from the hidden states, pair after pair."""
    learns_head: bool = False
    """They make a gradient of the head where it is frozen, too."""
    streams_words: bool = False
    """They have few words at a time, and add up the gradient of the head in fp32."""
    tiled: bool = False
    """TRL's fused head returns log-probabilities in place of logits."""
    pairs: bool = False
    """The first half of the batch is compared with the second."""
    measures: bool = False
    """Entropies are measured, for which the logits are copied."""
    flash: bool = False
    """FlashAttention's cross-entropy takes log-probabilities of all tokens."""
    in_place: bool = False
    """It writes gradients over the logits."""
    entropy: bool = False
    """Entropies of all tokens are part of the loss."""
    tempered: str = ""
    """Logits are divided by a temperature, `in-place` or into a `new` tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Activation checkpoints around layers."""

    early_stop: bool
    selection: Selection | None
    """Which results they keep besides their inputs."""
    reentrant: bool = False
    """The old form, which builds no graph before the backward pass."""
    around_units: bool = False
    """They are around an engine's units, whose hooks run again with the layer; else within."""
    inputs_learn: bool = False
    """The embedding's output is made to learn, so that the first layers have a gradient to pass on."""
    partitioned: bool = False
    """Tensor-parallel ranks keep a part of the inputs each (DeepSpeed's)."""
    hosted: bool = False
    """Inputs are kept on the host."""
    skipped: frozenset[tuple[int, int]]
    """Layers of the decoder that have none, as run and position."""
    every: int = 1
    """So-manieth layers that have one."""
    around_patterns: bool = False
    """Each repetition of a run's pattern has a single one, around all of its layers."""
    divided: bool = False
    """Tensor-parallel ranks keep a part of each input (Megatron)."""
    apart: bool = False
    """Checkpoint norms, mixers and feed-forward layers one by one, and not the layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """What a data-parallel engine does with parameters and gradients."""

    engine: str
    """A key of `memcore.trainers.ENGINES`."""
    wrap: str = "layer"
    reshard_after_forward: bool | int = True
    root_reshards: bool = False
    replicated: bool = False
    """Hybrid sharding: gradients are also all-reduced over replicas."""
    offloaded: bool = False
    """FSDP keeps shards, gradients and optimizer on the host."""
    syncs_every_micro_batch: bool = True
    gathers: bool = True
    """There is more than one rank to gather from."""
    gathers_experts: bool = True
    """More than one rank has the same routed experts."""
    leaves_experts: bool = False
    """Routed experts that no other rank has are ordinary parameters, which no unit copies or reduces."""
    prefetches: bool = False
    """Units gather the next one's parameters ahead of time by themselves, as torchtitan does with routed experts."""
    original_parameters: bool = False
    """FSDP1: frozen and trained parameters may share a unit."""
    prefetches_backward: bool = True
    """FSDP1 gathers the next unit of the backward pass before the one at hand runs."""
    limits_gathers: bool = True
    """FSDP1's host waits for the GPU before it gathers a third unit."""
    broadcasts: bool = True
    """FSDP1 broadcasts the parameters of units that it makes (`sync_module_states`)."""
    delays_experts: bool = False
    """Weight gradients of routed experts are computed after those of inputs, outside of the engine's hooks."""
    bucket_views: bool = False
    """DDP's gradients are views of its buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """How recurrent mixers run."""

    kernels: str = "fused"
    """`fused`: those of mamba-ssm, causal-conv1d and flash-linear-attention; `fallback`: PyTorch's operations."""
    fuses_norm: bool = False
    """The gated norm after the delta rule is one of these kernels too."""
    trips: int = 1
    """How often the fallback's loop over tokens or chunks runs, capped at `memcore.tensors.loops.LOOP`."""
    even: bool = True
    """The sequence is a whole number of chunks, so that nothing is padded and cropped."""
    stored: str = "bf16"
    """The dtype of stored parameters, which buffers have too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """The images of a micro-batch, as far as their number decides which tensors there are.

    What loops run over is counted up to `eager.loops.LOOP`, from where on it looks the same.
    """

    count: int
    """Images or tiles."""
    each: int
    """Images of a sequence."""
    sequences: int
    windows: int = 0
    """Whole attention windows."""
    cut: int = 0
    """Windows that an image's edge cuts; there is one that its corner cuts for each image then."""
    ragged: bool = False
    """The positions of images that a mask is over are no multiple of 16."""
    attention: str | None = None
    """The kernel of towers that another library's code runs than the decoder's; None: the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What one stage of a pipeline does in a step, as far as micro-batches differ."""

    warm: int
    """Forward passes that are recorded before the first backward pass."""
    stands: bool
    """The last of these stands for all others that are in flight."""
    runs: int
    """Micro-batches that are recorded."""
    skips: bool
    """There are more, which look the same."""
    runtime: str
    """ideal or torch."""
    returns_outputs: bool
    """The last stage keeps the outputs of all micro-batches."""
    waits: bool = False
    """What it receives is not there yet when the host goes on."""
    others: tuple[Recipe, ...] = ()
    """The recipes of the rank's further stages, if it has several."""
    waiting: tuple[int, ...] = ()
    """Of each of them, micro-batches in flight when there is most of them: none, one, or more, for which 2 stands."""


class HeadsAs(NamedTuple):
    """What is done with queries, keys and values before a fused kernel takes them."""

    repeated: bool = False
    """Keys and values are copied for every query head though the kernel could share them."""
    contiguous: bool = False
    """All three are copied into the order of their axes, and so is the result after it."""
    grouped: bool = False
    """Query heads share keys and values under a mask too, for which PyTorch has its math kernel alone."""


AS_THEY_ARE = HeadsAs()
"""Nothing is done with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The structure of a training step on one rank."""

    network: Network
    repeats: tuple[int, ...]
    """How often each run's pattern repeats, capped at `HEAD + TAIL + 1`: more look the same."""
    first_run: int = 0
    """The number of its first run among those of all stages of a rank."""
    implementation: str
    attention: str
    padded: bool
    windowed: bool
    """The sequence is at least as long as the sliding window."""
    precision: Precision
    loss: Loss
    sharding: Sharding
    checkpoints: Checkpoints | None
    """None: everything that the backward pass needs is kept."""
    micro_batches: int
    """1, or 2 when gradients accumulate: from the second micro-batch on every one is the same."""
    keeps_gradients: bool
    """Gradients stay in memory between steps, so that the second step differs from the first."""
    units: frozenset[Axis]
    """Symbols and parts of sizes that are 1."""
    liger: frozenset[str] = frozenset()
    """Which of Liger's kernels replace code of the layers."""
    tiles: int = 0
    """Tiles of the feed-forward layers that are recorded; 0: they run as a whole."""
    use_cache: bool = False
    caches_results: bool = False
    """The cache is a tuple of what layers return, which a second run of a layer does not add to."""
    offloads_activations: bool = False
    """What layers save for the backward pass goes to the host."""
    steps_in_backward: int | None = None
    """Temporaries of a gradient's shape if the optimizer steps as soon as one exists; None: it steps at the end."""
    quantization: Quantization | None = None
    """How frozen matrices are stored and computed with."""
    recurrence: Recurrence = Recurrence()
    tower_repeats: tuple[tuple[int, ...], ...] = ()
    """`repeats` of each tower; layers that learn nothing are all counted."""
    pictures: Pictures | None = None
    """None: there are no images, and towers do not run."""
    ring_turns: int = 0
    """Turns of ring attention, where context parallelism shares a sequence; 0: it does not."""
    pipeline: Pipeline | None = None
    """The layers are a stage of a pipeline."""
    tensor: TensorParallel | None = None
    """How tensor parallelism divides the layers of `network`, which is then what one rank has of it."""
    compiled: bool = False
    """Blocks are compiled."""
    float8: Float8 | None = None
    """Linear layers of blocks multiply in float8."""
    rounds: bool = False
    """Linear layers round their inputs and weights (quantization-aware training)."""
    dispatcher: str = "local"
    """How rows reach their experts in torchtitan's layers: a key of `layers.torchtitan.dispatch.DISPATCHERS`."""
    mixture: Callable[..., Tensor] | None = None
    """Runs experts sharded among ranks, in transformers' layers (NeMo Automodel runs torchtitan's); or None."""
    plans: tuple[Hashable, ...] = ()
    """What trainers tell their own hooks and layers: at most one plan of each type."""
    ulysses: Ulysses | None = None
    """Ranks share a sequence, and heads in attention."""
    positioned: bool = False
    """Position ids are inputs: a rank that has a part of the sequence cannot count its tokens."""
    ragged: bool = False
    """Learned prefixes and the sequence are together no multiple of 16."""
    objective: Objective | None = None
    """None: the next token's cross-entropy."""
    heads_as: HeadsAs = AS_THEY_ARE
    """What transformers does with heads before `F.scaled_dot_product_attention`."""
    frequencies_once: bool = False
    """Rotary frequencies are held once: the original ones are the same tensor."""
    frequencies_each: bool = False
    """The attention of each layer holds rotary frequencies too, next to the model's."""
    masks_each: tuple[str, ...] = ()
    """Masks that each layer's attention holds: `bias`, for the longest sequence, and `masked_bias`, of one element."""
    before_ampere: bool = False
    """The GPU is of a compute capability below 8, for which PyTorch has fewer attention kernels."""
    upcasts: bool = False
    """Its kernels compute in fp32 what is counted in 16 bits."""
    release: str = "much"
    """How much hangs on the release of the loop that a config names: much, little or nothing."""
    former_releases: tuple[str, ...] = ()
    """Releases of that loop whose steps may need most, where a config does not say which one runs."""
    fake: bool = False
    """The step runs on fake tensors, as in a simulation, where PyTorch allocates a little more."""

    def plan(self, of: type[PlanT]) -> PlanT | None:
        """Return what a trainer told its hooks and layers; None where it is another trainer's step."""
        return next((each for each in self.plans if isinstance(each, of)), None)

    def planned(self, plan: Hashable) -> Recipe:
        """Return the recipe with a trainer's plan in place of one of the same type."""
        return replace(self, plans=(*(each for each in self.plans if not isinstance(each, type(plan))), plan))

    @property
    def last_unit(self) -> str:
        """Return the name of the last layer."""
        return f"{self.first_run + len(self.repeats) - 1}.{self.repeats[-1] - 1}.{len(self.network.runs[-1]) - 1}"

    def labels(self, tower: int | None = None) -> Mapping[Layer, str]:
        """Names for the kinds of layers of the decoder or of a tower: `layer`, numbered where there are several."""
        runs = self.network.runs if tower is None else self.network.towers[tower].runs
        vision = "vision layer" if len(self.network.towers) == 1 else Message("vision {} layer", tower)
        name = "layer" if tower is None else vision
        kinds = list(dict.fromkeys(layer for run in runs for layer in run))
        return {layer: name if len(kinds) == 1 else f"{name} {number}" for number, layer in enumerate(kinds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory that a model or an engine holds from the start to the end of the job."""

    rule: str
    """A key of `memcore.rules.table.RULES`."""
    module: str
    shape: Shape
    dtype: str
    layer: Layer | None = None
    """The kind of layer that has one of its own."""
    times: Axis = 1
    """How many of it there are, for each."""


HEAD = 2
"""Repetitions of a layer pattern recorded one by one before those that all look the same."""
TAIL = 2
"""Repetitions recorded one by one after them."""
