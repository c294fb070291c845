"""Why a job of Megatron-Core is refused or what was taken for it, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_MEGATRON_IN_CHINESE: Mapping[str, str] = {
    "TransformerEngine has no attention with learned sinks for it": "TransformerEngine 对其没有带可学习 sink 的注意力",
    # Adapters and towers
    "the framework's default": "框架的默认值",
    "language model": "语言模型",
    "model: FP8 weights are converted to the job's precision when they are loaded": (
        "model：FP8 权重在加载时转换为任务自身的精度"
    ),
    "ms-swift freezes towers and projectors": "ms-swift 冻结视觉塔和投影器",
    "a text-only step uses no trainable parameters": "纯文本训练步不涉及可训练参数",
    "adapters on Mamba layers are not supported yet": "暂不支持 Mamba 层的适配器",
    "Megatron's adapters have the parameters' dtype, {dtype}": "Megatron 的适配器与参数 dtype 相同，为 {dtype}",
    "Megatron-FSDP is not supported yet for the layers of a vision tower": ("视觉塔的层暂不支持 Megatron-FSDP"),
    "adapters would also reach the vision tower's Megatron-Core layers, which is not supported yet": (
        "适配器也会作用于视觉塔的 Megatron-Core 层，暂不支持"
    ),
    "CUDA graphs are not supported yet for models with images": "图文模型暂不支持 CUDA Graph",
    "the framework that provides this vision tower with Megatron's layers": "用 Megatron 的层实现此视觉塔的框架",
    "ms-swift checkpoints a trainable tower, which is not supported yet": (
        "ms-swift 会对可训练的塔做激活检查点（重计算），暂不支持"
    ),
    "for text-only batches ms-swift runs the tower on a small blank image, which is not counted": (
        "纯文本时 ms-swift 用一张小的空白图像运行塔，未计入"
    ),
    "found {method} with {layers} layers": "值为 {method}，{layers} 层",
    "for a vision tower, full recomputation is supported only with method 'uniform' and num_layers 1": (
        "视觉塔的完全重计算仅支持 method 'uniform' 且 num_layers 1"
    ),
    "Megatron Bridge's Qwen2.5-VL does not split sequences": "Megatron Bridge 的 Qwen2.5-VL 不切分序列",
    "sequences with images are not supported yet with context parallelism": ("含图像的序列暂不支持上下文并行"),
    "found {value}, which is not supported yet in a vision tower": "值为 {value}，在视觉塔中暂不支持",
    # CUDA graphs and offloading
    "found modules": "给出了模块",
    "a CUDA graph of the whole iteration takes no modules": "整个迭代的 CUDA Graph 没有模块",
    "found 'moe_preprocess' without 'moe_router'": "给出 'moe_preprocess' 而没有 'moe_router'",
    "found 'moe_router', but the whole MoE layer is captured or recomputed": (
        "给出 'moe_router'，而 MoE 层已整体捕获或重计算"
    ),
    "CUDA graphs of whole MoE layers need engine.moe_pad_expert_input_to_capacity": (
        "整个 MoE 层的 CUDA Graph 需要 engine.moe_pad_expert_input_to_capacity"
    ),
    "found {graphs} with full recomputation": "值为 {graphs}，同时使用完全重计算",
    "found {graphs} with fine-grained activation offloading, which is not supported yet": (
        "值为 {graphs}，同时使用细粒度激活值卸载，暂不支持"
    ),
    "supported only for Megatron-Core's GPT and hybrid models": "仅支持 Megatron-Core 的 GPT 与混合模型",
    "found 'attn_proj' without 'core_attn', whose result it takes": (
        "给出 'attn_proj' 而没有 'core_attn'，前者以后者的结果为输入"
    ),
    "Megatron-Core supports it in GPT and hybrid models, not in BERT and T5": (
        "Megatron-Core 只在 GPT 与混合模型中支持，BERT 和 T5 不支持"
    ),
    "needs {needed}, not {found}": "需要 {needed}，而非 {found}",
    "full recomputation keeps no activations inside a layer": "完全重计算时层内不保留任何激活值",
    "found expert modules that engine.use_transformer_engine_op_fuser merges into one": (
        "给出的专家模块已由 engine.use_transformer_engine_op_fuser 合为一个"
    ),
    "found expert modules that training.activation_checkpointing recomputes as a whole": (
        "给出的专家模块已由 training.activation_checkpointing 整体重计算"
    ),
    # Jobs
    "Megatron allows only 1 with multi-token-prediction layers": "有多 token 预测层时 Megatron 只允许 1",
    "Megatron-LM's script refuses it from 0.19 on": "Megatron-LM 的脚本从 0.19 起拒绝该值",
    "use 'native'": "请用 'native'",
    "found {sequence}, which is not divisible by the ranks that split it": (
        "值为 {sequence}，无法在切分序列的 rank 间均分"
    ),
    "attention heads": "注意力头",
    "key-value heads": "键值头",
    "Mamba heads": "Mamba 头",
    "Mamba groups": "Mamba 组",
    "feed-forward columns": "前馈层的列",
    "Megatron-Core's own attention": "Megatron-Core 自己的注意力",
    "Megatron uses 'vocab-parallel'": "Megatron 使用 'vocab-parallel'",
    "contradicts training.implementation {value}": "与 training.implementation {value} 矛盾",
    "contradicts training.offload.parameters {value}": "与 training.offload.parameters {value} 矛盾",
    "leaves {layers} layers in the first chunk": "第一个块只剩 {layers} 层",
    "intermediate vision features are needed up to layer {layer}": "需要用到第 {layer} 层的视觉中间特征",
    "pipelines are not supported yet for encoder-decoder models": "编码器-解码器模型暂不支持流水线",
    "full recomputation and tensor parallelism without sequence parallelism": "完全重计算，以及不带序列并行的张量并行",
    "delayed scaling runs all layers in FP8, which another {path} need not": (
        "delayed scaling 的所有层都用 FP8，其他 {path} 可以不这样"
    ),
    "found {value}, which is not supported yet with Megatron{also}": "值为 {value}，Megatron 暂不支持{also}",
    "is not Megatron's": "不属于 Megatron",
    # Ranks
    "no micro-batch is in flight": "没有在途的微批次",
    "{count} {what} in flight": "在途 {count} 个{what}",
    "micro-batch": "微批次",
    "micro-batches": "微批次",
    "chunk of layers": "层块",
    "chunks of layers": "层块",
    "{where}, chunk {number}": "{where}，第 {number} 块",
    "counts of tokens": "token 计数",
    "data of experts": "专家的数据",
    "found {given}, but tensor × pipeline × context × data parallel ranks are {ranks}": (
        "值为 {given}，但张量 × 流水线 × 上下文 × 数据并行的 rank 数为 {ranks}"
    ),
    "{expert} × {tensor} does not divide the GPUs of a pipeline stage ({ranks})": (
        "{expert} × {tensor} 不能整除流水线一级的 GPU 数（{ranks}）"
    ),
    "found {expert} × {tensor}, which must divide the GPUs of a pipeline stage ({ranks})": (
        "当前为 {expert} × {tensor}，须整除流水线一级的 GPU 数（{ranks}）"
    ),
    "found {instances}, which does not divide the {ranks} data- and context-parallel ranks": (
        "值为 {instances}，不能整除 {ranks} 个数据与上下文并行 rank"
    ),
    "Megatron-LM's default": "Megatron-LM 的默认值",
    "most recipes switch it on": "多数训练配方会开启它",
    # Optimizers
    "Megatron's optimizers are always 'fused'": "Megatron 的优化器总是 'fused'",
    "supported with Megatron: {names}": "Megatron 支持：{names:s}",
    "does not apply to muon": "不适用于 muon",
    "Megatron uses {dtype} here, {why}": "Megatron 在此为 {dtype}，{why}",
    "set by training.precision": "由 training.precision 决定",
    "by its precision and optimizer": "由其精度与优化器决定",
    "found {strategy} with 'muon'": "值为 {strategy}，同时使用 'muon'",
    "emerging optimizers do not run with Megatron-FSDP": "emerging optimizers 不能与 Megatron-FSDP 一起运行",
    "allowed: method, num_layers, modules": "允许：method、num_layers、modules",
    "linear layers: {names}, or {all}": "线性层：{names:s}，或 {all:s}",
    "allowed: fp32, {half}": "允许：fp32, {half}",
    "accumulate_grad_in_fp32 {fp32} means {wanted}": "accumulate_grad_in_fp32 {fp32} 即 {wanted}",
    "accumulate_grad_in_fp32 decides it, here {fp32}": "由 accumulate_grad_in_fp32 决定，此处为 {fp32}",
    "towers of family {family}": "{family} 系列的塔",
    "towers of family {family} [supported: {families}]": "{family} 系列的塔（支持：{families}）",
    "with {what} ({setting} {count}) Megatron runs {usual}": "在 {what}（{setting} {count}）下 Megatron 运行 {usual}",
}
