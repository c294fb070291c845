// Keeps the whole page for offline use. Files are cached by the hash of their content: an update fetches only what has
// changed, and a deployment that is half done never mixes versions. What is kept is compared with its hash when it is put
// in, when the page is idle and when it does not start, because storage may be damaged.
const FILES = /* memcore:files */ {};
const INFLATED_HASH = "memcore:inflated";
const CACHE = "memcore-files";
const REST = 5000; // milliseconds that a page has for itself before its small files are checked
const INFLATED = "pyodide/memory.bin"; // kept inflated too: whoever asks for that need not inflate it

const SMALL = Object.keys(FILES).filter((path) => !/^(pyodide|docs)\//.test(path)); // a page may not start without them
const pause = (time) => new Promise((done) => { setTimeout(done, time); });
const address = (path) => new URL(path, self.registration.scope).href;
const key = (hash) => new URL(`./by-hash/${encodeURIComponent(hash)}`, self.registration.scope).href;
const inflatedKey = (hash) => `${key(hash)}?inflated`;

async function fetchChecked(path, hash) {
  const options = { integrity: hash, credentials: "omit" };
  try {
    return await fetch(address(path), options);
  } catch {
    return await fetch(address(path), { ...options, cache: "reload" });
  }
}

async function hashOf(response) {
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", await response.arrayBuffer()));
  return `sha256-${btoa(String.fromCharCode(...found))}`;
}

async function isKept(cache, place, hash) {
  const found = await cache.match(place);
  return Boolean(found) && (await hashOf(found).catch(() => "")) === hash;
}

async function install() {
  const cache = await caches.open(CACHE);
  for (const [path, hash] of Object.entries(FILES)) {
    if (await cache.match(key(hash))) continue;
    const response = await fetchChecked(path, hash);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    await cache.put(key(hash), response);
  }
  await inflate(cache);
}

async function inflate(cache) {
  const place = inflatedKey(FILES[INFLATED]);
  if (await cache.match(place)) return;
  const { body } = await cache.match(key(FILES[INFLATED]));
  const headers = { "content-type": "application/octet-stream", inflated: "yes" };
  await cache.put(place, new Response(body.pipeThrough(new DecompressionStream("gzip")), { headers }));
  if (!(await isKept(cache, place, INFLATED_HASH))) await cache.delete(place);
}

// Checks what is kept, and fetches again what is not what it was. Whoever asks meanwhile gets it from the server. A page
// that asks what was damaged may have been served it before it was found: it is told of what was found earlier, too.
const untold = new Set();
let verifying = null;
function verify(paths) {
  verifying ??= renewed(paths).finally(() => { verifying = null; });
  return verifying;
}

async function renewed(paths) {
  const cache = await caches.open(CACHE);
  const damaged = [];
  for (const path of paths) {
    if (await isKept(cache, key(FILES[path]), FILES[path])) continue;
    await cache.delete(key(FILES[path]));
    damaged.push(path);
  }
  if (paths.includes(INFLATED) && !(await isKept(cache, inflatedKey(FILES[INFLATED]), INFLATED_HASH))) {
    await cache.delete(inflatedKey(FILES[INFLATED]));
    if (!damaged.includes(INFLATED)) damaged.push(INFLATED);
  }
  if (damaged.length) await install();
  for (const path of damaged) untold.add(path);
}

async function activate() {
  const cache = await caches.open(CACHE);
  const wanted = new Set([...Object.values(FILES).map(key), inflatedKey(FILES[INFLATED])]);
  for (const request of await cache.keys()) if (!wanted.has(request.url)) await cache.delete(request);
  await self.clients.claim();
}

function pathOf(request) {
  const url = new URL(request.url);
  const scope = new URL(self.registration.scope);
  if (url.origin !== scope.origin || !url.pathname.startsWith(scope.pathname)) return null;
  return decodeURIComponent(url.pathname.slice(scope.pathname.length)).replace(/(^|\/)$/, "$1index.html");
}

let opened = null;
async function answer(request, hash) {
  opened ??= caches.open(CACHE);
  const cache = await opened;
  if (request.mode === "navigate" && !(await isKept(cache, key(hash), hash))) await cache.delete(key(hash));
  const found = request.url.endsWith("?inflated") ? await cache.match(inflatedKey(hash)) : undefined;
  return found ?? (await cache.match(key(hash))) ?? fetch(request);
}

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("message", (event) => {
  if (event.data === "skipWaiting") self.skipWaiting();
  if (event.data !== "verify") return;
  const reply = () => {
    event.ports[0]?.postMessage([...untold]);
    if (event.ports.length) untold.clear();
  };
  event.waitUntil(verify(Object.keys(FILES)).then(reply, reply));
});
self.addEventListener("fetch", (event) => {
  const path = event.request.method === "GET" ? pathOf(event.request) : null;
  const hash = path === null ? undefined : FILES[path];
  if (!hash) return;
  event.respondWith(answer(event.request, hash));
  if (event.request.mode === "navigate") event.waitUntil(pause(REST).then(() => verify(SMALL)).catch(() => {}));
});
