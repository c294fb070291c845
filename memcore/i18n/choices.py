"""What the values of settings with few values mean, in Chinese, by the English texts."""

from __future__ import annotations

from collections.abc import Mapping

CHOICES_IN_CHINESE: Mapping[str, str] = {
    # Precision
    "everything in fp32": "全部为 fp32",
    "same memory as fp32; tensor cores use 19 bits of each value": "显存与 fp32 相同；tensor core 只用每个数的 19 位",
    "parameters, gradients and optimizer states in bf16, no fp32 copy": "参数、梯度和优化器状态为 bf16，无 fp32 副本",
    "parameters, gradients and optimizer states in fp16": "参数、梯度和优化器状态为 fp16",
    "fp32 parameters, bf16 compute (FSDP's mixed-precision policy, otherwise autocast)": (
        "fp32 参数，bf16 计算（FSDP 的混合精度策略，否则 autocast）"
    ),
    "fp32 parameters, fp16 compute (FSDP's mixed-precision policy, otherwise autocast)": (
        "fp32 参数，fp16 计算（FSDP 的混合精度策略，否则 autocast）"
    ),
    "matrix products in FP8": "以 FP8 做矩阵乘",
    "fp32 parameters under torch.autocast: fp32 residual stream, cached bf16 weights": (
        "torch.autocast 下的 fp32 参数：fp32 残差流，缓存转换为 bf16 的权重"
    ),
    "FP8 matrix products (the preset fp8-mixed)": "FP8 矩阵乘（即预设 fp8-mixed）",
    "MXFP8: FP8 matrix products scaled in blocks of 32": "MXFP8：按 32 个一块缩放的 FP8 矩阵乘",
    "no master weights: the optimizer updates the parameters directly": "无主权重：优化器直接更新参数",
    "fp32 master weights": "fp32 主权重",
    # Methods
    "next-token prediction on given sequences": "在给定序列上预测下一个 token",
    "pairs of a chosen and a rejected answer, against a reference model": (
        "成对的 chosen 与 rejected 回答，与参考模型比较"
    ),
    "answers labeled good or bad, against a reference model": "标注为好或坏的回答，与参考模型比较",
    "pairs without a reference model, plus the chosen answer's cross-entropy": (
        "成对回答，无参考模型，另加 chosen 回答的交叉熵"
    ),
    "pairs without a reference model": "成对回答，无参考模型",
    "pairs, with a head that has one output instead of logits": "成对回答，输出头只有一个输出而没有 logits",
    "labels of whole sequences, with a head of one output instead of logits": (
        "整条序列的标签，输出头只有一个输出，不产生 logits"
    ),
    "generated answers with advantages: only the update step, not generation": (
        "带优势值的生成回答：只含参数更新，不含生成"
    ),
    "torchao: inputs in int8 for each token, weights in int4 in groups": (
        "torchao：输入按 token 取整为 int8，权重分组取整为 int4"
    ),
    "given sequences, with a frozen teacher's token probabilities as targets": (
        "给定的序列，以冻结的教师模型给出的 token 概率为目标"
    ),
    "generated answers, and a value head on the model: only the update step, not generation": (
        "生成的回答，模型带价值头：只含参数更新，不含生成"
    ),
    "a frozen copy of the model": "模型的冻结副本",
    "the model without its adapter": "去掉适配器的模型",
    "computed before training": "训练前已算好",
    # Optimizers
    "one kernel, no temporaries": "一个 kernel，无临时张量",
    "multi-tensor operations with a temporary the size of this rank's parameters": (
        "多张量操作，临时张量与本 rank 的参数一样大"
    ),
    "one parameter at a time": "一次一个参数",
    "bitsandbytes kernel, in place": "bitsandbytes 的 kernel，原地更新",
    "torchao: one compiled kernel per parameter": "torchao：每个参数一个编译的 kernel",
    "transformers' own Adafactor, the Trainer's choice, or its AdamW of earlier releases": (
        "transformers 自带的 Adafactor（即 Trainer 所用的实现），或其早期版本的 AdamW"
    ),
    "Meta's Distributed Shampoo and SOAP, on blocks of each rank's parameters": (
        "Meta 的 Distributed Shampoo 与 SOAP，按块处理各 rank 的参数"
    ),
    "TransformerEngine's FusedAdam: fp32 moments, with master weights if asked for": (
        "TransformerEngine 的 FusedAdam：一阶矩、二阶矩为 fp32，可另存主权重"
    ),
    "Databricks' FlashOptim: moments in 8 bits, with 8 or 16 more bits of each weight": (
        "Databricks 的 FlashOptim：一阶矩、二阶矩为 8 位，每个权重另存 8 或 16 位"
    ),
    "the 16 bits of fp32 that a bf16 parameter lacks": "bf16 参数比 fp32 少的 16 位",
    "8 of the bits of fp32 that a bf16 parameter lacks": "bf16 参数比 fp32 少的位中的 8 位",
    # Adapters and frozen weights
    "LoRA: two low-rank matrices next to each targeted linear layer": "LoRA：为每个目标线性层附加两个低秩矩阵",
    "rsLoRA: LoRA scaled by the square root of the rank": "rsLoRA：按秩的平方根缩放的 LoRA",
    "DoRA: LoRA with a magnitude per row; every forward pass builds the full weight": (
        "DoRA：LoRA 加每行的幅值；每次前向传播都构造完整权重"
    ),
    "AdaLoRA: three factors whose rank shrinks during training": "AdaLoRA：三个因子，训练中逐步降秩",
    "VeRA: two vectors per layer around frozen matrices shared by all layers": (
        "VeRA：每层两个向量，配合所有层共用的冻结矩阵"
    ),
    "LoHa: Hadamard product of two low-rank matrices, as a dense matrix": (
        "LoHa：两个低秩矩阵的 Hadamard 积，展开为稠密矩阵"
    ),
    "LoKr: Kronecker product of two matrices, as a dense matrix": "LoKr：两个矩阵的 Kronecker 积，展开为稠密矩阵",
    "OFT: block-wise rotation of the input": "OFT：按块旋转输入",
    "BOFT: rotation of the whole input by butterfly factors": "BOFT：用蝶形因子旋转整个输入",
    "FourierFT: a few Fourier coefficients, as a dense matrix": "FourierFT：少量傅里叶系数，展开为稠密矩阵",
    "RandLoRA: scales of random matrices shared by all layers, of full rank": (
        "RandLoRA：为所有层共享的满秩随机矩阵学习缩放系数"
    ),
    "RoAd: turns and scales pairs of the result": "RoAd：成对旋转并缩放输出",
    "TinyLoRA: one small vector per layer between frozen singular vectors": (
        "TinyLoRA：每层一个小向量，位于冻结的奇异向量之间"
    ),
    "MiSS: one matrix over sums of input groups": "MiSS：一个矩阵作用于输入分组之和",
    "C3A: circulant blocks, multiplied by after a Fourier transform": "C3A：循环块，经傅里叶变换后相乘",
    "DeLoRA: LoRA whose matrices are of bounded length": "DeLoRA：矩阵长度受限的 LoRA",
    "GraLoRA: LoRA for each of four blocks of the matrix": "GraLoRA：为矩阵的四个块各设一对 LoRA",
    "HiRA: a low-rank matrix times the frozen one, element by element, as a dense matrix": (
        "HiRA：低秩矩阵与冻结矩阵逐元素相乘，展开为稠密矩阵"
    ),
    "PVeRA: VeRA that samples between a mean and a variance": "PVeRA：按均值与方差采样的 VeRA",
    "IA3: a factor per output row, or per input element of the last feed-forward matrix": (
        "IA3：每个输出行一个因子，或前馈层最后矩阵的每个输入元素一个因子"
    ),
    "trains the norms only": "只训练归一化层",
    "trains chosen rows of the embedding": "只训练嵌入的若干行",
    "trainable keys and values prepended in every layer": "每层前置可训练的键和值",
    "trainable tokens prepended to the sequence": "序列前置可训练的 token",
    "trainable tokens generated by a small network": "由小网络生成的可训练 token",
    "trainable tokens with gated attention (LitGPT)": "带门控注意力的可训练 token（LitGPT）",
    "LLaMA-Adapter plus a scale and bias per matrix and trainable norms (LitGPT)": (
        "LLaMA-Adapter 加每个矩阵的缩放与偏置，并训练归一化层（LitGPT）"
    ),
    "4-bit normal float, one fp32 scale per 64 values": "4 位 normal float，每 64 个值一个 fp32 缩放因子",
    "4-bit normal float with double quantization (8-bit scales)": "4 位 normal float，双重量化（8 位缩放因子）",
    "4-bit float, one fp32 scale per 64 values": "4 位浮点，每 64 个值一个 fp32 缩放因子",
    "GPTQ: 4-bit, a scale and a zero point for each 128 inputs": "GPTQ：4 位，每 128 个输入一个缩放因子与零点",
    "LLM.int8(): 8-bit, one fp32 scale per row": "LLM.int8()：8 位，每行一个 fp32 缩放因子",
    "transformers' FineGrainedFP8: one fp32 scale per 128 × 128 block": (
        "transformers 的 FineGrainedFP8：每个 128 × 128 块一个 fp32 缩放因子"
    ),
    # Where things are, and how long
    "on the host": "在主机上",
    "on NVMe (DeepSpeed ZeRO-3)": "在 NVMe 上（DeepSpeed ZeRO-3）",
    "freed after each optimizer step": "每次优化器更新后释放",
    "set to zero and kept between steps": "清零并在步间保留",
    # Checkpoints
    "save everything the backward pass needs": "保存反向传播所需的一切",
    "save each layer's input and recompute the rest": "保存每层的输入，其余重新计算",
    "also save the results of some operations, or checkpoint only some layers": (
        "另保存部分算子的结果，或只对部分层做重计算"
    ),
    "also save attention outputs and every second matrix product, as torchtitan does": (
        "另保存注意力输出和每两个矩阵乘中的一个，与 torchtitan 相同"
    ),
    "checkpoint only every n-th layer": "每 n 层只对一层做重计算",
    "checkpoint norms, attention and feed-forward layers on their own, as accelerate 1.8 to 1.14 does with FSDP 2": (
        "对归一化、注意力和前馈层分别做重计算，与 accelerate 1.8 至 1.14 的 FSDP 2 相同"
    ),
    "checkpoint groups of layers of equal size": "按相同层数分组重计算",
    "checkpoint the first layers of each pipeline chunk": "重计算每个流水线块的前几层",
    "PyTorch's checkpoint_wrapper around each layer": "用 PyTorch 的 checkpoint_wrapper 包装每层",
    "transformers' gradient_checkpointing_enable()": "transformers 的 gradient_checkpointing_enable()",
    # Implementations
    "Hugging Face transformers 5.23": "Hugging Face transformers 5.23",
    "transformers with Liger kernels for norms, gated activations and rotary embeddings": (
        "transformers，归一化、门控激活函数与旋转位置编码用 Liger 的 kernel"
    ),
    "Unsloth's fused LoRA functions and Triton kernels": "Unsloth 的融合 LoRA 函数与 Triton kernel",
    "torchtitan's Llama, Qwen3 and DeepSeek-V3 implementations": "torchtitan 的 Llama、Qwen3 与 DeepSeek-V3 实现",
    "LitGPT (October 2023): fused QKV projection, output head in chunks": (
        "LitGPT（2023 年 10 月）：融合的 QKV 投影，分块的输出头"
    ),
    "Megatron-Core with TransformerEngine": "Megatron-Core，使用 TransformerEngine",
    "Megatron-Core with its own modules": "Megatron-Core，使用自己的模块",
    "PyTorch chooses: flash if possible, then memory-efficient, then math": (
        "由 PyTorch 选择：依次为 flash、memory-efficient、math"
    ),
    "FlashAttention 2": "FlashAttention 2",
    "SDPA's memory-efficient kernel": "SDPA 的 memory-efficient kernel",
    "SDPA's cuDNN kernel": "SDPA 的 cuDNN kernel",
    "compiled FlexAttention in torchtitan's layers": "torchtitan 层中编译后的 FlexAttention",
    "eager attention: saves all scores, quadratic in sequence length": (
        "eager 注意力：保存全部分数，随序列长度平方增长"
    ),
    "no padding: sequences are full or packed": "无填充：序列填满或打包",
    "padded batches with a mask": "带掩码的填充批次",
    "fused kernels of mamba-ssm, causal-conv1d and flash-linear-attention": (
        "mamba-ssm、causal-conv1d 与 flash-linear-attention 的融合 kernel"
    ),
    "transformers' plain PyTorch code, used if those packages are not installed": (
        "transformers 的纯 PyTorch 代码，未安装这些包时使用"
    ),
    # Losses
    "logits upcast to fp32": "logits 升为 fp32",
    "logits kept in the compute dtype": "logits 保持计算 dtype",
    "logits upcast to fp32 in N chunks of the sequence": "logits 按序列的 N 个分块升为 fp32",
    "vocabulary-parallel loss on each rank's vocabulary shard (Megatron, nanotron)": (
        "词表并行损失，作用于各 rank 的词表分片（Megatron、nanotron）"
    ),
    "Liger's fused linear cross-entropy: head, loss and gradients chunk by chunk": (
        "Liger 的融合线性交叉熵：输出头、损失与梯度逐块计算"
    ),
    "Apple's Cut Cross-Entropy (used by Unsloth): never stores the logits": (
        "Apple 的 Cut Cross-Entropy（Unsloth 采用）：从不存储 logits"
    ),
    "TRL's or prime-rl's fused head: log-probabilities part by part, never the logits": (
        "TRL 或 prime-rl 的融合输出头：逐块计算对数概率，从不产生 logits"
    ),
    "the model computes the loss": "由模型计算损失",
    "the trainer computes the loss outside the model": "由训练循环在模型之外计算损失",
    # Pipelines
    "1F1B: alternate forward and backward passes once the pipeline is full": "1F1B：流水线填满后交替执行前向与反向",
    "GPipe: all forward passes before all backward passes": "GPipe：先做全部前向，再做全部反向",
    "interleaved 1F1B with several virtual stages per rank": "交错 1F1B，每个 rank 多个虚拟级",
    "zero bubble: separate input and weight backward passes (PyTorch's InterleavedZeroBubble)": (
        "零气泡：输入与权重的反向分开（PyTorch 的 InterleavedZeroBubble）"
    ),
    "zero bubble with two stages per rank in a V shape": "零气泡，每个 rank 两级，呈 V 形",
    "two stages per rank in a V shape, forward and backward passes overlapped": (
        "每个 rank 两级，呈 V 形，前向与反向重叠"
    ),
    "DeepSeek's DualPipe: each rank holds a stage per direction, so each stage exists twice": (
        "DeepSeek 的 DualPipe：每个 rank 在两个方向各有一级，每级存在两份"
    ),
    # Engines
    "one GPU": "一块 GPU",
    "Megatron-Core: tensor, pipeline, context and expert parallelism": "Megatron-Core：张量、流水线、上下文与专家并行",
    "Megatron-Core with parameters sharded by Megatron-FSDP": "Megatron-Core，参数由 Megatron-FSDP 切分",
    "DistributedDataParallel: a full copy on every GPU": "DistributedDataParallel：每块 GPU 一份完整副本",
    "FSDP2: fully sharded": "FSDP2：完全分片",
    "DeepSpeed: ZeRO stages 0 to 3, on the GPU or offloaded": "DeepSpeed：ZeRO 阶段 0 到 3，可卸载到主机",
    "Megatron-DeepSpeed: tensor parallelism or Ulysses under ZeRO": "Megatron-DeepSpeed：ZeRO 下的张量并行或 Ulysses",
    "nanotron: tensor, pipeline and data parallelism with ZeRO-1": "nanotron：张量、流水线与数据并行，带 ZeRO-1",
    "inference with transformers' generate() or a similar script": "用 transformers 的 generate() 或类似脚本推理",
    "serving with vLLM": "用 vLLM 推理",
    "serving with SGLang": "用 SGLang 推理",
    "serving with TensorRT-LLM": "用 TensorRT-LLM 推理",
    "serving with TGI (Text Generation Inference)": "用 TGI（Text Generation Inference）推理",
    "serving with LMDeploy": "用 LMDeploy 推理",
    "serving a GGUF file with llama.cpp": "用 llama.cpp 推理 GGUF 文件",
}
