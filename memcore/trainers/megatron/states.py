"""What the optimizer keeps for each parameter, by Megatron's switches.

Source: Megatron-LM, core/optimizer/{optimizer,distrib_optimizer,optimizer_config,emerging_optimizers}.py and
cpu_offloading/hybrid_optimizer.py; TransformerEngine, pytorch/optimizers/fused_adam.py.
"""

from __future__ import annotations

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.trainers.megatron.plan import before
from memcore.trainers.megatron.settings import MegatronSettings

_FUSED = ("adam", "adamw")
_MOMENTS = {**dict.fromkeys(_FUSED, ("fp32", "fp32")), "sgd": ("fp32",), "muon": ("fp32", "fp32")}
"""Of fp32 states; of Muon for what is no matrix of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Dtypes of what belongs to one parameter; None: there is no such tensor."""

    parameter: str
    gradient: str
    """Of the gradient buffer."""
    master: str | None
    moments: tuple[str, ...]
    sharded: bool
    """Master and moments are divided by the data-parallel ranks."""
    copied: bool
    """The optimizer reads an fp32 copy of its gradients, which stays until the next step begins."""
    scratch: int
    """fp32 copies of states in fewer bits while the step runs."""
    offloaded: float
    """The share of parameters whose optimizer is on the host."""
    master_stays: bool
    """The master weights of those stay on the GPU."""
    matrices: tuple[str, ...] | None = None
    """Of matrices of layers, where the optimizer keeps something else for them (Muon's momentum)."""
    whole: str | None = None
    """How ranks share whole parameters (layer_wise.py): `layout`, matrices; `ping-pong`, everything."""
    shares_gradients: bool = False
    """Gradient buffers are divided too (Megatron-FSDP)."""
    shares_parameters: bool = False
    """Parameters are divided too, and gathered layer by layer."""
    outer: bool = False
    """Groups of ranks, each of which has all parameters and gradients, share the optimizer (hybrid FSDP)."""


_MAIN = (MegatronSettings.main_grads_dtype, MegatronSettings.main_params_dtype)
_KEPT = (MegatronSettings.exp_avg_dtype, MegatronSettings.exp_avg_sq_dtype)
"""Dtypes of the precision-aware optimizer: of gradients and parameters, and of Adam's moments."""


def states_of(read: Defaults, precision: str) -> States:
    """Return the dtypes of a job."""
    half = {"fp16-mixed": "fp16", "fp16": "fp16", "fp32": "fp32"}.get(precision, "bf16")
    name = _optimizer(read)
    strategy = _strategy(read)
    whole = _whole(read, name, strategy)
    divides = strategy != "no_shard" if strategy else bool(read.take(MegatronSettings.distributed_optimizer, False))
    sharded = divides and whole != "ping-pong"
    gradient = _gradient(read, half, strategy)
    aware = _is_precision_aware(read, sharded=sharded)
    moments = tuple(read.given(setting) or "fp32" for setting in _KEPT) if aware else _MOMENTS.get(name, ())
    fraction = _offloaded(read)
    decoupled = aware and _decoupled(read, fraction)
    master = None if half == "fp32" else _remainders(read, half) if decoupled else "fp32"
    _check_dtypes(read, half, master)
    return States(
        parameter=half,
        gradient=gradient,
        master=master,
        moments=moments,
        sharded=sharded,
        copied=gradient != "fp32" and not decoupled,
        scratch=0 if set(moments) in ({"fp32"}, {"bf16"}) else sum(each != "fp32" for each in moments),
        offloaded=fraction,
        master_stays=not aware,
        matrices=("fp32",) if name == "muon" else None,
        whole=whole,
        shares_gradients=strategy in ("optim_grads", "optim_grads_params"),
        shares_parameters=strategy == "optim_grads_params",
        outer=_outer(read, strategy),
    )


def _optimizer(read: Defaults) -> str:
    """Return the optimizer's name, after its implementation and momentum have been checked."""
    name = str(read.take(Training.optimizer.name, "adam", "Megatron's default"))
    if name not in _MOMENTS:
        read.refuse(Training.optimizer.name, "found {!r}; supported with Megatron: {}", name, joined(", ", _MOMENTS))
    implementation = read.given(Training.optimizer.implementation)
    if implementation not in (None, "fused"):
        said = "found {!r}; Megatron's optimizers are always 'fused'"
        read.refuse(Training.optimizer.implementation, said, implementation)
    momentum = read.given(Training.optimizer.momentum)
    if momentum is not None and (name != "sgd" or not momentum):
        has = "must be above 0" if name == "sgd" else Message("applies to {}, found {!r}", "sgd", name)
        read.refuse(Training.optimizer.momentum, "found {}; {}", momentum, has)
    return name


def _is_precision_aware(read: Defaults, *, sharded: bool) -> bool:
    """Return whether the optimizer chooses the dtypes of its states; only then do their settings apply."""
    path = MegatronSettings.precision_aware_optimizer
    aware = bool(read.given(path))
    if aware and not sharded:
        read.refuse(path, "found {}; needs {}", "true", MegatronSettings.distributed_optimizer)
    for setting in () if aware else (*_MAIN, *_KEPT):
        if read.given(setting) not in (None, "fp32"):
            read.refuse(setting, "applies to {}", path)
    return aware


def _check_dtypes(read: Defaults, half: str, master: str | None) -> None:
    """Dtypes that the config names must be those that Megatron's precision has."""
    own = {Training.parameter_dtype: half, Training.compute_dtype: half, Training.master_dtype: master or "none"}
    for path, dtype in own.items():
        if read.given(path) not in (None, dtype):
            why = "set by training.precision" if path != Training.master_dtype else "by its precision and optimizer"
            read.refuse(path, "found {!r}; Megatron uses {!r} here, {}", read.given(path), dtype, why)


def _whole(read: Defaults, name: str, strategy: str | None) -> str | None:
    """With the distributed optimizer Muon's ranks have whole matrices (arguments.py: emerging optimizers)."""
    path = MegatronSettings.no_use_layer_wise_param_layout
    if name != "muon":
        return None
    if strategy is not None:
        read.refuse(
            MegatronSettings.data_parallel_sharding_strategy,
            "found {!r} with 'muon'; emerging optimizers do not run with Megatron-FSDP",
            strategy,
        )
    if read.given(Training.offload.optimizer) is not None:
        read.refuse(Training.offload.optimizer, "does not apply to muon")
    if not read.given(MegatronSettings.distributed_optimizer):
        if read.given(path):
            read.refuse(path, "needs {}", MegatronSettings.distributed_optimizer)
        return None
    for setting in (MegatronSettings.precision_aware_optimizer, MegatronSettings.num_distributed_optimizer_instances):
        if read.given(setting) not in (None, False, 1):
            read.refuse(setting, "does not apply to muon")
    return "ping-pong" if read.given(path) else "layout"


def _strategy(read: Defaults) -> str | None:
    """Return what Megatron-FSDP divides; None: it does not run."""
    if read.given(EngineSettings.type) != "megatron-fsdp":
        return None
    return str(read.take(MegatronSettings.data_parallel_sharding_strategy, "no_shard", "Megatron-LM's default"))


def _outer(read: Defaults, strategy: str | None) -> bool:
    """Return whether the outer data-parallel ranks shard the optimizer, too.

    Source: core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py (`hfsdp_helper_wbuf`).
    """
    path = MegatronSettings.outer_dp_sharding_strategy
    if read.given(path) in (None, "no_shard"):
        return False
    if strategy != "optim_grads_params":
        read.refuse(
            path, "found {!r}; needs {}", "optim", "engine.data_parallel_sharding_strategy 'optim_grads_params'"
        )
    if (read.given(MegatronSettings.num_distributed_optimizer_instances) or 1) == 1:
        read.refuse(path, "found {!r}; needs {} above 1", "optim", MegatronSettings.num_distributed_optimizer_instances)
    return True


_GRADIENTS_OF_PARAMETERS = (0, 19)
"""The Megatron-Core since which `grad_reduce_in_fp32` says nothing about Megatron-FSDP's gradients (adfe9e11d, July 1,
2026: core/distributed/fsdp/mcore_fsdp_adapter.py): where `megatron_fsdp_main_grads_dtype` is None they have the dtype
of their parameters."""


def _gradient(read: Defaults, half: str, strategy: str | None) -> str:
    """Of the buffer: bf16 models accumulate in fp32 unless told otherwise, others in their own dtype."""
    given = read.given(Training.gradient_dtype)
    in_half = read.given(MegatronSettings.grad_reduce_in_bf16)
    # arguments.py: bf16 gradients are summed in fp32 unless these say otherwise.
    in_half = in_half or (in_half is None and read.given(MegatronSettings.main_grads_dtype) == "bf16")
    in_half = in_half or (strategy is not None and not before(read, _GRADIENTS_OF_PARAMETERS))
    usual = "fp32" if half == "bf16" and not in_half else half
    if given is not None and given not in ("fp32", half):
        read.refuse(Training.gradient_dtype, "found {!r}; allowed: fp32, {}", given, half)
    return str(given or usual)


def _decoupled(read: Defaults, fraction: float) -> bool:
    """Return whether TransformerEngine's optimizer owns master weights (`use_precision_aware_optimizer_no_fp8...`)."""
    main = read.given(MegatronSettings.main_params_dtype) or "fp32"
    recipe = read.given(EngineSettings.fp8_recipe)
    bridge = str(read.given(EngineSettings.framework) or "").lower() in ("megatron-bridge", "megatron bridge")
    if recipe is None and bridge and read.given(Training.precision) != "fp8-mixed":
        recipe = "tensorwise"  # of presets without FP8 (training/mixed_precision.py, `MixedPrecisionConfig`)
    return main != "fp32" or recipe in (None, "delayed") or fraction > 0


def _remainders(read: Defaults, half: str) -> str:
    """Of an fp32 master only the half that the bf16 parameter lacks is kept (`store_param_remainders`)."""
    main = str(read.given(MegatronSettings.main_params_dtype) or "fp32")
    return "int16" if main == "fp32" and half == "bf16" else main


def _offloaded(read: Defaults) -> float:
    if read.given(Training.offload.optimizer) is None:
        if read.given(Training.offload.optimizer_fraction) is not None:
            read.refuse(Training.offload.optimizer_fraction, "needs {}", Training.offload.optimizer)
        return 0.0
    return float(read.take(Training.offload.optimizer_fraction, 1.0))
