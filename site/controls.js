// Turns what a user does into messages for Python, and remembers what is the user's own: theme, language, plans.
import { listenToFiles } from "./files.js";
import { draft, keep, keepSoon, language, own, recall, remember, whenOtherTabsKeep } from "./own.js";
import { listenToSizes } from "./sizes.js";
import { listenToTimeline } from "./timeline.js";
import { listenToTracks, numberOf } from "./tracks.js";
import {
  byId, control, copy, countEdit, drawAll, followNoMore, followNow, forget, jobOf, openAnother, place, push, readForm, save, say,
  select, show, showEmbedded, showHistory, showMini, showView, suffix, viewOf, word,
} from "./view.js";
import { expectAnother } from "./waiting.js";

const LONG = 8000; // characters of a link that some programs cut
let send = () => {};

export function listen(carrier) {
  send = carrier;
  recall();
  whenOtherTabsKeep(showOwn);
  showOwn();
  byId("log-text").value = draft().log ?? "";
  showMini();
  new IntersectionObserver(([seen]) => {
    byId("mini").classList.toggle("shown", !seen.isIntersecting && seen.boundingClientRect.bottom < 0);
  }).observe(byId("verdict"));
  listenToForm();
  listenToButtons();
  listenToPanels();
  listenToTimeline((message) => send(message));
  listenToTracks((message) => send(message));
  listenToSizes();
  listenToFiles((message) => send({ ...message, texts: readForm() }));
  addEventListener("popstate", () => open(location.hash));
  addEventListener("click", followNow, { capture: true });
  addEventListener("pagehide", followNow);
  addEventListener("beforeprint", beforePrint);
  document.addEventListener("keydown", pressed);
}

// The first message: the link of the address, else what is in the form by now; a draft if the form was left with one.
export function opening() {
  const { hash, texts: left } = draft();
  showView(viewOf(location.hash) || "overview");
  const touched = place.entry > 0;
  const texts = touched ? readForm() : hash === location.hash && left ? left : null;
  if (location.hash && !history.state?.depth && !hash) byId("shared").hidden = false;
  return { do: "start", link: jobOf(location.hash), texts, language: language(), entry: place.entry };
}

// Python begins again and knows nothing of what it was asked before: only the job that the page shows is told to it.
export function reopening(link) {
  for (const id of ["advice", "curve"]) byId(`${id}-earlier`).hidden = !byId(id).childElementCount;
  byId("reconciled").replaceChildren();
  forget("reconciled");
  if (!byId("drawer").hidden) closeDialog("drawer");
  if (!byId("cancel").hidden) show({ progress: null }, send);
  return { do: "start", again: true, link, language: language() };
}

// Asks again for what the page was opened with.
export function reopen({ link, texts }) {
  if (texts) send({ do: "edit", texts, entry: place.entry });
  else open(link);
}

// Another plan is another entry of the history, so that undo takes it back.
function follow(link) {
  push(link);
  open(link);
}

function open(link) {
  followNoMore();
  openAnother();
  place.shown = place.entry;
  keep({ hash: location.hash, texts: undefined }); // whoever goes back leaves what was edited since
  showHistory();
  showEmbedded(link);
  showView(viewOf(link) || byId("answer").dataset.view);
  send({ do: "open", link: jobOf(link) });
  expectAnother();
}

function edit(path) {
  countEdit(path);
  const texts = readForm();
  keepSoon({ hash: location.hash, texts });
  send({ do: "edit", path, texts, entry: place.entry });
}

// A whole question, or a command, in the place of the model.
function ask(value) {
  place.entry += 1;
  send({ do: "ask", value, texts: readForm(), entry: place.entry });
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
    if (event.target.dataset.find !== undefined) send({ do: "find", value: event.target.value });
    if (!settings(event)) return;
    if (fresh) place.entry += 1;
    fresh = false;
    edit(event.target.name);
  });
  form.addEventListener("change", (event) => {
    if (settings(event)) fresh = true;
    if (event.target.name === "model" && /\d.*\s.*\d|\d\D*[^\x00-\xff]|(?:\S+\s+){3}\S|\s\S+[/:]/u.test(event.target.value)) ask(event.target.value);
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
    remember({ groups: { ...own.groups, [group.id]: !group.open } });
  });
}

function listenToPanels() {
  byId("more").addEventListener("click", () => {
    byId("more").setAttribute("aria-expanded", String(byId("rest").classList.toggle("open")));
  });
  document.addEventListener("click", (event) => {
    if (event.target.id === "settings-close") closeSettings();
    if (!near(event, ".actions") || near(event, "#rest button:not(.square)")) closeMore();
  });
  document.addEventListener("toggle", ({ target }) => {
    if (target.id === "settings" && target.open && !byId("said").textContent) byId("find").focus({ preventScroll: true });
  }, { capture: true });
}

function closeMore() {
  byId("rest").classList.remove("open");
  byId("more").setAttribute("aria-expanded", "false");
}

function closeSettings() {
  byId("settings").open = false;
  byId("settings").querySelector("summary").focus({ preventScroll: true });
}

function showOwn() {
  byId("theme").value = own.theme;
  document.documentElement.dataset.theme = own.theme;
  byId("shortcuts").checked = own.shortcuts;
  showPlans();
}

// Arrow keys step counts: by a factor of two with powers of two, by one else; Escape takes the last edit back.
function stepped(event) {
  const { target, key } = event;
  if (key === "Escape" && target.name) {
    target.value = target.dataset.before ?? target.value;
    target.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (target.dataset?.step === undefined || !["ArrowUp", "ArrowDown"].includes(key)) return;
  event.preventDefault();
  step(target, key === "ArrowUp", event.shiftKey ? 10 : 0);
}

function step(field, up, by = 0) {
  const value = numberOf(field.value || field.placeholder);
  if (!Number.isInteger(value) || value < 1) return;
  const doubles = Math.log2(value) % 1 === 0 && !by;
  const next = doubles ? (up ? value * 2 : value / 2) : value + (up ? 1 : -1) * (by || 1);
  field.value = String(Math.max(1, Math.floor(next)));
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

// A button next to a number; each press is an edit of its own.
function nudge(field, up) {
  step(field, up);
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

// Dragging over users and context asks for what is passed.
function dragged({ target, buttons }) {
  const cell = buttons & 1 && target.closest?.("#crowd td button");
  if (cell && cell.getAttribute("aria-pressed") === "false") act(cell);
}

const near = (event, selector) => event.target.closest?.(selector);

function listenToButtons() {
  document.addEventListener("click", (event) => {
    const doing = near(event, "[data-do]");
    const part = near(event, "[data-part]");
    const opens = near(event, "[data-open]");
    const closes = near(event, "[data-close]");
    const goes = near(event, "[data-go]");
    const shows = near(event, "[data-show]");
    const nudges = near(event, "[data-nudge]");
    const plan = near(event, "a[href^='#v']:not([target]), [data-plan]"); // a dot of a picture is a link for the pointer alone
    if (nudges) nudge(control(nudges.dataset.path), nudges.dataset.nudge > 0);
    else if (doing) act(doing);
    else if (shows) turn(shows.dataset.show);
    else if (opens) openDialog(opens.dataset.open);
    else if (closes) closeDialog(closes.dataset.close);
    else if (near(event, "[data-undo]")) byId("undo").click();
    else if (near(event, "[data-renew]")) renew(near(event, "[data-renew]").dataset.renew);
    else if (near(event, "[data-sort]")) sort(near(event, "[data-sort]"));
    else if (near(event, "[data-copy]")) copyTable(near(event, "[data-copy]"));
    else if (plan) {
      event.preventDefault();
      follow(plan.dataset.plan ?? plan.getAttribute("href"));
    } else if (goes) {
      event.preventDefault();
      go(goes.dataset.go);
    } else if (part) explain(part);
  });
  document.addEventListener("mousedown", (event) => {
    if (near(event, "[data-nudge]")) event.preventDefault(); // the focus stays where it is
  });
  document.addEventListener("pointerover", dragged);
  document.addEventListener("pointerover", (event) => {
    const part = near(event, "#bar [data-part], .legend [data-part], #timeline [data-part], #ranks [data-part]");
    document.documentElement.classList.toggle("hovering", Boolean(part));
    hover(part?.dataset.part);
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.dataset?.change) return;
    place.entry += 1;
    send({ do: target.dataset.change, value: target.value, texts: readForm(), entry: place.entry });
  });
  byId("theme").addEventListener("change", ({ target }) => {
    document.documentElement.dataset.theme = target.value;
    remember({ theme: target.value });
  });
  byId("language").addEventListener("change", ({ target }) => {
    remember({ language: target.value });
    send({ do: "language", language: target.value, texts: readForm() });
  });
  byId("shortcuts").addEventListener("change", ({ target }) => {
    remember({ shortcuts: target.checked });
  });
  byId("log-text").addEventListener("input", ({ target }) => keep({ log: target.value.slice(0, 2 ** 18) }));
  byId("copy").addEventListener("click", copyLink);
  byId("undo").addEventListener("click", () => history.back());
  byId("redo").addEventListener("click", () => history.forward());
  byId("print").addEventListener("click", () => { closeDialog("exports"); print(); });
  byId("offline").addEventListener("click", offline);
  byId("plan-save").addEventListener("click", savePlan);
  byId("keep").addEventListener("click", () => { byId("shared").hidden = true; });
  byId("discard").addEventListener("click", () => {
    byId("shared").hidden = true;
    push(location.pathname + location.search);
    open("");
  });
}

// Opens a link with the newest version of the page; a version that is ready or comes takes over and reloads.
async function renew(link) {
  history.replaceState(history.state, "", link);
  const registration = await navigator.serviceWorker?.getRegistration();
  await registration?.update().catch(() => {});
  const next = registration?.waiting ?? registration?.installing;
  if (!next || !navigator.serviceWorker.controller) return location.reload();
  const takeOver = () => {
    if (next.state === "installed") next.postMessage("skipWaiting");
  };
  next.addEventListener("statechange", takeOver);
  return takeOver();
}

// On paper the form is what was set, and the link.
function beforePrint() {
  drawAll();
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

// What an action is shown in.
const LEADS = { advise: "plans", curve: "plans", search: "layouts", reconcile: "log", pin: "compare" };

function act(button) {
  if (button.dataset.close) closeDialog(button.dataset.close);
  if (button.dataset.do === "preset") openAnother();
  else place.entry += 1;
  if (LEADS[button.dataset.do]) showView(LEADS[button.dataset.do]);
  const more = button.dataset.with ? { value: byId(button.dataset.with).value } : {};
  if (button.dataset.also) more.also = byId(button.dataset.also).value;
  if (button.dataset.do === "exports") say(word("working"));
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
  showView(target.closest("[data-in]")?.dataset.in);
  for (let up = target.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  target.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
  target.focus({ preventScroll: true });
}

// A view that would be empty, or about an earlier job, is filled at once.
const FILLS = { plans: { advice: "advise", curve: "curve" } };
function turn(name) {
  showView(name);
  for (const [id, doing] of Object.entries(FILLS[name] ?? {})) {
    if (byId(id).childElementCount && byId(`${id}-earlier`).hidden) continue;
    if (!byId(id).childElementCount) show({ html: { [id]: `<p class="note">${word("working")}</p>` } }, send);
    act(document.querySelector(`#answer [data-do="${doing}"]`));
  }
}

const linkOfPage = () => location.href.split("#")[0] + (location.hash || `#${document.body.dataset.fragment}${suffix()}`);

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
  e: () => document.querySelector(".legend [data-part]")?.click(),
  f: () => document.querySelector("[data-do=search]").click(),
  a: () => document.querySelector("[data-do=advise]").click(),
  l: () => { showView("log"); byId("log-text").focus(); },
};

function pressed(event) {
  const { key, target } = event;
  if (key === "Escape") closeMore();
  if (key === "Escape" && byId("settings").contains(target) && !target.name) return closeSettings();
  if (key === "Escape" && !byId("drawer").hidden && !document.querySelector("dialog[open]")) closeDialog("drawer");
  const typing = target.matches?.(TYPING) && target.checkVisibility(); // what closed just now has the focus for one frame more
  if (typing || document.querySelector("dialog[open]")) return;
  if ((event.ctrlKey || event.metaKey) && ["z", "y"].includes(key)) {
    event.preventDefault();
    byId(key === "z" ? "undo" : "redo").click();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const cell = target.closest?.("#crowd td");
  if (cell && key.startsWith("Arrow")) {
    event.preventDefault();
    return beside(cell, key);
  }
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

// The same in a table: arrows move to the cell on that side.
function beside(cell, key) {
  const way = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[key];
  let row = way && cell.parentElement[way];
  while (row && !row.checkVisibility()) row = row[way];
  const side = { ArrowLeft: cell.previousElementSibling, ArrowRight: cell.nextElementSibling }[key];
  const next = (row ? row.cells[cell.cellIndex] : side)?.querySelector("button");
  if (!next) return;
  for (const each of cell.closest("table").querySelectorAll("td button")) each.tabIndex = each === next ? 0 : -1;
  next.focus();
}

function savePlan() {
  const name = byId("plan-name").value.trim() || control("model").value || "plan";
  const link = jobOf(location.hash) || `#${document.body.dataset.fragment}`;
  recall();
  const plans = [...own.plans.filter((plan) => plan?.name !== name), { name, link }].slice(-100);
  say(word(remember({ plans }) ? "plan-kept" : "plan-blocked"));
  showPlans();
}

function showPlans() {
  const list = byId("plans-list");
  list.replaceChildren();
  for (const plan of own.plans.filter((each) => String(each?.link).startsWith("#"))) {
    const item = document.createElement("li");
    const load = Object.assign(document.createElement("button"), { type: "button", textContent: String(plan.name) });
    const drop = Object.assign(document.createElement("button"), { type: "button", textContent: "✕", className: "square" });
    drop.setAttribute("aria-label", `${word("plan-drop")} ${plan.name}`);
    load.addEventListener("click", () => {
      closeDialog("plans");
      follow(String(plan.link));
    });
    drop.addEventListener("click", () => {
      remember({ plans: recall().plans.filter((each) => each?.name !== plan.name) });
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
