"""A config as what is to be run: every setting that is given is either followed or refused by name.

The defaults are those of the engines, as `docs/reference.md` states them; a test compares them with what memcore
assumes for the same config.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from memcore.errors import MemcoreError
from memcore.networks.catalog import catalog, find_model, nickname
from memcore.trace.code import code_of
from memcore.trace.recurrence import is_recurrent

OPTIMIZERS = (
    "adamw", "adam", "amsgrad", "nadam", "radam", "adamax", "adadelta", "adagrad", "rmsprop", "asgd", "adafactor", "sgd",
    "sgd-nesterov", "adamw-8bit", "lion-8bit", "lion", "lamb",
)  # fmt: skip
_SHORT = {"activation_checkpointing": "policy", "optimizer": "name", "adapter": "type", "method": "name"}
"""Sections that a file may write as one text, and the key that the text stands for."""
_ALIASES = {"training.batch_size": "training.micro_batch_size", "training.adapter.r": "training.adapter.rank"}
_RECORD = ("model._name", "hardware.", "engine.framework")
"""For the record: what runs does not depend on them."""
DTYPES = ("fp32", "bf16", "fp16")
PRECISIONS = ("fp32", "bf16", "fp16", "bf16-mixed", "fp16-mixed", "bf16-autocast")


class Refused(Exception):
    """A config asks for what this tool cannot run."""


class Reader:
    """Reads settings by path, and knows which have been read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._values = {_ALIASES.get(path, path): value for path, value in _flat(config) if value is not None}
        self._read: set[str] = set()
        self.defaults: dict[str, Any] = {}
        """What was taken for absent settings."""

    def given(self, path: str) -> Any:
        """The value of a setting, or None."""
        self._read.add(path)
        return self._values.get(path)

    def take(self, path: str, default: Any, allowed: Sequence[Any] = ()) -> Any:
        """The value of a setting, else a default.

        Raises Refused for a value that is not allowed.
        """
        value = self.given(path)
        if value is None:
            self.defaults[path] = value = default
        if allowed and value not in allowed:
            raise Refused(f"{path}: found {value!r}; allowed: {', '.join(map(str, allowed))}")
        return value

    def refuse_rest(self) -> None:
        """Raises Refused if a setting is given that nobody read."""
        left = [path for path in self._values if path not in self._read and not path.startswith(_RECORD)]
        if left:
            raise Refused(f"{left[0]}: found {self._values[left[0]]!r}, which this tool cannot run")


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by path; a model's own config.json is one value."""
    for key, each in value.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(each, Mapping) and key not in ("model", "teacher"):
            yield from _flat(each, here)
        else:
            yield f"{here}.{_SHORT[key]}" if isinstance(each, str) and key in _SHORT else here, each


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The dtypes of a step."""

    parameters: str
    compute: str
    """What FSDP gathers in."""
    reduce: str
    autocast: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """What takes the step."""

    name: str
    implementation: str
    momentum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Activation checkpointing."""

    policy: str
    mode: str
    every: int
    early_stop: bool
    reentrant: bool
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Low-rank matrices beside frozen weights."""

    dora: bool
    rank: int
    targets: str | list[str]
    dtype: str
    dropout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Who shares out the work."""

    engine: str
    data: int
    shards: int
    tensor: int
    sequence_parallel: bool
    loss_parallel: bool
    stages: int
    schedule: str
    reshard: bool | int
    root_reshard: bool | None
    wrap: str
    offload: bool
    no_sync: bool
    bucket_view: bool
    bucket_mb: int
    static_graph: bool
    runtime: str
    return_outputs: bool

    @property
    def world(self) -> int:
        """GPUs of the whole job."""
        return self.data * self.tensor * self.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A step of training with nothing left open."""

    model: Mapping[str, Any]
    sequence: int
    micro_batch: int
    accumulation: int
    precision: Precision
    optimizer: Optimizer
    checkpoints: Checkpoints
    adapter: Adapter | None
    layout: Layout
    implementation: str
    attention: str
    padded: bool
    method: str
    teacher: Mapping[str, Any] | None
    completion: int
    """Tokens of an answer, whose log-probabilities GRPO learns from."""
    tempers: str
    """How logits are divided by a temperature: in place, or into a tensor of their own; empty: not at all."""
    symmetric: bool
    """The teacher's distribution is compared with a mixture of both, as TRL does."""
    loss: str
    chunks: int
    shifted_outside: bool
    outputs_kept: bool
    compiled: bool
    quantization: str | None
    rounds: bool
    use_cache: bool
    fallback: bool
    """Recurrent mixers run transformers' own code, whatever kernels are installed."""
    clips: bool
    keeps_gradients: bool
    expandable: bool
    defaults: Mapping[str, Any]
    """What was taken for absent settings, by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A prompt and its continuation with nothing left open."""

    model: Mapping[str, Any]
    batch: int
    prompt: int
    output: int
    dtype: str
    attention: str


def plan(config: Mapping[str, Any]) -> Plan | Generation:
    """Return what a config asks for.

    Raises Refused, naming the setting, for what this tool cannot run.
    """
    read = Reader(config)
    model = _model(read.given("model"))
    found = _generation(read, model) if "inference" in config else _training(read, model)
    read.refuse_rest()
    return found


def _model(given: Any) -> Mapping[str, Any]:
    """The content of a config.json."""
    if isinstance(given, str):
        wanted = given.strip().lower()
        entries = [each for hub, each in catalog().items() if wanted in {hub.lower(), nickname(hub)}]
        if not entries:
            raise Refused(f"model: found {given!r}, which is not in the catalog")
        given = entries[0]["config"]
    if not isinstance(given, Mapping) or "model_type" not in given:
        raise Refused("model: give a config.json with model_type, or a model of the catalog")
    if "vision_config" in given:
        raise Refused("model: models with a vision tower are not measured yet")
    return {key: value for key, value in given.items() if key != "_name"}


def _generation(read: Reader, model: Mapping[str, Any]) -> Generation:
    read.take("engine.type", "transformers", ("transformers",))
    return Generation(
        model=model,
        batch=read.take("inference.batch_size", 1),
        prompt=read.take("inference.prompt_length", 512),
        output=read.take("inference.output_length", 128),
        dtype=read.take("inference.weight_dtype", "bf16", DTYPES),
        attention="math" if _needs_eager(model) else "sdpa",
    )


def _needs_eager(model: Mapping[str, Any]) -> bool:
    """Families without SDPA in transformers, as memcore knows them."""
    try:
        return not code_of("transformers").has_sdpa(find_model(model).network)
    except MemcoreError:
        return False


def _training(read: Reader, model: Mapping[str, Any]) -> Plan:
    titan = read.take("training.implementation", "transformers", ("transformers", "torchtitan")) == "torchtitan"
    layout = _layout(read, titan=titan)
    loss, chunks = _loss(read)
    positions = int(model.get("max_position_embeddings") or model.get("n_positions") or 4096)
    return Plan(
        model=model,
        sequence=read.take("training.sequence_length", min(positions, 4096)),
        micro_batch=read.take("training.micro_batch_size", 1),
        accumulation=read.take("training.gradient_accumulation_steps", layout.stages),
        precision=_precision(read, layout),
        optimizer=_optimizer(read),
        checkpoints=_checkpoints(read),
        adapter=_adapter(read),
        layout=layout,
        implementation="torchtitan" if titan else "transformers",
        attention=read.take(
            "training.attention",
            "math" if _needs_eager(model) else "sdpa",
            ("sdpa", "flash", "efficient", "cudnn", "math"),
        ),
        padded=read.take("training.attention_mask", "none", ("none", "padded")) == "padded",
        method=_method(read),
        teacher=_teacher(read),
        completion=read.take("training.method.completion_length", 256),
        tempers=_tempers(read),
        symmetric=read.given("engine.framework") == "trl",
        loss=loss,
        chunks=chunks,
        shifted_outside=read.take(
            "training.loss_shift", "labels-preshifted" if titan else "model", ("model", "labels-preshifted")
        )
        == "labels-preshifted",
        outputs_kept=read.take("training.outputs_kept", False),
        compiled=read.take("training.compile", False),
        quantization=read.take("training.quantization", None, (None, "nf4", "nf4-double", "int8")),
        rounds=read.take("training.fake_quantization", None, (None, "int8-int4")) is not None,
        use_cache=read.take("training.use_cache", False),
        fallback=_fallback(read),
        clips=read.take("training.gradient_clipping", True),
        keeps_gradients=read.take("training.zero_grad", "set-to-none", ("set-to-none", "keep")) == "keep",
        expandable=read.take("engine.expandable_segments", False),
        defaults=read.defaults,
    )


_IN_PLACE = ("1.0", "1.9", "1.9.2")
"""Releases of TRL whose GRPO writes over the logits."""


def _tempers(read: Reader) -> str:
    """Return how GRPO's logits are divided by a temperature; only TRL's are."""
    if read.given("engine.framework") != "trl":
        return ""
    return "in-place" if str(read.given("engine.framework_version")) in _IN_PLACE else "new"


def _teacher(read: Reader) -> Mapping[str, Any] | None:
    """The content of a frozen teacher's config.json."""
    given = read.given("training.method.teacher")
    return None if given is None else _model(given)


def _method(read: Reader) -> str:
    """What is learned from; models to compare with run before the step, and are not held here."""
    method: str = read.take("training.method.name", "sft", ("sft", "ppo", "grpo", "distill"))
    if method == "ppo" and read.given("training.method.reference") != "precomputed":
        raise Refused(f"training.method.reference: {method} runs with 'precomputed' only")
    return method


KERNELS = ("mamba_ssm", "causal_conv1d", "fla", "kernels")
"""Packages that transformers takes recurrent kernels from."""


def has_recurrent_mixers(model: str | Mapping[str, Any]) -> bool:
    """Return whether memory depends on recurrent kernels, as far as memcore knows the model."""
    try:
        return is_recurrent(find_model(model))
    except MemcoreError:
        return False


def _fallback(read: Reader) -> bool:
    """Return whether recurrent mixers run transformers' own code; that is so where no package has their kernels."""
    wanted = read.take("training.kernels", "fused", ("fused", "fallback")) == "fallback"
    installed = [name for name in KERNELS if find_spec(name)]
    if wanted and installed:
        raise Refused(f"training.kernels: found 'fallback', but {' and '.join(installed)} is installed")
    return wanted


def _loss(read: Reader) -> tuple[str, int]:
    given = read.take("training.loss", "cross-entropy-fp32")
    name, _, chunks = str(given).partition(":")
    if name not in {"cross-entropy-fp32", "cross-entropy", "fused-linear", "chunked"} or (name == "chunked") != bool(
        chunks
    ):
        raise Refused(
            f"training.loss: found {given!r}; allowed: cross-entropy-fp32, cross-entropy, chunked:N, fused-linear"
        )
    return name, int(chunks or 1)


def _precision(read: Reader, layout: Layout) -> Precision:
    sharded = layout.engine == "fsdp"
    preset = read.take("training.precision", "bf16-mixed" if sharded else "bf16", PRECISIONS)
    base, _, mixed = preset.partition("-")
    parameters = read.take("training.parameter_dtype", "fp32" if mixed else base, DTYPES)
    compute = read.take("training.compute_dtype", base if mixed == "mixed" and sharded else parameters, DTYPES)
    reduce = read.given("training.reduce_dtype") or ("fp32" if compute != parameters else compute)
    read.take("training.gradient_dtype", parameters, (parameters,))
    read.take("training.master_dtype", "none", ("none",))
    over = read.take("engine.autocast", False)
    automatic = mixed == "autocast" or (mixed == "mixed" and not sharded) or over
    if not sharded and compute != parameters and not automatic:
        raise Refused(f"training.compute_dtype: found {compute!r} beside {parameters!r} parameters, without FSDP")
    return Precision(parameters=parameters, compute=compute, reduce=reduce, autocast=base if automatic else None)


def _optimizer(read: Reader) -> Optimizer:
    name = read.take("training.optimizer.name", "adamw", OPTIMIZERS)
    fused = name in {"adamw", "adam", "amsgrad"}
    own = "bitsandbytes" if name.endswith("8bit") or name in {"lion", "lamb"} else "foreach"
    allowed = ("fused", "foreach", "for-loop", "bitsandbytes")
    implementation = read.take("training.optimizer.implementation", "fused" if fused else own, allowed)
    return Optimizer(
        name=name, implementation=implementation, momentum=read.given("training.optimizer.momentum") or 0.0
    )


def _checkpoints(read: Reader) -> Checkpoints:
    at = "training.activation_checkpointing"
    every = read.given(f"{at}.every")
    policy = read.take(f"{at}.policy", "none", ("none", "full", "selective"))
    mode = read.given(f"{at}.mode") or ("layer" if every else "op")
    return Checkpoints(
        policy=policy,
        mode=mode,
        every=every or 2,
        early_stop=read.take(f"{at}.early_stop", True),
        reentrant=read.take(f"{at}.use_reentrant", False),
        entry=read.take(f"{at}.entry", "checkpoint_wrapper", ("checkpoint_wrapper", "gradient_checkpointing_enable")),
    )


def _adapter(read: Reader) -> Adapter | None:
    at = "training.adapter"
    kind = read.take(f"{at}.type", None, (None, "lora", "dora"))
    if kind is None:
        return None
    targets = read.take(f"{at}.target_modules", "all-linear")
    return Adapter(
        dora=kind == "dora",
        rank=read.take(f"{at}.rank", 8),
        targets="all-linear" if targets in ("all-linear", ["all-linear"]) else list(targets),
        dtype=read.take(f"{at}.dtype", "fp32", DTYPES),
        dropout=read.take(f"{at}.dropout", 0.0),
    )


def _layout(read: Reader, *, titan: bool) -> Layout:
    tensor = read.given("parallelism.tensor_parallel_size") or 1
    stages = read.given("parallelism.pipeline_parallel_size") or 1
    for name in ("context", "ulysses", "expert"):
        read.take(f"parallelism.{name}_parallel_size", 1, (1,))
    gpus = read.given("hardware.num_gpus") or 1
    data = read.given("parallelism.data_parallel_size") or max(gpus // tensor // stages, 1)
    engine = read.take("engine.type", "fsdp" if data > 1 else "none", ("none", "ddp", "fsdp"))
    wrap = read.given("engine.wrap") or ("torchtitan" if titan else "layer")
    if engine == "fsdp":
        read.take("engine.version", 2, (2,))
    return Layout(
        engine=engine,
        data=data,
        shards=read.given("parallelism.data_parallel_shard_size") or data,
        tensor=tensor,
        sequence_parallel=_given(read, "parallelism.sequence_parallel", default=tensor > 1),
        loss_parallel=_given(read, "parallelism.loss_parallel", default=titan and tensor > 1),
        stages=stages,
        schedule=read.given("parallelism.pipeline_schedule") or "1f1b",
        reshard=_given(read, "engine.reshard_after_forward", default=True),
        root_reshard=read.given("engine.root_reshard_after_forward"),
        wrap=wrap,
        offload=_given(read, "engine.cpu_offload", default=False),
        no_sync=_given(read, "engine.no_sync", default=False),
        bucket_view=_given(read, "engine.gradient_as_bucket_view", default=False),
        bucket_mb=read.given("engine.bucket_cap_mb") or 25,
        static_graph=_given(read, "engine.static_graph", default=False),
        runtime=read.given("engine.pipeline_runtime") or "torch",
        return_outputs=_given(read, "engine.return_outputs", default=not titan),
    )


def _given(read: Reader, path: str, *, default: Any) -> Any:
    """A setting that only counts with some engines: absent ones are not worth a note."""
    value = read.given(path)
    return default if value is None else value
