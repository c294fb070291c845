"""How much GPU memory a training job takes, at every moment of a step, and because of which tensors.

>>> import memcore
>>> found = memcore.estimate({"model": "gpt2", "training": {"sequence_length": 1024, "micro_batch_size": 8}})
>>> found.peak.phase, found.ledger.total == found.peak.peak
('loss', True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memcore.advising.advise import Advice, Advised, advise
    from memcore.config.settings import Config
    from memcore.costs import Roofline
    from memcore.errors import ConfigError, MemcoreError, Problem, UnsupportedError
    from memcore.estimation import Estimate, estimate
    from memcore.reconciling.reconcile import Reconciled, reconcile
    from memcore.searching.found import Found, Progress
    from memcore.searching.layouts import Layout
    from memcore.searching.search import search
    from memcore.solving import Solution, solve

__version__ = "0.1.0"
__all__ = [
    "Advice",
    "Advised",
    "Config",
    "ConfigError",
    "Estimate",
    "Found",
    "Layout",
    "MemcoreError",
    "Problem",
    "Progress",
    "Reconciled",
    "Roofline",
    "Solution",
    "UnsupportedError",
    "__version__",
    "advise",
    "estimate",
    "reconcile",
    "search",
    "solve",
]

_HOMES = {
    "Advice": "memcore.advising.advise",
    "Advised": "memcore.advising.advise",
    "Config": "memcore.config.settings",
    "ConfigError": "memcore.errors",
    "Estimate": "memcore.estimation",
    "Found": "memcore.searching.found",
    "Layout": "memcore.searching.layouts",
    "MemcoreError": "memcore.errors",
    "Problem": "memcore.errors",
    "Progress": "memcore.searching.found",
    "Reconciled": "memcore.reconciling.reconcile",
    "Roofline": "memcore.costs",
    "Solution": "memcore.solving",
    "UnsupportedError": "memcore.errors",
    "advise": "memcore.advising.advise",
    "estimate": "memcore.estimation",
    "reconcile": "memcore.reconciling.reconcile",
    "search": "memcore.searching.search",
    "solve": "memcore.solving",
}


def __getattr__(name: str) -> object:
    # Importing the package stays cheap for scripts that only want its version or its errors.
    if name not in _HOMES:
        raise AttributeError(f"module 'memcore' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
