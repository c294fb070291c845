"""What vLLM is told, read and defaulted."""

from __future__ import annotations

from memcore.records import dataclass
from memcore.servers.vllm.versions import Facts, Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """vLLM's own settings."""

    facts: Facts
    runner: Runner | None
    """The second model runner, where it runs."""
    utilization: float
    cache_bytes: int | None
    tokens: int
    sequences: int
    block_size: int
    pooling: bool
    """Prompts become embeddings, scores or classes: nothing is sampled."""
    eager: bool
    hybrid: bool
    images: bool
    encodes: bool
    """Profiling encodes images, where its runner does."""
    videos: bool
    pixels: int | None
    """The most of an image that keeps its size; None if nothing is said."""
    most_images: int | None
    """Images that a prompt may have; None if nothing is said."""
    item: int
    """Tokens of the largest image or video, which a step must hold; 0 where it need not."""
    compiled: bool | None
    """Whether compiled graphs are in vLLM's cache; None if nothing is said."""
    graph_mode: str | None
    """What is captured, where it is given."""
    largest_graph: int | None
    """Tokens of the largest batch that is captured, where it is given."""
    loras: int
    lora_rank: int
    on_host: int = 0
    """Bytes of weights that each GPU leaves on the host."""
    kv_on_host: int = 0
    """Bytes of the host for blocks of the cache, of all ranks together."""
    connector: str | None = None
    backend: str | None = None
    """How tokens reach experts on other ranks."""
    experts: str = "auto"
    """Kernels that run the experts."""
    states: int
    """Blocks of recurrent states that a sequence has."""

    @property
    def captures(self) -> bool:
        """Return whether graphs are captured at all."""
        return not self.eager and self.graph_mode != "none"

    @property
    def graphs_inside(self) -> bool:
        """Return whether graphs are estimated and taken from the cache."""
        return self.facts.graphs_inside and (self.runner is None or self.runner.graphs)
