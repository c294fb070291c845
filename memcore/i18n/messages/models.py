"""Why a model or its layers are refused or how it was read, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_MODELS_IN_CHINESE: Mapping[str, str] = {
    # What layers' code cannot do
    "use 'transformers'": "请用 'transformers'",
    "use 'transformers' or 'liger'": "请用 'transformers' 或 'liger'",
    "Liger's kernels need {what}, which {family} lacks": "Liger 的 kernel 需要{what}，{family} 没有",
    "LitGPT's layers need {what}, which {family} lacks": "LitGPT 的层需要{what}，{family} 没有",
    "torchtitan's models need {what}, which {family} lacks": "torchtitan 的模型需要{what}，{family} 没有",
    "Unsloth's functions are supported only with training.adapter.type 'lora'": (
        "Unsloth 的函数仅支持 training.adapter.type 'lora'"
    ),
    "Unsloth adapts only {names}, found {name}": "Unsloth 只为 {names} 添加适配器，此处为 {name}",
    "context parallelism has no kernel for these widths and heads in this dtype": (
        "上下文并行没有支持该 dtype、宽度和头数的 kernel"
    ),
    "Megatron is not supported yet for {what}": "Megatron 暂不支持{what}",
    "training {family} is not supported yet: {what}": "暂不支持训练 {family}：{what}",
    "training with {what} is not supported yet": "暂不支持用 {what} 训练",
    "Megatron does not support {what} yet ({model})": "Megatron 暂不支持{what}（{model}）",
    # Names of repositories
    "found {name}, which is stored as {format}": "{name} 的存储格式为 {format}",
    "training is supported from {base}": "训练请从 {base} 开始",
    "it leaves some layers in 16 bits": "其中部分层保留 16 位",
    # Parts of a model
    "mixers other than attention": "注意力以外的混合层",
    "mixers other than attention over heads": "多头注意力以外的混合层",
    "feed-forward layers other than dense ones": "稠密前馈层以外的前馈层",
    "feed-forward layers other than gated ones with three matrices": "三个矩阵的门控前馈层以外的前馈层",
    "embeddings other than token embeddings": "token 嵌入以外的嵌入",
    "output heads other than a single matrix": "单个矩阵以外的输出头",
    "one set of weights that runs as several layers": "一组权重作为多层运行",
    "layers connected as {wiring}": "按 {wiring} 连接的层",
    "{kind} norms": "{kind} 类归一化",
    "{kind} mixers": "{kind} 类混合层",
    "attention with sinks, distance biases or its own norms": ("带 sink、按距离偏置或自有归一化的注意力"),
    "attention with full rotary embeddings": "使用完整 RoPE 的注意力",
    "a gated feed-forward layer of two matrices": "两个矩阵的门控前馈层",
    "a gated feed-forward layer": "门控前馈层",
    "a gated feed-forward layer in every layer": "每层一个门控前馈层",
    "a feed-forward layer in every layer": "每层一个前馈层",
    "a dense feed-forward layer in every layer": "每层一个稠密前馈层",
    "attention in every layer": "每层都有注意力",
    "layers one after the other": "顺序连接的层",
    "layers one after the other or in parallel": "顺序或并行连接的层",
    "LayerNorm or RMSNorm": "LayerNorm 或 RMSNorm",
    "no norm on queries and keys": "查询和键上没有归一化",
    "norms over heads or none": "按头的归一化或没有归一化",
    "norms over all heads together": "跨所有头的归一化",
    "rotary embeddings": "旋转位置编码（RoPE）",
    "rotary embeddings over whole heads": "覆盖整个头的旋转位置编码",
    "attention to all tokens": "对全部 token 的注意力",
    "two matrices for gate and up": "gate 与 up 为两个矩阵",
    "one matrix for queries, keys and values": "查询、键、值合为一个矩阵",
    "separate query, key and value matrices": "查询、键、值各自的矩阵",
    "attention without separate query, key and value matrices": "查询、键、值矩阵不分开的注意力",
    "a bias that all ranks add to a sum over them": "各 rank 都加到求和结果上的偏置",
    "latent attention without an indexer": "不带索引器的潜在注意力（MLA）",
    "the experts of DeepSeek, Qwen3 or gpt-oss": "DeepSeek、Qwen3 或 gpt-oss 的专家",
    "a final norm": "最后的归一化",
    "matrices without biases": "无偏置的矩阵",
    "no towers": "没有塔",
    "the tower's attention does not match its heads": "视觉塔的注意力与其头数不符",
    "check hidden_size and num_heads": "请检查 hidden_size 与 num_heads",
    "vision towers": "视觉塔",
    "shared caches": "共享的缓存",
    "fused matrices laid out {how}": "按 {how} 排列的融合矩阵",
    "values with a different width": "宽度不同的值",
    "values that reuse the keys": "以键为值",
    "mixer {kind}": "混合层 {kind}",
    "experts {kind}": "专家 {kind}",
    "norm {kind}": "归一化 {kind}",
    "rotation {kind}": "旋转 {kind}",
    "embeddings other than those of tokens and positions": "token 和位置以外的嵌入",
    "scaled embeddings or logits": "缩放的嵌入或 logits",
    "a network without a final norm": "没有最后归一化的网络",
    "attention in parallel with the feed-forward layer": "与前馈层并行的注意力",
    "layers of several mixers": "有多个混合层的层",
    "layers with norms after their parts, or one norm for several parts": (
        "在各部分之后做归一化、或多个部分共用一个归一化的层"
    ),
    "an indexer of sparse attention": "稀疏注意力的索引器",
    "feed-forward layers of another kind": "其他类型的前馈层",
    "routers with additional parameters": "带额外参数的路由器",
    "experts that are stacked in one matrix": "堆叠成一个矩阵的专家",
    "attention with biases or caps": "带偏置或 cap 的注意力",
    "attention that shares keys and values": "共享键和值的注意力",
    # Towers
    "found several layers": "给出了多个层",
    "allowed with internvl: {value}": "internvl 允许：{value}",
    "allowed with mistral3: {value}": "mistral3 允许：{value}",
    "one": "一个",
    "allowed with Pixtral's tower, which has no class token: 'full'": "Pixtral 的塔没有 class token，允许：'full'",
    "known towers: {names}": "已知的塔：{names:s}",
    "this family's code comes with its checkpoints, which give the key a value": (
        "该系列的代码随 checkpoint 发布，这个键应由其 config.json 给出"
    ),
    "found no model_type": "未给出 model_type",
    "found {value}, whose weights only MLX loads": "值为 {value}，其权重只能由 MLX 加载",
    "its model is {value}": "对应的模型是 {value:s}",
    "{value} is taken from architectures": "按 architectures 取 {value}",
    "found {value}, a draft model for speculative decoding": "值为 {value}，这是用于投机解码的草稿模型",
    "give the target model, and name this one as its draft model": "请填写目标模型，并把草稿模型设为投机解码",
    "found {value}, whose code comes with its checkpoint and differs from transformers' {value2}": (
        "值为 {value}，其代码随 checkpoint 发布，与 transformers 的 {value2} 是不同的网络"
    ),
    "this family's code comes with its checkpoints: activations are those of the same layers in transformers": (
        "该系列的代码随 checkpoint 提供：激活值按 transformers 中相同的层计算"
    ),
    "found {name}, whose head is not counted": "类为 {name}，不计其输出头",
    "found {keys}, which its class in transformers does not know, and no {parts}": (
        "发现 {keys:s}，transformers 中的类没有这些部分，又缺少 {parts:s}"
    ),
    "give a file that transformers has saved": "请给出由 transformers 保存的文件",
    "found {keys}, which this family's class in transformers does not know": (
        "发现 {keys:s}，transformers 中该系列的类没有这些键"
    ),
    "this family's cache size was derived only from the shapes of its attention tensors": (
        "该系列的缓存大小仅由其注意力张量的形状推出"
    ),
    "recurrent layers that memcore does not know": "memcore 不认识的循环层",
    "attention with scores for positions and segments": "对位置和片段另算分数的注意力",
    "experts without a key for the number per token": "没有键说明每个 token 选用几个的专家",
    "found 2, which only runs with new_decoder_architecture": "值为 2，只能与 new_decoder_architecture 一起运行",
    "only the language model is counted: this family's vision and audio towers are not supported yet": (
        "只计算语言模型：暂不支持该系列的视觉塔和音频塔"
    ),
    # config.json
    "unknown family {family}, not among the {count} supported (`memcore models --families`)": (
        "值为 {family}，不在已知的 {count} 个系列之中（`memcore models --families`）"
    ),
    "it cannot be read like Llama: missing {keys}": "无法按 Llama 读取：缺少 {keys:s}",
    "it has parts that Llama does not have: {keys}": "含有 Llama 没有的部分：{keys:s}",
    "known families: {families}": "已知系列：{families:s}",
    "known: {names}": "已知：{names:s}",
    "family {family} is unknown, so its keys were read as Llama's, with RMSNorm and a gated feed-forward layer": (
        "系列 {family} 未知：按 Llama 的键读取，使用 RMSNorm 和门控前馈层"
    ),
    "the range also allows for ungated feed-forward layers and, if the config leaves it open, tied embeddings": (
        "范围还包括无门控前馈层，以及配置未说明时的共享嵌入"
    ),
    "Llama-like model": "类似 Llama 的模型",
    "expected a list of heights and widths, found {value}": "应为高与宽的列表，实为 {value}",
    "expected a list of layer numbers, found {value}": "应为层号列表，实为 {value}",
    "expected ranks by module, such as {example:s}, found {value}": "应为各模块的秩，例如 {example:s}，实为 {value}",
    "expected layer numbers, found {value}": "应为层号，实为 {value}",
    "a positive integer": "正整数",
    "an integer of at least {least}": "不小于 {least} 的整数",
    "expected an integer of at most {most}, found {value}": "应为不大于 {most} 的整数，实为 {value}",
    "expected a number above 0 and up to 1, found {value}": "应为大于 0 且不超过 1 的数，实为 {value}",
    "expected a partial_rotary_factor from 0 to 1, found {value}": (
        "partial_rotary_factor 应在 0 到 1 之间，实为 {value}"
    ),
    "lists {found} of {count} layers": "列出了 {found} 层，共 {count} 层",
    "found {rates} in layers that keep keys, where one is supported": "保存键的层中有 {rates}，仅支持一种",
    "expected a number of rows for each table, found {value}": "应为每张表的行数，实际为 {value}",
    "lists {found} of {count} layers, the first of which must be full": (
        "列出了 {found} 层，共 {count} 层，其中第一层须为 full"
    ),
    "none of the {count} layers before it has {kinds} attention to share": (
        "之前的 {count} 层中没有可共享的 {kinds} 注意力"
    ),
    "expected at least {count} pixels, the size of one token": "应不小于一个 token 的 {count} 像素",
    "expected layer numbers without repeats, found {value}": "应为互不相同的层号，实为 {value}",
    "the tower's features feed the first {count} layers": "视觉塔的特征要送入前 {count} 层",
    "results of layers {layers} are needed": "需要第 {layers} 层的结果",
    "{chosen} of {count} experts": "{count} 个专家中选 {chosen} 个",
    "{key} does not divide the {count} attention heads": "{key} 不能整除 {count} 个注意力头",
    "{heads} does not divide the recurrent width {width}": "{heads} 不能整除循环宽度 {width}",
    "{heads} does not divide the hidden size {hidden}": "{heads} 不能整除隐藏维度 {hidden}",
    "{heads} does not divide the hidden size {hidden}, and {key} is absent": (
        "{heads} 不能整除隐藏维度 {hidden}，且缺少 {key}"
    ),
    "{heads} heads are too many for a hidden size of {hidden}": "{heads} 个头超过了隐藏维度 {hidden}",
    # Derived networks
    "found {value}, but only {only} is supported for this family": "值为 {value}，该系列仅支持 {only}",
    "missing": "缺失",
    "add the part of the configuration that has this name": "请补上配置中该名称的部分",
    "the values of these keys contradict each other: {keys}": "这些键的值互相矛盾：{keys:s}",
    "found {value}, which is not supported in this family yet": "值为 {value}，该系列暂不支持",
    "found {value}, a family of transformers that is not supported yet": "值为 {value}，transformers 的该系列暂不支持",
    "found {value}, a family of transformers for {use} that is not supported yet": (
        "值为 {value}，transformers 中处理{use:s}的该系列暂不支持"
    ),
    "memcore answers for language models and for those encoders that `memcore models --families` lists": (
        "memcore 可计算语言模型，以及 `memcore models --families` 所列的编码器"
    ),
    "images": "图像",
    "sounds": "声音",
    "time series": "时间序列",
    "videos": "视频",
    "give what is inside of {key} as the model to have its language model alone": (
        "将 {key} 中的内容作为模型给出，即可只计算其语言模型"
    ),
    "found no {parts}": "未找到 {parts:s}",
    "the defaults of its class in transformers are used": "采用 transformers 中该类的默认值",
    "frames of several codes": "每帧含多个编码",
    "this family reads images or sounds alone: a token is a position of its layers": (
        "该系列只读取图像或声音：一个 token 即其各层的一个位置"
    ),
    "layers of several widths": "宽度不同的层",
    "the token embedding would be {rows} × {width}": "token 嵌入会是 {rows} × {width}",
    "both must be at least 1": "两者都至少为 1",
    "{sparse} says {said}, but {step} makes {made} layers sparse, as transformers does": (
        "{sparse} 为 {said}，但按 {step}（transformers 以此为准）有 {made} 个稀疏层"
    ),
    "published weights may have others": "已发布的权重可能不同",
    "this family's KV cache is not supported yet": "暂不支持该系列的 KV 缓存",
    "layers that read the compressed keys of an earlier layer are not supported yet": "暂不支持读取前面层的压缩键的层",
    "vLLM does not support {value}": "vLLM 不支持 {value}",
    "SGLang does not support {value}": "SGLang 不支持 {value}",
    "{server} does not support {value}": "{server} 不支持 {value}",
    "of encoder-decoder models it runs only Whisper and a few others": (
        "在编码器-解码器网络中，它只支持 Whisper 和少数其他模型"
    ),
    "engine.type sglang serves it": "可改用 engine.type sglang",
    "engine.type transformers serves it": "可改用 engine.type transformers",
    "transformers runs it, but its cache is not supported yet": "transformers 可以运行它，但暂不支持其缓存",
    "{version} is the last release of vLLM that supports {family}": "vLLM {version} 是支持 {family} 的最后一个版本",
    "found no architectures": "没有 architectures",
    "counted as {name}": "按 {name} 计数",
    "found architectures {value}, counted as {name}": "architectures 为 {value}，按 {name} 计数",
    "this family's towers and encoders are approximated in training": "训练中该系列的塔和编码器按近似处理",
    "for serving only their parameters are counted": "推理服务中只计其参数",
    # A model from its size
    "unknown": "未知",
    "a model needs a model_type, or keys of the short form: {names}": "模型需要 model_type，或简写形式的键：{names:s}",
    "the short form needs num_parameters or {names}": "简写形式需要 num_parameters 或 {names:s}",
    "found {count} layers without a repeating pattern": "有 {count} 层不构成重复的排列",
    "at most {most} layers are supported": "最多支持 {most} 层",
    "expected at most {most}, found {value}": "应不大于 {most}，实为 {value}",
    "found layers with {kind} mixers, which the family does not have": "含有 {kind} 混合层，而该系列没有",
    "found {kind} feed-forward layers, which the family does not have": "含有 {kind} 前馈层，而该系列没有",
    "expected a number of parameters such as 7B or 350M, found {value}": "应为参数量，如 7B 或 350M，实为 {value}",
    "its sizes give {counted} parameters, but num_parameters is {stated}": (
        "其尺寸合 {counted} 个参数，而 num_parameters 为 {stated}"
    ),
    "assumed intermediate_size {width} for {stated} parameters": "为 {stated} 个参数假设 intermediate_size {width}",
    "assumed: {what}": "假定：{what}",
    "assumed, as recipes of this kind have it: {flags}": "按同类配方的惯例假定：{flags}",
    "assumed like Llama 2: {values}": "按 Llama 2 假设：{values}",
    "only the number of parameters is given, so Llama's proportions are assumed: {sizes}": (
        "只给出参数量，因此按 Llama 的比例假设：{sizes}"
    ),
    "{layers} layers, hidden size {hidden}, feed-forward {width}, vocabulary {words}": (
        "{layers} 层，隐藏维度 {hidden}，前馈 {width}，词表 {words}"
    ),
    # Megatron-Core's arguments and layouts
    "expected two numbers such as 127,0, found {value}": "应为两个数，例如 127,0，实际为 {value}",
    "expected steps such as 0:768 250B:1536, found {value}": "应为阶梯，例如 0:768 250B:1536，实际为 {value}",
    "expected a number or a list of {count} zeros and ones, found {value}": (
        "应为数，或 {count} 个 0 与 1 的列表，实为 {value}"
    ),
    "expected a string, found {found}": "应为字符串，实为 {found}",
    "expected a string of {letters} | and /, found {value}": "应为由 {letters} | 和 / 组成的字符串，实为 {value}",
    "every multi-token-prediction depth must have the same layers": "每个多 token 预测深度须有相同的层",
    "found {count}, but {key} has {depths} depths": "值为 {count}，但 {key} 有 {depths} 个深度",
    "found {found} layers, expected {count} in total, in {chunks} equal chunks per stage": (
        "给出 {found} 层，合计应为 {count}，每级 {chunks} 个等大的块"
    ),
    "{total} layers{counted} cannot be split evenly into {chunks} chunks": (
        "{total} 层{counted}无法均分为 {chunks} 个分块"
    ),
    " with the {name}": "（含{name}）",
    "split them with {flags}": "可用 {flags} 切分",
    "{given} layers, but {model} has {count}": "给出 {given} 层，但 {model} 有 {count} 层",
    "{given} multi-token-prediction layers, expected {count}": "多 token 预测层为 {given}，应为 {count}",
    "the first chunk must have exactly one E, and the last exactly one L": (
        "第一个块须恰有一个 E，最后一个块须恰有一个 L"
    ),
    "expected E, t, m, L and |, with repetitions such as t*3 or (tt|)*4": (
        "应由 E、t、m、L 和 | 组成，可重复，如 t*3 或 (tt|)*4"
    ),
    "its brackets do not match": "括号不匹配",
    "expected at most {most} layers and stage boundaries, found {value}": (
        "层与级边界合计应不超过 {most} 个，实为 {value} 个"
    ),
    "no chunks": "没有块",
    "found {found} chunks, expected {each} for each of {stages} stages": (
        "给出 {found} 个块，应为每级 {each} 个，共 {stages} 级"
    ),
    "expected an object, found {value}": "应为对象，实为 {value}",
    "Llama 2's rule gives {rule}, for a total of {counted}": "按 Llama 2 的规则为 {rule}，合计 {counted}",
}
