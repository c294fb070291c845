// Keeps the whole page for offline use. Files are cached by the hash of their content: an update fetches only what has
// changed, and a deployment that is half done never mixes versions.
const FILES = /* memcore:files */ {};
const CACHE = "memcore-files";
const INFLATED = "pyodide/memory.bin"; // kept inflated too: whoever asks for that need not inflate it

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

async function install() {
  const cache = await caches.open(CACHE);
  for (const [path, hash] of Object.entries(FILES)) {
    if (await cache.match(key(hash))) continue;
    const response = await fetchChecked(path, hash);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    if (path === INFLATED) await cache.put(inflatedKey(hash), inflated(response.clone()));
    await cache.put(key(hash), response);
  }
}

function inflated(response) {
  const headers = { "content-type": "application/octet-stream", inflated: "yes" };
  return new Response(response.body.pipeThrough(new DecompressionStream("gzip")), { headers });
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
  return decodeURIComponent(url.pathname.slice(scope.pathname.length)) || "index.html";
}

let opened = null;
async function answer(request, hash) {
  opened ??= caches.open(CACHE);
  const cache = await opened;
  const found = request.url.endsWith("?inflated") ? await cache.match(inflatedKey(hash)) : undefined;
  return found ?? (await cache.match(key(hash))) ?? fetch(request);
}

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("message", (event) => {
  if (event.data === "skipWaiting") self.skipWaiting();
});
self.addEventListener("fetch", (event) => {
  const path = event.request.method === "GET" ? pathOf(event.request) : null;
  const hash = path === null ? undefined : FILES[path];
  if (hash) event.respondWith(answer(event.request, hash));
});
