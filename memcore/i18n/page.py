"""The one table of what the page and the command line say, in English and in Simplified Chinese.

A row is a key with both texts; `{name}` is filled in by `say`. Names of settings, tensors and tools stay as the field
spells them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from memcore.errors import MemcoreError, Problem, problems_of
from memcore.i18n.answers import ANSWERS_IN_CHINESE, WORDS_OF_ANSWERS
from memcore.i18n.engine_texts import helps, words
from memcore.i18n.help import HELP_IN_CHINESE
from memcore.i18n.labels import WORDS_OF_LABELS
from memcore.i18n.logs import WORDS_OF_LOGS
from memcore.i18n.serving import WORDS_OF_SERVING
from memcore.i18n.spacing import filled
from memcore.i18n.terminal import WORDS_OF_TERMINAL
from memcore.i18n.timeline import WORDS_OF_TIMELINE
from memcore.i18n.waiting import WORDS_OF_WAITING
from memcore.i18n.ways import WORDS_OF_WAYS

LANGUAGES: Mapping[str, str] = {"en": "English", "zh": "简体中文"}
_LANGUAGE: ContextVar[str] = ContextVar("language", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Say everything inside in a language; an unknown one is English."""
    token = _LANGUAGE.set(language if language in LANGUAGES else "en")
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def language() -> str:
    """Return the language that is spoken."""
    return _LANGUAGE.get()


def say(key: str, /, **values: object) -> str:
    """Return a text of the table in the language that is spoken.

    >>> say("cancel")
    'Cancel'
    """
    english, chinese = WORDS[key]
    if _LANGUAGE.get() == "zh":
        return filled(chinese, values) if values else chinese
    return english.format(**values) if values else english


def sentence(text: str) -> str:
    """Return a message as a sentence of its own; a name keeps its small letter.

    >>> sentence("a later start leaves more"), sentence("vLLM keeps it")
    ('A later start leaves more.', 'vLLM keeps it.')
    """
    first = text.partition(" ")[0].rstrip(",:;")
    return say("stop", text=f"{text[:1].upper()}{text[1:]}" if first.isalpha() and first.islower() else text)


def label(path: str, english: str) -> str:
    """Return the label of a setting or group: translated where the table has it, else as the schema has it."""
    return say(f"label {path}") if f"label {path}" in WORDS else translated(english)


def unit_name(english: str) -> str:
    """Return the unit of a setting in the language that is spoken.

    >>> with speaking("zh"):
    ...     unit_name("layers"), unit_name("GiB")
    ('层', 'GiB')
    """
    key = f"unit {english}"
    return say(key) if key in WORDS else english


def explanation(path: str, english: str) -> str:
    """Return what a setting is: in Chinese where its tables have it, else as the schema has it.

    >>> with speaking("zh"):
    ...     explanation("engine.fp8_format", "FP8 format of matrix products.")
    '矩阵乘的 FP8 格式。'
    """
    return HELP_IN_CHINESE.get(path) or helps().get(path, english) if _LANGUAGE.get() == "zh" else english


def translated(english: str) -> str:
    """Translate a text of an answer: whole, or piece by piece between semicolons; English where no table has it.

    >>> with speaking("zh"):
    ...     translated("master weight"), translated("what is new")
    ('主权重', 'what is new')
    """
    if _LANGUAGE.get() != "zh":
        return english
    from memcore.i18n.sentences import in_chinese  # noqa: PLC0415 - English does without

    return in_chinese(english)


def named(english: str) -> str:
    """A source or a value: in Chinese where it is words of the answers' tables, else a name, which stays as it is."""
    if _LANGUAGE.get() != "zh":
        return english
    return ANSWERS_IN_CHINESE.get(english) or words().get(english, english)


def complaint(error: MemcoreError) -> str:
    """Return what an error says, in the language that is spoken."""
    return "\n".join(map(_complaint, problems_of(error))) if _LANGUAGE.get() == "zh" else str(error)


def _complaint(problem: Problem) -> str:
    hint = f"（{say('did-you-mean', value=problem.suggestion)}）" if problem.suggestion else ""
    where = f"{translated(problem.path)}：" if problem.path else ""
    return f"{where}{translated(problem.message)}{hint}"


def every() -> dict[str, str]:
    """Return what the page says, all of it, in the language that is spoken."""
    return {key: say(key) for key in WORDS if key not in WORDS_OF_TERMINAL}


WORDS: Mapping[str, tuple[str, str]] = {
    **WORDS_OF_ANSWERS,
    **WORDS_OF_LABELS,
    **WORDS_OF_LOGS,
    **WORDS_OF_SERVING,
    **WORDS_OF_TERMINAL,
    **WORDS_OF_TIMELINE,
    **WORDS_OF_WAITING,
    **WORDS_OF_WAYS,
    # The frame of the page
    "skip": ("Skip to the answer", "跳到结果"),
    "actions": ("Actions", "操作"),
    "presets": ("Examples", "示例"),
    "import": ("Import", "导入"),
    "export": ("Export", "导出"),
    "plans": ("My plans", "我的方案"),
    "pin": ("Compare", "对比"),
    "copy": ("Share", "分享"),
    "more-actions": ("More actions", "更多操作"),
    "language": ("Language", "语言"),
    "view-overview": ("Overview", "概览"),
    "view-tensors": ("Tensors", "张量"),
    "view-plans": ("Plans", "调整方案"),
    "view-layouts": ("Layouts", "并行策略"),
    "view-compare": ("Compare", "对比"),
    "view-log": ("My log", "我的日志"),
    "view-model": ("Model", "模型"),
    "guide": ("Guide", "指南"),
    "copied": ("Link copied.", "链接已复制。"),
    "copy-failed": ("The link is in the address bar.", "链接在地址栏中。"),
    "undo": ("Undo", "撤销"),
    "redo": ("Redo", "重做"),
    "theme": ("Theme", "主题"),
    "theme-auto": ("auto", "自动"),
    "theme-light": ("light", "浅色"),
    "theme-dark": ("dark", "深色"),
    "help": ("Keys and help", "快捷键与帮助"),
    "example-note": ("The answer below is for the example.", "下面是示例的结果。"),
    "shared": (
        "Shared plan; your own are untouched.",
        "这是共享方案，您保存的方案不受影响。",
    ),
    "keep": ("Keep", "保留"),
    "discard": ("Discard", "放弃"),
    "update": ("A new version is ready.", "新版本已就绪。"),
    "reload": ("Reload", "重新加载"),
    "job": ("The job", "任务"),
    "problems": ("Problems", "问题"),
    "verdict": ("Verdict", "结论"),
    "parts": ("Parts of the answer", "结果各部分"),
    "default-is": (" Default: {value}.", "默认：{value}。"),
    "close": ("Close", "关闭"),
    "cancel": ("Cancel", "取消"),
    "print": ("Print", "打印"),
    "offline": ("Save page (zip)", "保存本页（zip）"),
    "offline-wait": ("Packing 24 MB …", "正在打包 24 MB……"),
    "private": (
        "Everything is computed in this page: no tracking, no cookies, nothing is sent anywhere.",
        "一切都在本页内计算：无跟踪、无 Cookie、不发送任何数据。",
    ),
    "wheel": ("The same package for Python (wheel)", "同一 Python 包（wheel）"),
    "schema": ("The config as a JSON Schema", "配置的 JSON Schema"),
    "licences": ("Licences", "许可证"),
    "documentation": ("Documentation", "文档（英文，附中文指南）"),
    "sbom": ("Parts list (SBOM)", "组件清单（SBOM）"),
    "accuracy": ("How accurate it is", "准确度"),
    "report": ("Report a mismatch", "报告偏差"),
    "report-copied": (
        "Report copied to the clipboard. Add your measurement.",
        "包含此配置的报告已在剪贴板中：请补充实测值。",
    ),
    # Parts of the answer
    "compare": ("Side by side", "并排对比"),
    "numbers": ("As numbers", "数值"),
    "ranks": ("By rank", "按 rank"),
    "ranks-same": (
        "All GPUs hold the same: the bar above shows one of them.",
        "所有 GPU 占用相同：上方条形图即其中之一。",
    ),
    "ranks-one": ("There is one GPU: the bar above shows all of it.", "只有一块 GPU：上方条形图即为全部。"),
    "rank": ("Rank", "Rank"),
    "gpus-of-rank": ("GPUs", "GPU 数"),
    "rank-binds": ("needs most", "需求最大"),
    "ranks-title": ("Peak of each rank class", "每类 rank 的峰值"),
    "change": ("What to change", "如何调整"),
    "change-note": (
        "One change at a time, from the same job: what it saves on the GPU that needs most, and what it costs.",
        "在同一任务上每次只改一项：在瓶颈 rank 上节省多少、代价是什么。",
    ),
    "change-button": ("Suggest changes", "给出建议"),
    "change-none": ("No single change saves memory here.", "没有单项改动能节省显存。"),
    "working": ("Working …", "计算中……"),
    "apply": ("Apply", "应用"),
    "applied": ("Applied. Undo takes it back.", "已应用，可撤销。"),
    "saving": ("Saves", "节省"),
    "cost": ("Costs", "代价"),
    "curve": ("Sensitivity", "敏感度"),
    "earlier": (
        "Out of date since your last edit. Press the button to recompute.",
        "任务修改后尚未更新；点击按钮重新计算。",
    ),
    "curve-of": ("Memory against", "显存随以下参数变化"),
    "curve-button": ("Draw", "绘制"),
    "curve-title": ("GPU memory against {name}", "显存随 {name} 的变化"),
    "curve-crosses": ("fits at {value}, not at {other}", "{value} 放得下，{other} 放不下"),
    "search": ("Which layout", "搜索并行策略"),
    "search-note": (
        (
            "Every way to split this job over the same GPUs, the fastest first, or the simpler where times are close. "
            "You can keep using the page."
        ),
        "在相同 GPU 上切分此任务的所有方式，按时间排序；时间相近时，较简单的在前。搜索期间页面可正常使用。",
    ),
    "search-button": ("Find layouts that fit", "查找放得下的并行策略"),
    "search-done": ("{count} layouts tried, {fitting} fit.", "尝试了 {count} 种并行策略，{fitting} 种放得下。"),
    "search-running": ("{count} layouts tried, {fitting} fit …", "已尝试 {count} 种并行策略，{fitting} 种放得下……"),
    "search-cancelled": (
        "Cancelled: {count} layouts tried, {fitting} fit.",
        "已取消：尝试了 {count} 种，{fitting} 种放得下。",
    ),
    "search-none": ("No layout of this job fits on these GPUs.", "在这些 GPU 上，此任务没有放得下的并行策略。"),
    "search-plans": ("See what to change", "查看可以改什么"),
    "search-caption": (
        "Relative time per token against the best (roofline estimate, for ranking only).",
        "每个 token 的时间与最佳值之比（roofline 估算，仅用于排序）。",
    ),
    "search-picture": ("Time against free memory", "时间与剩余显存"),
    "column-layout": ("Layout", "并行策略"),
    "column-sequences": ("Micro-batch", "微批次"),
    "column-checkpoints": ("Policy", "策略"),
    "column-needs": ("Needs", "需要"),
    "column-left-of": ("Left", "剩余"),
    "column-time": ("Time", "时间"),
    "load": ("Load", "载入"),
    "readings": ("Allocated, reserved, used", "已分配、已保留、已占用"),
    "assumptions": ("Assumed (not set in the config)", "配置未说明而采用的假设"),
    "model": ("The model", "模型"),
    "component": ("Component", "组成部分"),
    "share-of": ("{title}: {size}, {share} percent", "{title}：{size}，占 {share}%"),
    "exact-bytes": ("{count} bytes", "{count} 字节"),
    "explain-none": ("Nothing of this kind is in memory at the peak.", "峰值时显存中没有此类内容。"),
    "explain-why": ("Why", "原因"),
    "explain-guide": ("Guide: where this memory goes", "指南：这部分显存去哪了"),
    "explain-source": ("Source", "来源"),
    # Import and export
    "import-title": ("Bring what you have", "导入已有配置"),
    "import-note": (
        (
            "A config.json, what a training script or a server is started with (a command line, a launch script, its "
            "JSON, YAML or TOML), or a memcore config, link or export. Drop one or several anywhere on the page, or "
            "paste it here; it stays on this machine."
        ),
        (
            "config.json，训练脚本或推理服务的启动方式（命令行、脚本或配置文件），或 memcore 的配置、链接与导出。"
            "可将一个或多个文件拖放到页面任意位置，或粘贴到此处；数据不会离开本机。"
        ),
    ),
    "import-text": ("Text", "文本"),
    "import-file": ("Or a file", "或文件"),
    "import-take": ("Import this text", "导入此文本"),
    "imported": ("Imported {name}.", "已导入 {name}。"),
    "import-keys": ("Read as {tool}; keys that set this job: {read}.", "按 {tool} 读取，其中 {read} 个键决定此任务。"),
    "import-assumed": ("Defaults of the tool: {assumed}.", "另有 {assumed} 个取该工具的默认值。"),
    "import-kept": ("It names no GPU: {kept} stays.", "其中没有 GPU 型号：仍为 {kept}。"),
    "import-unknown": ("Not understood: {keys}.", "未识别：{keys}。"),
    "origins": ("Where each value comes from", "每个值的来源"),
    "origins-from": ("From {files}.", "来自 {files}。"),
    "origins-read": ("Set by the file", "由文件设置"),
    "origins-left-out": ("Ignored, but may affect memory ({count})", "未计入，可能影响显存（{count}）"),
    "origins-assumed": ("Not in the file ({count})", "文件未给出（{count}）"),
    "origins-silent": ("No effect on memory ({count})", "不影响显存（{count}）"),
    "hub-title": ("From the model hub", "从模型中心获取"),
    "hub-note": (
        (
            "Nothing is sent until you press the button. It then asks huggingface.co for the public files that "
            "describe this model, and its hosts at hf.co for the headers of weights: the page's only requests to "
            "other sites."
        ),
        (
            "仅在点击按钮后才会发送请求：向 huggingface.co 获取描述该模型的公开文件，并向其 hf.co 主机获取权重文件头；"
            "这是本页仅有的外部请求。"
        ),
    ),
    "hub-id": ("Hub id", "模型 ID"),
    "hub-fetch": ("Fetch its config", "获取配置"),
    "hub-ask": ("Ask huggingface.co for it", "向 huggingface.co 查询"),
    "hub-missing": (
        "huggingface.co has no public repository {name}.",
        "huggingface.co 上没有公开仓库 {name}。",
    ),
    "hub-gated": (
        "{name} is gated: accept its licence on huggingface.co, download config.json there, and drop it on this page.",
        "{name} 须先获得许可：请在 huggingface.co 接受其许可证，下载 config.json，再拖放到本页。",
    ),
    "too-large": (
        "{name} is larger than 16 MiB. Import a config, a command or a log; of a checkpoint, config.json is enough.",
        "{name} 超过 16 MiB。请导入配置、命令或日志；对于 checkpoint，config.json 即可。",
    ),
    "hub-failed": ("The hub did not answer:", "模型中心未返回文件："),
    "export-title": ("Export", "导出结果"),
    "export-copy": ("Copy", "复制"),
    "export-save": ("Save", "保存"),
    "export-copied": ("Copied.", "已复制。"),
    "export-flags": ("Flags for {engine}", "{engine} 的参数"),
    "export-file": ("{tool}: {file}", "{tool}：{file}"),
    "export-left-out": ("left out: {reason}", "未写出：{reason}"),
    "export-cli": ("Command line", "命令行"),
    "export-python": ("Python", "Python"),
    "export-json": ("JSON: config and answer", "JSON：配置与结果"),
    "export-csv": ("CSV: every tensor", "CSV：每个张量"),
    "export-markdown": ("Markdown, for an issue", "Markdown（用于 issue）"),
    "export-embed": ("Embed a live picture (iframe)", "嵌入网页的实时图（iframe）"),
    "export-badge": ("Badge for a README (SVG)", "README 徽章（SVG）"),
    "export-card": ("Card for link previews (PNG, contains the config)", "链接预览图（PNG，内含配置）"),
    "badge": ("GPU memory", "GPU 显存"),
    "badge-said": ("{level}, {size}", "{level}，{size}"),
    "embed-open": ("Open in memcore", "在 memcore 中打开"),
    "export-svg": ("Picture (SVG, contains the config)", "图片（SVG，内含配置）"),
    "export-png": ("Picture (PNG, contains the config)", "图片（PNG，内含配置）"),
    "plans-title": ("My plans", "我的方案"),
    "plans-note": ("Kept in this browser only.", "仅保存在此浏览器中。"),
    "plan-name": ("Name", "名称"),
    "plan-save": ("Save this plan", "保存此方案"),
    "plan-drop": ("Delete", "删除"),
    "plan-kept": ("Saved in this browser.", "已保存在此浏览器。"),
    "plan-blocked": (
        "This browser does not store anything; keep the link instead.",
        "此浏览器不允许存储，请改用链接。",
    ),
    # Form
    "quick": ("Your question", "您的问题"),
    "quick-hint": (
        "Or a whole question, then Enter: serve Llama 3.1 70B to 20 users on 2 × H100; what can I run on a 3090?",
        "也可写下整个问题后按回车：用 2 张 H100 部署 Llama 3.1 70B，20 个用户；3090 能跑什么模型？",
    ),
    "models-looking": ("Looking for models that fit …", "正在寻找放得下的模型……"),
    "models-that-fit": (
        "{server} serves these well-known models to one user there, with at least {length} tokens:",
        "该硬件上 {server} 可为一位用户运行以下常见模型（至少 {length} 个 token）：",
    ),
    "models-pace": ("{pace} tokens/s", "{pace} token/s"),
    "sentence": (
        (
            "I want to {task} {model}| for {users} users of {length} tokens| on {gpus} × {gpu}"
            "| with {tokens} tokens,| rank {rank},| batch {batch}"
        ),
        (
            "在 {gpus} × {gpu} 上{task} {model}|供 {users} 个用户，每人 {length} 个 token|序列长度 {tokens}，"
            "|秩 {rank}，|批大小 {batch}"
        ),
    ),
    "settings": ("All settings", "全部设置"),
    "find": ("Find a setting or a tool's flag", "按名称或工具参数查找"),
    "found-elsewhere": ("For other jobs: {settings}.", "用于其他任务：{settings}。"),
    "found-above": ("Above, in your question: {settings}.", "在上方的问题中：{settings}。"),
    "found-none": ("No setting has this name.", "没有这个名称的设置。"),
    "task": ("Task", "任务类型"),
    "task-full": ("train all weights of", "全参数训练"),
    "task-lora": ("fine-tune with LoRA", "LoRA 微调"),
    "task-qlora": ("fine-tune with QLoRA (4-bit)", "QLoRA 微调（4 位）"),
    "task-serve": ("serve with vLLM", "用 vLLM 部署"),
    "task-sglang": ("serve with SGLang", "用 SGLang 部署"),
    "task-trt": ("serve with TensorRT-LLM", "用 TensorRT-LLM 部署"),
    "task-gguf": ("run with llama.cpp (GGUF)", "用 llama.cpp 运行（GGUF）"),
    "task-generate": ("generate with transformers", "用 transformers 生成"),
    "more": ("More: {group}", "更多：{group}"),
    "group-Training": ("Training", "训练"),
    "group-Inference": ("Serving", "推理服务"),
    "group-Parallelism": ("Parallelism", "并行"),
    "group-Engine": ("Engine", "引擎"),
    "group-Hardware": ("Hardware", "硬件"),
    "group-Model": ("Custom model", "自定义模型"),
    "default": ("default: {value}", "默认：{value}"),
    "unset": ("not set", "未设置"),
    "yes": ("yes", "是"),
    "no": ("no", "否"),
    "flag": ("flag: {flag}", "参数：{flag}"),
    "max": ("largest that fits", "最大可放下"),
    "min": ("smallest that fits", "最少需要"),
    "max-short": ("max", "最大"),
    "min-short": ("min", "最小"),
    "max-of": ("Find the largest value of {name} that fits", "求 {name} 的最大可行值"),
    "min-of": ("Find the smallest value of {name} that fits", "求 {name} 的最小可行值"),
    "solved-largest": ("Largest that fits: {value}.", "最大可行值：{value}。"),
    "solved-smallest": ("Smallest that fits: {value}.", "最小可行值：{value}。"),
    "solved-remedy-largest": (
        "With {title} ({flags}), {value} is the largest that fits.",
        "采用{title}（{flags}）后，最大可为 {value}。",
    ),
    "solved-remedy-smallest": (
        "With {title} ({flags}), {value} is the smallest that fits.",
        "采用{title}（{flags}）后，最小可为 {value}。",
    ),
    "solved-none": (
        "No value fits: even {value} needs {needed}, and the GPU has {capacity}.",
        "没有可行的值：即使为 {value} 也需要 {needed}，而 GPU 只有 {capacity}。",
    ),
    "solved-nothing": ("No value fits.", "没有可行的值。"),
    "curve-none": ("No value of this setting can be estimated.", "此设置的任何取值都无法估算。"),
    "solved-any": ("Any value fits.", "任意值都可行。"),
    "use": ("Use {value}", "使用 {value}"),
    "clear": ("Clear it", "清除"),
    "reset": ("Reset all", "全部重置"),
    "pasted": ("the pasted text", "粘贴的内容"),
    "copied-long": (
        "Link copied. It is long: where that is a problem, send the JSON of Export instead.",
        "链接已复制。链接较长：如有不便，请改为发送“导出”中的 JSON。",
    ),
    "copy-table": ("Copy the table", "复制表格"),
    "table-copied": ("Table copied, with exact bytes.", "表格已复制（精确字节数）。"),
    "ready": ("ready", "已完成"),
    "reset-one": ("Reset {name}", "重置{name}"),
    "origin-yours": ("yours", "您填写"),
    "origin-file": ("from the file", "来自文件"),
    "origin-example": ("example", "示例"),
    "origin-task": ("task", "任务自带"),
    "example-opening": ("LoRA 8B on a 24 GB card", "24 GB 显卡 LoRA 微调 8B"),
    "example-is": ("Example: {title}.", "示例：{title}。"),
    "example-sets": ("It sets: {settings}.", "它设置了：{settings}。"),
    "example-left": ("Still from the example: {settings}.", "仍沿用示例的设置：{settings}。"),
    "example-drop": ("Remove them", "去掉这些设置"),
    "and-comma": (", ", "、"),
    "reset-done": ("Everything is reset. Undo takes it back.", "已全部重置，可撤销。"),
    "stop": ("{text}.", "{text}。"),
    "taken-as": ("Taken as {value}. Or:", "按 {value} 计算，也可选："),
    "which-of": ("Which {text}?", "是哪一个 {text}？"),
    "outdated": (
        "The answer below is for the job before your last edit.",
        "下面是上次有效输入的结果，不是当前输入的结果。",
    ),
    "did-you-mean": ("Did you mean {value}?", "是否指 {value}？"),
    "rest-applied": ("The rest of the link was applied.", "链接其余部分已应用。"),
    "pasted-label": ("config.json", "config.json"),
    "own-model": ("{name} (config.json)", "{name}（config.json）"),
    "pasted-summary": ("A model of your own", "自定义模型"),
    "sizes": ("Sizes of the model", "模型尺寸"),
    "sizes-note": (
        (
            "Sizes of a Llama-like model, or a Mixtral-like one with experts. For any other model, paste its "
            "config.json."
        ),
        "填写与 Llama（有专家时与 Mixtral）结构相同的模型的尺寸；其他模型请粘贴其 config.json。",
    ),
    "size-num_hidden_layers": ("Layers", "层数"),
    "size-hidden_size": ("Hidden size", "隐藏维度"),
    "size-num_attention_heads": ("Attention heads", "注意力头数"),
    "size-num_key_value_heads": ("Key-value heads", "键值头数"),
    "size-intermediate_size": ("Feed-forward size", "前馈维度"),
    "size-vocab_size": ("Vocabulary", "词表大小"),
    "size-num_local_experts": ("Experts", "专家数"),
    "size-num_experts_per_tok": ("Experts per token", "每个 token 的专家数"),
    "pasted-hint": (
        "A Hugging Face config.json. It replaces the model above until you name another.",
        "Hugging Face 的 config.json：将代替上面的模型，直到再填写模型名称。",
    ),
    "pasted-file": ("Or choose a file", "或选择文件"),
    "pinned": ("Pinned for comparison.", "已加入对比。"),
    "unpin": ("Remove", "移除"),
    "current": ("now", "当前"),
    "plan": ("Plan", "方案"),
    "differences": ("What differs", "不同的设置"),
    "differences-none": ("All settings are the same.", "所有设置都相同。"),
    "compared-total": ("in all (nvidia-smi)", "合计（nvidia-smi）"),
    "components": (
        "Bytes on one GPU, and the difference from the first plan",
        "每块 GPU 的字节数，以及与第一个方案的差",
    ),
    "setting": ("Setting", "设置"),
    "shortcuts": ("Single-key shortcuts", "单键快捷键"),
    "key-help": ("Show shortcuts", "本表"),
    "key-model": ("Go to the model", "跳到模型"),
    "key-part": ("Next component", "下一个组成部分"),
    "key-step": ("Increase or decrease a number", "增减数值"),
    "key-explain": ("Explain a component", "解释组成部分"),
    "key": ("Key", "按键"),
    "does": ("Action", "作用"),
    # Verdict
    "verdict-fits": ("Fits", "可以放下"),
    "verdict-tight": ("Probably fits", "可能放得下"),
    "verdict-over": ("Probably does not fit", "可能放不下"),
    "verdict-no": ("Does not fit", "放不下"),
    "verdict-left": (
        "{level}. {gpus} needs {need} of {capacity}, leaving {size} ({share}%) free.",
        "{level}。{gpus}需要 {need}，可用 {capacity}，剩余 {size}（{share}%）。",
    ),
    "verdict-missing": (
        "{level}. {gpus} needs {need} but has {capacity}: {size} short.",
        "{level}。{gpus}需要 {need}，但只有 {capacity}：还差 {size}。",
    ),
    "verdict-unknown": (
        "{gpus} needs {need}. Name an accelerator to see whether that fits.",
        "{gpus}需要 {need}。请选择加速器以判断能否放下。",
    ),
    "two-sentences": ("{first} {second}", "{first}{second}"),
    "verdict-range": ("The range is {low} to {high}.", "估算范围为 {low} 到 {high}。"),
    "missing": ("{size} short", "还差 {size}"),
    "one-gpu": ("the GPU", "该 GPU"),
    "one-gpu-of": ("the GPU of {name}", "{name} 的 GPU"),
    "many-gpus-of": ("each of the {count} GPUs of {name}", "{name} 的 {count} 块 GPU 中每个"),
    "many-gpus": ("each of the {count} GPUs", "{count} 块 GPU 中每个"),
    "verdict-reason-loss": (
        "Memory peaks while computing the {when}. The largest part is {category}: {size} of {total} ({share}%).",
        "显存峰值出现在计算{when}时。最大的部分是{category}：{total} 中的 {size}（{share}%）。",
    ),
    "verdict-reason": (
        "Memory peaks in the {when}. The largest part is {category}: {size} of {total} ({share}%).",
        "显存峰值出现在{when}。最大的部分是{category}：{total} 中的 {size}（{share}%）。",
    ),
}
