"""Commands on the catalog of models."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memcore.columns import columns
from memcore.faces.cli.command import EXAMPLE, FITS, Command, nothing_matches, print_json, save
from memcore.faces.cli.describing import parsed
from memcore.faces.cli.fetching import add_fetch, asked, needs_fetch
from memcore.faces.render.model import model_data, model_text
from memcore.formats.content import HEADERS, content, described
from memcore.i18n.page import say, translated
from memcore.messages import Message
from memcore.networks.catalog import MATCHES, catalog, find_model, nickname, search
from memcore.networks.read import known_families
from memcore.serving.published import as_published
from memcore.units import format_parameters

if TYPE_CHECKING:
    from memcore.tools.sources import Source

_WIDEST = 45
"""Characters of the first column, so that all fit into 80; a longer name moves its own row only."""


def _model_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    parser.set_defaults(**{EXAMPLE: parser.prog + " qwen3-8b"})
    parser.add_argument("model", metavar="ID|FILE", help="a catalog id, a hub id, a config.json, a checkpoint, or -")
    add_fetch(parser, whole=True)
    parser.add_argument("--save", metavar="FILE", help="with --fetch: write the config.json, to use it offline")


_LISTS = frozenset({"gguf", "weight_map"})
"""Keys of files that list tensors: a saved header, an index."""


def _said_by(options: argparse.Namespace) -> str | Mapping[str, object]:
    """Return a model's name or the content of its config.json; for a checkpoint, the model whose tensors it holds."""
    source: str = options.model
    needs_fetch(options)
    if options.fetch:
        found = asked(source, options.revision)
        if options.save is not None:
            save(options.save, f"{found.text}\n")
        return _read(found.sources, found.notes)
    if source == "-" or described(source).endswith(".json"):
        said = parsed(source)
        return _read([_source(source, json.dumps(said))]) if _LISTS & said.keys() else said
    return _read([_source(source, content(source))]) if source.endswith(tuple(HEADERS)) else source


def _source(name: str, text: str) -> Source:
    from memcore.tools.sources import Source  # noqa: PLC0415 - only files need readers

    return Source(name, text)


def _read(sources: Sequence[Source], notes: Sequence[str] = ()) -> str | Mapping[str, object]:
    """Return the model of files; notes on them go to standard error."""
    from memcore.tools.sources import read_sources  # noqa: PLC0415 - only files need readers

    config, further = read_sources(sources)
    for note in (*notes, *further):
        print(say("cli-note", said=translated(note)), file=sys.stderr)
    found = config["model"]
    return found if isinstance(found, Mapping) else str(found)


def _model(options: argparse.Namespace) -> int:
    said = _said_by(options)
    found, published = find_model(said), as_published(said)
    if options.json:
        print_json(model_data(found, published))
    else:
        print(model_text(found, published), end="")
    return FITS


def _models_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    parser.add_argument("query", nargs="*", metavar="QUERY", help=Message("words that must all match: {}", MATCHES))
    parser.add_argument("--licence", metavar="NAME", help="only models known to have this licence, such as apache-2.0")
    parser.add_argument("--families", action="store_true", help="list the supported families")


def _models(options: argparse.Namespace) -> int:
    if options.families:
        families = known_families()
        if options.json:
            print_json(families)
        else:
            print("\n".join(families))
        return FITS
    words = [*options.query, *([f"licence:{options.licence.strip().replace(' ', '-')}"] if options.licence else [])]
    rows = [
        {
            "id": nickname(hub_id),
            "hub_id": hub_id,
            "family": entry["config"]["model_type"],
            "parameters": entry["parameters"],
            "licence": entry.get("licence"),
        }
        for hub_id, entry in search(" ".join(words)).items()
    ]
    if not rows:
        raise nothing_matches(words, map(nickname, catalog()), "models")
    if options.json:
        print_json(rows)
    else:
        name, count = say("cli-model-column"), say("cli-parameters")
        space, before = " " * (_WIDEST - columns(name)), " " * (10 - columns(count))
        print(f"{name}{space}  {before}{count}  {say('cli-family')}")
        for row in rows:
            print(f"{row['hub_id']:<{_WIDEST}}  {format_parameters(row['parameters']):>10}  {row['family']}")
        unknown = sum("licence" not in entry for entry in catalog().values()) if options.licence else 0
        if unknown:
            print(say("cli-licences", count=unknown))
    return FITS


COMMANDS: Mapping[str, Command] = {
    "model": Command(_model_options, _model),
    "models": Command(_models_options, _models),
}
