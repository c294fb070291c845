// Python for the worker: instead of starting from nothing it wakes up with the memory that a build kept of a Python that
// had imported memcore and answered the example. Where that memory cannot be had, or is not what the build kept, Python
// starts from nothing with the bytecode of memcore; where that cannot be had either, micropip installs memcore's wheel.
import { loadPyodide as start, version } from "./pyodide.mjs";

export { version };

const LENGTH = 0; // of the memory, filled in by the build
const KEPT = []; // what of it is not zeros: from where, to where, and its hash; filled in by the build
const LIBRARY = ""; // the hash of library.zip, filled in by the build
const WHEEL = "<!-- memcore:wheel -->";
const here = (path) => new URL(path, import.meta.url).href;
const library = here("./library.zip");

export async function loadPyodide(options) {
  const ways = [(given) => wake(fetchMemory(), { ...given, stdLibURL: library }), unpack, install];
  if (new URL(import.meta.url).searchParams.has("plain")) ways.shift();
  for (const way of ways) {
    const broken = watched();
    try {
      return await Promise.race([way(options), broken]);
    } catch (error) {
      if (error.isFinal || way === ways.at(-1)) throw error;
      console.info(`Python starts from nothing: ${error}`);
    }
  }
}

// memcore as bytecode, beside that of the standard library: nothing is compiled.
const unpack = (options) => start({ ...options, stdLibURL: library });

async function install(options) {
  const python = await start({ ...options, packages: ["micropip"] });
  await python.pyimport("micropip").install(here(WHEEL));
  return python;
}

// Pyodide says nothing of files that it cannot have, or not use, and may wait for ever. The promise is broken with the
// name of the file; without the interpreter itself every way ends.
const { fetch } = globalThis;
let compiled; // the interpreter, which a start that fails leaves to the next one
function watched() {
  let fail;
  const broken = new Promise((_, reject) => { fail = reject; });
  broken.catch(() => {}); // who started handles it
  globalThis.fetch = async (address, options) => {
    const checked = address === library ? { ...options, integrity: LIBRARY } : options;
    const name = new URL(address.url ?? address, import.meta.url).pathname.split("/").pop();
    const found = await fetch(address, checked).catch((error) => { throw failed(fail, name, error); });
    if (!found.ok) throw failed(fail, name, found.status);
    alive();
    return found;
  };
  WebAssembly.instantiateStreaming = async (response, imports) => {
    try {
      compiled ??= WebAssembly.compileStreaming(response);
      const module = await compiled;
      return { module, instance: await WebAssembly.instantiate(module, imports) };
    } catch (error) {
      throw failed(fail, "pyodide.asm.wasm", error);
    }
  };
  return broken;
}

function failed(fail, name, why) {
  const error = Object.assign(new Error(`${name}: ${why}`), { isFinal: name === "pyodide.asm.wasm" });
  fail(error);
  return error;
}

// Tells the page that something arrives.
let told = 0;
function alive() {
  if (performance.now() - told < 250) return;
  told = performance.now();
  globalThis.postMessage?.("{}");
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

// Every piece is put in its place as it comes: gathering them first would take as much memory, and time, again. Each
// stretch is compared with its hash when it is complete, while the next one arrives.
async function fill(memory, stream) {
  const reader = stream.getReader();
  const stretches = KEPT.values();
  const checks = [];
  let [begin, place, end, hash] = [0, 0, 0, ""];
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    alive();
    while (value.length) {
      if (place === end) {
        const next = stretches.next();
        if (next.done) throw new Error("memory.bin: too long");
        [begin, end, hash] = next.value;
        place = begin;
      }
      const piece = value.subarray(0, end - place);
      memory.set(piece, place);
      place += piece.length;
      value = value.subarray(piece.length);
      if (place === end) checks.push(compare(memory.subarray(begin, end), hash));
    }
  }
  if (place !== end || !stretches.next().done) throw new Error("memory.bin: incomplete");
  await Promise.all(checks);
}

// Browsers can tell hashes on secure pages only.
async function compare(bytes, hash) {
  const found = await globalThis.crypto.subtle?.digest("SHA-256", bytes);
  if (found && btoa(String.fromCharCode(...new Uint8Array(found))) !== hash) throw new Error("memory.bin: damaged");
}
