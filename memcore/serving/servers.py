"""The table of inference servers."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.generate.server import GENERATE
from memcore.servers.llamacpp.server import LLAMA_CPP
from memcore.servers.sglang.server import SGLANG
from memcore.servers.tensorrt_llm.server import TENSORRT_LLM
from memcore.servers.vllm.server import VLLM
from memcore.serving.job import Server

SERVERS: Mapping[str, Server] = {each.name: each for each in (GENERATE, VLLM, SGLANG, TENSORRT_LLM, LLAMA_CPP)}
"""Every server by its name; `config.inference.SERVERS` lists the same names."""
