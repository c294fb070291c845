"""Files of other tools as one config, for programs that import memcore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType

from memcore.config.settings import Config
from memcore.tools.accounts import ignoring
from memcore.tools.sources import read_sources, source_of


def load(
    *files: str | PathLike[str],
    gpus: int | None = None,
    ignore: Iterable[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Read files of trainers and servers that describe one job together: a recipe with its DeepSpeed file, a script.

    Args:
        files: Paths. `train.sh#2` is the second of the jobs in a script. Of files that disagree the later one holds.
        gpus: GPUs of the job, where the files leave them to a launcher; `--gpus` on the command line.
        ignore: Keys to leave out, with those below them, as if the files had none; `--ignore` on the command line.
        variables: What scripts find in their environment, by name; `--set` on the command line.

    Returns:
        A `Config`. Its `notes` say what was assumed, ignored or read otherwise.

    Raises:
        ConfigError: If a file is missing, matches no supported tool, or has keys and values that cannot be read.
        UnsupportedError: If a key changes the job in a way that is not supported yet; it names the key.

    Sources: each tool's keys and defaults are harvested from its releases ([reference](reference.md)).

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> recipe = Path(tempfile.mkdtemp(), "qlora.yaml")
        >>> _ = recipe.write_text('{"base_model": "gpt2", "adapter": "lora", "lora_r": 16, "x": 1}')
        >>> load(recipe, ignore=["x"])["training.adapter.rank"]
        16
    """
    with ignoring(ignore):
        config, notes = read_sources([source_of(str(each)) for each in files], gpus, variables=variables)
    read = Config.from_dict(config)
    return replace(read, notes=(*notes, *read.notes))
