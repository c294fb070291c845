"""The config in a URL fragment: readable, versioned, and reversible.

`#v1&model=llama-3.1-8b&engine=fsdp&gpus=8&seq=8192`: the settings that are given, by their short names. A model that
is not from the catalog is its config.json, deflated and in base64. Whatever comes from a URL is hostile until checked.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import FLAGS, from_texts, to_texts
from memcore.errors import ConfigError, Problem, nearest
from memcore.limits import LINK_LENGTH

VERSION = "v1"
_SAFE = ":-._~/"


def encode_fragment(config: Config) -> str:
    """The fragment of a config, without the `#`.

    >>> encode_fragment(Config.from_dict({"model": "gpt2", "training": {"sequence_length": 1024}}))
    'v1&model=gpt2&seq=1024'
    """
    texts = to_texts(config)
    return "&".join([VERSION, *(f"{SETTINGS[path].flag}={quote(text, safe=_SAFE)}" for path, text in texts.items())])


def decode_fragment(text: str) -> Config:
    """The config of a fragment, or of a whole URL with one.

    Raises ConfigError naming every part that cannot be understood.
    """
    if len(text) > LINK_LENGTH:
        raise ConfigError([Problem("link", f"longer than {LINK_LENGTH} characters")])
    version, *parts = text.rpartition("#")[2].split("&")
    if version != VERSION:
        raise ConfigError([Problem("link", f"found version {version[:20]!r}; this version reads {VERSION!r}")])
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for name, _, spelled in (part.partition("=") for part in parts if part):
        if name not in FLAGS:
            problems.append(Problem(f"link: {name[:40]}", "unknown key", nearest(name, FLAGS)))
        elif FLAGS[name] in texts:
            problems.append(Problem(f"link: {name}", "given twice"))
        else:
            texts[FLAGS[name]] = unquote(spelled)
    try:
        config = from_texts(texts)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return config
