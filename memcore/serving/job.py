"""From a config to a serving job: defaults filled in, contradictions refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, TypeVar

from memcore import registry
from memcore.config.defaults import Assumption, Defaults
from memcore.config.devices import device_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.knobs import Knob
from memcore.config.needs import ROUTED, STATEFUL, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.settings import Config
from memcore.errors import ConfigError, UnsupportedError
from memcore.hardware import USUAL_STACKS, Accelerator
from memcore.memory.ledger import Range
from memcore.messages import Message, joined
from memcore.networks.catalog import find_model, for_serving, identified, listed_name
from memcore.networks.network import Model
from memcore.networks.parts import SpecialMixer
from memcore.records import dataclass
from memcore.serving.budget import Budget
from memcore.serving.cache import CACHE_TYPES, Caching
from memcore.serving.changes import ServerChange
from memcore.serving.checkpoint import Raw, Stored, own_cache, own_dtype, own_format, text_config
from memcore.serving.formats import BYTES, FORMATS, IS_GGUF
from memcore.serving.inference import Inference
from memcore.serving.recipes import CACHES_IN_FP8, NATIVE, stored_as
from memcore.serving.repositories import published
from memcore.serving.settings import NEEDS, ServerSettings
from memcore.serving.speculation import PROPOSED, Speculation, predicts, speculation
from memcore.serving.stages import Layout

OptionsT = TypeVar("OptionsT")


_STACKED = frozenset({"8.0", "9.0", "10.0", "10.3"})
"""Compute capabilities of GPUs with stacked memory (HBM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What a step's kernels reach on a kind of GPU, as published rates have it."""

    share: float
    """Of the memory's bandwidth, while they read weights and cached tokens."""
    layer: float
    """Seconds of a layer's kernels beyond what they read."""
    experts: float = 0.0
    """Further seconds of a layer with routed experts."""
    latent: float = 0.0
    """The same of latent attention."""
    recurrent: float = 0.0
    """The same of a recurrent state."""
    unpacking: float = 0.0
    """The same of weights in four bits."""
    prompts: float | None = None
    """Share of the peak of products in 16 bits that prompts reach; None: as for all kernels of a GPU, if at all."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of weights that a token passes, by where they lie."""

    device: float
    experts: float
    """Of all routed experts on GPUs, of which a token chooses few."""
    host: float = 0.0
    host_experts: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a server's steps are, compared with what memory and matrix products allow: published rates say it."""

    late: Kernels
    """On GPUs of compute capability 8.9 and later."""
    former: Kernels
    """On those before."""
    others: Mapping[str, Kernels] = field(default_factory=dict)
    """On single kinds, by `Accelerator.capability` or, for all of a vendor's, by `Accelerator.stack`."""
    stacked: float | None = None
    """`share` where memory is stacked (HBM); None: as where it is not."""
    oldest: tuple[int, int] = (8, 0)
    """Compute capability from which published rates are known."""
    rows: bool = False
    """Products of few tokens take what a tile of 64 rows takes, where a GPU's products are slow for its memory."""
    prompts: bool = False
    """Published rates cover prompts, too."""
    latent: int | None = None
    """Compute capability from which they cover steps of latent attention; not first tokens, which took 2 to 10 times as
    long. None: they do not."""
    recurrent: tuple[float, float] | None = None
    """Multiples of what is expected between which published steps with recurrent states are; None: none are known."""
    launching: Callable[[ServingJob], float] = lambda _job: 0.0
    """Return seconds in which the host starts a step's kernels one by one; with CUDA graphs 0."""
    reads: Callable[[ServingJob], Reads] | None = None
    """Return what a token reads where the ledger does not name weights by their modules."""
    uncovered: Callable[[ServingJob], str | None] = lambda _job: None
    """Return the key of a sentence on what published rates do not cover of a job."""

    def on(self, row: Accelerator) -> Kernels:
        """Return what kernels reach on a GPU."""
        found = self.others.get(row.capability) or self.others.get(row.stack)
        if found is not None:
            return found
        late = row.version is not None and row.version >= (8, 9)
        found = self.late if late else self.former
        return replace(found, share=self.stacked) if self.stacked and row.capability in _STACKED else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An inference server."""

    name: str
    title: str
    options: Callable[[Defaults, Basics], object]
    """Reads its own settings."""
    budget: Callable[[ServingJob], Budget]
    changes: tuple[ServerChange, ...]
    """What makes room in it, from the harmless to what changes what is served: the ladder climbs them in this order."""
    variants: tuple[tuple[str, str, str], ...] = ()
    """Programs that run it under another name: a setting, its value, and the program's title."""
    speed: Pace | None = None
    """None: no published rates say it."""
    on_gpu: Knob | None = None
    """How many layers are on GPUs, if it keeps the others on the host; the knob sets the number."""
    experts_on_host: Knob | None = None
    """Of how many layers the experts are on the host, whatever else is on GPUs; the knob sets the number."""
    least: Callable[[ServingJob], int] | None = None
    """Bytes that one of its GPUs holds at least, where the budget takes long to work out."""
    parallel: frozenset[str] = frozenset()
    """Kinds of parallelism that it has: `tensor`, `pipeline`, `data`, `context`."""
    lays_out: Callable[[Defaults, Layout, Model], Layout] | None = None
    """What it makes of a group of ranks where a setting divides it otherwise than by matrices."""
    data_within: Setting[bool] | None = None
    """The setting by which data-parallel ranks are those of tensor parallelism, not further copies."""
    wide_experts: bool = False
    """Data-parallel ranks share experts: attention is data-parallel, and each rank has its own cache."""
    splits: bool = False
    """It shares layers out over GPUs by itself."""
    formats: tuple[str, ...] = ("bf16", "fp8", "int8", "nvfp4", "awq", "int4")
    """Formats of weights that it loads, most bits first."""
    unpacks: bool = True
    """It loads formats in which a GPU cannot multiply, too, and multiplies in 16 bits."""
    sleeps: bool = False
    """It can hand its memory to another job for a while (`sleep_level`)."""
    described: tuple[Fraction, Fraction] = (Fraction(6, 1000), Fraction(6, 1000))
    """How much less and how much more weights are in known start-up logs, where the checkpoint is described: what
    loading rounds up, repacks and keeps in addition."""
    seems: Callable[[ServingJob], Range] | None = None
    """How many bytes more its log says besides, or fewer, as it reads them off what the GPU has free."""
    state_dtype: str | None = None
    """Of recurrent states where the checkpoint says nothing; None: the model's."""
    states_in: Setting[str] | None = None
    """The setting that says their dtype, whatever the checkpoint says."""
    extends_states: bool = True
    """A convolution's state has room for the tokens that are proposed (vllm, mamba_utils.py, `num_spec`)."""
    pools_every_layer: bool = False
    """Its cache has room for layers that read another layer's keys and values (Gemma 3n, 4)."""
    logs_apart: tuple[str, ...] = ()
    """What the weights that it reports leave out: what proposes tokens, or adapters, which have lines of their own."""
    shortens: bool = False
    """It starts with less room than the longest sequence takes, and takes shorter ones."""
    reads_cache_format: Callable[[Defaults, str], bool] | None = None
    """Whether the cache is in fp8 without being asked for where the checkpoint, by its method, has scales for it."""
    keeps: Callable[[Defaults, Stored], Stored] | None = None
    """How it keeps what a checkpoint stores; None: as it is."""
    asks_for_a_share: bool = False
    """Its memory is given as a share of the GPU (`gpu_memory_utilization`)."""
    usual_length: Callable[[Defaults, int | None], int | None] | None = None
    """The longest sequence where nobody says one, by the bytes of the GPU; None: the model's maximum."""
    too_long: Callable[[Mapping[str, Any], int, tuple[int, ...] | None], Message | None] | None = None
    """What it says, and ends, at a longer sequence than the model's own, by the config of the text and its release;
    None: what all servers say."""
    loads_exl3: bool = False
    """It loads checkpoints of ExLlamaV3."""
    loads_gguf: bool = False
    """It loads GGUF files."""
    proposes: frozenset[str] | None = None
    """Methods of speculative decoding that are supported with it; None: all."""
    drafted: Callable[[Defaults], int] | None = None
    """How many tokens its draft model proposes where nobody says it; None: 5."""
    loads: Callable[[Defaults, Model], Model] | None = None
    """What of a model it loads where a setting says that parts stay out; None: all of it."""
    stacks: frozenset[str] = USUAL_STACKS
    """What it runs on: `Accelerator.stack`."""
    oldest: tuple[int, int] = (0, 0)
    """The least compute capability of NVIDIA's GPUs that it has kernels for."""
    amd: tuple[str, ...] = ()
    """Architectures of AMD's GPUs that it has kernels for; all of them where none is named."""
    shows: str = "torch.cuda.max_memory_allocated"
    """The function or the lines of its log that say what it allocated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basics:
    """What every server needs to know."""

    model: Model
    raw: Raw
    """The model's config.json."""
    layout: Layout
    dtype: str
    stored: Stored | None
    cache_dtype: str
    max_model_len: int
    batch: int | None
    """Sequences that are asked for."""
    mean_length: int
    accelerator: Accelerator | None
    capacity: int | None
    state_dtype: str = "bf16"
    """Of recurrent states."""
    extends_states: bool = True
    pools_every_layer: bool = False
    """The cache has room for layers that read another layer's keys and values."""
    draft: Model | None = None
    """The model that drafts tokens."""
    speculation: Speculation | None = None
    """How tokens are proposed."""
    file_type: str | None = None
    """The type of a GGUF file, where the model's name says one."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the model's sizes and those of the layout."""
        return {**self.model.sizes, **self.layout.symbols}

    def drafting(self) -> Basics | None:
        """Return the same for the draft model, which is not quantized."""
        return (
            None if self.draft is None else replace(self, model=self.draft, stored=None, draft=None, speculation=None)
        )

    def caching(self) -> Caching:
        """How tokens are cached."""
        text = text_config(self.raw)
        window, chunk = self.model.window or 0, text.get("attention_chunk_size")
        return Caching(
            type=CACHE_TYPES[self.cache_dtype],
            dtype=self.dtype,
            state_dtype=self.state_dtype,
            sizes=self.sizes,
            chunk=chunk if isinstance(chunk, int) else (window or 8192),
            window=window,
            proposed=self.speculation.tokens if self.speculation and self.extends_states else 0,
            every_layer=self.pools_every_layer,
        )


_STATE_KEYS = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
"""Keys under which a checkpoint names the dtype of its states (Nemotron-H, Qwen3.5)."""


def _state_dtype(text: Raw, dtype: str) -> str:
    for key in _STATE_KEYS:
        found = text.get(key)
        if isinstance(found, str):
            return {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(found, dtype)
    return dtype


def _said_of_states(read: Defaults, server: Server) -> str | None:
    return None if server.states_in is None else read.given(server.states_in)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingJob:
    """A config with nothing left open."""

    config: Config
    server: Server
    basics: Basics
    options: object
    num_gpus: int
    assumptions: tuple[Assumption, ...]
    recipes: tuple[Stored, ...] = ()
    """How other repositories of the format are quantized, where the config says the format alone."""

    @property
    def model(self) -> Model:
        """Return what is served."""
        return self.basics.model

    def chosen(self, kind: type[OptionsT]) -> OptionsT:
        """Return what the server reads of the config, of the server's own class."""
        if not isinstance(self.options, kind):
            raise TypeError(self.options)
        return self.options

    @property
    def engine(self) -> Server:
        """Return the server."""
        return self.server

    @property
    def title(self) -> str:
        """Return the name of the program that serves."""
        named = (title for path, value, title in self.server.variants if self.config.get(path) == value)
        return next(named, self.server.title)

    @property
    def accelerator(self) -> Accelerator | None:
        """Return what it runs on."""
        return self.basics.accelerator

    @property
    def capacity(self) -> int | None:
        """Return bytes of one GPU that a job can use."""
        return self.basics.capacity

    @property
    def sizes(self) -> Mapping[str, int]:
        """Values of symbols."""
        return self.basics.sizes


def server_of(name: str) -> Server:
    """Return a server by its name."""
    found: Server = registry.engine_module(name, "server").SERVER
    return found


def _running_on(accelerator: Accelerator) -> list[str]:
    """Return the servers that have kernels for a GPU, as their users call them."""
    found = [(name, server_of(name)) for name in registry.SERVERS]
    version, architecture = accelerator.version, accelerator.capability
    return [
        name
        for name, each in found
        if accelerator.stack in each.stacks
        and (version is None or version >= each.oldest)
        and (accelerator.stack != "rocm" or not each.amd or architecture in each.amd)
    ]


def most_sequences(read: Defaults) -> int | None:
    """Return how many sequences may run at once, where a config says it, under `inference` or under `engine`."""
    return read.given(Inference.max_num_seqs) or read.given(ServerSettings.max_num_seqs)


def resolve(config: Config) -> ServingJob:
    """Fill in what the config leaves open.

    Raises ConfigError for contradictions, and UnsupportedError for what is valid but not supported yet.
    """
    read = Defaults(config)
    name = read.take(EngineSettings.type, registry.USUAL_SERVER, "the most common server")
    server = server_of(name)
    served = _served(read, config.model, server)
    if server.loads is not None:
        served = replace(served, model=server.loads(read, served.model))
    _refuse_foreign(config, read, server)
    layout = _layout(read, server)
    layout = layout if server.lays_out is None else server.lays_out(read, layout, served.model)
    basics, recipes = _basics(read, config, served, layout, server)
    _refuse_uneven(read, basics)
    options = server.options(read, basics)
    if read.problems:
        raise ConfigError(read.problems)
    return ServingJob(
        config=config,
        server=server,
        basics=basics,
        options=options,
        num_gpus=read.given(Hardware.num_gpus) or 1 if server.splits else layout.gpus,
        assumptions=tuple(each for each in read.assumptions if _concerns(each.path, basics.model)),
        recipes=recipes,
    )


_WAITING: Mapping[str, Need] = {**NEEDS, **registry.merged("settings", "NEEDS")}


def _concerns(path: str, model: Model) -> bool:
    """Return whether a setting says something about a model: not of experts or states that it lacks."""
    need = _WAITING.get(path)
    if need == ROUTED:
        return model.has_experts
    return need != STATEFUL or any(isinstance(part, SpecialMixer) for layer, _ in model.layers for part in layer.mixers)


@dataclass(frozen=True, slots=True)
class _Served:
    """What a config's model stands for."""

    model: Model
    raw: Raw
    format: str | None = None
    """As a repository's name has it."""
    name: str = ""
    state_dtype: str | None = None
    repository: str = ""
    """Its hub id, where it is another one than the catalog's."""
    file_type: str | None = None
    """The type of its GGUF file, as the repository's name has it."""

    @property
    def maker(self) -> str:
        """Return who made the repository."""
        return self.repository.rpartition("/")[0]


def _served(read: Defaults, given: str | Raw, server: Server) -> _Served:
    """The model of a config.json, of the catalog, or behind the name of a quantized or re-uploaded repository."""
    if not isinstance(given, str):
        return _Served(find_model(given), given, state_dtype=server.state_dtype)
    found = for_serving(identified(given))
    if found.base != listed_name(given):
        read.assumptions.append(Assumption("model", found.base, found.reason, notable=True))
    model = find_model(found.base)
    return _Served(
        model,
        published(found.base, found.format),
        found.format,
        found.base,
        server.state_dtype,
        given if found.base != listed_name(given) else "",
        found.file_type,
    )


_ADAPTERS = "a server does not train adapters; set inference.max_loras (--max-loras) to how many it holds"


def _refuse_foreign(config: Config, read: Defaults, server: Server) -> None:
    served = config.below("inference") if config[EngineSettings.type] is None else ()
    for path in config.below("training"):
        if served:  # what makes it a server may be the mistake
            read.refuse(
                path, "a config describes training or inference, not both; leave it out, or {}", joined(", ", served)
            )
        else:
            adapts = path.startswith("training.adapter.")
            read.refuse(
                path, _ADAPTERS if adapts else "a config describes training or inference, not both; leave it out"
            )
    read.refuse_foreign(server.name)


_AXES = {
    "tensor": Parallelism.tensor_parallel_size,
    "pipeline": Parallelism.pipeline_parallel_size,
    "data": Parallelism.data_parallel_size,
    "context": Parallelism.context_parallel_size,
}


def _layout(read: Defaults, server: Server) -> Layout:
    counts: dict[str, int] = {}
    for axis, path in _AXES.items():
        given = read.given(path)
        if axis in server.parallel:
            counts[axis] = read.given(path) or 1
        elif given not in (None, 1):
            raise UnsupportedError(path, "found {}; not supported yet with {}", given, server.title)
    total = read.given(Hardware.num_gpus)
    copies = 1 if server.data_within is not None and read.given(server.data_within) else counts.get("data", 1)
    used = counts.get("tensor", 1) * counts.get("pipeline", 1) * copies
    if total is not None and total != used and server.parallel:
        if total % used == 0 and read.given(Parallelism.tensor_parallel_size) is None:
            counts["tensor"] = counts.get("tensor", 1) * (total // used)
            read.take(Parallelism.tensor_parallel_size, counts["tensor"], "each matrix is split across all GPUs")
        else:
            read.refuse(Hardware.num_gpus, "found {}, but the parallel sizes need {}", total, used)
    shared, split = counts.get("context", 1), counts.get("tensor", 1)
    if split % shared:
        read.refuse(Parallelism.context_parallel_size, "found {}, which must divide the tensor-parallel size ({})",
                    shared, split)  # fmt: skip
    if not server.parallel and not server.splits and total not in (None, 1):
        read.refuse(Hardware.num_gpus, "found {}; {} is supported only on one GPU", total, server.title)
    return Layout(
        tensor=counts.get("tensor", 1),
        pipeline=counts.get("pipeline", 1),
        data=counts.get("data", 1),
        context=counts.get("context", 1),
        expert_parallel=bool(read.given(ServerSettings.enable_expert_parallel)),
    )


def _refuse_uneven(read: Defaults, basics: Basics) -> None:
    """Query heads are split whole; with the number of GPUs given, into as many parts as make use of all."""
    heads, layout, gpus = basics.model.sizes.get("a"), basics.layout, read.given(Hardware.num_gpus)
    if heads is not None and heads % layout.tensor:
        able = [each for each in range(1, heads + 1) if heads % each == 0]
        whole = [each for each in able if each * layout.pipeline * layout.data == gpus]
        read.forget(Hardware.num_gpus)  # that their number does not suit these ranks follows from it
        said = "found {}, which does not divide the {} heads; allowed: {}"
        read.refuse(Parallelism.tensor_parallel_size, said, layout.tensor, heads, joined(", ", map(str, whole or able)))
    if basics.layout.pipeline > basics.model.num_layers:
        read.refuse(
            Parallelism.pipeline_parallel_size,
            "found {} stages for {} layers",
            basics.layout.pipeline,
            basics.model.num_layers,
        )


def _basics(
    read: Defaults, config: Config, served: _Served, layout: Layout, server: Server
) -> tuple[Basics, tuple[Stored, ...]]:
    model, raw = served.model, served.raw
    _refuse_gguf(read, served, server)
    stored, recipes = _format(read, served)
    if stored is not None and server.keeps is not None:
        stored = server.keeps(read, stored)
    if stored is not None and stored.method == "exl3" and not server.loads_exl3:
        raise UnsupportedError(
            "model.quantization_config.quant_method",
            "found exl3, which {} does not load; TabbyAPI and ExLlamaV3 load it, but are not supported yet",
            server.title,
        )
    if stored is not None and stored.method == "exl3" and model.network.embedding_and_head.tied:
        raise UnsupportedError("model.tie_word_embeddings", "EXL3 with tied embeddings is not supported yet")
    given = own_dtype(raw)
    reason = "the checkpoint's" if given else "as checkpoints are usually stored"
    dtype = read.take(Inference.weight_dtype, given or "bf16", reason)
    accelerator, capacity = device_of(read, server.stacks, server.oldest, _running_on, server.amd)
    usual = server.usual_length(read, capacity) if server.usual_length is not None else None
    longest = _longest(read, model, usual)
    cache = read.take(Inference.kv_cache_dtype, "auto")
    reads = server.reads_cache_format
    if cache == "auto" and reads is not None and reads(read, stored.method if stored else ""):
        cache = _own_cache(served, stored) or cache
    draft = config[Inference.draft_model]
    mean = read.take(Inference.mean_length, max(longest // 2, 1), "half of the longest sequence")
    basics = Basics(
        model=model,
        raw=raw,
        layout=layout,
        dtype=dtype,
        stored=stored,
        cache_dtype=dtype if cache == "auto" else cache,
        max_model_len=longest,
        batch=read.given(Inference.batch_size),
        mean_length=min(mean, longest),
        accelerator=accelerator,
        capacity=capacity,
        state_dtype=_said_of_states(read, server) or _state_dtype(text_config(raw), served.state_dtype or dtype),
        extends_states=server.extends_states,
        pools_every_layer=server.pools_every_layer,
        draft=None if draft is None else _drafting(draft),
        speculation=_speculation(read, model, raw, stored, server),
        file_type=served.file_type,
    )
    return basics, recipes


def _drafting(draft: Any) -> Model:
    """Return the model that proposes tokens.

    Raises ConfigError at its own key.
    """
    try:
        return find_model(draft)
    except ConfigError as error:
        path = str(Inference.draft_model)
        raise ConfigError([replace(each, path=path) for each in error.problems]) from None


def _own_cache(served: _Served, stored: Stored | None) -> str | None:
    """Return the dtype that the checkpoint, or whoever made it, stores scales of the cache for."""
    makers = CACHES_IN_FP8.get(stored.format.name if stored else "", frozenset())
    return own_cache(served.raw) or ("fp8" if served.maker.lower() in makers else None)


def _speculation(read: Defaults, model: Model, raw: Raw, stored: Stored | None, server: Server) -> Speculation | None:
    """How tokens are proposed, if they are."""
    tokens, draft = read.given(Inference.num_speculative_tokens), read.given(Inference.draft_model)
    if tokens is None and draft is None and read.given(Inference.speculative_method) is None:
        return None
    knows = server.proposes
    predicted = predicts(model) and (knows is None or "mtp" in knows)
    usual = "draft" if draft is not None else "mtp" if predicted else "ngram"
    reason = "the checkpoint has layers for it" if usual == "mtp" else None
    method = read.take(Inference.speculative_method, usual, reason)
    if method == "draft" and draft is None:
        read.refuse(
            Inference.draft_model, "found no draft model, but {} is draft; name a model", Inference.speculative_method
        )
    if knows is not None and method not in knows:
        raise UnsupportedError(
            Inference.speculative_method,
            "found {}, which is not supported yet with {}; allowed: {}",
            method,
            server.title,
            joined(", ", sorted(knows)),
        )
    if method == "mtp" and not predicts(model):
        raise UnsupportedError(
            Inference.speculative_method,
            "found mtp; multi-token-prediction layers of {} are not supported yet",
            model.network.family,
        )
    several = server.drafted(read) if server.drafted is not None else 5
    usual_count = PROPOSED.get(method, 1) if server.drafted is None or method == "ngram" else several
    count = read.take(Inference.num_speculative_tokens, several if draft is not None else usual_count)
    return speculation(method, count, model, text_config(raw), stored)


def _refuse_gguf(read: Defaults, served: _Served, server: Server) -> None:
    """Refuse a GGUF file's type, asked for or named by a repository, with a server whose weights are in other formats.

    Raises UnsupportedError.
    """
    name = read.given(Inference.quantization) or served.file_type or served.format
    if not server.loads_gguf and name is not None and name not in (*FORMATS, *BYTES):
        raise UnsupportedError(Inference.quantization, IS_GGUF, name, server.title)


def _format(read: Defaults, served: _Served) -> tuple[Stored | None, tuple[Stored, ...]]:
    """What the config asks for, else what the checkpoint or its name has; and what other repositories may have."""
    own, family = own_format(served.raw), served.model.network.family
    name = read.given(Inference.quantization)
    named = served.format if served.format in {*FORMATS, "bf16"} else None
    if name is None and named is not None and (own is None or own.format.name != named):
        name = read.take(Inference.quantization, named, "by the repository's name")
    if name is None and own is None and family in NATIVE:
        name = read.take(Inference.quantization, NATIVE[family], "as published checkpoints of this family")
    if name is None and own is not None and served.name:
        read.assumptions.append(
            Assumption("model.quantization_config", own.format.name, "as the checkpoint is published", True)
        )
    if name is None or (name in BYTES and name not in FORMATS):
        return (own if name is None else None), ()
    if name not in FORMATS:
        return None, ()
    usual, *others = stored_as(name, own, served.model, served.repository)
    if others:
        reason = "repositories of this family quantize different parts; the most common choice"
        read.assumptions.append(Assumption("model.quantization_config", name, reason, True))
    return usual, tuple(others)


def _longest(read: Defaults, model: Model, usual: int | None) -> int:
    """Return tokens of the longest sequence; by default, what the server takes or the model's maximum."""
    prompt, output = read.given(Inference.prompt_length), read.given(Inference.output_length)
    most = model.sizes["P"]
    given: int | None = read.given(Inference.max_model_len)
    if given is None:
        if prompt is not None:
            both: int = prompt + (output or 0)
            return both
        if usual is not None and usual < most:
            return int(read.take(Inference.max_model_len, usual, "the server's default on such a GPU"))
        longest: int = read.take(Inference.max_model_len, most, "the model's maximum")
        return longest
    if prompt is not None and prompt + (output or 0) > given:
        read.refuse(Inference.max_model_len, "found {}; prompt and output are {} tokens", given, prompt + (output or 0))
    if model.network.embedding_and_head.positions is not None and given > most:
        read.refuse(Inference.max_model_len, "found {}; {} has {} learned positions", given, model.name, most)
    return given
