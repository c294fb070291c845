// The sliders below the numbers of the sentence. They offer powers of two; Python paints what fits of them when an
// answer is whole and nothing is edited for a moment.
import { byId, control, shownBy } from "./view.js";

const PAUSE = 150; // milliseconds after an answer in which nobody edits anything
const LATER = 800; // and after that, until exact values are looked for
const root = document.documentElement;
let edited = ""; // the setting that was edited last: its own track stays what it was
let timer = 0;
let begun = false; // a page that has just opened compiles its code first

export function listenToTracks(send) {
  shownBy("tracks", paint);
  const form = byId("config");
  form.addEventListener("input", ({ target }) => {
    const { track } = target.dataset;
    begun = true;
    edited = track ?? target.name ?? "";
    if (track) setNumber(control(track), 2 ** Number(target.value), "input");
  });
  form.addEventListener("change", ({ target }) => {
    if (target.dataset.track) setNumber(control(target.dataset.track), 2 ** Number(target.value), "change");
  });
  for (const kind of ["pointerover", "focusin"]) form.addEventListener(kind, ({ target }) => place(target.closest(".number")));
  addEventListener("memcore:shown", follow);
  const look = () => {
    clearTimeout(timer);
    const { answer, state } = root.dataset;
    for (const track of tracks()) {
      const shown = !track.closest(".slot").hidden;
      if (shown && answer !== "whole" && track.dataset.track !== edited) track.closest(".number").classList.add("old");
    }
    if (begun && answer === "whole" && state === "live") timer = setTimeout(ask, PAUSE, send);
  };
  new MutationObserver(look).observe(root, { attributeFilter: ["data-answer", "data-state"] });
  addEventListener("memcore:practised", () => {
    begun = true;
    look();
  }, { once: true });
}

function ask(send) {
  send({ do: "tracks" });
  timer = setTimeout(() => send({ do: "tracks", exact: true }), LATER);
}

// They are looked for once for each sentence, as there is another one in another language.
let [sentence, sliders] = [null, []];
function tracks() {
  if (sentence !== byId("sentence")) {
    sentence = byId("sentence");
    sliders = [...sentence.querySelectorAll("[data-track]")];
  }
  return sliders;
}

// A slider opens below its number, and within the window.
function place(number) {
  const pull = number?.querySelector(".pull");
  if (!pull) return;
  const { left } = number.getBoundingClientRect();
  pull.style.left = `${Math.min(0, root.clientWidth - 8 - pull.offsetWidth - left)}px`;
}

function setNumber(number, value, kind) {
  if (kind === "input") number.value = String(value);
  number.dispatchEvent(new Event(kind, { bubbles: true }));
}

// A number as people write it: 8192, 8k or 1M.
export function numberOf(text) {
  const [, digits, unit] = /^\s*([\d.]+)\s*([km]?)\s*$/iu.exec(text.replaceAll(",", "")) ?? [];
  return Number(digits) * { "": 1, k: 2 ** 10, m: 2 ** 20 }[(unit ?? "").toLowerCase()];
}

// The thumbs stand where the numbers are.
const shown = new WeakMap();
function follow() {
  for (const track of tracks()) {
    const number = control(track.dataset.track);
    const text = number.value || number.placeholder;
    const value = numberOf(text);
    if (!(value > 0) || shown.get(track) === text) continue;
    shown.set(track, text);
    const at = Math.log2(value);
    if (document.activeElement !== track) track.value = String(at);
    const near = Math.min(Number(track.max), Math.max(Number(track.min), at));
    const strip = track.closest(".number").querySelector(".strip");
    strip.style.setProperty("--at", `${(100 * (near - track.min)) / (track.max - track.min)}%`);
    track.setAttribute("aria-valuetext", text);
  }
}

// A track is a row of segments; between a value that fits and one that does not, it changes at the exact value.
function paint(found) {
  const nothing = { marks: [], title: "" }; // no GPU is named that a number could be too large for
  for (const track of tracks()) {
    if (track.closest(".slot").hidden) track.closest(".number").classList.remove("old");
    const painted = Object.keys(found).length ? found[track.dataset.track] : nothing;
    if (!painted) continue;
    const { marks, title, edge } = painted;
    const home = track.closest(".number");
    home.classList.remove("old");
    byId(track.getAttribute("aria-describedby")).textContent = title;
    track.title = title;
    const segments = cut(marks, edge ? Math.log2(edge) - track.min : null);
    for (const each of home.querySelectorAll(".paint")) {
      each.replaceChildren(...segments.map(([mark, width]) => {
        const segment = Object.assign(document.createElement("i"), { className: mark });
        segment.style.flexGrow = width;
        return segment;
      }));
    }
  }
}

const fits = (mark) => mark === "fits" || mark === "tight";

function cut(marks, edge) {
  const found = [];
  let from = 0;
  marks.forEach((mark, step) => {
    const next = marks[step + 1];
    if (mark === next) return;
    const changes = next !== undefined && fits(mark) !== fits(next);
    const exact = changes && edge !== null && edge > step - 1 && edge < step + 1.001;
    const to = next === undefined ? marks.length - 1 : exact ? Math.max(edge, from) : step + 0.5;
    found.push([mark, to - from]);
    from = to;
  });
  return found;
}
