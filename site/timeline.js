// The picture of a step as an instrument: a crosshair for pointer, touch and keys, a pin, a span to zoom into, and the
// curve of the answer before. Everything that it shows at once is in the picture's data; Python is asked for tensors.
import { byId, place, shownBy, word } from "./view.js";

const home = byId("timeline");
const SVG = "http://www.w3.org/2000/svg";
const DRAGGED = 6; // pixels after which a press is no click
const GiB = 2 ** 30;
const LONG = 2000; // milliseconds after which Python is asked again, whatever became of what it was asked
let send = () => {};
let data = null; // of the picture that is shown
let rank = "";
let outline = ""; // its curve, by which it is told from the next one
let version = 0;
let [entry, ghost] = [-1, null]; // the edit that the curve belongs to, and the curve before that edit
let [zoom, pin, here] = [[0, 1], null, null];
let width = 0; // of the picture, in pixels
let drag = null;
let asked = -LONG; // when Python was asked for what it has not answered
const tensors = new Map();

export function listenToTimeline(carrier) {
  send = carrier;
  shownBy("moment", answerMoment);
  new MutationObserver(drawn).observe(home, { childList: true });
  new MutationObserver(compare).observe(byId("verdict"), { attributeFilter: ["data-device-bytes"] });
  new ResizeObserver(() => {
    width = home.querySelector(".chart")?.clientWidth ?? 0;
    if (data) frame();
  }).observe(home);
  home.addEventListener("pointerdown", pressed);
  home.addEventListener("pointermove", moved);
  home.addEventListener("pointerup", released);
  home.addEventListener("pointercancel", () => { drag = null; brush(); });
  home.addEventListener("pointerleave", () => { if (!drag) look(null); });
  home.addEventListener("dblclick", ({ target }) => { if (target.id === "scan") zoomTo(0, 1); });
  home.addEventListener("keydown", keyed);
  home.addEventListener("focusin", ({ target }) => { if (target.id === "scan") look(here ?? pin ?? peak()); });
  home.addEventListener("focusout", ({ target }) => { if (target.id === "scan") look(null); });
  byId("stages").addEventListener("click", ({ target }) => {
    const { stage } = target.closest("[data-stage]")?.dataset ?? {};
    if (stage) send({ do: "stage", stage: Number(stage) });
  });
  home.addEventListener("click", ({ target }) => { if (target.id === "moment-unpin") setPin(null); });
  for (const [id, factor] of [["zoom-in", 0.5], ["zoom-out", 2], ["zoom-reset", Infinity]]) {
    byId(id).addEventListener("click", () => zoomBy(factor));
  }
  drawn();
  compare();
}

const said = (key, values) => word(key).replace(/\{(\w+)\}/gu, (_, name) => values[name]);

// As memcore.units.format_bytes has it.
function bytes(value) {
  const size = Math.abs(value);
  if (size >= 10 * GiB) return `${(value / GiB).toFixed(1).replace(/\B(?=(\d{3})+\.)/, ",")} GiB`;
  if (size >= GiB / 100) return `${(value / GiB).toFixed(2)} GiB`;
  if (size >= 2 ** 20 / 10) return `${(value / 2 ** 20).toFixed(1)} MiB`;
  return size >= 1024 ? `${(value / 1024).toFixed(1)} KiB` : `${Math.round(value)} B`;
}

// A stretch is its start and end, its name, how often it repeats, and the levels of its first and last repetition.
const peak = () => ({ at: data.peak[0], done: data.peak[1] });
const same = (one, other) => one?.at === other?.at && one?.done === other?.done;

function levels({ at, done }) {
  const [, , , repeats, first, last] = data.stretches[at];
  return last ? first.map((level, kind) => level + ((last[kind] - level) * done) / (repeats - 1)) : first;
}

const sum = (list) => list.reduce((total, each) => total + each, 0);

function across({ at, done }) {
  const [start, end, , repeats] = data.stretches[at];
  return repeats > 1 ? start + ((end - start) * done) / (repeats - 1) : (start + end) / 2;
}

function nameOf({ at, done }) {
  const [, , name, repeats] = data.stretches[at];
  return repeats > 1 ? said("moment-run", { name, number: done + 1, count: repeats }) : name;
}

function stopAt(fraction) {
  const found = data.stretches.findIndex(([, end]) => fraction < end);
  const at = found < 0 ? data.stretches.length - 1 : found;
  const [start, end, , repeats] = data.stretches[at];
  return { at, done: Math.max(0, Math.round(((fraction - start) / (end - start)) * (repeats - 1))) };
}

const numberOf = ({ at, done }) => sum(data.stretches.slice(0, at).map(([, , , repeats]) => repeats)) + done;

// A new picture: the crosshair looks at the same place, and the curve before the edit stays as a ghost.
function drawn() {
  const chart = home.querySelector(".chart");
  const before = data && { points: data.stretches.flatMap(ends), peak: sum(levels(peak())) };
  data = chart ? JSON.parse(chart.dataset.step) : null;
  const another = Boolean(data) && rank !== data.rank; // another stage of the pipeline is shown
  rank = data?.rank ?? "";
  if (another) [ghost, outline, pin] = [null, "", null];
  version += 1;
  drag = null;
  tensors.clear();
  for (const id of ["zoom-in", "zoom-out", "zoom-reset"]) byId(id).hidden = !data;
  if (!data) {
    [ghost, outline, pin, here] = [null, "", null, null];
    byId("readout").textContent = "";
    return;
  }
  const now = data.stretches.flatMap(ends).join();
  if (outline && now !== outline && place.entry !== entry) ghost = place.entry === place.opened ? null : before;
  if (now !== outline) entry = place.entry;
  outline = now;
  for (const stop of [pin, here]) if (stop && stop.at >= data.stretches.length) [pin, here, zoom] = [null, null, [0, 1]];
  for (const stop of [pin, here]) if (stop) stop.done = Math.min(stop.done, data.stretches[stop.at][3] - 1);
  width ||= chart.clientWidth;
  frame();
  if (document.activeElement?.id !== "scan" && !home.matches(":hover")) here = null;
  if (pin) showPanel();
  look(here);
}

function ends([start, end, , repeats, first, last]) {
  return [[start, sum(first)], [end, sum(last ?? first)]];
}

// Where a part of the step lies in what is shown, from 0 to 1.
const within = (fraction) => (fraction - zoom[0]) / (zoom[1] - zoom[0]);
const outside = (fraction) => within(fraction) < -1e-6 || within(fraction) > 1 + 1e-6;

// Everything whose place depends on the zoom and on the width of the window.
function frame() {
  const [left, right] = data.plot;
  const svg = home.querySelector("svg.timeline");
  const view = `${1000 * zoom[0]} 0 ${1000 * (zoom[1] - zoom[0])} 1000`;
  svg.querySelector(":scope > svg").setAttribute("viewBox", view);
  const percent = (fraction) => `${left + (right - left) * within(fraction)}%`;
  const put = (element, names, fraction) => {
    for (const name of names) element.setAttribute(name, percent(fraction));
    element.setAttribute("visibility", outside(fraction) ? "hidden" : "inherit");
  };
  svg.querySelectorAll("line.phase").forEach((line, number) => put(line, ["x1", "x2"], data.phases[number][1]));
  const top = across(peak());
  put(svg.querySelector("circle.peak"), ["cx"], top);
  put(svg.querySelector("text.label"), ["x"], top);
  const anchor = within(top) > 0.79 ? "end" : within(top) < 0.22 ? "start" : "middle";
  svg.querySelector("text.label").setAttribute("text-anchor", anchor);
  namePhases(svg, percent);
  drawGhost(svg, view);
  byId("zoom-out").disabled = byId("zoom-reset").disabled = zoom[0] === 0 && zoom[1] === 1;
  mark(".pinned", pin);
  mark(".cross", here);
}

// How wide a text of a picture is; to measure it, the browser has to lay out the page.
const lengths = new Map();
function lengthOf(text) {
  const said = text.textContent;
  if (!lengths.has(said)) lengths.set(said, text.getComputedTextLength());
  return lengths.get(said);
}

// Names below the axis, the widest phase first, where there is room for them.
function namePhases(svg, percent) {
  if (!width) return; // out of sight: it is called again with a size
  const names = [...svg.querySelectorAll("text.name")];
  const sizes = names.map(lengthOf);
  const taken = [];
  const order = data.phases.map(([, start, end], number) => [Math.min(end, zoom[1]) - Math.max(start, zoom[0]), number]);
  for (const [visible, number] of order.sort(([one], [other]) => other - one)) {
    const [, start, end] = data.phases[number];
    const at = percent((Math.max(start, zoom[0]) + Math.min(end, zoom[1])) / 2);
    const middle = (parseFloat(at) / 100) * width;
    const from = Math.min(middle - sizes[number] / 2, width - sizes[number]);
    const to = from + sizes[number] + 8;
    const free = visible > 0 && !taken.some(([one, other]) => from < other && one < to);
    if (free) taken.push([from, to]);
    names[number].setAttribute("x", `${((from + sizes[number] / 2) / width) * 100}%`);
    names[number].setAttribute("visibility", free ? "inherit" : "hidden");
  }
}

function drawGhost(svg, view) {
  const [left, right] = data.plot;
  for (const each of svg.querySelectorAll(".ghost")) each.remove();
  if (!ghost) return;
  const note = document.createElementNS(SVG, "text");
  note.setAttribute("class", "ghost");
  note.setAttribute("x", `${left}%`);
  note.setAttribute("y", 12);
  note.textContent = said("ghost", { size: bytes(ghost.peak) });
  svg.append(note);
  const plot = svg.querySelector(":scope > svg");
  const copy = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  for (const name of ["y", "height", "preserveAspectRatio"]) copy.setAttribute(name, plot.getAttribute(name));
  copy.setAttribute("x", `${left}%`);
  copy.setAttribute("width", `${right - left}%`);
  copy.setAttribute("viewBox", view);
  copy.setAttribute("class", "ghost");
  copy.setAttribute("aria-hidden", "true");
  line.setAttribute("points", ghost.points.map(([x, y]) => `${1000 * x},${1000 - (1000 * y) / data.top}`).join(" "));
  copy.append(line);
  plot.after(copy);
}

// A line of the crosshair or of the pin, and the spot where it meets the curve.
function mark(selector, stop) {
  const line = byId("scan")?.querySelector(selector);
  if (!line) return;
  const shown = Boolean(stop) && !outside(across(stop));
  line.hidden = !shown;
  if (shown) line.style.left = `${100 * within(across(stop))}%`;
  if (selector !== ".cross") return;
  const spot = byId("scan").querySelector(".spot");
  spot.hidden = !shown;
  if (!shown) return;
  spot.style.left = line.style.left;
  spot.style.top = `${100 * (1 - sum(levels(stop)) / data.top)}%`;
}

// The crosshair goes to a moment, or away.
function look(stop) {
  here = stop && { ...stop };
  if (!data) return;
  mark(".cross", here);
  const shown = here ?? pin ?? peak();
  const text = said("moment-said", { name: nameOf(shown), size: bytes(sum(levels(shown))) });
  byId("readout").textContent = here ? text : "";
  byId("scan").setAttribute("aria-valuenow", numberOf(shown));
  byId("scan").setAttribute("aria-valuetext", text);
  if (!pin) showPanel();
}

// The list next to the picture: of the pinned moment, else of the crosshair's, else of the peak.
function showPanel() {
  const stop = pin ?? here ?? peak();
  const state = pin ? "moment-pinned" : here ? "moment-here" : "moment-peak";
  byId("moment").classList.toggle("held", Boolean(pin));
  byId("moment-state").textContent = word(state);
  byId("moment-unpin").hidden = !pin;
  byId("moment-name").textContent = nameOf(stop);
  const now = levels(stop);
  byId("moment-total").textContent = bytes(sum(now));
  [...byId("moment-kinds").children].forEach((row, kind) => {
    row.lastElementChild.textContent = bytes(now[kind]);
    row.classList.toggle("none", now[kind] < 1);
  });
  ask(stop);
}

// The tensors of a moment: one question at a time, of the newest moment only.
function ask(stop) {
  const key = `${version}:${stop.at}:${stop.done}:${Number(Boolean(pin))}`;
  if (!pin && !tensors.size && same(stop, peak())) tensors.set(key, byId("moment-tensors").innerHTML);
  if (tensors.has(key)) return fillIn(tensors.get(key));
  if (document.documentElement.dataset.state !== "live" || performance.now() - asked < LONG) return undefined;
  asked = performance.now();
  return send({ do: "moment", key, stretch: stop.at, done: stop.done, pinned: Boolean(pin) });
}

function fillIn(markup) {
  if (byId("moment-tensors").innerHTML !== markup) byId("moment-tensors").innerHTML = markup;
}

function answerMoment({ key, html }) {
  asked = -LONG;
  if (!data) return;
  if (key.startsWith(`${version}:`)) tensors.set(key, html);
  ask(pin ?? here ?? peak());
}

function setPin(stop) {
  pin = stop && !same(stop, pin) ? { ...stop } : null;
  mark(".pinned", pin);
  showPanel();
  if (!pin && document.activeElement === document.body) byId("scan").focus({ preventScroll: true });
}

const fractionOf = (event) => {
  const { left, width } = byId("scan").getBoundingClientRect();
  return zoom[0] + Math.min(1, Math.max(0, (event.clientX - left) / width)) * (zoom[1] - zoom[0]);
};

function pressed(event) {
  if (event.target.id !== "scan" || !event.isPrimary || event.button > 0) return;
  drag = { x: event.clientX, from: fractionOf(event), to: null, touch: event.pointerType === "touch" };
  byId("scan").setPointerCapture(event.pointerId);
  if (drag.touch) look(stopAt(drag.from));
}

function moved(event) {
  if (!data || (!drag && event.target.id !== "scan")) return;
  const at = fractionOf(event);
  if (drag && !drag.touch && Math.abs(event.clientX - drag.x) > DRAGGED) drag.to = at;
  if (drag) brush();
  const stop = stopAt(at);
  if (!same(stop, here)) look(stop);
}

function released(event) {
  if (!drag) return;
  const { from, to } = drag;
  drag = null;
  brush();
  if (to === null) setPin(stopAt(fractionOf(event)));
  else if (Math.abs(to - from) > 0.002) zoomTo(Math.min(from, to), Math.max(from, to));
}

// The span that is being drawn.
function brush() {
  const shade = byId("scan")?.querySelector(".brush");
  if (!shade) return;
  const spans = drag && drag.to !== null;
  shade.hidden = !spans;
  if (!spans) return;
  const [from, to] = [drag.from, drag.to].sort((one, other) => one - other);
  shade.style.left = `${100 * within(from)}%`;
  shade.style.width = `${100 * (within(to) - within(from))}%`;
}

function zoomTo(start, end) {
  zoom = [Math.max(0, start), Math.min(1, end)];
  frame();
}

// Around the crosshair, the pin or the peak.
function zoomBy(factor) {
  const width = Math.min(1, Math.max(0.01, (zoom[1] - zoom[0]) * factor));
  const middle = across(here ?? pin ?? peak());
  const start = Math.min(Math.max(0, middle - width / 2), 1 - width);
  zoomTo(start, start + width);
}

const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
const ZOOMS = { "+": 0.5, "=": 0.5, "-": 2 };

function keyed(event) {
  const { key, target } = event;
  if (target.id !== "scan" || event.ctrlKey || event.metaKey || event.altKey) return;
  const now = here ?? pin ?? peak();
  if (STEPS[key]) look(next(now, STEPS[key]));
  else if (key === "PageUp" || key === "PageDown") look(nextStretch(now, key === "PageUp" ? -1 : 1));
  else if (key === "Home") look({ at: 0, done: 0 });
  else if (key === "End") look({ at: data.stretches.length - 1, done: 0 });
  else if (key === "Enter" || key === " ") setPin(now);
  else if (ZOOMS[key]) zoomBy(ZOOMS[key]);
  else if (key === "Escape" && (drag || zoom[0] > 0 || zoom[1] < 1)) {
    drag = null;
    brush();
    zoomTo(0, 1);
  } else if (key === "Escape" && pin) setPin(null);
  else return;
  event.preventDefault();
  event.stopPropagation();
  if (here && outside(across(here))) zoomBy(1);
}

function next({ at, done }, by) {
  const to = done + by;
  if (to >= 0 && to < data.stretches[at][3]) return { at, done: to };
  const beyond = at + by;
  if (beyond < 0 || beyond >= data.stretches.length) return { at, done };
  return { at: beyond, done: by > 0 ? 0 : data.stretches[beyond][3] - 1 };
}

function nextStretch({ at }, by) {
  return { at: Math.min(data.stretches.length - 1, Math.max(0, at + by)), done: 0 };
}

// By how much the last edit changed what the GPU needs; while a number is dragged, against what it was before. Another job
// that is opened is compared with nothing.
let [edit, device, base] = [-1, 0, 0];
function compare() {
  const now = Number(byId("verdict").dataset.deviceBytes || 0);
  if (!now || now === device) return;
  if (place.entry !== edit) base = place.entry === place.opened ? 0 : device;
  [edit, device] = [place.entry, now];
  const change = now - base;
  const sign = change < 0 ? "−" : "+";
  byId("difference").textContent = base && change ? said("difference", { size: `${sign}${bytes(Math.abs(change))}` }) : "";
}
