"""Texts of settings that trainers and servers own: their modules have the Chinese behind the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from memcore import registry


@lru_cache(maxsize=1)
def helps() -> Mapping[str, str]:
    """Return what each of these settings is, by its path."""
    return {path: texts[0] for path, texts in registry.merged("settings", "IN_CHINESE").items()}


@lru_cache(maxsize=1)
def words() -> Mapping[str, str]:
    """Their labels, what a missing one means and what their values mean, by the English texts."""
    return dict(_words())


def _words() -> Iterator[tuple[str, str]]:
    for setting, (_, *chinese) in registry.merged("settings", "IN_CHINESE").items():
        english = (setting.label, setting.default, *getattr(setting.kind, "meanings", {}).values())
        yield from ((ours, theirs) for ours, theirs in zip(english, chinese, strict=False) if theirs)
