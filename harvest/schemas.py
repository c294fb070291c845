"""Where each tool declares its keys.

Paths are those of the tools' repositories and packages, as fnmatch takes them, over all releases that are harvested.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from harvest.reading import (
    Classes,
    Field,
    arguments,
    flags_of_cpp,
    flags_of_rust,
    keys_of_groups,
    keys_of_references,
    keys_of_yaml,
    options_of_go,
)
from harvest.sources import Files, files_of


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What of a tool's sources says what its files may hold."""

    files: tuple[str, ...]
    classes: tuple[str, ...] = ()
    """Classes whose fields are keys; those of them that a release lacks are passed over."""
    below: Mapping[str, tuple[str, ...]] | None = None
    """Classes whose fields are keys below a key."""
    apart: bool = False
    """The same key is of several classes, each with a default of its own: names begin with the class."""
    nested: bool = False
    """Fields that are classes of the same files have keys below theirs."""
    flags: bool = False
    """`add_argument` declares keys, with their dashes."""
    bare: bool = False
    """Flags are keys of a file too: they lose their dashes."""
    constants: str = ""
    """A file whose constants in capitals are keys, where `X_DEFAULT` is the default of `X`."""
    reader: Callable[[Files], Iterator[tuple[str, Field]]] | None = None
    """What reads sources that are not Python."""
    without: tuple[str, ...] = ()
    """Classes of other tools, whose fields are harvested there."""

    def keys(self, source: str) -> dict[str, Field]:
        """Every key of a release with its type and default."""
        texts = files_of(source, self.files)
        if not texts:
            raise ValueError(f"{source} has none of {', '.join(self.files)}")
        if self.reader is None:
            return self._of_python(texts)
        code = {path: text for path, text in texts.items() if self.below and path.endswith(".py")}
        read = self.reader({path: text for path, text in texts.items() if path not in code})
        return {**dict(read), **self._of_python(code)} if code else dict(read)

    def _of_python(self, texts: Files) -> dict[str, Field]:
        known = Classes(texts)
        for each in self.without:
            known.classes.pop(each, None)
        found: dict[str, Field] = {}
        for name in self.classes:
            for each in fnmatch.filter(known.classes, name):
                found |= known.fields(each, self.nested, f"{each}." if self.apart else "")
        for above, names in (self.below or {}).items():
            for name in names:
                if name in known.classes:
                    found |= known.fields(name, self.nested, f"{above}.")
        if self.flags:
            of_fields = {name if name[:1] == "-" else f"--{name.replace('_', '-')}": field
                         for name, field in found.items()}  # fmt: skip
            found = {**of_fields, **{name: of_fields.get(name, field) for name, field in arguments(texts, known)}}
        if self.bare:
            found = {name.lstrip("-").replace("-", "_") if name[:1] == "-" else name: field
                     for name, field in found.items()}  # fmt: skip
        if self.constants:
            found |= _constants(known, next(text for path, text in texts.items() if path.endswith(self.constants)))
        return found


def _constants(known: Classes, text: str) -> dict[str, Field]:
    """Keys that are constants: `TRAIN_BATCH_SIZE = "train_batch_size"` next to `TRAIN_BATCH_SIZE_DEFAULT = None`."""
    named: dict[str, str] = {}
    for node in ast.parse(text).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        ):
            name, value = node.targets[0].id, node.value.value
            if isinstance(value, str) and value.islower() and " " not in value and not name.endswith("_DEFAULT"):
                named[name] = value
    return {
        value: Field("any", known.default(known.constants[f"{name}_DEFAULT"]))
        for name, value in named.items()
        if f"{name}_DEFAULT" in known.constants
    }


SCHEMAS: Mapping[str, Schema] = {
    "transformers": Schema(
        files=("transformers/training_args.py", "transformers/training_args_seq2seq.py"),
        classes=("TrainingArguments", "Seq2SeqTrainingArguments"),
    ),
    "trl": Schema(
        files=("trl/trainer/*config.py", "trl/trainer/model_config.py", "trl/scripts/utils.py", "trl/scripts/*.py",
               "trl/experimental/*/*config.py", "trl/trainer/utils.py"),
        classes=("*Config", "*Arguments"),
        apart=True,
        without=("TrainingArguments",),
    ),
    "peft": Schema(files=("peft/config.py", "peft/tuners/*/config.py", "peft/tuners/tuners_utils.py",
                          "peft/tuners/prompt_tuning/config.py"), classes=("*Config",), apart=True),
    "accelerate": Schema(
        files=("accelerate/commands/config/config_args.py", "accelerate/commands/launch.py"),
        classes=("BaseConfig", "ClusterConfig"), flags=True, bare=True,
    ),
    "deepspeed": Schema(
        files=("deepspeed/runtime/*.py", "deepspeed/runtime/zero/*.py", "deepspeed/runtime/tensor_parallel/*.py",
               "deepspeed/runtime/activation_checkpointing/*.py", "deepspeed/runtime/zenflow/*.py",
               "deepspeed/monitor/*.py", "deepspeed/profiling/*.py", "deepspeed/runtime/swap_tensor/*config.py",
               "deepspeed/compile/*.py", "deepspeed/comm/config.py"),
        below={
            "zero_optimization": ("DeepSpeedZeroConfig",), "bf16": ("DeepSpeedBF16Config",),
            "fp16": ("DeepSpeedFP16Config",), "tensor_parallel": ("TPTrainingConfig",),
            "flops_profiler": ("DeepSpeedFlopsProfilerConfig",), "tensorboard": ("TensorBoardConfig",),
            "wandb": ("WandbConfig",), "csv_monitor": ("CSVConfig",), "comms_logger": ("CommsConfig",),
        },
        nested=True,
        constants="deepspeed/runtime/constants.py",
    ),
    "axolotl": Schema(
        files=("axolotl/utils/schemas/*.py", "axolotl/utils/config/models/input/v*/__init__.py",
               "axolotl/utils/config/models/input/*.py", "axolotl/integrations/*/args.py"),
        classes=("AxolotlInputConfig", "*Args"),
        nested=True,
    ),
    "llama-factory": Schema(
        files=("llamafactory/hparams/*.py",),
        classes=("*Arguments",),
        without=("TrainingArguments", "Seq2SeqTrainingArguments"),
    ),
    "open-instruct": Schema(
        files=("open_instruct/grpo_utils.py", "open_instruct/data_loader.py", "open_instruct/olmo_core_utils.py",
               "open_instruct/model_utils.py", "open_instruct/dataset_transformation.py",
               "open_instruct/environments/tools/utils.py", "open_instruct/data_types.py"),
        classes=("GRPOExperimentConfig", "StreamingDataLoaderConfig", "VLLMConfig", "ExperimentConfig",
                 "TrainingConfig", "LoggingConfig", "CheckpointConfig", "ModelConfig", "TokenizerConfig",
                 "*EnvsConfig"),
    ),
    "llama-factory-v1": Schema(files=("llamafactory/v1/config/*.py",), classes=("*Arguments",)),
    "ms-swift": Schema(
        files=("swift/arguments/*.py", "swift/arguments/base_args/*.py", "swift/trainers/arguments.py",
               "swift/rlhf_trainers/arguments.py", "swift/llm/argument/*.py", "swift/llm/argument/base_args/*.py",
               "swift/trainers/rlhf_arguments.py", "swift/llm/utils/argument.py"),
        classes=("*Arguments", "*ArgumentsMixin", "*Mixin"),
        without=("Seq2SeqTrainingArguments", "TrainingArguments", "HfSeq2SeqTrainingArguments"),
    ),
    "megatron-swift": Schema(
        files=("swift/megatron/arguments/*.py", "swift/megatron/argument/*.py"), classes=("Megatron*", "*Mixin"),
    ),
    "torchtitan": Schema(
        files=("torchtitan/config/job_config.py", "torchtitan/config/configs.py", "torchtitan/config_manager.py"),
        classes=("JobConfig", "*Config"), nested=True, flags=True, bare=True,
    ),
    "torchtune": Schema(files=("recipes/configs/*.yaml", "recipes/configs/*/*.yaml"), reader=keys_of_yaml),
    "nemo-automodel": Schema(
        files=("examples/llm_*/*.yaml", "examples/llm_*/*/*.yaml", "examples/vlm_finetune/*/*.yaml",
               "nemo_automodel/components/distributed/config.py", "nemo_automodel/components/_peft/lora.py"),
        reader=keys_of_yaml,
        below={"distributed": ("FSDP2Config", "MegatronFSDPConfig", "DDPConfig"), "peft": ("PeftConfig",)},
    ),
    "verl": Schema(files=("verl/trainer/config/_generated_*_trainer.yaml",), reader=keys_of_yaml),
    "megatron-bridge": Schema(
        files=("megatron/bridge/training/config.py", "megatron/bridge/models/gpt_provider.py",
               "megatron/bridge/training/mixed_precision.py", "megatron/bridge/peft/lora.py",
               "megatron/bridge/data/finetuning.py"),
        below={"model": ("GPTModelProvider",), "mixed_precision": ("MixedPrecisionConfig",), "peft": ("LoRA",),
               "optimizer": ("OptimizerConfig",), "ddp": ("DistributedDataParallelConfig",),
               "train": ("TrainingConfig",), "dataset": ("GPTDatasetConfig",), "checkpoint": ("CheckpointConfig",),
               "logger": ("LoggerConfig",), "scheduler": ("SchedulerConfig",), "dist": ("DistributedInitConfig",)},
        classes=("ConfigContainer",),
    ),
    "llm-foundry": Schema(files=("scripts/train/yamls/*/*.yaml",), reader=keys_of_yaml),
    "easyr1": Schema(
        files=("verl/trainer/config.py", "verl/workers/config.py", "verl/workers/*/config.py"),
        classes=("PPOConfig",), nested=True,
    ),
    "prime-rl": Schema(
        files=("prime_rl/configs/trainer.py", "prime_rl/configs/sft.py", "prime_rl/configs/rl.py",
               "prime_rl/configs/shared.py"),
        classes=("TrainerConfig", "SFTConfig", "RLConfig"), nested=True,
        below={
            "trainer": ("TrainerConfig",), "data": ("SFTDataConfig", "FakeDataConfig"),
            **dict.fromkeys(("optim", "trainer.optim"), ("SGDConfig", "MuonConfig", "SignSGDConfig", "AdamWConfig")),
            "deployment": ("SingleNodeDeploymentConfig", "MultiNodeDeploymentConfig"),
        },
    ),
    "nemo-rl": Schema(files=("examples/configs/*.yaml",), reader=keys_of_yaml),
    "verl-sft": Schema(
        files=("verl/trainer/config/sft_trainer*.yaml", "verl/trainer/config/model/hf_model.yaml",
               "verl/trainer/config/engine/fsdp.yaml", "verl/trainer/config/optim/fsdp.yaml",
               "verl/trainer/config/profiler/profiler.yaml"),
        reader=keys_of_groups,
    ),
    "openrlhf": Schema(files=("openrlhf/cli/train_*.py",), flags=True),
    "megatron": Schema(
        files=("megatron/training/arguments.py", "megatron/training/config/*.py", "megatron/arguments.py",
               "megatron/core/transformer/transformer_config.py", "megatron/core/model_parallel_config.py",
               "megatron/core/optimizer/optimizer_config.py", "megatron/post_training/arguments.py"),
        classes=("TransformerConfig", "MLATransformerConfig", "*Config"), flags=True,
    ),
    "nanotron": Schema(files=("nanotron/config/*.py",), classes=("Config",), nested=True),
    "vllm": Schema(
        files=("vllm/engine/arg_utils.py", "vllm/config.py", "vllm/config/*.py", "vllm/entrypoints/openai/cli_args.py",
               "vllm/entrypoints/cli/serve.py", "vllm/utils/argparse_utils.py"),
        classes=("EngineArgs", "AsyncEngineArgs", "BaseFrontendArgs", "FrontendArgs"), flags=True,
    ),
    "sglang": Schema(
        files=("sglang/srt/server_args.py", "sglang/srt/arg_groups/fields/*.py"),
        classes=("ServerArgs", "Device", "Disagg", "Exec*", "Lora", "Memory", "Mm", "Model", "Observability",
                 "Parallel", "Schedule", "Serving", "Spec"),
        flags=True,
    ),
    "tensorrt-llm": Schema(
        files=("tensorrt_llm/usage/llm_args_golden_manifest.json", "tests/unittest/api_stability/references*/llm.yaml",
               "tests/unittest/api_stability/references/trtllm_serve_cli.yaml"),
        reader=keys_of_references,
    ),
    "tgi": Schema(files=("launcher/src/main.rs",), reader=flags_of_rust),
    "lmdeploy": Schema(files=("lmdeploy/cli/serve.py", "lmdeploy/cli/utils.py"), flags=True),
    "ollama": Schema(files=("api/types.go",), reader=options_of_go),
    # by build: sdists of llama-cpp-python hold them (0.3.35: b10454, 4df29be4f; 0.3.36: b11312, 0c1e57098)
    "llama.cpp": Schema(files=("common/arg.cpp",), reader=flags_of_cpp),
}  # fmt: skip
"""By the name of the table that is written."""
