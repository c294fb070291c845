// A model by its sizes: fields that write a config.json of a Llama, or with experts of a Mixtral, and show what one says.
import { control } from "./view.js";

const NEEDED = ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"];
const fields = () => [...document.querySelectorAll("[data-size]")];
let shown = "";

export function listenToSizes() {
  document.addEventListener("input", ({ target }) => {
    if (target.dataset?.size !== undefined) write();
  });
  addEventListener("memcore:shown", read);
}

function write() {
  const given = fields().filter((each) => each.value.trim());
  const sizes = Object.fromEntries(given.map((each) => [each.dataset.size, Number(each.value.replace(/[\s,_]/gu, ""))]));
  const missing = NEEDED.filter((name) => !sizes[name]);
  for (const each of fields()) each.toggleAttribute("required", given.length > 0 && missing.includes(each.dataset.size));
  if (given.length && missing.length) return;
  const family = sizes.num_local_experts ? "mixtral" : "llama";
  const paste = control("model-json");
  shown = paste.value = given.length ? JSON.stringify({ model_type: family, ...sizes }, null, 2) : "";
  paste.dispatchEvent(new Event("input", { bubbles: true }));
}

// What a config.json says that came from elsewhere: a link, a file, undo.
function read() {
  const { value } = control("model-json") ?? {};
  if (value === undefined || value === shown || document.activeElement?.dataset.size !== undefined) return;
  shown = value;
  const sizes = sizesOf(value);
  for (const each of fields()) each.value = sizes[each.dataset.size] ?? "";
}

function sizesOf(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}
