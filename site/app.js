// Carries messages between Python's worker and the page, stops the worker at a click if it takes too long, and keeps the
// page for offline use.
import { byId, control, counts, embedded, jobOf, show } from "./view.js";
import { listen, opening, reopen, reopening } from "./controls.js";
import { draft, keep } from "./own.js";
import { askedAnew, clearBusy, expectAnswer, follow, isWithheld, refuse, showBusy, showStopped, tell, withhold } from "./waiting.js";

const SLOW = 3000; // milliseconds after which an answer takes long
const ANSWERED = new Set(["start", "open", "edit", "ask", "task", "preset", "reset", "set", "propose", "import", "language"]);
const asked = new Map(); // what Python has not finished, and since when, by number
const waiting = [];
let [worker, live, count] = [null, false, 0];
let stopped = null; // what was asked when Python was stopped

// A message for Python; until it has answered the first one, messages wait, and of edits only the last one.
export function send(said) {
  const message = { ...counts(), ...said };
  if (ANSWERED.has(message.do)) {
    clearBusy(true);
    askedAnew();
    if (live) expectAnswer();
  }
  if (live) return post(message);
  const last = waiting.at(-1);
  if (last?.do === "edit" && message.do === "edit") waiting.pop();
  waiting.push(message);
  return undefined;
}

function post(message) {
  count += 1;
  asked.set(count, { message, since: performance.now() });
  worker.postMessage(JSON.stringify({ ...message, number: count }));
}

listen(send);
let stir;
const stirring = new Promise((done) => { stir = done; }); // a worker runs, or none will
const whole = fillForm();
if (!isWithheld() && !["", `#${document.body.dataset.fragment}`].includes(jobOf(location.hash))) withhold("computing", "computing");
document.documentElement.dataset.state = "loading";
byId("progress-text").textContent = tell(isWithheld() ? "loading-link" : "loading");
begin((starting) => starting.started, opening);
setInterval(look, 500);

// A worker with Python, and the first message for it.
async function begin(start, first) {
  try {
    const created = await start(await import("./start.js"));
    worker = created;
    let ready = false;
    created.onmessage = ({ data }) => {
      stir();
      if (typeof data !== "string" || created !== worker) return;
      const patch = JSON.parse(data);
      ready ||= Boolean(patch.ready);
      receive(patch);
    };
    await Promise.all([created.ready, whole]);
    if (!ready) throw new Error("main.py ended with an error"); // PyScript prints it
    document.documentElement.dataset.python = "up";
    if (isWithheld()) byId("progress-text").textContent = ""; // the verdict says what is going on
    post({ ...counts(), ...first() });
  } catch (error) {
    stir();
    dispatchEvent(new CustomEvent("memcore:failed", { detail: error?.message ?? String(error) }));
  }
}

// The panel as it opens holds what is in sight of it; its other settings follow, before Python says anything about them.
// They are much markup, which a worker that is about to run would have to wait for.
async function fillForm() {
  const response = await fetch("./settings.html", { integrity: document.body.dataset.settings });
  if (!response.ok) throw new Error(`settings.html: ${response.status}`);
  const markup = await response.text();
  await stirring;
  const typed = [...byId("groups").querySelectorAll("[name]")].map(({ name, value }) => [name, value]);
  show({ html: { groups: markup } });
  for (const [name, value] of typed) control(name).value = value;
}

function receive(patch) {
  dispatchEvent(new Event("memcore:alive"));
  show(patch, send);
  follow(patch);
  const done = asked.get(patch.finished)?.message.do;
  if (!asked.delete(patch.finished)) return;
  if (done === "practise") dispatchEvent(new Event("memcore:practised"));
  if (![...asked.values()].some(({ message }) => ANSWERED.has(message.do))) refuse();
}

// Every piece of work leaves room for others, so that a word from Python that is long in coming means that it is stuck.
function look() {
  const open = [...asked.values()];
  const pings = open.filter(({ message }) => message.do === "ping");
  if (live && open.length && !pings.length) post({ do: "ping" });
  const slow = [...jobs(), ...pings].map(({ since }) => performance.now() - since).find((time) => time > SLOW);
  if (slow) showBusy(Math.floor(slow / 1000));
  else clearBusy(false);
}

const jobs = () => [...asked.values()].filter(({ message }) => ANSWERED.has(message.do));

// Python cannot be interrupted: its worker ends, and another one begins where the page is. What was edited meanwhile is
// answered, what was stopped is not.
function stop() {
  const open = [...asked.values()].filter(({ message }) => message.do !== "ping");
  const [first, ...later] = jobs().length ? jobs() : open;
  worker.terminate();
  [worker, live] = [null, false];
  asked.clear();
  delete document.documentElement.dataset.python;
  document.documentElement.dataset.state = "loading";
  byId("progress").hidden = false;
  byId("progress-text").textContent = tell("loading-again");
  showStopped(first ? Math.floor((performance.now() - first.since) / 1000) : 0);
  stopped = first?.message;
  const newest = later.findLast(({ message }) => ANSWERED.has(message.do));
  if (newest) send(newest.message);
  const link = isWithheld() ? "" : `#${document.body.dataset.fragment}`;
  begin(({ startPython }) => startPython(), () => reopening(link));
}

byId("stop").addEventListener("click", stop);
byId("again").addEventListener("click", () => {
  if (stopped?.do === "start") reopen(stopped);
  else if (stopped) send(stopped);
});

let first = true;
addEventListener("memcore:live", () => {
  live = true;
  const { pins, plain } = draft();
  if (pins?.length) send({ do: "restore", pins });
  if (plain) keep({ plain: undefined });
  for (const message of waiting.splice(0)) send(message);
  if (!first) return;
  first = false;
  if (!embedded()) afterPause(300, () => send({ do: "practise" }));
  afterPause(1000, watchForUpdates);
  afterPause(10_000, () => navigator.serviceWorker?.controller?.postMessage("verify"));
});

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
