// Runs the unit tests inside Pyodide under Node, against the built wheel.
//   node run_in_pyodide.mjs PYODIDE_FOLDER WHEEL SITE_PACKAGES TESTS_FOLDER [pytest arguments]
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

process.on("uncaughtException", (error) => {
  console.error(error.message);
  process.exit(3);
});

const [folder, wheel, packages, tests, ...more] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const py = await loadPyodide({ indexURL: folder, packages: [] });
py.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel", { extractDir: "/wheel" });
for (const [place, path] of [["/packages", packages], ["/tests", tests]]) {
  py.FS.mkdirTree(place);
  py.FS.mount(py.FS.filesystems.NODEFS, { root: path }, place);
}
py.globals.set("more", py.toPy(more));
process.exitCode = py.runPython(`
import os, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/wheel", "/tests"]
sys.path.append("/packages")
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.chdir("/tests")
import pytest
int(pytest.main(["-q", "-m", "not machine", "-p", "no:cacheprovider", "-p", "no:doctest", "-p", "_hypothesis_pytestplugin",
                 "-W", "error", "-o", "markers=machine: needs the machine", "--rootdir=/tests", "-c", "/dev/null",
                 *more, "/tests"]))
`);
