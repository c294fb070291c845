// What stands in the verdict's place while the job that is asked about has no answer of its own, and what is said of an
// answer that takes long.
import { language } from "./own.js";
import { announce, byId, forget, showMini } from "./view.js";

const WORDS = JSON.parse(document.body.dataset.waiting);
const root = document.documentElement;
const SOON = 300; // milliseconds for which the answer before may stand where another job is asked about
let said = "";
let another = 0;
let late = 0;

export function tell(key, values = {}) {
  return WORDS[language()][key].replace(/\{(\w+)\}/gu, (_, name) => values[name]);
}

export const isWithheld = () => Boolean(root.dataset.job);

// The states are `computing`, `refused`, `stopped`, and `coming` when the verdict is there and the rest is not.
export function withhold(state, key, why = "") {
  const verdict = byId("verdict");
  const lines = [["headline pending", tell(key)], ["why pending", why]].filter(([, text]) => text);
  verdict.replaceChildren(...lines.map(
    ([className, textContent]) => Object.assign(document.createElement("p"), { className, textContent }),
  ));
  for (const name of Object.keys(verdict.dataset)) if (name !== "tLabel") delete verdict.dataset[name];
  verdict.removeAttribute("aria-busy");
  byId("ways").replaceChildren();
  for (const part of ["verdict", "ways"]) forget(part);
  root.dataset.job = state;
  byId("config").inert &&= state === "computing";
  showMini();
}

// Another link was opened: the answer on the page is not its.
export function expectAnother() {
  clearTimeout(another);
  another = setTimeout(() => { withhold("computing", "computing"); }, SOON);
}

// Something was edited: soon the answer before is marked, until another one comes or the edit is refused.
export function expectAnswer() {
  late ||= setTimeout(() => { document.querySelector("main").classList.add("late"); }, SOON);
}

function isInTime() {
  if (!late) return;
  clearTimeout(late);
  late = 0;
  document.querySelector("main").classList.remove("late");
}

// What a patch, which is shown by now, says about the job that is asked about.
export function follow(patch) {
  if (patch.say) said = patch.say;
  if (patch.values) byId("config").inert = false;
  if ("answered" in patch || patch.stale) isInTime();
  if (another && ("answered" in patch || patch.stale)) {
    clearTimeout(another);
    another = 0;
    if (patch.stale) root.dataset.job = "computing";
  }
  if (patch.stale === false && root.dataset.job === "refused") root.dataset.job = "computing"; // what was refused came late
  const { job } = root.dataset;
  if (job === "computing" && patch.html?.verdict) root.dataset.job = "coming";
  if (job === "coming" && patch.answered) delete root.dataset.job;
  if (patch.stale) refuse();
}

// Another job is asked about than the one that got no answer.
export function askedAnew() {
  if (["refused", "stopped"].includes(root.dataset.job)) withhold("computing", "computing");
}

// Python has nothing more to say about the job.
export function refuse() {
  isInTime();
  if (!["computing", "coming"].includes(root.dataset.job)) return;
  const problem = byId("problems").hidden ? null : byId("problems").querySelector("li");
  withhold("refused", "refused", problem?.textContent ?? said);
  announce(() => byId("verdict").textContent);
}

export function showBusy(seconds) {
  if (byId("stop").hidden || byId("busy").hidden) announce(() => byId("busy-text").textContent);
  showBanner(tell("busy", { seconds }), false);
}

export function showStopped(seconds) {
  showBanner(tell("stopped", { seconds }), true);
  if (isWithheld()) withhold("stopped", "no-answer-stopped");
}

function showBanner(text, stopped) {
  byId("busy").hidden = false;
  byId("busy-text").textContent = text;
  byId("stop").textContent = tell("stop");
  byId("stop").hidden = stopped;
  byId("again").textContent = tell("retry");
  byId("again").hidden = !stopped;
}

// Nothing takes long; that something was stopped stands until something else is asked.
export function clearBusy(all) {
  if (all || byId("again").hidden) byId("busy").hidden = true;
}
