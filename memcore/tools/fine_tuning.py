"""What people fine-tune with: accelerate, the Hugging Face Trainer and TRL, LLaMA-Factory, axolotl."""

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.formats.normalized import (
    CHECKPOINTS,
    ENGINE,
    FRAMEWORK,
    FROZEN,
    GPUS,
    PER_NODE,
    VERSION,
)
from memcore.formats.tool import Key, Meaning, Share, Tool
from memcore.formats.values import TORCH_DTYPES, TRAINER_OPTIMIZERS
from memcore.messages import Message
from memcore.tools.loops import (
    LIGER,
    LOSS,
    OFFLOADED,
    PRECISION,
    REENTRANT,
    of_axolotl,
    of_factory,
    of_trainer,
)
from memcore.tools.methods import (
    AXOLOTL_KEYS,
    COMPLETION,
    FACTORY_KEYS,
    METHOD,
    REFERENCE,
    REWARDS,
    SHARE,
    TEACHER,
    TRL_KEYS,
    keys_of_method,
    written,
)
from memcore.tools.own_keys import PICTURE_KEYS, ROUNDED, WIDTH
from memcore.tools.peft import IN_SCRIPTS
from memcore.tools.pictures import EXPANDABLE, IMPLEMENTATION
from memcore.tools.sharding import PACKED_AS, accelerated, packed_as, unmixed
from memcore.tools.switches import SWITCHES
from memcore.tools.towers import FREEZES, SCRIPT_KEYS, TRAINABLE, keys_within


def _shared(name: str) -> Share:
    """Return what the trainers' modules say of their engines in such files."""
    files = [getattr(module, "SHARES", {}) for module in registry.engine_modules("files")]
    found: Share = reduce(add, [shares[name] for shares in files if name in shares])
    return found


NORMALIZED, LOOPS, _ACCELERATED = _shared("normalized"), _shared("loops"), _shared("accelerate")
_OF_AXOLOTL, _OF_SCRIPTS = _shared("axolotl"), _shared("scripts")
SCRIPT = ("none", "ddp", "fsdp", "deepspeed")
SHARDS = (
    Key(path=Hardware.num_gpus, name=GPUS),
    Key(path=Hardware.gpus_per_node, name=PER_NODE),
    Key(path=EngineSettings.type, name=ENGINE),
    Key(path=EngineSettings.version, name=VERSION),
    *NORMALIZED.keys,
)
LOOP = (
    Key(path=Training.precision, name=PRECISION),
    Key(path=Training.activation_checkpointing.use_reentrant, name=REENTRANT),
    Key(path=Training.offload.activations, name=OFFLOADED),
    Key(path=Training.loss, name=LOSS),
    Key(path=Training.implementation, name=IMPLEMENTATION),
    Key(path=EngineSettings.expandable_segments, name=EXPANDABLE),
    Key(path=Training.liger_kernels, name=LIGER),
    Key(path=Training.optimizer.rank, name=WIDTH),
    Key(path=Training.method.name, name=METHOD),
    Key(path=Training.method.reference, name=REFERENCE),
    Key(path=Training.method.completion_length, name=COMPLETION),
    Key(path=Training.method.rollout_share, name=SHARE),
    Key(path=Training.method.reward_model, name=REWARDS),
    Key(path=EngineSettings.framework, name=FRAMEWORK),
)
"""What a loop's keys mean together (memcore/tools/loops.py)."""
UNSAID: Mapping[str, Any] = {**LOOPS.unsaid, **dict.fromkeys((
    Training.precision, Training.optimizer.name, Training.optimizer.implementation,
    Training.sequence_length, Training.activation_checkpointing.policy,
    Training.activation_checkpointing.use_reentrant, Training.adapter.rank,
    Training.adapter.dropout, Training.adapter.target_modules,
))}  # fmt: skip
"""Settings whose defaults differ by release, or between transformers, TRL and what is built on them."""
_SHARDED = "full_shard auto_wrap"
_ENGINES = (
    Meaning(sets={EngineSettings.type: "fsdp"}, keys={"fsdp": _SHARDED, "fsdp_config.version": 2}),
    Meaning(sets={EngineSettings.version: 1}, keys={"fsdp_config.version": 1}),
    *LOOPS.meanings,
)
"""How engines are written; what is read of them is normalized before."""
_UNCHECKPOINTED = Meaning(
    sets={Training.activation_checkpointing.policy: "none"}, keys={"gradient_checkpointing": False}
)
_PRECISIONS = (
    Meaning(sets={Training.precision: "bf16-mixed"}, keys={"bf16": True}),
    Meaning(sets={Training.precision: "fp16-mixed"}, keys={"fp16": True}),
)
_KERNELS = (
    Meaning(
        sets={Training.attention: "flash", Training.flash_version: 3}, keys={"attn_implementation": "flash_attention_3"}
    ),
    Meaning(sets={Training.attention: "flash"}, keys={"attn_implementation": "flash_attention_2"}),
    Meaning(sets={Training.attention: "sdpa"}, keys={"attn_implementation": "sdpa"}),
    Meaning(sets={Training.attention: "math"}, keys={"attn_implementation": "eager"}),
    Meaning(sets={Training.attention: "flex"}, keys={"attn_implementation": "flex_attention"}),
)
TRAINED = ("output_dir", "learning_rate", "lr_scheduler_type", "warmup_ratio", "warmup_steps", "num_train_epochs",
            "max_steps", "logging_*", "save_*", "eval_*", "report_to", "seed", "dataset*", "weight_decay", "do_*",
            "push_to_hub*", "hub_*", "overwrite_*", "dataloader_*", "max_grad_norm")  # fmt: skip


_ACCUMULATING: Mapping[str, str] = {EngineSettings.type: "deepspeed"}
"""Whose part of the file has micro-batches (`deepspeed_config.gradient_accumulation_steps`)."""


def _accumulates(config: Config) -> dict[str, str]:
    """Return where accelerate takes micro-batches from without DeepSpeed: no key of its file has them.

    Sources: accelerate, commands/config/config_args.py (`ClusterConfig`), accelerator.py (`Accelerator`).
    """
    path = Training.gradient_accumulation_steps
    steps = config[path] or 1
    if steps == 1 or all(config.get(other) == value for other, value in _ACCUMULATING.items()):
        return {}
    return {path: Message("set {} in the environment", f"ACCELERATE_GRADIENT_ACCUMULATION_STEPS={steps}")}


ACCELERATE = Tool(
    name="accelerate",
    title="accelerate",
    syntax="yaml",
    engines=("fsdp", "ddp", "none", "deepspeed"),
    implementations=("transformers", "liger", "unsloth"),
    tells=("distributed_type", "compute_environment"),
    always={"compute_environment": "LOCAL_MACHINE"},
    launch="accelerate launch --config_file {file} --num_machines {nodes} train.py",
    copies="parallelism_config.parallelism_config_dp_replicate_size",
    keys=(
        Key(
            path=EngineSettings.type,
            name="distributed_type",
            values={"fsdp": "FSDP", "ddp": "MULTI_GPU", "none": "NO", "deepspeed": "DEEPSPEED",
                    "megatron": "MEGATRON_LM"},
        ),
        Key(path=Hardware.num_gpus, name="num_processes"),
        Key(path=Training.gradient_accumulation_steps, name="deepspeed_config.gradient_accumulation_steps",
            also=("gradient_accumulation_steps",)),
        *SHARDS,
        Key(path=EngineSettings.version, name="fsdp_config.fsdp_version"),
        *_ACCELERATED.keys,
        Key(path=Parallelism.tensor_parallel_size, name="parallelism_config.parallelism_config_tp_size"),
        Key(path=Parallelism.context_parallel_size, name="parallelism_config.parallelism_config_cp_size"),
        Key(path=Parallelism.ulysses_parallel_size, name="parallelism_config.parallelism_config_sp_size"),
        Key(path=Parallelism.data_parallel_shard_size, name="parallelism_config.parallelism_config_dp_shard_size"),
    ),
    normalized=accelerated,
    meanings=(
        *_ACCELERATED.meanings,
        Meaning(sets={Training.precision: "bf16-mixed"}, keys={"mixed_precision": "bf16"}),
        Meaning(sets={Training.precision: "fp16-mixed"}, keys={"mixed_precision": "fp16"}),
        Meaning(sets={Training.precision: "fp8-mixed"}, keys={"mixed_precision": "fp8"}),
        Meaning(
            sets={Training.activation_checkpointing.policy: "full", EngineSettings.type: "fsdp"},
            keys={"distributed_type": "FSDP", "fsdp_config.fsdp_activation_checkpointing": True},
        ),
        Meaning(sets={Training.activation_checkpointing.policy: "full"}, keys={CHECKPOINTS: True}),
    ),
    defaults={Training.precision: "fp32"},  # commands/launch.py: `mixed_precision` is "no"
    unsaid={
        Hardware.num_gpus: None,
        **_ACCELERATED.unsaid,
        EngineSettings.version: 1,
        Training.precision: None,
    },
    only_with=dict.fromkeys((Training.gradient_accumulation_steps, Parallelism.ulysses_parallel_size), _ACCUMULATING),
    wants=_accumulates,
    ignored=("compute_environment", "debug", "downcast_bf16", "machine_rank", "main_training_function",
             "rdzv_backend", "same_network", "tpu_*", "use_cpu", "enable_cpu_affinity", "main_process_port",
             "main_process_ip", "num_machines", "deepspeed_config.zero3_*",
             "parallelism_config.parallelism_config_dp_replicate_size",
             "deepspeed_config.deepspeed_multinode_launcher", "deepspeed_config.deepspeed_config_file",
             "fsdp_config.fsdp_state_dict_type", "fsdp_config.fsdp_cpu_ram_efficient_loading",
             "fsdp_config.fsdp_sync_module_states"),
    settles=("fsdp_*", "mixed_precision", "parallelism_config.parallelism_config_dp_shard_size"),
    vocabulary=("accelerate",),
    source="accelerate, commands/config/config_args.py",
)  # fmt: skip

TRAINER = Tool(
    name="trainer",
    title="transformers.TrainingArguments and TRL",
    syntax="yaml",
    engines=SCRIPT,
    implementations=("transformers", "liger"),
    tells=("per_device_train_batch_size", "model_name_or_path"),
    model="model_name_or_path",
    launch="torchrun --nnodes {nodes} --nproc_per_node {each} train.py --config {file}",
    keys=(
        Key(path=Training.micro_batch_size, name="per_device_train_batch_size"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(path=Training.sequence_length, name="max_length", also=("max_seq_length",)),
        Key(path=Training.compile, name="torch_compile"),
        Key(path=EngineSettings.torch_empty_cache_steps, name="torch_empty_cache_steps"),
        Key(path=Training.trainable, name=TRAINABLE),
        *_OF_SCRIPTS.keys,
        Key(path=Training.packed_sequences, name="padding_free"),
        Key(path=Training.method.teacher, name=TEACHER),
        *LOOP,
        *SHARDS,
        *LOOPS.keys,
        Key(path=Training.quantization, name=FROZEN),
        Key(path=Training.adapter.rank, name="lora_r"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="lora_target_modules"),
        Key(path=Training.adapter.target_parameters, name="lora_target_parameters"),
        Key(path=Training.adapter.modules_to_save, name="lora_modules_to_save"),
        Key(path=Training.adapter.use_rslora, name="use_rslora"),
        *(Key(path=path, name=name) for path, name in IN_SCRIPTS.items()),
        Key(path=Training.activation_checkpointing.use_reentrant, name="gradient_checkpointing_kwargs.use_reentrant"),
    ),
    meanings=(
        *_PRECISIONS,
        Meaning(sets={Training.precision: "fp32"}, keys={"dtype": "float32", "bf16": False}),
        Meaning(sets={Training.precision: "tf32"}, keys={"dtype": "float32", "bf16": False, "tf32": True}),
        *(
            Meaning(sets={Training.precision: ours}, keys={name: theirs})
            for name in ("dtype", "torch_dtype")
            for ours, theirs in TORCH_DTYPES.items()
            if ours != "fp32"
        ),
        *_ENGINES,
        _UNCHECKPOINTED,
        Meaning(sets={Training.activation_checkpointing.policy: "full"}, keys={"gradient_checkpointing": True}),
        Meaning(sets={Training.activation_checkpointing.policy: "full"}, keys={CHECKPOINTS: True}),
        Meaning(sets={Training.packed_sequences: True}, keys={"packing": True}),
        *_KERNELS,
        Meaning(
            sets={Training.loss: "fused-linear", Training.implementation: "transformers"},
            keys={
                "use_liger_kernel": True,
                **{f"liger_kernel_config.{each}": False for each in ("rope", "rms_norm", "swiglu")},
            },
        ),
        Meaning(
            sets={Training.implementation: "liger", Training.loss: "fused-linear"}, keys={"use_liger_kernel": True}
        ),
        Meaning(
            sets={Training.implementation: "liger"},
            keys={"use_liger_kernel": True, "liger_kernel_config.fused_linear_cross_entropy": False},
        ),
        Meaning(sets={Training.offload.activations: "cpu"}, keys={"activation_offloading": True}),
        Meaning(sets={Training.quantization: "nf4"}, keys={"load_in_4bit": True}),
        Meaning(
            sets={Training.quantization: "nf4-double"}, keys={"load_in_4bit": True, "use_bnb_nested_quant": True}
        ),
        Meaning(sets={Training.quantization: "nf4"}, keys={"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
        Meaning(
            sets={Training.quantization: "nf4-double"},
            keys={"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "use_bnb_nested_quant": True},
        ),
        Meaning(
            sets={Training.quantization: "fp4"}, keys={"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}
        ),
        Meaning(
            sets={Training.quantization: "fp4-double"},
            keys={"load_in_4bit": True, "bnb_4bit_quant_type": "fp4", "use_bnb_nested_quant": True},
        ),
        Meaning(sets={Training.quantization: "int8"}, keys={"load_in_8bit": True}),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"use_peft": True}),
        Meaning(sets={Training.adapter.type: "dora"}, keys={"use_peft": True, "use_dora": True}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"max_grad_norm": 0}),
        *(
            Meaning(sets=sets, keys={"optim": name}) for name, sets in TRAINER_OPTIMIZERS.items()
        ),
    ),
    normalized=of_trainer,
    written=lambda config: {
        **packed_as(config), **unmixed(config), **keys_within("trainer", config), **keys_of_method("trainer", config)
    },
    defaults={Training.micro_batch_size: 8},
    unsaid=UNSAID,
    ignored=(*TRAINED, *LOOPS.ignored, "lora_alpha", "lora_task_type", "data_path", "image_folder", "version",
             "image_aspect_ratio", "lazy_preprocess", "group_by_modality_length", "mm_use_im_*", "mm_projector_lr",
             "mm_vision_select_*", "bnb_4bit_compute_dtype", *PICTURE_KEYS),
    switches=SWITCHES,
    settles=(*TRL_KEYS, *SCRIPT_KEYS, PACKED_AS, "fsdp*", "deepspeed*", "use_peft_lora",
             "lora_enable", "use_*bit_quantization",
             "use_nested_quant", "use_4bit", "use_qlora", "quant_bit", "use_lora", "lora_rank", "rank",
             "max_seq_len", "bits", "load_in_bits", "target_modules",
             "use_flash_attn", "use_unsloth", "config_file", "model_max_length", "q_lora",
             "dataset_kwargs.skip_prepare_dataset",
             "gradient_checkpointing_use_reentrant", "use_reentrant", "liger_kernel_config.*", "use_liger",
             "optim_args", "disable_flash_attn2", "use_llm_lora", "use_packed_ds", "max_packed_tokens"),
    vocabulary=("transformers", "trl"),
    source="transformers, training_args.py; trl, trainer/sft_config.py",
)  # fmt: skip


def _own_loss(config: Config) -> dict[str, str]:
    """Return a reason for another loop, of methods whose loss LLaMA-Factory computes itself (train/dpo/trainer.py)."""
    own = str(config.get(EngineSettings.framework) or "").lower() == "llama-factory"
    alike = config.get(Training.method.name) in (None, "sft", "ppo")
    return {} if own or alike else {EngineSettings.framework: "LLaMA-Factory computes this loss in its own way"}


LLAMA_FACTORY = Tool(
    name="llama-factory",
    title="LLaMA-Factory",
    syntax="yaml",
    engines=SCRIPT,
    implementations=("transformers", "liger"),
    tells=("finetuning_type", "cutoff_len", "stage=sft|pt|rm|ppo|dpo|kto", "infer_backend", "export_dir", "template"),
    always={"stage": "sft", "do_train": True},
    model="model_name_or_path",
    launch="FORCE_TORCHRUN=1 NNODES={nodes} NPROC_PER_NODE={each} llamafactory-cli train {file}",
    without={Training.adapter.type: {"finetuning_type": "full"}},
    keys=(
        Key(path=Training.micro_batch_size, name="per_device_train_batch_size"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(path=Training.sequence_length, name="cutoff_len"),
        Key(path=Training.packed_sequences, name="neat_packing"),
        Key(path=Training.adapter.rank, name="lora_rank"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="lora_target", but="all-linear", joined=True),
        Key(path=Training.adapter.modules_to_save, name="additional_target", joined=True),
        Key(path=Training.adapter.use_rslora, name="use_rslora"),
        Key(path=Training.adapter.block_size, name="oft_block_size"),
        Key(path=Training.adapter.target_modules, name="oft_target", but="all-linear", joined=True),
        Key(path=Training.activation_checkpointing.use_reentrant, name="use_reentrant_gc"),
        Key(path=Training.trainable, name=TRAINABLE),
        *LOOP,
        *SHARDS,
        *LOOPS.keys,
    ),
    meanings=(
        *_PRECISIONS,
        *_ENGINES,
        Meaning(sets={Training.precision: "bf16", Training.adapter.type: "lora"}, keys={"bf16": True}),
        Meaning(sets={Training.precision: "fp16", Training.adapter.type: "lora"}, keys={"fp16": True}),
        Meaning(sets={Training.precision: "bf16"}, keys={"pure_bf16": True}),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"finetuning_type": "lora"}),
        Meaning(sets={Training.adapter.type: "oft"}, keys={"finetuning_type": "oft"}),
        Meaning(
            sets={Training.implementation: "unsloth", EngineSettings.expandable_segments: True},
            keys={"use_unsloth": True},
        ),
        Meaning(sets={Training.activation_checkpointing.policy: "none"}, keys={"disable_gradient_checkpointing": True}),
        Meaning(
            sets={Training.implementation: "liger", Training.loss: "fused-linear"}, keys={"enable_liger_kernel": True}
        ),
        Meaning(sets={Training.adapter.target_modules: "all-linear"}, keys={"lora_target": "all"}),
        Meaning(sets={Training.adapter.target_modules: "all-linear"}, keys={"oft_target": "all"}),
        Meaning(sets={Training.adapter.type: "dora"}, keys={"finetuning_type": "lora", "use_dora": True}),
        Meaning(sets={Training.quantization: "nf4-double"}, keys={"quantization_bit": 4}),
        Meaning(sets={Training.quantization: "nf4"}, keys={"quantization_bit": 4, "double_quantization": False}),
        Meaning(sets={Training.quantization: "int8"}, keys={"quantization_bit": 8}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"max_grad_norm": 0}),
        Meaning(sets={Training.optimizer.name: "muon"}, keys={"use_muon": True}),
        Meaning(sets={Training.optimizer.name: "adam-mini"}, keys={"use_adam_mini": True}),
        Meaning(sets={Training.attention: "flash"}, keys={"flash_attn": "fa2"}),
        Meaning(sets={Training.attention: "flash"}, keys={"flash_attn": True}),
        Meaning(sets={Training.attention: "sdpa"}, keys={"flash_attn": "sdpa"}),
        Meaning(sets={Training.attention: "math"}, keys={"flash_attn": "disabled"}),
        *(
            Meaning(sets=sets, keys={"optim": name}) for name, sets in TRAINER_OPTIMIZERS.items()
        ),
    ),
    normalized=of_factory,
    written=written("llama-factory"),
    wants=_own_loss,
    defaults={
        Training.micro_batch_size: 8,
        Training.sequence_length: 2048,
        Training.activation_checkpointing.policy: "full",
    },
    unsaid=UNSAID,
    ignored=(*TRAINED, *LOOPS.ignored, "stage", "finetuning_type", "lora_alpha", "template", "preprocessing_*",
             "max_samples", "plot_loss", "trust_remote_code", "ddp_timeout", "flash_attn",
             "resume_from_checkpoint", "include_num_input_tokens_seen", "packing", "val_size",
             "gradient_checkpointing"),  # disable_gradient_checkpointing decides (model/model_utils/checkpointing.py)
    switches=SWITCHES,
    settles=(*FACTORY_KEYS, *FREEZES["llama-factory"].keys, "oft_rank", "max_source_length", "max_target_length",
             "fsdp*", "deepspeed*", "bf16", "fp16", "pure_bf16", "stage", "finetuning_type",
             "use_unsloth_gc", "use_galore", "galore_*", "use_apollo", "apollo_*", "quantization_method", "optim_args",
             "ray_num_workers"),
    vocabulary=("llama-factory", "transformers"),
    closed=True,
    source="LLaMA-Factory, hparams/",
)  # fmt: skip

_NESTED = "bnb_config_kwargs.bnb_4bit_use_double_quant"

AXOLOTL = Tool(
    name="axolotl",
    title="axolotl",
    syntax="yaml",
    engines=SCRIPT,
    implementations=("transformers", "liger"),
    tells=("base_model", "base_model_config", "sequence_len"),
    model="base_model",
    launch="accelerate launch --num_machines {nodes} --num_processes {all} -m axolotl.cli.train {file}",
    copies="dp_replicate_size",
    experts_apart=True,
    only_with={Parallelism.expert_parallel_size: {EngineSettings.framework: "axolotl"}},
    alongside={"expert_parallel_size": ("plugins", ["axolotl.integrations.expert_parallel.ExpertParallelPlugin"])},
    keys=(
        Key(path=Training.sequence_length, name="sequence_len"),
        Key(path=Training.micro_batch_size, name="micro_batch_size"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(path=Training.packed_sequences, name="sample_packing"),
        Key(path=Training.compile, name="torch_compile"),
        Key(path=EngineSettings.torch_empty_cache_steps, name="torch_empty_cache_steps"),
        Key(path=Training.adapter.rank, name="lora_r"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="lora_target_modules", but="all-linear"),
        Key(path=Training.adapter.target_parameters, name="lora_target_parameters"),
        Key(path=Parallelism.tensor_parallel_size, name="tensor_parallel_size"),
        Key(path=Parallelism.context_parallel_size, name="context_parallel_size", also=("sequence_parallel_degree",)),
        Key(path=Parallelism.expert_parallel_size, name="expert_parallel_size"),
        Key(path=Parallelism.data_parallel_shard_size, name="dp_shard_size"),
        Key(path=Training.adapter.modules_to_save, name="lora_modules_to_save"),
        Key(path=Training.adapter.layers_to_transform, name="peft_layers_to_transform"),
        Key(path=Training.adapter.use_rslora, name="peft_use_rslora"),
        Key(path=Training.trainable, name=TRAINABLE),
        Key(path=Training.activation_checkpointing.use_reentrant, name="gradient_checkpointing_kwargs.use_reentrant"),
        *LOOP,
        *SHARDS,
        *LOOPS.keys,
        *_OF_AXOLOTL.keys,
    ),
    normalized=of_axolotl,
    written=written("axolotl"),
    meanings=(
        Meaning(sets={Training.quantization: "gptq"}, keys={"gptq": True}),
        Meaning(sets={Training.fake_quantization: "int8-int4"}, keys=ROUNDED),
        *(
            Meaning(
                sets={Training.adapter.type: "lora", Training.quantization: name},
                keys={"adapter": "qlora", "load_in_4bit": True, _NESTED: name == "nf4-double"},
            )
            for name in ("nf4", "nf4-double")
        ),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"adapter": "lora"}),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"adapter": "qlora"}),
        Meaning(sets={Training.adapter.type: "dora"}, keys={"adapter": "lora", "peft_use_dora": True}),
        Meaning(sets={Training.adapter.target_modules: "all-linear"}, keys={"lora_target_linear": True}),
        Meaning(sets={Training.quantization: "nf4"}, keys={"load_in_4bit": True}),
        Meaning(sets={Training.quantization: "nf4-double"}, keys={"load_in_4bit": True, _NESTED: True}),
        Meaning(sets={Training.quantization: "int8"}, keys={"load_in_8bit": True}),
        *_PRECISIONS,
        Meaning(sets={Training.precision: "bf16"}, keys={"bf16": True}),
        Meaning(sets={Training.precision: "fp16"}, keys={"fp16": True, "bf16": False}),
        Meaning(sets={Training.precision: "fp32"}, keys={"float32": True, "bf16": False}),
        _UNCHECKPOINTED,
        Meaning(sets={Training.activation_checkpointing.policy: "full"}, keys={"gradient_checkpointing": True}),
        Meaning(sets={Training.activation_checkpointing.policy: "full"}, keys={CHECKPOINTS: True}),
        # a list for axolotl (utils/schemas/config.py: `fsdp: list[str] | None`)
        Meaning(sets={EngineSettings.type: "fsdp"}, keys={"fsdp": _SHARDED.split(), "fsdp_config.version": 2}),
        *_ENGINES,
        Meaning(sets={Training.offload.activations: "cpu"}, keys={"activation_offloading": True}),
        Meaning(sets={Training.tiled_mlp: True}, keys={"tiled_mlp": True}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"max_grad_norm": 0}),
        Meaning(sets={Training.attention: "efficient"}, keys={"attn_implementation": "xformers"}),
        Meaning(
            sets={Training.loss: "fused-linear", Training.implementation: "transformers"},
            keys={
                "plugins": ["axolotl.integrations.liger.LigerPlugin"],
                "liger_fused_linear_cross_entropy": True,
            },
        ),
        *_KERNELS,
        *(
            Meaning(sets=sets, keys={"optimizer": name}) for name, sets in TRAINER_OPTIMIZERS.items()
        ),
        Meaning(sets={Training.optimizer.name: "muon"}, keys={"optimizer": "muon"}),
    ),
    defaults={
        Training.sequence_length: 512, Training.micro_batch_size: 1,
        EngineSettings.expandable_segments: True,  # utils/__init__.py, `set_pytorch_cuda_alloc_conf`
    },
    unsaid={**UNSAID, Training.micro_batch_size: None},
    ignored=(*LOOPS.ignored, "dp_replicate_size", "max_grad_norm",
             "datasets", "dataset_prepared_path", "val_set_size", "output_dir", "wandb_*", "learning_rate",
             "lr_scheduler", "num_epochs", "warmup_*", "evals_per_epoch", "saves_per_epoch", "logging_steps",
             "weight_decay", "special_tokens*", "lora_model_dir", "lora_alpha", "train_on_inputs", "group_by_length",
             "tf32", "early_stopping_patience", "resume_from_checkpoint", "local_rank", "strict", "chat_template",
             "pad_to_sequence_len", "tokenizer_type", "model_type", "hub_model_id", "eval_*", "save_*",
             "loss_watchdog_*", "use_swanlab", "swanlab_*", "use_otel_metrics", "otel_metrics_*"),
    settles=(*AXOLOTL_KEYS, *FREEZES["axolotl"].keys,
             "batch_size", "use_ray", "ray_num_workers",
             "fsdp*", "deepspeed*", "bf16", "bfloat16", "fp16", "float16", "float32", "rl", "plugins",
             "liger_rope", "liger_rms_norm", "liger_glu_activation", "liger_swiglu", "liger_fused_linear_cross_entropy",
             "cut_cross_entropy", "gradient_checkpointing", "activation_offloading", "load_in_4bit",
             "*_attention", "unfrozen_parameters", "optim_args*"),
    vocabulary=("axolotl",),
    source="axolotl, utils/schemas/config.py",
)  # fmt: skip
