// Python for the worker: instead of starting from nothing it wakes up with the memory that a build kept of a Python that
// had imported memcore and answered the example. Where that memory cannot be had, or is not what the build kept, Python
// starts from nothing with the bytecode of memcore; where that cannot be had either, micropip installs memcore's wheel.
import { loadPyodide as start, version } from "./pyodide.mjs";

export { version };

const HEADER = 0; // bytes before the memory that Pyodide reads first, filled in by the build
const LENGTH = 0; // of both, filled in by the build
const KEPT = []; // what of them is not zeros: from where, to where, and its hash; filled in by the build
const LIBRARY = ""; // the hash of library.zip, filled in by the build
const WHEEL = "<!-- memcore:wheel -->";
const here = (path) => new URL(path, import.meta.url).href;
const library = here("./library.zip");
const interpreter = here("./pyodide.asm.wasm");
const plain = new URL(import.meta.url).searchParams.has("plain");
const { fetch } = globalThis;

// A worker asks for everything before Pyodide does, and first for what there is most to do with.
const [arrived, arriving] = "WorkerGlobalScope" in globalThis ? ask() : [];
const compiled = arrived?.then((response) => (response.ok ? WebAssembly.compileStreaming(response) : Promise.reject(response.status)));
for (const each of [arrived, arriving, compiled]) each?.catch(() => {}); // who waits for it handles it

function ask() {
  const asked = fetch(interpreter);
  import("./pyodide.asm.mjs").catch(() => {});
  return [asked, plain ? undefined : fetchMemory()];
}

export async function loadPyodide(options) {
  const ways = [(given) => wake(arriving, { ...given, stdLibURL: library }), unpack, install];
  if (plain) ways.shift();
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
function watched() {
  let fail;
  const broken = new Promise((_, reject) => { fail = reject; });
  broken.catch(() => {}); // who started handles it
  globalThis.fetch = async (address, options) => {
    const checked = address === library ? { ...options, integrity: LIBRARY } : options;
    const name = new URL(address.url ?? address, import.meta.url).pathname.split("/").pop();
    const asked = name === "pyodide.asm.wasm" ? arrived : fetch(address, checked);
    const found = await asked.catch((error) => { throw failed(fail, name, error); });
    if (!found.ok) throw failed(fail, name, found.status);
    alive();
    return found;
  };
  WebAssembly.instantiateStreaming = async (_, imports) => {
    try {
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

// The memory arrives while Python's own code is fetched and compiled. Each piece of it is put into Pyodide's heap as it
// comes, or when there is a heap: Pyodide itself restores nothing but what the header says of its tables.
export function wake(arriving, options) {
  const header = new Uint8Array(HEADER);
  let show;
  const heap = new Promise((done) => { show = done; });
  const filled = arriving.then((stream) => fill(header, heap, stream));
  filled.catch(() => {}); // who waits for it handles it
  return start({ ...options, _loadSnapshot: header, createPyodideModule });

  // The heap has to be large enough; what is allocated for that is overwritten.
  async function createPyodideModule(settings) {
    const { default: create } = await import("./pyodide.asm.mjs");
    const found = await create(settings);
    if (found.HEAPU8.length < LENGTH) found._free(found._malloc(LENGTH));
    show(found.HEAPU8);
    await filled;
    return found;
  }
}

// The service worker keeps the memory inflated too, since inflating it takes longer than all else that is done here.
async function fetchMemory() {
  const response = await fetch(here("./memory.bin?inflated"));
  if (!response.ok) throw new Error(`memory.bin: ${response.status}`);
  return response.headers.has("inflated") ? response.body : response.body.pipeThrough(new DecompressionStream("gzip"));
}

// Each stretch is compared with its hash when it is complete, while the next one arrives.
async function fill(header, heap, stream) {
  const reader = stream.getReader();
  const stretches = KEPT.values();
  const checks = [];
  const early = []; // pieces that came before the heap
  let [begin, place, end, hash] = [0, 0, 0, ""];
  let memory;
  heap.then((found) => { memory = found; });
  const part = (from, to) => (from < HEADER ? header.subarray(from, to) : memory.subarray(from - HEADER, to - HEADER));
  const put = (value) => {
    while (value.length) {
      if (place === end) {
        const next = stretches.next();
        if (next.done) throw new Error("memory.bin: too long");
        [begin, end, hash] = next.value;
        place = begin;
      }
      const piece = value.subarray(0, end - place);
      part(place, place + piece.length).set(piece);
      place += piece.length;
      value = value.subarray(piece.length);
      if (place === end) checks.push(compare(part(begin, end), hash));
    }
  };
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    alive();
    early.push(value);
    if (memory) early.splice(0).forEach(put);
  }
  memory = await heap;
  early.forEach(put);
  if (place !== end || !stretches.next().done) throw new Error("memory.bin: incomplete");
  await Promise.all(checks);
}

// Browsers can tell hashes on secure pages only.
async function compare(bytes, hash) {
  const found = await globalThis.crypto.subtle?.digest("SHA-256", bytes);
  if (found && btoa(String.fromCharCode(...new Uint8Array(found))) !== hash) throw new Error("memory.bin: damaged");
}
