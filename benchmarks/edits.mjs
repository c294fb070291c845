// Runs benchmarks/edits.py in Pyodide with what the page loads; the clock is this process's own.
import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = `${here}../vendor/node_modules/pyodide`;
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: folder, stdLibURL: `${here}../dist/pyodide/library.zip`, packages: [] });
const clock = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
const measured = python.toPy({ __name__: "edits" });
python.runPython(readFileSync(`${here}edits.py`, "utf8"), { globals: measured });
measured.get("main")(clock);
