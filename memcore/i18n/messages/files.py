"""What is said of other tools' files and what was taken from them, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_FILES_IN_CHINESE: Mapping[str, str] = {
    # What several keys mean together
    "found {value}, which {ranks} data-parallel ranks with {each} sequences each do not divide": (
        "值为 {value}，不能被 {ranks} 个数据并行 rank、每个 {each} 条序列整除"
    ),
    "found {value}, which times {stages} stages does not divide {layers} layers": (
        "值为 {value}，乘以 {stages} 个阶段后不能整除 {layers} 层"
    ),
    "how many GPUs there are is not said": "未说明 GPU 数",
    "name them with --gpus": "请用 --gpus 给出",
    "{keys} is {count}, which the sizes of groups do not divide: left out": (
        "{keys} 为 {count}，不能被各组大小整除：已忽略"
    ),
    "{key} is left out: how many micro-batches that is takes the number of GPUs": (
        "{key} 已忽略：换算成微批次数需要知道 GPU 数"
    ),
    "{path} is {value}: the default of {tool}": "{path} 为 {value}：{tool} 的默认值",
    "{key} is not understood, and left out": "{key} 未识别，已忽略",
    "read as a file of {tool}": "按 {tool} 的文件读取",
    "transformers.TrainingArguments and TRL": "transformers.TrainingArguments 与 TRL",
    "several processes without FSDP or DeepSpeed: taken as DDP": "多个进程且未用 FSDP 或 DeepSpeed：按 DDP 处理",
    "lora_target_modules: PEFT has none of its own for {family}": "lora_target_modules：PEFT 对 {family} 没有默认值",
    "taken as all-linear": "按 all-linear 处理",
    "lora_target_modules: not given": "lora_target_modules：未给出",
    "PEFT's for {family}: {names}": "PEFT 对 {family} 的默认值：{names}",
    "hybrid sharding: ranks that share are those of a node": "混合分片：同一节点的 rank 之间分片",
    "say how many with --dp-shard": "请用 --dp-shard 给出个数",
    "fsdp_auto_wrap_policy is {policy}": "fsdp_auto_wrap_policy 为 {policy}",
    "each layer is taken as a unit, which needs less": "按每层一个单元处理，需要更少",
    "deepspeed: {path} is another file": "deepspeed：{path} 是另一个文件",
    "its stage is not known here": "此处不知其 ZeRO 阶段",
    "taken from its name is ZeRO stage {stage}": "从文件名得知为 ZeRO 阶段 {stage}",
    "bf16.enabled is 'auto': bf16 is taken, the trainer decides": "bf16.enabled 为 'auto'：按 bf16 处理，由训练器决定",
    "{key} is left out: deepspeed.checkpointing is called by Megatron-DeepSpeed alone": (
        "{key} 已忽略：只有 Megatron-DeepSpeed 调用 deepspeed.checkpointing"
    ),
    "--num-query-groups counts with {flag} only, and is left out": "--num-query-groups 仅在有 {flag} 时有效，已忽略",
    "{flag} counts with --use-megatron-fsdp only, and is left out": "{flag} 仅在有 --use-megatron-fsdp 时有效，已忽略",
    "--vocab-size is {size}: {whose}": "--vocab-size 为 {size}：{whose}",
    "BERT's cased words": "BERT 区分大小写的词表",
    "--vocab-size is {size}: {whose} and further ones": "--vocab-size 为 {size}：{whose}和另加的词",
    "--vocab-size is {size}: that of {name}": "--vocab-size 为 {size}：取自 {name}",
    "--vocab-size is {size}: that of GPT-2's words and merges": "--vocab-size 为 {size}：取自 GPT-2 的词表与合并表",
    "--vocab-size is not given, and the tokenizer's is not known: add it to the command": (
        "未给出 --vocab-size，分词器的词表大小也未知：请加到命令中"
    ),
    "nanotron is modelled with its Llama: {reason}": "nanotron 仅对其 Llama 建模：{reason}",
    "its Qwen2 has layers of its own": "其 Qwen2 有自己的层",
    "its StarCoder2 has layers of its own": "其 StarCoder2 有自己的层",
    "its experts have layers of their own": "其专家有自己的层",
    "a loss with that term keeps more": "带该项的损失会保存更多",
    "{key} is {padded}: padded from {words} to a multiple of {multiple} times tp": (
        "{key} 为 {padded}：从 {words} 填充到 {multiple} 乘 tp 的倍数"
    ),
    # Other calculators' configs
    "DistributedDataParallel divides no layers": "DistributedDataParallel 不切分层",
    "ZeRO divides no layers": "ZeRO 不切分层",
    "layers with routed experts are not divided beside FSDP": "与 FSDP 一起时不切分含路由专家的层",
    "engine.{key} {value} has no meaning for engine.type {name}: left out": (
        "engine.{key} {value} 对 engine.type {name} 无意义：已忽略"
    ),
    "engine.sharding_strategy 'no_shard' keeps everything on every GPU: taken as engine.type 'ddp'": (
        "engine.sharding_strategy 'no_shard' 在每个 GPU 上保留全部：按 engine.type 'ddp' 处理"
    ),
    "engine.{key} {value} needs ZeRO-{least}, found {stage}: left out": (
        "engine.{key} {value} 需要 ZeRO-{least}，当前为 {stage}：已忽略"
    ),
    "taken as engine.type 'megatron-deepspeed', which does": "按会切分层的 engine.type 'megatron-deepspeed' 处理",
    "all of these GPUs are taken as data-parallel ranks": "这些 GPU 全部按数据并行 rank 处理",
    "training.activation_checkpointing {level}: taken as policy {policy}": (
        "training.activation_checkpointing {level}：按策略 {policy} 处理"
    ),
    "{message}, the nearest that frameworks have": "{message}，即框架中最接近的",
    "hardware.total_gpu_memory_gb: each GPU counts on its own, left out": (
        "hardware.total_gpu_memory_gb：每个 GPU 单独计算，已忽略"
    ),
    "parallelism.sequence_parallel has no meaning without tensor parallelism: left out": (
        "没有张量并行时 parallelism.sequence_parallel 无意义：已忽略"
    ),
    "hardware.num_gpus {gpus} is not the product of the parallel sizes {product}: data parallelism is what the GPUs "
    "leave, as launchers derive it": (
        "hardware.num_gpus {gpus} 不等于各并行规模之积 {product}：数据并行按启动器的方式由剩余 GPU 得出"
    ),
    "model.largest_layer_params: computed from the model's sizes, left out": (
        "model.largest_layer_params：由模型尺寸算出，已忽略"
    ),
    "model.hidden_size {hidden} is not divisible by {heads} heads: assumed heads of {width}": (
        "model.hidden_size {hidden} 不能被 {heads} 个头整除：假设每头 {width}"
    ),
    "model: a mixture of experts with as many key as query heads, counted from its sizes{stated}": (
        "model：键头与查询头同样多的混合专家模型，由尺寸计算{stated}"
    ),
    "a mixture of experts needs {names}": "混合专家模型需要 {names:s}",
    "{name}, not quantized": "{name}，未量化",
    "{count} is what the file states": "文件所写为 {count}",
    "found {value}, which is not modelled": "为 {value}，未建模",
    "leave it out for a job without": "若要得到没有它的任务，请去掉",
}
