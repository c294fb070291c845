"""How people say settings in a sentence, in English and in Chinese, as tables of patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training

HUB = r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)\S*"
"""An address of the model hub, with the id in it."""
NUMBER = r"(?<![\w.])(\d+(?:[.,]\d+)*\s?[km]?)(?![\w.]*\d|[a-z])"
"""A count, such as 8,192 or 32k; no part of a name."""
VALUE = r"(\d+(?:[.,]\d+)*[km]?)(?![\w.]*\d|[a-z])"
"""What a flag is set to."""
_IS = r"[\s_-]*(?:size|degree|度|数|大小)?\s*(?:of|=|:|：|为|是|at)?\s*(\d+(?:[.,]\d+)*\s?[km]?)(?![\w.]*\d|[a-z])"

_BEFORE_GPUS = r"(?=[\s-]+(?:[a-z]+\s+){0,2}[a-z]*\d|\s+(?:gpus?|cards?|nodes?|machines?|servers?)\b)"
_NUMBERS: Mapping[str, str] = {
    "1 ": rf"单(?=[卡张机])|一(?=\s*[卡张块片台])|\b(?:single|one){_BEFORE_GPUS}",
    "2 ": rf"双(?=\s*[卡张路\w])|两(?=\s*[卡张块片个台机])|\b(?:two|dual|(?:a\s+)?pair\s+of){_BEFORE_GPUS}",
    "3 ": rf"三(?=\s*[卡张块片个台])|\bthree{_BEFORE_GPUS}",
    "4 ": rf"四(?=\s*[卡张块片个台])|\bfour{_BEFORE_GPUS}",
    "8 ": rf"八(?=\s*[卡张块片个台])|\beight{_BEFORE_GPUS}",
    "16 ": rf"十六(?=\s*[卡张块片个台])|\bsixteen{_BEFORE_GPUS}",
}
REWRITTEN: Sequence[tuple[str, str]] = (
    (HUB, r"\1"),
    (r"[，、。；！？]", " , "),
    (r"\b6000\s+pro\b", "pro 6000"),
    (r"(?<=[a-z0-9]):(?=\d+(?:\.\d+)?[bm]\b)", " "),
    (r"(?<=[a-z])['’](?:s|m|d|ll|re|ve|t)\b", " "),
    (r"(?<![\w.])(\d+)\s*g(?:i?b|igs?|igabytes?)?\b(?!\.\d)", r"\1gb"),
    (r"\bframework\s+desktop\b", "strix halo"),
    (r"\b(?:macbook|imac|mac)(?:\s+(?:pro|air|studio|mini))?\b", "mac"),
    *((pattern, number) for number, pattern in _NUMBERS.items()),
    (
        r"\b(\d{1,5})\s+(\d{1,2}\s*[x×]\s*(?:[\w-]+\s+){1,3})(?:nodes?|machines?|servers?|box(?:es)?)\b",
        r"\1 nodes of \2",
    ),
)
"""What is written otherwise before anything is read."""

_PARALLEL: Mapping[str, str] = {
    Parallelism.tensor_parallel_size: r"\btp|tensor[\s-]parallel(?:ism)?|张量并行",
    Parallelism.pipeline_parallel_size: r"\bpp|pipeline[\s-]parallel(?:ism)?|流水线?并行",
    Parallelism.data_parallel_size: r"\bdp|data[\s-]parallel(?:ism)?|数据并行",
    Parallelism.expert_parallel_size: r"\bep|expert[\s-]parallel(?:ism)?|专家并行",
    Parallelism.context_parallel_size: r"\bcp|context[\s-]parallel(?:ism)?|上下文并行",
}
RANK = rf"(?:(?:lora[\s_-]*)?\brank|\br(?=\s*[=:])|秩){_IS}"
"""The rank of adapters, which says that there are some."""
COUNTED: Mapping[str, str] = {
    Training.gradient_accumulation_steps: (
        rf"(?:grad(?:ient)?[\s_-]*accum(?:ulation)?(?:[\s_-]*steps?)?|梯度累[积加](?:步数)?){_IS}"
        rf"|{NUMBER}\s*(?:steps?\s+of\s+)?gradient[\s_-]accumulation(?:\s+steps?)?"
    ),
    Training.adapter.rank: RANK,
    EngineSettings.zero_stage: r"\bzero[\s_-]*(?:stage)?[\s_-]*([0123])(?!\w)",
    Training.method.completion_length: (
        rf"\b(?:completion|rollout|response|generation)s?(?:[\s_-]*len(?:gth)?)?{_IS}|(?:生成|回复)长度{_IS}"
    ),
    **{path: f"(?:{pattern}){_IS}" for path, pattern in _PARALLEL.items()},
}
"""Counts that any job may state."""
USERS = (
    rf"{NUMBER}\s*(?:concurrent|simultaneous|个|名|路)?\s*(?:users?\b|people\b|requests?\b(?!\s*(?:/|per\b))|sequences\b|用户|人|请求|并发)"
    rf"|(?:\bconcurrency|并发(?:数|量)?){_IS}|{NUMBER}\s*concurrent\b"
)
_OF_A_STEP = "".join(f"(?<!{word})" for word in ("global ", "global_", "global-", "effective ", "total ", "全局"))
BATCH = (
    rf"{_OF_A_STEP}(?:(?:\bmicro|\bper[\s_-]device(?:[\s_-]train)?)?[\s_-]*{_OF_A_STEP}batch(?:[\s_-]*size)?"
    rf"|微?批次?大小|批量|\bbs){_IS}"
)
"""The micro-batch; not the global one."""
BATCH_TOKENS = (
    r"(?:\b(?:global|effective|total)[\s_-]*)?(?:\bbatch(?:[\s_-]*size)?|全局(?:批次|批量|batch)(?:大小)?)[\s:=]*(?:of|is|为|是)?\s*"
    r"(\d+(?:\.\d+)?\s?[km])[\s-]*(?:个\s*)?tokens?(?![a-z])"
    r"|(?<![\w.])(\d+(?:\.\d+)?\s?[km])[\s-]*tokens?\s*(?:(?:per|a|each|/)\s*(?:optimizer\s+)?(?:step|batch|update)\b|(?:global\s+)?batch\b)"
    r"|每(?:步|个?\s*batch|批)\s*(\d+(?:\.\d+)?\s?[km])\s*(?:个\s*)?tokens?"
)
"""Tokens of a step of the whole job."""
GLOBAL_BATCH = (
    rf"(?:\b(?:global|effective|total)[\s_-]*batch(?:[\s_-]*size)?|\bgbs|全局(?:批次|批量|batch)(?:大小)?){_IS}"
)
"""Sequences of such a step."""
COLOCATED = (
    r"(?:\b(?:vllm|sglang)\b\W{0,3}(?:in\s+)?)?\bco-?locat(?:e|ed|ing|ion)\b(?:\s+mode\b)?"
    r"(?:\s+(?:with\s+)?(?:vllm|sglang)\b)?|(?:(?:vllm|sglang)\s*)?(?:同卡部署|共置)(?:\s*(?:vllm|sglang))?"
)
"""A rollout engine on the GPUs that train."""
KEPT_BY_ROLLOUTS = "0.3"
"""What it keeps of them where a sentence does not say (trl/trainer/grpo_config.py, `vllm_gpu_memory_utilization`)."""
IMAGES = r"(?<![\w.])(?:(\d{1,4})|an?)\s*(?:张\s*)?(?:images?|pictures?|图片?|图像)(?![\w])"
SIZE = r"(?<![\w.])(\d{3,5})\s*[x×*]\s*(\d{3,5})(?!\d)(?:\s*(?:pixels?|px|像素))?"
"""Images of a sequence, and how wide and high they are."""
PROMPT = rf"\b(?:prompts?|input)(?:\s+(?:length|tokens?))?{_IS}|(?:提示词?|输入)(?:长度)?{_IS}"
OUTPUT = rf"\b(?:outputs?|completions?|answers?)(?:\s+(?:length|tokens?))?{_IS}|输出(?:长度)?{_IS}"
_OF_DATA = r"(?!\s*(?:samples?|examples?|rows?|steps?|documents?|docs?|images?|iterations?|条|样本|步))"
_LENGTH = (
    r"(?:\b(?:max[\s_-]*)?(?:seq(?:uence)?|context|ctx)(?:[\s_-]*len(?:gth)?)?|\bmax[\s_-]*(?:model[\s_-]*)?len(?:gth)?"
    r"|\bcutoff(?:[\s_-]len)?|(?<![a-z]\s)\blength|(?:上下文|序列|最大)?长度|上下文)"
)
_LONG = r"(?:(?:tokens?(?!\s*(?:/|per\b|a\s+second))|long|seq(?:uence)?|context|ctx)\b|上下文|token(?!s|\s*/)|长度)"
LENGTHS: Sequence[str] = (
    rf"{_LENGTH}{_IS}{_OF_DATA}",
    rf"{NUMBER}\s*-?(?:个\s*)?{_LONG}",
    r"(?:\b(?:of|at|with)\s+|各\s*)(\d{3,7}|\d{1,3},\d{3}|\d+(?:\.\d+)?\s?k)(?![\w.])" + _OF_DATA,
    r"(?<![\w.-])(\d+(?:\.\d+)?k)(?!\w)" + _OF_DATA,
)
"""The length of a sequence, the surest way of saying so first."""
TOKENS = r"(?<![\w.])(\d+(?:\.\d+)?\s?[bt])(?:illion|rillion)?\s*(?:training\s+)?(?:tokens?\b|token|个\s*token)"
"""Tokens of a whole training run."""

SERVING: Mapping[str, str] = {
    "sglang": r"\bsglang\b", "trt": r"\btensorrt(?:-llm)?\b|\btrt(?:-llm)?\b",
    "gguf": r"\bllama\.?cpp\b|\bgguf\b|\bollama\b|\blm\s?studio\b|\bkoboldcpp\b|\b(?:which|what|best)\s+quants?\b",
    "generate": r"\b(?:hf|transformers|model)(?:['’]s)?[\s.]+generate\b(?:\(\))?",
    "serve": (
        r"\bserv(?:e|es|ed|ing)\b|\bvllm\b|\binference\b|\bdeploy(?:ed|ing|ment)?\b|\bhost(?:ing)?\b|部署|推理|服务(?!器)"
    ),
}  # fmt: skip
"""Tasks of servers by the words that name them, the likeliest first where there are several."""
RAM = r"(?<![\w.])(\d{1,5})\s*gb?\s*(?:of\s+)?(?:system\s+|host\s+|cpu\s+|ddr\d\s+)?(?:ram\b|内存)"
"""The memory of the computer itself, in GB."""
NEXT_TO = r"[\s,]*(?:and|&|\+|plus|with|next\s+to|alongside|as\s+well\s+as|和|与|加上?)[\s,]*(?:a\b|an\b|also\b)?[\s,]*"
"""Between models that run at the same time."""
MODELS_COUNTED = r"(?<![\w.])\d{1,2}\s*(?:different\s+)?(?:models?\b|llms?\b|个(?:不同的?)?模型)"
_NOT = "".join(f"(?<!{word})" for word in ("no ", "not ", "without ", "不用 ", "不用", "非"))
TRAINING: Mapping[str, str] = {
    "qlora": rf"{_NOT}\bqlora\b", "lora": rf"{_NOT}\blora\b",
    "full": r"\bfull(?:[\s-]*param(?:eter)?s?)?\b|\btrain\s+all\b|全量|全参数?",
}  # fmt: skip
"""The same of training."""
WHOLE = (
    r"\bfull[\s-]*(?:param(?:eter)?s?|weights?|ft|sft|dpo|kto|orpo|simpo|grpo|ppo|fine|tun\w*|finetun\w*|training)\b"
    r"|\bfull(?=\s*(?:$|[,.;?]|(?:on|with|at|in|using)\b))|\ball\s+(?:weights|parameters)\b|全量|全参"
)
"""All weights are to be trained, so that adapters are no answer."""
TOOLS = frozenset({"ollama"})
"""Those of these words that are tools with files of their own."""
ADAPTERS = rf"{NUMBER}\s*(?:lora\s*)?(?:adapters?|loras?)\b"
"""Adapters that a server loads."""
TRAINS = (
    r"\b(?:ft|fine-?\s?tun\w*|finetun\w*|train(?:ing|ed)?|pre-?train\w*)\b|训练|微调|预训练"
    r"|(?<![\w./-])(?:sft|dpo|kto|cpo|orpo|simpo|ppo|grpo|rlhf|rlvr)(?![\w./-])"
)
PRE_TRAINS = r"\bpre-?train\w*\b|\bfrom\s+scratch\b|预训练|从头训练"
RUNS = r"\b(?:run(?:s|ning)?|chat(?:ting)?|local(?:ly)?|use)\b|跑|运行|本地"
MODELS = (
    r"\b(?:which|what|best|biggest|largest)\b.*?\b(?:models?|llms?|run|runs|fits?|host|serve)\b"
    r"|(?:哪些|哪个|什么|多大).{0,4}模型|[跑用]什么|[跑用]哪"
)
"""How people ask which models some GPUs run."""
BITS = (
    r"(?<![\w-])(?:q([2-8])(?![\w-])|([2-8])[\s-]?bits?(?![\w-]|[\s-]+(?:paged[\s-]+)?(?:adam|lion|optim)))"
    r"|([2-8])\s*(?:比特|位(?:量化)?)"
)
"""A number of bits for weights that names no format: `q4`, `4-bit`."""
GGUF_OF_BITS: Mapping[str, str] = {
    "2": "q2_k", "3": "q3_k_m", "4": "q4_k_m", "5": "q5_k_m", "6": "q6_k", "8": "q8_0",
}  # fmt: skip
"""The quantization mix that stands for a number of bits (llama.cpp, tools/quantize/quantize.cpp: Q4_K is an alias of
Q4_K_M; so are Q3_K and Q5_K of theirs)."""
WEIGHTS_OF_BITS: Mapping[str, str] = {"4": "int4", "8": "int8"}
"""The same for other servers."""
FOUR_BIT = r"\b(?:4[\s-]?bits?|int4|bnb)\b|4\s*比特|4\s*位(?:量化)?"
CHECKPOINTS = (
    r"(\b(?:no|without)\s+|不用?\s*|无\s*)?(?:\b(?:gradient|activation)[\s_-]*checkpointing\b"
    r"|\b(?:full\s+)?(?:activation\s+)?recompute?(?:ation)?\b|梯度检查点|激活检查点|重计算)"
)
CACHE = (
    r"\b([a-z]*\d\w*)\s+(?:kv|k/v)[\s_-]*cache\b"
    r"|\b(?:kv|k/v)[\s_-]*cache(?:[\s_-]*(?:dtype|type|in|at|=|:))*\s*(\w+)?"
)

CHOICES: Mapping[str, Mapping[str, str]] = {
    Training.method.name: {
        "distillation": "distill", "distilling": "distill", "reward model": "reward", "rm": "reward",
    },
    Training.optimizer.name: {
        "8bit adam": "adamw-8bit", "8bit adamw": "adamw-8bit", "adam 8bit": "adamw-8bit",
        "8bit optimizer": "adamw-8bit",
        "paged 8bit adamw": "paged-adamw-8bit", "8bit lion": "lion-8bit", "4bit adamw": "adamw-4bit",
    },
    Training.adapter.type: {},
    EngineSettings.type: {"fsdp2": "fsdp", "fully sharded": "fsdp"},
    Training.implementation: {},
    Training.precision: {"fp8": "fp8-mixed"},
}  # fmt: skip
"""Settings whose options are words of their own, with further words for them."""
PLAIN_WORDS = frozenset({
    *("none", "lora", "miss", "road", "reward", "classify", "transformers", "distill"),
    *("vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformer-engine"),
    *("unsloth", "torchtitan", "lit-gpt"),
})  # fmt: skip
"""Options that are ordinary words, or that name tasks or tools."""

_FILLING = """
    a about across air all also am an and any are as at based batch big blackwell both box boxes by can card cards
    chat colab concurrent config configs context continual continued could crashes desktop dgx do does each enough
    fine fit fits fitting for from ft gaming gb get give goes gpu gpus have help here hgx hi home how i if in
    inference inside instance into is it its just kaggle kernel kernels laptop largest length let like llm local
    locally long longest lot lots mac machine many max maximum maybe me memory mini model models much my need needed
    needs node nodes nvidia of on one only oom or our out over own parallel parameters pc per please possible
    quantization quantized ram run running runs scratch sequence sequences serve served server servers serving setup
    should size so some step steps studio than that the their them there this to together token tokens us use used
    user users using via vllm vram w wanna want we weights what when which while will windows with workstation would
    x you
"""
FILLING = frozenset(_FILLING.split())
"""English words that say no setting."""
FILLING_STEMS = ("fine-tun", "finetun", "pre-train", "pretrain", "train", "tun", "deploy")
"""Beginnings of further ones."""
FILLING_CHINESE = (
    r"服务器|预训练|序列|从头|训练|微调|部署|推理|节点|机器|显卡|显存|模型|运行|本地|服务|需要|多少|支持|用户|单机|多机|量化|上下文|长度|怎么|如何|方式|方法|资源|适合|配置|内存|请求|最长|支持"
    r"|[不用在上的和我想要能吗可以跑做把对给请问是有个张块卡台片位名共需里下中到与及一起来多少最大小为进行每各带使并够机]"
)
"""The same in Chinese."""
