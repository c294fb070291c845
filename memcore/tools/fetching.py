"""What a repository of the hub says of its model: the texts that describe it, as if they were files on disk.

Of weights only the header is asked for. Everything is read by the readers of files, so that the answer is that of the
same files passed by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from memcore.config.settings import Config
from memcore.errors import ConfigError
from memcore.formats.content import header_of
from memcore.formats.gguf import LONGEST
from memcore.formats.readers import parsed
from memcore.messages import Message, joined
from memcore.networks.catalog import known
from memcore.tools.hub import Hub, hub_of
from memcore.tools.quantization_files import quantization_in, with_quantization
from memcore.tools.repositories import (
    ADAPTER,
    CONFIG,
    ENDPOINT,
    HOSTS,
    Place,
    file_address,
    is_config,
    is_weights,
    listed,
    listing_address,
    place_of,
    wanted,
)
from memcore.tools.sources import Source, read_sources


class Fetched(NamedTuple):
    """What a repository says."""

    sources: tuple[Source, ...]
    notes: tuple[Message, ...]
    """Which files of which revision came from where."""

    @property
    def text(self) -> str:
        """Return the text that describes the model, to save: a config.json, the header of a GGUF file, an adapter."""
        files = {each.name.rpartition("/")[2]: each.text for each in self.sources}
        return files.get(CONFIG) or next(iter(files.values()))


def fetched(name: str, token: str | None = None, revision: str | None = None) -> Fetched:
    """Ask the hub for the files that describe a model.

    Raises ConfigError for what is no repository, for files that the hub does not give, and where it is not reached.
    """
    hub = hub_of(os.environ, token)
    place = place_of(name, (urlsplit(hub.endpoint).netloc, *HOSTS))
    first = _repository(hub, place._replace(revision=revision or place.revision))
    base = _base(first.sources)
    if base is None or known(base):
        return first
    try:
        below = _repository(hub, place_of(base), only=is_config)
    except ConfigError as error:
        if not first.sources[0].name.endswith(".gguf"):
            raise
        return first._replace(notes=(*first.notes, Message("{}: {}", base, str(error))))
    return Fetched((*first.sources, *below.sources), (*first.notes, *below.notes))


def _repository(hub: Hub, place: Place, only: Callable[[str], bool] = bool) -> Fetched:
    """Return what a repository says, or those of its files that `only` accepts."""
    listing = parsed(hub.text(listing_address(hub.endpoint, place), place.id), place.id)
    names, commit = listed(listing, place)
    exact = place._replace(revision=commit)
    files = [each for each in wanted(place, names) if only(each)]
    texts = {each: _text(hub, exact, each) for each in files}
    split = [each for each in files if each.endswith(".gguf")]
    if len(split) > 1:
        texts = {split[0]: _together([texts.pop(each) for each in split]), **texts}
    said = Message(
        "fetched {} of {} from {}, commit {}", joined(", ", files), place.id, hub.host, exact.revision[:12] or "?"
    )
    return Fetched(tuple(Source(f"{place.id}/{each}", text) for each, text in _named(place.id, texts)), (said,))


def _text(hub: Hub, place: Place, name: str) -> str:
    """Return the text of a file, or the header of weights."""
    address, called = file_address(hub.endpoint, place, name), f"{place.id}/{name}"
    if is_weights(name):
        with hub.opened(address, called, LONGEST) as file:
            return header_of(called, file)
    return hub.text(address, called)


def _named(repository: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the texts; a config.json also names its repository and has the quantization of a file next to it."""
    said = next((found for text in texts.values() if (found := quantization_in(text)) is not None), None)
    for name, text in texts.items():
        if name == CONFIG:
            whole = (with_quantization(text, said) if said else None) or text
            yield name, json.dumps({**parsed(whole, f"{repository}/{name}"), "_name_or_path": repository}, indent=2)
        elif said is None or quantization_in(text) is None:
            yield name, text


def _together(headers: Sequence[str]) -> str:
    """Return the header of a GGUF file that was split: keys of the first part, tensors of all."""
    parts: list[dict[str, Any]] = [json.loads(each)["gguf"] for each in headers]
    tensors: dict[str, dict[str, str]] = {}
    for part in parts:
        for kind, shapes in part["tensors"].items():
            tensors.setdefault(kind, {}).update(shapes)
    return json.dumps({"gguf": {**parts[0], "tensors": tensors}})


def _base(sources: Sequence[Source]) -> str | None:
    """Return the repository that an adapter or a GGUF file names as its model's, unless a config.json describes it."""
    first, *others = sources
    if others or not first.name.endswith((ADAPTER, ".gguf")):
        return None
    found = parsed(first.text, first.name)
    named = found.get("gguf", found).get(_BASES[ADAPTER in first.name])
    return named.removeprefix(f"{ENDPOINT}/") if isinstance(named, str) else None


_BASES = ("general.base_model.0.repo_url", "base_model_name_or_path")
"""Keys that name the model: of a GGUF file, of an adapter."""


def fetch(name: str, *, token: str | None = None, revision: str | None = None) -> Config:
    """Ask the model hub which model a repository has, and return it as a config. Only this asks a network for anything.

    Args:
        name: An id such as `Qwen/Qwen3-8B`, an address of the hub, or `ID:Q4_K_M` for one of its GGUF files.
        token: For gated repositories; by default that of `HF_TOKEN`, or of the hub's own file.
        revision: A branch, a tag or a commit; by default that of the address, or `main`.

    Returns:
        A `Config` with the content of config.json as its model; for adapters and GGUF files also their settings. Its
        `notes` say which files came from where, and what they list.

    Raises:
        ConfigError: If the hub has no such repository or does not give it, cannot be reached, or has other files.

    Sources: `HF_ENDPOINT` names another hub; huggingface_hub, constants.py.

    Examples:
        >>> found = fetch("Qwen/Qwen3-8B")  # doctest: +SKIP
        >>> memcore.estimate(found.replaced("engine.type", "vllm"))  # doctest: +SKIP
    """
    found = fetched(name, token, revision)
    config, notes = read_sources(found.sources)
    read = Config.from_dict(config)
    return replace(read, notes=(*found.notes, *notes, *read.notes))
