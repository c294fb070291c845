"""Promises of the project itself: documents that are true, imports that point one way, files of a readable size."""

import ast
import json
import re
import shlex
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import memcore
from memcore import registry
from memcore.config.settings import SETTINGS
from memcore.faces.cli import main
from memcore.rules.table import RULES
from memcore.serving.changes import Becomes
from memcore.serving.job import server_of

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "memcore").rglob("*.py"))
KINDS = {".py", ".md", ".toml", ".txt", ".in", ".json", ".mjs", ".js", ".css", ".html", ".yml", ".svg", ""}


def texts():
    """Every text file of the project."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [path for name in names if (path := ROOT / name).suffix in KINDS and path.is_file()]


FLOORS = (
    {"version", "messages", "dtypes", "columns", "escaping", "registry", "records"},
    {"errors", "limits", "patterns", "rules", "symbols"},
    {"units", "untrusted", "i18n", "tensors", "optimizers"},
    {"hardware", "networks"},
    {"config"},
    {"trace", "formats"},
    {"memory", "layers", "tools"},
    {"serving", "trainers"},
    {"servers", "estimation"},
    {"questions"},
    {"faces"},
    {"__main__"},
)
"""Folders of memcore, and modules beside them, from the ground up; each imports only what is below it."""
FLOOR = {name: number for number, floor in enumerate(FLOORS) for name in floor}


@cache
def nodes(path):
    """The nodes of a file's syntax; it is parsed once for all tests."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module", autouse=True)
def _parsed():
    """What was parsed goes after the last test."""
    yield
    nodes.cache_clear()


@cache
def imports(path):
    """What a module imports, with the names: when it is loaded, inside of functions, by a call, and for its types alone."""
    return tuple(_imports(path))


def _imports(path):
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module != "memcore":
                yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.Call) and called(node).endswith("import_module"):
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def called(call):
    """The last name of what is called; empty if that is no name."""
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


@cache
def name_of(path):
    """A file as a module below memcore."""
    return ".".join(path.relative_to(ROOT / "memcore").with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(each) for each in SOURCES}


def test_imports_point_downwards():
    """No folder imports from a floor above its own, nor from another on its floor, nor what the package hands on."""
    inside = [path for path in SOURCES if path.parent != ROOT / "memcore" or path.stem != "__init__"]
    assert [name_of(path) for path in inside if "memcore" in imports(path)] == []
    above = {(name_of(path), target) for path in inside for target in imports(path) if points_up(name_of(path), target)}
    assert above == set()


def points_up(name, imported):
    """Whether a module imports another from a floor above its own, or from another folder on its floor."""
    target = imported.removeprefix("memcore.")
    here, room = (each.partition(".")[0] for each in (name, target))
    return imported.startswith("memcore.") and target in MODULES and room != here and FLOOR[room] >= FLOOR[here]


@cache
def imported():
    """What each module imports, modules and folders alone, but for the package's own names."""
    modules = {
        f"memcore.{name_of(path)}": path
        for path in SOURCES
        if path.parent != ROOT / "memcore" or path.stem != "__init__"
    }
    return {name: set(imports(path)) & modules.keys() - {name} for name, path in modules.items()}


def test_no_circle_of_imports():
    """No two modules need each other, not even for their types; a circle is named by the error."""
    graph = imported()
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph) > 500


def folders():
    """Of each folder what its files and folders import of each other: a folder within it stands for all below it."""
    found = {}
    for name, targets in imported().items():
        for target in targets:
            here, there = name.split("."), target.split(".")
            depth = next((at for at, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), None)
            if depth is not None:
                found.setdefault(".".join(here[:depth]), {}).setdefault(here[depth], set()).add(there[depth])
    return found


def test_no_circle_of_folders():
    """Folders do not need each other either, on any level; a circle is named by the error."""
    found = folders()
    assert len(found) > 5
    for rooms in found.values():
        assert set(TopologicalSorter(rooms).static_order()) >= rooms.keys()


def test_few_floors():
    """Twelve of them, which the page about the architecture draws as they are."""
    assert len(FLOORS) == 12
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^ *(\d+)  (.+)$", page, re.MULTILINE)
    assert {int(number): set(rooms.split()) for number, rooms in drawn} == dict(enumerate(FLOORS, 1))


def test_engines_are_asked_through_the_registry():
    """Only trainers and servers import engine modules."""
    owned = ("memcore.trainers.", "memcore.servers.")
    assert any(name.startswith(owned) for name in imported())
    found = {
        name.removeprefix("memcore.")
        for name, each in imported().items()
        if not name.startswith(owned) and any(target.startswith(owned) for target in each)
    }
    assert found == set()


def test_an_operation_is_defined_once():
    """No operation of PyTorch has two behaviours; kernels of Liger and Unsloth may be called like what they replace."""
    defined = {}
    for path in {*(ROOT / "memcore" / "tensors").glob("*.py")} - {
        ROOT / "memcore" / "tensors" / name for name in ("liger.py", "fused_lora.py")
    }:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, []).append(path.stem)
    assert len(defined) > 150
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


def test_every_folder_has_a_floor():
    """A new folder says where it stands, and none that is gone keeps its place."""
    assert {name_of(path).partition(".")[0] for path in SOURCES} - {"", "__init__"} == set(FLOOR)


ENGINES = {*registry.ENGINES, *(home.folder for home in registry.ENGINES.values())} - {
    "none",
    "transformers",
    "pytorch",
    "generate",
}
"""Names of engines that mean nothing else."""
TOLD_APART = re.compile(
    r"servers\.|registry$|tools\.(?:loops|swift_loop|scripts)$|trainers\.(?!pytorch)|trainers\.pytorch\.(?:torchtune|automodel|verl|verl_sft|foundry)$"
)
"""Where engines are told apart: engine modules, and readers of other tools' files, which name them in their own words.

Not in PyTorch's, whose step other libraries build on: `Engine` says what one can do.
"""
CORE = [path for path in SOURCES if not TOLD_APART.match(name_of(path))]


def test_the_core_compares_no_engine_by_name():
    """What an engine does differently is asked of its folder (`memcore.registry`) or of its row (`trace.engine.Engine`)."""
    compared = [(name_of(path), each) for path in CORE for each in nodes(path) if isinstance(each, ast.Compare)]
    words = [
        (name, node.lineno, each.value)
        for name, node in compared
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    assert len(words) > 100
    assert [each for each in words if each[-1] in ENGINES] == []


def test_settings_are_named_by_their_attributes():
    """A misspelled path of a setting is an error of types, which a text is not, and changes nothing in silence."""
    found = [
        (name_of(path), node.value)
        for path in SOURCES
        if name_of(path) not in ("hardware", "i18n.help")  # below the settings; texts by path
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value
        if node.value in SETTINGS
    ]
    # PyTorch's folder is below DeepSpeed's, whose setting one published formula asks for.
    assert found == [("trainers.pytorch.formulas", "engine.offload_optimizer")]
    rows = [row.how for server in registry.SERVERS for row in server_of(server).changes]
    changed = {path for how in rows if isinstance(how, Becomes) for path in (*how.to, *(how.unless or ()))}
    assert changed <= set(SETTINGS), changed - set(SETTINGS)
    assert changed


def test_only_the_standard_library():
    """memcore has no dependencies, and imports nothing that Pyodide's standard library lacks."""
    allowed = sys.stdlib_module_names - {
        "multiprocessing",
        "socket",
        "subprocess",
        "threading",
        "tkinter",
        "sqlite3",
        "ssl",
    }
    found = [(path, imported) for path in SOURCES for imported in imports(path)]
    assert found
    for path, imported in found:
        assert imported.partition(".")[0] in allowed | {"memcore"}, f"{path} imports {imported}"


def test_importing_is_cheap():
    """`import memcore` alone loads none of its modules."""
    code = "import sys, memcore; print([name for name in sys.modules if name.startswith('memcore.')])"
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
    assert set(dir(memcore)) == set(memcore.__all__)
    with pytest.raises(AttributeError):
        memcore.nothing  # noqa: B018


def test_files_and_functions_are_short():
    """A file is as long as its subject, up to 700 lines; no function must be scrolled."""
    files = (*SOURCES, ROOT / "build.py", ROOT / "site" / "main.py")
    lengths = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {path: length for path, length in lengths.items() if length > 700} == {}
    functions = [
        (path.relative_to(ROOT), node.name, node.end_lineno - node.lineno)
        for path in files
        for node in nodes(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert len(functions) > 5000
    assert [each for each in functions if each[-1] >= 60] == []


def test_every_allocation_is_explained():
    """The rules that `new` and `like` name are rows, so that no entry of a ledger lacks a title and a source."""
    place = {"new": 3, "like": 1}
    seen = set()
    calls = (node for path in SOURCES for node in nodes(path))
    for call in calls:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in place:
            rules = call.args[place[call.func.id] :][:1]
            named = [rule.value for rule in rules if isinstance(rule, ast.Constant) and isinstance(rule.value, str)]
            assert set(named) <= set(RULES), named
            seen |= set(named)
    assert seen


def test_the_generated_pages_are_current():
    """reference.md, accuracy.md and the example's pictures are what their generator writes."""
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_readme_is_true(tmp_path, monkeypatch):
    """Its Python runs, its commands run, and the files that it names exist."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = dict(reversed(re.findall(r"```(\w+)\n(.*?)```", readme, re.DOTALL)))
    python = subprocess.run(
        [sys.executable, "-c", blocks["python"]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert python.stdout.startswith("True loss ")
    (tmp_path / "job.json").write_text(json.dumps({"model": "gpt2", "training": {"sequence_length": 512}}))
    (tmp_path / "train.log").write_text("step: 10  memory: 2.50GiB(3.16%)")
    (tmp_path / "train.sh").write_text(
        "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8 --vocab-size 50304 "
        "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --bf16"
    )
    commands = [
        block for kind, block in re.findall(r"```(\w+)\n(.*?)```", readme, re.DOTALL) if "memcore estimate" in block
    ]
    monkeypatch.chdir(tmp_path)
    for line in commands[0].splitlines():
        for command in line.partition("  #")[0].split(";"):
            assert main(shlex.split(command)[1:]) == 0, command
    for target in re.findall(r'\]\(([^)#:]+)\)|(?:src|srcset)="([^"]+)"', readme):
        assert (ROOT / (target[0] or target[1])).exists()


def test_the_changelog_names_this_version():
    """The newest entry is the version of the package."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == memcore.__version__


def test_no_registry_is_named():
    """Where packages come from is a setting of the machine: no file names a registry or a content delivery network."""
    hosts = re.compile("|".join(re.escape(".".join(parts)) for parts in [
        ("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs"), ("npmjs", "com"), ("jsdelivr", "net"), ("unpkg", "com"),
        ("pyscript", "net"),
    ]))  # fmt: skip
    files = texts()
    assert files
    for path in files:
        assert not hosts.search(path.read_text(encoding="utf-8", errors="ignore")), path


def test_the_wheel_is_complete(dist, tmp_path):
    """The published wheel installs without dependencies, its record is right, and its command answers."""
    wheel = next(dist.glob("wheels/*/*.whl"))
    target = tmp_path / "installed"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-compile",
        "--target",
        target,
        wheel,
    ]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    assert (target / "memcore" / "py.typed").exists()
    assert (target / "memcore" / "data" / "catalog.json").exists()
    code = "import memcore; print(memcore.estimate({'model': 'gpt2', 'training': {'sequence_length': 512}}).peak.phase)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "loss\n"
    metadata = next(target.glob("memcore-*.dist-info/METADATA")).read_text(encoding="utf-8")
    assert "License-Expression: MIT" in metadata
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert [line for line in needed if "extra ==" not in line] == []
