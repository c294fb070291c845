"""What scripts tell transformers before they generate: `from_pretrained`, a pipeline, and the calls of `generate`.

Sources: transformers 5.23, pipelines/__init__.py (`pipeline`), generation/configuration_utils.py.
"""

from __future__ import annotations

from memcore.formats.tool import Key, Tool
from memcore.formats.values import TORCH_DTYPES
from memcore.servers.generate.script import script_of
from memcore.serving.inference import Inference

GENERATE = Tool(
    name="generate",
    title="generate() of transformers",
    syntax="python",
    engines=("transformers",),
    launch="python {file}",
    prefixes=("generate()",),
    tells=("max_new_tokens",),
    model="model",
    keys=(
        Key(path=Inference.weight_dtype, name="dtype", values=TORCH_DTYPES),
        Key(path=Inference.quantization, name="quantization"),
        Key(path=Inference.output_length, name="max_new_tokens"),
        Key(path=Inference.prompt_length, name="prompt_length"),
        Key(path=Inference.max_model_len, name="max_length"),
        Key(path=Inference.use_cache, name="use_cache"),
        Key(path=Inference.batch_size, name="batch_size"),
    ),
    ignored=("attn_implementation",),
    code=script_of,
    source="transformers, generation/configuration_utils.py",
)
TOOLS = (GENERATE,)
