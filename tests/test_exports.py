"""What is taken away: other tools' files, which their own parsers read and which come back as the same job."""

import argparse
import json
import shlex
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import setting_values

from memcore import Config, estimate
from memcore.config.inference import SERVERS
from memcore.config.settings import SETTINGS
from memcore.errors import MemcoreError
from memcore.formats import TOOLS, exported, imported

LLAMA = {"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 1000}  # fmt: skip
MEGATRON = {"model_type": "megatron", "num_layers": 4, "hidden_size": 128, "num_attention_heads": 4,
            "max_position_embeddings": 512, "vocab_size": 1024, "swiglu": True}  # fmt: skip
MODELS = {"megatron": MEGATRON, "megatron-fsdp": MEGATRON, "nanotron": LLAMA}
"""What the tools of these engines describe by its sizes; others name a model."""
PAIRS = [(name, engine) for name, tool in TOOLS.items() for engine in tool.engines]
READS_TOML = sys.version_info >= (3, 11)


def content_of(text, syntax):
    """The keys of a file as its tool's own parser reads them."""
    if syntax == "json":
        return json.loads(text)
    if syntax == "toml":
        return pytest.importorskip("tomllib").loads(text)
    return pytest.importorskip("yaml").safe_load(text)


def applies(path, engine):
    """Whether a setting is one of a job of the engine."""
    engines = SETTINGS[path].engines
    other = "training." if engine in SERVERS else "inference."
    return path not in ("model", "engine.type") and not path.startswith(other) and (not engines or engine in engines)


@st.composite
def jobs(draw, engine):
    """A job of an engine with any of its settings, also such as contradict each other."""
    config = Config(model=MODELS.get(engine, "llama-3.1-8b")).replaced("engine.type", engine)
    paths = [path for path in SETTINGS if applies(path, engine)]
    for path in draw(st.lists(st.sampled_from(paths), max_size=12, unique=True)):
        config = config.replaced(path, draw(setting_values(path)))
    return config
