"""Which settings of the form say something about a job: those that nothing else of it rules out.

A setting that a job's engine refuses whatever its value, or that waits for another setting, is put away until that
changes; one that has a value is always shown, so that it can be seen to be removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore import registry
from memcore.config import needs
from memcore.config.needs import EXPERTS, RECURRENT, TOWERS, Need
from memcore.config.training import Training
from memcore.memory.estimate import Estimate
from memcore.serving.estimate import ServingEstimate
from memcore.serving.settings import ServerSettings
from memcore.trace.recurrence import is_recurrent

NEEDS: Mapping[str, Need] = {**needs.NEEDS, **registry.merged("settings", "NEEDS")}
"""The one other setting that each of these waits for."""


def _refused() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for module in registry.engine_modules("settings"):
        for engine, paths in getattr(module, "REFUSED", {}).items():
            found[engine] = (*found.get(engine, ()), *paths)
    return found


REFUSED = _refused()
"""Settings that every engine could have, but this one refuses whatever their value, by engine."""
SAID_ELSEWHERE = (ServerSettings.max_num_seqs, ServerSettings.block_size, ServerSettings.quantization)
"""Settings that a file may have in two places: the form has one of them, unless a file used this one."""
_OF_IMAGES = (Training.images_per_sequence, Training.image_size)


def applies(path: str, engine: str, given: Mapping[str, str], taken: Mapping[str, str]) -> bool:
    """Return whether a setting says something about the job with these values, given and taken for absent ones.

    A model that sees has a default for its images.
    """
    if given.get(path):
        return True
    if path in SAID_ELSEWHERE or path in REFUSED.get(engine, ()) or (path in _OF_IMAGES and path not in taken):
        return False
    need = NEEDS.get(path)
    return need is None or need.is_met(given.get(need.path) or taken.get(need.path, ""))


def traits(found: Estimate | ServingEstimate) -> dict[str, str]:
    """Return what a job's model has that settings wait for."""
    model = found.job.model
    has = {EXPERTS: "E" in model.sizes, RECURRENT: is_recurrent(model), TOWERS: bool(model.network.towers)}
    return {name: "true" for name, is_so in has.items() if is_so}
