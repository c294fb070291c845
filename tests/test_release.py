"""What is published: builds that are identical wherever they are made, licences, the parts list, pinned workflows."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parent.parent
SOURCES = (
    "memcore",
    "site",
    "docs",
    "vendor",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "mkdocs.yml",
    "build.py",
    "release.py",
    "pyproject.toml",
    "requirements-dev.txt",
)
"""What a build reads."""
WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / ".github" / "workflows").iterdir())}


def contents(folder):
    """Hashes and permissions of all files below a folder."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: (hashlib.sha256(path.read_bytes()).hexdigest(), oct(path.stat().st_mode)) for name, path in files.items()
    }


def test_builds_are_identical(dist, tmp_path):
    """Whatever the folder, the permissions, the time zone, the language and the hash seed.

    If it fails although nothing depends on those, dist/ is older than its sources: build it again.
    """
    other = tmp_path / "a folder of another length"
    other.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, other / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy(source, other / name)
    for path in other.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (other / ".venv").symlink_to((ROOT / ".venv").resolve(), target_is_directory=True)
    variables = {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "4711", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1"}
    command = [sys.executable, "build.py", "build"]
    done = subprocess.run(
        command, cwd=other, env={**os.environ, **variables}, umask=0o077, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected, found = contents(dist), contents(other / "dist")
    assert expected
    assert {name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)} == set()


def test_nothing_that_is_published_names_the_folder(dist):
    """Neither as it is nor inside of archives and compressed memory."""
    import gzip

    wanted = str(ROOT).encode()
    files = [path for path in dist.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        if path.suffix in {".zip", ".whl"}:
            with zipfile.ZipFile(path) as archive:
                content = b"".join(map(archive.read, archive.namelist()))
        elif path.suffix == ".bin":
            content = gzip.decompress(content)
        assert wanted not in content, path
    assert {path.suffix for path in files} >= {".zip", ".whl", ".bin", ".js"}


def test_licences_of_everything_that_is_shipped(dist):
    """Each part has a name, a licence and a text; the page links to them."""
    text = (dist / "licences.txt").read_text(encoding="utf-8")
    for said in (
        (ROOT / "LICENSE").read_text(encoding="utf-8").strip(),
        "Mozilla Public License Version 2.0",
        "Apache License\n",
        "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2",
        "@pyscript/core 0.7.31: Apache-2.0; source: https://github.com/pyscript/pyscript",
        "pyodide 314.0.7: MPL-2.0; source: https://github.com/pyodide/pyodide",
        "micropip 0.11.1: MPL-2.0; source: https://github.com/pyodide/micropip",
        "packaging 26.1: Apache-2.0 OR BSD-2-Clause; source: https://github.com/pypa/packaging",
        "Copyright (c) 1996-2011 Red Hat, Inc.",
    ):
        assert said in text
    page = (dist / "index.html").read_text(encoding="utf-8")
    assert 'href="./licences.txt"' in page
    assert 'href="./sbom.json"' in page


def parts(rows):
    """Components and what they contain."""
    for row in rows:
        yield row
        yield from parts(row.get("components", []))


def test_the_parts_list(dist):
    """What the locks name, with their hashes; every wheel in dist/ is in it; no part lacks a licence."""
    found = json.loads((dist / "sbom.json").read_text(encoding="utf-8"))
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    rows = {row["name"]: row for row in found["components"]}
    assert set(rows) == {
        "@pyscript/core",
        "iframe-worker",
        "micropip",
        "mkdocs-material",
        "packaging",
        "pyodide",
        "python",
    }
    locked = json.loads((ROOT / "vendor" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name in ("pyodide", "@pyscript/core"):
        assert rows[name]["version"] == locked[f"node_modules/{name}"]["version"]
        assert rows[name]["hashes"][0]["alg"] == "SHA-512"
    digests = {
        row["hashes"][0]["content"] for row in (*rows.values(), found["metadata"]["component"]) if "hashes" in row
    }
    wheels = sorted(dist.rglob("*.whl"))
    assert len(wheels) == 3
    assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels} <= digests
    every = [*parts(found["components"])]
    assert {row["name"] for row in every} >= {"polyscript", "coincident", "zlib", "Expat", "lunr", "rxjs"}
    assert [row["name"] for row in every if not row["licenses"][0]["expression"]] == []
    references = [row["bom-ref"] for row in every]
    assert len(references) == len(set(references))
    assert {each for row in found["dependencies"] for each in row["dependsOn"]} <= set(references)


def test_licences_are_known_for_the_whole_bundle():
    """A package of PyScript's bundle without a text of its licence fails here, so that none is shipped without."""
    import release

    names = release._names_in_bundle(ROOT / "vendor" / "node_modules")
    assert "polyscript" in names
    assert [name for name in names if not release._texts(ROOT / "vendor" / "node_modules", name)] == []


def test_the_bundle_of_the_documentation_is_known():
    """The theme's source maps name what it bundles; each has its licence, and no other."""
    import build
    import release

    maps = [*(build.packages() / "material" / "templates" / "assets" / "javascripts").rglob("*.js.map")]
    sources = [each for path in maps for each in json.loads(path.read_text(encoding="utf-8"))["sources"]]
    assert {each.split("/")[1] for each in sources if each.startswith("node_modules/")} == set(release.DOCUMENTED)


def test_a_release_is_packed_from_what_was_tested(dist, tmp_path):
    """The wheel and all of dist/, whenever it is packed, with the hashes of everything else that is published."""
    import release

    first, second = tmp_path / "first", tmp_path / "second"
    release.pack(dist, first)
    with zipfile.ZipFile(first / "memcore-offline-0.1.0.zip") as archive:
        assert sorted(archive.namelist()) == sorted(contents(dist))
        assert {archive.read(name) == (dist / name).read_bytes() for name in archive.namelist()} == {True}
    names = {path.name for path in first.iterdir()}
    assert names == {
        "memcore-0.1.0-py3-none-any.whl",
        "memcore-offline-0.1.0.zip",
        "sbom.json",
        "licences.txt",
        "SHA256SUMS",
    }
    sums = dict(reversed(line.split("  ")) for line in (first / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: digest for name, (digest, _) in contents(first).items() if name != "SHA256SUMS"}
    os.utime(dist / "index.html")
    release.pack(dist, second)
    assert contents(first) == contents(second)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_are_pinned_and_narrow(name):
    """Actions by commit, with the version beside it; no permission but what a job names."""
    text = WORKFLOWS[name]
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert used
    for action, comment in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert "\npermissions: {}\n" in text
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")


def test_actions_are_pinned_to_one_commit():
    """The same version of an action everywhere."""
    used = {each for text in WORKFLOWS.values() for each in re.findall(r"uses: (actions/\S+ # \S+)", text)}
    assert used
    assert len({each.partition("@")[0] for each in used}) == len(used)


def test_the_page_is_deployed_after_the_tests():
    """Pages and releases take what the tests leave; nothing builds again after them."""
    for name, publish in (("pages.yml", "page"), ("release.yml", "release")):
        found = jobs(WORKFLOWS[name])
        assert "uses: ./.github/workflows/tests.yml" in found["test"]
        assert f"publish: {publish}\n" in found["test"]
        others = [job for job in found if job != "test"]
        assert others
        assert [job for job in others if "build.py" in found[job] or "needs:" not in found[job]] == []


def jobs(text):
    """The jobs of a workflow, as text."""
    blocks = re.split(r"(?m)^  (?=[\w-]+:$)", text.partition("\njobs:\n")[2])
    return {block.partition(":")[0]: block for block in blocks if block.strip()}


def test_who_may_write_runs_no_code_of_the_project():
    """Jobs with a permission to write neither check the project out nor run what it built."""
    writers = {
        f"{name}: {job}": block
        for name, text in WORKFLOWS.items()
        for job, block in jobs(text).items()
        if ": write" in block
    }
    assert set(writers) == {"pages.yml: deploy", "release.yml: attest", "release.yml: publish"}
    for job, block in writers.items():
        assert "checkout" not in block, job
        assert "python" not in block, job
        assert "needs:" in block, job


def hashed(name):
    """The requirements of a lock, and how many hashes each has."""
    text = (ROOT / name).read_text(encoding="utf-8")
    rows = re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)((?:\s*\\?\n?\s+--hash=sha256:[0-9a-f]{64})*)", text, re.MULTILINE)
    return {row[0]: (row[1], row[2].count("--hash")) for row in rows}


@pytest.mark.parametrize(
    "name",
    [
        "requirements-dev.txt",
        "requirements-validation.txt",
        "requirements-torch-cpu.txt",
        "requirements-torch.txt",
        "requirements-test.txt",
        "vendor/requirements.txt",
        "vendor/requirements-node.txt",
    ],
)
def test_every_wheel_has_a_hash(name):
    """Nothing is installed whose content is not known beforehand."""
    found = hashed(name)
    assert found
    assert [each for each, (_, count) in found.items() if not count] == []


def test_every_installation_asks_for_hashes():
    """No call of pip in build.py or in a workflow takes what is not in a lock."""
    text = (ROOT / "build.py").read_text(encoding="utf-8")
    calls = re.findall(r'"pip", "(?:install|download)"[^)]*', text)
    assert len(calls) >= 2
    assert text.count("*INSTALLING") >= 3  # the first of these calls
    assert [each for each in calls if "--require-hashes" not in each] == []
    installs = [line for workflow in WORKFLOWS.values() for line in workflow.splitlines() if "pip install" in line]
    assert [line for line in installs if "--require-hashes" not in line] == []


def test_one_version_of_torch():
    """What is resolved for and what is installed are the same release."""
    wanted = (ROOT / "requirements-validation.in").read_text(encoding="utf-8")
    torch, cpu = (hashed(f"requirements-{name}.txt")["torch"][0] for name in ("torch", "torch-cpu"))
    assert f"\ntorch=={torch}\n" in wanted
    assert cpu == f"{torch}+cpu"


def test_the_readme_warns_of_the_name():
    """Who installs by name gets somebody else's package."""
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        "Do not run `pip install memcore`: on the public package index that name belongs to another project" in readme
    )
