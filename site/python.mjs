// Python for the worker: instead of starting from nothing it wakes up with the memory that a build kept of a Python that
// had imported memcore and answered the example. Where that memory cannot be had, Python starts from nothing and
// micropip installs memcore's wheel.
import { loadPyodide as start, version } from "./pyodide.mjs";

export { version };

const LENGTH = 0; // of the memory, filled in by the build
const KEPT = []; // what of it is not zeros, from where to where, filled in by the build
const WHEEL = "<!-- memcore:wheel -->";
const here = (path) => new URL(path, import.meta.url).href;

export async function loadPyodide(options) {
  try {
    return await wake(fetchMemory(), { ...options, stdLibURL: here("./library.zip") });
  } catch (error) {
    console.info(`Python starts from nothing: ${error}`);
    const python = await start({ ...options, packages: ["micropip"] });
    await python.pyimport("micropip").install(here(WHEEL));
    return python;
  }
}

// The memory arrives while Python's own code is fetched and compiled: Pyodide is given the place for it at once.
export function wake(arriving, options) {
  const memory = new Uint8Array(LENGTH);
  const filled = arriving.then((bytes) => fill(memory, bytes));
  filled.catch(() => {}); // who waits for it handles it
  return start({ ...options, _loadSnapshot: memory, createPyodideModule });

  // Pyodide copies the memory into its heap without asking whether it is large enough, so the heap has to grow before.
  // What is allocated for that is overwritten.
  async function createPyodideModule(settings) {
    const { default: create } = await import("./pyodide.asm.mjs");
    const [found] = await Promise.all([create(settings), filled]);
    if (found.HEAP8.length < LENGTH) found._free(found._malloc(LENGTH));
    return found;
  }
}

// The service worker keeps the memory inflated too, since inflating it takes longer than all else that is done here.
async function fetchMemory() {
  const response = await fetch(here("./memory.bin?inflated"));
  if (!response.ok) throw new Error(`memory.bin: ${response.status}`);
  if (response.headers.has("inflated")) return response.arrayBuffer();
  return new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

function fill(memory, bytes) {
  let place = 0;
  for (const [start, end] of KEPT) {
    memory.set(new Uint8Array(bytes, place, end - start), start);
    place += end - start;
  }
  if (place !== bytes.byteLength) throw new Error(`memory.bin: ${bytes.byteLength} bytes`);
}
