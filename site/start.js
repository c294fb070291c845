// Starts Python in a worker while the rest of the page is still read.
import "./pyscript/core.js";
import { draft } from "./own.js";

export const started = startPython();

// The tag for PyScript. Its type is Pyodide's own: the library for `type="py"` is written and compiled anew at every
// start, and the page has no use for it. After a failed start Python does without its kept memory.
export async function startPython() {
  const script = document.createElement("script");
  const python = `./pyodide/python.mjs${draft().plain ? "?plain" : ""}`;
  const attributes = {
    type: "pyodide",
    src: "./main.py",
    version: new URL(python, document.baseURI).href,
    config: JSON.stringify({ sync_main_only: true }),
    worker: "",
  };
  for (const [name, value] of Object.entries(attributes)) script.setAttribute(name, value);
  document.head.append(script);
  while (!script.xworker) await new Promise((done) => { setTimeout(done); });
  script.remove();
  dispatchEvent(new Event("memcore:alive"));
  return script.xworker;
}
