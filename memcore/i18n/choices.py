"""What the values of settings with few values mean, in Chinese, by the English texts."""

from __future__ import annotations

from collections.abc import Mapping

CHOICES_IN_CHINESE: Mapping[str, str] = {
    # Precision
    "everything in fp32": "全部为 fp32",
    "the same in memory; tensor cores read 19 bits of each number": "显存相同；tensor core 只读每个数的 19 位",
    "parameters, gradients and optimizer states in bf16, no fp32 copy": "参数、梯度和优化器状态为 bf16，无 fp32 副本",
    "parameters, gradients and optimizer states in fp16": "参数、梯度和优化器状态为 fp16",
    "fp32 parameters, computed in bf16: by FSDP's policy, else by autocast": (
        "fp32 参数，以 bf16 计算：由 FSDP 策略，否则由 autocast"
    ),
    "fp32 parameters, computed in fp16: by FSDP's policy, else by autocast": (
        "fp32 参数，以 fp16 计算：由 FSDP 策略，否则由 autocast"
    ),
    "matrix products in FP8": "以 FP8 做矩阵乘",
    "fp32 parameters under torch.autocast: fp32 residual stream, cast weights cached": (
        "torch.autocast 下的 fp32 参数：fp32 残差流，缓存转换后的权重"
    ),
    "matrix products in FP8: the precision fp8-mixed": "以 FP8 做矩阵乘：即精度 fp8-mixed",
    "the same in blocks of 32": "同上，每块 32 个",
    "the optimizer reads the parameters themselves": "优化器直接读取参数",
    "it has a copy in fp32": "优化器有 fp32 副本",
    # Optimizers
    "one kernel, no temporaries": "一个 kernel，无临时张量",
    "lists of tensors: a temporary as large as all parameters of this rank": (
        "张量列表：临时张量与本 rank 的全部参数一样大"
    ),
    "one parameter at a time": "一次一个参数",
    "a kernel of bitsandbytes, in place": "bitsandbytes 的 kernel，原地更新",
    "a compiled kernel of torchao for each parameter": "每个参数一个 torchao 编译的 kernel",
    "Meta's Shampoo and SOAP, on tiles of what a rank has": "Meta 的 Shampoo 与 SOAP，作用于本 rank 所有部分的分块",
    # Adapters and frozen weights
    "two low-rank matrices beside each targeted linear layer": "每个目标线性层旁的两个低秩矩阵",
    "the same, scaled by the root of the rank": "同上，按秩的平方根缩放",
    "the same with a magnitude for each row; the whole weight is made in every forward pass": (
        "同上，每行另有幅值；每次前向都生成完整权重"
    ),
    "three factors, whose ranks are cut while training": "三个因子，训练中裁剪其秩",
    "two vectors for each layer, around frozen matrices that all share": "每层两个向量，夹着所有层共享的冻结矩阵",
    "the elements' product of two low-rank matrices, made dense": "两个低秩矩阵的逐元素积，展开为稠密矩阵",
    "the Kronecker product of two matrices, made dense": "两个矩阵的 Kronecker 积，展开为稠密矩阵",
    "blocks of the input are turned": "旋转输入的各块",
    "the whole input is turned by a matrix of blocks": "用分块矩阵旋转整个输入",
    "a vector for each layer between frozen singular vectors": "每层一个向量，位于冻结的奇异向量之间",
    "one matrix over sums of groups of elements": "一个矩阵作用于元素组之和",
    "a factor for each row, or for each element of the input of a feed-forward layer's last matrix": (
        "每行一个因子，或前馈层最后矩阵输入的每个元素一个因子"
    ),
    "the norms": "归一化层",
    "rows of the embedding": "嵌入的若干行",
    "learned keys and values before every layer's own": "每层自身键值之前的可学习键值",
    "learned tokens before the sequence": "序列之前的可学习 token",
    "the same, made by a small network": "同上，由一个小网络生成",
    "learned tokens that attention sees too, with a gate (LitGPT)": "注意力也能看到的可学习 token，带门控（LitGPT）",
    "the same, with a factor and a bias for each matrix, and trained norms (LitGPT)": (
        "同上，每个矩阵另有因子和偏置，并训练归一化层（LitGPT）"
    ),
    "4 bits, normal float, an fp32 maximum for each 64": "4 位 normal float，每 64 个一个 fp32 最大值",
    "the same with the maxima in 8 bits": "同上，最大值为 8 位",
    "4 bits, floating point, an fp32 maximum for each 64": "4 位浮点，每 64 个一个 fp32 最大值",
    "LLM.int8(): 8 bits, an fp32 scale for each row": "LLM.int8()：8 位，每行一个 fp32 缩放因子",
    "transformers' FineGrainedFP8: an fp32 scale for each 128 by 128": (
        "transformers 的 FineGrainedFP8：每 128×128 一个 fp32 缩放因子"
    ),
    # Where things are, and how long
    "on the host": "在主机上",
    "on a disk (DeepSpeed's ZeRO-3)": "在磁盘上（DeepSpeed 的 ZeRO-3）",
    "on the GPU": "在 GPU 上",
    "in host memory": "在主机内存中",
    "on a disk, in parts through host memory": "在磁盘上，分批经过主机内存",
    "freed after each optimizer step": "每次优化器更新后释放",
    "set to zero and kept between steps": "清零并在步间保留",
    # Checkpoints
    "keep what the backward pass needs": "保留反向传播所需的一切",
    "keep each layer's input and compute the rest again": "保留每层的输入，其余重新计算",
    "keep the results of some operations too, or checkpoint only some layers": (
        "另保留部分操作的结果，或只对部分层设检查点"
    ),
    "keep the results of attention and of every second matrix product too, as torchtitan does": (
        "另保留注意力和每隔一个矩阵乘的结果，与 torchtitan 相同"
    ),
    "checkpoint only every n-th layer": "只对每第 n 层设检查点",
    "groups of equally many layers": "层数相等的组",
    "the first layers of each pipeline chunk": "每个流水线分块的前几层",
    "PyTorch's wrapper around each layer": "PyTorch 对每层的包装",
    "the switch of transformers": "transformers 的开关",
    # Implementations
    "Hugging Face transformers 5.23": "Hugging Face transformers 5.23",
    "the same with Liger's kernels for norms, gates and rotations": "同上，归一化、门控与旋转用 Liger 的 kernel",
    "Unsloth's functions for LoRA, with such kernels": "Unsloth 的 LoRA 函数，带此类 kernel",
    "torchtitan's Llama, Qwen3 and DeepSeek-V3": "torchtitan 的 Llama、Qwen3 与 DeepSeek-V3",
    "LitGPT of October 2023: fused queries, keys and values, a head in chunks": (
        "2023 年 10 月的 LitGPT：融合的查询、键和值，分块的输出头"
    ),
    "Megatron-Core with TransformerEngine": "Megatron-Core，使用 TransformerEngine",
    "Megatron-Core with its own modules": "Megatron-Core，使用自己的模块",
    "PyTorch chooses: flash if it can, else memory-efficient, else math": (
        "由 PyTorch 选择：能用 flash 则用，否则 memory-efficient，否则 math"
    ),
    "FlashAttention 2": "FlashAttention 2",
    "the memory-efficient kernel of SDPA": "SDPA 的 memory-efficient kernel",
    "the cuDNN kernel of SDPA": "SDPA 的 cuDNN kernel",
    "FlexAttention, compiled, in torchtitan's layers": "torchtitan 层中编译的 FlexAttention",
    "eager attention: all scores in memory, quadratic in the sequence": (
        "eager 注意力：全部分数在显存中，随序列平方增长"
    ),
    "sequences are full or packed": "序列是满的或打包的",
    "a padding mask is passed": "传入填充掩码",
    "kernels of mamba-ssm, causal-conv1d and flash-linear-attention": (
        "mamba-ssm、causal-conv1d 与 flash-linear-attention 的 kernel"
    ),
    "transformers' own PyTorch code, which runs where those packages are absent": (
        "transformers 自己的 PyTorch 代码，在缺少这些包时运行"
    ),
    # Losses
    "logits upcast to fp32": "logits 升为 fp32",
    "logits in the compute dtype": "logits 为计算精度",
    "upcast in N chunks of the sequence": "按序列的 N 个分块升精度",
    "Megatron's and nanotron's, on each rank's part of the vocabulary": (
        "Megatron 与 nanotron 的损失，作用于各 rank 的词表部分"
    ),
    "Liger's kernel: head, loss and gradients a few rows at a time": "Liger 的 kernel：输出头、损失与梯度每次几行",
    "Apple's kernels, which Unsloth uses: logits are never in memory": (
        "Apple 的 kernel，Unsloth 采用：logits 从不进显存"
    ),
    "the model computes the loss": "由模型计算损失",
    "the trainer computes it after the model": "由训练器在模型之后计算",
    # Caches of servers
    "the model's dtype": "模型的精度",
    "the checkpoint's own layers that predict further tokens": "checkpoint 自带的多 token 预测层",
    "a decoder layer that reads the last hidden state": "读取最后隐藏状态的一个解码层",
    "a decoder layer that reads three hidden states, with a small head of its own": (
        "读取三处隐藏状态、自带小输出头的一个解码层"
    ),
    "heads of their own": "各自的输出头",
    "lookup in the prompt, without weights": "在提示中查找，没有权重",
    "a smaller model": "较小的模型",
    "656 bytes for a token's latent vector (sparse attention in vLLM)": (
        "每个 token 的潜向量 656 字节（vLLM 的稀疏注意力）"
    ),
    "with an fp32 scale for each token and head": "每个 token 和头一个 fp32 缩放因子",
    "ggml's blocks of 32 with an fp16 scale (llama.cpp)": "ggml 每块 32 个，带 fp16 缩放因子（llama.cpp）",
    # Pipelines
    "a backward pass after every forward pass once the pipeline is full": "流水线填满后，每次前向之后一次反向",
    "all forward passes before all backward passes": "全部前向先于全部反向",
    "1F1B with several chunks of layers on each rank": "1F1B，每个 rank 有多个层分块",
    "backward passes for inputs and for weights apart (PyTorch's InterleavedZeroBubble)": (
        "输入与权重的反向分开（PyTorch 的 InterleavedZeroBubble）"
    ),
    "the same, with two stages on each rank, there and back": "同上，每个 rank 两个阶段，去程与回程",
    "two stages on each rank, there and back, forward and backward passes overlapped": (
        "每个 rank 两个阶段，去程与回程，前向与反向重叠"
    ),
    "DeepSeek's DualPipe: a rank has a stage of either direction, and each stage is twice": (
        "DeepSeek 的 DualPipe：每个 rank 有两个方向的阶段，每个阶段存在两份"
    ),
    "torch.distributed.pipelining, with receive buffers for all micro-batches": (
        "torch.distributed.pipelining，为所有微批次设接收缓冲区"
    ),
    "a schedule that keeps no more than the micro-batches in flight need": "只保留在途微批次所需的调度",
    # Engines
    "one GPU": "一个 GPU",
    "Megatron-Core: tensor, pipeline, context and expert parallelism": "Megatron-Core：张量、流水线、上下文与专家并行",
    "the same with parameters sharded by Megatron-FSDP": "同上，参数由 Megatron-FSDP 分片",
    "DistributedDataParallel: a full copy on every GPU": "DistributedDataParallel：每个 GPU 一份完整副本",
    "FSDP2: fully sharded": "FSDP2：完全分片",
    "DeepSpeed: ZeRO stages 0 to 3, on the GPU or offloaded": "DeepSpeed：ZeRO 阶段 0 到 3，在 GPU 上或卸载",
    "Megatron-DeepSpeed: tensor parallelism or Ulysses under ZeRO": "Megatron-DeepSpeed：ZeRO 下的张量并行或 Ulysses",
    "nanotron: tensor, pipeline and data parallelism with ZeRO-1": "nanotron：张量、流水线与数据并行，带 ZeRO-1",
    "serving with generate() of transformers, or a script like it": "用 transformers 的 generate() 或类似脚本推理",
    "serving with vLLM": "用 vLLM 推理",
    "serving with SGLang": "用 SGLang 推理",
    "serving with TensorRT-LLM": "用 TensorRT-LLM 推理",
    "serving a GGUF file with llama.cpp": "用 llama.cpp 推理 GGUF 文件",
    # Experts
    "one row for each token and expert, sent by all-to-all": "每个 token 与专家一行，用 all-to-all 发送",
    "every rank gets all tokens (Megatron)": "每个 rank 得到所有 token（Megatron）",
    "DeepEP's or HybridEP's kernels (Megatron)": "DeepEP 或 HybridEP 的 kernel（Megatron）",
    "DeepEP's kernels: a token is sent once to each rank (torchtitan)": (
        "DeepEP 的 kernel：一个 token 对每个 rank 只发送一次（torchtitan）"
    ),
    "HybridEP's kernels, which sort rows too (torchtitan)": "HybridEP 的 kernel，同时对行排序（torchtitan）",
    # Sharding
    "layers are shared out": "按层分配",
    "matrices are": "按矩阵拆分",
    "the next unit is gathered before the one at hand runs": "当前单元运行前先聚集下一个",
    "each unit is gathered when it runs": "每个单元运行时才聚集",
    "every rank has everything": "每个 rank 拥有全部",
    "ranks share master weights and optimizer states": "各 rank 分摊主权重与优化器状态",
    "and gradients": "以及梯度",
    "and parameters, which are gathered layer by layer": "以及逐层聚集的参数",
    "they are replicas": "它们互为副本",
    "they share master weights and optimizer states too": "它们也分摊主权重与优化器状态",
    "every tensor-parallel rank has whole sequences between its matrices": "每个张量并行 rank 在矩阵之间持有完整序列",
    "each has a part of the sequence there (sequence parallelism)": "各自持有序列的一部分（序列并行）",
    "each layer; the root holds the rest": "每层一组；其余归根组",
    "embedding, each layer, and norm with head": "嵌入、每层、归一化与输出头",
    "each layer, the last one not resharded; the root holds the rest": "每层一组，最后一层不重新分片；其余归根组",
}
