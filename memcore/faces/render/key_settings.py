"""The settings that decide most besides the sentence, in one line: each leads to its field."""

from __future__ import annotations

from html import escape

from memcore.config.engine import EngineSettings
from memcore.config.settings import SETTINGS
from memcore.config.training import Training
from memcore.faces.render.form import identifier
from memcore.i18n.page import label, translated
from memcore.memory.estimate import Estimate
from memcore.questions.describe import readable
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference

_TRAINING = (
    EngineSettings.type,
    Training.optimizer.name,
    Training.precision,
    Training.activation_checkpointing.policy,
    Training.attention,
)
_SERVING = (
    Inference.quantization,
    Inference.weight_dtype,
    Inference.kv_cache_dtype,
    Inference.max_num_seqs,
    EngineSettings.version,
)


def key_settings(found: Estimate | ServingEstimate) -> str:
    """Return what is set or assumed for the settings that decide most, as buttons that lead to their fields."""
    values = {each.path: each.value for each in found.assumptions} | dict(found.job.config.values)
    texts = {path: readable(path, value) for path, value in values.items()}
    texts[EngineSettings.type] = translated(found.job.engine.title)
    paths = _SERVING if isinstance(found, ServingEstimate) else _TRAINING
    return " ".join(_item(path, texts[path]) for path in paths if texts.get(path))


def _item(path: str, value: str) -> str:
    title = escape(label(path, SETTINGS[path].label))
    return f'<button type="button" data-go="{identifier(path)}">{title} <b>{escape(value)}</b></button>'
