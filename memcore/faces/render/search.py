"""What a search finds, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memcore import registry
from memcore.columns import WIDTH, flowed, table
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.faces.render.text import section
from memcore.i18n.page import say, translated
from memcore.messages import Message, joined
from memcore.questions.advising.native import dialect_of, native
from memcore.questions.searching.found import Found, Progress
from memcore.questions.searching.layouts import changes_of
from memcore.questions.searching.records import record
from memcore.units import GiB, format_bytes, format_count


def search_text(progress: Progress, base: Config, width: int = WIDTH) -> str:
    """Return what `memcore search` prints; flags go on in further lines of `width` characters."""
    numbers = {"total": progress.total, "pruned": progress.pruned, "measured": progress.measured}
    counts = {name: format_count(each) for name, each in {**numbers, "refused": progress.refused}.items()}
    lines = [] if progress.best else [say("cli-no-layout"), ""]
    if progress.best:
        lines += section(_HEADS[all(each.fits is None for each in progress.best)], _table(progress))
        lines += section("Flags, in the same order", _how(progress.best, base, width - 2))
    reasons = sorted(progress.reasons.items(), key=lambda each: -each[1])[:5]
    left_out = [
        (say("cli-all-of", title=translated(title)), translated(why)) for title, why in progress.left_out.items()
    ]
    lines += section("Not tried", table(left_out)) if left_out else []
    lines += section("Refused", table([(str(count), translated(why)) for why, count in reasons])) if reasons else []
    lines.append(say("cli-layouts", **counts))
    return "\n".join([*lines, say("cli-cost"), say("cli-order")] if progress.best else lines) + "\n"


_HEADS = {
    False: "What fits, cheapest first (*: Pareto-optimal in headroom, cost and GPUs)",
    True: "Cheapest first; name an accelerator to see what fits (*: Pareto-optimal in memory, cost and GPUs)",
}
"""By whether nobody says how much memory there is."""


def _how(found: Sequence[Found], base: Config, width: int) -> list[str]:
    lines = []
    for number, each in enumerate(found, 1):
        how = say("cli-part", category=each.engine, size=translated(policy_of(each)))
        lines += [f"{number}. {how}", *flowed(map(translated, flags_of(each, base)), width, 4)]
    return lines


HEADINGS = (
    "",
    "GPUs",
    "TP",
    "PP",
    "CP",
    "EP",
    "shards",
    "copies",
    "micro",
    "accum",
    "policy",
    "allocated",
    "left",
    "cost",
)


def _table(progress: Progress) -> list[str]:
    several = len({each.accelerator for each in progress.best}) > 1
    front, cheapest = set(map(id, progress.front)), progress.best[0]
    named = [say("cli-accelerator")] if several else []
    needs = [each.device for each in progress.best if each.device is not None]
    known = len(needs) == len(progress.best)
    needs = needs if known else [each.allocated for each in progress.best]
    held = say("cli-needs") if known else say("cli-allocated")
    heads = (*(f"{head} GiB" for head in (held, say("cli-left"))), say("cli-cost-column"))
    rows: list[tuple[str, ...]] = [("", *named, *_SIZES, *heads)]
    for number, (each, need) in enumerate(zip(progress.best, needs, strict=True), 1):
        named = [str(each.accelerator or "")] if several else []
        sizes = dict(zip(HEADINGS[1:], cells(each, cheapest), strict=True))
        left = "-" if each.headroom is None else f"{each.headroom / GiB:.1f}"
        mark = "*" if id(each) in front else " "
        row = (f"{number}.{mark}", *named, *(sizes[name] for name in _SIZES))
        rows.append((*row, f"{need / GiB:.1f}", left, sizes["cost"]))
    columns = [column for column in zip(*rows, strict=True) if column[0] not in _SPLITS or set(column[1:]) != {"1"}]
    right = [number for number, column in enumerate(columns) if [column[0]] != named]
    titled = [(say(f"cli-{head}") if head in _WORDS else head, *rest) for head, *rest in columns]
    return table(zip(*titled, strict=True), right=right)


_SIZES = ("GPUs", "TP", "PP", "CP", "EP", "shards", "copies", "micro", "accum")
_WORDS = ("shards", "copies", "micro", "accum")
"""Columns whose heading is a word."""
_SPLITS = ("TP", "PP", "CP", "EP", "copies")
"""Columns that are left out where every layout has one."""


def is_open(found: Found) -> bool:
    """Return whether the config left open which engine runs it."""
    return Training.implementation in found.policy


def cells(each: Found, cheapest: Found) -> tuple[str, ...]:
    """Return a layout's row below `HEADINGS`, but for the mark."""
    layout = each.layout
    sizes = (each.gpus, *layout[:8])
    left = "-" if each.headroom is None else format_bytes(each.headroom)
    cost = f"{each.cost.per_token / cheapest.cost.per_token:.3f}"
    return (*map(str, sizes), policy_of(each), format_bytes(each.allocated), left, cost)


def policy_of(each: Found) -> str:
    """Return a layout's settings besides sizes in a few words."""
    settings = {path.rpartition(".")[2]: value for path, value in each.policy.items() if value is not None}
    policy = settings.get("policy", "none")
    words: list[str] = ["no checkpointing" if policy == "none" else Message("{} checkpointing", policy)]
    if settings.get("reshard_after_forward") is False:
        words.append("parameters stay gathered")
    if "pipeline_schedule" in settings:
        words.append(str(settings["pipeline_schedule"]))
    elif "virtual_pipeline_parallel_size" in settings:
        words.append(Message("{} virtual stages", settings["virtual_pipeline_parallel_size"]))
    if settings.get("expert_tensor_parallel_size") == 1:
        words.append("whole experts")
    if settings.get("cpu_offload"):
        words.append("offloaded")
    if "offload_optimizer" in settings:
        words.append("optimizer on the host")
    if "zero_stage" in settings:
        words.append(f"ZeRO-{settings['zero_stage']}")
    return joined(", ", words)


def flags_of(each: Found, base: Config) -> tuple[str, ...]:
    """Return a layout in the words of the tool that runs it, the step's sequences among them."""
    layout, changes = each.layout, {k: v for k, v in changes_of(each.layout, each.policy).items() if v is not None}
    layers = changes.get(Training.implementation) or base[Training.implementation] or base[EngineSettings.framework]
    tool = dialect_of(
        str(changes.get(EngineSettings.type) or base[EngineSettings.type]), str(layers) if layers else None
    )
    if tool == "transformers":
        return tuple(native(tool, changes))
    changes.pop(EngineSettings.type, None)
    step = layout.data * layout.micro_batch * layout.micro_batches
    words: Mapping[str, str] = registry.merged("spelling", "SIZES").get(tool, {})
    more = [words["step"].format(step)] if "step" in words else []
    if "replicas" in words and layout.replicas > 1:
        changes[Parallelism.data_parallel_shard_size] = layout.shards // layout.context
        more.append(words["replicas"].format(layout.replicas))
    if "micro_batch" in words and layout.stages > 1:
        changes[Training.micro_batch_size] = layout.micro_batch * layout.micro_batches
        more.append(words["micro_batch"].format(layout.micro_batch))
    gpus: dict[str, object] = {path: changes.pop(path) for path in [Hardware.num_gpus] if path in changes}
    return (*native(tool, changes), *more, *native(tool, gpus))


def search_data(progress: Progress, base: Config) -> dict[str, Any]:
    """Return a search as JSON."""
    front = set(map(id, progress.front))
    found = [
        {
            **record(each),
            "front": id(each) in front,
            "headroom": each.headroom,
            "flags": list(flags_of(each, base)),
            "config": each.config(base).to_dict(),
        }
        for each in progress.best
    ]
    counts = {name: getattr(progress, name) for name in ("total", "pruned", "measured", "refused", "done")}
    return {**counts, "reasons": dict(progress.reasons), "left_out": dict(progress.left_out), "found": found}
