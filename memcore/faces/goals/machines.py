"""GPUs in a sentence: how many of which, on how many nodes, and how much memory each has."""

from __future__ import annotations

import re

from memcore.config.devices import SLICES
from memcore.config.hardware import Hardware
from memcore.faces.goals.names import meanings
from memcore.hardware import BY_ID

_NAME = (
    r"(?:(?:nvidia|amd|intel|apple|geforce|tesla|instinct|quadro|radeon|rtx|gtx|rx|arc|ascend|昇腾)[\s-]{0,9}){0,5}"
    r"(?:pro\s+\d{4}|a\d{4}|\d{4}\s?d?(?:\s*(?:ada|ti|super|xtx?|laptop)\b)*|[a-z]{1,3}\d{2,3}[a-z]?|910[bc]|t4|l4"
    r"|m[1-9](?:\s+(?:pro|max|ultra)\b|(?=\s*\d{1,3}\s*gb?\b))|jetson\s+[a-z]+(?:\s+[a-z]+)?|strix\s+halo"
    r"|dgx\s+spark|ryzen\s+ai\s+max\+?(?:\s+\d+)?|tpu[\s-]v\d\w?)"
    r"(?:[\s-]*(?:sxm\d?|pcie|nvl|\d+\s*gb?\b(?!\s*(?:of\s+)?(?:system\s+|ddr\d\s+)?(?:ram\b|内存))))*"
)
_COUNT = r"(\d{1,6})(?!\d)\s{0,9}(?:[x×*]|张|块|片|个)?\s{0,9}卡?\s{0,9}"
_SYSTEM = r"(dgx|hgx)?[\s-]{0,9}"
_GPU = re.compile(
    rf"(?<![\w.-])(?:{_COUNT})?{_SYSTEM}(?<![a-z]-)({_NAME})s?(?![\w.])(?:\s*[x×*]\s*(\d{{1,6}})(?![\w.])|\s*(\d{{1,6}})\s*[张块片]?卡)?",
    re.ASCII,
)
_UNNAMED = re.compile(
    r"(?<![\w.-])(\d{1,6})\s*(?:(?:[x×*]\s*)?(?:nvidia\s+|amd\s+)?(?:gpus?|cards?|accelerators?)\b|[张块片个]?\s*(?:显?卡|gpu))|(?<![\w.-])(\d{1,4})\s*(?:[x×*](?=\s*\d{1,4}\s*gb?\b)|(?=\s\d{1,4}\s*gb?[\s-]+(?:gpus?|cards?)\b))",
    re.ASCII,
)
_NODES = re.compile(
    r"(?<![\w.-])(\d{1,5})[\s-]*(?:nodes?|machines?|hosts?|servers?|boxes)\b|(?<![\w.-])(\d{1,5})\s*(?:(?:个|台)?\s*(?:节点|机器|服务器)|台?机(?=\s*\d)|台(?=\s*\d))",
    re.ASCII,
)
_EACH = re.compile(r"\beach\b|\bper\s+(?:node|machine|host|server)\b|/\s*node\b|每(?:个|台)?(?:节点|机器|服务器|机)|各")
_SIZE = re.compile(
    r"(?<![\w.-])(\d{1,4})\s*gb?\b(?:\s*(?:of\s+)?(?:vram|(?:gpu|unified)\s+memory|显存|统一内存|(ram|memory|内存|disk)))?",
    re.ASCII,
)
"""The last group: what may be the host's."""
_MIG = re.compile(
    r"(?:(?<![\w-])mig[\s-]{1,9})?(?<![\w.])(\d{1,2}g\.\d{1,3}gb)(?!\w)(?:\s{1,9}(?:mig\s{1,9})?slices?)?", re.ASCII
)
"""A slice of a partitioned GPU."""
_MAC = re.compile(r"(?<![\w.-])mac(?![\w.-])", re.ASCII)
_LAPTOP = re.compile(r"\blaptop\b|笔记本")
_IN_A_NODE = 8
"""The most GPUs that count for one node where a text leaves that open; also those of a DGX or an HGX board."""


_NEXT_TO = re.compile(
    r"[\s,]*(?:(?:gpus?|cards?)[\s,]*)?(?:\+|&|and|plus|with|和|加|与)\s*(?:(?:an?\b|one\b)\s*)?", re.ASCII
)
"""Between GPUs of several kinds."""


def machines(text: str, found: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """Take GPUs, nodes and memory out of a text into settings by path.

    Return what is left of it, and the GPUs where they are of several kinds: all count as the one with least memory.
    """
    if part := _MIG.search(text):
        found[Hardware.mig] = part[1]
        text = without(text, part)
        found.update(
            (Hardware.accelerator, each) for each, slices in reversed(tuple(SLICES.items())) if part[1] in slices
        )
    nodes = _NODES.search(text)
    rest = without(text, nodes) if nodes else text
    gpu = next((each for each in _GPU.finditer(rest) if _card(each[3])), None)
    number, system, at = "", False, len(text)
    kinds: tuple[str, ...] = ()
    if gpu is not None:
        found[Hardware.accelerator] = _card(gpu[3])
        if _LAPTOP.search(text) and (mobile := _card(" ".join((_without_size(gpu[3]), "laptop")))):
            found[Hardware.accelerator] = mobile
        elif size := _unusual_size(gpu[3]):
            found[Hardware.gpu_memory_gb] = size
        number, system, at = _number(gpu), gpu[2] is not None, gpu.start()
        rest, others = _other_kinds(without(rest, gpu), gpu.end())
        if others:
            number = str(int(number or 1) + sum(int(_number(each) or 1) for each in others))
            kinds = (found[Hardware.accelerator], *(_card(each[3]) for each in others))
            found[Hardware.accelerator] = min(kinds, key=_least)
    unnamed = None if number else _UNNAMED.search(rest)
    if unnamed is not None:
        number, at = unnamed[1] or unnamed[2], min(at, unnamed.start())
        rest = without(rest, unnamed)
    each = _EACH.search(rest) if nodes else None
    rest = without(rest, each) if each else rest
    if nodes is not None:
        _on_nodes(found, int(nodes[1] or nodes[2]), int(number or 0), each=each is not None or nodes.start() < at)
    elif system:
        _on_nodes(found, int(number or 1), _IN_A_NODE, each=True)
    elif number:
        found[Hardware.num_gpus] = number
    return _sized(rest, found), kinds


def _number(gpu: re.Match[str]) -> str:
    """Return how many of a GPU a text names; empty where it does not say."""
    return gpu[1] or gpu[4] or gpu[5] or ""


def _least(card: str) -> float:
    """Return the memory of the smallest board that a name may mean."""
    return min(BY_ID[each].nominal_gb for each in meanings(Hardware.accelerator, card))


def _other_kinds(rest: str, end: int) -> tuple[str, list[re.Match[str]]]:
    """Return GPUs of other kinds that stand next to the first, and the text without them."""
    others: list[re.Match[str]] = []
    while (beside := next((each for each in _GPU.finditer(rest, end) if _card(each[3])), None)) is not None:
        if not _NEXT_TO.fullmatch(rest[end : beside.start()]):
            break
        rest, end = without(rest, beside), beside.end()
        others.append(beside)
    return rest, others


_WITH_SIZE = re.compile(r"(.{1,60}?)[\s-]{0,4}(\d{1,3})\s{0,4}gb?", re.ASCII)


def _card(name: str) -> str:
    """Return a name of an accelerator as it is known, also of several (`H100s`); empty for another word.

    Of one that is not sold with the memory in its name, the name without it.
    """
    ways = (name.strip(), name.strip().removesuffix("s"), _without_size(name))
    return next((each for each in ways if meanings(Hardware.accelerator, each)), "")


def _without_size(name: str) -> str:
    sized = _WITH_SIZE.fullmatch(name.strip())
    return sized[1] if sized else name.strip()


def _unusual_size(name: str) -> str:
    """Return the memory in a card's name that it is not sold with; empty where there is none."""
    sized = _WITH_SIZE.fullmatch(name.strip())
    return sized[2] if sized and _card(name) == sized[1] else ""


def _on_nodes(found: dict[str, str], nodes: int, number: int, *, each: bool) -> None:
    """Set the GPUs of some nodes from a number that is said of each, or of all of them."""
    apiece = number or _IN_A_NODE
    if number > _IN_A_NODE or not each:
        apiece = max(apiece // nodes, 1)
    found[Hardware.num_gpus] = str(nodes * apiece)
    if nodes > 1:
        found[Hardware.gpus_per_node] = str(apiece)


def _sized(rest: str, found: dict[str, str]) -> str:
    """Take the memory of a GPU out of a text: it tells cards of one name apart, or stands for an unnamed card."""
    name = found.get(Hardware.accelerator) or ("mac" if _MAC.search(rest) else None)
    for size in _SIZE.finditer(rest):
        sized = f"{name} {size[1]}gb"
        if name is not None and meanings(Hardware.accelerator, sized):
            found[Hardware.accelerator] = sized
        elif size[2]:
            continue
        else:
            found[Hardware.gpu_memory_gb] = size[1]
        return without(rest, size)
    return rest


def without(text: str, match: re.Match[str]) -> str:
    """Return a text with a match blanked, as long as it was; words on its two sides are no neighbours."""
    return f"{text[: match.start()]}{' , '.ljust(len(match[0]))[: len(match[0])]}{text[match.end() :]}"
