// Python for the worker: instead of starting from nothing it wakes up with the memory that a build kept of a Python that
// had imported memcore and answered the example. Where that memory cannot be had, Python starts from nothing and
// micropip installs memcore's wheel.
import { loadPyodide as start, version } from "./pyodide.mjs";
import create from "./pyodide.asm.mjs";

export { version };

const LENGTH = 0; // of the memory, filled in by the build
const WHEEL = "<!-- memcore:wheel -->";
const here = (path) => new URL(path, import.meta.url).href;

export async function loadPyodide(options) {
  try {
    return await wake(fetchMemory(), LENGTH, { ...options, stdLibURL: here("./library.zip") });
  } catch (error) {
    console.info(`Python starts from nothing: ${error}`);
    const python = await start({ ...options, packages: ["micropip"] });
    await python.pyimport("micropip").install(here(WHEEL));
    return python;
  }
}

// The memory arrives while Python's own code is fetched and compiled: Pyodide is given the place for it at once.
export function wake(arriving, length, options) {
  const memory = new Uint8Array(length);
  const filled = arriving.then((chunks) => fill(memory, chunks));
  filled.catch(() => {}); // who waits for it handles it
  return start({ ...options, _loadSnapshot: memory, createPyodideModule });

  // Pyodide copies the memory into its heap without asking whether it is large enough, so the heap has to grow before.
  // What is allocated for that is overwritten.
  async function createPyodideModule(settings) {
    const [found] = await Promise.all([create(settings), filled]);
    if (found.HEAP8.length < length) found._free(found._malloc(length));
    return found;
  }
}

async function fetchMemory() {
  const response = await fetch(here("./memory.bin"));
  if (!response.ok) throw new Error(`memory.bin: ${response.status}`);
  return response.body.pipeThrough(new DecompressionStream("gzip"));
}

async function fill(memory, chunks) {
  let place = 0;
  for (const reader = chunks.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    memory.set(value, place);
    place += value.length;
  }
  if (place !== memory.length) throw new Error(`memory.bin: ${place} bytes`);
}
