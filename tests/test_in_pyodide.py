"""Unit tests again, those of conftest.IN_PYODIDE, inside Pyodide under Node, against the bytecode that the page loads."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parent.parent
PYODIDE = ROOT / "vendor" / "node_modules" / "pyodide"
NODE = shutil.which("node") or shutil.which("node", path=str(ROOT / ".venv" / "bin"))


@pytest.mark.skipif(NODE is None, reason="no Node.js on this machine: the unit tests inside Pyodide are skipped")
def test_units_inside_pyodide(dist):
    """What may differ in the browser's Python passes there too, and answers are the same to the last digit."""
    command = [
        NODE,
        ROOT / "tests" / "run_in_pyodide.mjs",
        PYODIDE,
        dist / "pyodide" / "library.zip",
        sysconfig.get_path("purelib"),
        ROOT / "tests",
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert " passed" in done.stdout
