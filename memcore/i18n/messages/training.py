"""Why a way to train is refused or what was taken for it, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_TRAINING_IN_CHINESE: Mapping[str, str] = {
    # The loss
    "makes {count} chunks of the loss": "使损失分成 {count} 块",
    "at most {most} are recorded": "最多记录 {most} 块",
    # Adapters
    "'lora-fa' freezes LoRA's first matrices": "'lora-fa' 冻结 LoRA 的第一个矩阵",
    "needs training.adapter {kind}": "需要 training.adapter {kind}",
    "the embedding and the head learn in {dtypes}": "嵌入与输出头以 {dtypes} 学习",
    "FSDP2 takes one dtype for a group": "FSDP2 的一个组只能有一种 dtype",
    "modelled beside adapters of linear layers, found {kind}": "仅与线性层的适配器一起建模，当前为 {kind}",
    "modelled beside unquantized layers of transformers": "仅对 transformers 的未量化层建模",
    "modelled beside unquantized layers of transformers, or those of bitsandbytes": (
        "仅对 transformers 的未量化层或 bitsandbytes 的层建模"
    ),
    "{kind} adds no tokens": "{kind} 不添加 token",
    "{model} has no linear layers beside which adapters are modelled": "{model} 没有可对适配器建模的线性层",
    "as most recipes do": "与多数训练配方相同",
    "found {loss}, which passes an adapter of the head by": "值为 {loss}，它会绕过输出头的适配器",
    "of the output head modelled for lora, found {kind}": "输出头仅对 lora 建模，当前为 {kind}",
    "trained copies are modelled of {names}": "仅对 {names:s} 的可训练副本建模",
    "LitGPT's LoRA trains no copies of modules": "LitGPT 的 LoRA 不训练模块副本",
    "a module has an adapter or learns as a whole, not both": "一个模块要么有适配器，要么整体学习，不能兼有",
    "{name} is {width} wide, no whole number of blocks": "{name} 宽为 {width}，不是整数个块",
    "not modelled for {kind}": "对 {kind} 未建模",
    "OFT has either a rank, the number of blocks, or their size": "OFT 只能给出秩（块数）或块大小之一",
    "modelled before transformers' decoders only": "仅在 transformers 的解码器之前建模",
    "modelled with transformers' plain decoders only": "仅对 transformers 的普通解码器建模",
    "modelled with transformers' layers only": "仅对 transformers 的层建模",
    "modelled with sdpa, unquantized": "仅对 sdpa、未量化的情形建模",
    "modelled with none and ddp": "仅对 none 和 ddp 建模",
    "{kind} has none": "{kind} 没有此项",
    "{kind} has no rank": "{kind} 没有秩",
    "as in PEFT's examples": "与 PEFT 的示例相同",
    "PEFT's prefix tuning works without checkpoints only": "PEFT 的 prefix tuning 只能在没有检查点时使用",
    "prefix tuning fills a cache": "prefix tuning 会填充缓存",
    "not modelled where rows of the head learn": "输出头的行可学习时未建模",
    "rows of {embedding} learn": "{embedding} 的行可学习",
    "modelled with LitGPT's layers": "仅对 LitGPT 的层建模",
    "{model} has several kinds of layers, or too few": "{model} 有多种层，或层数太少",
    "with an adapter only the adapter learns": "有适配器时只有适配器学习",
    "parts of parameter names: {names}, or all": "参数名的片段：{names:s}，或 all",
    "applies to lora and dora, found {kind}": "仅适用于 lora 和 dora，当前为 {kind}",
    # Optimizers
    "{optimizer} has {names}": "{optimizer} 可用 {names:s}",
    "the step on the host comes after the backward pass": "在主机上的更新在反向传播之后进行",
    "torch mixes no plain tensors with DTensors": "torch 不能混用普通张量与 DTensor",
    "pytorch_optimizer's preconditioners are plain tensors, and {reason}": (
        "pytorch_optimizer 的预条件矩阵是普通张量，而{reason}"
    ),
    "implementation {name} steps": "可用实现 {name}",
    "apollo_torch's projection is a plain tensor, and {reason}": "apollo_torch 的投影是普通张量，而{reason}",
    "its states are plain tensors, and {reason}": "其状态是普通张量，而{reason}",
    "'galore' projects DTensors": "'galore' 可投影 DTensor",
    "its step needs whole matrices": "其更新需要完整矩阵",
    "{engine} gives it pieces of one flat vector": "{engine} 交给它的是一个扁平向量的片段",
    "engine.type ddp keeps them whole": "engine.type ddp 保持其完整",
    "projecting those that tensor parallelism shards too is not modelled": "对同时被张量并行切分的矩阵做投影未建模",
    "how it shares tiles among ranks of {engine} is not modelled": "它如何在 {engine} 的各 rank 间分配分块未建模",
    "engine.type: fsdp (FSDP2), none": "engine.type：fsdp（FSDP2）、none",
    "how it shares tiles among replicas is not modelled": "它如何在副本间分配分块未建模",
    "leave parallelism.data_parallel_shard_size out": "请去掉 parallelism.data_parallel_shard_size",
    "found {optimizer} for parameters in {dtype}": "值为 {optimizer}，而参数为 {dtype}",
    "it factorizes matrices in fp32": "它分解 fp32 的矩阵",
    "bf16-mixed keeps them so": "bf16-mixed 使其保持 fp32",
    "{optimizer} projects no gradients": "{optimizer} 不投影梯度",
    "{optimizer} keeps {dtype}": "{optimizer} 保持 {dtype}",
    # Precision, losses and kernels
    "found {compute} with parameters in {stored}": "值为 {compute}，而参数为 {stored}",
    "only FSDP and autocast compute in another dtype": "只有 FSDP 和 autocast 以另一种 dtype 计算",
    "PyTorch's gradients have the parameter dtype {dtype}": "PyTorch 的梯度与参数 dtype 相同，为 {dtype}",
    "found true with {count} micro-batches": "值为 true，而有 {count} 个微批次",
    "gradients are gone before they can add up": "梯度在累积之前就已释放",
    "modelled on one GPU and with FSDP2, without a pipeline": "仅对单 GPU 与 FSDP2、无流水线建模",
    "with {setting} no moment has all gradients": "有 {setting} 时没有一个时刻同时存在全部梯度",
    "its fused loss makes no logits": "其融合损失不产生 logits",
    "found {tokens}, which makes {count} chunks of {sequence} tokens": (
        "值为 {tokens}，会把 {sequence} 个 token 分成 {count} 块"
    ),
    "a pipeline's schedule computes the loss, outside the model": "流水线的调度在模型之外计算损失",
    "{layers} leaves the loss to the trainer": "{layers} 的损失由训练器计算",
    "chunked is modelled inside the model only": "chunked 仅在模型内部建模",
    "found {loss}, into which {tokens} tokens cannot be cut equally": "值为 {loss}，{tokens} 个 token 无法均分",
    "{loss} is part of the model": "{loss} 是模型的一部分",
    "the default of transformers 4": "transformers 4 的默认值",
    "the Trainer's choice before transformers 4.54": "transformers 4.54 之前 Trainer 的选择",
    "{family} did not upcast its logits before transformers 4.49": (
        "transformers 4.49 之前 {family} 不把 logits 转为 fp32"
    ),
    "leave out training.loss_shift": "请去掉 training.loss_shift",
    "found 'cut-cross-entropy' with hidden states in {dtype}": "值为 'cut-cross-entropy'，而隐藏状态为 {dtype}",
    "it takes bf16 and fp16": "它接受 bf16 和 fp16",
    "training.loss {loss} has kernels of its own": "training.loss {loss} 有自己的内核",
    "{layers} has no SDPA for {family}": "{layers} 对 {family} 没有 SDPA",
    "{layers} has no {kernel} for this family": "{layers} 对该系列没有 {kernel}",
    "{reason}: its soft cap needs flash attention": "{reason}：其 soft cap 需要 flash attention",
    "{kernel} has no fp32 kernel": "{kernel} 没有 fp32 内核",
    "expert parallelism is modelled with 'torchtitan'": "专家并行仅对 'torchtitan' 建模",
    "it runs with engine.type none or ddp, found {engine}": "它在 engine.type none 或 ddp 下运行，当前为 {engine}",
    "'padded' with attention {kernel} is not modelled": "'padded' 与注意力 {kernel} 的组合未建模",
    "layers of {implementation}": "{implementation} 的层",
    "compiled blocks are not modelled for {what}": "编译的块对{what}未建模",
    "modelled for 'torchtitan' layers only, found {implementation}": (
        "仅对 'torchtitan' 的层建模，当前为 {implementation}"
    ),
    "torchao has {recipes}": "torchao 可用 {recipes:s}",
    "torchao gathers in float8 with 'tensorwise' only, found {recipe}": (
        "torchao 只在 'tensorwise' 下以 float8 聚集，当前为 {recipe}"
    ),
    "{model} has no recurrent mixers": "{model} 没有循环混合层",
    "{layers} has no KV cache in training": "{layers} 在训练中没有 KV 缓存",
    "transformers turns the cache off under checkpointing": "使用激活检查点时 transformers 会关闭缓存",
    "found {value}, which is not modelled in a pipeline with expert parallelism": (
        "值为 {value}，在带专家并行的流水线中未建模"
    ),
    # nanotron
    "nanotron has: {values}": "nanotron 可用：{values:s}",
    "nanotron has {only} only": "nanotron 只有 {only:s}",
    "tied embeddings": "共享嵌入",
    "nanotron's ranks have parts of the logits": "nanotron 的各 rank 只有部分 logits",
    "nanotron's pipeline needs at least {count} micro-batches": "nanotron 的流水线至少需要 {count} 个微批次",
    "engine.tp_mode is {mode}": "engine.tp_mode 为 {mode}",
    "nanotron has 0 and 1": "nanotron 可用 0 和 1",
    "nanotron's rows need tp_mode 'REDUCE_SCATTER'": "nanotron 的行切分需要 tp_mode 'REDUCE_SCATTER'",
    "'nanotron' is modelled for Llamas": "'nanotron' 仅对 Llama 建模",
    "{model} lacks {what}": "{model} 缺少{what}",
    "nanotron's heads are hidden size / heads wide, unlike {model}'s": (
        "nanotron 的头宽为隐藏维度 / 头数，与 {model} 不同"
    ),
    "nanotron's balance leaves stage {number} of {model} without a layer or a loss": (
        "nanotron 的均衡使 {model} 的阶段 {number} 没有层或损失"
    ),
    # Megatron-DeepSpeed
    "needs training.activation_checkpointing 'full'": "需要 training.activation_checkpointing 'full'",
    "with {setting} ranks have parts of the sequence already": "有 {setting} 时各 rank 已只有序列的一部分",
    "Megatron-DeepSpeed has flash, math": "Megatron-DeepSpeed 可用 flash、math",
    "DeepSpeed's pipelines take 0 and 1": "DeepSpeed 的流水线可用 0 和 1",
    "found {value}, which is not modelled in DeepSpeed's pipelines": "值为 {value}，在 DeepSpeed 的流水线中未建模",
    "DeepSpeed's is 1f1b": "DeepSpeed 的为 1f1b",
    "Megatron-DeepSpeed has one of both": "Megatron-DeepSpeed 只能二选一",
    "found {ranks}, which cannot share {model}'s {count} heads equally": (
        "值为 {ranks}，无法均分 {model} 的 {count} 个头"
    ),
    "Megatron-DeepSpeed's Ulysses needs as many key heads as query heads": (
        "Megatron-DeepSpeed 的 Ulysses 需要键头与查询头同样多"
    ),
    "'megatron-deepspeed' is modelled for attention over heads and feed-forward layers": (
        "'megatron-deepspeed' 建模了按头的注意力与前馈层"
    ),
    "'megatron-deepspeed' has experts that a softmax chooses, without groups, biases or shared ones": (
        "'megatron-deepspeed' 的专家由 softmax 选择，没有分组、偏置或共享专家"
    ),
    "found {value} with routed experts, which is not modelled with Megatron-DeepSpeed": (
        "为 {value} 且有路由专家，Megatron-DeepSpeed 下未建模"
    ),
    "DeepSpeed's mixture of experts takes 0, 1 and 2": "DeepSpeed 的混合专家可用 0、1 和 2",
    "every token goes to {chosen} of {experts} experts": "每个 token 去往 {experts} 个专家中的 {chosen} 个",
    "'megatron-deepspeed' has no norms of queries and keys, and no sliding windows": (
        "'megatron-deepspeed' 没有查询和键的归一化，也没有滑动窗口"
    ),
    "needs {setting} 3, found {stage}": "需要 {setting} 3，当前为 {stage}",
    "applies to {setting} 3, found {stage}": "仅适用于 {setting} 3，当前为 {stage}",
    "modelled with layers of transformers, found {value}": "仅对 transformers 的层 建模，当前为 {value}",
    "modelled with {other}, found {engine}": "仅对 {other} 建模，当前为 {engine}",
    "modelled with {other} only, found {engine}": "仅对 {other} 建模，当前为 {engine}",
    " times {others} ranks of other groups": "（乘以其他组的 {others} 个 rank）",
    "found {own}{times}, but hardware.num_gpus is {gpus}": "值为 {own}{times}，但 hardware.num_gpus 为 {gpus}",
    "LitGPT's are {names}, or {all}": "LitGPT 的有 {names:s}，或 {all:s}",
    "{row} ({chosen}) keeps states like the parameters, in {kept}": "{row} ({chosen}) 的状态与参数相同，为 {kept}",
    "applies to engine.version {value}": "仅适用于 engine.version {value}",
}
