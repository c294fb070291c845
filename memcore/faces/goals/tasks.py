"""What the GPUs are for: a task sets a few settings at once, and puts away those of other tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from memcore.config.engine import EngineSettings
from memcore.config.settings import SETTINGS
from memcore.config.training import Training
from memcore.i18n.page import say
from memcore.records import dataclass
from memcore.registry import SERVERS
from memcore.serving.inference import Inference


@dataclass(frozen=True, slots=True)
class Task:
    """A task by the settings that make it."""

    name: str
    engine: str = ""
    """The engine, for servers; training leaves it to the number of GPUs."""
    values: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[str, str] = field(default_factory=dict)
    """What a job of this task begins with where the form says nothing."""

    @property
    def title(self) -> str:
        """Return what it is called."""
        return say(f"task-{self.name}")


_LORA: Mapping[str, str] = {Training.adapter.type: "lora"}
_STEP: Mapping[str, str] = {Training.sequence_length: "4096"}
_ADAPTED: Mapping[str, str] = {
    **_STEP,
    Training.activation_checkpointing.policy: "full",
    Training.adapter.rank: "16",
    Training.adapter.target_modules: "all-linear",
}
"""Tools that train adapters recompute layers: TRL's SFTConfig by default (trl/trainer/sft_config.py,
`gradient_checkpointing`), axolotl and LLaMA-Factory in their LoRA examples. TRL's and Unsloth's rank is 16 by default
(trl/trainer/model_config.py, `lora_r`; unsloth, models/llama.py, `get_peft_model`)."""
_EVERY = (
    Task("full", begins=_STEP),
    Task("lora", values=_LORA, begins=_ADAPTED),
    Task("qlora", values={**_LORA, Training.quantization: "nf4"}, begins=_ADAPTED),
    Task("serve", "vllm"),
    Task("sglang", "sglang"),
    Task("trt", "tensorrt-llm"),
    Task("gguf", "llama.cpp"),
    Task("generate", "transformers"),
)
TASKS: Mapping[str, Task] = {task.name: task for task in _EVERY if set(task.values) <= set(SETTINGS)}
"""By name."""
_MARKS = (Training.quantization, Training.adapter.type)
"""Settings by which tasks of training differ."""


def titles() -> dict[str, str]:
    """Every task with its title."""
    return {name: task.title for name, task in TASKS.items()}


def task_of(texts: Mapping[str, str]) -> str:
    """The task that a form describes.

    >>> task_of({"engine.type": "vllm"}), task_of({"training.adapter.type": "lora"}), task_of({})
    ('serve', 'lora', 'full')
    """
    engine = texts.get(EngineSettings.type, "")
    if engine in SERVERS:
        return next((task.name for task in TASKS.values() if task.engine == engine), "serve")
    if texts.get(Training.adapter.type):
        return "qlora" if texts.get(Training.quantization) and "qlora" in TASKS else "lora"
    return "full"


def with_task(texts: Mapping[str, str], name: str, own: frozenset[str] = frozenset()) -> dict[str, str]:
    """A form after its task was chosen: settings of the old task go, those of the new come.

    What the old task begins with goes, too, unless it is the user's `own`.
    """
    task, before = TASKS[name], TASKS[task_of(texts)]
    kept = {
        path: text
        for path, text in texts.items()
        if not path.startswith(("training.adapter.", *_MARKS))
        and (path in own or path in task.begins or before.begins.get(path) != text)
    }
    if task.engine:
        kept = {**kept, EngineSettings.type: task.engine}
        kept.pop(Inference.quantization, None)
    elif kept.get(EngineSettings.type) in SERVERS:
        del kept[EngineSettings.type]
    return {**task.begins, **kept, **task.values, **{path: texts[path] for path in own}}
