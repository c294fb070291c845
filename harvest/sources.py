"""Files of a release: a wheel, an sdist, a folder, or a git repository at a tag."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

Files = dict[str, str]


def files_of(source: str, patterns: tuple[str, ...]) -> Files:
    """Texts of a release's files by path, for paths that end as one of the patterns says.

    `source` is the path of a wheel, an sdist or a folder, or `PATH@REVISION` of a git repository.
    """
    path, _, revision = source.partition("@")
    names = list(_names(path, revision))
    wanted = sorted({name for name in names for each in patterns if fnmatch(name, each) or fnmatch(name, f"*/{each}")})
    return dict(zip(wanted, _texts(path, revision, tuple(wanted)), strict=True))


@lru_cache(maxsize=8)
def _names(path: str, revision: str) -> tuple[str, ...]:
    if revision:
        return tuple(_git(path, "ls-tree", "-r", "--name-only", revision).splitlines())
    if path.endswith((".whl", ".zip")):
        with zipfile.ZipFile(path) as archive:
            return tuple(archive.namelist())
    if path.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            return tuple(member.name for member in archive.getmembers() if member.isfile())
    return tuple(str(each.relative_to(path)) for each in Path(path).rglob("*") if each.is_file())


def _texts(path: str, revision: str, names: tuple[str, ...]) -> Iterator[str]:
    if revision:
        yield from (_git(path, "show", f"{revision}:{name}") for name in names)
    elif path.endswith((".whl", ".zip")):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name).decode(errors="replace") for name in names)
    elif path.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for name in names:
                member = archive.extractfile(name)
                yield "" if member is None else member.read().decode(errors="replace")
    else:
        yield from ((Path(path) / name).read_text(errors="replace") for name in names)


def _git(path: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", path, *arguments], capture_output=True, check=True)
    return done.stdout.decode(errors="replace")
