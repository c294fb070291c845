"""nanotron's YAML files."""

from memcore.formats.tool import Key, Tool

_DIMENSIONS = (
    "hidden_size num_hidden_layers num_attention_heads num_key_value_heads intermediate_size vocab_size "
    "max_position_embeddings tie_word_embeddings hidden_act"
)

NANOTRON = Tool(
    name="nanotron",
    title="nanotron",
    syntax="yaml",
    engines=("nanotron",),
    tells=("model.model_config", "tokens.batch_accumulation_per_replica"),
    family="llama",
    dimensions={f"model.model_config.{name}": name for name in _DIMENSIONS.split()},
    keys=(
        Key(path="training.micro_batch_size", name="tokens.micro_batch_size"),
        Key(path="training.sequence_length", name="tokens.sequence_length"),
        Key(path="training.gradient_accumulation_steps", name="tokens.batch_accumulation_per_replica"),
        Key(
            path="training.optimizer.name",
            name="optimizer.optimizer_factory.name",
            values={"adamw": "adamW", "sgd": "sgd"},
        ),
        Key(
            path="training.optimizer.implementation",
            name="optimizer.optimizer_factory.torch_adam_is_fused",
            values={"fused": True, "foreach": False},
        ),
        Key(
            path="training.activation_checkpointing.policy",
            name="parallelism.recompute_layer",
            values={"full": True, "none": False},
        ),
        Key(path="parallelism.data_parallel_size", name="parallelism.dp"),
        Key(path="parallelism.tensor_parallel_size", name="parallelism.tp"),
        Key(path="parallelism.pipeline_parallel_size", name="parallelism.pp"),
        Key(path="parallelism.context_parallel_size", name="parallelism.context_parallel_size"),
        Key(path="parallelism.expert_parallel_size", name="parallelism.expert_parallel_size"),
        Key(
            path="parallelism.pipeline_schedule",
            name="parallelism.pp_engine",
            values={"1f1b": "1f1b", "gpipe": "afab"},
        ),
        Key(path="engine.tp_mode", name="parallelism.tp_mode", in_capitals=True),
        Key(path="engine.tp_linear_async_communication", name="parallelism.tp_linear_async_communication"),
        Key(path="engine.tp_recompute_allgather", name="parallelism.tp_recompute_allgather"),
        Key(path="engine.zero_stage", name="optimizer.zero_stage"),
        Key(path="engine.accumulate_grad_in_fp32", name="optimizer.accumulate_grad_in_fp32"),
    ),
    defaults={
        "engine.tp_linear_async_communication": False,
        "engine.tp_mode": "ALL_REDUCE",
        "parallelism.pipeline_schedule": "gpipe",
    },
    ignored=("checkpoints.*", "data_stages*", "general.*", "lighteval*", "logging.*", "profiler*", "tokenizer.*",
             "s3_upload*", "model.init_method.*", "model.dtype", "model.ddp_bucket_cap_mb",
             "model.make_vocab_size_divisible_by", "model.model_config.bos_token_id",
             "model.model_config.eos_token_id", "model.model_config.pad_token_id",
             "model.model_config.initializer_range", "model.model_config.is_llama_config",
             "model.model_config.pretraining_tp", "model.model_config.rms_norm_eps", "model.model_config.rope_*",
             "model.model_config.use_cache", "optimizer.clip_grad", "optimizer.weight_decay",
             "optimizer.learning_rate_scheduler.*", "optimizer.optimizer_factory.adam_*", "tokens.train_steps",
             "tokens.val_check_interval", "tokens.limit_*"),
    source="nanotron, config/config.py, parallelism_config.py and models_config.py",
)  # fmt: skip
