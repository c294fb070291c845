"""The table of inference servers."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.serving.generate import GENERATE
from memcore.serving.job import Server
from memcore.serving.llama_server import LLAMA_CPP
from memcore.serving.sglang import SGLANG
from memcore.serving.tensorrt_llm import TENSORRT_LLM
from memcore.serving.vllm import VLLM

SERVERS: Mapping[str, Server] = {each.name: each for each in (GENERATE, VLLM, SGLANG, TENSORRT_LLM, LLAMA_CPP)}
"""Every server by its name; `config.inference.SERVERS` lists the same names."""
