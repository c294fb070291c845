"""TGI's command line, whose every argument is a variable of the environment as well.

Source: text-generation-inference 3.3, launcher/src/main.rs (`#[clap(long, env)]`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.parallelism import Parallelism
from memcore.formats.normalized import Normalized
from memcore.formats.shell import ENVIRONMENT
from memcore.formats.tool import Key, Tool
from memcore.messages import Message
from memcore.servers.command_lines import in_eight_bits
from memcore.servers.tgi.settings import TgiSettings
from memcore.serving.inference import Inference
from memcore.tools.vocabulary import table

_QUANTIZED: Mapping[str, str] = {
    "awq": "awq", "gptq": "gptq", "fp8": "fp8", "int8": "eetq", "nf4": "bitsandbytes-nf4",
}  # fmt: skip
_OTHERS: Mapping[str, str] = {"bitsandbytes": "eetq", "bitsandbytes-fp4": "bitsandbytes-nf4", "marlin": "gptq"}
"""Words for formats of the same size."""


def _sizes(most: int) -> str:
    """Return the batches of graphs up to a size.

    >>> _sizes(4)
    '1,2,4'
    """
    return ",".join(str(each) for each in (1, 2, 4, 8, 16, 32) if each <= most) or "0"


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return the launcher's arguments, those of its environment where the command has none."""
    own = {
        f"--{name.removeprefix(ENVIRONMENT).lower().replace('_', '-')}": value
        for name, value in found.items()
        if name.startswith(ENVIRONMENT) and name.removeprefix(ENVIRONMENT).isupper()
    }
    known = table("tgi")
    normalized = {**{name: value for name, value in own.items() if name in known}, **found}
    notes = []
    method = str(normalized.get("--quantize"))
    if method in _OTHERS:
        normalized["--quantize"] = _OTHERS[method]
    elif method == "compressed-tensors" or in_eight_bits(method, normalized.get("--model-id")):
        del normalized["--quantize"]  # the checkpoint says how
    graphs = normalized.get("--cuda-graphs")
    if graphs is not None:
        sizes = [
            int(each) for each in str(graphs).replace("[", "").replace("]", "").split(",") if each.strip().isdigit()
        ]
        normalized["--cuda-graphs"] = max(sizes, default=0)
    if normalized.get("--kv-cache-dtype") == "fp8_e5m2":
        normalized["--kv-cache-dtype"] = "fp8_e4m3fn"
    if normalized.pop("--sharded", None) in (False, "false"):
        normalized.setdefault("--num-shard", 1)
    if "--max-batch-total-tokens" in normalized:
        notes.append(
            Message("{} is not used: with flash attention TGI takes what the warmup leaves", "--max-batch-total-tokens")
        )
    return normalized, tuple(notes)


TGI = Tool(
    name="tgi",
    title="TGI",
    syntax="argv",
    engines=("tgi",),
    program="text-generation-launcher",
    prefixes=("text-generation-launcher", "text-generation-inference"),
    tells=("--max-batch-prefill-tokens", "--max-total-tokens", "--num-shard", "--max-input-tokens"),
    model="--model-id",
    keys=(
        Key(path=Parallelism.tensor_parallel_size, name="--num-shard"),
        Key(path=Inference.max_model_len, name="--max-total-tokens"),
        Key(path=Inference.quantization, name="--quantize", values=_QUANTIZED),
        Key(path=Inference.weight_dtype, name="--dtype", values={"bf16": "bfloat16", "fp16": "float16"}),
        Key(path=Inference.kv_cache_dtype, name="--kv-cache-dtype", values={"fp8": "fp8_e4m3fn"}),
        Key(path=TgiSettings.cuda_memory_fraction, name="--cuda-memory-fraction"),
        Key(path=TgiSettings.max_batch_prefill_tokens, name="--max-batch-prefill-tokens"),
        Key(path=TgiSettings.cuda_graph_max_batch, name="--cuda-graphs", spelled=_sizes),
    ),
    normalized=_normalized,
    settles=("--sharded", "--max-batch-total-tokens"),
    unsaid={Parallelism.tensor_parallel_size: 1},
    vocabulary=("tgi",),
    source="text-generation-inference, launcher/src/main.rs",
)
TOOLS = (TGI,)
