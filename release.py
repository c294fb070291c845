"""What the page ships beside memcore: whose it is and under which licence, as a text and as a list for programs (SBOM).

Names and hashes come from the locks in vendor/, licences from the packages themselves; texts that those lack are in
vendor/licences/.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

LINKED = {
    "bzip2": "bzip2-1.0.6",
    "Emscripten": "MIT OR NCSA",
    "Expat": "MIT",
    "HACL*": "MIT",
    "hiwire": "MPL-2.0",
    "libffi": "MIT",
    "liblzma": "LicenseRef-public-domain",
    "libmpdec": "BSD-2-Clause",
    "LLVM runtimes": "Apache-2.0 WITH LLVM-exception",
    "musl": "MIT",
    "SQLite": "blessing",
    "stackframe": "MIT",
    "zlib": "Zlib",
    "zstandard": "BSD-3-Clause",
}
"""What is linked into Pyodide's own files, and its licence; Pyodide does not say in which versions."""
DOCUMENTED = {
    "clipboard": "MIT",
    "escape-html": "MIT",
    "focus-visible": "W3C",
    "lunr": "MIT",
    "rxjs": "Apache-2.0",
    "tslib": "0BSD",
}
"""What the documentation's theme bundles; its source maps name them, without versions. Texts: vendor/licences/docs/."""
ICONS = {"fontawesome": "CC-BY-4.0", "material": "Apache-2.0", "octicons": "MIT"}
"""Sets of icons that its pages show, by the theme's folders."""
WITHOUT_TEXT = {"codedent": "plain-tag", "to-json-callback": "plain-tag"}
"""Packages that name a licence without its text, and one by the same author that has it."""
CLASSIFIED = {"License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0"}
"""Expressions by what older wheels have instead."""
_LICENCE = re.compile(r"(?i)(?:licen[cs]e|notice|copying)[\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Something that is shipped."""

    name: str
    licence: str
    """By its SPDX expression."""
    version: str = ""
    """Empty where what it is part of does not say."""
    url: str = ""
    """A package URL."""
    source: str = ""
    """Where its source code is."""
    hashes: dict[str, str] = field(default_factory=dict)
    """By algorithm, in hexadecimal."""
    texts: tuple[str, ...] = ()
    """Of its licences."""
    parts: tuple[Component, ...] = ()
    """What it contains of others."""


def components(vendor: Path, wheels: Sequence[Path], packages: Path) -> list[Component]:
    """List what is shipped next to memcore's own wheel: PyScript, Pyodide, Python, wheels, the documentation's theme.

    `packages` is where the theme is installed.
    """
    modules = vendor / "node_modules"
    locked: dict[str, Any] = json.loads((vendor / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    found = [_of_wheel(path) for path in sorted(wheels)]
    # Pyodide's package has no text of its licence; that of micropip, which is Pyodide's too, is the same.
    mozilla = next(each.texts for each in found if each.name == "micropip")
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted((vendor / "licences").glob("*.txt"))}
    about = json.loads((modules / "pyodide" / "pyodide-lock.json").read_text(encoding="utf-8"))["info"]
    python = Component(
        name="python",
        version=about["python"],
        licence="Python-2.0",
        url=f"pkg:generic/python@{about['python']}",
        source="https://github.com/python/cpython",
        texts=(texts.pop("python"),),
    )
    linked = tuple(Component(name=name, licence=licence) for name, licence in LINKED.items())
    pyodide = _of_npm(locked, modules, "pyodide", (*mozilla, *texts.values()), linked)
    bundled = tuple(_bundled(modules, name) for name in _names_in_bundle(modules))
    pyscript = _of_npm(locked, modules, "@pyscript/core", _texts(modules, "@pyscript/core"), bundled)
    shim = _of_npm(locked, modules, "iframe-worker", _texts(modules, "iframe-worker"), ())
    return [pyscript, pyodide, python, *found, shim, _theme(vendor, packages)]


def _theme(vendor: Path, packages: Path) -> Component:
    """The theme of the documentation with what it bundles."""
    folder = next(packages.glob("mkdocs_material-*.dist-info"))
    texts, drawn = vendor / "licences" / "docs", packages / "material" / "templates" / ".icons"
    bundled = [
        Component(name=name, licence=licence, texts=((texts / f"{name}.txt").read_text("utf-8"),))
        for name, licence in DOCUMENTED.items()
    ]
    icons = [
        Component(name=f"{name} icons", licence=licence, texts=_texts(drawn, name)) for name, licence in ICONS.items()
    ]
    version = folder.name.removesuffix(".dist-info").partition("-")[2]
    return Component(
        name="mkdocs-material",
        version=version,
        licence="MIT",
        url=f"pkg:pypi/mkdocs-material@{version}",
        source="https://github.com/squidfunk/mkdocs-material",
        texts=tuple(path.read_text("utf-8") for path in sorted((folder / "licenses").iterdir())),
        parts=(*bundled, *icons),
    )


def _of_npm(
    packages: dict[str, Any], modules: Path, name: str, texts: tuple[str, ...], parts: tuple[Component, ...]
) -> Component:
    locked, about = packages[f"node_modules/{name}"], _about(modules, name)
    algorithm, _, digest = locked["integrity"].partition("-")
    return Component(
        name=name,
        version=locked["version"],
        licence=_expression(locked["license"]),
        url=f"pkg:npm/{name.replace('@', '%40')}@{locked['version']}",
        source=_repository(about),
        hashes={algorithm.upper().replace("SHA", "SHA-"): base64.b64decode(digest).hex()},
        texts=texts,
        parts=parts,
    )


def _bundled(modules: Path, name: str) -> Component:
    about = _about(modules, name)
    url = f"pkg:npm/{name.replace('@', '%40')}"
    licence = _expression(about["license"])
    return Component(name=name, licence=licence, url=url, source=_repository(about), texts=_texts(modules, name))


def _names_in_bundle(modules: Path) -> list[str]:
    """The packages in PyScript's core, by its source map."""
    maps = (modules / "@pyscript" / "core" / "dist").glob("core-*.js.map")
    sources = [each for path in maps for each in json.loads(path.read_text(encoding="utf-8"))["sources"]]
    paths = [each.rpartition("node_modules/")[2].split("/") for each in sources if "node_modules/" in each]
    return sorted({"/".join(path[: 2 if path[0].startswith("@") else 1]) for path in paths})


def _about(modules: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
    return found


def _repository(about: dict[str, Any]) -> str:
    given = about.get("repository", "")
    address: str = given.get("url", "") if isinstance(given, dict) else given
    return address.removeprefix("git+").removesuffix(".git")


def _texts(modules: Path, name: str) -> tuple[str, ...]:
    folder = modules / WITHOUT_TEXT.get(name, name)
    found = [path for path in sorted(folder.iterdir()) if _LICENCE.fullmatch(path.name)]
    return tuple(path.read_text(encoding="utf-8") for path in found)


def _of_wheel(path: Path) -> Component:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        about = HeaderParser().parsestr(archive.read(metadata).decode())
        folder = f"{metadata.partition('/')[0]}/licenses/"
        texts = tuple(archive.read(name).decode() for name in sorted(names) if name.startswith(folder))
    links = dict(each.split(", ", 1) for each in about.get_all("Project-URL", []))
    return Component(
        name=about["Name"],
        version=about["Version"],
        licence=about["License-Expression"] or _classified(about.get_all("Classifier", [])),
        url=f"pkg:pypi/{about['Name']}@{about['Version']}",
        source=links.get("Source") or links.get("Homepage") or "",
        hashes={"SHA-256": hashlib.sha256(path.read_bytes()).hexdigest()},
        texts=texts,
    )


def _classified(classifiers: Sequence[str]) -> str:
    return " AND ".join(CLASSIFIED[each] for each in classifiers if each.startswith("License ::"))


def _expression(licence: str) -> str:
    return licence.replace("APACHE", "Apache")


def everything(found: Sequence[Component]) -> Iterator[Component]:
    """Components with what they contain."""
    for each in found:
        yield each
        yield from everything(each.parts)


def notices(own: str, found: Sequence[Component]) -> str:
    """The licences of memcore and of all that is shipped beside it; each text once."""
    by_text: dict[str, list[Component]] = {}
    for each in everything(found):
        for text in each.texts:
            by_text.setdefault(text.strip(), []).append(each)
    line = "=" * 120
    blocks = [f"memcore is under the MIT licence:\n\n{own.strip()}", "This page also ships:\n\n" + _list(found)]
    for text, users in by_text.items():
        blocks.append(f"{', '.join(dict.fromkeys(each.name for each in users))}\n{line}\n\n{text}")
    return f"\n\n{line}\n".join(blocks) + "\n"


def _list(found: Sequence[Component], indent: str = "") -> str:
    rows = []
    for each in found:
        source = f"; source: {each.source}" if each.source else ""
        rows.append(f"{indent}{each.name} {each.version}".rstrip() + f": {each.licence}{source}")
        rows += [_list(each.parts, indent + "  ")] if each.parts else []
    return "\n".join(rows)


def sbom(version: str, wheel: Path, found: Sequence[Component]) -> dict[str, Any]:
    """A bill of materials in CycloneDX's format; without dates, so that two builds are identical."""
    own = Component(
        name="memcore",
        version=version,
        licence="MIT",
        hashes={"SHA-256": hashlib.sha256(wheel.read_bytes()).hexdigest()},
    )
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_row(own), "type": "application"}},
        "components": [_row(each) for each in found],
        "dependencies": [{"ref": _ref(own), "dependsOn": [_ref(each) for each in found]}],
    }


def _ref(each: Component) -> str:
    return each.url or "@".join(filter(None, (each.name, each.version)))


def _row(each: Component) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "library", "bom-ref": _ref(each), "name": each.name}
    if each.version:
        row["version"] = each.version
    if each.hashes:
        row["hashes"] = [{"alg": name, "content": digest} for name, digest in each.hashes.items()]
    row["licenses"] = [{"expression": each.licence}]
    if each.url:
        row["purl"] = each.url
    if each.source:
        row["externalReferences"] = [{"type": "vcs", "url": each.source}]
    if each.parts:
        row["components"] = [_row(part) for part in each.parts]
    return row


def pack(dist: Path, target: Path) -> list[Path]:
    """Return what a release publishes.

    The wheel, the page for any static server, the parts list and the hashes of all.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    wheel = next(dist.glob("wheels/*/memcore-*.whl"))
    for path in (wheel, dist / "sbom.json", dist / "licences.txt"):
        shutil.copyfile(path, target / path.name)
    _archive(dist, target / f"memcore-offline-{wheel.name.split('-')[1]}.zip")
    files = sorted(target.iterdir())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (target / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return [*files, target / "SHA256SUMS"]


def _archive(folder: Path, target: Path) -> None:
    """A folder as a ZIP file that depends on nothing but its files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), (2020, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
