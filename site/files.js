// Files and texts from outside: dropped, pasted, chosen, or fetched from the model hub at a click.
import { header, isCheckpoint } from "./headers.js";
import { byId, forget, openAnother, place, say, shownBy, word } from "./view.js";

const DENIED = new Set([401, 403, 404]); // how the hub answers about what it does not show to everybody
const MOST = 2 ** 24; // bytes of a text: indices of checkpoints with many experts have up to ten million
let send = () => {};

export function listenToFiles(carrier) {
  send = carrier;
  // Several files at once are one job, such as a config.json and a config of DeepSpeed.
  const take = async (list) => {
    const files = [...list].slice(0, 8);
    const large = files.find((file) => file.size > MOST && !isCheckpoint(file.name));
    if (large) return refuse("too-large", large.name);
    try {
      if (files.length) receive(files.map((file) => file.name), await Promise.all(files.map(readText)));
    } catch (error) {
      say(error.message);
    }
  };
  for (const id of ["import-file", "file"]) {
    document.addEventListener("change", ({ target }) => { if (target.id === id) take(target.files); });
  }
  byId("log-file").addEventListener("change", ({ target }) => takeLog(target.files[0]));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    const { files } = event.dataTransfer;
    if (event.target.closest?.("#reconcile-part")) takeLog(files[0]);
    else take(files);
  });
  addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    const lines = event.target.name === "model" && /\n/u.test(text.trim()); // a field of one line would join them
    if (!lines && (event.target.matches?.("input, select, textarea") || text.length < 8)) return;
    event.preventDefault();
    receive([word("pasted")], [text]);
  });
  shownBy("log", compareLog); // a file turned out to be one
  byId("hub-fetch").addEventListener("click", () => send({ do: "hub", id: byId("hub-id").value.trim() }));
  document.addEventListener("click", ({ target }) => {
    const id = target.closest?.("[data-hub]")?.dataset.hub;
    if (!id) return;
    byId("import").showModal();
    byId("hub-id").value = id;
    byId("hub-fetch").click();
  });
  addEventListener("memcore:hub", ({ detail }) => fetchFromHub(detail));
  byId("import-take").addEventListener("click", () => receive([word("pasted")], [byId("import-text").value]));
}

// A log goes into its field, from where it is compared; of a long one what can be read of it.
async function takeLog(file) {
  if (file) compareLog(await file.slice(0, 2 ** 22).text());
}

function compareLog(text) {
  byId("log-text").value = text;
  document.querySelector("[data-do=reconcile]").click();
}

// Text as it is; of a PNG the text chunk in which its config was saved; of a checkpoint its header.
async function readText(file) {
  if (isCheckpoint(file.name)) {
    return header(file.name, async (from, to) => new Uint8Array(await file.slice(from, to).arrayBuffer()));
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const text = new TextDecoder().decode(bytes);
  if (bytes[0] !== 0x89) return text;
  const length = new DataView(bytes.buffer).getUint32(33);
  const [, held] = new TextDecoder().decode(bytes.slice(41, 41 + length)).split(/^memcore\0/u);
  return held ?? text;
}

function receive(names, files) {
  blame("");
  openAnother();
  send({ do: "import", name: names.join(", "), names, files, entry: place.entry });
}

// What is wrong is said in the dialog where it is open, and elsewhere as a notice.
function blame(text) {
  forget("import-error");
  byId("import-error").textContent = text;
}

function refuse(key, name) {
  const text = word(key).replace("{name}", name);
  if (byId("import").open) blame(text);
  else say(text);
}

// The only requests to another place, and only at a click: Python says which files of the hub describe a model. First the
// hub lists what there is, then these files are asked for, of weights their headers alone.
async function fetchFromHub({ id, listing, files }) {
  blame("");
  try {
    if (listing) send({ do: "hub", id, listing: await (await ask(listing)).text() });
    else receive(files.map(({ name }) => `${id}/${name}`), await Promise.all(files.map(readFromHub)));
  } catch (failure) {
    if (DENIED.has(failure.status)) refuse(listing ? "hub-missing" : "hub-gated", id);
    else blame(`${word("hub-failed")} ${failure.message}`);
  }
}

async function readFromHub({ name, address }) {
  if (!isCheckpoint(name)) return (await ask(address)).text();
  return header(name, async (from, to) => {
    const answer = await ask(address, { range: `bytes=${from}-${to - 1}` });
    if (answer.status === 206) return new Uint8Array(await answer.arrayBuffer());
    answer.body.cancel(); // a whole file of gigabytes
    throw new Error(`${name}: ${answer.status}`);
  });
}

async function ask(address, headers = {}) {
  const answer = await fetch(address, { credentials: "omit", referrerPolicy: "no-referrer", headers });
  if (!answer.ok) throw Object.assign(new Error(`${new URL(address).pathname.split("/").pop()}: ${answer.status}`), { status: answer.status });
  return answer;
}
