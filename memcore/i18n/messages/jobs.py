"""Why a job is refused or what was taken for it, in Chinese by the English sentence: layout, memory, engines."""

from __future__ import annotations

from collections.abc import Mapping

OF_JOBS_IN_CHINESE: Mapping[str, str] = {
    "a stage that begins with a layer sharing the indexer of the stage before is not modelled": (
        "某级以共用上一级索引器的层开头，尚未建模"
    ),
    # Said of many settings
    "needs {setting}": "需要 {setting}",
    "needs {setting} of 2 or more": "需要 {setting} 不小于 2",
    "needs {setting} above 1": "需要 {setting} 大于 1",
    "needs policy 'none'": "需要策略 'none'",
    "applies to {setting}": "仅适用于 {setting}",
    "applies to {setting}, found {value}": "仅适用于 {setting}，当前为 {value}",
    "applies to policy 'selective', found policy {policy}": "仅适用于策略 'selective'，当前策略为 {policy}",
    "applies to mode 'layer', found mode 'op'": "仅适用于 'layer' 模式，当前为 'op'",
    "applies to engine.type {engines}, found engine.type {engine}": (
        "仅适用于 engine.type {engines:s}，当前为 engine.type {engine}"
    ),
    "found {value}, which is not modelled with {engine}": "值为 {value}，与 {engine} 的组合未建模",
    "found {value}, which is not modelled yet": "值为 {value}，尚未建模",
    "not modelled with {what}": "与 {what} 的组合未建模",
    "found {value}, which {ranks} ranks cannot share equally": "值为 {value}，无法由 {ranks} 个 rank 均分",
    "found {value}, which does not divide the {ranks} data-parallel ranks": (
        "值为 {value}，不能整除 {ranks} 个数据并行 rank"
    ),
    "with {engine}: {values}": "{engine} 可用：{values:s}",
    "engine.type {engine} and {layers} layers": "engine.type {engine} 与 {layers} 的层",
    # Experts with adapters
    "transformers 4 has an nn.Linear for each expert, beside which adapters are not modelled": (
        "transformers 4 的每个专家是 nn.Linear，其旁的适配器未建模"
    ),
    "name others": "请指定其他层",
    "{fused} holds {halves}": "{fused} 包含 {halves}",
    "PEFT takes both or neither": "PEFT 要么都取，要么都不取",
    "as PEFT 0.21 does with transformers 5": "如 PEFT 0.21 配合 transformers 5",
    "reaches routed experts, where PEFT's lora.ParamWrapper takes LoRA without dropout alone": (
        "涉及路由专家，PEFT 的 lora.ParamWrapper 在此只接受无 dropout 的 LoRA"
    ),
    "matrices of experts: {names}": "专家的矩阵：{names:s}",
    # Activation budgets and checkpoints
    "found {budget} beside activation checkpoints": "值为 {budget}，同时使用了激活检查点",
    "modelled for layers of one shape": "仅对形状相同的层建模",
    "attention {kernel}": "注意力 {kernel}",
    "tensor parallelism": "张量并行",
    "context parallelism": "上下文并行",
    "masks of attention": "注意力掩码",
    "adapters or frozen layers": "适配器或冻结层",
    "offloaded activations": "卸载的激活",
    "a KV cache": "KV 缓存",
    "latent attention": "潜在注意力（MLA）",
    "norms after the rotation": "旋转位置编码之后的归一化",
    "heads that kernels pad or refuse": "内核需填充或不支持的头",
    "found {budget}, which leaves room for no product": "值为 {budget}，连一个矩阵乘的结果也放不下",
    "not modelled with float8": "与 float8 的组合未建模",
    "the compiler decides by it, so it needs training.compile true": "编译器据此决定，因此需要 training.compile true",
    "the compiler decides what is computed again": "由编译器决定重计算什么",
    "reentrant checkpoints run layers again as a whole": "可重入检查点会整层重算",
    "later layers of {model} attend to an earlier one's keys, whose graph PyTorch goes through once": (
        "{model} 的后续层使用前面某层的键，而 PyTorch 只遍历其计算图一次"
    ),
    "engine.type {engine} has checkpoints of its own": "engine.type {engine} 有自己的检查点",
    "a period is given": "给出了间隔",
    "as in torchtitan's configurations": "与 torchtitan 的配置相同",
    # DeepSpeed
    "{engine} sets gradients to None itself": "{engine} 自行将梯度设为 None",
    "DeepSpeed's default: no ZeRO": "DeepSpeed 的默认值：不用 ZeRO",
    "needs {stage} 1, 2 or 3": "需要 {stage} 为 1、2 或 3",
    "modelled as fp32 with bf16 and {stage} 1, on the GPU": "仅对 bf16、{stage} 1、在 GPU 上的 fp32 建模",
    "products in FP8 are 'fp8-mixed'": "FP8 矩阵乘用 'fp8-mixed'",
    "found {dtype} with {setting} {preset}": "值为 {dtype}，而 {setting} 为 {preset}",
    "found {value}, but {setting} is {other}": "值为 {value}，但 {setting} 为 {other}",
    "what the config says in other words": "配置中以其他词给出",
    "found {value} with {other}": "值为 {value}（{other}）",
    "only DeepSpeed's ZeRO-3 keeps states on a disk (engine.type 'deepspeed', engine.zero_stage 3)": (
        "只有 DeepSpeed 的 ZeRO-3（engine.type 'deepspeed'、engine.zero_stage 3）可将状态放在磁盘上"
    ),
    "PyTorch's optimizers read the parameters themselves, which 'bf16-mixed' has in fp32": (
        "PyTorch 的优化器直接读取参数，'bf16-mixed' 下参数为 fp32"
    ),
    "engines with a copy: deepspeed, megatron": "有副本的引擎：deepspeed、megatron",
    "DeepSpeed's optimizer has {copy} here": "DeepSpeed 的优化器在此{copy}",
    "an fp32 copy": "有 fp32 副本",
    "no copy of fp32 parameters without ZeRO": "不用 ZeRO 时没有 fp32 参数的副本",
    # Expert parallelism
    "experts are not divided further": "专家不再继续切分",
    "{model} has no routed experts": "{model} 没有路由专家",
    "found {ranks}, which cannot share {model}'s {count} experts equally": (
        "值为 {ranks}，无法均分 {model} 的 {count} 个专家"
    ),
    "it must divide the {shards} ranks over which FSDP shards": "必须整除 FSDP 分片所用的 {shards} 个 rank",
    "it must divide the {shards} data-parallel ranks": "必须整除 {shards} 个数据并行 rank",
    "every rank's experts are chosen equally often": "各 rank 的专家被选中的次数相同",
    "at worst it is {worst}": "最坏为 {worst}",
    # Where defaults come from
    "TRL loads in fp32 and trains under autocast": "TRL 以 fp32 加载，在 autocast 下训练",
    "transformers 4 loads in fp32": "transformers 4 以 fp32 加载",
    "since 5 in the checkpoint's dtype": "自 5 起以 checkpoint 的 dtype 加载",
    "torchtitan's configurations of DeepSeek-V3 compile it": "torchtitan 的 DeepSeek-V3 配置会编译它",
    "torchtitan compiles it since April 2, 2025": "torchtitan 自 2025 年 4 月 2 日起编译它",
    "engine.framework_version says which one runs": "由 engine.framework_version 决定使用哪个版本",
    # Quantized weights
    "prepares quantized models": "用于准备量化模型",
    "quantized weights are frozen, and nothing learns without an adapter": "量化权重是冻结的，没有适配器则无可学习参数",
    "of models with vision towers it is not modelled yet": "对带视觉塔的模型尚未建模",
    "only attention and feed-forward layers are modelled yet": "目前仅对注意力层与前馈层建模",
    "FSDP shards no 8-bit matrices of bitsandbytes": "FSDP 不能切分 bitsandbytes 的 8 位矩阵",
    "quantizes each expert's nn.Linear with transformers 4": "在 transformers 4 中量化每个专家的 nn.Linear",
    "modelled as 5 stacks them": "按 transformers 5 的堆叠方式建模",
    "transformers takes Llama 4's experts apart to quantize them: not modelled": (
        "transformers 会拆开 Llama 4 的专家再量化：未建模"
    ),
    "its routed experts are not quantized: transformers 5 stacks their matrices, and bitsandbytes finds nn.Linear "
    "alone "
    "(transformers 4 had one for each expert)": (
        "其路由专家不量化：transformers 5 将其矩阵堆叠，而 bitsandbytes 只识别 nn.Linear"
        "（transformers 4 每个专家各有一个）"
    ),
    "'fp8' is modelled with engine.type none and ddp, and layers of transformers": (
        "'fp8' 仅对 engine.type none、ddp 和 transformers 的层建模"
    ),
    "'fp8' would quantize {model}'s experts too, which is not modelled": "'fp8' 还会量化 {model} 的专家，未建模",
    "'fp8' replaces nn.Linear alone, which {model} has none of": "'fp8' 只替换 nn.Linear，而 {model} 没有",
    "concerns weights that bitsandbytes quantizes": "针对 bitsandbytes 量化的权重",
    "leave it out with 'fp8'": "使用 'fp8' 时请去掉",
    # Sequences and images
    "{model} has {most} learned positions": "{model} 有 {most} 个可学习位置",
    "{model} has no vision tower": "{model} 没有视觉塔",
    "what the towers of {model} do is not modelled": "{model} 的塔的计算未建模",
    "allowed: 0, text alone": "允许：0，仅文本",
    "its towers' activations are not modelled yet": "其塔的激活尚未建模",
    "one image": "一张图像",
    "0 for sequences of text alone": "纯文本序列为 0",
    "text alone: an image has more tokens than a sequence": "仅文本：一张图像的 token 数多于序列",
    "what the model is made for": "模型设计所用的值",
    "its processor takes other sizes too": "其处理器也接受其他尺寸",
    "every image is resized to {side}": "每张图像缩放到 {side}",
    "larger images are resized to {side}": "更大的图像缩放到 {side}",
    "the images alone are {tokens} tokens": "仅图像就有 {tokens} 个 token",
    # Engines
    "several GPUs": "多个 GPU",
    "engine.type {engine} has no versions": "engine.type {engine} 没有版本之分",
    "how far ahead of the GPU all-gathers are issued is not modelled": "all-gather 提前于 GPU 多少发出未建模",
    "fully_shard takes no parameters that several layers use, as in {model}": (
        "fully_shard 不接受多个层共用的参数，如 {model}"
    ),
    # Context parallelism and Ulysses
    "found {sequence}, which twice {ranks} ranks cannot share equally": (
        "值为 {sequence}，无法由 2×{ranks} 个 rank 均分"
    ),
    "modelled for attention over heads, which {model} lacks": "仅对按头的注意力建模，{model} 没有",
    "modelled for torchtitan's layers with attention {kernels} only": "仅对 torchtitan 的层、注意力 {kernels:s} 建模",
    "modelled for attention over heads of transformers' and Liger's layers": (
        "仅对 transformers 与 Liger 的层的按头注意力建模"
    ),
    "found {ranks} with parallelism.tensor_parallel_size {tensor}": (
        "值为 {ranks}，而 parallelism.tensor_parallel_size 为 {tensor}"
    ),
    "the two are not supported together yet": "暂不支持两者同时使用",
    "leave one of them out": "请去掉其中之一",
    "Ulysses takes {kernels}": "Ulysses 可用 {kernels:s}",
    "Ulysses with sliding windows is modelled for 'flash' only": "带滑动窗口的 Ulysses 仅对 'flash' 建模",
    "a mask of the whole sequence is not modelled with Ulysses": "整个序列的掩码与 Ulysses 的组合未建模",
    "{query} query and {key} key heads of {model}": "{model} 的 {query} 个查询头和 {key} 个键头",
    "found {ranks}, which cannot share {what} equally": "值为 {ranks}，无法均分 {what}",
    # Numbers of GPUs
    "{size} pipeline": "{size} 路流水线",
    "{size} tensor": "{size} 路张量",
    "{size} Ulysses": "{size} 路 Ulysses",
    "found {gpus}, which groups of {product}-parallel ranks cannot share": "值为 {gpus}，无法由 {product}并行的组均分",
    "'none' runs one group of tensor-parallel GPUs, found {ranks}": "'none' 只运行一组张量并行 GPU，当前为 {ranks}",
    "'none' runs on one GPU, found hardware.num_gpus {gpus}": (
        "'none' 只在一个 GPU 上运行，当前 hardware.num_gpus 为 {gpus}"
    ),
    "a number must divide the {shards} ranks of a shard group": "数值必须整除分片组的 {shards} 个 rank",
    # Pipelines
    "{setting} {schedule} changes nothing: there is no pipeline ({stages} 1)": (
        "{setting} {schedule} 不起作用：没有流水线（{stages} 1）"
    ),
    "a count for each of {stages} stages, in the order of layers, {layers} together": (
        "按层的顺序为 {stages} 个阶段各给一个层数，合计 {layers}"
    ),
    "one for each part": "每部分一个",
    "{layers} layers would leave a stage with none": "{layers} 层会使某个阶段没有层",
    "pipelines are modelled with FSDP2, found engine.version 1": "流水线仅对 FSDP2 建模，当前 engine.version 为 1",
    "LitGPT's scripts run no pipelines": "LitGPT 的脚本不运行流水线",
    "PyTorch's schedules keep {stages} stages gathered, so that more are not modelled": (
        "PyTorch 的调度保持 {stages} 个阶段处于聚合状态，更多则未建模"
    ),
    "found {stages} with {chunks} stages each": "值为 {stages}，每个有 {chunks} 个阶段",
    "{model} has {layers} layers": "{model} 有 {layers} 层",
    "a tied head": "共享权重的输出头",
    "such a beginning": "这样的开头",
    "{model} has {what}, which is not modelled in a pipeline": "{model} 有{what}，在流水线中未建模",
    "modelled with expert parallelism in a pipeline, as PithTrain delays experts'": (
        "仅对流水线中的专家并行建模，如 PithTrain 推迟专家的权重梯度"
    ),
    "its own schedule": "自己的调度",
    "{framework} runs {only} alone": "{framework} 只运行 {only}",
    "'dualpipe' needs an even number of ranks": "'dualpipe' 需要偶数个 rank",
    "'dualpipev' takes any": "'dualpipev' 不限",
    "each rank of 'dualpipe' has 2 stages, one of each direction": "'dualpipe' 的每个 rank 有 2 个阶段，两个方向各一个",
    "{schedule} has 2 stages on each rank": "{schedule} 的每个 rank 有 2 个阶段",
    "{schedule} has one stage on each rank": "{schedule} 的每个 rank 有一个阶段",
    "{schedule} needs a multiple of its {rounds} rounds": "{schedule} 需要其 {rounds} 轮的倍数",
    "{schedule} needs an even number of at least {count}": "{schedule} 需要不小于 {count} 的偶数",
    "{schedule} needs at least {count}, one for each stage": "{schedule} 至少需要 {count}，每个阶段一个",
    "ranks r and PP - 1 - r have the same two stages, whose gradients the caller sums in place": (
        "rank r 与 PP - 1 - r 有相同的两个阶段，其梯度由调用者就地求和"
    ),
    "data parallelism as in PyTorch's pipelines": "数据并行与 PyTorch 的流水线相同",
    "'dualpipe' has DeepSeek's own, which returns none": "'dualpipe' 用 DeepSeek 自己的调度，不返回输出",
    "PyTorch's default": "PyTorch 的默认值",
    "torchtitan asks for none": "torchtitan 不要求返回",
    # Tensor parallelism
    "the loss takes all logits": "该损失需要全部 logits",
    "tensor parallelism is not modelled for {what} ({model})": "对{what}（{model}）的张量并行未建模",
    "routed experts are modelled with {setting} of 2 or more and sequence parallelism": (
        "路由专家仅在 {setting} 不小于 2 且用序列并行时建模"
    ),
    "{model}'s {axis} = {size} cannot be shared equally": "{model} 的 {axis} = {size} 无法均分",
    "{model}'s {axis} cannot be shared equally": "{model} 的 {axis} 无法均分",
    "found {value}, which is not modelled under tensor parallelism": "值为 {value}，在张量并行下未建模",
    "FSDP2 cannot with DTensors": "FSDP2 对 DTensor 不支持",
    "tensor parallelism with sliding windows is modelled for 'flash' only": "带滑动窗口的张量并行仅对 'flash' 建模",
    "under tensor parallelism modelled as torchtitan has it, with engine.type fsdp": (
        "在张量并行下按 torchtitan 的方式建模，配合 engine.type fsdp"
    ),
    "{modelled}: PEFT hangs hooks of transformers' own plan on its matrices, which are not": (
        "{modelled}：PEFT 在其矩阵上挂接 transformers 方案的钩子，未建模"
    ),
    "torchtitan has LoRA without dropout": "torchtitan 的 LoRA 没有 dropout",
    "torchtitan's LoRA has none": "torchtitan 的 LoRA 没有此项",
    "attention over heads and dense feed-forward layers": "按头的注意力与稠密前馈层",
    "under tensor parallelism modelled beside {where} alone": "在张量并行下仅对{where}建模",
}
