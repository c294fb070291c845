"""The recipe of a job's step: what decides which tensors come and go, from the settings of a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.hardware import AMPERE, HOPPER, find_accelerator
from memcore.layers.compiled import obstacles
from memcore.layers.fused_loss import chunks_recorded
from memcore.layers.torchtitan.experts import MIXTURES
from memcore.layers.transformers.liger import KERNELS as KERNELS_OF_LIGER
from memcore.limits import CHUNKS
from memcore.messages import Message, joined
from memcore.networks.adapters import has_prefix
from memcore.networks.network import Layer, Model, with_layers
from memcore.networks.parts import Experts, Ffn, is_gated
from memcore.optimizers.table import OPTIMIZERS
from memcore.symbols import Axis, split_over
from memcore.tensors.modes import Float8, TensorParallel
from memcore.tensors.tiled import RECORDED, TILES, tile_sizes
from memcore.trace.code import LayerCode, code_of
from memcore.trace.engine import Engine
from memcore.trace.pictures import pictures, tower_repeats
from memcore.trace.recipe import (
    AS_THEY_ARE,
    HEAD,
    TAIL,
    Checkpoints,
    HeadsAs,
    Loss,
    Precision,
    Recipe,
    Recurrence,
    Sharding,
)
from memcore.trace.recurrence import is_recurrent, recurrence
from memcore.trainers.pytorch.budgets import with_budget
from memcore.trainers.pytorch.expert_parallel import dispatcher, layer_code
from memcore.trainers.pytorch.extension import extension_of
from memcore.trainers.pytorch.frameworks import (
    KERNELS,
    compiles_loss,
    framework_of,
    fuses_head,
    head_chunk,
    is_early_titan,
    keeps_outputs,
    runs_transformer_engine,
    upcasts_logits,
    usual_reduction,
)
from memcore.trainers.pytorch.frozen import is_prepared, quantization_of, usual_preset
from memcore.trainers.pytorch.layout import (
    delays_experts,
    is_before_ampere,
    pipeline_plan,
    pipelined,
    ring,
    ulysses,
)
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.torchtitan_commits import KEEPS_WEIGHTS
from memcore.trainers.pytorch.transformers_releases import (
    COPIES_FREQUENCIES,
    OWN_LOSS,
    SPELLS_GATED_NORM,
    STARTS_NEW,
    CausalLoss,
    before,
    causal_loss,
    frequencies_each,
    heads_as,
    masks_each,
)
from memcore.trainers.pytorch.unsloth_releases import computes_in_fp32, loss_of, shared_heads


def _preset(read: Defaults, engine: Engine) -> Precision:
    """Return the dtypes that the precision's name stands for."""
    name = read.take(Training.precision, *usual_preset(read, engine))
    if name not in engine.presets:
        read.refuse(Training.precision, "found {!r}; with {}: {}", name, engine.title, joined(", ", engine.presets))
        name = engine.default_preset
    return engine.presets[name]


def _precision(read: Defaults, engine: Engine) -> Precision:
    """Return the dtypes of a step: those that are given, else the preset's."""
    preset = _preset(read, engine)
    stored = read.given(Training.parameter_dtype) or preset.parameter
    given = compute = read.given(Training.compute_dtype)
    if preset.autocast and compute and compute != stored:
        preset = replace(preset, autocast=compute)
        compute = None
    if read.given(Training.quantization) is not None and not engine.shards:
        # It is the dtype in which quantized layers compute; the rest computes as it is stored.
        stored = "fp32" if is_prepared(read) else stored
        compute = stored
    compute = compute or (preset.compute if preset.compute != preset.parameter else stored)
    if not engine.shards and compute != stored:
        read.refuse(
            Training.compute_dtype,
            "found {!r} with parameters in {!r}; only FSDP and autocast can compute in another dtype",
            compute,
            stored,
        )
    gradient = read.given(Training.gradient_dtype)
    if gradient is not None and gradient != stored and not extension_of(read).partitions:
        read.refuse(
            Training.gradient_dtype, "found {!r}; PyTorch's gradients have the parameter dtype {!r}", gradient, stored
        )
    usual = usual_reduction(read) if engine.shards else None
    reduce = read.take(Training.reduce_dtype, *usual) if usual else read.given(Training.reduce_dtype)
    reduce = reduce or (preset.reduce if preset.reduce != preset.compute else compute)
    autocast = preset.autocast
    if read.given(TorchSettings.autocast) is not None:
        autocast = (given or _half(compute)) if read.given(TorchSettings.autocast) else None
    precision = Precision(parameter=stored, compute=compute, reduce=reduce, autocast=autocast)
    _refuse_cut(read, precision)
    return precision


def _steps_in_backward(read: Defaults, micro_batches: int) -> int | None:
    """Temporaries like a gradient, if the optimizer steps in the backward pass: one parameter at a time."""
    path = TorchSettings.optimizer_in_bwd
    if not read.given(path):
        return None
    if micro_batches > 1:
        read.refuse(
            path, "found true with {} micro-batches; gradients are freed before they can accumulate", micro_batches
        )
    if (read.given(EngineSettings.version) or 2) == 1 or pipelined(read):
        read.refuse(path, "found {}; supported only on one GPU or with FSDP2, without a pipeline", "true")
    if read.given(Training.gradient_clipping):
        read.refuse(
            Training.gradient_clipping, "found {}; with {}, the gradients never exist all at once", "true", path
        )
    name = read.given(Training.optimizer.name) or "adamw"
    row = OPTIMIZERS[name]
    how = row.implementations.get(read.given(Training.optimizer.implementation) or row.default)
    return 0 if how is None else how.temporaries + how.own


def _half(dtype: str) -> str:
    """Return the dtype that autocast computes in."""
    return "bf16" if dtype == "fp32" else dtype


def _loss(read: Defaults, code: LayerCode, sizes: Mapping[str, int], family: str, *, fake: bool) -> Loss:
    tokens = sizes["b"] * sizes["s"]
    history = causal_loss(read, family) if code.name == "transformers" else None
    kind = read.take(Training.loss, *_usual_loss(read, code, tokens, family, history))
    word, chunks = _in_chunks(read, code, sizes, kind)
    shift = _shift(read, code, word)
    if word == "chunked" and shift != "model" and tokens % int(chunks):
        read.refuse(Training.loss, "found {!r}, whose number of chunks does not divide {} tokens", kind, tokens)
    compiled = _compiles_loss(read, word, family)
    return Loss(
        kind=word,
        chunks=chunks_recorded(tokens, sizes) if word == "fused-linear" else int(chunks or 1),
        compiled=compiled,
        whole=compiled and bool(read.given(Training.compile)) and framework_of(read).compiles_model,
        model_upcasts=upcasts_logits(read, word)
        or (word == "cross-entropy-fp32" and bool(history and history.model_upcasts)),
        slices_logits=shift == "model" and bool(history and history.slices_logits),
        shifts_labels=shift == "model",
        keeps_outputs=read.take(Training.outputs_kept, keeps_outputs(read)),
        adds_in_place=word == "fused-linear" and not fake and _adds_in_place(read),
        chunks_apart=word == "fused-linear" and code.name == "unsloth",
        folds_words=framework_of(read).folds_words,
        folds_whole=head_chunk(read)[0] is None,
    )


def _usual_loss(
    read: Defaults, code: LayerCode, tokens: int, family: str, history: CausalLoss | None
) -> tuple[str, str | Message | None]:
    """Return the loss that the layers' code computes where none is named, and why."""
    unsloth = loss_of(read, family, tokens) if code.name == "unsloth" else None
    if unsloth is not None:
        return unsloth
    if history is not None and history.kind != code.loss:
        return history.kind, Message("{} did not upcast its logits before transformers 4.49", family)
    if code.name in ("transformers", "liger") and fuses_head(read) and not pipelined(read):
        return "fused-head", "TRL's trainer never creates logits"
    if code.name == "transformers" and family in OWN_LOSS:
        return "cross-entropy", Message("{} computes its loss on logits as they are", family)
    return code.loss, "its fused loss never creates logits" if code.loss in KERNELS else None


def _adds_in_place(read: Defaults) -> bool:
    """Return whether Liger adds gradients of the head in place; releases that go with transformers 4 do not."""
    given = read.given(Hardware.accelerator)
    major = AMPERE if given is None else find_accelerator(given).major or 0
    return major >= AMPERE and not before(read, STARTS_NEW)


def _in_chunks(read: Defaults, code: LayerCode, sizes: Mapping[str, int], kind: str) -> tuple[str, str]:
    """Return the kind of a loss, and the number of its chunks as text, which is empty without any."""
    word, _, chunks = kind.partition(":")
    tokens = read.given(TorchSettings.lm_head_chunk_size)
    if tokens is not None:
        count = str(-(-sizes["s"] // tokens))
        if word in KERNELS or (chunks and chunks != count):
            read.refuse(
                TorchSettings.lm_head_chunk_size,
                "found {}, which makes {} chunks of {} tokens",
                tokens,
                count,
                sizes["s"],
            )
        word, chunks = "chunked", count
    if word == "chunked" and code.default_wrap != "torchtitan" and int(chunks or 1) > CHUNKS:
        read.refuse(
            TorchSettings.lm_head_chunk_size,
            "splits the loss into {:,} chunks; at most {:,} are supported",
            int(chunks),
            CHUNKS,
        )
    return word, chunks


def _shift(read: Defaults, code: LayerCode, word: str) -> str:
    """Return who shifts the labels; what the loss then cannot be is refused."""
    outside = pipelined(read)
    shift = read.take(Training.loss_shift, "model" if code.computes_loss and not outside else "labels-preshifted")
    if shift == "model" and outside:
        read.refuse(
            Training.loss_shift,
            "a pipeline's schedule computes the loss, outside the model; allowed: {}",
            "labels-preshifted",
        )
    if shift == "model" and not code.computes_loss:
        read.refuse(
            Training.loss_shift, "{} leaves the loss to the trainer; allowed: {}", code.title, "labels-preshifted"
        )
    if word == "chunked" and (outside or (shift != "model" and code.default_wrap != "torchtitan")):
        read.refuse(
            Training.loss,
            "chunked is supported only inside the model; allowed: {}",
            "cross-entropy-fp32, cross-entropy",
        )
    if word in KERNELS and not code.computes_loss:
        said = (
            "{!r} is part of the model, and {} leaves the loss to the trainer; "
            "choose cross-entropy, or no shared experts"
        )
        read.refuse(Training.loss, said, word, code.title)
    elif word in KERNELS and shift != "model":
        read.refuse(Training.loss, "{!r} is part of the model; leave out training.loss_shift", word)
    return shift


def _refuse_cut(read: Defaults, precision: Precision) -> None:
    """The kernels of cut cross-entropy take half precision alone (`cce_backward_kernel`)."""
    found = "autocast" if precision.autocast else precision.compute
    if read.given(Training.loss) == "cut-cross-entropy" and found not in ("bf16", "fp16"):
        read.refuse(
            Training.loss, "found 'cut-cross-entropy' with hidden states in {}; it supports bf16 and fp16", found
        )


def _compiles_loss(read: Defaults, kind: str, family: str) -> bool:
    path = Training.compile_loss
    found: bool = read.take(path, *compiles_loss(read, kind, family))
    if found and kind in KERNELS:
        read.refuse(path, "found {}; training.loss {!r} has its own kernels", "true", kind)
    return found


def _attention(read: Defaults, model: Model, code: LayerCode, precision: Precision) -> str:
    supported = code.has_sdpa(model.network)
    reason = None if supported else Message("{} has no SDPA for {}", code.title, model.network.family)
    usual = "sdpa" if supported else "math"
    if supported and code.name == "torchtitan" and _prefers_cudnn(read, precision):
        usual, reason = "cudnn", Message("TransformerEngine's choice on Hopper and later")
    elif supported and code.title == "Unsloth" and is_before_ampere(read):
        usual, reason = "efficient", Message("Unsloth runs xformers on GPUs without flash attention")
    offered = code.kernels(model.network)
    if usual not in offered and len(offered) == 1:
        usual, reason = offered[0], Message("{} has no other for this family", code.title)
    kernel = str(read.take(Training.attention, usual, reason))
    if kernel not in offered:
        allowed = ", ".join(offered)
        read.refuse(Training.attention, "{} has no {!r} for this family; allowed: {}", code.title, kernel, allowed)
    elif kernel == "sdpa" and not supported:
        kernel = "flash"
        read.assumptions.append(
            Assumption(
                Training.attention,
                kernel,
                Message("{}: its soft cap needs flash attention", reason),
                notable=True,
            )
        )
    compute = precision.autocast or precision.compute
    if kernel in ("flash", "cudnn") and compute == "fp32":
        read.refuse(Training.attention, "{!r} has no fp32 kernel; allowed: {}", kernel, "sdpa, efficient, math")
    return kernel


def _on_its_gpu(read: Defaults, recipe: Recipe, family: str) -> Recipe:
    """Return the recipe on a GPU older than Ampere, which has neither flash attention nor bf16."""
    early = is_before_ampere(read)
    upcast = early and recipe.implementation == "unsloth" and computes_in_fp32(family)
    if upcast:
        why = Message(
            "Unsloth computes {} in fp32 on GPUs without bf16, which is not counted: memory is higher", family
        )
        given = str(read.given(Training.precision) or recipe.precision.compute)
        read.assumptions.append(Assumption(Training.precision, given, why, notable=True))
    return replace(recipe, before_ampere=early, upcasts=upcast, rounds=_rounds(read, recipe))


def _prefers_cudnn(read: Defaults, precision: Precision) -> bool:
    """Return whether TransformerEngine runs attention, on a GPU and in a dtype for which it prefers cuDNN's kernel."""
    given = read.given(Hardware.accelerator)
    if given is None or not runs_transformer_engine(read.given(EngineSettings.framework)):
        return False
    major = find_accelerator(given).major
    return (precision.autocast or precision.compute) != "fp32" and major is not None and major >= HOPPER


def _implementation(read: Defaults, model: Model, engine: Engine, *, parallel: bool) -> str:
    """Return whose layers run, if they can."""
    path, own = Training.implementation, framework_of(read).implementation
    named = Message("{}'s own layers", read.given(EngineSettings.framework))
    reason = named if own != "transformers" else "its layers have routed experts" if parallel else None
    found: str = read.take(path, layer_code(read), reason)
    if parallel and found != "torchtitan" and not framework_of(read).shares_experts:
        read.refuse(path, "found {!r}; expert parallelism is supported only with 'torchtitan'", found)
    code_of(found).check(model.network)
    if found == "unsloth" and not engine.copies:
        read.refuse(path, "found {!r}; it runs with engine.type none or ddp, found {!r}", found, engine.name)
    return found


def _liger(read: Defaults, model: Model, code: LayerCode, implementation: str) -> frozenset[str]:
    """Return which of Liger's kernels run."""
    given = read.given(Training.liger_kernels)
    if given is not None and implementation != "liger":
        read.refuse(
            Training.liger_kernels,
            "found {!r}; needs {}",
            given,
            "training.implementation 'liger'",
        )
    usual = KERNELS_OF_LIGER - {"swiglu"} if read.given(Training.tiled_mlp) else KERNELS_OF_LIGER
    asked = usual if given is None else frozenset([given] if isinstance(given, str) else given)
    if unknown := sorted(asked - KERNELS_OF_LIGER):
        read.refuse(
            Training.liger_kernels, "found {!r}; allowed: {}", unknown[0], joined(", ", sorted(KERNELS_OF_LIGER))
        )
    found = code.patched(model.network, asked & KERNELS_OF_LIGER)
    if implementation in ("liger", "unsloth") and found != asked:
        reason = Message("{} has no part that the other kernels replace", model.network.family)
        read.assumptions.append(Assumption(Training.liger_kernels, sorted(found) or "none", reason, notable=True))
    return found


def _tiles(read: Defaults, model: Model, implementation: str, sizes: Mapping[str, int], *, compiled: bool) -> int:
    """Tiles of the feed-forward layers that are recorded; 0: they run as a whole."""
    path = Training.tiled_mlp
    found = read.take(path, False)
    if not found:
        return 0
    if implementation not in ("transformers", "liger", "unsloth"):
        read.refuse(path, "found {}; supported only with transformers' layers", found)
    if compiled:
        read.refuse(path, "found {}; compiled blocks are not tiled", found)
    layers = model.network.kinds
    # unsloth_zoo/tiled_mlp.py tiles whatever is called `mlp`, a router and experts among them.
    sparse = implementation == "unsloth" and all(_is_gpt_oss(layer.feed_forward) for layer in layers)
    if model.network.towers or not (sparse or all(is_gated(layer.feed_forward) for layer in layers)):
        raise UnsupportedError(
            path,
            "found {}; supported only for dense gated feed-forward layers of three matrices, unlike {}",
            found,
            model.name,
        )
    return min(sizes[TILES], RECORDED)


def _is_gpt_oss(part: Ffn | None) -> bool:
    return isinstance(part, Experts) and part.variant == "gpt_oss"


def tiles_of(read: Defaults, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of tiles, where feed-forward layers are tiled."""
    given, usual = read.given(Training.tiled_mlp), framework_of(read)
    if not given:
        return {}
    return tile_sizes(sizes["s"], None if given is True else int(given), usual.tile or sizes["h"])


def _held(read: Defaults, family: str) -> dict[str, Any]:
    """Return what a family's layers and its model hold in the release of transformers that a config names."""
    return {
        "frequencies_once": before(read, COPIES_FREQUENCIES),
        "frequencies_each": frequencies_each(read, family),
        "masks_each": masks_each(read, family),
    }


def recipe_of(
    read: Defaults,
    model: Model,
    engine: Engine,
    sizes: Mapping[str, int],
    micro_batches: int,
    data_ranks: int,
    checkpoints: Checkpoints | None,
    tensor: TensorParallel | None,
    *,
    keeps: bool,
    fake: bool,
) -> Recipe:
    """Return the recipe of a step, for one stage that has all layers; `data_ranks` share no layer."""
    code = code_of(implementation := _implementation(read, model, engine, parallel=sizes.get("ep", 1) > 1))
    precision = _precision(read, engine)
    kernel = _attention(read, model, code, precision)
    exchanges = ulysses(read, model, implementation, kernel, sizes, padded=(padded := _padded(read, kernel)))
    compiled = _compiled(read, model, implementation, precision, kernel) and not _breaks(read, code, kernel, sizes)
    recipe = Recipe(
        network=with_dropout(read, model).network,
        repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in model.repeats),
        implementation=implementation,
        attention=kernel,
        padded=padded,
        windowed=model.window is not None and sizes["sq"] >= model.window,
        precision=precision,
        loss=_loss(read, code, sizes, model.network.family, fake=fake),
        liger=_liger(read, model, code, implementation),
        sharding=_sharding(read, engine, code, sizes, data_ranks),
        checkpoints=checkpoints,
        micro_batches=2 if micro_batches > 1 else 1,
        keeps_gradients=keeps,
        units=frozenset(unit_axes(sizes)),
        tiles=_tiles(read, model, implementation, sizes, compiled=bool(read.given(Training.compile))),
        use_cache=_use_cache(read, code) or _prefixed(model),
        caches_results=(row := framework_of(read)).wraps_layers,
        release=row.release,
        former_releases=tuple(read.former_releases),
        ragged=_prefixed(model) and (sizes["va"] + sizes["s"]) % 16 != 0,
        quantization=quantization_of(read, precision, engine),
        offloads_activations=_offloads_activations(read),
        steps_in_backward=_steps_in_backward(read, micro_batches),
        ring_turns=ring(read, model, implementation, kernel, precision.autocast or precision.compute),
        recurrence=_recurrence(read, model, sizes, precision.parameter),
        tower_repeats=tower_repeats(model),
        pictures=pictures(model, sizes),
        tensor=tensor,
        ulysses=exchanges,
        positioned=(tensor is not None and code.computes_loss) or exchanges is not None,
        pipeline=pipeline_plan(read, code),
        compiled=compiled,
        float8=_float8(read, implementation, fused=compiled),
        dispatcher=(sent := dispatcher(read, sizes.get("ep", 1))),
        mixture=MIXTURES.get(sent),
        heads_as=_heads_as(read, code, model.network.family),
        **(_held(read, model.network.family) if code.name == "transformers" else {}),
        fake=fake,
    )
    return with_budget(read, _on_its_gpu(read, recipe, model.network.family), sizes)


def _heads_as(read: Defaults, code: LayerCode, family: str) -> HeadsAs:
    if code.name == "unsloth":
        return shared_heads(read, family)
    return heads_as(read) if code.name == "transformers" else AS_THEY_ARE


def _offloads_activations(read: Defaults) -> bool:
    """Return whether hooks take saved tensors of layers to the host, not the checkpoints alone."""
    return read.given(Training.offload.activations) is not None and not framework_of(read).hosts_checkpoints


def _padded(read: Defaults, kernel: str) -> bool:
    """Return whether attention is given a mask: of padding, or of packed documents where the kernel knows no bounds."""
    padded = read.take(Training.attention_mask, "none") == "padded"
    packed = bool(read.take(Training.packed_sequences, False))
    if padded and kernel in ("flash", "cudnn"):
        read.refuse(
            Training.attention_mask,
            "'padded' is not supported yet with attention {!r}; allowed: {}",
            kernel,
            "sdpa, math",
        )
    return padded or (packed and kernel not in ("flash", "cudnn"))


def _compiled(read: Defaults, model: Model, implementation: str, precision: Precision, kernel: str) -> bool:
    path = Training.compile
    if not read.take(path, False):
        return False
    found = obstacles(model.network) if implementation == "transformers" else []
    if implementation not in ("torchtitan", "transformers"):
        found = [Message("layers of {!r}", implementation)]
    found += ["torch.autocast"] if precision.autocast and implementation != "transformers" else []
    found += [Message("attention {!r}", "math")] if kernel == "math" else []
    if found:
        raise UnsupportedError(
            path, "compiled blocks are not supported yet for {}; allowed: {}", joined(", ", found), "false"
        )
    return True


def _breaks(read: Defaults, code: LayerCode, kernel: str, sizes: Mapping[str, int]) -> bool:
    """Return whether the graph of a checkpointed block breaks, so that its checkpoint runs as if it were not compiled.

    transformers asks the positions of one sequence whether several are packed into it, and branches on the answer
    (modeling_flash_attention_utils.py, `_is_packed_sequence`, up to 5.23); Dynamo leaves a checkpoint alone in which a
    graph breaks (torch/_dynamo/variables/higher_order_ops.py, `TorchHigherOrderOperatorVariable`).
    """
    full = read.given(Training.activation_checkpointing.policy) == "full"
    if not (full and code.name == "transformers" and kernel == "flash" and sizes["b"] == 1):
        return False
    why = Message(
        "transformers' flash attention asks whether one sequence is packed, which breaks the graph of a block"
    )
    read.assumptions.append(Assumption(Training.compile, "false", why, notable=True))
    return True


def _float8(read: Defaults, implementation: str, *, fused: bool) -> Float8 | None:
    """torchao's float8 for the linear layers of blocks."""
    paths = EngineSettings.fp8_recipe, TorchSettings.enable_fsdp_float8_all_gather
    if read.given(Training.precision) != "fp8-mixed":
        for path in paths:
            if read.given(path):
                read.refuse(path, "found {!r}; needs {}", read.given(path), "training.precision 'fp8-mixed'")
        return None
    if implementation not in ("torchtitan", "transformers"):
        raise UnsupportedError(
            Training.precision,
            "found {!r}; supported only for layers of 'torchtitan' and 'transformers', found {!r}",
            "fp8-mixed",
            implementation,
        )
    if implementation == "transformers" and read.given(Training.adapter.type) is not None:
        raise UnsupportedError(
            Training.precision, "found {!r}, which is not supported yet with {}", "fp8-mixed", Training.adapter.type
        )
    recipe = read.take(paths[0], "tensorwise", "torchao's default")
    if recipe not in FLOAT8_RECIPES:
        read.refuse(paths[0], "found {!r}; torchao supports {}", recipe, joined(", ", FLOAT8_RECIPES))
    gathers = read.take(paths[1], False)
    if gathers and recipe != "tensorwise":
        read.refuse(paths[1], "found {}; torchao gathers in float8 only with 'tensorwise', found {!r}", "true", recipe)
    keeps = fused and recipe != "mxfp8" and not gathers and is_early_titan(read, KEEPS_WEIGHTS)
    return Float8(recipe=recipe, gathers=gathers, fused=fused, keeps_weights=keeps)


def _rounds(read: Defaults, recipe: Recipe) -> bool:
    """Return whether linear layers are those of quantization-aware training (torchao, quantization/qat/linear.py)."""
    path = Training.fake_quantization
    if read.given(path) is None:
        return False
    asked = {
        Message("layers of {!r}", recipe.implementation): recipe.implementation != "transformers",
        "torch.compile": recipe.compiled,
        "tensor parallelism": recipe.tensor is not None,
        str(Training.quantization): read.given(Training.quantization) is not None,
        str(Training.precision): read.given(Training.precision) == "fp8-mixed",
    }
    found = [each for each, there in asked.items() if there]
    if found:
        raise UnsupportedError(
            path, "found {!r}, which is not supported yet with {}", read.given(path), joined(", ", found)
        )
    return True


FLOAT8_RECIPES = ("tensorwise", "rowwise", "mxfp8")


def _recurrence(read: Defaults, model: Model, sizes: Mapping[str, int], stored: str) -> Recurrence:
    if not is_recurrent(model):
        if read.given(Training.kernels) is not None:
            read.refuse(Training.kernels, "{} has no recurrent mixers", model.name)
        return Recurrence()
    kernels = read.take(Training.kernels, "fused")
    return recurrence(kernels, model, sizes, stored, fuses_norm=before(read, SPELLS_GATED_NORM))


_AXES = frozenset({"b", "s", "a", "k", "e", "E", "ge", "at", "bt", "bi", "A", "B", "G", "H", "hg", "bg"})
"""Sizes that shapes have as axes of their own, where an axis of one element changes what must be copied."""


def unit_axes(sizes: Mapping[str, int]) -> Iterator[Axis]:
    """Axes of one element: sizes, and a tensor-parallel rank's part of them."""
    for name, size in sizes.items():
        if name.rstrip("′") in _AXES:
            if size == 1:
                yield name
            if size == sizes["tp"]:
                yield split_over(name)
            if size == sizes["cp"] > 1:
                yield split_over(name, "cp")


def _prefixed(model: Model) -> bool:
    """Return whether learned keys and values are in a cache."""
    return any(has_prefix(mixer) for layer in model.network.kinds for mixer in layer.mixers)


def _use_cache(read: Defaults, code: LayerCode) -> bool:
    used = bool(read.take(Training.use_cache, False))
    if used and not code.has_cache:
        read.refuse(Training.use_cache, "{} has no KV cache in training; allowed: {}", code.title, "false")
    checkpoints = read.given(Training.activation_checkpointing.policy) not in (None, "none")
    if used and checkpoints and not framework_of(read).wraps_layers:
        read.refuse(Training.use_cache, "found {}; transformers turns the cache off under checkpointing", "true")
    return used


def with_dropout(read: Defaults, model: Model) -> Model:
    """Return the model with the dropout probabilities of the job instead of its own."""
    hidden, attention = read.given(Training.dropout.hidden), read.given(Training.dropout.attention)
    return model if hidden is None and attention is None else _dropping(model, hidden, attention)


@lru_cache(maxsize=64)
def _dropping(model: Model, hidden: float | None, attention: float | None) -> Model:
    def changed(layer: Layer) -> Layer:
        scores = layer.mixer
        if attention is not None and scores is not None:
            scores = replace(scores, dropout=float(attention))
        return replace(layer, mixer=scores, dropout=layer.dropout if hidden is None else float(hidden))

    embedding_and_head = (
        model.network.embedding_and_head
        if hidden is None
        else replace(model.network.embedding_and_head, embedding_dropout=float(hidden))
    )
    network = replace(with_layers(model.network, changed), embedding_and_head=embedding_and_head)
    return replace(model, network=network)


def _wrap(read: Defaults, code: LayerCode) -> str:
    """FSDP's units: torchtitan's are those of its version."""
    wrap: str = read.take(TorchSettings.wrap, code.default_wrap)
    return "torchtitan-2024" if wrap == "torchtitan" and is_early_titan(read) else wrap


def _sharding(read: Defaults, engine: Engine, code: LayerCode, sizes: Mapping[str, int], ranks: int) -> Sharding:
    shards = sizes["z"]
    piped, parallel = pipelined(read), sizes.get("ep", 1) > 1
    keeps = piped and code.default_wrap == "torchtitan"
    path, reason = TorchSettings.reshard_after_forward, "torchtitan's default in a pipeline" if keeps else None
    shares = parallel and framework_of(read).shares_experts
    if shares:
        keeps, reason = True, "NeMo Automodel's default with expert parallelism"
    reshards = read.take(path, not keeps, reason)
    if piped and parallel and reshards is not False:
        said = "found {}, which is not supported yet in a pipeline with expert parallelism; allowed: {}"
        read.refuse(path, said, reshards, "false")
    kept = read.given(Training.offload.parameters)
    if kept is not None and read.given(TorchSettings.cpu_offload) is False:
        read.refuse(TorchSettings.cpu_offload, "contradicts training.offload.parameters {!r}", kept)
    return Sharding(
        engine=engine.key or engine.name,
        wrap=_wrap(read, code),
        reshard_after_forward=reshards,
        root_reshards=read.take(TorchSettings.root_reshard_after_forward, False),
        replicated=shards < ranks,
        offloaded=read.take(TorchSettings.cpu_offload, kept is not None),
        syncs_every_micro_batch=not read.take(TorchSettings.no_sync, framework_of(read).skips_sync),
        gathers=shards > 1,
        original_parameters=engine.flat
        and read.take(TorchSettings.use_orig_params, framework_of(read).original_parameters),
        prefetches_backward=not engine.flat or read.take(TorchSettings.backward_prefetch, "pre") == "pre",
        limits_gathers=read.given(TorchSettings.limit_all_gathers) is not False,
        broadcasts=not framework_of(read).initializes_on_gpu,
        gathers_experts=sizes.get("ze", 1) > 1,
        leaves_experts=shares and sizes.get("ze", 1) == 1,
        prefetches=parallel,
        delays_experts=delays_experts(read, parallel=parallel),
        bucket_views=read.take(TorchSettings.gradient_as_bucket_view, False),
    )
