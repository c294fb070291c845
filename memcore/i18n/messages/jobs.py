"""Why a job is refused or what was taken for it, in Chinese by the English sentence: layout, memory, engines."""

from __future__ import annotations

from collections.abc import Mapping

OF_JOBS_IN_CHINESE: Mapping[str, str] = {
    "a pipeline stage cannot start with a layer that reuses the previous stage's indexer: not supported yet": (
        "流水线的一级不能以复用上一级索引器的层开头：暂不支持"
    ),
    # Said of many settings
    "needs {setting}": "需要 {setting}",
    "needs {setting} of 2 or more": "需要 {setting} 不小于 2",
    "needs {setting} above 1": "需要 {setting} 大于 1",
    "needs policy 'none'": "需要策略 'none'",
    "applies to {setting}": "仅适用于 {setting}",
    "applies to {setting}, found {value}": "仅适用于 {setting}，当前为 {value}",
    "applies to policy 'selective', found policy {policy}": "仅适用于策略 'selective'，当前策略为 {policy}",
    "applies to mode 'layer', found mode {mode}": "仅适用于 'layer' 模式，当前为 {mode}",
    "found 'part'": "值为 'part'",
    "not supported yet for the layers of {model}": "暂不支持 {model} 的层",
    "not supported yet with training.compile": "暂不支持与 training.compile 一起使用",
    "nearest: policy 'full'": "最接近的是策略 'full'",
    "these checkpoints are not reentrant: set use_reentrant to false": (
        "这种重计算不是可重入的：请将 use_reentrant 设为 false"
    ),
    "applies to engine.type {engines}, found engine.type {engine}": (
        "仅适用于 engine.type {engines:s}，当前为 engine.type {engine}"
    ),
    "found {value}, which is not supported yet with {engine}": "值为 {value}，暂不支持与 {engine} 一起使用",
    "not supported yet with {what}": "暂不支持与 {what} 一起使用",
    "not supported yet with llama.cpp": "暂不支持与 llama.cpp 一起使用",
    "found {value}, which is not divisible by {ranks} ranks": "值为 {value}，不能被 {ranks} 个 rank 整除",
    "found {value}, which does not divide the {ranks} data-parallel ranks": (
        "值为 {value}，不能整除 {ranks} 个数据并行 rank"
    ),
    "with {engine}: {values}": "{engine} 可用：{values:s}",
    "engine.type {engine} and {layers} layers": "engine.type {engine} 与 {layers} 的层",
    # Experts with adapters
    "transformers 4 has one nn.Linear per expert, for which adapters are not supported yet": (
        "transformers 4 的每个专家各有一个 nn.Linear，暂不支持其适配器"
    ),
    "name other modules": "请指定其他模块",
    "{fused} holds {halves}": "{fused} 包含 {halves}",
    "PEFT adapts both or neither": "PEFT 要么两者都适配，要么都不适配",
    "as PEFT 0.21 does with transformers 5": "与 PEFT 0.21 配合 transformers 5 时相同",
    "includes routed experts, for which PEFT's lora.ParamWrapper supports only LoRA without dropout": (
        "包含路由专家，PEFT 的 lora.ParamWrapper 对此只支持无 dropout 的 LoRA"
    ),
    "expert matrices: {names}": "专家的矩阵：{names:s}",
    # Activation budgets and checkpoints
    "found {budget} together with activation checkpointing": "值为 {budget}，同时开启了激活检查点（重计算）",
    "supported only if all layers have the same shape": "仅支持所有层形状相同的模型",
    "attention {kernel}": "注意力 {kernel}",
    "tensor parallelism": "张量并行",
    "context parallelism": "上下文并行",
    "masks of attention": "注意力掩码",
    "adapters or frozen layers": "适配器或冻结层",
    "offloaded activations": "激活值卸载",
    "a KV cache": "KV 缓存",
    "latent attention": "潜在注意力（MLA）",
    "norms after the rotation": "旋转位置编码之后的归一化",
    "feed-forward layers without a gate": "没有 gate 的前馈层",
    "attention heads that kernels pad or reject": "kernel 需要填充或不支持的注意力头",
    "found {budget}, too small to keep any matrix product": "值为 {budget}，连一个矩阵乘的结果也放不下",
    "not supported yet with float8": "暂不支持与 float8 一起使用",
    "only the compiler uses it: set training.compile to true": "只有编译器使用它：请将 training.compile 设为 true",
    "the compiler decides what to recompute": "由编译器决定重计算哪些内容",
    "reentrant checkpointing recomputes whole layers": "可重入检查点会重新计算整层",
    "later layers of {model} reuse an earlier layer's keys, and PyTorch runs backward through that graph only once": (
        "{model} 的后续层复用前面某层的键，而 PyTorch 只能对该计算图反向一次"
    ),
    "engine.type {engine} has its own checkpointing": "engine.type {engine} 有自己的激活检查点实现",
    "a period is given": "给出了间隔",
    "as in torchtitan's configurations": "与 torchtitan 的配置相同",
    # DeepSpeed
    "{engine} sets gradients to None itself": "{engine} 自行将梯度设为 None",
    "DeepSpeed's default: no ZeRO": "DeepSpeed 的默认值：不用 ZeRO",
    "ZeRO stage {stage}, nothing offloaded": "ZeRO 阶段 {stage}，不卸载任何内容",
    "needs {stage} 1, 2 or 3": "需要 {stage} 为 1、2 或 3",
    "supported only as fp32, with bf16, {stage} 1 to 3 and no offloading": (
        "仅支持 fp32，且需 bf16、{stage} 1–3、不卸载到主机"
    ),
    "supported only with {precision} and the optimizer on the GPU": "仅在 {precision} 且优化器位于 GPU 时支持",
    "for FP8 matrix products use 'fp8-mixed'": "FP8 矩阵乘请用 'fp8-mixed'",
    "found {dtype} with {setting} {preset}": "值为 {dtype}，而 {setting} 为 {preset}",
    "found {value}, but {setting} is {other}": "值为 {value}，但 {setting} 为 {other}",
    "the config contradicts this": "配置中的值与此矛盾",
    "found {value} with {other}": "值为 {value}（{other}）",
    "only DeepSpeed's ZeRO-3 keeps states on a disk (engine.type 'deepspeed', engine.zero_stage 3)": (
        "只有 DeepSpeed 的 ZeRO-3（engine.type 'deepspeed'、engine.zero_stage 3）可将状态放在磁盘上"
    ),
    "it extends parameters in bf16": "它补足的是 bf16 参数",
    "PyTorch's optimizers update the parameters directly, and 'bf16-mixed' keeps those in fp32": (
        "PyTorch 的优化器直接更新参数，'bf16-mixed' 下参数为 fp32"
    ),
    "engines with a master copy: deepspeed, megatron": "有主权重副本的引擎：deepspeed、megatron",
    "DeepSpeed's optimizer has {copy} here": "DeepSpeed 的优化器在此{copy}",
    "an fp32 copy": "有 fp32 副本",
    "no copy of fp32 parameters without ZeRO": "不用 ZeRO 时没有 fp32 参数的副本",
    # Expert parallelism
    "experts are not split further": "专家不再继续切分",
    "{model} has no routed experts": "{model} 没有路由专家",
    "found {ranks}, which does not divide {model}'s {count} experts": (
        "值为 {ranks}，不能整除 {model} 的 {count} 个专家"
    ),
    "it must divide the {shards} ranks over which FSDP shards": "必须整除 FSDP 分片所用的 {shards} 个 rank",
    "found {groups}, but this release needs the tensor-parallel size ({ranks})": (
        "当前为 {groups}，但该版本需要张量并行大小（{ranks}）"
    ),
    "allowed: 1, or the tensor-parallel size ({ranks})": "允许：1，或张量并行大小（{ranks}）",
    "found {shared}, which must divide the tensor-parallel size ({ranks})": (
        "当前为 {shared}，必须整除张量并行大小（{ranks}）"
    ),
    "it must divide the {shards} data-parallel ranks": "必须整除 {shards} 个数据并行 rank",
    "all ranks receive the same number of tokens for their experts": "各 rank 的专家收到的 token 数相同",
    "at worst it is {worst}": "最坏为 {worst}",
    # Where defaults come from
    "torchtitan reduces gradients in fp32": "torchtitan 以 fp32 归约梯度",
    "NeMo Automodel reduces gradients in fp32 since 0.5, of shared experts since 0.2": (
        "NeMo Automodel 自 0.5 起以 fp32 归约梯度，共享专家的梯度自 0.2 起"
    ),
    "defaults were others until {}": "{} 及之前的默认设置不同",
    "the newest release": "最新版本",
    "TRL loads in fp32 and trains under autocast": "TRL 以 fp32 加载，在 autocast 下训练",
    "transformers 4 loads in fp32": "transformers 4 以 fp32 加载",
    "transformers 5 uses the checkpoint's dtype": "transformers 5 使用 checkpoint 的 dtype",
    "torchtitan's configurations of DeepSeek-V3 compile it": "torchtitan 的 DeepSeek-V3 配置会编译它",
    "torchtitan has compiled it since April 2, 2025": "torchtitan 自 2025 年 4 月 2 日起编译损失",
    "set engine.framework_version to choose one": "请用 engine.framework_version 指定版本",
    # Quantized weights
    "prepares quantized models": "用于准备量化模型",
    "quantized weights are frozen, so nothing is trainable without an adapter: set training.adapter": (
        "量化权重是冻结的，没有适配器就没有可训练参数：请设置 training.adapter"
    ),
    "matrices of its {kinds} layers are counted in 16 bits, although bitsandbytes quantizes most of them": (
        "其 {kinds} 类层的矩阵按 16 位计算，而 bitsandbytes 会量化其中大部分"
    ),
    "FSDP cannot shard bitsandbytes' 8-bit matrices": "FSDP 不能切分 bitsandbytes 的 8 位矩阵",
    "not supported yet for {model}'s experts with transformers 4": "暂不支持 transformers 4 中 {model} 的专家",
    "8 bits are not supported yet for routed experts with transformers 4": "transformers 4 的路由专家暂不支持 8 位",
    "not supported yet for experts that have biases": "暂不支持带偏置的专家",
    "GPTQ and AWQ are supported only with engine.type none or ddp and transformers' layers": (
        "GPTQ 与 AWQ 仅支持 engine.type none、ddp 与 transformers 的层"
    ),
    "GPTQ and AWQ are not supported yet for {model}'s experts with transformers 5": (
        "GPTQ 与 AWQ 暂不支持 transformers 5 中 {model} 的专家"
    ),
    "GPTQ and AWQ are not supported yet for {model}, whose layers are Conv1D": (
        "GPTQ 与 AWQ 暂不支持 {model}，其层为 Conv1D"
    ),
    "only lora is supported next to GPTQ and AWQ so far": "目前与 GPTQ、AWQ 同用的只支持 lora",
    "transformers splits Llama 4's experts to quantize them, which is not supported yet": (
        "transformers 会拆开 Llama 4 的专家再量化：暂不支持"
    ),
    "its routed experts are not quantized: transformers 5 stacks their matrices, and bitsandbytes "
    "replaces only nn.Linear (transformers 4 had one per expert)": (
        "其路由专家不量化：transformers 5 将其矩阵堆叠，而 bitsandbytes 只替换 nn.Linear（transformers 4 每"
        "个专家各有一个）"
    ),
    "'fp8' is supported only with engine.type none or ddp and transformers' layers": (
        "'fp8' 仅支持 engine.type none、ddp 与 transformers 的层"
    ),
    "'fp8' would also quantize {model}'s experts, which is not supported yet": (
        "'fp8' 还会量化 {model} 的专家，暂不支持"
    ),
    "'fp8' replaces only nn.Linear, and {model} has none": "'fp8' 只替换 nn.Linear，而 {model} 没有",
    "applies to weights quantized by bitsandbytes": "仅适用于 bitsandbytes 量化的权重",
    "leave it out with 'fp8'": "使用 'fp8' 时请去掉",
    # Sequences and images
    "{model} has {most} learned positions": "{model} 有 {most} 个可学习位置",
    "{model} has no vision tower": "{model} 没有视觉塔",
    "the towers of {model} are not supported yet": "暂不支持 {model} 的视觉塔",
    "allowed: 0 (text only)": "允许：0（仅文本）",
    "its towers' activations are not counted yet": "其视觉塔的激活值尚未计入",
    "one image": "一张图像",
    "one image or sound": "一张图像或一段音频",
    "{model} has no towers": "{model} 没有塔",
    "0 for text-only sequences": "纯文本序列为 0",
    "text only: an image has more tokens than a sequence": "仅文本：一张图像的 token 数多于序列",
    "the model's native size": "模型的原生尺寸",
    "its processor also accepts other sizes": "其处理器也接受其他尺寸",
    "every image is resized to {side}": "每张图像缩放到 {side}",
    "larger images are resized to {side}": "更大的图像缩放到 {side}",
    "the images alone take {tokens} tokens, so set training.sequence_length above that": (
        "仅图像就占 {tokens} 个 token，请将 training.sequence_length 设得更大"
    ),
    # Engines
    "several GPUs": "多块 GPU",
    "engine.type {engine} has no versions": "engine.type {engine} 没有版本之分",
    "fully_shard cannot handle parameters shared by several layers, as in {model}": (
        "fully_shard 不支持多个层共用的参数，如 {model}"
    ),
    # Context parallelism and Ulysses
    "found {sequence}, which is not divisible by 2 × {ranks} ranks": (
        "值为 {sequence}，不能被 2 × {ranks} 个 rank 整除"
    ),
    "supported only for multi-head attention, which {model} does not have": "仅支持多头注意力，{model} 没有",
    "supported: layers of {implementations} with attention {kernels}": (
        "支持的组合：{implementations:s} 的层与注意力 {kernels:s}"
    ),
    "layers of {name} support it only where every token sees all before it, without padding": (
        "{name:s} 的层仅在每个 token 都能看到之前全部 token、且无填充时支持"
    ),
    "supported only for multi-head attention in transformers' or Liger's layers": (
        "仅支持 transformers 与 Liger 层的多头注意力"
    ),
    "found {ranks} with parallelism.tensor_parallel_size {tensor}": (
        "值为 {ranks}，而 parallelism.tensor_parallel_size 为 {tensor}"
    ),
    "the two are not supported together yet": "暂不支持两者同时使用",
    "leave one of them out": "请去掉其中之一",
    "has no effect next to {path}": "与 {path} 同时给出时无效",
    "Ulysses supports {kernels}": "Ulysses 支持 {kernels:s}",
    "Ulysses with sliding windows is supported only with 'flash'": "带滑动窗口的 Ulysses 仅支持 'flash'",
    "a mask over the whole sequence is not supported yet with Ulysses": "Ulysses 暂不支持覆盖整个序列的掩码",
    "{query} query and {key} key heads of {model}": "{model} 的 {query} 个查询头和 {key} 个键头",
    "found {ranks}, which does not divide {what}": "值为 {ranks}，不能整除 {what}",
    # Numbers of GPUs
    "{size} pipeline": "{size} 级流水线",
    "{size} tensor": "{size} 路张量",
    "{size} Ulysses": "{size} 路 Ulysses",
    "{size} context": "{size} 路上下文",
    "found {gpus}, which is not a multiple of the {product}-parallel ranks": (
        "值为 {gpus}，不是{product}并行 rank 数的倍数"
    ),
    "'none' has no data parallelism, but the layout has {ranks} data-parallel groups": (
        "'none' 没有数据并行，当前有 {ranks} 个数据并行组"
    ),
    "'none' runs on one GPU, found hardware.num_gpus {gpus}": (
        "'none' 只在一块 GPU 上运行，当前 hardware.num_gpus 为 {gpus}"
    ),
    "a number must divide the {shards} ranks of a shard group": "数值必须整除分片组的 {shards} 个 rank",
    # Pipelines
    "{setting} {schedule} has no effect without a pipeline ({stages} is 1)": (
        "{setting} {schedule} 在没有流水线时不起作用（{stages} 为 1）"
    ),
    "one layer count for each of the {stages} stages, in order, {layers} in total": (
        "按顺序为 {stages} 级各给一个层数，合计 {layers}"
    ),
    "one for each part": "每部分一个",
    "{layers} layers would leave a stage empty": "{layers} 层会使某一级没有层",
    "pipelines are supported only with FSDP2, found engine.version 1": "流水线仅支持 FSDP2，当前 engine.version 为 1",
    "LitGPT's scripts have no pipeline parallelism": "LitGPT 的脚本没有流水线并行",
    "PyTorch's schedules keep {stages} stages gathered, more are not supported yet": (
        "PyTorch 的调度最多让 {stages} 级的参数不重新切分，更多级暂不支持"
    ),
    "found {stages} ranks with {chunks} stages each": "当前为 {stages} 个 rank，每个 {chunks} 级",
    "{model} has {layers} layers": "{model} 有 {layers} 层",
    "a tied head": "共享权重的输出头",
    "such first layers": "这样的起始层",
    "{model} has {what}, which is not supported yet in a pipeline": "{model} 有{what}，在流水线中暂不支持",
    "supported only with expert parallelism in a pipeline, as in PithTrain": (
        "仅支持流水线中的专家并行，与 PithTrain 相同"
    ),
    "its own schedule": "自己的调度",
    "{framework} supports only {only}": "{framework} 仅支持 {only}",
    "'dualpipe' needs an even number of ranks": "'dualpipe' 需要偶数个 rank",
    "'dualpipev' supports any number": "'dualpipev' 支持任意个数",
    "each 'dualpipe' rank has 2 stages, one per direction": "'dualpipe' 的每个 rank 有 2 级，两个方向各一级",
    "{schedule} has 2 stages on each rank": "{schedule} 的每个 rank 有 2 级",
    "{schedule} has one stage on each rank": "{schedule} 的每个 rank 有一级",
    "{schedule} needs a multiple of its {rounds} rounds": "{schedule} 需要其 {rounds} 轮的倍数",
    "{schedule} needs an even number of at least {count}": "{schedule} 需要不小于 {count} 的偶数",
    "{schedule} needs at least {count}, one for each stage": "{schedule} 至少需要 {count}，每级一个",
    "ranks r and PP - 1 - r hold the same two stages, and the caller sums their gradients in place": (
        "rank r 与 PP - 1 - r 持有相同的两级，其梯度由调用者原地求和"
    ),
    "data parallelism as in PyTorch's pipelines": "数据并行与 PyTorch 的流水线相同",
    "'dualpipe' uses DeepSeek's own schedule, which returns no outputs": "'dualpipe' 用 DeepSeek 的调度，不返回输出",
    "PyTorch's default": "PyTorch 的默认值",
    "torchtitan does not request them": "torchtitan 不要求返回",
    # Tensor parallelism
    "the loss runs on full logits": "该损失在完整 logits 上计算",
    "tensor parallelism is not supported yet for {what} ({model})": "{what}（{model}）暂不支持张量并行",
    "routed experts are supported only with sequence parallelism": "路由专家仅在开启序列并行时支持",
    "{name} ({size})": "{name}（{size}）",
    "found {count}, which does not divide {model}'s {names}": ("值为 {count}，不能整除 {model} 的{names}"),
    "found {value}, which is not supported yet with tensor parallelism": "值为 {value}，暂不支持与张量并行一起使用",
    "FSDP2 does not support this with DTensors": "FSDP2 不支持与 DTensor 一起使用",
    "tensor parallelism with sliding windows is supported only with 'flash'": "带滑动窗口的张量并行仅支持 'flash'",
    "with tensor parallelism, supported only with torchtitan's layers and engine.type fsdp": (
        "在张量并行下仅支持 torchtitan 的层与 engine.type fsdp"
    ),
    "{where}: PEFT adds hooks of transformers' own tensor-parallel plan, which is not supported yet": (
        "{where}：PEFT 会加上 transformers 自身张量并行方案的钩子，暂不支持"
    ),
    "torchtitan's LoRA has no dropout": "torchtitan 的 LoRA 没有 dropout",
    "found {teacher} with a vocabulary of {words}": "{teacher} 的词表大小为 {words}",
    "the model has {words}, and both must be the same": "模型的词表大小为 {words}，两者必须相同",
    "with Megatron, supported only for {framework}": "在 Megatron 下仅支持 {framework}",
    "with tensor parallelism, supported: {kind}": "在张量并行下支持 {kind}",
    "with tensor parallelism, adapters are supported only on unquantized layers": (
        "在张量并行下仅支持未量化层上的适配器"
    ),
    "must be divisible by {ranks} tensor-parallel ranks": "必须能被 {ranks} 个张量并行 rank 整除",
    "adapters do not have this with tensor parallelism": "张量并行下的适配器没有此项",
    "multi-head attention and dense feed-forward layers": "多头注意力与稠密前馈层",
    "with tensor parallelism, supported only for {where}": "在张量并行下仅支持{where}",
}
