// Starts PyScript, and the service worker once Python runs.
import { hooks } from "./pyscript/core.js";

// PyScript's default hook for workers compiles a string, which the content security policy forbids.
hooks.worker.onBeforeRunAsync.clear();

const root = document.documentElement;
root.dataset.state = "loading";
const progress = document.getElementById("progress");
progress.textContent = "Loading Python (7 MB, once). The answer below is for the example.";

addEventListener("py:all-done", watchForUpdates, { once: true });

async function watchForUpdates() {
  if (!("serviceWorker" in navigator)) return;
  const registration = await navigator.serviceWorker.register("./sw.js", { updateViaCache: "none" }).catch(() => null);
  if (!registration) return;
  const offer = (worker) => {
    if (!worker || !navigator.serviceWorker.controller) return;
    const show = () => {
      if (worker.state !== "installed") return;
      document.getElementById("update").hidden = false;
      document.getElementById("reload").onclick = () => worker.postMessage("skipWaiting");
    };
    worker.addEventListener("statechange", show);
    show();
  };
  offer(registration.waiting);
  offer(registration.installing);
  registration.addEventListener("updatefound", () => offer(registration.installing));
  let controlled = Boolean(navigator.serviceWorker.controller);
  navigator.serviceWorker.addEventListener("controllerchange", () => {
    if (controlled) location.reload();
    controlled = true;
  });
  registration.update().catch(() => {});
}
