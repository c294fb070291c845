"""torchtitan, accelerate, the Hugging Face Trainer, axolotl and DeepSpeed: files."""

from memcore.formats.tool import Key, Meaning, Tool
from memcore.formats.values import TRAINER_OPTIMIZERS

_CHECKPOINTS = "training.activation_checkpointing"
_SCRIPT = ("none", "ddp", "fsdp")

_COMPONENTS = (["model"], ["loss"], ["model", "loss"], ["loss", "model"])
_COMPILED = tuple(
    Meaning(
        sets={"training.compile": "model" in names, "training.compile_loss": "loss" in names} if enabled
        else {"training.compile": False},
        keys={"compile.components": names, "compile.enable": enabled},
    )
    for enabled in (True, False)
    for names in _COMPONENTS
)  # fmt: skip
"""`compile.enable` is of all that `compile.components` lists; without that, both, where the version has it."""

TORCHTITAN = Tool(
    name="torchtitan",
    title="torchtitan",
    syntax="toml",
    engines=("fsdp",),
    implementations=("torchtitan",),
    tells=("parallelism.data_parallel_shard_degree", "activation_checkpoint.mode", "training.local_batch_size",
           "parallelism.tensor_parallel_degree", "model.flavor"),
    keys=(
        Key(path="training.micro_batch_size", name="training.local_batch_size", also=("training.batch_size",)),
        Key(path="training.sequence_length", name="training.seq_len"),
        Key(path="training.compile", name="compile.enable", also=("training.compile",)),
        Key(path="training.optimizer.implementation", name="optimizer.implementation"),
        Key(
            path="training.optimizer.name",
            name="optimizer.name",
            values={"adamw": "AdamW", "adam": "Adam"},
        ),
        Key(path="parallelism.data_parallel_shard_size", name="parallelism.data_parallel_shard_degree"),
        Key(path="parallelism.tensor_parallel_size", name="parallelism.tensor_parallel_degree"),
        Key(path="parallelism.pipeline_parallel_size", name="parallelism.pipeline_parallel_degree"),
        Key(path="parallelism.context_parallel_size", name="parallelism.context_parallel_degree"),
        Key(path="parallelism.expert_parallel_size", name="parallelism.expert_parallel_degree"),
        Key(path="parallelism.expert_tensor_parallel_size", name="parallelism.expert_tensor_parallel_degree"),
        Key(
            path="engine.moe_token_dispatcher",
            name="parallelism.expert_parallel_comm_backend",
            values={"alltoall": "standard", "deepep": "deepep", "hybridep": "hybridep"},
        ),
        Key(
            path="parallelism.pipeline_schedule",
            name="parallelism.pipeline_parallel_schedule",
            values={"1f1b": "1F1B", "gpipe": "GPipe", "interleaved-1f1b": "Interleaved1F1B", "zbv": "ZBVZeroBubble",
                    "dualpipev": "DualPipeV"},
        ),
        Key(
            path="engine.reshard_after_forward",
            name="parallelism.fsdp_reshard_after_forward",
            values={True: "always", False: "never"},
        ),
        Key(path="engine.cpu_offload", name="training.enable_cpu_offload"),
        Key(
            path="engine.enable_async_tensor_parallel",
            name="parallelism.enable_async_tensor_parallel",
            also=("experimental.enable_async_tensor_parallel",),
        ),
        Key(path="engine.enable_fsdp_float8_all_gather", name="float8.enable_fsdp_float8_all_gather"),
        Key(path=f"{_CHECKPOINTS}.policy", name="activation_checkpoint.mode"),
    ),
    meanings=(
        Meaning(sets={f"{_CHECKPOINTS}.mode": "op"}, keys={"activation_checkpoint.selective_ac_option": "op"}
        ),
        Meaning(sets={f"{_CHECKPOINTS}.every": 2}, keys={"activation_checkpoint.selective_ac_option": "2"}),
        Meaning(sets={f"{_CHECKPOINTS}.every": 1}, keys={"activation_checkpoint.selective_ac_option": "1"}),
        *_COMPILED,
    ),
    batch="training.global_batch_size",
    defaults={"training.micro_batch_size": 8, "training.sequence_length": 2048,
              "training.implementation": "torchtitan", f"{_CHECKPOINTS}.policy": "selective"},
    ignored=("job.*", "profiling.*", "metrics.*", "lr_scheduler.*", "checkpoint.*", "comm.*", "validation.*",
             "optimizer.lr", "optimizer.eps", "training.steps", "training.max_norm", "training.dataset",
             "training.dump_folder", "model.hf_assets_path", "model.tokenizer_path"),
    source="torchtitan, config/job_config.py",
)  # fmt: skip

ACCELERATE = Tool(
    name="accelerate",
    title="accelerate",
    syntax="yaml",
    engines=("fsdp", "ddp", "none", "deepspeed"),
    implementations=("transformers", "liger", "unsloth"),
    tells=("distributed_type", "compute_environment"),
    keys=(
        Key(
            path="engine.type",
            name="distributed_type",
            values={"fsdp": "FSDP", "ddp": "MULTI_GPU", "none": "NO", "deepspeed": "DEEPSPEED",
                    "megatron": "MEGATRON_LM"},
        ),
        Key(path="hardware.num_gpus", name="num_processes"),
        Key(path="training.gradient_accumulation_steps", name="gradient_accumulation_steps"),
        Key(path="engine.version", name="fsdp_config.fsdp_version"),
        Key(path="engine.reshard_after_forward", name="fsdp_config.fsdp_reshard_after_forward"),
        Key(path="engine.cpu_offload", name="fsdp_config.fsdp_offload_params"),
        Key(path="engine.zero_stage", name="deepspeed_config.zero_stage"),
    ),
    meanings=(
        Meaning(sets={"training.precision": "bf16-mixed"}, keys={"mixed_precision": "bf16"}),
        Meaning(sets={"training.precision": "fp16-mixed"}, keys={"mixed_precision": "fp16"}),
        Meaning(sets={"training.precision": "fp8-mixed"}, keys={"mixed_precision": "fp8"}),
        Meaning(sets={f"{_CHECKPOINTS}.policy": "full"}, keys={"fsdp_config.fsdp_activation_checkpointing": True}
        ),
    ),
    ignored=("compute_environment", "debug", "downcast_bf16", "machine_rank", "main_training_function", "rdzv_backend",
             "same_network", "tpu_*", "use_cpu", "enable_cpu_affinity", "main_process_port", "main_process_ip",
             "num_machines", "fsdp_config.fsdp_cpu_ram_efficient_loading", "fsdp_config.fsdp_sync_module_states"),
    source="accelerate, commands/config/config_args.py",
)  # fmt: skip

TRAINER = Tool(
    name="trainer",
    title="transformers.TrainingArguments and TRL",
    syntax="yaml",
    engines=_SCRIPT,
    implementations=("transformers", "liger"),
    tells=("per_device_train_batch_size", "model_name_or_path"),
    model="model_name_or_path",
    keys=(
        Key(path="training.micro_batch_size", name="per_device_train_batch_size"),
        Key(path="training.gradient_accumulation_steps", name="gradient_accumulation_steps"),
        Key(path="training.sequence_length", name="max_length", also=("max_seq_length", "cutoff_len")),
        Key(path="training.compile", name="torch_compile"),
        Key(path="training.packed_sequences", name="padding_free"),
        Key(path="training.adapter.rank", name="lora_r", also=("lora_rank",)),
        Key(path="training.adapter.dropout", name="lora_dropout"),
        Key(path="training.adapter.target_modules", name="lora_target_modules"),
        Key(path=f"{_CHECKPOINTS}.use_reentrant", name="gradient_checkpointing_kwargs.use_reentrant"),
    ),
    meanings=(
        Meaning(sets={"training.precision": "bf16-mixed"}, keys={"bf16": True}),
        Meaning(sets={"training.precision": "fp16-mixed"}, keys={"fp16": True}),
        Meaning(sets={f"{_CHECKPOINTS}.policy": "full"}, keys={"gradient_checkpointing": True}),
        Meaning(sets={"training.implementation": "liger"}, keys={"use_liger_kernel": True}),
        Meaning(sets={"training.offload.activations": "cpu"}, keys={"activation_offloading": True}),
        Meaning(sets={"training.quantization": "nf4"}, keys={"load_in_4bit": True}),
        Meaning(sets={"training.quantization": "int8"}, keys={"load_in_8bit": True}),
        Meaning(sets={"training.adapter.type": "lora"}, keys={"use_peft": True}),
        *(
            Meaning(sets=sets, keys={"optim": name}) for name, sets in TRAINER_OPTIMIZERS.items()
        ),
    ),
    defaults={"training.micro_batch_size": 8},
    ignored=("output_dir", "learning_rate", "lr_scheduler_type", "warmup_ratio", "warmup_steps", "num_train_epochs",
             "max_steps", "logging_*", "save_*", "eval_*", "report_to", "seed", "dataset*", "weight_decay", "do_*",
             "push_to_hub*", "hub_*", "overwrite_*", "dataloader_*", "max_grad_norm", "template", "preprocessing_*"),
    source="transformers, training_args.py; trl, trainer/sft_config.py",
)  # fmt: skip

AXOLOTL = Tool(
    name="axolotl",
    title="axolotl",
    syntax="yaml",
    engines=_SCRIPT,
    implementations=("transformers", "liger"),
    tells=("base_model",),
    model="base_model",
    keys=(
        Key(path="training.sequence_length", name="sequence_len"),
        Key(path="training.micro_batch_size", name="micro_batch_size"),
        Key(path="training.gradient_accumulation_steps", name="gradient_accumulation_steps"),
        Key(path="training.packed_sequences", name="sample_packing"),
        Key(path="training.compile", name="torch_compile"),
        Key(path="training.adapter.rank", name="lora_r"),
        Key(path="training.adapter.dropout", name="lora_dropout"),
        Key(path="training.adapter.target_modules", name="lora_target_modules"),
        Key(path="parallelism.tensor_parallel_size", name="tensor_parallel_size"),
        Key(path="parallelism.context_parallel_size", name="context_parallel_size"),
        Key(path="parallelism.data_parallel_shard_size", name="dp_shard_size"),
    ),
    meanings=(
        Meaning(sets={"training.adapter.type": "lora"}, keys={"adapter": "lora"}),
        Meaning(sets={"training.adapter.type": "lora"}, keys={"adapter": "qlora"}),
        Meaning(sets={"training.adapter.target_modules": "all-linear"}, keys={"lora_target_linear": True}),
        Meaning(sets={"training.quantization": "nf4"}, keys={"load_in_4bit": True}),
        Meaning(sets={"training.quantization": "int8"}, keys={"load_in_8bit": True}),
        Meaning(sets={"training.precision": "bf16-mixed"}, keys={"bf16": True}),
        Meaning(sets={"training.precision": "bf16-mixed"}, keys={"bf16": "auto"}),
        Meaning(sets={"training.precision": "bf16"}, keys={"bf16": "full"}),
        Meaning(sets={"training.precision": "fp16-mixed"}, keys={"fp16": True}),
        Meaning(sets={f"{_CHECKPOINTS}.policy": "full"}, keys={"gradient_checkpointing": True}),
        Meaning(sets={"training.attention": "flash"}, keys={"flash_attention": True}),
        Meaning(sets={"training.attention": "flash"}, keys={"attn_implementation": "flash_attention_2"}),
        *(
            Meaning(sets=sets, keys={"optimizer": name}) for name, sets in TRAINER_OPTIMIZERS.items()
        ),
    ),
    defaults={"training.sequence_length": 512, "training.micro_batch_size": 1},
    ignored=("datasets", "dataset_prepared_path", "val_set_size", "output_dir", "wandb_*", "learning_rate",
             "lr_scheduler", "num_epochs", "warmup_*", "evals_per_epoch", "saves_per_epoch", "logging_steps",
             "weight_decay", "special_tokens", "lora_alpha", "train_on_inputs", "group_by_length", "tf32",
             "early_stopping_patience", "resume_from_checkpoint", "local_rank", "strict", "chat_template",
             "pad_to_sequence_len", "tokenizer_type", "model_type", "hub_model_id", "eval_*", "save_*",
             "loss_watchdog_*"),
    source="axolotl, utils/schemas/config.py",
)  # fmt: skip

DEEPSPEED = Tool(
    name="deepspeed",
    title="DeepSpeed",
    syntax="json",
    engines=("deepspeed", "megatron-deepspeed"),
    tells=("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"),
    keys=(
        Key(path="training.micro_batch_size", name="train_micro_batch_size_per_gpu"),
        Key(path="training.gradient_accumulation_steps", name="gradient_accumulation_steps"),
        Key(
            path="training.optimizer.name",
            name="optimizer.type",
            values={"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lion": "Lion", "adagrad": "Adagrad",
                    "lamb": "Lamb", "muon": "Muon"},
        ),
        Key(path="engine.zero_stage", name="zero_optimization.stage"),
        Key(path="engine.offload_optimizer", name="zero_optimization.offload_optimizer.device"),
        Key(path="engine.offload_param", name="zero_optimization.offload_param.device"),
        *(
            Key(path=f"engine.{name}", name=f"zero_optimization.{name}")
            for name in ("reduce_bucket_size", "allgather_bucket_size", "overlap_comm", "contiguous_gradients",
                         "sub_group_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
                         "stage3_max_live_parameters", "stage3_max_reuse_distance", "zero_hpz_partition_size",
                         "zero_quantized_weights", "zero_quantized_gradients", "mics_shard_size")
        ),
    ),
    meanings=(
        Meaning(sets={"training.precision": "bf16-mixed"}, keys={"bf16.enabled": True}),
        Meaning(sets={"training.precision": "fp16-mixed"}, keys={"fp16.enabled": True}),
    ),
    batch="train_batch_size",
    defaults={"training.precision": "fp32"},
    ignored=("optimizer.params.*", "scheduler.*", "steps_per_print", "wall_clock_breakdown",
             "gradient_clipping", "fp16.loss_scale*", "fp16.initial_scale_power", "fp16.hysteresis",
             "fp16.min_loss_scale", "fp16.auto_cast", "zero_allow_untested_optimizer",
             "zero_optimization.stage3_gather_16bit_weights_on_model_save", "zero_optimization.round_robin_gradients",
             "zero_optimization.reduce_scatter", "zero_optimization.allgather_partitions",
             "zero_optimization.offload_optimizer.pin_memory", "zero_optimization.offload_param.pin_memory"),
    source="deepspeed, runtime/config.py and runtime/zero/config.py",
)  # fmt: skip
