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
  const filled = arriving.then((stream) => fill(memory, stream));
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
  return response.headers.has("inflated") ? response.body : response.body.pipeThrough(new DecompressionStream("gzip"));
}

// Every piece is put in its place as it comes: gathering them first would take as much memory, and time, again.
async function fill(memory, stream) {
  const reader = stream.getReader();
  const stretches = KEPT.values();
  let [place, end] = [0, 0];
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    while (value.length) {
      if (place === end) [place, end] = stretches.next().value ?? [];
      const piece = value.subarray(0, end - place);
      memory.set(piece, place);
      place += piece.length;
      value = value.subarray(piece.length);
    }
  }
  if (place !== end || !stretches.next().done) throw new Error("memory.bin: incomplete");
}
