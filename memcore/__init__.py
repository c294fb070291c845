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
    from memcore.config.settings import Config
    from memcore.errors import ConfigError, MemcoreError, Problem, UnsupportedError
    from memcore.estimation import estimate
    from memcore.memory.estimate import Estimate
    from memcore.questions.advising.advise import Advice, Advised, advise
    from memcore.questions.calibrating import Calibration, calibrate
    from memcore.questions.planning.plan import Planned, Proposal, plan
    from memcore.questions.planning.together import PlannedTogether, Together, plan_together
    from memcore.questions.reconciling.reconcile import Reconciled, reconcile
    from memcore.questions.roofline import Roofline
    from memcore.questions.searching.found import Found, Progress
    from memcore.questions.searching.layouts import Layout
    from memcore.questions.searching.search import search
    from memcore.questions.sharing import Shared, share
    from memcore.questions.solving import Solution, solve
    from memcore.tools.fetching import fetch
    from memcore.tools.loading import load
    from memcore.version import __version__

__all__ = [
    "Advice",
    "Advised",
    "Calibration",
    "Config",
    "ConfigError",
    "Estimate",
    "Found",
    "Layout",
    "MemcoreError",
    "Planned",
    "PlannedTogether",
    "Problem",
    "Progress",
    "Proposal",
    "Reconciled",
    "Roofline",
    "Shared",
    "Solution",
    "Together",
    "UnsupportedError",
    "__version__",
    "advise",
    "calibrate",
    "estimate",
    "fetch",
    "load",
    "plan",
    "plan_together",
    "reconcile",
    "search",
    "share",
    "solve",
]

_HOMES = {
    "Advice": "memcore.questions.advising.advise",
    "Advised": "memcore.questions.advising.advise",
    "Calibration": "memcore.questions.calibrating",
    "Config": "memcore.config.settings",
    "ConfigError": "memcore.errors",
    "Estimate": "memcore.memory.estimate",
    "Found": "memcore.questions.searching.found",
    "Layout": "memcore.questions.searching.layouts",
    "MemcoreError": "memcore.errors",
    "Planned": "memcore.questions.planning.plan",
    "PlannedTogether": "memcore.questions.planning.together",
    "Problem": "memcore.errors",
    "Progress": "memcore.questions.searching.found",
    "Proposal": "memcore.questions.planning.plan",
    "Reconciled": "memcore.questions.reconciling.reconcile",
    "Roofline": "memcore.questions.roofline",
    "Shared": "memcore.questions.sharing",
    "Solution": "memcore.questions.solving",
    "Together": "memcore.questions.planning.together",
    "UnsupportedError": "memcore.errors",
    "__version__": "memcore.version",
    "advise": "memcore.questions.advising.advise",
    "calibrate": "memcore.questions.calibrating",
    "estimate": "memcore.estimation",
    "fetch": "memcore.tools.fetching",
    "load": "memcore.tools.loading",
    "plan": "memcore.questions.planning.plan",
    "plan_together": "memcore.questions.planning.together",
    "reconcile": "memcore.questions.reconciling.reconcile",
    "search": "memcore.questions.searching.search",
    "share": "memcore.questions.sharing",
    "solve": "memcore.questions.solving",
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
