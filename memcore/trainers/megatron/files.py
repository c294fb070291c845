"""Megatron-LM's arguments, on a command line, in a script, or in one of its functional tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.shell import variable_given
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message
from memcore.networks.catalog import catalog, full_name
from memcore.trainers.megatron.networks.described import described, numbers, unsaid
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.settings import TorchSettings

_DIMENSIONS = (
    "num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups kv_channels max_position_embeddings "
    "position_embedding_type rotary_percent normalization vocab_size make_vocab_size_divisible_by num_experts "
    "moe_ffn_hidden_size moe_latent_size moe_layer_freq moe_router_topk moe_router_dtype moe_router_score_function "
    "moe_shared_expert_intermediate_size kv_lora_rank q_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim "
    "mtp_num_layers hybrid_layer_pattern mamba_state_dim mamba_head_dim mamba_num_groups mamba_num_heads "
    "swiglu squared_relu disable_bias_linear add_qkv_bias untie_embeddings_and_output_weights qk_layernorm "
    "moe_shared_expert_gate apply_layernorm_1p multi_latent_attention moe_router_enable_expert_bias "
    "mtp_use_repeated_layer encoder_num_layers decoder_num_layers encoder_seq_length decoder_seq_length "
    "quick_geglu activation_func_clamp_value softmax_type window_size window_attn_skip_freq attention_output_gate "
    "experimental_attention_variant linear_attention_freq linear_conv_kernel_dim linear_key_head_dim "
    "linear_value_head_dim linear_num_key_heads linear_num_value_heads"
)
_SWITCHES = (
    "precision_aware_optimizer grad_reduce_in_bf16 overlap_grad_reduce overlap_param_gather deterministic_mode "
    "account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split cross_entropy_loss_fusion "
    "attention_softmax_in_fp32 apply_query_key_layer_scaling no_masked_softmax_fusion no_bias_gelu_fusion "
    "no_bias_swiglu_fusion no_rope_fusion no_persist_layer_norm no_create_attention_mask_in_dataloader "
    "calculate_per_token_loss "
    "defer_embedding_wgrad_compute delay_wgrad_compute tp_comm_overlap overlap_moe_expert_parallel_comm "
    "overlap_p2p_communication_warmup_flush overlap_param_gather_with_optimizer_step distribute_saved_activations "
    "fp8_param_gather first_last_layers_bf16 moe_pad_expert_input_to_capacity moe_grouped_gemm moe_permute_fusion "
    "moe_router_fusion moe_router_pre_softmax moe_shared_expert_overlap use_fused_weighted_squared_relu "
    "use_transformer_engine_op_fuser fine_grained_activation_offloading no_use_layer_wise_param_layout"
)
_VALUES = (
    "num_distributed_optimizer_instances main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype "
    "microbatch_group_size_per_virtual_pipeline_stage cp_comm_type cross_entropy_fusion_impl wgrad_deferral_limit "
    "num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 "
    "fp8_format fp8_recipe moe_flex_dispatcher_backend moe_expert_capacity_factor moe_router_load_balancing_type "
    "offload_modules min_offloaded_tensor_size cuda_graph_impl cuda_graph_scope cuda_graph_modules "
    "cuda_graph_warmup_steps data_parallel_sharding_strategy outer_dp_sharding_strategy"
)
_USED = {"precision_aware_optimizer": "--use-precision-aware-optimizer"}
_KERNELS = {"flash": "flash", "fused": "cudnn", "unfused": "math", "local": "math"}
_ARCHITECTURES = {"pretrain_bert.py": "bert", "pretrain_t5.py": "t5"}
_OF_T5 = ("--encoder-num-layers", "--decoder-num-layers", "--decoder-seq-length")
_WORDS = "VOCAB_SIZE"
"""The variable that is asked for where a command names no vocabulary that is known: scripts set none."""
_BERT: Mapping[str, tuple[int, str]] = {
    "BertWordPieceCase": (28996, "BERT's cased vocabulary"),
    "BertWordPieceLowerCase": (30522, "BERT's uncased vocabulary"),
}
_RENAMED: Mapping[str, Mapping[str, Any]] = {
    "--model-parallel-size": {"--tensor-model-parallel-size": None},
    "--batch-size": {"--micro-batch-size": None},
    "--checkpoint-activations": {
        "--recompute-granularity": "full",
        "--recompute-method": "uniform",
        "--recompute-num-layers": 1,
    },
    "--activations-checkpoint-method": {
        "--recompute-granularity": "full",
        "--recompute-method": None,
    },
    "--activations-checkpoint-num-layers": {"--recompute-num-layers": None},
    "--distribute-checkpointed-activations": {"--distribute-saved-activations": True},
    "--use-rotary-position-embeddings": {"--position-embedding-type": "rope"},
    "--enable-cuda-graph": {"--cuda-graph-impl": "local"},
    "--external-cuda-graph": {"--cuda-graph-impl": "transformer_engine"},
    "--nproc-per-node": {"--nproc_per_node": None},
    "--moe-enable-deepep": {"--moe-flex-dispatcher-backend": "deepep"},
    "--hybrid-override-pattern": {"--hybrid-layer-pattern": None},
    "--use-custom-fsdp": {"--use-megatron-fsdp": True},
    "--padded-vocab-size": {"--vocab-size": None, "--make-vocab-size-divisible-by": 1},
    "--no-pad-vocab-size": {"--make-vocab-size-divisible-by": 1},
    "--fp8-hybrid": {"--fp8-format": "hybrid"},
    "--fp8-e4m3": {"--fp8-format": "e4m3"},
}
"""Older names and what they are today, and numbers of words that are not padded; None is the same value."""
_MAIN_GRADS, _SENT_GRADS = "--megatron-fsdp-main-grads-dtype", "--megatron-fsdp-grad-comm-dtype"
_MAIN_PARAMETERS, _SUMMED = "--megatron-fsdp-main-params-dtype", "--accumulate-allreduce-grads-in-fp32"
_ANOTHER = (
    "--img-h", "--model-provider", "--fp4-format", "--use-legacy-models", "--use-torch-fsdp2",
    "--encoder-pipeline-model-parallel-size", "--encoder-tensor-model-parallel-size", "--freeze-all-layers",
    "--heterogeneous-layers-config-path", "--heterogeneous-layers-config-encoded-json", "--export-kd-teacher-load",
    "--export-kd-cfg", "--flextron", _MAIN_PARAMETERS, _SENT_GRADS,
)  # fmt: skip
"""What makes another network of it, or keeps other tensors: without, the answer would be one to another question."""
_SCHEDULE = "--step-batch-size-schedule"
_GENERATING = ("--num-tokens-to-generate", "--prompts", "--incoming-requests-per-step")
"""Flags of Megatron's inference (examples/inference/gpt/utils.py)."""
_GROUPS = "--group-query-attention"
_HEADS: Mapping[str, Mapping[str, Any]] = {"multiquery": {_GROUPS: True, "--num-query-groups": 1}}
"""Kinds of attention of BigCode's Megatron-LM (megatron/arguments.py)."""
_LAYOUT = "--pipeline-model-parallel-layout"
_GPT2 = 50257
"""Words of the tokenizer that comes in two files, of words and of merges."""


def _flag(name: str) -> str:
    return _USED.get(name) or f"--{name.replace('_', '-')}"


def arguments(found: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the arguments with what Megatron makes of them together, and notes.

    Groups of heads count with their switch alone, and the vocabulary is the tokenizer's.
    Raises UnsupportedError for what makes another network. Source: Megatron-LM, megatron/training/arguments.py,
    validate_args and core_transformer_config_from_args.
    """
    normalized, notes = _today(found), list[str]()
    _refuse_others(normalized)
    if not normalized.pop(_GROUPS, None) and "--num-query-groups" in normalized:
        normalized.pop("--num-query-groups")
        notes.append(Message("--num-query-groups has no effect without {}: ignored", _GROUPS))
    program = str(found.get("", ""))
    kind = next((kind for name, kind in _ARCHITECTURES.items() if name in program), None)
    kind = "t5" if any(name in normalized for name in _OF_T5) else kind
    kind = "hybrid" if "--hybrid-layer-pattern" in normalized else kind
    if kind is not None:
        normalized["*architecture"] = kind
    if normalized.get("--grad-reduce-in-bf16"):
        normalized.pop("--accumulate-allreduce-grads-in-fp32", None)
    if "--encoder-seq-length" in normalized:
        normalized.setdefault("--seq-length", normalized["--encoder-seq-length"])
    strategy = "--data-parallel-sharding-strategy"
    if strategy in normalized and not normalized.get("--use-megatron-fsdp"):
        normalized.pop(strategy)
        notes.append(Message("{} has no effect without --use-megatron-fsdp: ignored", strategy))
    normalized |= uneven(normalized)
    if _LAYOUT in normalized:
        normalized[_LAYOUT] = _counted(normalized[_LAYOUT])
    if "--num-layers" in found or "--hidden-size" in found:
        words, why = _words(normalized)
        normalized["--vocab-size"] = words
        notes += [why] if why else []
    return normalized, tuple(notes)


def _refuse_others(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for Megatron-DeepSpeed, and for what makes another network of it."""
    if found.get("--deepspeed") is True:
        message = "Megatron-DeepSpeed scripts are not supported yet; describe the job with flags and --engine {}"
        raise UnsupportedError("--deepspeed", message, "megatron-deepspeed")
    for name in _ANOTHER:
        if found.get(name, False) not in (False, 0):
            raise UnsupportedError(
                name, "found {!r}, which is not supported; leave it out to run without it", found[name]
            )


def _buffers_of_fsdp(normalized: dict[str, Any]) -> None:
    """Megatron-FSDP's gradients in the dtype of its buffers, in which they are sent unless that is said.

    Source: megatron/core/distributed/distributed_data_parallel_config.py, core 0.19 (`megatron_fsdp_main_grads_dtype`:
    `auto` is that of the parameters; `megatron_fsdp_grad_comm_dtype`: no memory of its own where both are the same).
    What DDP's flags say of gradients has no effect there.
    """
    kept, half = normalized.pop(_MAIN_GRADS, "auto"), "fp16" if normalized.get("--fp16") else "bf16"
    if normalized.get(_SENT_GRADS) in ("auto", kept):
        normalized.pop(_SENT_GRADS)
    if normalized.get(_MAIN_PARAMETERS) == "fp32":  # what is taken where nothing is said
        del normalized[_MAIN_PARAMETERS]
    if normalized.get("--use-megatron-fsdp"):
        for name in (_SUMMED, "--grad-reduce-in-bf16"):
            normalized.pop(name, None)
        if kept not in ("auto", half):
            normalized[_MAIN_GRADS] = kept


_PROGRAMS = re.compile(r"text_generation|inference|/(?:export|convert|quantize|prune|generate)")
"""Programs around Megatron's models that do not train them (tools/, examples/inference, examples/post_training)."""


def _today(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of today's Megatron-LM."""
    normalized = dict(found)
    scripts = [word for word in str(found.get("", "")).split() if word.endswith(".py")]
    other = next((word for word in scripts if _PROGRAMS.search(word)), None)
    if other is not None:
        raise ConfigError.at("the command", "found {:.60}, which does not train", other)
    _refuse_products(found)
    generates = next((name for name in _GENERATING if name in found), None)
    if generates is not None:
        raise UnsupportedError(
            generates, "found {!r:.40}: this command generates instead of training", found[generates]
        )
    for name, means in _RENAMED.items():
        if normalized.get(name):
            value = normalized.pop(name)
            normalized |= {new: value if same is None else same for new, same in means.items()}
    _buffers_of_fsdp(normalized)
    normalized |= _HEADS.get(str(normalized.pop("--attention-head-type", "")), {})
    pattern, times = str(normalized.get("--hybrid-layer-pattern", "")), normalized.get("--mtp-num-layers")
    if pattern and "/" not in pattern and "--mtp-hybrid-override-pattern" in normalized and isinstance(times, int):
        further = str(normalized.pop("--mtp-hybrid-override-pattern"))
        normalized["--hybrid-layer-pattern"] = "/".join([pattern, *[further] * times])
    if normalized.get("--optimizer") == "dist_muon":
        normalized |= {"--optimizer": "muon", "--use-distributed-optimizer": True}
    _launched(normalized, str(found.get("", "")))
    if _SCHEDULE in normalized:
        normalized["--global-batch-size"] = _last_batch(str(normalized.pop(_SCHEDULE)))
    return normalized


def _launched(normalized: dict[str, Any], program: str) -> None:
    """What torchrun takes where nothing is said: one process on one node (torch/distributed/run.py)."""
    if "torchrun" in program:
        normalized.setdefault("--nproc_per_node", 1)
    if "--nproc_per_node" in normalized:
        normalized.setdefault("--nnodes", 1)


def _last_batch(schedule: str) -> int:
    """Return the global batch that a schedule ends with, which Megatron takes for the job's.

    Source: megatron/core/num_microbatches_calculator.py, StepBatchsizeNumMicroBatchesCalculator.

    >>> _last_batch("0:768 250B:1536")
    1536
    """
    last = schedule.rpartition(":")[2]
    if not last.isdecimal():
        raise ConfigError.at(_SCHEDULE, "expected steps such as 0:768 250B:1536, found {!r:.60}", schedule)
    return int(last)


def _refuse_products(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for FP8 products of fp32 or fp16 layers.

    Source: megatron/training/arguments.py, `validate_args`: parameters are fp32 where neither --bf16 nor --fp16 is
    said, and --fp8-format changes none of that.
    """
    name = next((each for each in ("--fp8-format", "--fp8-hybrid", "--fp8-e4m3") if found.get(each)), None)
    if name is not None and found.get("--bf16") is not True:
        message = "with parameters in {} FP8 matrix products are not supported yet; add --bf16"
        raise UnsupportedError.of_value(name, found[name], Message(message, "fp16" if found.get("--fp16") else "fp32"))


def uneven(found: dict[str, Any]) -> dict[str, Any]:
    """A list of layers for each stage, where the first or the last one has its own number (transformer_block.py)."""
    names = ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers")
    ends = [found.get(name) for name in names]
    layers, stages = found.get("--num-layers"), found.get("--pipeline-model-parallel-size", 1)
    if ends == [None, None] or not isinstance(layers, int) or not isinstance(stages, int):
        return {}
    chunks = "--num-virtual-stages-per-pipeline-rank" in found or "--num-layers-per-virtual-pipeline-stage" in found
    between = stages - sum(end is not None for end in ends)
    rest = layers - sum(end for end in ends if isinstance(end, int))
    if chunks or between < 1 or rest % between:
        return {}
    for name in names:
        found.pop(name, None)
    each = rest // between
    return {_LAYOUT: [ends[0] or each, *[each] * (stages - 2), ends[1] or each]}


def _words(found: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the vocabulary, and how it is known."""
    if "--vocab-size" in found:
        return found["--vocab-size"], ""
    name = full_name(str(found.get("--tokenizer-model", "")).rpartition("/")[2])
    config = catalog()[name]["config"] if name in catalog() else {}
    size = config.get("vocab_size") or (config.get("text_config") or {}).get("vocab_size")
    if size:
        return size, Message("--vocab-size is {}: from {}", size, name)
    kind = found.get("--tokenizer-type", "BertWordPieceLowerCase" if found.get("*architecture") == "bert" else None)
    if kind in _BERT:
        size, whose = _BERT[kind]
        further = found.get("--vocab-extra-ids", 0)
        size += further if isinstance(further, int) else 0
        said = "--vocab-size is {}: {} plus additional tokens" if further else "--vocab-size is {}: {}"
        return size, Message(said, size, whose)
    if "--merge-file" in found or found.get("--tokenizer-type") == "GPT2BPETokenizer":
        return _GPT2, Message("--vocab-size is {}: GPT-2's vocabulary", _GPT2)
    given = variable_given(_WORDS) or ""
    return int(given) if given.isdecimal() else f"${_WORDS}", ""


_PLAIN = re.compile(r"E(t\*\d+)?(\|(t\*\d+)?)*L")


def _counted(layout: object) -> object:
    """Return a layout of nothing but numbers of layers as a list of them."""
    if not isinstance(layout, str) or not _PLAIN.fullmatch(layout):
        return layout
    return [int(each[2:] or 0) for each in layout[1:-1].split("|")]


def _stages(layout: str | list[int]) -> str:
    """Megatron's text of a pipeline: the embedding, transformer layers of each stage, the loss.

    >>> _stages([2, 3])
    'Et*2|t*3L'
    """
    return layout if isinstance(layout, str) else f"E{'|'.join(f't*{count}' if count else '' for count in layout)}L"


def _beside(config: Config) -> dict[str, Any]:
    """What else a script says: what graphs of a whole step ask for, and what a model by name has besides sizes."""
    whole = config[MegatronSettings.cuda_graph_impl] == "full_iteration"
    asked = {"--no-check-for-nan-in-loss-and-grad": True} if whole else {}
    return {**asked, **_of_model(config)}


def _of_model(config: Config) -> dict[str, Any]:
    """Return the tokenizer of a model by name, and numbers that change no size."""
    if described(config) is None:
        return {}
    named = {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": full_name(config.model)} if isinstance(
        config.model, str) else {}  # fmt: skip
    return {_flag(name): value for name, value in {**named, **numbers(config)}.items()}


MEGATRON = Tool(
    name="megatron",
    title="Megatron-LM",
    syntax="argv",
    engines=("megatron", "megatron-fsdp"),
    program="torchrun pretrain_gpt.py",
    launch="torchrun --nproc_per_node {each} --nnodes {nodes} pretrain_gpt.py",
    scripts={"bert": "pretrain_bert.py", "t5": "pretrain_t5.py", "hybrid": "pretrain_hybrid.py"},
    prefixes=("pretrain_gpt.py", "pretrain_mamba.py", "pretrain_hybrid.py", "pretrain_bert.py", "pretrain_t5.py"),
    tells=("--tensor-model-parallel-size", "--num-layers", "--hidden-size", "--micro-batch-size"),
    dimensions={
        "*architecture": "architecture", **{f"--{name.replace('_', '-')}": name for name in _DIMENSIONS.split()},
    },
    alongside={
        "--num-query-groups": (_GROUPS, True),
        "--fp8-format": ("--bf16", True),
        "--use-megatron-fsdp": ("--ckpt-format", "fsdp_dtensor"),
    },
    described=described,
    written=_beside,
    wants=unsaid,
    normalized=arguments,
    settles=(_SCHEDULE,),
    world=("--nproc_per_node", "--nnodes"),
    batch="--global-batch-size",
    per_chunk="--num-layers-per-virtual-pipeline-stage",
    keys=(
        Key(path=Hardware.gpus_per_node, name="--nproc_per_node"),
        Key(path=Training.micro_batch_size, name="--micro-batch-size"),
        Key(path=Training.sequence_length, name="--seq-length"),
        Key(path=Training.dropout.hidden, name="--hidden-dropout"),
        Key(path=Training.dropout.attention, name="--attention-dropout"),
        Key(path=Training.optimizer.name, name="--optimizer",
            values={"adam": "adam", "adamw": "adam", "sgd": "sgd", "muon": "muon", "lion": "lion"}),
        Key(path=Training.offload.optimizer_fraction, name="--optimizer-offload-fraction"),
        Key(path=Training.implementation, name="--transformer-impl",
            values={"transformer-engine": "transformer_engine", "megatron-local": "local"}),
        Key(path=Parallelism.tensor_parallel_size, name="--tensor-model-parallel-size"),
        Key(path=Parallelism.pipeline_parallel_size, name="--pipeline-model-parallel-size"),
        Key(path=Parallelism.context_parallel_size, name="--context-parallel-size"),
        Key(path=Parallelism.expert_parallel_size, name="--expert-model-parallel-size"),
        Key(path=Parallelism.expert_tensor_parallel_size, name="--expert-tensor-parallel-size"),
        Key(path=Parallelism.virtual_pipeline_parallel_size, name="--num-virtual-stages-per-pipeline-rank"),
        Key(path=Parallelism.pipeline_layout, name=_LAYOUT, spelled=_stages),
        Key(path=Parallelism.sequence_parallel, name="--sequence-parallel", off=""),
        Key(path=MegatronSettings.distributed_optimizer, name="--use-distributed-optimizer", off=""),
        Key(path=TorchSettings.moe_token_dispatcher, name="--moe-token-dispatcher-type"),
        *(Key(path=f"engine.{name}", name=_flag(name), off="") for name in _SWITCHES.split()),
        *(Key(path=f"engine.{name}", name=_flag(name)) for name in _VALUES.split()),
        Key(path=Training.activation_checkpointing.policy, name="--recompute-granularity", but="none"),
        Key(path=Training.activation_checkpointing.method, name="--recompute-method"),
        Key(path=Training.activation_checkpointing.num_layers, name="--recompute-num-layers"),
        Key(path=Training.activation_checkpointing.modules, name="--recompute-modules"),
    ),
    meanings=(
        Meaning(sets={Training.precision: "bf16-mixed"}, keys={"--bf16": True}),
        Meaning(sets={Training.precision: "fp16-mixed"}, keys={"--fp16": True}),
        *(
            Meaning(sets={Training.precision: "fp8-mixed"}, keys={"--fp8-format": name, "--bf16": True})
            for name in ("hybrid", "e4m3")
        ),
        *(
            Meaning(sets={Training.attention: ours}, keys={"--attention-backend": theirs})
            for theirs, ours in _KERNELS.items()
        ),
        Meaning(sets={Training.attention: "flash"}, keys={"--use-flash-attn": True}),
        Meaning(sets={Training.gradient_dtype: "fp32"}, keys={_SUMMED: True}),
        Meaning(
            sets={EngineSettings.type: "megatron-fsdp", Training.gradient_dtype: "fp32"},
            keys={"--use-megatron-fsdp": True, _MAIN_GRADS: "fp32"},
        ),
        Meaning(sets={Training.implementation: "megatron-local"}, keys={"--spec": "local"}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"--clip-grad": 0}),
        Meaning(sets={Training.offload.optimizer: "cpu"}, keys={"--optimizer-cpu-offload": True}),
        Meaning(sets={Training.activation_checkpointing.policy: "selective"}, keys={"--recompute-activations": True}),
        Meaning(
            sets={MegatronSettings.gradient_accumulation_fusion: False},
            keys={"--no-gradient-accumulation-fusion": True},
        ),
        Meaning(sets={EngineSettings.type: "megatron-fsdp"}, keys={"--use-megatron-fsdp": True}),
    ),
    defaults={Training.dropout.hidden: 0.1, Training.dropout.attention: 0.1, Training.precision: "fp32"},
    unsaid={
        Training.micro_batch_size: None, Training.sequence_length: None,
        Training.activation_checkpointing.method: None, Training.activation_checkpointing.num_layers: None,
    },
    ignored=("-?", "--lr*", "--min-lr", "--decoupled-*", "--weight-decay*", "--clip-grad", "--adam-*",
             "--sgd-momentum", "--init-method-*", "--train-*", "--save*", "--load*", "--no-load-*", "--no-save-*",
             "--data-*", "--split", "--tokenizer-*", "--tiktoken-*", "--vocab-file", "--merge-file", "--log-*",
             "--no-log-*", "--logging-*", "--eval-*", "--tensorboard-*", "--wandb-*", "--seed", "--nnodes",
             "--node?rank", "--master?addr", "--master?port", "--rdzv*", "--rotary-base", "--rotary-scaling-factor",
             "--mscale*", "--norm-epsilon", "--distributed-*", "--num-workers", "--use-mcore-models", "--mock-data",
             "--attention-backend", "--manual-gc*", "--exit-*", "--no-mmap-bin-files", "--profile*", "--ckpt-*",
             "--dist-ckpt-*", "--async-save", "--auto-detect-*", "--use-persistent-*", "--timing-*",
             "--moe-aux-loss-coeff", "--moe-z-loss-coeff", "--moe-router-bias-update-rate",
             "--moe-router-topk-scaling-factor", "--mtp-loss-scaling-factor", "--fp8-amax-*",
             "--no-check-for-nan-in-loss-and-grad", "--spec", "--container-*",
             "--mpi", "--enable-experimental", "--empty-unused-memory-level", "--loss-scale*",
             "--initial-loss-scale", "--hysteresis", "--test-mode",
             "--no-bias-dropout-fusion", "--te-rng-tracker",
             "--no-position-embedding", "--use-cpu-initialization", "--high-priority-stream-groups",
             "--nccl-communicator-config-path", "--moe-router-force-load-balancing",
             # Schedules, checkpoints and checks; data; the order of ranks; averages that the collective takes.
             "--use-checkpoint-opt_param-scheduler", "--override-opt?param-scheduler", "--no-ckpt-*", "--async-*",
             "--check-*", "--verify-integrity", "--finetune", "--dataloader-type", "--fim-*", "--vocab-extra-ids",
             "--legacy-tokenizer", "--is-hybrid-model", "--rotary-interleaved", "--use-tp-pp-dp-mapping",
             "--disable-gloo-process-groups", "--ddp-average-in-collective", "--muon-momentum",
             "--muon-extra-scale-factor", "--muon-scale-mode", "--glu-linear-offset", "--enable-gpt-oss",
             "--apply-wd-to-qk-layernorm"),
    vocabulary=("megatron",),
    source="Megatron-LM, megatron/training/arguments.py",
)  # fmt: skip
TOOLS = (MEGATRON,)
