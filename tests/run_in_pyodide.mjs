// Runs the unit tests inside Pyodide under Node, against the built library of bytecode. What an assertion compared is
// not shown: rewriting them takes seconds, and nearly all fail outside of Pyodide too.
//   node run_in_pyodide.mjs PYODIDE_FOLDER LIBRARY SITE_PACKAGES TESTS_FOLDER [pytest arguments]
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

process.on("uncaughtException", (error) => {
  console.error(error.message);
  process.exit(3);
});

const [folder, library, packages, tests, ...more] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const py = await loadPyodide({ indexURL: folder, packages: [] });
py.FS.writeFile("/library.zip", readFileSync(library));
for (const [place, path] of [["/packages", packages], ["/tests", tests]]) {
  py.FS.mkdirTree(place);
  py.FS.mount(py.FS.filesystems.NODEFS, { root: path }, place);
}
py.globals.set("more", py.toPy(more));
process.exitCode = py.runPython(`
import os, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/library.zip", "/tests"]
sys.path.append("/packages")
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.chdir("/tests")
import pytest
int(pytest.main(["-q", "-m", "not machine", "-p", "no:cacheprovider", "-p", "no:doctest", "-p", "_hypothesis_pytestplugin",
                 "--assert=plain", "-W", "error", "-o", "markers=machine: needs the machine", "--rootdir=/tests", "-c", "/dev/null",
                 *more, "/tests"]))
`);
