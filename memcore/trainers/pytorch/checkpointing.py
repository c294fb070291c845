"""Activation checkpointing, from its settings to the recipe."""

from __future__ import annotations

from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.messages import Message
from memcore.networks.network import Model
from memcore.networks.parts import Attention
from memcore.networks.regrouping import regrouped, skipped
from memcore.tensors.selection import TORCHTITAN, Selection
from memcore.trace.recipe import Checkpoints
from memcore.trainers.pytorch.expert_parallel import layer_code
from memcore.trainers.pytorch.extension import extension_of
from memcore.trainers.pytorch.frameworks import checkpoints_layers, framework_of, is_early_titan
from memcore.trainers.pytorch.torchtitan_commits import (
    KEEPS_MAGNITUDES,
    KEEPS_NO_COMPILED,
    SENDS_AGAIN,
    SENDS_QWEN3_AGAIN,
)
from memcore.trainers.pytorch.transformers_releases import CHECKPOINTS_INSIDE, STARTS_NEW, before, hangs_on

BUDGET = Training.activation_memory_budget


def checkpointing(read: Defaults, model: Model, *, shards: bool) -> tuple[Model, Checkpoints | None]:
    """Return the checkpoints, and the model written such that every n-th layer can have one.

    Where `shards`, units around layers are gathered for each call of them.
    """
    usual = checkpoints_layers(read)
    budget = read.given(BUDGET)
    if budget is not None:
        if budget != 1 and not read.given(Training.compile):
            read.refuse(BUDGET, "found {}; only the compiler uses it: set training.compile to true", budget)
        usual = "none", "the compiler decides what to recompute"
    policy = read.take(Training.activation_checkpointing.policy, *usual)
    mode, every = _mode(read, policy)
    if policy == "none":
        return model, None
    model = regrouped(model, every)
    reentrant = _reentrant(read, mode, model, every)
    if shards and mode != "op":
        hangs_on(read, CHECKPOINTS_INSIDE)
    checkpoints = Checkpoints(
        reentrant=reentrant,
        around_units=reentrant and _switched_by_model(read) and not extension_of(read).partitions,
        inputs_learn=reentrant or _wrapped_by_peft(read),
        early_stop=read.take(Training.activation_checkpointing.early_stop, True),
        selection=_selection(read, model) if mode == "op" else None,
        skipped=skipped(model, every),
        every=every,
        apart=mode == "part",
    )
    if checkpoints.apart:
        _apart(read, model)
    return model, checkpoints


_WIRINGS = frozenset(("sequential", "sandwich"))
"""Of layers whose modules are norms, a mixer and a feed-forward layer (`DECODER_LAYERS`)."""


def _apart(read: Defaults, model: Model) -> None:
    """Refuse checkpoints around parts of layers where a layer has other modules, or kernels join its parts.

    Source: accelerate 1.8 to 1.14, utils/fsdp_utils.py (`fsdp2_apply_ac`: modules whose parent the wrap policy names);
    1.15 wraps the layers themselves.
    """
    path = Training.activation_checkpointing.mode
    wirings = {layer.residual for layer in model.network.kinds}
    if layer_code(read) not in _OF_TRANSFORMERS or not wirings <= _WIRINGS:
        read.refuse(path, "found 'part'; not supported yet for the layers of {}; nearest: policy 'full'", model.name)
    if read.given(Training.compile):
        read.refuse(path, "found 'part'; not supported yet with training.compile; nearest: policy 'full'")
    if read.given(Training.activation_checkpointing.use_reentrant):
        read.refuse(path, "found 'part'; these checkpoints are not reentrant: set use_reentrant to false")


_OF_TRANSFORMERS = ("transformers", "liger", "unsloth")
"""Layers that PEFT wraps, whose `flash` is the package flash_attn; torchtitan's and LitGPT's is PyTorch's kernel."""


def _wrapped_by_peft(read: Defaults) -> bool:
    """Return whether PEFT has the embedding's output require a gradient: with checkpoints, if not quantized.

    Source: peft 0.21, peft_model.py (`_prepare_model_for_gradient_checkpointing`); for quantized models utils/other.py
    (`prepare_model_for_kbit_training`) does so with reentrant checkpoints alone.
    """
    wraps = read.given(Training.adapter.type) is not None and layer_code(read) in _OF_TRANSFORMERS
    return wraps and not framework_of(read).adapts_itself and read.given(Training.quantization) is None


def _switched_by_model(read: Defaults) -> bool:
    """Return whether the model checkpoints calls of its layers, as FSDP wrapped them."""
    return (
        before(read, CHECKPOINTS_INSIDE) and read.given(Training.activation_checkpointing.entry) != "checkpoint_wrapper"
    )


def _usual_form(read: Defaults, mode: str) -> tuple[bool, str | None]:
    """Return whether checkpoints are reentrant if nobody says so, and why (`gradient_checkpointing_enable`)."""
    switched = read.given(Training.activation_checkpointing.entry) != "checkpoint_wrapper" and mode != "op"
    stops = read.given(Training.activation_checkpointing.early_stop) is not None
    old = before(read, STARTS_NEW) or framework_of(read).hosts_checkpoints
    old = switched and not stops and old and not extension_of(read).job
    return old, "the default of transformers 4" if old else None


def _reentrant(read: Defaults, mode: str, model: Model, every: int) -> bool:
    """Return whether checkpoints are of the old form, which selects nothing and stops nowhere."""
    path = Training.activation_checkpointing.use_reentrant
    found = bool(read.take(path, *_usual_form(read, mode)))
    if found and (mode == "op" or read.given(Training.activation_checkpointing.early_stop) is not None):
        read.refuse(path, "found {}; reentrant checkpointing recomputes whole layers", "true")
    mixers = [mixer for layer in model.network.kinds for mixer in layer.mixers]
    if found and every > 1 and any(isinstance(mixer, Attention) and mixer.shares_cache for mixer in mixers):
        message = Message(
            "later layers of {} reuse an earlier layer's keys, and PyTorch runs backward through that graph only once",
            model.name,
        )
        read.refuse(path, "found {}; {}; allowed: false, or all layers", "true", message)
    engine = read.given(EngineSettings.type)
    if found and extension_of(read).job is not None:
        read.refuse(path, "found {}; engine.type {!r} has its own checkpointing; leave it out", "true", engine)
    return found


def _selection(read: Defaults, model: Model) -> Selection:
    """torchtitan's policy. It names PyTorch's kernels of attention, not those of the package flash_attn."""
    package = read.given(Training.attention) == "flash" and layer_code(read) in _OF_TRANSFORMERS
    foreign = {"sdpa"} if package or not model.network.sdpa else set()
    again = SENDS_QWEN3_AGAIN if model.network.family.startswith("qwen3") else SENDS_AGAIN
    sent = {"all_to_all"} if is_early_titan(read, again) else set()
    magnitudes = {"abs"} if is_early_titan(read, KEEPS_MAGNITUDES) else set()
    returned = {"flex_inputs"} if _returns_inputs(read) else set()
    return replace(TORCHTITAN, always=TORCHTITAN.always - foreign - sent | magnitudes | returned)


def _returns_inputs(read: Defaults) -> bool:
    """Return whether results of compiled code are kept, such as FlexAttention's in layers that are not compiled.

    Its forward pass returns its inputs too, which the backward pass reads. Sources: torchtitan 575674a,
    distributed/activation_checkpoint.py (`inductor_compiled_code`); torch/_functorch/_aot_autograd (what a graph saves
    is among what it returns). In PyTorch 2.13 inputs of a compiled function live on where a policy keeps its results,
    and do not where it keeps none.
    """
    titan = str(read.given(EngineSettings.framework)).lower() == "torchtitan"
    return titan and not read.given(Training.compile) and not is_early_titan(read, KEEPS_NO_COMPILED)


def _mode(read: Defaults, policy: str) -> tuple[str, int]:
    """Return what a selective policy selects, and the period of checkpointed layers."""
    every = read.given(Training.activation_checkpointing.every)
    if policy != "selective":
        for each in (Training.activation_checkpointing.mode, Training.activation_checkpointing.every):
            if read.given(each) is not None:
                read.refuse(each, "applies to policy 'selective', found policy {!r}", policy)
        return "layer", 1
    default, reason = ("op", "as in torchtitan's configurations") if every is None else ("layer", "a period is given")
    mode = str(read.take(Training.activation_checkpointing.mode, default, reason))
    if mode != "layer" and every is not None:
        read.refuse(Training.activation_checkpointing.every, "applies to mode 'layer', found mode {!r}", mode)
    return mode, read.take(Training.activation_checkpointing.every, 2, "torchtitan's default") if mode == "layer" else 1
