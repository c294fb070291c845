"""What llama.cpp offers to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.knobs import Knob
from memcore.servers.llamacpp.settings import LlamaCppSettings

ON_GPU: Mapping[str, Knob] = {
    "llama.cpp": Knob(
        title="Some layers on the host",
        to={LlamaCppSettings.n_gpu_layers: 0},
        why="the processor computes the layers that the GPU has no room for; each token waits for the host's memory",
        source="llama.cpp, common/arg.cpp, -ngl",
    )
}
"""By server: how many layers are on GPUs; the knob sets the number."""
