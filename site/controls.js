// Turns what a user does into messages for Python, and remembers what is the user's own: theme, language, plans.
import { byId, control, copy, place, save, say, select, showMini, word } from "./view.js";

const KEY = "memcore";
const LONG = 8000; // characters of a link that some programs cut
const own = { theme: "auto", language: "", shortcuts: true, plans: [], groups: {} };
let send = () => {};

export function listen(carrier) {
  send = carrier;
  Object.assign(own, stored(localStorageOf("localStorage")));
  byId("theme").value = own.theme;
  byId("shortcuts").checked = own.shortcuts;
  showPlans();
  showMini();
  new IntersectionObserver(([seen]) => {
    byId("mini").classList.toggle("shown", !seen.isIntersecting && seen.boundingClientRect.bottom < 0);
  }).observe(byId("verdict"));
  listenToForm();
  listenToButtons();
  listenToFiles();
  addEventListener("popstate", () => open(location.hash));
  addEventListener("beforeprint", beforePrint);
  document.addEventListener("keydown", pressed);
}

// Storage may be blocked, full or damaged: the page works without it.
function localStorageOf(name) {
  try {
    return window[name];
  } catch {
    return null;
  }
}

function stored(storage) {
  try {
    const found = JSON.parse(storage.getItem(KEY));
    return found && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

function store(storage, value) {
  try {
    storage.setItem(KEY, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

const remember = () => store(localStorageOf("localStorage"), own);

// The first message: the link of the address, else what is in the form by now; a draft if the form was left with one.
export function opening() {
  const language = own.language || (navigator.language?.startsWith("zh") ? "zh" : "en");
  const draft = stored(localStorageOf("sessionStorage"));
  const touched = place.entry > 0;
  const same = draft.hash === location.hash && draft.texts;
  const texts = touched ? readForm() : same ? draft.texts : null;
  if (location.hash && !history.state?.depth && !stored(localStorageOf("sessionStorage")).hash) byId("shared").hidden = false;
  return { do: "start", link: location.hash, texts, language, entry: place.entry };
}

// Another plan is another entry of the history, so that undo takes it back.
function follow(link) {
  history.pushState({ depth: (history.state?.depth ?? 0) + 1 }, "", link);
  open(link);
}

function open(link) {
  place.entry += 1;
  place.shown = place.entry;
  store(localStorageOf("sessionStorage"), { hash: location.hash }); // whoever goes back leaves what was edited since
  byId("undo").disabled = !history.state?.depth;
  send({ do: "open", link });
}

const readForm = () => Object.fromEntries(
  [...document.querySelectorAll("#config [name]")].filter((each) => each.value).map((each) => [each.name, each.value]),
);

function edit(path) {
  const texts = readForm();
  store(localStorageOf("sessionStorage"), { hash: location.hash, texts });
  send({ do: "edit", path, texts, entry: place.entry });
}

// Whether something was typed or chosen before any script ran.
const typed = (form) => [...form.querySelectorAll("[name]")].some(
  (each) => (each.options ? !each.selectedOptions[0]?.defaultSelected : each.value !== each.defaultValue),
);

function listenToForm() {
  const form = byId("config");
  const settings = (event) => event.target.name;
  place.entry = typed(form) ? 1 : 0;
  let fresh = true;
  form.addEventListener("input", (event) => {
    if (!settings(event)) return;
    if (fresh) place.entry += 1;
    fresh = false;
    edit(event.target.name);
  });
  form.addEventListener("change", (event) => {
    if (settings(event)) fresh = true;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    fresh = true;
  });
  form.addEventListener("focusin", ({ target }) => {
    if (target.name) target.dataset.before = target.value;
  });
  form.addEventListener("keydown", stepped);
  document.addEventListener("click", (event) => {
    const group = near(event, "summary")?.parentElement;
    if (!group?.id.startsWith("group-")) return;
    own.groups = { ...own.groups, [group.id]: !group.open };
    remember();
  });
}

// Arrow keys step counts: by a factor of two with powers of two, by one else; Escape takes the last edit back.
function stepped(event) {
  const { target, key } = event;
  if (key === "Escape" && target.name) {
    target.value = target.dataset.before ?? target.value;
    target.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (target.dataset?.step === undefined || !["ArrowUp", "ArrowDown"].includes(key)) return;
  const value = Number(target.value || target.placeholder);
  if (!Number.isInteger(value) || value < 1) return;
  event.preventDefault();
  const doubles = (value & (value - 1)) === 0 && !event.shiftKey;
  const up = key === "ArrowUp";
  const next = doubles ? (up ? value * 2 : value / 2) : value + (up ? 1 : -1) * (event.shiftKey ? 10 : 1);
  target.value = String(Math.max(1, Math.floor(next)));
  target.dispatchEvent(new Event("input", { bubbles: true }));
}

const near = (event, selector) => event.target.closest?.(selector);

function listenToButtons() {
  document.addEventListener("click", (event) => {
    const doing = near(event, "[data-do]");
    const part = near(event, "[data-part]");
    const opens = near(event, "[data-open]");
    const closes = near(event, "[data-close]");
    const goes = near(event, "[data-go]");
    const plan = near(event, "a[href^='#v']");
    if (doing) act(doing);
    else if (opens) openDialog(opens.dataset.open);
    else if (closes) closeDialog(closes.dataset.close);
    else if (near(event, "[data-sort]")) sort(near(event, "[data-sort]"));
    else if (near(event, "[data-copy]")) copyTable(near(event, "[data-copy]"));
    else if (plan) {
      event.preventDefault();
      follow(plan.getAttribute("href"));
    } else if (goes) {
      event.preventDefault();
      go(goes.dataset.go);
    } else if (part) explain(part);
  });
  document.addEventListener("pointerover", (event) => {
    const part = near(event, "#bar [data-part], #legend [data-part], #timeline [data-part], #ranks [data-part]");
    document.documentElement.classList.toggle("hovering", Boolean(part));
    hover(part?.dataset.part);
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.dataset?.change) return;
    place.entry += 1;
    send({ do: target.dataset.change, value: target.value, texts: readForm(), entry: place.entry });
  });
  byId("theme").addEventListener("change", ({ target }) => {
    own.theme = target.value;
    document.documentElement.dataset.theme = target.value;
    remember();
  });
  byId("language").addEventListener("change", ({ target }) => {
    own.language = target.value;
    remember();
    send({ do: "language", language: target.value, texts: readForm() });
  });
  byId("shortcuts").addEventListener("change", ({ target }) => {
    own.shortcuts = target.checked;
    remember();
  });
  byId("copy").addEventListener("click", copyLink);
  byId("undo").addEventListener("click", () => history.back());
  byId("redo").addEventListener("click", () => history.forward());
  byId("print").addEventListener("click", () => { closeDialog("exports"); print(); });
  byId("offline").addEventListener("click", offline);
  byId("plan-save").addEventListener("click", savePlan);
  byId("keep").addEventListener("click", () => { byId("shared").hidden = true; });
  byId("discard").addEventListener("click", () => {
    byId("shared").hidden = true;
    history.pushState({ depth: 1 }, "", location.pathname + location.search);
    open("");
  });
  byId("hub-fetch").addEventListener("click", fetchFromHub);
}

// On paper the form is what was set, and the link.
function beforePrint() {
  const given = [...document.querySelectorAll("#config .field[data-origin]:not([data-origin=default])")];
  const set = given.map((field) => `${field.querySelector("label").textContent}: ${field.querySelector("[name]").value}`);
  byId("printed").textContent = [...set, linkOfPage()].join(" · ");
}

// Rows by a column, the other way round at the second click.
function sort(button) {
  const column = Number(button.dataset.sort);
  const head = button.closest("th");
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const each of head.parentElement.children) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = head.closest("table").tBodies[0];
  const value = (row) => exactly(row.children[column]);
  const order = (one, other) => Number(one) - Number(other) || one.localeCompare(other, undefined, { numeric: true });
  const rows = [...body.rows].sort((one, other) => (down ? -1 : 1) * order(value(one), value(other)));
  body.append(...rows);
}

// What a cell says, with exact bytes where it shows fewer digits.
function exactly(cell) {
  const digits = cell.querySelector("span[title]")?.title.replace(/\D/gu, "");
  return cell.dataset.value ?? (digits || cell.textContent.trim().replace(/^[\d,]+$/u, (number) => number.replaceAll(",", "")));
}

async function copyTable(button) {
  const { rows } = button.parentElement.previousElementSibling;
  const text = [...rows].map((row) => [...row.cells].map(exactly).join("\t")).join("\n");
  if (!await copy(text, word("table-copied"))) say(word("copy-failed"));
}

let hovered;
function hover(part) {
  if (part === hovered) return;
  hovered = part;
  for (const each of document.querySelectorAll("[data-part]")) {
    each.classList.toggle("hovered", Boolean(part) && each.dataset.part === part);
  }
}

function act(button) {
  if (button.dataset.close) closeDialog(button.dataset.close);
  place.entry += 1;
  const more = button.dataset.with ? { value: byId(button.dataset.with).value } : {};
  if (button.dataset.also) more.also = byId(button.dataset.also).value;
  if (button.dataset.path && button.dataset.do === "set") control(button.dataset.path)?.focus(); // the button goes away
  send({ ...button.dataset, ...more, texts: readForm(), entry: place.entry, base: location.href.split("#")[0] });
}

function explain(element) {
  const { part } = element.dataset;
  place.view = element.closest("#bar, #legend, #timeline, #ranks, #compare")?.id ?? "bar";
  const again = place.part === part && !byId("drawer").hidden;
  if (again) return closeDialog("drawer");
  select(part);
  return send({ do: "explain", part });
}

function openDialog(id) {
  if (id === "plans") showPlans();
  const dialog = byId(id);
  if (!dialog.open) dialog.showModal();
}

function closeDialog(id) {
  const found = byId(id);
  if (found.tagName === "DIALOG") found.close();
  else {
    found.hidden = true;
    document.querySelector(`#${place.view ?? "bar"} [data-part="${CSS.escape(place.part ?? "")}"]`)?.focus({ preventScroll: true });
    select(undefined);
    send({ do: "explain", part: "" });
  }
}

function go(id) {
  const target = byId(id);
  for (let up = target.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  target.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
  target.focus({ preventScroll: true });
}

const linkOfPage = () => location.href.split("#")[0] + (location.hash || `#${document.body.dataset.fragment}`);

async function copyLink() {
  const link = linkOfPage();
  if (await copy(link, word(link.length > LONG ? "copied-long" : "copied"))) return;
  history.replaceState(history.state, "", link);
  say(word("copy-failed"));
}

const TYPING = "input, select, textarea, [contenteditable]";
const KEYS = {
  "?": () => openDialog("help"),
  "/": () => control("model").focus(),
  u: () => byId("undo").click(),
  r: () => byId("redo").click(),
  s: () => byId("copy").click(),
  c: () => document.querySelector("[data-do=pin]").click(),
  x: () => document.querySelector("[data-do=exports]").click(),
  i: () => openDialog("import"),
  p: () => openDialog("presets"),
  e: () => document.querySelector("#legend [data-part]")?.click(),
  f: () => document.querySelector("[data-do=search]").click(),
  a: () => document.querySelector("[data-do=advise]").click(),
  l: () => byId("log-text").focus(),
};

function pressed(event) {
  const { key, target } = event;
  if (key === "Escape" && !byId("drawer").hidden && !document.querySelector("dialog[open]")) closeDialog("drawer");
  if (target.matches?.(TYPING) || document.querySelector("dialog[open]")) return;
  if ((event.ctrlKey || event.metaKey) && ["z", "y"].includes(key)) {
    event.preventDefault();
    byId(key === "z" ? "undo" : "redo").click();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const part = target.closest?.("[data-part][tabindex]");
  if (part && ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(key)) {
    event.preventDefault();
    rove(part, ["ArrowRight", "ArrowDown"].includes(key) ? 1 : -1);
  } else if (part && ["Enter", " "].includes(key) && part.tagName !== "BUTTON") {
    event.preventDefault();
    explain(part);
  } else if (own.shortcuts && KEYS[key]) {
    event.preventDefault();
    KEYS[key]();
  }
}

// One stop of the Tab key for each view; arrows move between its parts.
function rove(part, by) {
  const all = [...part.closest("svg, ul").querySelectorAll("[data-part][tabindex]")];
  const next = all[(all.indexOf(part) + by + all.length) % all.length];
  for (const each of all) each.setAttribute("tabindex", each === next ? "0" : "-1");
  next.focus({ preventScroll: true });
}

function listenToFiles() {
  // Several files at once are one job, such as a config.json and a config of DeepSpeed.
  const take = async (list) => {
    const files = [...list].slice(0, 8);
    const large = files.find((file) => file.size > 2 ** 22);
    if (large) say(`${large.name}: > 4 MiB`);
    else if (files.length) receive(files.map((file) => file.name).join(", "), await Promise.all(files.map(readText)));
  };
  for (const id of ["import-file", "file"]) {
    document.addEventListener("change", ({ target }) => { if (target.id === id) take(target.files); });
  }
  byId("log-file").addEventListener("change", ({ target }) => takeLog(target.files[0]));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    const { files } = event.dataTransfer;
    if (near(event, "#reconcile-part")) takeLog(files[0]);
    else take(files);
  });
  addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (event.target.matches?.(TYPING) || text.length < 8) return;
    receive(word("pasted"), [text]);
  });
  byId("import-take").addEventListener("click", () => receive(word("pasted"), [byId("import-text").value]));
}

// A log goes into its field, from where it is compared; of a long one what can be read of it.
async function takeLog(file) {
  if (!file) return;
  byId("log-text").value = await file.slice(0, 2 ** 22).text();
  document.querySelector("[data-do=reconcile]").click();
}

// Text as it is; of a PNG the text chunk in which its config was saved.
async function readText(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const text = new TextDecoder().decode(bytes);
  if (bytes[0] !== 0x89) return text;
  const length = new DataView(bytes.buffer).getUint32(33);
  return new TextDecoder().decode(bytes.slice(41, 41 + length)).replace(/^memcore\0/u, "");
}

function receive(name, files) {
  place.entry += 1;
  send({ do: "import", name, files, texts: readForm(), entry: place.entry });
}

// The only request to another place, and only at a click: a public config.json of the model hub.
async function fetchFromHub() {
  const id = byId("hub-id").value.trim();
  const error = byId("import-error");
  error.textContent = "";
  if (!/^[\w.-]+\/[\w.-]+$/u.test(id)) {
    error.textContent = word("hub-wrong");
    return;
  }
  try {
    const options = { credentials: "omit", referrerPolicy: "no-referrer" };
    const answer = await fetch(`https://huggingface.co/${id}/resolve/main/config.json`, options);
    if (!answer.ok) throw new Error(`${answer.status}`);
    receive(id, [await answer.text()]);
  } catch (failure) {
    error.textContent = `${word("hub-failed")} ${failure.message}`;
  }
}

function savePlan() {
  const name = byId("plan-name").value.trim() || control("model").value || "plan";
  const link = location.hash || `#${document.body.dataset.fragment}`;
  own.plans = [...own.plans.filter((plan) => plan.name !== name), { name, link }].slice(-100);
  say(word(remember() ? "plan-kept" : "plan-blocked"));
  showPlans();
}

function showPlans() {
  const list = byId("plans-list");
  list.replaceChildren();
  for (const plan of Array.isArray(own.plans) ? own.plans : []) {
    const item = document.createElement("li");
    const load = Object.assign(document.createElement("button"), { type: "button", textContent: String(plan.name) });
    const drop = Object.assign(document.createElement("button"), { type: "button", textContent: "✕", className: "square" });
    drop.setAttribute("aria-label", `${word("plan-drop")} ${plan.name}`);
    load.addEventListener("click", () => {
      closeDialog("plans");
      follow(String(plan.link));
    });
    drop.addEventListener("click", () => {
      own.plans = own.plans.filter((each) => each !== plan);
      remember();
      showPlans();
      byId("plan-name").focus();
    });
    item.append(load, drop);
    list.append(item);
  }
}

// Everything that the page is made of, as one archive; files come from the cache where they are there.
async function offline() {
  say(word("offline-wait"));
  const { zip } = await import("./zip.js");
  save(URL.createObjectURL(await zip()), "memcore-offline.zip");
}
