// Puts what Python sends into the page. Markup comes from memcore, which escapes every text that it was given.
import { draft, keep } from "./own.js";

// What is shown by modules of its own, by the kind of patch.
const others = {};
export const shownBy = (kind, show) => { others[kind] = show; };

export const byId = (id) => document.getElementById(id);
export const control = (path) => document.querySelector(`[name="${CSS.escape(path)}"]`);

export const readForm = () => Object.fromEntries(
  [...byId("config").elements].filter((each) => each.name && each.value).map((each) => [each.name, each.value]),
);

// The entry of the history that the last answer belongs to, and that with which another job was opened; another edit gets
// another entry.
export const place = { entry: 0, shown: -1, opened: 0 };

// How often Python has filled the form and the user has edited it: messages say both, so that neither undoes the other.
const typed = new Map();
export const counts = () => ({ fills: place.fills, edits: place.edits ?? 0 });
export const countEdit = (name) => typed.set(name, place.edits = (place.edits ?? 0) + 1);
const kept = new Map();

// Another job is opened, not edited: its answer is compared with nothing.
export const openAnother = () => { place.opened = place.entry += 1; };

// The part of the answer that is in sight; links carry it, so that they open what was looked at. A link for a frame in
// another page shows the verdict and the pictures alone.
const VIEW = /&view=(\w+)$/u;
const EMBED = /[#&]embed$/u;
export const embedded = () => "embed" in document.documentElement.dataset;
export function showEmbedded(link) {
  document.documentElement.toggleAttribute("data-embed", EMBED.test(link));
}
const view = () => byId("answer").dataset.view;
export const suffix = () => (embedded() ? "&embed" : view() === "overview" ? "" : `&view=${view()}`);
export const jobOf = (link) => link.replace(VIEW, "").replace(EMBED, "");
export function showView(name) {
  const buttons = [...document.querySelectorAll("#jump [data-show]")];
  if (!buttons.some((each) => each.dataset.show === name)) return;
  byId("answer").dataset.view = name;
  drawAll();
  for (const each of buttons) {
    if (each.dataset.show === name) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
  bringIntoSight(document.querySelector(`#jump [data-show="${CSS.escape(name)}"]`));
  if (location.hash) history.replaceState(history.state, "", jobOf(location.hash) + suffix());
}
// In a narrow window the row of views goes on to the side.
function bringIntoSight(button) {
  const row = button.parentElement;
  row.scrollLeft += button.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - button.offsetWidth) / 2;
}
export const viewOf = (link) => VIEW.exec(link)?.[1] ?? "";
let words = JSON.parse(document.body.dataset.words);
export const word = (key) => words[key] ?? "";

// What Python says of this part next is shown, even if it is what it said last.
export const forget = (id) => kept.delete(id);

export function show(patch, send) {
  for (const [kind, content] of Object.entries(patch)) (SHOW[kind] ?? others[kind])?.(content, patch, send);
  dispatchEvent(new Event("memcore:shown"));
}

// What an answer is shown in, piece by piece: each is of the job before until its own piece has come.
const PARTS = "bar used legend readings timeline stages moments ranks ledger assumptions model-view compare reconciled".split(" ");

// Long parts of views that are out of sight are drawn when they come into sight, or when nothing has been edited for a
// moment: while a number is dragged, only what is seen is drawn.
const LONG_PARTS = new Set(["ledger", "readings", "assumptions", "model-view"]);
const PAUSE = 150; // milliseconds
const undrawn = new Map();
let drawing = 0;
const isSeen = (home) => home.closest("[data-in]")?.dataset.in === view();
export function drawAll() {
  clearTimeout(drawing);
  const parts = [...undrawn];
  undrawn.clear();
  for (const [id, markup] of parts) draw(id, markup);
  if (parts.length) select(place.part);
}

function draw(id, markup) {
  const home = byId(id);
  home?.classList.remove("before");
  if (!home || kept.get(id) === markup) return;
  const folds = [...home.querySelectorAll("details[id]")].map((each) => [each.id, each.open]);
  const focused = whereIn(home, document.activeElement);
  home.innerHTML = markup;
  for (const inner of home.querySelectorAll("[id]")) kept.delete(inner.id); // is drawn anew, whatever it said
  kept.set(id, markup);
  for (const [name, open] of folds) if (byId(name)) byId(name).open = open;
  if (focused) again(home, focused).focus({ preventScroll: true });
  if (SPOKEN.includes(id)) announce(() => `${title(home)}: ${home.querySelector(":scope > p")?.textContent ?? word("ready")}`);
}

const SHOW = {
  live() {
    byId("progress").hidden = true;
    document.documentElement.dataset.state = "live";
    dispatchEvent(new Event("memcore:live"));
  },
  language(code, patch) {
    document.documentElement.lang = code === "zh" ? "zh-CN" : code;
    byId("language").value = code;
    byId("guide").href = `./docs/guide/${code === "en" ? "" : `${code}/`}index.html`;
    words = patch.words;
    for (const each of document.querySelectorAll("[data-t]")) each.textContent = patch.words[each.dataset.t] ?? "";
    for (const each of document.querySelectorAll("[data-t-label]")) {
      each.setAttribute("aria-label", patch.words[each.dataset.tLabel] ?? "");
    }
  },
  values(values, { fills, edits }) {
    place.fills = fills;
    for (const each of document.querySelectorAll("#config [name]")) {
      if ((typed.get(each.name) ?? 0) <= (edits ?? Infinity)) each.value = values[each.name] ?? "";
    }
    if (draft().texts) keep({ texts: readForm() });
  },
  html(parts) {
    for (const [id, markup] of Object.entries(parts)) {
      if (LONG_PARTS.has(id) && !isSeen(byId(id))) undrawn.set(id, markup);
      else draw(id, markup);
    }
    select(place.part);
    clearTimeout(drawing);
    if (undrawn.size) drawing = setTimeout(drawAll, PAUSE);
  },
  hidden(parts) {
    for (const [id, hidden] of Object.entries(parts)) if (byId(id)) byId(id).hidden = hidden;
    if (parts.problems === false) announce(() => byId("problems").textContent);
  },
  attributes(values) {
    for (const [name, value] of Object.entries(values)) byId("verdict").setAttribute(name, value);
    if (values["data-phase"]) offerLayouts(values["data-phase"] !== "serving");
  },
  task(name) {
    byId("task").value = name;
  },
  answered(whole, _, send) {
    if (whole) showMini();
    if (whole && document.documentElement.dataset.state === "live") announce(() => byId("verdict").querySelector(".headline")?.textContent);
    document.documentElement.dataset.answer = whole ? "whole" : "coming";
    for (const id of PARTS) byId(id)?.classList.toggle("before", !whole || undrawn.has(id));
    askForWays(whole, send);
  },
  found(paths) {
    for (const fold of document.querySelectorAll("#panel details.group, #panel details.more")) unfold(fold, paths);
    for (const field of document.querySelectorAll("#panel .field")) {
      field.classList.toggle("other", Boolean(paths) && !paths.includes(field.querySelector("[name]")?.name));
    }
    byId("panel").classList.toggle("finding", Boolean(paths));
  },
  text(parts) {
    for (const [id, text] of Object.entries(parts)) if (byId(id)) byId(id).textContent = text;
  },
  stale(stale) {
    document.querySelector("main").classList.toggle("stale", stale);
  },
  fields(fields) {
    for (const [path, field] of Object.entries(fields)) showField(path, field);
    // What is wrong with a word of the sentence is said below it: the list next to the verdict would only repeat it.
    const said = byId("said").querySelectorAll(".error:not(:empty)").length;
    byId("problems").classList.toggle("unseen", said > 0 && said === byId("problems").querySelectorAll("li").length);
    if (!Object.values(fields).some((field) => "hidden" in field)) return;
    for (const group of document.querySelectorAll("#config .group, #config details.more")) {
      group.hidden = !group.querySelector(".field:not([hidden])");
    }
  },
  fragment(fragment, patch) {
    // The browser takes its time with its history: the answer is shown before, and while a number is dragged, the address
    // of the last answer alone is kept.
    if (following?.entry !== patch.entry) followNow();
    clearTimeout(following?.timer);
    const timer = setTimeout(followNow, patch.entry === place.shown ? PAUSE : 0);
    following = { fragment, patch, entry: patch.entry, timer };
  },
  open(id) {
    const dialog = byId(id);
    say("");
    if (dialog.tagName === "DIALOG") dialog.open || dialog.showModal();
    else dialog.hidden = false;
  },
  close(id) {
    const dialog = byId(id);
    if (dialog.tagName === "DIALOG") dialog.close();
    else dialog.hidden = true;
  },
  focus(id) {
    byId(id)?.focus();
  },
  pins(links) {
    keep({ pins: links });
  },
  hub(detail) {
    dispatchEvent(new CustomEvent("memcore:hub", { detail }));
  },
  say,
  copy(text, patch) {
    copy(text, patch.done);
  },
  download(file) {
    const url = URL.createObjectURL(new Blob([file.text], { type: file.type }));
    save(url, file.name);
  },
  picture(file) {
    rasterize(file).catch((error) => say(String(error)));
  },
  progress(done) {
    const bar = byId("search-progress");
    const left = document.activeElement === byId("cancel") && done === null;
    bar.hidden = byId("cancel").hidden = done === null;
    if (left) document.querySelector("[data-do=search]").focus({ preventScroll: true });
    if (done !== null) bar.value = done;
    else announce(() => `${title(bar)}: ${byId("search-status").textContent}`);
  },
};

// A server has no layouts to search: its plans say how to split it.
function offerLayouts(offered) {
  document.querySelector("#jump [data-show=layouts]").hidden = !offered;
  if (!offered && view() === "layouts") showView("plans");
}

// Whatever is found in a folded group is seen, and afterwards the group is as it was.
function unfold(fold, paths) {
  fold.dataset.was ??= String(fold.open);
  const hit = paths && [...fold.querySelectorAll("[name]")].some(({ name }) => paths.includes(name));
  fold.open = paths ? Boolean(hit) : fold.dataset.was === "true";
  if (!paths) delete fold.dataset.was;
}

// Plans and free room are asked for when an answer has come to rest; those of the job before are dimmed until then.
const REST = 100; // milliseconds
let resting = 0;
function askForWays(whole, send) {
  clearTimeout(resting);
  if (embedded()) return;
  byId("ways").classList.add("before");
  if (whole) resting = setTimeout(() => send({ do: "ways" }), REST);
}

// Where the focus is in what is about to be drawn anew, and the same place in what has been drawn.
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
function whereIn(home, element) {
  if (!home.contains(element) || element === home) return null;
  const fold = element.tagName === "SUMMARY" ? element.parentElement.id : "";
  return { part: element.dataset.part, fold, number: [...home.querySelectorAll(FOCUSABLE)].indexOf(element) };
}

function again(home, { part, fold, number }) {
  const all = [...home.querySelectorAll(FOCUSABLE)];
  const same = (part && home.querySelector(`[data-part="${CSS.escape(part)}"]`)) || (fold && byId(fold)?.firstElementChild);
  return same || all[Math.min(number, all.length - 1)] || home.closest("[tabindex]") || document.querySelector("[data-do=pin]");
}

// What changes is said once, when it has come to rest.
const SPOKEN = ["advice", "curve", "reconciled"];
let voice = 0;
export function announce(text) {
  clearTimeout(voice);
  voice = setTimeout(() => { byId("spoken").textContent = text() ?? ""; }, 500);
}

const title = (element) => element.closest("section").querySelector("h2").textContent;

// The verdict in one line, for narrow windows in which the verdict is out of sight.
export function showMini() {
  const { level, deviceBytes, capacityBytes } = byId("verdict").dataset;
  byId("mini").dataset.level = level;
  byId("mini-text").textContent = byId("verdict").querySelector(".headline")?.textContent ?? "";
  byId("mini-bar").hidden = !capacityBytes;
  byId("mini-bar").value = Math.min(1, Number(deviceBytes || 0) / Number(capacityBytes || 1));
}

// The address that is due is shown at once.
let following = null;
export function followNow() {
  if (!following) return;
  const { fragment, patch, timer } = following;
  clearTimeout(timer);
  following = null;
  follow(fragment, patch);
}

// Another address has been opened meanwhile.
export function followNoMore() {
  clearTimeout(following?.timer);
  following = null;
}

// The address of an answer, and an entry of the history for each finished edit.
function follow(fragment, patch) {
  const hash = `#${fragment}${suffix()}`;
  const moves = patch.entry != null && location.hash !== hash;
  if (moves) {
    const fresh = patch.entry !== place.shown;
    if (fresh) push(hash);
    else history.replaceState(history.state, "", hash);
    keep({ hash, texts: undefined }); // the address says it now
  }
  document.body.dataset.fragment = fragment;
  byId("unembed").href = `#${fragment}`;
  if (moves || patch.entry == null) place.shown = patch.entry ?? place.entry;
  showHistory();
}

// Undo and redo go through the history of this tab, whose entries know how deep they are.
export function push(link) {
  const depth = (history.state?.depth ?? 0) + 1;
  history.pushState({ depth }, "", link);
  keep({ furthest: depth });
}

export function showHistory() {
  if (!history.state) { // opened, or came to by its address: nothing is ahead of it
    history.replaceState({ depth: 0 }, "");
    keep({ furthest: 0 });
  }
  const { depth } = history.state;
  byId("undo").disabled = !depth;
  byId("redo").disabled = depth >= (draft().furthest ?? 0);
}

function showField(path, field) {
  const input = control(path);
  if (!input) return;
  const holder = input.closest(".field");
  if (path === "model-json" && field.error) byId("paste").open = true;
  if ("hidden" in field) holder.hidden = field.hidden;
  if ("default" in field) {
    if (input.tagName === "SELECT") input.options[0].textContent = field.default;
    else input.placeholder = field.default;
  }
  if ("origin" in field) {
    holder.dataset.origin = field.origin;
    const chip = byId(`${input.id}-origin`);
    if (chip) chip.hidden = field.origin === "default";
    if (chip) chip.firstChild.textContent = word(`origin-${field.origin}`);
  }
  if ("flag" in field) byId(`${input.id}-flag`).textContent = field.flag;
  if ("note" in field) byId(`${input.id}-note`).innerHTML = field.note;
  if ("error" in field) {
    byId(`${input.id}-error`).innerHTML = field.error;
    if (field.error) {
      input.setAttribute("aria-invalid", "true");
      for (let up = holder.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
    } else input.removeAttribute("aria-invalid");
  }
}

// The same component in every view: bar, legend, step, ranks and ledger.
let isSelected = false;
export function select(part) {
  place.part = part;
  if (!part && !isSelected) return; // nothing is chosen in what Python sends
  isSelected = Boolean(part);
  for (const each of document.querySelectorAll("[data-part]")) {
    const chosen = each.dataset.part === part;
    each.classList.toggle("chosen", chosen);
    each.classList.toggle("dim", Boolean(part) && !chosen);
    if (each.hasAttribute("aria-pressed")) each.setAttribute("aria-pressed", String(chosen));
  }
}

let hush = 0;
export function say(text) {
  byId("notice").textContent = text;
  byId("toast").classList.toggle("shown", Boolean(text));
  clearTimeout(hush);
  if (text) hush = setTimeout(() => byId("toast").classList.remove("shown"), Math.max(4000, 60 * text.length));
}

export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
    return true;
  } catch {
    return false;
  }
}

export function save(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// An SVG as a PNG, larger by a scale for sharp screens; the config goes into a text chunk.
async function rasterize({ svg, name, width, height, scale, note }) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: scale * width, height: scale * height });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  save(URL.createObjectURL(withText(new Uint8Array(await blob.arrayBuffer()), "memcore", note)), name);
}

const CRC = Uint32Array.from({ length: 256 }, (_, number) => {
  let value = number;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});

// PNG with a tEXt chunk after its header, which always takes 33 bytes.
function withText(png, keyword, text) {
  const body = new TextEncoder().encode(`tEXt${keyword}\0${text}`);
  let crc = 0xffffffff;
  for (const byte of body) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  const number = (value) => new Uint8Array([value >>> 24, value >>> 16, value >>> 8, value]);
  const parts = [png.slice(0, 33), number(body.length - 4), body, number((crc ^ 0xffffffff) >>> 0), png.slice(33)];
  return new Blob(parts, { type: "image/png" });
}
