"""A whole question in one sentence: `serve Llama 3.1 70B to 20 users of 8k on 2 x H100`, in either language."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.faces.goals.names import meanings, written
from memcore.faces.goals.tasks import with_task
from memcore.serving.inference import Inference

_NUMBER = r"(\d+(?:[.,]\d+)*\s?k?)"
_USERS = re.compile(rf"{_NUMBER}\s*(?:concurrent\s+|个\s*)?(?:users?\b|people\b|requests?\b|sequences?\b|用户|人|请求)")
_BATCH = re.compile(rf"(?:micro-?)?(?:batch(?:\s+size)?|批大小|批量)\s*(?:of\s+|为\s*|=\s*)?{_NUMBER}")
_LENGTH = re.compile(
    rf"\b(?:seq|sequence)(?:\s+length)?\s+(?:of\s+)?{_NUMBER}|(?:(?:of|at|with|各|长度)\s*)?(?<![\w.-]){_NUMBER}\s*-?(?:个\s*)?(?:tokens?\b|context\b|ctx\b|上下文|token)"
    r"|(?:\b(?:of|at|with)\s+|各\s*|长度\s*)(\d[\d,]*(?:\.\d+)?k?)(?![\w.])|(?<![\w.-])(\d+(?:\.\d+)?k)(?!\w)"
)
_GPU = re.compile(
    r"(?:(?<!\d)(\d{1,6})\s{0,9}(?:[x×*]|张|块|片|个)?\s{0,9})?(?<![\w.-])("
    r"(?:(?:nvidia|amd|intel|apple|geforce|tesla|instinct|quadro|radeon|rtx|gtx|rx|arc)[\s-]*)*"
    r"(?:pro\s+\d{4}|a\d{4}|\d{4}(?:\s*(?:ada|ti|super|xtx?|laptop)\b)*|[a-z]{1,3}\d{2,3}[a-z]?|t4|l4"
    r"|m[1-9](?:\s+(?:pro|max|ultra)\b|(?=\s*\d{1,3}\s*gb?\b))|jetson\s+[a-z]+(?:\s+[a-z]+)?|strix\s+halo)"
    r"(?:[\s-]*(?:sxm\d?|pcie|nvl|\d+\s*gb?\b))*)(?![\w.])s?"
)
_TASKS: Mapping[str, str] = {
    "qlora": r"\bqlora\b", "lora": r"\blora\b", "full": r"\bfull\b|\btrain\s+all\b|全量|全参数?",
    "sglang": r"\bsglang\b", "trt": r"\btensorrt(?:-llm)?\b|\btrt\b", "gguf": r"\bllama\.cpp\b|\bgguf\b",
    "serve": r"\bserv(?:e|es|ing)\b|\bvllm\b|\binference\b|部署|推理|服务",
}  # fmt: skip
_ENOUGH = 2
"""Settings that make a question of a text without an accelerator."""
_SERVED = ("sglang", "trt", "gguf", "serve", "generate")
_FILLING = re.compile(
    r"(?:a|across|all|an|and|at|batch|can|card|context|do|does|each|fine|fine-?tun(?:e|ing)|fits?|for|from|gpus?|have|home|how|i|in|into|is|it"
    r"|max|maximum|largest|longest|memory|my|need|of|on|one|or|per|pre-?train(?:ing)?|run|size|the|this|to|tokens?|train|training|tun(?:e|ed|ing)"
    r"|users?|using|vram|want|we|what|will|with|would|x)"
)


def asked(text: str) -> dict[str, str]:
    """The settings that a question names, as text by path, and `task`; empty for a text that is none.

    >>> asked("QLoRA Qwen3 8B on a 3090, batch 4")
    {'training.micro_batch_size': '4', 'hardware.accelerator': '3090', 'task': 'qlora', 'model': 'qwen3 8b'}
    """
    found: dict[str, str] = {}
    rest = _taken(text.lower(), found)
    task = next((name for name, pattern in _TASKS.items() if re.search(pattern, rest)), "")
    rest = re.sub(_TASKS[task], " ", rest) if task else rest
    serves = task in _SERVED or Inference.batch_size in found
    length = _LENGTH.search(rest)
    if length:
        path = Inference.max_model_len if serves else Training.sequence_length
        found[path] = _plain(next(filter(None, length.groups())))
        rest = _without(rest, length)
    if Hardware.accelerator not in found and len(found) < _ENOUGH:
        return {}
    if task or serves:
        found["task"] = task or "serve"
    words = re.findall(r"[a-z0-9][\w./-]*[\w]|[a-z0-9]", rest)
    model = " ".join(word for word in words if not _FILLING.fullmatch(word))
    return {**found, "model": model} if model else found


def _taken(rest: str, found: dict[str, str]) -> str:
    """Return what is left of a text when users, the batch and the GPUs are taken out of it."""
    for path, pattern in ((Inference.batch_size, _USERS), (Training.micro_batch_size, _BATCH)):
        match = pattern.search(rest)
        if match:
            found[path] = _plain(match[1])
            rest = _without(rest, match)
    known = (each for each in _GPU.finditer(rest) if meanings(Hardware.accelerator, each[2]))
    gpu = next(known, None)
    if gpu is None:
        return rest
    found[Hardware.accelerator] = gpu[2].strip()
    if gpu[1]:
        found[Hardware.num_gpus] = gpu[1]
    return _without(rest, gpu)


def _plain(number: str) -> str:
    return re.sub(r"[,\s]", "", number)


def _without(text: str, match: re.Match[str]) -> str:
    return f"{text[: match.start()]} , {text[match.end() :]}"


def job_of(sentence: str) -> dict[str, str]:
    """The whole job that a question describes, as text by path; empty where it names no model.

    >>> job_of("serve Qwen3 32B to 50 users of 8k on 2 x H100")["engine.type"]
    'vllm'
    """
    found = asked(sentence)
    if "model" not in found:
        return {}
    task = found.pop("task", "full")
    return written(with_task(found, task, frozenset(found)))
