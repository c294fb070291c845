"""ms-swift, and LLaMA-Factory's second generation."""

from __future__ import annotations

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.formats.normalized import GPUS, OFFLOAD, RESHARD
from memcore.formats.tool import Key, Meaning, Tool
from memcore.formats.values import TRAINER_OPTIMIZERS
from memcore.tools.fine_tuning import LOOP, LOOPS, SCRIPT, SHARDS, TRAINED, UNSAID
from memcore.tools.loops import of_factory_v1
from memcore.tools.methods import SWIFT_KEYS, written
from memcore.tools.sharding import PACKED_AS, packed_as
from memcore.tools.swift_loop import of_swift
from memcore.tools.swift_releases import OLD_PROGRAMS, TWO_KEYS
from memcore.tools.switches import SWITCHES
from memcore.tools.towers import FREEZES, TRAINABLE

_PEFT = {"tuner_backend": "peft"}
"""Whose adapters it takes where nothing else is said."""
MS_SWIFT = Tool(
    name="ms-swift",
    title="ms-swift",
    syntax="yaml",
    engines=SCRIPT,
    implementations=("transformers", "liger"),
    tells=("tuner_type", "train_type", "sft_type", "rlhf_type", "tuner_backend"),
    always=_PEFT,
    prefixes=tuple(
        f"swift{sign}{each}"
        for each in ("sft", "pt", "rlhf", "dpo", "orpo", "simpo", "infer", "export", "deploy", "eval", "app", "sample",
                     "rollout")
        for sign in (" ", "/cli/")
    )
    + OLD_PROGRAMS,
    model="model",
    launch="NNODES={nodes} NPROC_PER_NODE={each} swift sft --config {file}",
    without={Training.adapter.type: {"tuner_type": "full"}},
    keys=(
        Key(path=Training.micro_batch_size, name="per_device_train_batch_size"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(path=Training.sequence_length, name="max_length"),
        Key(path=Training.adapter.type, name="*adapter"),
        Key(path=Training.adapter.rank, name="lora_rank"),
        Key(path=Training.adapter.init_r, name="*init_r"),
        Key(path=Training.adapter.block_size, name="*block_size"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="target_modules"),
        Key(path=Training.adapter.target_parameters, name="target_parameters"),
        Key(path=Training.adapter.modules_to_save, name="modules_to_save"),
        Key(path=Training.adapter.use_rslora, name="use_rslora"),
        Key(path=Training.activation_checkpointing.use_reentrant, name="gradient_checkpointing_kwargs.use_reentrant"),
        Key(path=Parallelism.ulysses_parallel_size, name="sequence_parallel_size"),
        Key(path=Training.trainable, name=TRAINABLE),
        Key(path=Training.method.teacher, name="*teacher"),
        *LOOP,
        *SHARDS,
        *LOOPS.keys,
    ),
    normalized=of_swift,
    written=lambda config: {**written("ms-swift")(config), **packed_as(config)},
    meanings=(
        Meaning(sets={}, keys=_PEFT),
        Meaning(sets={Training.precision: "bf16"}, keys={"torch_dtype": "bfloat16"}),
        Meaning(sets={Training.precision: "bf16-mixed"}, keys={"torch_dtype": "bfloat16"}),
        Meaning(sets={Training.precision: "fp16"}, keys={"torch_dtype": "float16"}),
        Meaning(sets={Training.precision: "fp16-mixed"}, keys={"torch_dtype": "float16"}),
        Meaning(sets={Training.precision: "fp32"}, keys={"torch_dtype": "float32"}),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"tuner_type": "lora"}),
        Meaning(sets={Training.adapter.type: "dora"}, keys={"tuner_type": "lora", "use_dora": True}),
        Meaning(sets={Training.activation_checkpointing.policy: "none"}, keys={"gradient_checkpointing": False}),
        Meaning(sets={Training.activation_checkpointing.policy: "full"}, keys={"gradient_checkpointing": True}),
        Meaning(
            sets={Training.implementation: "liger", Training.loss: "fused-linear"}, keys={"use_liger_kernel": True}
        ),
        Meaning(
            sets={Training.implementation: "liger"},
            keys={"use_liger_kernel": True, "liger_kernel_config.fused_linear_cross_entropy": False},
        ),
        Meaning(sets={Training.packed_sequences: True}, keys={"packing": True}),
        Meaning(sets={Training.packed_sequences: True}, keys={"padding_free": True}),
        Meaning(sets={Training.quantization: "nf4-double"}, keys={"quant_method": "bnb", "quant_bits": 4}),
        Meaning(
            sets={Training.quantization: "nf4"},
            keys={"quant_method": "bnb", "quant_bits": 4, "bnb_4bit_use_double_quant": False},
        ),
        Meaning(sets={Training.quantization: "int8"}, keys={"quant_method": "bnb", "quant_bits": 8}),
        Meaning(sets={Training.attention: "flash"}, keys={"attn_impl": "flash_attn"}),
        Meaning(sets={Training.attention: "flash"}, keys={"attn_impl": "flash_attention_2"}),
        Meaning(
            sets={Training.attention: "flash", Training.flash_version: 3}, keys={"attn_impl": "flash_attention_3"}
        ),
        Meaning(sets={Training.attention: "sdpa"}, keys={"attn_impl": "sdpa"}),
        Meaning(sets={Training.attention: "math"}, keys={"attn_impl": "eager"}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"max_grad_norm": 0}),
        *(Meaning(sets=sets, keys={"optim": name}) for name, sets in TRAINER_OPTIMIZERS.items()),
    ),
    defaults={Training.micro_batch_size: 1},
    unsaid={**UNSAID, Training.micro_batch_size: None, Training.gradient_accumulation_steps: None},
    ignored=(*TRAINED, "lora_alpha", "model_author", "model_name", PACKED_AS, "ENV.*"),
    switches=SWITCHES,
    settles=(*SWIFT_KEYS, *FREEZES["ms-swift"].keys, *TWO_KEYS,
             "fsdp*", "deepspeed*", "torch_dtype", "bf16", "fp16", "rlhf_type", "task_type", "tuner_type",
             "train_type", "use_galore", "galore_*"),
    vocabulary=("ms-swift", "transformers"),
    closed=True,
    source="ms-swift, arguments/",
)  # fmt: skip


def _setting_of(name: str) -> str:
    """The setting behind a key of ours."""
    return next(each.path for each in SHARDS if each.name == name)


LLAMA_FACTORY_V1 = Tool(
    name="llama-factory-v1",
    title="LLaMA-Factory v1",
    syntax="yaml",
    engines=("none", "ddp", "fsdp"),
    implementations=("transformers", "liger"),
    always={"model_class": "llm", "train_dataset": "data/v1_sft_demo.yaml"},
    without={Training.activation_checkpointing.policy: {"enable_activation_checkpointing": False}},
    tells=("model_class", "dist_config", "peft_config", "kernel_config", "init_config", "train_dataset",
           "sample_backend"),
    model="model",
    launch="USE_V1=1 NNODES={nodes} NPROC_PER_NODE={each} llamafactory-cli sft {file}",
    keys=(
        Key(path=Training.micro_batch_size, name="micro_batch_size"),
        Key(path=Training.sequence_length, name="cutoff_len"),
        Key(path=Training.adapter.type, name="*adapter"),
        Key(path=Training.adapter.rank, name="peft_config.r"),
        Key(path=Training.adapter.dropout, name="peft_config.lora_dropout"),
        Key(path=Training.adapter.target_modules, name="peft_config.target_modules"),
        Key(path=Training.optimizer.name, name="*optimizer_name"),
        Key(path=Training.quantization, name="*bits"),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Parallelism.ulysses_parallel_size, name="cp_size"),
        *LOOP,
        *(each for each in SHARDS if each.name != GPUS),
    ),
    normalized=of_factory_v1,
    meanings=(
        *(
            Meaning(sets={Training.attention: ours}, keys={"flash_attn": theirs})
            for ours, theirs in (("flash", "flash_attention_2"), ("sdpa", "sdpa"), ("math", "eager"))
        ),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"peft_config.name": "lora"}),
        Meaning(sets={EngineSettings.type: "fsdp"}, keys={"dist_config.name": "fsdp2"}),
        *(
            Meaning(sets={_setting_of(name): value}, keys={"dist_config.name": "fsdp2", key: value})
            for name, key, value in ((OFFLOAD, "dist_config.offload_params", True),
                                     (RESHARD, "dist_config.reshard_after_forward", False))
        ),
        *(
            Meaning(
                sets={Training.quantization: f"{kind}-double" if double else kind},
                keys={"quant_config.name": "bnb", "quant_config.quantization_bit": 4,
                      "quant_config.quantization_type": kind, "quant_config.double_quantization": double},
            )
            for kind in ("nf4", "fp4") for double in (True, False)
        ),
        Meaning(
            sets={Training.quantization: "int8"}, keys={"quant_config.name": "bnb", "quant_config.quantization_bit": 8}
        ),
        Meaning(sets={Training.optimizer.name: "muon"}, keys={"optim_config.name": "muon"}),
        Meaning(
            sets={Training.activation_checkpointing.policy: "none"}, keys={"enable_activation_checkpointing": False}
        ),
        Meaning(
            sets={Training.activation_checkpointing.policy: "full"}, keys={"enable_activation_checkpointing": True}
        ),
        Meaning(sets={Training.implementation: "liger"}, keys={"kernel_config.name": "liger_kernel"}),
    ),
    batch="global_batch_size",
    defaults={Training.micro_batch_size: 1, Training.sequence_length: 2048},
    unsaid={**UNSAID, Training.precision: "bf16"},
    ignored=("output_dir", "learning_rate", "max_steps", "train_dataset", "eval_dataset", "sample_backend",
             "max_new_tokens", "model_class", "trust_remote_code", "dist_config.dcp_path", "peft_config.lora_alpha"),
    settles=("quant_config*", "dist_config", "peft_config", "kernel_config", "optim_config", "bf16", "cp_mode",
             "enable_activation_checkpointing"),
    vocabulary=("llama-factory-v1",),
    source="LLaMA-Factory, v1/config/",
)  # fmt: skip
