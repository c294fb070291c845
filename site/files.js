// Files and texts from outside: dropped, pasted, chosen, or fetched from the model hub at a click.
import { byId, openAnother, place, say, word } from "./view.js";

let send = () => {};

export function listenToFiles(carrier) {
  send = carrier;
  // Several files at once are one job, such as a config.json and a config of DeepSpeed.
  const take = async (list) => {
    const files = [...list].slice(0, 8);
    const large = files.find((file) => file.size > 2 ** 22);
    if (large) say(`${large.name}: > 4 MiB`);
    else if (files.length) receive(files.map((file) => file.name), await Promise.all(files.map(readText)));
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
    if (event.target.matches?.("input, select, textarea") || text.length < 8) return;
    receive([word("pasted")], [text]);
  });
  byId("hub-fetch").addEventListener("click", fetchFromHub);
  byId("import-take").addEventListener("click", () => receive([word("pasted")], [byId("import-text").value]));
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

function receive(names, files) {
  openAnother();
  send({ do: "import", name: names.join(", "), names, files, entry: place.entry });
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
    receive([id], [await answer.text()]);
  } catch (failure) {
    error.textContent = `${word("hub-failed")} ${failure.message}`;
  }
}
