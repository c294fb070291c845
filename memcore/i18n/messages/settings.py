"""What is said of settings, numbers, links and files, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_SETTINGS_IN_CHINESE: Mapping[str, str] = {
    # Said of any setting
    "found {value}": "值为 {value}",
    "found {value}, which {reason}": "值为 {value}，{reason}",
    "allowed: {values}": "允许：{values:s}",
    "allowed here: {values}": "此处允许：{values:s}",
    "must be 0 or more": "须不小于 0",
    "allowed: false, or all layers": "允许：false，或所有层",
    "leave it out": "请去掉此项",
    "is lora with --frozen-weights nf4 (training.quantization)": (
        "即 lora 加上 --frozen-weights nf4（training.quantization）"
    ),
    "found {value}, whose fragment is none of memcore's: it begins with #v1&": (
        "值为 {value}，其片段不是 memcore 的：应以 #v1& 开头"
    ),
    "is an adapter: use --adapter lora": "是适配器：请使用 --adapter lora",
    "is two settings: use --adapter lora --frozen-weights nf4": (
        "对应两项设置：请使用 --adapter lora --frozen-weights nf4"
    ),
    "is every method without an adapter: leave it out": "即不使用适配器的任何方法：请去掉此项",
    "memcore calls {flags}": "在 memcore 中写作 {flags}",
    "leave it out for a loop of your own": "若是自己写的循环，请去掉该项",
    "is an engine: use --engine {name}": "是引擎：请使用 --engine {name:s}",
    "{framework} runs it": "{framework:s} 运行该引擎",
    "{framework}'s default": "{framework:s} 的默认值",
    "{framework}'s own layers": "{framework:s} 自己的层实现",
    "it may be {names}": "可能是 {names:s}",
    "for another GPU, set GPU memory (--gpu-memory)": "其他 GPU 请设置 GPU 显存（--gpu-memory）",
    "the usual meaning of this name": "该名称通常的含义",
    "Ollama runs llama.cpp, and engines of its own": "Ollama 运行 llama.cpp 以及自己的引擎",
    "MLX is not known": "不支持 MLX",
    "llama.cpp serves GGUF files of as many bits, and allocates the whole cache at once, where MLX's grows with the "
    "tokens": "llama.cpp 使用位数相同的 GGUF 文件，并一次分配整个缓存，而 MLX 的缓存随 token 增长",
    "others: {names}": "其他可能：{names:s}",
    "accelerators": "加速器",
    "weight formats": "权重格式",
    "ggml types": "ggml 类型",
    "found {value}, which is not in the catalog of {count} accelerators{several}": (
        "值为 {value}，不在 {count} 个加速器的目录中{several}"
    ),
    "found {value}, on which this engine is not supported": "值为 {value}，该引擎在其上不受支持",
    "found {value}, whose compute capability is {capability}": "值为 {value}，其计算能力为 {capability}",
    "a computer with this GPU has one": "装有该 GPU 的计算机只有一块",
    "found {value}, whose architecture is {architecture}": "值为 {value}，其架构为 {architecture}",
    "this engine has kernels for {architectures}": "该引擎有这些架构的算子：{architectures}",
    "this engine has kernels from {oldest} on": "该引擎自 {oldest} 起才有算子",
    "supported: accelerators of {vendors}": "支持这些厂商的加速器：{vendors}",
    "profiles of this accelerator: {allowed}": "该加速器的实例规格：{allowed}",
    "accelerators with profiles: {allowed}": "可切分的加速器：{allowed}",
    "GPU slices cannot communicate with each other, so a job can use only one": (
        "MIG 实例之间不能通信，因此一个任务只能使用一个实例"
    ),
    "found {value}, which is not one of the {count} models in the catalog{several}": (
        "值为 {value}，不在目录的 {count} 个模型之中{several}"
    ),
    "found {value}, which is neither a file nor one of the {count} models in the catalog": (
        "值为 {value}，既不是文件，也不在目录的 {count} 个模型之中"
    ),
    "give its config.json, or name a model of the same shapes": "请提供其 config.json，或给出形状相同的模型名称",
    "name {name:s} if it has the same shapes, as its name suggests, or give its config.json": (
        "从名称看，其形状可能与 {name:s} 相同：若确实相同，请改用该名称，否则请提供其 config.json"
    ),
    "is required": "必填",
    "unknown key": "未知的键",
    "given twice": "重复给出",
    "given twice: also as {name}": "重复给出：另有 {name}",
    "they must agree": "二者必须一致",
    "a config describes training or inference, not both": "配置只能描述训练或推理之一，不能兼有",
    "a server does not train adapters": "推理服务不训练适配器",
    "set inference.max_loras (--max-loras) to how many it holds": "请用 inference.max_loras（--max-loras）给出个数",
    "leave one out, or name a server as engine.type": "请去掉一个，或将 engine.type 设为推理服务",
    "leave it out, or {}": "请去掉此项，或去掉 {}",
    # Numbers, words and texts
    "expected {kind}, found {value}": "应为{kind}，实为 {value}",
    "expected a whole number, found {value}": "应为整数，实为 {value}",
    "expected a whole number of at least {least}, found {value}": "应为不小于 {least} 的整数，实为 {value}",
    "expected a whole number of at most {most}, found {value}": "应为不大于 {most} 的整数，实为 {value}",
    "expected a whole number such as 8192, 8k or 7B, found {value}": "应为整数，如 8192、8k 或 7B，实为 {value}",
    "expected a number from {least} to {most}, found {value}": "应为 {least} 到 {most} 之间的数，实为 {value}",
    "expected a number with a unit such as 80GiB or 80GB, found {value}": (
        "应为带单位的数，如 80GiB 或 80GB，实为 {value}"
    ),
    "a number, or a size such as 80GiB": "数，或如 80GiB 的大小",
    "expected true or false, found {value}": "应为 true 或 false，实为 {value}",
    "expected true, false or a number of at least 2, found {value}": "应为 true、false 或不小于 2 的数，实为 {value}",
    "expected a release such as 0.19.0 or a whole number, found {value}": "应为版本号（如 0.19.0）或整数，实为 {value}",
    "expected numbers with commas between them, such as 3,1, found {value}": (
        "应为用逗号隔开的数字，如 3,1，实为 {value}"
    ),
    "expected a name or a list of names, found {value}": "应为名称或名称列表，实为 {value}",
    "expected a catalog id, a hub id or the content of a config.json, found {value}": (
        "应为目录 ID、模型中心 ID 或 config.json 的内容，实为 {value}"
    ),
    "expected a list of counts, or a layout such as 'Et*3|(tt|)*29m|L', found {value}": (
        "应为层数列表，或如 'Et*3|(tt|)*29m|L' 的布局，实为 {value}"
    ),
    "expected a name and a ggml type, such as {example}": "应为张量名和 ggml 类型，例如 {example}",
    "expected a string of at most {most} characters, found {value}": "应为不超过 {most} 个字符的字符串，实为 {value}",
    "expected at most {most} characters, found {value}": "应不超过 {most} 个字符，实为 {value} 个",
    "expected a list of at most {most} items, found {value}": "列表应不超过 {most} 项，实为 {value} 项",
    "found an empty string": "字符串为空",
    "found a lone surrogate (half a character), which no file can contain": (
        "含有半个字符（孤立的代理项），任何文件都无法保存"
    ),
    "leave the key out, or give null": "请去掉该键，或写 null",
    "expected a number of at most {most}, found {value}": "应为不大于 {most} 的数，实为 {value}",
    "more than {most} values": "超过 {most} 个值",
    "found {value}, the name of a file": "值为 {value}，是文件名",
    "read it with memcore.load": "请用 memcore.load 读取",
    "expected an object such as {example}, found {kind}": "应为对象，如 {example}，实为{kind}",
    "expected a JSON object": "应为 JSON 对象",
    "a string or an object with {key}": "字符串，或带 {key} 的对象",
    "an object": "对象",
    "a list": "列表",
    "a string": "字符串",
    "a number": "数",
    "nothing": "空值",
    "true or false": "true 或 false",
    # Words that stand for nothing
    "is not a dtype for trainable parameters": "不能作为可训练参数的 dtype",
    "for low-bit frozen weights use training.quantization, and for FP8 matrix products use "
    "training.precision 'fp8-mixed'": (
        "低比特冻结权重请用 training.quantization，FP8 矩阵乘请用 training.precision 'fp8-mixed'"
    ),
    "is not a supported dtype for master copies": "不能作为主权重副本的 dtype",
    "Megatron's precision-aware optimizer has engine.main_params_dtype": (
        "Megatron 的精度感知优化器用 engine.main_params_dtype"
    ),
    "raises an error at its first step (torch/optim/sparse_adam.py): it needs sparse gradients, "
    "which only nn.Embedding(sparse=True) produces, but all gradients of these models are dense": (
        "在第一步报错（torch/optim/sparse_adam.py）：它需要只有 nn.Embedding(sparse=True) 产生的稀疏梯度，"
        "而这些模型的参数梯度都是稠密的"
    ),
    "use adam, adamw-8bit or paged-adamw-8bit": "adam、adamw-8bit 和 paged-adamw-8bit 接受稠密梯度",
    "has no backward pass in transformers (quantizers, `is_trainable`): dequantize it on loading, or choose nf4": (
        "在 transformers 中没有反向传播（quantizers，`is_trainable`）：请在加载时反量化，或改用 nf4"
    ),
    "has GPTQ's tensors (4-bit integers, a scale and a zero point for each group): choose gptq": (
        "与 GPTQ 的张量相同（4 位整数，每组一个缩放因子和一个零点）：请改用 gptq"
    ),
    # Links
    "longer than {count} characters": "超过 {count} 个字符",
    "found version {value}": "版本为 {value}",
    "this memcore is older and reads {version}: reload the page or update it": (
        "当前 memcore 版本较旧，只能读取 {version}：请重新加载页面或升级 memcore"
    ),
    "expected {version}": "应为 {version}",
    "copy the whole link": "请复制完整链接",
    "found {count} settings": "共有 {count} 个设置项",
    "found {count} jobs": "共有 {count} 个任务",
    "already names other jobs": "本身已列出其他任务",
    "name all of them in one link": "请把所有任务写在同一个链接里",
    "has no value": "没有值",
    "the link may be cut off: copy it again": "链接可能不完整：请重新复制",
    "a newer memcore may know it": "较新版本的 memcore 可能支持",
    "expected % and two hexadecimal digits, and %25 for a percent sign": (
        "应为 % 加两位十六进制数字，百分号本身写作 %25"
    ),
    "its percent escapes are not UTF-8": "其百分号转义不是 UTF-8",
    "the model in the link is damaged": "链接中的模型已损坏",
    "nested more than {count} levels deep": "嵌套超过 {count} 层",
    "link": "链接",
    "link: {name}": "链接：{name:s}",
    # Files
    "file": "文件",
    "log": "日志",
    "the file": "文件",
    "the command": "命令",
    "the script": "脚本",
    "the recipe": "配方",
    "line {number}": "第 {number} 行",
    "expected a memcore config with a 'model', or a config.json with a 'model_type'": (
        "应为含 'model' 的 memcore 配置，或含 'model_type' 的 config.json"
    ),
    "not JSON: {error}": "不是 JSON：{error}",
    "is not JSON: {error}": "不是 JSON：{error}",
    "is not TOML: {error}": "不是 TOML：{error}",
    "is TOML, which needs Python 3.11 or newer": "是 TOML，需要 Python 3.11 或更新版本才能读取",
    "is not the content of a JSON file: {error}": "不是 JSON 文件的内容：{error}",
    "cannot be read: {error}": "无法读取：{error}",
    "contains no keys": "不含任何键",
    "allowed: JSON, YAML, TOML, or a command line": "允许：JSON、YAML、TOML 或命令行",
    "does not match any supported tool": "不属于任何已支持的工具",
    "supported: {tools}, and config.json": "支持：{tools:s} 和 config.json",
    "supported: {values}": "支持：{values:s}",
    "{tool} needs engine.type {engines}": "{tool} 需要 engine.type 为 {engines:s}",
    "no key in {tool}": "{tool} 没有对应的键",
    "{tool} has no key for this model": "{tool} 没有对应此模型的键",
    "set it in your launch script": "请在启动脚本中指定",
    "take {flags} from its config.json, which the catalog has in part": (
        "目录中缺少 {flags:s}，请从该模型的 config.json 中取"
    ),
    "run it on {accelerator}": "在 {accelerator} 上运行",
    "name a repository with {format} weights": "请换成权重为 {format} 的仓库",
    "name a repository with {format} weights, such as {repository} of the same shapes": (
        "请换成权重为 {format} 的仓库，例如形状相同的 {repository}"
    ),
    "the server does not quantize {model}": "服务器不会量化 {model}",
    "set {variable} in the environment": "请设置环境变量 {variable}",
    "in this file, {tool}'s own defaults hold": "此文件采用 {tool} 自己的默认设置",
    "{tool} cannot set it to {value} next to the other settings": "{tool} 在其余设置下无法将其设为 {value}",
    "{tool} always sets {value}": "{tool} 固定使用 {value}",
    "{tool} has no recipe for it": "{tool} 没有该模型的 recipe",
    "No closing quotation": "引号未闭合",
    "No closing bracket": "括号未闭合",
    "Its variables expand endlessly": "变量无限展开",
    "not an integer": "不是整数",
    "is indented differently from its neighbours": "缩进与相邻行不同",
    "is indented with a tab": "用制表符缩进",
    "YAML takes only spaces": "YAML 只接受空格",
    "is HTML or XML": "是 HTML 或 XML",
    "the text is HTML or XML": "文本是 HTML 或 XML",
    "download the file itself": "请下载文件本身",
    "is not `key: value`": "不是 `key: value`",
    "appears twice with different values": "出现两次且值不同",
    "has text after its end: {rest}": "结束后还有内容：{rest}",
    "lacks its {closing}": "缺少 {closing}",
    "has {found} where a comma or {closing} belongs": "在应有逗号或 {closing} 处为 {found}",
    "is a run's log, not a config": "是运行日志，不是配置",
    "`memcore reconcile CONFIG {name}` compares it with the prediction": (
        "`memcore reconcile CONFIG {name}` 可将其与预测对比"
    ),
    # What is wrong with broken JSON
    "line {line}, column {column}: {error}": "第 {line} 行第 {column} 列：{error}",
    "the text ends before its last bracket is closed": "文本结束时仍有未闭合的括号",
    "expected a value": "此处应为一个值",
    "expected a comma or a closing bracket": "此处应为逗号或右括号",
    "expected a colon after the key": "键之后应为冒号",
    "expected a key in double quotes": "此处应为双引号括起的键",
    "JSON has no comments, single quotes or trailing commas": "JSON 不支持注释、单引号和末尾逗号",
    "JSON has no trailing commas": "JSON 不支持末尾逗号",
    "text follows the end of the JSON value": "JSON 值结束后还有内容",
    "a quotation mark is never closed": "引号没有闭合",
    "Invalid control character at": "无效的控制字符",
    "Invalid \\escape": "无效的转义",
    "found {value}, which is not one of {count} known {catalog}{several}": (
        "值为 {value}，不在已知的 {count} 个{catalog}之中{several}"
    ),
    "expected at most {parts}": "最多 {parts} 个",
}
