"""Megatron-LM's arguments, on a command line."""

from memcore.formats.tool import Key, Meaning, Tool

_DIMENSIONS = (
    "num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups kv_channels max_position_embeddings "
    "position_embedding_type rotary_percent normalization vocab_size make_vocab_size_divisible_by num_experts "
    "moe_ffn_hidden_size moe_layer_freq moe_router_topk moe_router_dtype moe_router_score_function "
    "moe_shared_expert_intermediate_size kv_lora_rank q_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim "
    "mtp_num_layers hybrid_layer_pattern mamba_state_dim mamba_head_dim mamba_num_groups mamba_num_heads "
    "swiglu squared_relu disable_bias_linear untie_embeddings_and_output_weights qk_layernorm apply_layernorm_1p "
    "multi_latent_attention moe_router_enable_expert_bias mtp_use_repeated_layer"
)

_CHECKPOINTS = "training.activation_checkpointing"

MEGATRON = Tool(
    name="megatron",
    title="Megatron-LM",
    syntax="argv",
    engines=("megatron", "megatron-fsdp"),
    program="torchrun pretrain_gpt.py",
    prefixes=("pretrain_gpt.py", "pretrain_mamba.py", "pretrain_bert.py", "pretrain_t5.py"),
    tells=("--tensor-model-parallel-size", "--num-layers", "--hidden-size", "--micro-batch-size"),
    dimensions={f"--{name.replace('_', '-')}": name for name in _DIMENSIONS.split()},
    keys=(
        Key(path="hardware.gpus_per_node", name="--nproc_per_node", also=("--nproc-per-node",)),
        Key(path="training.micro_batch_size", name="--micro-batch-size"),
        Key(path="training.sequence_length", name="--seq-length"),
        Key(path="training.dropout.hidden", name="--hidden-dropout"),
        Key(path="training.dropout.attention", name="--attention-dropout"),
        Key(path="training.optimizer.name", name="--optimizer", values={"adam": "adam", "adamw": "adam", "sgd": "sgd"}),
        Key(
            path="training.implementation",
            name="--transformer-impl",
            values={"transformer-engine": "transformer_engine", "megatron-local": "local"},
        ),
        Key(path="parallelism.tensor_parallel_size", name="--tensor-model-parallel-size"),
        Key(path="parallelism.pipeline_parallel_size", name="--pipeline-model-parallel-size"),
        Key(path="parallelism.context_parallel_size", name="--context-parallel-size"),
        Key(path="parallelism.expert_parallel_size", name="--expert-model-parallel-size"),
        Key(path="parallelism.expert_tensor_parallel_size", name="--expert-tensor-parallel-size"),
        Key(path="parallelism.virtual_pipeline_parallel_size", name="--num-virtual-stages-per-pipeline-rank"),
        Key(path="parallelism.sequence_parallel", name="--sequence-parallel", off=""),
        Key(path="engine.distributed_optimizer", name="--use-distributed-optimizer", off=""),
        Key(path="engine.precision_aware_optimizer", name="--use-precision-aware-optimizer", off=""),
        Key(path="engine.grad_reduce_in_bf16", name="--grad-reduce-in-bf16", off=""),
        Key(path="engine.overlap_grad_reduce", name="--overlap-grad-reduce", off=""),
        Key(path="engine.overlap_param_gather", name="--overlap-param-gather", off=""),
        Key(path="engine.moe_token_dispatcher", name="--moe-token-dispatcher-type"),
        Key(path="engine.moe_expert_capacity_factor", name="--moe-expert-capacity-factor"),
        Key(path="engine.moe_grouped_gemm", name="--moe-grouped-gemm", off=""),
        Key(path="engine.moe_permute_fusion", name="--moe-permute-fusion", off=""),
        Key(path="engine.cross_entropy_loss_fusion", name="--cross-entropy-loss-fusion", off=""),
        Key(path="engine.cross_entropy_fusion_impl", name="--cross-entropy-fusion-impl"),
        Key(path="engine.fp8_recipe", name="--fp8-recipe"),
        Key(path="engine.fp8_param_gather", name="--fp8-param-gather", off=""),
        Key(path="engine.distribute_saved_activations", name="--distribute-saved-activations", off=""),
        Key(
            path="engine.fine_grained_activation_offloading", name="--fine-grained-activation-offloading", off=""
        ),
        Key(path="engine.offload_modules", name="--offload-modules"),
        Key(path="engine.min_offloaded_tensor_size", name="--min-offloaded-tensor-size"),
        Key(path=f"{_CHECKPOINTS}.policy", name="--recompute-granularity"),
        Key(path=f"{_CHECKPOINTS}.method", name="--recompute-method"),
        Key(path=f"{_CHECKPOINTS}.num_layers", name="--recompute-num-layers"),
        Key(path=f"{_CHECKPOINTS}.modules", name="--recompute-modules"),
    ),
    meanings=(
        Meaning(sets={"training.precision": "bf16-mixed"}, keys={"--bf16": True}),
        Meaning(sets={"training.precision": "fp16-mixed"}, keys={"--fp16": True}),
        Meaning(sets={f"{_CHECKPOINTS}.policy": "selective"}, keys={"--recompute-activations": True}),
    ),
    defaults={"training.dropout.hidden": 0.1, "training.dropout.attention": 0.1, "training.precision": "fp32"},
    ignored=("--lr", "--min-lr", "--lr-decay-style", "--lr-decay-iters", "--lr-warmup-iters", "--lr-warmup-fraction",
             "--weight-decay", "--clip-grad", "--adam-beta1", "--adam-beta2", "--init-method-std", "--train-iters",
             "--train-samples", "--save", "--load", "--data-path", "--split", "--tokenizer-type", "--tokenizer-model",
             "--vocab-file", "--merge-file", "--log-interval", "--save-interval", "--eval-interval", "--eval-iters",
             "--tensorboard-dir", "--seed", "--nnodes", "--node_rank", "--master_addr", "--master_port",
             "--rotary-base", "--norm-epsilon", "--distributed-backend", "--num-workers", "--use-mcore-models"),
    source="Megatron-LM, megatron/training/arguments.py",
)  # fmt: skip
