"""What llama.cpp offers to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.knobs import Knob
from memcore.servers.llamacpp.settings import LlamaCppSettings

ON_GPU: Mapping[str, Knob] = {
    "llama.cpp": Knob(
        title="Some layers on the host",
        to={LlamaCppSettings.n_gpu_layers: 0},
        why="the CPU computes the layers that do not fit on the GPU; each token waits for host memory",
        source="llama.cpp, common/arg.cpp, -ngl",
    )
}
"""By server: how many layers are on GPUs; the knob sets the number."""
