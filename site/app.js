// Carries messages between Python's worker and the page, and keeps the page for offline use.
import { started } from "./start.js";
import { byId, say, show, word } from "./view.js";
import { listen, opening } from "./controls.js";

const waiting = [];
let worker = null;
let live = false;

// A message for Python; until it has answered the first one, messages wait, and of edits only the last one.
export function send(message) {
  if (live) return worker.postMessage(JSON.stringify(message));
  const last = waiting.at(-1);
  if (last?.do === "edit" && message.do === "edit") waiting.pop();
  waiting.push(message);
  return undefined;
}

listen(send);
document.documentElement.dataset.state = "loading";
byId("progress-text").textContent = word("loading");

started.then((created) => {
  worker = created;
  worker.onmessage = ({ data }) => {
    if (typeof data === "string") show(JSON.parse(data), send);
  };
  worker.postMessage(JSON.stringify(opening()));
}).catch((error) => say(String(error)));

addEventListener("memcore:live", () => {
  live = true;
  for (const message of waiting.splice(0)) send(message);
  afterPause(300, () => send({ do: "practise" }));
  afterPause(1000, watchForUpdates);
}, { once: true });

// What nobody waits for begins when nothing has been edited for so many milliseconds.
function afterPause(length, begin) {
  const rest = new AbortController();
  const finish = () => {
    rest.abort();
    begin();
  };
  let timer = setTimeout(finish, length);
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(finish, length);
  };
  for (const kind of ["input", "click", "popstate"]) addEventListener(kind, again, { signal: rest.signal });
}

async function watchForUpdates() {
  if (!("serviceWorker" in navigator)) return;
  const registration = await navigator.serviceWorker.register("./sw.js", { updateViaCache: "none" }).catch(() => null);
  if (!registration) return;
  const offer = (next) => {
    if (!next || !navigator.serviceWorker.controller) return;
    const offered = () => {
      if (next.state !== "installed") return;
      byId("update").hidden = false;
      byId("reload").onclick = () => next.postMessage("skipWaiting");
    };
    next.addEventListener("statechange", offered);
    offered();
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
