"""llama.cpp as a server: its buffers on each GPU and on the host, from the flags of a config.

Nothing is planned below a budget: the context is allocated as a whole, and what does not fit fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import prod

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.knobs import Knob
from memcore.config.schema import Setting
from memcore.errors import UnsupportedError
from memcore.memory.ledger import Entry
from memcore.messages import Message, joined
from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention
from memcore.records import dataclass
from memcore.servers.llamacpp import ollama_engine, supported
from memcore.servers.llamacpp.buffers import Buffer, Plan
from memcore.servers.llamacpp.caches import cache_rows, cache_type, indexer_row
from memcore.servers.llamacpp.doubts import COMPUTED, foreign, slight, unasked, undated
from memcore.servers.llamacpp.gguf import FileTensor, published_file
from memcore.servers.llamacpp.mtp import HeadWeights, carried, head_file, head_of
from memcore.servers.llamacpp.plan import EVERY, HOST, RELEASES, Flags, row_of, uses_flash
from memcore.servers.llamacpp.projector import has_towers, projector
from memcore.servers.llamacpp.settings import LIBRARY, OLLAMA, PYTHON, LlamaCppSettings
from memcore.servers.llamacpp.speed import pace
from memcore.servers.llamacpp.tensor_types import Overrides, overrides_of
from memcore.servers.llamacpp.vulkan import at_once
from memcore.serving.budget import Budget, RankBudget
from memcore.serving.changes import NO_DRAFT, SHORTER, Becomes, Changes, ServerChange, fewer_tokens
from memcore.serving.entries import ledger, spread
from memcore.serving.gguf_mixes import ALIASES, FILE_TYPES, WIDER
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes
from memcore.serving.inference import Inference
from memcore.serving.job import Basics, Server, ServingJob
from memcore.serving.outside_allocator import context_and_nccl
from memcore.serving.recipes import NATIVE
from memcore.units import GiB, format_bytes

_CATEGORIES = {
    "model": "weights",
    "cache": "KV cache",
    "state": "recurrent states",
    "compute": COMPUTED,
    "output": "activations",
}


_OLLAMAS: Mapping[str, Overrides] = {"MXFP4_MOE": (("attn", "BF16"), ("output", "BF16"), ("token_embd", "BF16"))}
"""What Ollama's library keeps as it was published: 61,223 MiB of gpt-oss 120B (ollama/ollama#16416)."""


def _overrides(read: Defaults, name: str, fork: str) -> Overrides:
    """Return types that replace a file type's."""
    own = overrides_of(str(read.given(LlamaCppSettings.tensor_types) or ""))
    return (*own, *(_OLLAMAS.get(name, ()) if fork == OLLAMA else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What llama.cpp is told."""

    flags: Flags
    file_type: str
    """A file type, or the type of every quantized tensor."""
    overrides: Overrides
    """Parts of names of tensors, and their types besides those of the file type."""
    draft: Draft | None = None
    foreign: bool = False
    """Ollama's own engine builds the graph."""
    undated: bool = False
    """It is llama.cpp itself, or Ollama with its graph, and nobody says of which build."""
    target: Model | None = None
    """Whose file has this model as its layers that predict further tokens."""
    projector: str | None = None
    """The type of the file with the model's towers."""
    carried: Model | None = None
    """The layers that predict further tokens where the build loads them unasked, if the file has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The second model, which proposes tokens (`-md`): its weights once, its context as often as there is one."""

    model: Model
    options: Options
    contexts: int = 1


_STREAMS = 5900
"""Builds before, of the middle of July 2025, have one cache for all sequences (ggml-org/llama.cpp#14363)."""
LAYERS, DEVICES = 512, 16
"""The most that llama.cpp has room for: LLAMA_MAX_LAYERS of src/llama-hparams.h, llama_max_devices of llama.cpp."""


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that llama.cpp does not have.
    """
    _check_size(read, basics)
    sequences = read.take(Inference.batch_size, 1, "one sequence")
    name = _file_type(read, basics)
    fork = str(read.given(LlamaCppSettings.fork) or "")
    layers = read.given(LlamaCppSettings.n_gpu_layers)
    unified = read.take(LlamaCppSettings.kv_unified, False)
    version, family = read.given(EngineSettings.version), basics.model.network.family
    build = ollama_engine.build_of(version) if fork == OLLAMA else _build(version)
    row = "ik" if "ik" in fork else row_of(build)
    own = fork == OLLAMA and ollama_engine.runs(version, family)
    served = own or (RELEASES[row].outputs_by_slots and (fork != OLLAMA or ollama_engine.serves(version)))
    # One cache for all sequences is as long as the longest of them: `-c` cells in all (src/llama-context.cpp).
    context, batch, micro_batch = _batches(read, basics, fork, name, 1 if unified else sequences)
    flags = Flags(
        context=context,
        batch=batch,
        micro_batch=micro_batch,
        sequences=sequences,
        unified=unified or (build is not None and build < _STREAMS),
        flash=_flash(read, fork, version, family),
        keys=_type(read, LlamaCppSettings.cache_type_k, _common_type(read)),
        values=_type(read, LlamaCppSettings.cache_type_v, _common_type(read)),
        gpus=read.given(Hardware.num_gpus) or 1,
        gpu_layers=EVERY if layers is None else layers,
        split=read.take(LlamaCppSettings.split_mode, "layer"),
        shares=_shares(read),
        host_experts=read.take(LlamaCppSettings.n_cpu_moe, 0),
        full_windows=read.take(LlamaCppSettings.swa_full, fork in (PYTHON, LIBRARY)),
        # Before 0.30 Ollama's runner does not say how many it wants (llama/llama.go, NewContextParams; n_outputs_max).
        outputs=sequences * (1 + _proposed(basics)) if served and fork not in (PYTHON, LIBRARY) else None,
        checkpoints=ollama_engine.CHECKPOINTS if own else 0,
        window_memory=ollama_engine.window_of(version, family) if own else 0,
        offload=not own or ollama_engine.offloads(version),
        release=row,
        backend=read.given(LlamaCppSettings.ggml_backend) or "cuda",
        mapped=basics.accelerator is not None and basics.accelerator.stack == "metal",
        latent_values=row != "ik" and build is not None and _ABSORBING <= build < _WITHOUT_VALUES,
        expanded=_keeps_heads(read, basics, None if row == "ik" else build or _WITHOUT_VALUES),
    )
    _check_caches(read, basics.model, flags, _CACHES)
    draft, behind = _behind(read, basics, name, flags)
    return Options(
        flags=behind,
        file_type=name,
        overrides=_overrides(read, name, fork),
        draft=draft,
        foreign=own,
        projector=_projector(read, basics.model),
        undated=version is None and not own and fork in ("", OLLAMA),
        carried=None if draft is not None and draft.options.target is not None else carried(basics, build),
    )


def _projector(read: Defaults, model: Model) -> str | None:
    """Return the type of the file of towers that is loaded, if one is."""
    given: str | None = read.given(LlamaCppSettings.mmproj)
    if given is not None and not has_towers(model):
        read.refuse(LlamaCppSettings.mmproj, "found {!r}; {} has no towers for images or sound", given, model.name)
        return None
    return given


def _behind(read: Defaults, basics: Basics, name: str, flags: Flags) -> tuple[Draft | None, Flags]:
    """Return what drafts, and the flags with the layers that come behind the model's own in its file.

    Many files lack those that nothing asks for: logs of Qwen3.5 9B offload 33 layers.
    """
    head = head_of(basics.model, basics.speculation) if basics.speculation is not None else None
    if head is None:
        return None if basics.draft is None else _draft(read, basics.draft, flags), flags
    flags = replace(flags, behind=head.num_layers, checkpoints=flags.checkpoints + _proposed(basics))
    return _head(read, basics.model, head, name, flags), flags


def _batches(read: Defaults, basics: Basics, fork: str, name: str, caches: int) -> tuple[int, int, int]:
    """Return tokens of a context, of a batch, and of those computed at once: Ollama has one number for the last two."""
    context = basics.max_model_len * caches
    if fork != OLLAMA:
        batch = read.take(LlamaCppSettings.n_batch, 512 if fork == PYTHON else 2048)
        return context, batch, read.take(LlamaCppSettings.n_ubatch, 512)
    sizes, gpus = basics.sizes, read.given(Hardware.num_gpus) or 1
    row = sizes.get("k", sizes.get("a", 1)) * sizes["h"] // sizes.get("a", 1)
    needed = sum(tensor.bytes for tensor in _file(basics.model, name, _overrides(read, name, fork), None))
    needed += 4 * basics.model.num_layers * row * context
    free = None if basics.capacity is None else basics.capacity * gpus
    usual = ollama_engine.batch_of(read.given(EngineSettings.version), context, needed, free)
    batch = read.take(LlamaCppSettings.n_batch, usual, "Ollama's, by context and free memory")
    return context, batch, read.take(LlamaCppSettings.n_ubatch, batch)


def _flash(read: Defaults, fork: str, version: object, family: str) -> bool | None:
    """Return whether attention is FlashAttention; None where the backend decides."""
    given: bool | None = read.given(LlamaCppSettings.flash_attn)
    if given is None and fork == OLLAMA:
        return ollama_engine.attends_quickly(version, family)
    return read.take(LlamaCppSettings.flash_attn, False) if given is None and fork == PYTHON else given


def _check_size(read: Defaults, basics: Basics) -> None:
    """Refuse what llama.cpp has no room for.

    Raises UnsupportedError.
    """
    supported.check(EngineSettings.type, basics.model.network.family)
    if basics.model.num_layers > LAYERS:
        raise UnsupportedError("model", "found {} layers; llama.cpp reads at most {}", basics.model.num_layers, LAYERS)
    if (read.given(Hardware.num_gpus) or 1) > DEVICES:
        read.refuse(
            Hardware.num_gpus, "found {}; llama.cpp supports at most {}", read.given(Hardware.num_gpus), DEVICES
        )


def _file_type(read: Defaults, basics: Basics) -> str:
    """Return the file type, or the type of every quantized tensor."""
    named = basics.file_type
    usual, reason = NATIVE.get(basics.model.network.family, "q4_k_m"), "the most common format"
    if named:
        usual, reason = WIDER.get(named, named), "by the repository's name"
    name = str(read.take(Inference.quantization, usual, reason)).upper()
    name = ALIASES.get(name, name)
    if name in FILE_TYPES or name in BLOCK_TYPES:
        return name
    allowed = ", ".join(each.lower() for each in FILE_TYPES)
    read.refuse(Inference.quantization, "found {!r}; llama.cpp reads GGUF types: {}", name.lower(), allowed)
    return "F16"


_ABSORBING, _WITHOUT_VALUES = 5140, 7825
"""The first builds, about, that keep latent vectors and not every head's keys and values (ggml-org/llama.cpp#12801,
April 2025), and that keep them once, not as keys and as values (#19067, January 2026)."""
_FILES_BEFORE = "deepseek_v2"
"""A family whose files are older than that: they lack `key_length_mla`, and newer builds read them as before."""


def _keeps_heads(read: Defaults, basics: Basics, build: int | None) -> bool:
    """Return whether latent attention caches keys and values of every head; the build is None for ik_llama.cpp."""
    if "lk" not in basics.sizes:
        return False
    given = read.given(LlamaCppSettings.mla)
    if given is not None or build is None:
        return given == 0
    older = basics.model.network.family == _FILES_BEFORE
    reason = "files of this family are older than llama.cpp's cache of latent vectors" if older else None
    return build < _ABSORBING or (older and read.take(LlamaCppSettings.mla, 0, reason) == 0)


def _proposed(basics: Basics) -> int:
    """Return tokens that are checked with each one of a slot."""
    return basics.speculation.tokens if basics.speculation else 0


_USUAL_DRAFT = "q8_0"
"""Of the drafts in llama-server's own presets (common/arg.cpp, `--fim-qwen-7b-spec`)."""


def _draft(read: Defaults, model: Model, flags: Flags) -> Draft:
    """The draft model: the target's arguments, but its own file, its own layers on the GPU and its own cache types.

    Since May 2026 one context drafts for all slots, with as many tokens as the target's and an output for each slot;
    before, each slot made a context of its own, as long as the slot's, whose batch is that long, too.

    Source: llama.cpp, tools/server/server-context.cpp (`load_model`) and common/speculative.cpp
    (`common_base_params_to_speculative`); caches in F16 unless -ctkd and -ctvd say otherwise (common/common.h).
    """
    supported.check(Inference.draft_model, model.network.family)
    name = str(read.take(LlamaCppSettings.draft_quantization, _USUAL_DRAFT, "as in llama-server's presets")).upper()
    layers = read.given(LlamaCppSettings.n_gpu_layers_draft)
    together, slots = RELEASES[flags.release].drafts_together, max(flags.sequences, 1)
    slot = flags.context if read.given(LlamaCppSettings.kv_unified) else flags.context // slots
    own = replace(
        flags,
        context=flags.context if together else slot,
        batch=flags.batch if together else slot,
        sequences=flags.sequences if together else 1,
        keys=_type(read, LlamaCppSettings.cache_type_k_draft, None),
        values=_type(read, LlamaCppSettings.cache_type_v_draft, None),
        gpu_layers=EVERY if layers is None else layers,
        behind=0,
        host_experts=0,
        expanded=False,
        outputs=flags.sequences if RELEASES[flags.release].outputs_by_slots else None,
    )
    _check_caches(read, model, own, _DRAFT_CACHES)
    chosen = Options(flags=own, file_type=name, overrides=())
    return Draft(model=model, options=chosen, contexts=1 if together else slots)


def _head(read: Defaults, target: Model, head: Model, name: str, flags: Flags) -> Draft:
    """Return the layers of the target's own file that predict: on its GPUs, in a context as long as the target's."""
    own = replace(
        flags,
        keys=_type(read, LlamaCppSettings.cache_type_k_draft, None),
        values=_type(read, LlamaCppSettings.cache_type_v_draft, None),
        before=target.num_layers,
        behind=0,
        host_experts=0,
        expanded=False,
        outputs=flags.sequences,
        checkpoints=0,
    )
    chosen = Options(flags=own, file_type=name, overrides=_overrides(read, name, ""), target=target)
    return Draft(model=head, options=chosen)


def _build(version: object) -> int | None:
    """Return the number of a build, 9140 for b9140; None for releases of another form."""
    return version if isinstance(version, int) else None


def _shares(read: Defaults) -> tuple[float, ...]:
    """Return what each GPU gets: those without a number get nothing (`common_params_parser`, `--tensor-split`)."""
    told, gpus = read.given(LlamaCppSettings.tensor_split), read.given(Hardware.num_gpus) or 1
    if told is None:
        return ()
    shares = [float(each) for each in told.split(",")][:gpus]
    return (*shares, *[0.0] * (gpus - len(shares))) if any(shares) else ()


_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""What a cache may be of (`kv_cache_types` in `common/arg.cpp`)."""


_CACHES = (LlamaCppSettings.cache_type_k, LlamaCppSettings.cache_type_v)
_DRAFT_CACHES = (LlamaCppSettings.cache_type_k_draft, LlamaCppSettings.cache_type_v_draft)


def _check_caches(read: Defaults, model: Model, flags: Flags, paths: tuple[Setting[str], Setting[str]]) -> None:
    """Blocks must divide rows of heads, and values in blocks need flash attention (`llama_init_from_model`)."""
    keys, values = (_row_widths(model, values=each, expanded=flags.expanded) for each in (False, True))
    flash = uses_flash(model, flags)
    for path, name, widths in (
        (paths[0], flags.keys, keys),
        (paths[1], flags.values, values),
    ):
        named = path if read.given(path) else Inference.kv_cache_dtype
        block = BLOCK_TYPES[name]
        odd = next((width for width in widths if width % block.elements), None)
        if odd is not None:
            fitting = [each for each in _CACHE_TYPES if not any(w % BLOCK_TYPES[each.upper()].elements for w in widths)]
            message = Message(
                "found {!r}, whose blocks of {} elements do not divide rows of {}", name.lower(), block.elements, odd
            )
            read.refuse(named, "{}; allowed: {}", message, joined(", ", fitting))
        elif widths and path == paths[1] and block.quantized and not flash:
            read.refuse(named, "found {!r}, which needs flash attention; allowed: {}", name.lower(), "f32, f16, bf16")


def _row_widths(model: Model, *, values: bool, expanded: bool) -> list[int]:
    """Widths of the rows in which keys or values are cached; latent attention has keys alone, unless expanded."""
    widths: dict[int, None] = {}
    for layer, _ in model.layers:
        for part in layer.mixers:
            if isinstance(part, Attention) or (isinstance(part, LatentAttention) and expanded):
                widths[model.size((part.heads.value if values else part.heads.width,))] = None
            elif isinstance(part, LatentAttention) and not values:
                widths[cache_rows(model, part)[0]] = None
                widths |= {indexer_row(model, part): None} if part.indexer else {}
    return list(widths)


def _common_type(read: Defaults) -> str | None:
    """Return the type of keys and values where one is given for both."""
    common: str | None = read.given(Inference.kv_cache_dtype)
    return None if common == "auto" else common


def _type(read: Defaults, path: Setting[str], common: str | None) -> str:
    chosen: str = read.given(path) or common or read.take(path, "f16")
    name = {"FP16": "F16", "FP32": "F32"}.get(chosen.upper(), chosen.upper())
    if name not in BLOCK_TYPES:
        read.refuse(Inference.kv_cache_dtype, "found {!r}; llama.cpp caches in {}", chosen, joined(", ", _CACHE_TYPES))
        return "F16"
    return name


def budget(job: ServingJob) -> Budget:
    """Return what each GPU and the host hold."""
    chosen = job.chosen(Options)
    buffers = _buffers(job.model, chosen)
    devices = [f"CUDA{number}" for number in range(chosen.flags.gpus)]
    ranks = []
    for number, device in enumerate(devices):
        own = [foreign(each) if chosen.foreign else each for each in _entries(buffers, device)]
        if chosen.undated and device == devices[-1] and chosen.flags.gpu_layers > job.model.num_layers:
            former = _before_unpacking(job.model, chosen, device)
            own = [undated(job, chosen.flags, each, former) for each in own]
        context = context_and_nccl(job.accelerator, 1)
        if chosen.flags.backend == "vulkan":
            context = [slight(each) for each in context]
        entries = [*own, *_drafting(chosen, device), *context]
        if chosen.projector is not None and number == 0:
            entries.append(projector(job.model, chosen.projector))
        if chosen.carried is not None and device == devices[-1] and chosen.flags.gpu_layers:
            entries.append(unasked(_file(chosen.carried, chosen.file_type, chosen.overrides, job.model)))
        ranks.append(RankBudget(name=f"GPU {number}", count=1, ledger=ledger(entries), spread=spread(entries)))
    notes: list[str] = (
        []
        if chosen.file_type in FILE_TYPES
        else [Message("all matrices are assumed to be {}; actual mixes may differ", chosen.file_type)]
    )
    if (
        chosen.draft is not None
        and chosen.draft.options.target is None
        and RELEASES[chosen.flags.release].outputs_by_slots
    ):
        notes.append("since June 2026 llama-server uses a draft model only if --spec-type is draft-simple")
    host = ledger([*_entries(buffers, HOST), *_drafting(chosen, HOST)])
    if job.accelerator is not None and job.accelerator.stack != "cuda" and chosen.flags.backend == "cuda":
        notes.append(Message("graphs are placed as CUDA's kernels need them; {}'s may differ", job.accelerator.vendor))
    found = at_once(_plan(job.model, chosen), buffers, _build(job.config[EngineSettings.version]), job.accelerator)
    notes.extend(each for each in (found.doubt, found.note) if each is not None)
    weights = host.sum("weights", "draft model")
    if weights:
        held = format_bytes(weights)
        notes.append(Message("{} of the weights stay on the host: the token embedding and what is not offloaded", held))
    return Budget(
        ranks=tuple(ranks),
        pool=None,
        host=host,
        notes=tuple(notes),
        refused=found.refused,
        doubted=found.doubt is not None,
    )


def least(job: ServingJob) -> int:
    """Return bytes that the fullest GPU holds before the graph is placed: weights, caches and what surrounds them."""
    chosen = job.chosen(Options)
    totals = Counter[str]()
    for each in _kept(_plan(job.model, chosen), chosen):
        totals[each.device] += each.bytes
    if chosen.draft is not None:
        for each in _kept(_plan(chosen.draft.model, chosen.draft.options), chosen.draft.options):
            totals[each.device] += each.bytes * (1 if each.kind == "model" else chosen.draft.contexts)
    del totals[HOST]
    return max(totals.values(), default=0) + ledger(context_and_nccl(job.accelerator, 1)).total


def _buffers(model: Model, chosen: Options) -> tuple[Buffer, ...]:
    plan = _plan(model, chosen)
    # The graph has whole cells of the caches: contexts of as many cells have the same.
    flags = replace(chosen.flags, context=plan.context)
    computed = _computed(model, chosen.file_type, chosen.overrides, flags, chosen.target)
    return (*_kept(plan, chosen), *computed, plan.output_entry())


def _plan(model: Model, chosen: Options) -> Plan:
    return Plan(model, _file(model, chosen.file_type, chosen.overrides, chosen.target), chosen.flags)


@lru_cache(maxsize=32)
def _file(model: Model, file_type: str, overrides: Overrides, target: Model | None) -> tuple[FileTensor, ...]:
    if target is not None:
        return head_file(target, model, file_type, dict(overrides))
    return published_file(model, file_type, dict(overrides))


def _kept(plan: Plan, chosen: Options) -> Iterator[Buffer]:
    # Weights lie where they do whatever is cached.
    flags = replace(chosen.flags, context=1, sequences=1)
    yield from _weights(plan.model, chosen.file_type, chosen.overrides, flags, chosen.target)
    yield from _expanded(plan) if chosen.flags.expanded else plan.cache_entries()


@lru_cache(maxsize=64)
def _weights(
    model: Model, file_type: str, overrides: Overrides, flags: Flags, target: Model | None
) -> tuple[Buffer, ...]:
    plan = Plan if target is None else HeadWeights
    return tuple(plan(model, _file(model, file_type, overrides, target), flags).model_entries())


@lru_cache(maxsize=256)
def _computed(
    model: Model, file_type: str, overrides: Overrides, flags: Flags, target: Model | None
) -> tuple[Buffer, ...]:
    """Placing the graph is most of the work, and questions about lengths ask for the same one again."""
    return tuple(Plan(model, _file(model, file_type, overrides, target), flags).compute_entries())


def _expanded(plan: Plan) -> Iterator[Buffer]:
    """Latent attention with keys and values of every head."""
    for index, layer in enumerate(plan.layers):
        for part in layer.mixers:
            if isinstance(part, LatentAttention):
                sizes, heads = plan.model.sizes, part.heads
                keys = plan.model.size((heads.query, heads.width))
                values = plan.model.size((heads.query, heads.value))
                size = sum(
                    row_bytes(cache_type(name), each)
                    for name, each in ((plan.flags.keys, keys), (plan.flags.values, values))
                )
                total = size * plan.layer_cells(layer) * plan.streams
                formula = f"{sizes['a']} heads · (key + value) · cells"
                yield Buffer(
                    plan.layer_device(index), "cache", "keys and values of every head", total, formula, "-mla 0"
                )


_PLAIN = frozenset({"F32", "F16", "BF16"})
"""Types of caches that flash attention reads as they are."""


def _before_unpacking(model: Model, chosen: Options, device: str) -> int | None:
    """Return the compute buffer of builds before June 2026 where room for an unpacked cache was not in it.

    Source: ggml-org/llama.cpp#23907.
    """
    if {chosen.flags.keys, chosen.flags.values} <= _PLAIN:
        return None
    flags = replace(chosen.flags, release="spring")
    found = _computed(model, chosen.file_type, chosen.overrides, flags, chosen.target)
    return sum(each.bytes for each in found if each.device == device)


def _drafting(chosen: Options, device: str) -> list[Entry]:
    """Return what the draft model has there."""
    if chosen.draft is None:
        return []
    draft = chosen.draft
    found = _entries(_buffers(draft.model, draft.options), device)
    return [
        replace(
            each,
            category="draft model" if each.category == "weights" else each.category,
            copies=1 if each.category == "weights" else draft.contexts,
            module=draft.model.name,
        )
        for each in found
    ]


def _entries(buffers: Sequence[Buffer], device: str) -> list[Entry]:
    return [
        Entry(
            title=f"{each.kind} buffer: {each.name}",
            category=_CATEGORIES[each.kind],
            each=each.bytes,
            text=each.formula,
            source=f"llama.cpp, {each.source}",
        )
        for each in buffers
        if each.device == device
    ]


_GGUF = ("BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "IQ4_XS", "Q3_K_M", "Q3_K_S", "IQ3_XXS",
         "Q2_K", "IQ2_M", "IQ2_XXS", "IQ1_S")  # fmt: skip

_TIERS = ((23 * GiB, 4096), (47 * GiB, 32_768))
"""Memory of all GPUs below which Ollama gives a model that context; the most is for larger ones."""
_MOST = 262_144


def usual_length(read: Defaults, capacity: int | None) -> int | None:
    """Return the context that Ollama gives a model by default; None for llama.cpp itself.

    Source: ollama 0.24, server/routes.go, `defaultNumCtx`.
    """
    if read.given(LlamaCppSettings.fork) != OLLAMA or capacity is None:
        return None
    total = capacity * (read.given(Hardware.num_gpus) or 1)
    return next((tokens for below, tokens in _TIERS if total < below), _MOST)


def drafted(read: Defaults) -> int:
    """Return tokens of a draft: 3 since June 2026, 16 before (common/common.h, `common_params_speculative`)."""
    fork = str(read.given(LlamaCppSettings.fork) or "")
    row = "ik" if "ik" in fork else row_of(_build(read.given(EngineSettings.version)))
    return 3 if RELEASES[row].outputs_by_slots else 16


_FEW = (
    "q8_0", "q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q4_0", "iq4_xs", "q3_k_m", "q3_k_s", "iq3_xxs", "q2_k",
    "iq2_m", "iq2_xxs", "iq1_s",
)  # fmt: skip
"""Formats of 8 bits and fewer, by what they lose."""


def _in_format(name: str, unless: Sequence[str]) -> Becomes:
    """Return a file of another type, in which no tensor has the type that it had; not of a model trained in its own."""
    to: Changes = {Inference.quantization: name, LlamaCppSettings.tensor_types: None}
    return Becomes(to, {Inference.quantization: (*unless, *NATIVE.values())})


_LOSSES = {"q3_k_m": 8, "iq3_xxs": 20, "q2_k": 39, "iq2_m": 38, "iq2_xxs": 126}
"""By how many percent the perplexity of Llama 3 8B rises with an importance matrix; Q4_K_M's by 2.

llama.cpp, tools/perplexity/README.md, LLaMA 3 8b Scoreboard (6.23 in fp16). Larger models lose less."""
_FEWEST = tuple(
    ServerChange(
        title=Message("Weights in {}", name.upper()),
        kind="precision",
        note=Message("Llama 3 8B's perplexity is {} % higher: measure the effect on your task", loss),
        how=_in_format(name, _FEW[_FEW.index(name) :]),
        ladder=False,
        spare=True,
    )
    for name, loss in _LOSSES.items()
)


def _tables(job: ServingJob) -> tuple[int, int]:
    """How much less and more a head that is the embedding can take in published files, whatever llama-quantize does.

    It is kept in types from the file's own to Q8_0 (mradermacher's and unsloth's of Gemma 4).
    """
    chosen, model = job.chosen(Options), job.model
    base = BLOCK_TYPES.get(FILE_TYPES.get(chosen.file_type, ""))
    if chosen.overrides or base is None or not base.quantized or not model.network.embedding_and_head.tied:
        return 0, 0
    plan = _plan(model, chosen)
    table = next(tensor for tensor in plan.tensors if tensor.name == "token_embd.weight")
    if plan.tensor_device("output.weight") == HOST:
        return 0, 0
    own, wide = (int(prod(table.shape) * each.bits / 8) for each in (base, BLOCK_TYPES["Q8_0"]))
    return max(table.bytes - own, 0), max(wide - table.bytes, 0)


SERVER = Server(
    name="llama.cpp",
    stacks=frozenset({"cuda", "rocm", "xpu", "cann", "metal"}),  # llama.cpp, docs/build.md: its backends
    title="llama.cpp",
    variants=((LlamaCppSettings.fork, OLLAMA, "Ollama"),),
    options=options,
    budget=budget,
    least=least,
    splits=True,
    loads_gguf=True,
    usual_length=usual_length,
    proposes=frozenset({"draft", "mtp", "ngram"}),
    drafted=drafted,
    # Files of one type differ: some repositories keep single tensors wider than llama-quantize (unsloth's UD files).
    described=(Fraction(1, 100), Fraction(8, 100)),
    seems=_tables,
    formats=tuple(name.lower() for name in _GGUF if name in FILE_TYPES),
    shows="llama_memory_breakdown_print",  # "self" of each device; b6580 has it, older builds print "buffer size"
    on_gpu=Knob(
        title="Some layers on the host",
        to={LlamaCppSettings.n_gpu_layers: 0},
        why="the CPU computes the layers that do not fit on the GPU; each token waits for host memory",
        source="llama.cpp, common/arg.cpp, -ngl",
    ),
    experts_on_host=Knob(
        title="Some experts on the host",
        to={LlamaCppSettings.n_cpu_moe: 0},
        why="the CPU computes the experts that do not fit on the GPU; a token reads few of them from host memory",
        source="llama.cpp, common/arg.cpp, --n-cpu-moe",
    ),
    speed=pace(lambda job: _plan(job.model, job.chosen(Options))),
    changes=(
        ServerChange(
            title="Flash attention",
            kind="free",
            note="attention scores are not stored, and the kernel is faster",
            how=Becomes({LlamaCppSettings.flash_attn: True}),
        ),
        fewer_tokens(LlamaCppSettings.n_ubatch, 64),
        NO_DRAFT,
        ServerChange(
            title="KV cache in q8_0",
            kind="precision",
            note="keys and values are rounded to 8 bits in blocks of 32",
            how=Becomes(
                {
                    LlamaCppSettings.cache_type_k: "q8_0",
                    LlamaCppSettings.cache_type_v: "q8_0",
                    LlamaCppSettings.flash_attn: True,
                },
                {LlamaCppSettings.cache_type_k: ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")},
            ),
        ),
        ServerChange(
            title="Weights in Q8_0",
            kind="precision",
            note="weights are rounded to 8 bits in blocks of 32",
            how=_in_format("q8_0", _FEW),
        ),
        ServerChange(
            title="Weights in Q4_K_M",
            kind="precision",
            note="most matrices in 4.5 bits, some in 6.6",
            how=_in_format("q4_k_m", _FEW[4:]),
        ),
        *_FEWEST,
        SHORTER,
    ),
)
