"""NeMo 2's recipes, run with stand-ins for everything they import: `python -m harvest.nemo FOLDER`.

FOLDER holds a checkout of NVIDIA/NeMo. What each recipe sets is written to `memcore/data/nemo.json`: per recipe the
hub's id, then for `pretrain`, `lora` and `none` (full fine-tuning) the keys of a `run.Partial`, and what
`performance_mode` and `packed_sequence` change of them. Keys that most recipes share are under an empty name.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "memcore" / "data" / "nemo.json"
_OWN = "nemo.collections.llm.recipes"
_SILENT = ("lr", "weight_decay", "adam_", "bf16", "fp16", "ckpt_", "gradient_as_bucket_view", "check_for_nan",
           "average_in", "autocast", "params_dtype", "pipeline_dtype", "precision_", "max_steps",
           "limit_", "log_", "val_", "accelerator", "callbacks", "use_distributed_sampler", "alpha", "seq_len_",
           "margin", "amax", "dataset_", "tokenizer", "num_sanity", "find_unused", "progress", "optimizer",
           "data_parallel_sharding_strategy", "rampup", "benchmark", "gradient_clip_val", "enable_checkpointing",
           "clip_grad", "seed", "num_train_samples", "num_val_samples", "num_test_samples",
           "num_workers", "pad_", "paths", "split", "moe_grouped_gemm")  # fmt: skip
"""How the last parts of keys begin that memory does not depend on, or that have the same value in all recipes."""


class Made:
    """What `run.Config` and `run.Partial` make: a class's name and arguments."""

    def __init__(self, cls: Any, *given: Any, **named: Any) -> None:
        self.__dict__ |= {"()": getattr(cls, "__name__", str(cls)), **{str(at): each for at, each in enumerate(given)}}
        self.__dict__ |= named

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Made("")
        self.__dict__[name] = made
        return made


class _Stand(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "PEFT_STR2CLS":
            return {"lora": _named("LoRA"), "dora": _named("DoRA")}
        found = _named(name)
        setattr(self, name, found)
        return found


class _Name(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(name)

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls


def _named(name: str) -> Any:
    return _Name(name, (), {"__init__": lambda self, *given, **named: None, "__call__": lambda self, *_, **__: self})


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        foreign = top in ("nemo", "nemo_run", "torch", "lightning", "megatron", "transformers", "typing_extensions")
        return ModuleSpec(name, self, is_package=True) if foreign and not name.startswith(f"{_OWN}.") else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        made: Any = _Stand(spec.name)
        made.__path__ = []
        if spec.name == "nemo_run":
            plain = lambda *given, **_: given[0] if given and callable(given[0]) else lambda each: each  # noqa: E731
            made.Config = made.Partial = type("Config", (Made,), {"__class_getitem__": classmethod(lambda c, _: c)})
            made.cli = types.SimpleNamespace(factory=plain, entrypoint=plain)
            made.autoconvert = plain
        if spec.name == "torch":
            for name in ("bfloat16", "float16", "float32", "half"):
                setattr(made, name, name)
        module: types.ModuleType = made
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == _OWN:
            module.__path__ = [str(Path(sys.argv[1]) / _OWN.replace(".", "/"))]


def _flat(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, each in value.__dict__.items():
        key = f"{above}.{name}" if above else name
        if isinstance(each, Made):
            yield from _flat(each, key)
        elif _is_plain(each) and not name.startswith(_SILENT):
            yield key, each


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, int | float | str | None)


_TOP = ("trainer.", "data.", "optim.config.", "peft.", "model.config.")
_DROPPED = ("trainer.()", "trainer.strategy.()", "trainer.strategy.ddp.()", "data.()", "optim.config.()",
            "trainer.plugins.()", "trainer.strategy.ddp.0", "data.tokenizer.()")  # fmt: skip


def _keys(make: Callable[..., Any], **given: Any) -> dict[str, Any]:
    taken = inspect.signature(make).parameters
    made = make(**{name: value for name, value in given.items() if name in taken})
    found = dict(_flat(made))
    kept = {name: value for name, value in found.items() if name.startswith(_TOP) and name not in _DROPPED}
    for each in getattr(made.trainer, "callbacks", None) or ():
        if isinstance(each, Made) and each.__dict__.get("()") == "MegatronCommOverlapCallback":
            kept["overlap.tp_comm_overlap"] = each.__dict__.get("tp_comm_overlap", True)
    path = str(found.get("resume.restore_config.path", ""))
    return {**kept, **({"hub": path.removeprefix("nemo://")} if path.startswith("nemo://") else {})}


def _changes(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    gone = dict.fromkeys(name for name in old if name not in new)
    return {**gone, **{name: value for name, value in new.items() if name not in old or old[name] != value}}


def _row(module: Any) -> dict[str, Any]:
    """What the functions of a module make."""
    row: dict[str, Any] = {}
    for name, kind in (("pretrain", "pretrain"), ("finetune", "lora"), ("finetune", "none")):
        make = getattr(module, f"{name}_recipe", None)
        if make is None:
            continue
        given = {"peft_scheme": kind} if name == "finetune" else {}
        scheme = inspect.signature(make).parameters.get("peft_scheme")
        if scheme is not None and scheme.default != "lora":
            row["scheme"] = scheme.default or "none"
        try:
            row |= _variants(make, kind, given)
        except (TypeError, ValueError, AttributeError, KeyError, AssertionError, NotImplementedError) as error:
            print(module.__name__, kind, error, file=sys.stderr)
    return row if row.keys() - {"scheme"} else {}


def _variants(make: Callable[..., Any], kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a function makes, and what each switch changes of it."""
    plain = _keys(make, **given)
    if "model.config.()" not in plain:
        return {}
    hub = plain.pop("hub", None)
    row = {**({"hub": hub} if hub else {}), kind: plain}
    for switch in ("performance_mode", "packed_sequence"):
        with suppress(AssertionError):
            other = _keys(make, **given, **{switch: True})
            other.pop("hub", None)
            changes = _changes(other, plain)
            row |= {f"{kind}+{switch}": changes} if changes else {}
    return row


def harvested() -> dict[str, Any]:
    """The table."""
    paths = sorted((Path(sys.argv[1]) / _OWN.replace(".", "/")).glob("*.py"))
    names = [each.stem for each in paths if each.stem not in ("__init__", "hf_auto_model_for_causal_lm")]
    found = {name: row for name in names if (row := _row(import_module(f"{_OWN}.{name}")))}
    for kind in ("pretrain", "lora", "none"):
        rows = [row[kind] for row in found.values() if kind in row]
        counts = Counter((name, json.dumps(value)) for row in rows for name, value in row.items())
        shared = {name: json.loads(value) for (name, value), count in counts.items() if count * 2 > len(rows)}
        found.setdefault("", {})[kind] = shared
        for name, row in found.items():
            if name and kind in row:
                row[kind] = _changes(row[kind], shared)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.meta_path.insert(0, _Finder())
    rows = (f"{json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in harvested().items())
    TARGET.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
