"""What stands before a script's own arguments: those of accelerate launch, torchrun and deepspeed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from memcore.errors import ConfigError, Problem, UnsupportedError
from memcore.formats.normalized import ENGINE, GPUS, OPTIMIZER, PARAMETERS, PER_NODE, STAGE, Normalized
from memcore.formats.shell import ENVIRONMENT
from memcore.formats.tool import Tool
from memcore.messages import Message, joined
from memcore.tools.allocator import said_before

_NAMED = 4
"""Files that a message names."""


class ElsewhereError(ConfigError):
    """A command whose settings are in files that it only names."""

    def __init__(self, files: Sequence[str], found: Mapping[str, Any]) -> None:
        self.files, self.found = tuple(files), found
        message = "its settings are in another file, which it only names: {}; pass that file"
        super().__init__([Problem("the command", Message(message, joined(", ", files[:_NAMED])))])


_AROUND: ContextVar[Mapping[str, object]] = ContextVar("launched_with", default=MappingProxyType({}))


@contextmanager
def launched_with(keys: Mapping[str, object]) -> Iterator[None]:
    """While this lasts, training loops are launched with what another file says of the engine."""
    before = _AROUND.set(keys)
    try:
        yield
    finally:
        _AROUND.reset(before)


def surroundings() -> Mapping[str, object]:
    """Return what the loop is launched with."""
    return _AROUND.get()


def is_set(value: object) -> bool:
    """Return whether a key says yes."""
    return value is True or (isinstance(value, str) and value.lower() in ("true", "yes"))


_LAUNCHER = frozenset({
    "config_file", "master_port", "master_addr", "hostfile", "num_machines", "machine_rank", "num_nodes", "nnodes",
    "node_rank", "main_process_port", "main_process_ip", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "include",
    "exclude", "standalone", "local_rank", "multi_gpu", "mixed_precision", "dynamo_backend", "use_deepspeed",
    "use_fsdp", "zero_stage", "deepspeed_config_file", "deepspeed_multinode_launcher", "deepspeed_hostfile",
    "offload_optimizer_device", "offload_param_device", "zero3_init_flag", "zero3_save_16bit_model", "gpu_ids",
    "offload", "module", "no_python", "max_restarts", "num_cpu_threads_per_process", "enable_cpu_affinity", "quiet",
    "same_network", "rdzv_conf", "tee", "log_dir", "role", "monitor_interval", "start_method", "downcast_bf16",
    "redirects", "launcher", "ssh_port", "bind_cores_to_rank", "accelerate_config",
})  # fmt: skip
"""Arguments of accelerate launch, torchrun and deepspeed that stand before a script's own."""


_BESIDE = frozenset({
    "config", "config_name", "config_path", "num_processes", "num_gpus", "nproc_per_node", "m", "job.config_file",
})  # fmt: skip


def own(found: Mapping[str, Any]) -> list[str]:
    """Return the flags and words of a command that are neither a launcher's nor name a file.

    >>> own({"": "swift rlhf a.yaml", "--num_processes": 2, "--max_length": 8, "x.y": 1})
    ['--max_length', 'x.y']
    """
    said = [name for name in found if name[:1].isalpha() or name.startswith("--")]
    return [name for name in said if name.lstrip("-").replace("-", "_") not in _LAUNCHER | _BESIDE]


_OF_FSDP, _OF_ZERO = re.compile("fsdp"), re.compile("zero|deepspeed|^ds")
"""What the name of a launcher's file says of the engine."""


_CHOSEN = "accelerate_config"
_OF_TRL: Mapping[str, Mapping[str, Any]] = {
    **{f"zero{stage}": {ENGINE: "deepspeed", STAGE: stage, "bf16": True, GPUS: 8} for stage in (1, 2, 3)},
    **{f"fsdp{each}": {"fsdp": "full_shard", "fsdp_config.version": each, "bf16": True, GPUS: 8} for each in (1, 2)},
    "multi_gpu": {"bf16": True, GPUS: 8}, "single_gpu": {"bf16": True, GPUS: 1},
}  # fmt: skip
"""Launches that `trl sft --accelerate_config NAME` has by name (trl 1.10, accelerate_configs/*.yaml)."""


def launched(found: Mapping[str, Any]) -> Normalized:
    """Return the script's own arguments, with what the name of the launcher's file says of the engine."""
    chosen = str(found.get(_CHOSEN, ""))
    if chosen.endswith((".yaml", ".yml")):
        found = {**found, "config_file": chosen}
    normalized = {name: value for name, value in found.items() if name.replace("-", "_") not in _LAUNCHER}
    normalized = {**_OF_TRL.get(chosen, {}), **normalized, **_said_to_launcher(found)}
    if _without_deepspeed(found) and surroundings().get(ENGINE) in _TAKES_STAGE:
        return normalized, ("zero_stage has no effect without --use_deepspeed: accelerate's file shards with FSDP",)
    name = str(found.get("config_file", "")).rpartition("/")[2].lower()
    given = found.keys() & {"fsdp", "fsdp_config", "deepspeed"} or any(key.startswith("deepspeed.") for key in found)
    if not name or given or "program" in name:
        return normalized, ()
    note = Message("config_file: {} is a separate file", found["config_file"])
    if _OF_FSDP.search(name):
        normalized |= {"fsdp": "full_shard", "fsdp_config.version": 2 if "fsdp2" in name else 1}
        return normalized, (Message("{}; its name suggests FSDP {}", note, normalized["fsdp_config.version"]),)
    if _OF_ZERO.search(name):
        normalized["deepspeed"] = name if re.search(r"z(?:ero)?_?[0-3]", name) else "zero2"
        stage = re.search("[0-3]", normalized["deepspeed"])
        return normalized, (Message("{}; its name suggests ZeRO stage {}", note, stage[0] if stage else 2),)
    return normalized, (Message("{}; how it splits work across GPUs is unknown", note),)


_TAKES_STAGE: Mapping[object, bool] = {"deepspeed": True, "fsdp": False}
"""By the engine of accelerate's file: whether `--zero_stage` has an effect."""


def _without_deepspeed(found: Mapping[str, Any]) -> bool:
    """Return whether accelerate is given a ZeRO stage next to a file that does not, or not yet, name DeepSpeed.

    Source: accelerate, commands/launch.py (`_validate_launch_command`).
    """
    given = "accelerate" in str(found.get("", "")) and "config_file" in found and "zero_stage" in found
    return given and not is_set(found.get("use_deepspeed")) and not _TAKES_STAGE.get(surroundings().get(ENGINE))


def _said_to_launcher(found: Mapping[str, Any]) -> dict[str, Any]:
    """ZeRO, FSDP and the precision as accelerate's launcher takes them, or scripts of DeepSpeed's.

    Source: accelerate, commands/launch.py; transformers, training_args.py (`ACCELERATE_MIXED_PRECISION`);
    DeepSpeedExamples, applications/DeepSpeed-Chat/training/*/main.py (`--zero_stage`, `--offload`).
    """
    said: dict[str, Any] = {}
    stage, word = found.get("zero_stage"), found.get("mixed_precision")
    stage = None if _without_deepspeed(found) else stage
    if isinstance(stage, int) and not isinstance(stage, bool) and "deepspeed_config_file" not in found:
        offloads = is_set(found.get("offload"))
        said |= {ENGINE: "deepspeed", STAGE: stage} | ({OPTIMIZER: "cpu"} if offloads else {})
        said |= {PARAMETERS: "cpu"} if offloads and stage == _SHARDED_WEIGHTS else {}
    elif is_set(found.get("use_deepspeed")) and not found.get("deepspeed"):
        said["deepspeed"] = str(found.get("deepspeed_config_file", "zero2"))
    elif is_set(found.get("use_fsdp")):
        said |= {"fsdp": "full_shard", **_flags_of(found, "FSDP")}
    for name, ours in (("offload_optimizer_device", OPTIMIZER), ("offload_param_device", PARAMETERS)):
        if found.get(name) in _OFFLOADED:
            said[ours] = found[name]
    if word in ("bf16", "fp16") and not found.keys() & {"bf16", "fp16"}:
        said[word] = True
    return said


_SHARDED_WEIGHTS = 3
"""The stage of ZeRO that shards weights."""
_OFFLOADED = ("cpu", "nvme")
_CHOICES: Mapping[str, str] = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "multi_gpu": "MULTI_GPU"}
_SECTIONS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "FSDP": ("fsdp_config.", re.compile("fsdp_.+")),
    "DEEPSPEED": ("deepspeed_config.", re.compile(
        "deepspeed_(?:config_file|multinode_launcher|hostfile|moe_layer_cls_names)|zero_stage|zero3_.+|offload_.+_device"
        "|offload_.+_nvme_path|gradient_clipping")),
}  # fmt: skip
"""By what is launched, the section of accelerate's file and the flags that are its keys."""


def _flags_of(found: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return those flags of the launcher that say how what is launched shards, as keys of accelerate's file."""
    section, known = _SECTIONS[kind]
    flags = {name.replace("-", "_"): value for name, value in found.items() if name[:1].isalpha()}
    return {f"{section}{name}": value for name, value in flags.items() if known.fullmatch(name)}


def over_file(found: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of accelerate's file below the flags of the command that names it; empty where no flag is a key.

    Source: accelerate 1.15, commands/launch.py (`_validate_launch_command`): a flag's kind of launch replaces the
    file's, `--mixed_precision` its precision, and what flags say of FSDP and ZeRO what its sections say (`nondefault`).

    >>> over_file({"fsdp_offload_params": True}, {"distributed_type": "FSDP", "fsdp_config.fsdp_offload_params": False})
    {'distributed_type': 'FSDP', 'fsdp_config.fsdp_offload_params': True}
    >>> over_file({"use_deepspeed": True, "zero_stage": 2}, {"distributed_type": "FSDP", "fsdp_config.fsdp_version": 2})
    {'distributed_type': 'DEEPSPEED', 'deepspeed_config.zero_stage': 2}
    """
    chosen = next((kind for flag, kind in _CHOICES.items() if is_set(found.get(flag))), None)
    kind = chosen or str(keys.get("distributed_type"))
    flags = {"mixed_precision": found["mixed_precision"]} if "mixed_precision" in found else {}
    flags |= {"distributed_type": chosen} if chosen else {}
    flags |= _flags_of(found, kind) if kind in _SECTIONS else {}
    others = tuple(section for each, (section, _) in _SECTIONS.items() if each != kind)
    return {**{name: value for name, value in keys.items() if not name.startswith(others)}, **flags} if flags else {}


DEVICES = f"{ENVIRONMENT}CUDA_VISIBLE_DEVICES"
_LISTED = re.compile(r"\d{1,3}(?:,\d{1,3})*")


def visible(found: Mapping[str, Any]) -> int:
    """Return how many GPUs a command sees; 0 where it does not say."""
    devices = str(found.get(DEVICES, ""))
    return len(devices.split(",")) if _LISTED.fullmatch(devices) else 0


_BY_ITSELF = re.compile(r"\b(?:llamafactory[.-]cli|lmf) train\b")
_OTHERWISE = re.compile(r"\b(?:llamafactory-cli|lmf) (?:chat|api|webchat|webui|export|eval)\b"
                        r"|\b(?:cli_demo|api_demo|web_demo|webui|export_model|evaluate)\.py\b")  # fmt: skip
"""Programs of LLaMA-Factory that start a process for each GPU, and those that train nothing."""


def on_ray(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys with a GPU for each of Ray's workers, unless the number of GPUs is given.

    Sources: LLaMA-Factory 0.9.6, train/tuner.py (`_ray_training_function`); axolotl 0.18, cli/train.py
    (`ScalingConfig`).
    """
    workers = found.get("ray_num_workers")
    return {GPUS: workers, **found} if isinstance(workers, int) else found


def factory_started(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """LLaMA-Factory's keys with a process for each GPU that it sees (launcher.py: `get_device_count`)."""
    seen = visible(found)
    if GPUS in found or not seen or not _BY_ITSELF.search(str(found.get("", ""))):
        return found
    return {**found, GPUS: seen}


def factory_trains(found: Mapping[str, Any]) -> None:
    """Raise an error for files of other tasks, stages and methods."""
    other = _OTHERWISE.search(str(found.get("", "")))
    if other:
        raise ConfigError.at(
            "the command", "found {:.60}, which does not train; supported: `llamafactory-cli train`", other[0]
        )
    for name in ("export_dir", "infer_backend"):
        if name in found and "stage" not in found:
            raise ConfigError.at(name, "a file for `llamafactory-cli export` or `chat`, not a training job")
    if "tensor_model_parallel_size" in found:
        message = (
            "LLaMA-Factory with Megatron-Core is not supported yet; describe the job with flags and --engine megatron"
        )
        raise ConfigError.at("tensor_model_parallel_size", message)
    kind = found.get("finetuning_type", "lora")
    if kind not in ("lora", "full", "oft"):
        message = "found {!r}; supported: 'lora', 'oft' and 'full'"
        raise UnsupportedError("finetuning_type", message, kind)


RUN = "# run: "
"""What begins the line of a file that says how it is started."""
_TUNED = re.compile(r"\btune run (?:--?\S+ (?:\d+ )?)*(\w+(?:_distributed|_single_device))\b")
_NUMBERS = re.compile(r"(nproc_per_node|nnodes|num_processes|num_machines|world_size)[ =]([1-9]\d{0,6})\b")


def started(tool: Tool, text: str) -> dict[str, Any]:
    """Return the GPUs and nodes of the command that a file names as its own."""
    lines = [each for each in text.splitlines() if each.startswith(RUN) or _TUNED.search(each)]
    recipes = [found[1] for found in map(_TUNED.search, lines) if found]  # that of another run may stand there as well
    usual = max(reversed(recipes), key=recipes.count, default="")
    line = next((each for each in lines if usual in each), "")
    tuned = _TUNED.search(line)
    said = {name: int(count) for name, count in _NUMBERS.findall(line.lower())}
    nodes = said.get("nnodes") or said.get("num_machines") or 1
    gpus = said.get("num_processes") or said.get("world_size") or said.get("nproc_per_node", 0) * nodes
    counts = {GPUS: gpus, PER_NODE: gpus // nodes if nodes > 1 else 0}
    known = {key.name for key in tool.keys}
    recipe = {"*recipe": tuned[1]} if tuned and tool.name == "torchtune" else {}
    around = said_before(line) if line.startswith(RUN) else {}
    return {**{name: count for name, count in counts.items() if count and name in known}, **recipe, **around}
