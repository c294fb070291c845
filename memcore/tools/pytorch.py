"""torchtitan's and DeepSpeed's files."""

from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.formats.settled import (
    BUDGET,
    BY_BUDGET,
    BY_WIDTH,
    FLAVORS,
    GPUS,
    MODE,
    MODEL,
    PER_NODE,
    RANKS,
    WIDTHS,
    automatic,
    flavored,
)
from memcore.formats.tool import Key, Meaning, Tool
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.pytorch.settings import TorchSettings

_CHECKPOINTS = Training.activation_checkpointing

_COMPONENTS = (["model"], ["loss"], ["model", "loss"], ["loss", "model"])
_COMPILED = tuple(
    Meaning(
        sets={Training.compile: "model" in names, Training.compile_loss: "loss" in names} if enabled
        else {Training.compile: False},
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
    launch="torchrun --nnodes {nodes} --nproc_per_node {each} -m torchtitan.train --job.config_file {file}",
    models=FLAVORS,
    copies="parallelism.data_parallel_replicate_degree",
    keys=(
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        Key(path=Training.micro_batch_size, name="training.local_batch_size", also=("training.batch_size",)),
        Key(path=Training.sequence_length, name="training.seq_len"),
        Key(path=Training.compile, name="compile.enable", also=(Training.compile,)),
        Key(
            path=Training.optimizer.implementation,
            name="optimizer.implementation",
            values={name: name for name in ("fused", "foreach", "for-loop")},
        ),
        Key(
            path=Training.optimizer.name,
            name="optimizer.name",
            values={"adamw": "AdamW", "adam": "Adam"},
        ),
        Key(path=Parallelism.data_parallel_shard_size, name="parallelism.data_parallel_shard_degree"),
        Key(path=Parallelism.tensor_parallel_size, name="parallelism.tensor_parallel_degree"),
        Key(path=Parallelism.pipeline_parallel_size, name="parallelism.pipeline_parallel_degree"),
        Key(path=Parallelism.context_parallel_size, name="parallelism.context_parallel_degree"),
        Key(path=Parallelism.expert_parallel_size, name="parallelism.expert_parallel_degree"),
        Key(path=Parallelism.expert_tensor_parallel_size, name="parallelism.expert_tensor_parallel_degree"),
        Key(
            path=TorchSettings.moe_token_dispatcher,
            name="parallelism.expert_parallel_comm_backend",
            values={"alltoall": "standard", "deepep": "deepep", "hybridep": "hybridep"},
        ),
        Key(
            path=Parallelism.pipeline_schedule,
            name="parallelism.pipeline_parallel_schedule",
            values={"1f1b": "1F1B", "gpipe": "GPipe", "interleaved-1f1b": "Interleaved1F1B", "zbv": "ZBVZeroBubble",
                    "dualpipev": "DualPipeV"},
        ),
        Key(
            path=TorchSettings.reshard_after_forward,
            name="parallelism.fsdp_reshard_after_forward",
            values={True: "always", False: "never"},
        ),
        Key(path=TorchSettings.cpu_offload, name="training.enable_cpu_offload"),
        Key(path=Parallelism.data_parallel_size, name=RANKS),
        Key(
            path=TorchSettings.enable_async_tensor_parallel,
            name="parallelism.enable_async_tensor_parallel",
            also=("experimental.enable_async_tensor_parallel",),
        ),
        Key(
            path=TorchSettings.enable_fsdp_float8_all_gather,
            name="quantize.linear.float8.enable_fsdp_float8_all_gather",
            also=("float8.enable_fsdp_float8_all_gather",),
        ),
        Key(path=Training.activation_checkpointing.policy, name=MODE),
        Key(path=Training.activation_memory_budget, name=BUDGET),
    ),
    meanings=(
        Meaning(sets={_CHECKPOINTS.mode: "op"}, keys={"activation_checkpoint.selective_ac_option": "op"}
        ),
        Meaning(sets={_CHECKPOINTS.every: 2}, keys={"activation_checkpoint.selective_ac_option": "2"}),
        Meaning(sets={_CHECKPOINTS.every: 1}, keys={"activation_checkpoint.selective_ac_option": "1"}),
        *_COMPILED,
        Meaning(sets={Training.precision: "fp32"}, keys={"training.mixed_precision_param": "float32"}),
        Meaning(sets={Training.precision: "fp8-mixed"}, keys={"model.converters": ["quantize.linear.float8"]}),
    ),
    model=MODEL,
    settled=flavored,
    alongside={BUDGET: (MODE, BY_BUDGET)},
    batch="training.global_batch_size",
    defaults={Training.micro_batch_size: 8, Training.sequence_length: 2048,
              Training.implementation: "torchtitan", Training.activation_checkpointing.policy: "selective"},
    unsaid={Training.precision: "bf16-mixed"},
    ignored=("job.*", "profiling.*", "metrics.*", "lr_scheduler.*", "checkpoint.*", "comm.*", "validation.*",
             "activation_checkpoint.visualize_memory_budget_pareto",
             "optimizer.lr", "optimizer.eps", "training.steps", "training.max_norm", "training.dataset",
             "training.dump_folder", "model.hf_assets_path", "model.tokenizer_path",
             "model.print_after_conversion", "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
             "quantize.linear.float8.filter_fqns"),
    settles=("model.name", "model.flavor", "model.converters", "parallelism.data_parallel_replicate_degree"),
    vocabulary=("torchtitan",),
    source="torchtitan, config/job_config.py",
)  # fmt: skip

DEEPSPEED = Tool(
    name="deepspeed",
    title="DeepSpeed",
    syntax="json",
    engines=("deepspeed", "megatron-deepspeed"),
    tells=("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"),
    launch="deepspeed --num_nodes {nodes} --num_gpus {each} train.py --deepspeed {file}",
    keys=(
        Key(path=Training.micro_batch_size, name="train_micro_batch_size_per_gpu"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(
            path=Training.optimizer.name,
            name="optimizer.type",
            values={"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lion": "Lion", "adagrad": "Adagrad",
                    "lamb": "Lamb", "muon": "Muon"},
        ),
        Key(path=Training.gradient_dtype, name="data_types.grad_accum_dtype"),
        Key(path=Parallelism.ulysses_parallel_size, name="sequence_parallel_size"),
        Key(path=DeepSpeedSettings.zero_stage, name="zero_optimization.stage"),
        Key(path=DeepSpeedSettings.offload_optimizer, name="zero_optimization.offload_optimizer.device"),
        Key(path=DeepSpeedSettings.offload_param, name="zero_optimization.offload_param.device"),
        Key(path=DeepSpeedSettings.partition_activations, name="activation_checkpointing.partition_activations"),
        Key(path=DeepSpeedSettings.cpu_checkpointing, name="activation_checkpointing.cpu_checkpointing"),
        Key(
            path=DeepSpeedSettings.contiguous_memory_optimization,
            name="activation_checkpointing.contiguous_memory_optimization",
        ),
        Key(path=DeepSpeedSettings.hidden_size_buckets, name=BY_WIDTH),
        *(
            Key(
                path=f"engine.{name}",
                name=f"zero_optimization.{name}",
                also=(f"zero_optimization.{name.removeprefix('stage3_')}",) if name.startswith("stage3_") else (),
            )
            for name in ("reduce_bucket_size", "allgather_bucket_size", "overlap_comm", "contiguous_gradients",
                         "sub_group_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
                         "stage3_max_live_parameters", "stage3_max_reuse_distance", "zero_hpz_partition_size",
                         "zero_quantized_weights", "zero_quantized_gradients", "mics_shard_size")
        ),
    ),
    meanings=(
        Meaning(sets={Training.precision: "bf16-mixed"}, keys={"bf16.enabled": True}),
        Meaning(sets={Training.precision: "fp16-mixed"}, keys={"fp16.enabled": True}),
        Meaning(
            sets={DeepSpeedSettings.hidden_size_buckets: True},
            keys={f"zero_optimization.{name}": "auto" for name in WIDTHS},
        ),
        Meaning(sets={Training.gradient_clipping: True}, keys={"gradient_clipping": 1.0}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"gradient_clipping": 0}),
    ),
    settled=automatic,
    batch="train_batch_size",
    defaults={Training.precision: "fp32"},
    unsaid={
        DeepSpeedSettings.zero_stage: None,
        Training.micro_batch_size: None,
        Training.gradient_accumulation_steps: None,
        Training.gradient_clipping: False,
    },
    ignored=("optimizer.params.*", "scheduler.*", "steps_per_print", "wall_clock_breakdown",
             "gradient_clipping", "fp16.loss_scale*", "fp16.initial_scale_power", "fp16.hysteresis",
             "fp16.min_loss_scale", "fp16.auto_cast", "zero_allow_untested_optimizer",
             "zero_optimization.stage3_gather_16bit_weights_on_model_save", "zero_optimization.round_robin_gradients",
             "zero_optimization.reduce_scatter", "zero_optimization.allgather_partitions",
             "zero_optimization.offload_optimizer.pin_memory", "zero_optimization.offload_param.pin_memory",
             "zero_optimization.offload_optimizer.nvme_path", "zero_optimization.offload_param.nvme_path",
             "zero_optimization.cpu_offload_use_pin_memory", "prescale_gradients", "gradient_predivide_factor",
             "zero_optimization.stage3_gather_fp16_weights_on_model_save", "wandb.*", "tensorboard.*", "csv_monitor.*",
             "flops_profiler.*", "comms_logger.*", "dump_state"),
    vocabulary=("deepspeed",),
    source="deepspeed, runtime/config.py and runtime/zero/config.py",
)  # fmt: skip
