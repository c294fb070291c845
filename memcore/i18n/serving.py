"""What a server's answer says of itself, in English and in Simplified Chinese: whether it fits, users, its ledger."""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_SERVING: Mapping[str, tuple[str, str]] = {
    # The verdict
    "serves-in-cache": ("in the cache", "缓存中"),
    "serves-on": ("on {gpus}", "{gpus}上"),
    "serves-left": ("{size} free", "剩余 {size}"),
    "serves-a-token": ("a sequence of one token", "一个 token 的序列"),
    "serves-one": ("a sequence of {length} tokens", "一个 {length} token 的序列"),
    "serves-many": ("{count} sequences of {length} tokens", "{count} 个 {length} token 的序列"),
    "serves-unknown": (
        "Needs {size} on {gpus} for {asked}. Name an accelerator to see whether that fits.",
        "{asked}在{gpus}上需要 {size}。选择加速器以判断能否放下。",
    ),
    "serves-fits": ("Fits {asked}: {margin} {where}.", "放得下{asked}：{where}{margin}。"),
    "serves-tight": (
        "Probably fits {asked}: {margin} {where}, but not at the upper end of the range.",
        "可能放得下{asked}：{where}{margin}，但范围的上限放不下。",
    ),
    "serves-over": (
        "Probably does not fit {asked}: {margin} {where}; only the low end of the range fits.",
        "可能放不下{asked}：{where}{margin}；只有范围的下限放得下。",
    ),
    "serves-no": ("Does not fit {asked}: {margin} {where}.", "放不下{asked}：{where}{margin}。"),
    "serves-refused": (
        "Does not start: the server refuses sequences of {length} tokens, which is beyond the model's own maximum.",
        "无法启动：{length} 个 token 超过模型自身的最大长度，服务会拒绝。",
    ),
    "serves-pool": (
        "Weights take {weights}. The cache gets {cache}{tokens}: room for {sequences}{certain}.",
        "权重占 {weights}，缓存得到 {cache}{tokens}，可容纳{sequences}{certain}。",
    ),
    "serves-certain": (" ({count} for certain)", "（确定 {count} 个）"),
    "serves-pool-short": (
        "Weights take {weights}. The cache gets {cache}{tokens}: too little for {sequences}.",
        "权重占 {weights}，缓存得到 {cache}{tokens}，容不下{sequences}。",
    ),
    "serves-pool-none": (
        "Weights take {weights}, which leaves nothing for the cache.",
        "权重占 {weights}，没有为缓存留下空间。",
    ),
    "serves-pool-tokens": (", {count} tokens", "（{count} 个 token）"),
    "serves-caches": ("Weights take {weights}, the cache takes {cache}.", "权重占 {weights}，缓存占 {cache}。"),
    # Answers
    "serves-longest-one": ("Longest context for one user", "一个用户的最长上下文"),
    "serves-longest": ("Longest context for {count} users", "{count} 个用户的最长上下文"),
    "serves-tokens": ("{count} tokens", "{count} 个 token"),
    "serves-none": ("none", "没有"),
    "serves-none-alone": ("none without other changes", "仅改格式放不下"),
    "serves-users-longest": ("Users at the full {count} tokens", "都用满 {count} 个 token 时的用户数"),
    "serves-users-mean": ("Users at a mean of {count} tokens", "平均 {count} 个 token 时的用户数"),
    "serves-fewest": ("Fewest GPUs of this kind", "该型号 GPU 的最少数量"),
    "serves-no-count": ("more than 64, or no number fits", "多于 64 个，或没有放得下的数量"),
    "serves-format": ("Highest weight precision that fits", "放得下的最高权重精度"),
    "serves-unpacked": (
        "{format} (weights only: this GPU multiplies in 16 bits)",
        "{format}（只有权重：这种 GPU 按 16 位计算）",
    ),
    "serves-utilization": ("Workable gpu_memory_utilization", "可用的 gpu_memory_utilization"),
    "serves-from-to": ("{least} to {most}", "{least} 至 {most}"),
    "serves-pace": (
        "Tokens/s per user at {length} tokens",
        "{length} 个 token 时每个用户的 token/s",
    ),
    "serves-mixed": (
        "Mean tokens/s per user, with prefill of other users' prompts",
        "每个用户的平均 token/s（计入其他用户的预填充）",
    ),
    "serves-range": ("{expected} ({low} to {high})", "{expected}（{low} 至 {high}）"),
    "serves-range-all": (
        "{expected} ({low} to {high}); {total} in all",
        "{expected}（{low} 至 {high}）；共 {total}",
    ),
    "serves-first": (
        "Seconds to first token, {length}-token prompt",
        "{length} token 提示词的首 token 秒数",
    ),
    "pace-unknown": ("Tokens/s per user", "每个用户的 token/s"),
    "pace-unknown-said": ("not known: {why}", "未知：{why}"),
    "pace-unknown-server": ("no published rates of {server} are known", "没有已知的 {server} 公开速率"),
    "pace-unknown-gpu": (
        "no published rates of {server} on this GPU are known",
        "没有已知的 {server} 在这种 GPU 上的公开速率",
    ),
    "pace-unknown-tokens": ("this model generates no tokens", "该模型不生成 token"),
    "pace-unknown-speculation": (
        "it depends on how many drafted tokens are accepted",
        "取决于有多少草稿 token 被接受",
    ),
    "pace-unknown-layout": (
        "no published rates cover pipelines, split contexts, or experts with data parallelism",
        "公开速率不涵盖流水线、切分的上下文，或带数据并行的专家",
    ),
    "pace-unknown-latent": (
        "no published rates of {server} cover this kind of latent attention on this GPU",
        "{server} 的公开速率不涵盖这种 GPU 上的此类潜在注意力",
    ),
    "pace-unknown-recurrent": (
        "no published rates of {server} cover recurrent states",
        "{server} 的公开速率不涵盖循环状态",
    ),
    "pace-unknown-offload": (
        "no published rates cover weights that pass over PCIe in each step",
        "公开速率不涵盖每步都经 PCIe 传输的权重",
    ),
    "pace-unknown-flash": (
        "no published rates cover attention without a fused kernel",
        "公开速率不涵盖没有融合核的注意力",
    ),
    "pace-unknown-cache": (
        "no published rates cover a cache on the host",
        "公开速率不涵盖放在主机上的缓存",
    ),
    "pace-unknown-split": (
        "no published rates cover matrices that are split over GPUs by {server}",
        "公开速率不涵盖 {server} 把矩阵切分到多块 GPU 的情况",
    ),
    "pace-unknown-users": (
        "no published rates of {server} cover experts with more than four users",
        "{server} 的公开速率不涵盖四个以上用户的专家模型",
    ),
    "serves-no-value": ("no value works on this GPU", "在这块 GPU 上没有可用的值"),
    # Places and pictures
    "serves-where-stage": ("On {name}", "在 {name} 上"),
    "serves-where-each-of": ("On each GPU of {name}", "在 {name} 的每块 GPU 上"),
    "serves-where-each": ("On each GPU", "在每块 GPU 上"),
    "serves-where": ("On the GPU", "在该 GPU 上"),
    "serves-without-cache": ("{where}, without the cache", "{where}（不含缓存）"),
    "serves-step-heading": ("What this server holds", "该服务的容量"),
    "serves-step-note": (
        "All sequences use one pool, so shorter ones leave room for more.",
        "所有序列共用一个池，序列越短，能容纳的越多。",
    ),
    "serves-ledger-heading": ("Everything in memory", "显存中的全部内容"),
    "serves-nameless": (
        "Choose an accelerator to see how many users fit, and at which context length.",
        "选择加速器，看它能容纳多少用户、多长上下文。",
    ),
    "serves-poolless": (
        "There is no cache pool: the cache grows with the sequences.",
        "没有缓存池：缓存随序列增长。",
    ),
    "serves-users-picture": ("Users that fit, by sequence length", "不同序列长度下可容纳的用户数"),
    "serves-users-at": ("{users} users at {length} tokens", "{length} 个 token 时 {users} 个用户"),
    "serves-at": ("{users} at {length} tokens", "{length} 个 token 时 {users} 个"),
    "serves-users": ("users", "用户"),
    "serves-tokens-each": ("tokens of each user", "每个用户的 token 数"),
}

SERVING_IN_CHINESE: Mapping[str, str] = {
    # Parts of memory
    "weights": "权重",
    "draft model": "草稿模型",
    "adapters": "适配器",
    "recurrent states": "循环状态",
    "workspaces": "工作区",
    "outside the allocator": "分配器之外",
    "parameters, with their scales": "推理服务存储的参数，含缩放因子",
    "weights of the draft model": "草稿模型的权重",
    "keys and values of cached tokens": "所有已缓存 token 的键和值",
    "states of recurrent mixers, per sequence": "循环层为每个序列保留的状态",
    "peak activations of a step": "每步激活值的峰值",
    "buffers that stay allocated": "推理服务常驻的缓冲区",
    "captured graphs and their pool": "捕获的 CUDA Graph 及其私有池",
    "CUDA context, NCCL, libraries": "CUDA 上下文、NCCL、库",
    # Entries
    "matrix": "矩阵",
    "vector": "向量",
    "cublas workspace": "cuBLAS 工作区",
    "cublaslt workspace": "cuBLASLt 工作区",
    "cosines and sines": "RoPE 的余弦与正弦",
    "logits": "logits",
    "pool of blocks": "块池",
    "token pool": "token 池",
    "block tables": "块表",
    "counts of generated tokens": "各 token 的已生成次数",
    "mask of prompt tokens": "提示词 token 的掩码",
    "first start: embedding table for kernel autotuning": "首次启动：自动调优 kernel 所用的嵌入表",
    "an embedding table and what is looked up in it, as far as they exceed the profiled peak": (
        "嵌入表及其查表结果超出显存探测峰值的部分"
    ),
    "parameters, spread over the ranks": "分布在各 rank 上的参数",
    "not needed if vLLM's compile cache already has the graph": "vLLM 的编译缓存中已有该计算图时不需要",
    "captured graphs": "捕获的 CUDA Graph",
    "FlashInfer's all-to-all workspace": "FlashInfer all-to-all 工作区",
    "slots for the tokens of all ranks, or queues": "所有 rank 的 token 位置，或队列",
    "recurrent states of all sequences": "全部序列的循环状态",
    "padding of experts' rows": "专家矩阵各行的填充",
    "256 B for each row": "每行 256 B",
    "free rest of copied experts' blocks": "复制专家矩阵后显存块的空闲余量",
    "the first matrix of a layer less the copy of the second": "层中第一个矩阵减去第二个矩阵的副本",
    "workspace of FlashInfer's attention": "FlashInfer 注意力的工作区",
    "graphs of the profiled step, kept by the driver": "驱动保留的性能分析阶段 CUDA Graph 内存",
    "private pool of captured graphs": "CUDA Graph 的私有池",
    "integer workspaces of FlashInfer's attention": "FlashInfer 注意力的整数工作区",
    "copies of experts, shared out over the ranks": "分布在各 rank 上的专家副本",
    "where requests' tokens are cached": "请求的 token 的缓存位置",
    "workspace of sums fused with norms": "与 norm 融合的归约的工作区",
    "unpacked weights in graphs": "计算图中解包的权重",
    "partial results of attention in whole graphs": "整图捕获时注意力的分段结果",
    "kernels and communicators loaded while profiling": "显存探测时加载的 kernel 与通信器",
    "kernels and free blocks while loading": "加载时的 kernel 与空闲块",
    "logits rows for the top-k kernel": "top-k kernel 的 logits 行",
    "weights that stay on the host": "留在主机上的权重",
    "parameters of layers, from the first, until cpu_offload_gb is reached": (
        "从第一层起的各层参数，直到达到 cpu_offload_gb"
    ),
    "a layer's weights, copied from the host": "从主机复制的一层权重",
    "the largest layer": "最大的层",
    "chunk that LMCache copies through": "LMCache 复制用的分块",
    "keys' and values' projections of the draft, as one": "草稿部分的键值投影，合为一个矩阵",
    "NVLink buffer + RDMA buffer in NVSHMEM's heap + workspace": "NVLink 缓冲区 + NVSHMEM 堆中的 RDMA 缓冲区 + 工作区",
    "logits in fp32": "fp32 的 logits",
    "embeddings in fp32": "fp32 的嵌入向量",
    "hidden states": "隐藏状态",
    "hidden states of all tokens": "所有 token 的隐藏状态",
    "hidden states of last tokens": "最后 token 的隐藏状态",
    "probabilities and random numbers": "概率与随机数",
    "sorted logits, indices and sorting buffers": "排序后的 logits、索引与排序缓冲区",
    "fp32 logits of the next tokens, and their softmax": "下一个 token 的 fp32 logits 及其 softmax",
    "unsplit segment ends (allocator rounding)": "未拆分的段尾",
    "model buffer: weights": "模型缓冲区：权重",
    "compute buffer: intermediate results": "计算缓冲区：中间结果",
    "cache buffer: full context": "缓存缓冲区：完整上下文",
    "keys and values": "键和值",
    "token ids and mask": "token id 与掩码",
    "image tokens": "图像 token",
    "the last image's tokens": "最后一幅图像的 token",
    "mask between images": "图像之间的掩码",
    "pixels": "像素",
    "gate and up": "gate 与 up",
    "activated gate times up": "激活后的 gate 乘以 up",
    "residual stream, before and after attention": "注意力前后的残差流",
    "residual stream before and after its norm": "归一化前后的残差流",
    "received hidden states and residual": "收到的隐藏状态与残差",
    "the largest matrix, dequantized": "反量化后的最大矩阵",
    "buffer for flushing the L2 cache": "用于清空 L2 缓存的缓冲区",
    "quantized layer input": "量化后的输入",
    "quantized activated gate times up": "量化后的 gate 乘以 up（激活后）",
    # Why
    "vLLM calls it non-torch memory": "vLLM 称之为 non-torch memory",
    "segments are multiples of 2 MiB; from 20 MiB on none is split, below up to 1 MiB stays with a tensor": (
        "段是 2 MiB 的倍数；20 MiB 及以上的段不拆分，其余的段最多给其张量留下 1 MiB"
    ),
    "segments are multiples of 2 MiB, and remainders of at most 1 MiB stay with their tensor": (
        "段是 2 MiB 的整数倍，不超过 1 MiB 的段尾留给其张量"
    ),
    "inductor autotunes its kernels in the profiling run": "inductor 在显存探测时自动调优 kernel",
    # Formats of weights
    "fp8, one scale for each matrix": "fp8，每个矩阵一个缩放因子",
    "fp8, one scale for each output channel": "fp8，每个输出通道一个缩放因子",
    "fp8 in blocks of 128 × 128": "fp8，每块 128×128",
    "int8, one scale for each output channel": "int8，每个输出通道一个缩放因子",
    "int8 weights in groups of 128": "int8 权重，每组 128 个",
    "int4 in groups of 128, symmetric": "int4，每组 128 个，对称",
    "AWQ: int4 in groups of 128 with zero points": "AWQ：int4，每组 128 个，带零点",
    "GPTQ: int4 in groups of 128 with zero points": "GPTQ：int4，每组 128 个，带零点",
    "NF4 in blocks of 64": "NF4，每块 64 个",
    "NF4 in blocks of 64, scales quantized again": "NF4，每块 64 个，缩放因子再次量化",
    "MXFP8: fp8 in blocks of 32, scales are powers of two": "MXFP8：fp8，每块 32 个，缩放因子为二的幂",
    # Notes
    "with several ranks, 2 GiB of communicators (observed, not derived)": (
        "多个 rank 时通信器占 2 GiB（实测，非推导）"
    ),
    "activations and CUDA graphs are outside the static fraction": "激活值与 CUDA Graph 不计入静态比例",
    "beyond 8,192 tokens AITER's attention leaves 85 % of the static fraction": (
        "超过 8,192 个 token 时，AITER 的注意力只留下静态比例的 85%"
    ),
    "{} of the weights stay on the host: the token embedding and what is not offloaded": (
        "{} 的权重留在主机上：词嵌入以及未卸载到 GPU 的部分"
    ),
    # Tables
    "Readings of one GPU": "一块 GPU 的读数",
    "Answers": "回答",
    "Question": "问题",
    "Answer": "答案",
    "Users that fit at each length": "各长度下可容纳的用户数",
    "Tokens of each user": "每个用户的 token 数",
    "Users": "用户数",
    "Sharing the GPU with training": "与训练共用 GPU",
    "Phase": "阶段",
    "Held": "占用",
    "Free": "空闲",
    "Why": "原因",
    "What": "内容",
    "Setting": "设置",
    "Key": "键",
}
