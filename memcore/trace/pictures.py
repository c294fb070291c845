"""The images of a job: how many a sequence has and how large they are, as sizes and as part of the recipe."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.nearest import positions, rows
from memcore.networks.network import Model
from memcore.symbols import round_up
from memcore.tensors.loops import LOOP
from memcore.trace.recipe import HEAD, TAIL, Pictures
from memcore.trace.step import run_name


def image_sizes(model: Model, micro_batch: int, sequence: int, images: int, side: int) -> Mapping[str, int]:
    """Return the symbols that images of `side` pixels have values for; none without images."""
    if not images:
        return {}
    if model.images is None:
        return _nearest_sizes(model, micro_batch, sequence, images, side)
    found = dict(model.images.sizes(side))
    found["ni"] = images
    found["bt"] = micro_batch * images * model.sizes.get("zt", found["nx"])
    found["bi"] = micro_batch * images
    if "zt" in model.sizes:
        found["kt"] = model.sizes["zt"] * round_up(model.sizes["nt"], 8)
        found["cv"] = images * model.sizes["zt"] * model.sizes["nt"]
    found["nq"] = found["bt"] * found["np"]
    found["mq"] = micro_batch * images * found["nm"]
    found["xt"] = (sequence - images * found["nm"]) // (images + 1)
    for tower, repeats in enumerate(model.tower_repeats):
        found |= {run_name(run, tower): times - HEAD - TAIL for run, times in enumerate(repeats)}
    windows, cut = found.pop("nw", 0), found.pop("ne", 0)
    if windows:
        found |= {"tw": found["bt"] * windows, "te": found["bt"] * cut}
    return found


def _nearest_sizes(model: Model, micro_batch: int, sequence: int, images: int, side: int) -> Mapping[str, int]:
    """Return the sizes for towers that run from the nearest parts."""
    found = {"ni": images, "bi": micro_batch * images, "bt": micro_batch * images, "nq": 16}
    found |= {positions(tower): length for tower, length in enumerate(rows(model, sequence, side))}
    for tower, repeats in enumerate(model.tower_repeats):
        found |= {run_name(run, tower): times - HEAD - TAIL for run, times in enumerate(repeats)}
    return found


def pictures(model: Model, sizes: Mapping[str, int], attention: str | None = None) -> Pictures | None:
    """Return what of these sizes decides which tensors there are; `attention`: the towers' own kernel."""
    if "ni" not in sizes:
        return None

    def counted(symbol: str) -> int:
        return min(sizes.get(symbol, 0), LOOP)

    return Pictures(
        count=counted("bt"),
        each=counted("ni"),
        sequences=counted("b"),
        windows=counted("tw"),
        cut=counted("te"),
        ragged=sizes.get("cv", sizes["nq"]) % 16 != 0,
        attention=attention,
    )


def tower_repeats(model: Model) -> tuple[tuple[int, ...], ...]:
    """Return how often each run of each tower is recorded: layers that learn nothing are all counted."""
    return tuple(
        tuple(times if run > max(tower.taps) else min(times, HEAD + TAIL + 1) for run, times in enumerate(repeats))
        for tower, repeats in zip(model.network.towers, model.tower_repeats, strict=True)
    )
