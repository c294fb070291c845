"""Why a way to train is refused or what was taken for it, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_TRAINING_IN_CHINESE: Mapping[str, str] = {
    "its quantization_config is left out: {stored} weights cannot be trained": (
        "不计其 quantization_config：{stored} 权重无法训练"
    ),
    "for adapters on them set {adapter:s}, to serve them {engine:s}": (
        "在其上训练适配器请设 {adapter:s}，推理请设 {engine:s}"
    ),
    "by its quantization_config": "按其 quantization_config",
    "of a GPU of unknown size: not counted": "GPU 容量未知：未计入",
    # The loss
    "splits the loss into {count} chunks": "把损失分成 {count} 块",
    "at most {most} are supported": "最多支持 {most} 层",
    # Methods
    "a sequence has {tokens} tokens": "一个序列有 {tokens} 个 token",
    "found {method} with layers of {code}": "值为 {method}，层代码为 {code}",
    "training.loss {kind}": "training.loss 为 {kind}",
    "applies to methods with a reference model, found {method}": "仅适用于有参考模型的方法，当前为 {method}",
    "{method} compares with no reference model": "{method} 不与参考模型比较",
    "as the trainers do": "与各训练器相同",
    "pipeline parallelism": "流水线并行",
    # Liger
    "{family} has no part that the other kernels replace": "{family} 没有可由其他 kernel 替换的部分",
    # Adapters
    "{model} has no {names}, so the adapter skips them": "{model} 没有 {names}，适配器会跳过它们",
    "'lora-fa' freezes LoRA's first matrices": "'lora-fa' 冻结 LoRA 的第一个矩阵",
    "needs training.adapter {kind}": "需要 training.adapter {kind}",
    "the embedding and the head are trained in {dtypes}": "嵌入与输出头以 {dtypes} 训练",
    "FSDP2 needs a single dtype per group": "FSDP2 的一个组只能有一种 dtype",
    "supported only with adapters of linear layers, found {kind}": "仅支持线性层的适配器，当前为 {kind}",
    "supported only on unquantized transformers layers: use lora, or drop training.quantization and "
    "set training.implementation to transformers": (
        "仅支持 transformers 的未量化层：请改用 lora，或去掉 training.quantization 并将 training.implementa"
        "tion 设为 transformers"
    ),
    "supported only on transformers layers, unquantized or quantized by bitsandbytes": (
        "仅支持 transformers 的层：未量化，或由 bitsandbytes 量化"
    ),
    "{model} has no linear layers with supported adapters": "{model} 没有支持适配器的线性层",
    "as most recipes do": "与多数训练配方相同",
    "found {loss}, which bypasses an adapter on the head": "值为 {loss}，它会绕过输出头的适配器",
    "on the output head only lora is supported, found {kind}": "输出头仅支持 lora，当前为 {kind}",
    "trained copies are supported only for {names}": "可训练副本仅支持 {names:s}",
    "LitGPT's LoRA trains no copies of modules": "LitGPT 的 LoRA 不训练模块副本",
    "a module has an adapter or is trained in full, not both": "一个模块要么有适配器，要么完整训练，不能兼有",
    "{name} has width {width}, which is not a multiple of the block size": "{name} 宽为 {width}，不是块大小的倍数",
    "not supported yet for {kind}": "{kind} 暂不支持",
    "OFT takes a rank (number of blocks) or a block size, not both": "OFT 只能给出秩（块数）或块大小之一",
    "supported only with transformers' decoders": "仅支持 transformers 的解码器",
    "supported only with transformers' plain decoders": "仅支持 transformers 的普通解码器",
    "supported only with transformers' layers": "仅支持 transformers 的层",
    "supported only with sdpa attention and without quantization": "仅支持 sdpa 注意力且不量化",
    "supported only with engine.type none or ddp": "仅支持 engine.type none 或 ddp",
    "{kind} has no {setting}": "{kind} 没有 {setting:s}",
    "norms: {names}": "归一化层：{names:s}",
    "as in PEFT's examples": "与 PEFT 的示例相同",
    "PEFT's prefix tuning does not support activation checkpointing": (
        "PEFT 的 prefix tuning 不支持激活检查点（重计算）"
    ),
    "prefix tuning fills a cache": "prefix tuning 会填充缓存",
    "not supported yet when rows of the head are trainable": "输出头的行可训练时暂不支持",
    "rows of {embedding} are trainable": "{embedding} 的行可训练",
    "supported only with LitGPT's layers": "仅支持 LitGPT 的层",
    "needs identical layers, and more than 2 of them, unlike {model}": "需要各层相同且多于 2 层，{model} 不满足",
    "with an adapter, only the adapter is trained": "有适配器时只训练适配器",
    "allowed: {part}, or this with {others}": "允许：{part}，或它与 {others:s} 一起",
    "adapters are supported only in the language model of {model}": "{model} 仅支持语言模型中的适配器",
    "parts of parameter names: {names}, or all": "参数名的片段：{names:s}，或 all",
    # Optimizers
    "{optimizer} supports {names}": "{optimizer} 支持 {names:s}",
    "the step on the host runs after the backward pass": "在主机上的更新在反向传播之后进行",
    "torch cannot mix plain tensors with DTensors": "torch 不能混用普通张量与 DTensor",
    "pytorch_optimizer's preconditioners are plain tensors, and {reason}": (
        "pytorch_optimizer 的预条件矩阵是普通张量，而{reason}"
    ),
    "use implementation {name}": "请用实现 {name}",
    "apollo_torch's projection is a plain tensor, and {reason}": "apollo_torch 的投影是普通张量，而{reason}",
    "its states are plain tensors, and {reason}": "其状态是普通张量，而{reason}",
    "'galore' projects DTensors": "'galore' 可投影 DTensor",
    "its step needs unsharded matrices": "其更新需要未切分的矩阵",
    "{engine} passes it slices of one flat vector": "{engine} 交给它的是一个扁平向量的片段",
    "engine.type ddp does not shard them": "engine.type ddp 不切分矩阵",
    "projecting matrices that tensor parallelism also shards is not supported yet": (
        "暂不支持投影同时被张量并行切分的矩阵"
    ),
    "splitting its tiles among ranks of {engine} is not supported yet": "暂不支持在 {engine} 的各 rank 间切分其分块",
    "engine.type: fsdp (FSDP2), none": "engine.type：fsdp（FSDP2）、none",
    "splitting its tiles among replicas is not supported yet": "暂不支持在副本间切分其分块",
    "leave parallelism.data_parallel_shard_size out": "请去掉 parallelism.data_parallel_shard_size",
    "found {optimizer} for parameters in {dtype}": "值为 {optimizer}，而参数为 {dtype}",
    "it factorizes matrices in fp32": "它分解 fp32 的矩阵",
    "bf16-mixed keeps parameters in fp32": "bf16-mixed 使参数保持 fp32",
    "{optimizer} does not project gradients": "{optimizer} 不投影梯度",
    "{optimizer} keeps {dtype}": "{optimizer} 保持 {dtype}",
    # Precision, losses and kernels
    "found {compute} with parameters in {stored}": "值为 {compute}，而参数为 {stored}",
    "only FSDP and autocast can compute in another dtype": "只有 FSDP 和 autocast 能以另一种 dtype 计算",
    "PyTorch's gradients have the parameter dtype {dtype}": "PyTorch 的梯度与参数 dtype 相同，为 {dtype}",
    "found true with {count} micro-batches": "值为 true，而有 {count} 个微批次",
    "gradients are freed before they can accumulate": "梯度在累积之前就已释放",
    "supported only on one GPU or with FSDP2, without a pipeline": "仅支持单 GPU 或 FSDP2，且无流水线",
    "with {setting}, the gradients never exist all at once": "使用 {setting} 时，全部梯度不会同时存在",
    "its fused loss never creates logits": "其融合损失不产生 logits",
    "this release of Unsloth writes the gradient of the logits in their place": (
        "此版本的 Unsloth 把 logits 的梯度写回原处"
    ),
    "Unsloth's own loss, whose chunks are as large as free memory allows": "Unsloth 自己的损失：块的大小取决于空闲显存",
    "TRL's trainer never creates logits": "TRL 的训练器不产生 logits",
    "found {tokens}, which makes {count} chunks of {sequence} tokens": (
        "值为 {tokens}，会把 {sequence} 个 token 分成 {count} 块"
    ),
    "a pipeline's schedule computes the loss, outside the model": "流水线的调度在模型之外计算损失",
    "{layers} leaves the loss to the trainer": "{layers} 的损失由训练器计算",
    "chunked is supported only inside the model": "chunked 仅支持在模型内部计算",
    "found {loss}, whose number of chunks does not divide {tokens} tokens": (
        "值为 {loss}，其分块数不能整除 {tokens} 个 token"
    ),
    "{loss} is part of the model": "{loss} 是模型的一部分",
    "the default of transformers 4": "transformers 4 的默认值",
    "the Trainer's choice before transformers 4.54": "transformers 4.54 之前 Trainer 的选择",
    "{family} computes its loss on logits as they are": "{family} 直接用原精度的 logits 计算损失",
    "{family} did not upcast its logits before transformers 4.49": (
        "transformers 4.49 之前 {family} 不把 logits 转为 fp32"
    ),
    "{loss} is part of the model, and {code} leaves the loss to the trainer": (
        "{loss} 是模型的一部分，而 {code} 把损失留给训练器"
    ),
    "choose cross-entropy, or no shared experts": "请改用 cross-entropy，或去掉专家并行",
    "leave out training.loss_shift": "请去掉 training.loss_shift",
    "found 'cut-cross-entropy' with hidden states in {dtype}": "值为 'cut-cross-entropy'，而隐藏状态为 {dtype}",
    "it supports bf16 and fp16": "支持 bf16 和 fp16",
    "training.loss {loss} has its own kernels": "training.loss {loss} 有自己的 kernel",
    "Unsloth computes {family:s} in fp32 on GPUs without bf16, which is not counted: memory is higher": (
        "在没有 bf16 的 GPU 上 Unsloth 以 fp32 计算 {family:s}，此处未计入：实际显存更高"
    ),
    "{layers} has no SDPA for {family}": "{layers} 对 {family} 没有 SDPA",
    "{layers} has no other for this family": "{layers} 对该系列没有其他",
    "{layers} has no {kernel} for this family": "{layers} 对该系列没有 {kernel}",
    "transformers' flash attention asks whether one sequence is packed, which breaks the graph of a block": (
        "transformers 的 flash attention 会检查单条序列是否为打包序列，使块的计算图中断"
    ),
    "{reason}: its soft cap needs flash attention": "{reason}：其 soft cap 需要 flash attention",
    "{kernel} has no fp32 kernel": "{kernel} 没有 fp32 kernel",
    "expert parallelism is supported only with 'torchtitan'": "专家并行仅支持 'torchtitan'",
    "it runs with engine.type none or ddp, found {engine}": "它在 engine.type none 或 ddp 下运行，当前为 {engine}",
    "'padded' is not supported yet with attention {kernel}": "'padded' 暂不支持注意力 {kernel}",
    "layers of {implementation}": "{implementation} 的层",
    "compiled blocks are not tiled": "编译后的 block 不分块",
    "supported only for dense gated feed-forward layers of three matrices, unlike {model}": (
        "仅支持三个矩阵的稠密门控前馈层，{model} 不是"
    ),
    "compiled blocks are not supported yet for {what}": "{what}暂不支持编译",
    "supported only for layers of 'torchtitan' and 'transformers', found {implementation}": (
        "仅支持 'torchtitan' 与 'transformers' 的层，当前为 {implementation}"
    ),
    "torchao supports {recipes}": "torchao 支持 {recipes:s}",
    "torchao gathers in float8 only with 'tensorwise', found {recipe}": (
        "torchao 只在 'tensorwise' 下以 float8 做 all-gather，当前为 {recipe}"
    ),
    "{model} has no recurrent mixers": "{model} 没有循环混合层",
    "{layers} has no KV cache in training": "{layers} 在训练中没有 KV 缓存",
    "transformers turns the cache off under checkpointing": "使用激活检查点时 transformers 会关闭缓存",
    "found {value}, which is not supported yet in a pipeline with expert parallelism": (
        "值为 {value}，在带专家并行的流水线中暂不支持"
    ),
    # nanotron
    "supported with nanotron: {values}": "nanotron 可用：{values:s}",
    "nanotron supports only {only}": "nanotron 只支持 {only:s}",
    "tied embeddings": "共享嵌入",
    "nanotron's ranks each hold part of the logits": "nanotron 的各 rank 只持有部分 logits",
    "adapters on different layers by module are not supported yet": "暂不支持各模块的适配器位于不同的层",
    "the nearest is {nearest:s}": "最接近的是 {nearest:s}",
    "this library is not supported yet": "暂不支持这个库",
    "supported only for adapters of the decoder's linear layers": "仅支持解码器线性层上的适配器",
    "{model:s} has layers 0 to {last}": "{model:s} 的层号为 0 至 {last}",
    "nanotron's pipeline needs at least {count} micro-batches": "nanotron 的流水线至少需要 {count} 个微批次",
    "engine.tp_mode is {mode}": "engine.tp_mode 为 {mode}",
    "nanotron supports 0 and 1": "nanotron 支持 0 和 1",
    "nanotron's row-parallel matrices need tp_mode 'REDUCE_SCATTER'": (
        "nanotron 的行并行矩阵需要 tp_mode 'REDUCE_SCATTER'"
    ),
    "'nanotron' is supported only for Llama, Qwen2 and SmolLM3 models": (
        "'nanotron' 仅支持 Llama、Qwen2 和 SmolLM3 模型"
    ),
    "pipelines of nanotron's Qwen2 are not supported yet": "暂不支持 nanotron 的 Qwen2 使用流水线",
    "{model} lacks {what}": "{model} 缺少{what}",
    "nanotron requires head_dim = hidden_size / num_attention_heads, unlike {model}'s": (
        "nanotron 要求 head_dim = hidden_size / num_attention_heads，{model} 不是这样"
    ),
    "nanotron's load balancing leaves stage {number} of {model} without a layer or a loss": (
        "nanotron 的负载均衡使 {model} 的第 {number} 级没有层或损失"
    ),
    # Megatron-DeepSpeed
    "needs training.activation_checkpointing 'full'": "需要 training.activation_checkpointing 'full'",
    "with {setting} each rank already holds only part of the sequence": "有 {setting} 时各 rank 已只持有序列的一部分",
    "Megatron-DeepSpeed supports flash and math": "Megatron-DeepSpeed 支持 flash 和 math",
    "DeepSpeed's pipelines support 0 and 1": "DeepSpeed 的流水线支持 0 和 1",
    "found {value}, which is not supported yet in DeepSpeed's pipelines": (
        "值为 {value}，在 DeepSpeed 的流水线中暂不支持"
    ),
    "DeepSpeed uses 1f1b": "DeepSpeed 使用 1f1b",
    "Megatron-DeepSpeed supports one or the other: set one of them to 1": (
        "Megatron-DeepSpeed 只支持其一：请将其中之一设为 1"
    ),
    "found {ranks}, which does not divide {model}'s {count} heads": ("值为 {ranks}，不能整除 {model} 的 {count} 个头"),
    "Megatron-DeepSpeed's Ulysses needs as many key heads as query heads": (
        "Megatron-DeepSpeed 的 Ulysses 需要键头与查询头同样多"
    ),
    "'megatron-deepspeed' is supported only for multi-head attention and feed-forward layers": (
        "'megatron-deepspeed' 仅支持多头注意力与前馈层"
    ),
    "'megatron-deepspeed' supports only softmax routing, without groups, biases or shared experts": (
        "'megatron-deepspeed' 仅支持 softmax 路由，不支持分组、偏置或共享专家"
    ),
    "found {value} with routed experts, which is not supported yet with Megatron-DeepSpeed": (
        "值为 {value} 且有路由专家，Megatron-DeepSpeed 下暂不支持"
    ),
    "DeepSpeed's mixture of experts supports 0, 1 and 2": "DeepSpeed 的混合专家支持 0、1 和 2",
    "each token is routed to {chosen} of {experts} experts": "每个 token 路由到 {experts} 个专家中的 {chosen} 个",
    "'megatron-deepspeed' has no query and key norms and no sliding windows": (
        "'megatron-deepspeed' 没有查询和键的归一化，也没有滑动窗口"
    ),
    "quantized weights take more GPU memory offloaded, not less": "量化权重卸载后占用的 GPU 显存更多而不是更少",
    "use {value}": "请使用 {value}",
    "needs {setting} 3, found {stage}": "需要 {setting} 3，当前为 {stage}",
    "applies to {setting} 3, found {stage}": "仅适用于 {setting} 3，当前为 {stage}",
    "supported only with transformers' layers, found {value}": "仅支持 transformers 的层，当前为 {value}",
    "supported with {other}, found {engine}": "支持 {other}，当前为 {engine}",
    "supported only with {other}, found {engine}": "仅支持 {other}，当前为 {engine}",
    " times {others} ranks of other groups": "（乘以其他组的 {others} 个 rank）",
    "found {own}{times}, but hardware.num_gpus is {gpus}": "值为 {own}{times}，但 hardware.num_gpus 为 {gpus}",
    "LitGPT supports {names}, or {all}": "LitGPT 支持 {names:s}，或 {all:s}",
    "{row} ({chosen}) keeps states like the parameters, in {kept}": "{row} ({chosen}) 的状态与参数相同，为 {kept}",
    "applies to engine.version {value}": "仅适用于 engine.version {value}",
    "distillation: the teacher leaves the GPU before the update": "distillation：教师模型在更新前离开 GPU",
    "distillation: the teacher answers from servers of its own": "distillation：教师模型由自己的服务器回答",
    "probabilities of its likeliest tokens are counted like those of answers": "其最可能 token 的概率按回答的概率计入",
    "train_kd: the teacher is sharded like the model": "train_kd：教师模型与模型一样切分",
    "the divergence is counted as torchtune computes it": "散度按 torchtune 的计算方式计入",
}
