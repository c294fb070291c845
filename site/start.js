// Starts Python in a worker while the rest of the page is still read.
import "./pyscript/core.js";

// The tag for PyScript. Its type is Pyodide's own: the library for `type="py"` is written and compiled anew at every
// start, and the page has no use for it.
export const started = startPython();

async function startPython() {
  const script = document.createElement("script");
  const attributes = {
    type: "pyodide",
    src: "./main.py",
    version: new URL("./pyodide/python.mjs", document.baseURI).href,
    config: JSON.stringify({ sync_main_only: true }),
    worker: "",
  };
  for (const [name, value] of Object.entries(attributes)) script.setAttribute(name, value);
  document.head.append(script);
  while (!script.xworker) await new Promise((done) => { setTimeout(done); });
  await script.xworker.ready;
  return script.xworker;
}
