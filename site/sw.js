// Keeps the whole page for offline use. Files are cached by the hash of their content: an update fetches only what has
// changed, and a deployment that is half done never mixes versions.
const FILES = /* memcore:files */ {};
const CACHE = "memcore-files";

const address = (path) => new URL(path, self.registration.scope).href;
const key = (hash) => new URL(`./by-hash/${encodeURIComponent(hash)}`, self.registration.scope).href;

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
    await cache.put(key(hash), response);
  }
}

async function activate() {
  const cache = await caches.open(CACHE);
  const wanted = new Set(Object.values(FILES).map(key));
  for (const request of await cache.keys()) if (!wanted.has(request.url)) await cache.delete(request);
  await self.clients.claim();
}

function pathOf(request) {
  const url = new URL(request.url);
  const scope = new URL(self.registration.scope);
  if (url.origin !== scope.origin || !url.pathname.startsWith(scope.pathname)) return null;
  return decodeURIComponent(url.pathname.slice(scope.pathname.length)) || "index.html";
}

async function answer(request, hash) {
  const cache = await caches.open(CACHE);
  return (await cache.match(key(hash))) ?? fetch(request);
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
