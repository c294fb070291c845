"""Repositories of the model hub: how users name them, and which of their files say how much memory a model takes.

Sources: huggingface_hub, file_download.py (`hf_hub_url`) and utils/_validators.py (`validate_repo_id`); llama.cpp,
common/download.cpp (`find_best_model`, `get_gguf_split_info`): which GGUF file `ID:TAG` is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from memcore.errors import ConfigError, nearest
from memcore.formats.content import HEADERS
from memcore.messages import Message, joined
from memcore.networks.catalog import full_name
from memcore.tools.quantization_files import NAMES

ENDPOINT = "https://huggingface.co"
HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
CONFIG, ADAPTER, INDEX, POOLING = "config.json", "adapter_config.json", "model.safetensors.index.json", "modules.json"
_ADDRESS = re.compile(r"https?://(?P<host>[^/\s?#@]{1,200})/")
_WRITTEN = re.compile(
    r"(?P<id>(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95})"
    r"(?:/(?:tree|blob|resolve)/(?P<revision>[^/\s?#:]{1,200})(?:/(?P<file>[^\s?#:]{1,400}))?)?"
    r"(?::(?P<tag>[\w.-]{1,40}))?/?(?:[?#]\S*)?"
)
_SPLIT = re.compile(r"^(.+)-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_NO_MODEL = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")
"""Parts of names of GGUF files that hold no whole model (llama.cpp, `gguf_filename_is_model`)."""
_USUAL = ("Q4_K_M", "Q8_0")
_TAG = re.compile(r"[-.]([A-Z0-9_]+)(?:-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_LISTED = 24
"""Formats of a repository that an error lists."""


class Place(NamedTuple):
    """A repository of the hub, or one of its files, as a user names it."""

    id: str
    revision: str = ""
    """A branch, a tag or a commit; empty if none is given."""
    tag: str = ""
    """The format of a GGUF file, as llama.cpp spells it: `ID:Q4_K_M`."""
    file: str = ""
    """The file of an address; only a GGUF file counts, and any other stands for the repository."""


def place_of(name: str, hosts: Sequence[str] = HOSTS) -> Place:
    """Return the repository that a name, an id or an address stands for.

    >>> place_of("https://huggingface.co/org/m/tree/v2"), place_of("hf.co/org/m-GGUF:Q8_0").tag
    (Place(id='org/m', revision='v2', tag='', file=''), 'Q8_0')

    Raises ConfigError for anything else, and for an address of another host.
    """
    text = name.strip()
    address = _ADDRESS.match(text)
    if address is not None and address["host"].lower() not in hosts:
        said = "found {!r:.80}, which is not an address of {}; other hubs are set with HF_ENDPOINT"
        raise ConfigError.at("model", said, name, hosts[0])
    before = address[0] if address else next((f"{each}/" for each in hosts if text.startswith(f"{each}/")), "")
    found = _WRITTEN.fullmatch(text.removeprefix(before))
    if found is None or ".." in found["id"]:
        raise ConfigError.at("model", "found {!r:.80}; expected an id of the hub such as Qwen/Qwen3-8B", name)
    file = unquote(found["file"] or "")
    return Place(full_name(found["id"]), unquote(found["revision"] or ""), found["tag"] or "", file)


def wanted(place: Place, names: Iterable[str]) -> list[str]:
    """Return the files of a repository that describe its model; of weights only the header is read.

    >>> wanted(Place("org/m"), ["README.md", "config.json", "model.safetensors"])
    ['config.json', 'model.safetensors']
    >>> wanted(Place("org/m-GGUF"), ["m-Q4_K_M.gguf", "m-Q8_0.gguf"])
    ['m-Q4_K_M.gguf']

    Raises ConfigError where there are none.
    """
    every = [*names]
    if place.file.endswith(".gguf"):
        return [*_parts(place.file, every)]
    describing = [each for each in (ADAPTER, CONFIG) if each in every]
    stored = any("/" not in each and each.endswith(_WEIGHTS) for each in every)
    gguf = _gguf(place, every) if place.tag or not stored else ""
    if gguf:
        return [*_parts(gguf, every), *(each for each in describing if each == CONFIG)]
    if not describing:
        said = "{} has no config.json, adapter_config.json or GGUF file that describes a model"
        raise ConfigError.at("model", said, place.id)
    if ADAPTER in describing:
        return describing
    quantized = [each for each in NAMES if each in every][:1]
    whole = [each for each in every if "/" not in each and each.endswith(".safetensors")]
    weights = [INDEX] if INDEX in every else whole if len(whole) == 1 else []
    return [*describing, *quantized, *(each for each in (POOLING,) if each in every), *weights]


def _gguf(place: Place, names: Sequence[str]) -> str:
    """Return the GGUF file that llama.cpp takes; empty without any. Raises ConfigError for a format that is absent."""
    models = [each for each in names if each.lower().endswith(".gguf") and _first(each)]
    models = [each for each in models if not any(word in each.rpartition("/")[2] for word in _NO_MODEL)]
    for tag in (place.tag,) if place.tag else _USUAL:
        pattern = re.compile(rf"{re.escape(tag)}[.-]", re.IGNORECASE)
        chosen = next((each for each in models if pattern.search(each)), "")
        if chosen:
            return chosen
    if not place.tag:
        return models[0] if models else ""
    tags = list(dict.fromkeys(found[1].upper() for each in models if (found := _TAG.search(each))))
    if not tags:
        raise ConfigError.at("model", "{} has no GGUF files", place.id)
    message = Message("{} has no GGUF file for {}; it has {}", place.id, place.tag, joined(", ", tags[:_LISTED]))
    near = nearest(place.tag.upper(), tags)
    raise ConfigError.at("model", message if near is None else Message("{}; did you mean {}?", message, near))


def _first(name: str) -> bool:
    """Return whether a file is whole, or the first of those that it was split into."""
    found = _SPLIT.match(name)
    return found is None or int(found[2]) == 1


def _parts(name: str, names: Sequence[str]) -> Iterator[str]:
    """Yield all files that a GGUF file was split into, or the only one."""
    found = _SPLIT.match(name)
    if found is None:
        yield name
        return
    others = ((each, _SPLIT.match(each)) for each in names)
    yield from (each for each, part in others if part and (part[1], part[3]) == (found[1], found[3]))


def listed(answer: Mapping[str, Any], place: Place) -> tuple[list[str], str]:
    """Return the names of a repository's files, from the hub's listing, and the commit that it lists.

    Raises ConfigError where there are none.
    """
    siblings, commit = answer.get("siblings"), answer.get("sha")
    files = (
        [each.get("rfilename") for each in siblings if isinstance(each, Mapping)] if isinstance(siblings, list) else []
    )
    names = [each for each in files if isinstance(each, str) and each.isprintable()]
    if not names:
        raise ConfigError.at("model", "the hub lists no files of {}", place.id)
    return names, commit if isinstance(commit, str) and commit.isalnum() else place.revision


def is_weights(name: str) -> bool:
    """Return whether only the header of a file is read."""
    return name.endswith(tuple(HEADERS))


def is_config(name: str) -> bool:
    """Return whether a file says what the network is, or how it is quantized."""
    return name in (CONFIG, *NAMES)


def listing_address(endpoint: str, place: Place) -> str:
    """Return where the hub says which files a repository has at a revision."""
    return f"{endpoint}/api/models/{place.id}/revision/{quote(place.revision or 'main', safe='')}"


def file_address(endpoint: str, place: Place, name: str) -> str:
    """Return where a file is, at the revision of the place."""
    return f"{endpoint}/{place.id}/resolve/{quote(place.revision or 'main', safe='')}/{quote(name)}"
