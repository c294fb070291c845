// Headers of checkpoints: files of gigabytes of which only the beginning is read, from a disk or from the hub. `part` gives
// the bytes from one place to another, fewer where the file ends.
const MOST = 2 ** 24;
const STEPS = [2 ** 20, 2 ** 22, 2 ** 24, 2 ** 26]; // a GGUF file does not say how long its header is
const SIZES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }; // bytes by type (ggml, docs/gguf.md)
const [TEXT, LIST] = [8, 9];
const SHOWN = 2 ** 16; // of a file without a valid header, enough for Python to say what is wrong

export const isCheckpoint = (name) => /\.(?:gguf|safetensors)$/u.test(name);

export function header(name, part) {
  return name.endsWith(".gguf") ? ofGguf(part) : ofSafetensors(part);
}

// Its length in eight bytes, and JSON.
async function ofSafetensors(part) {
  const first = await part(0, 8);
  const length = first.length < 8 ? 0 : Number(new DataView(first.buffer, first.byteOffset).getBigUint64(0, true));
  if (!length || length > MOST) throw new Error("safetensors: 0 < header ≤ 16 MiB");
  return new TextDecoder().decode(await part(8, 8 + length));
}

// As a data URL, which Python decodes: a GGUF header is no text.
async function ofGguf(part) {
  let bytes = new Uint8Array();
  for (const most of STEPS) {
    const piece = await part(bytes.length, most);
    bytes = new Uint8Array(await new Blob([bytes, piece]).arrayBuffer());
    try {
      return await address(emptied(bytes));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (bytes.length < most) break;
    }
  }
  return address([bytes.subarray(0, SHOWN)]);
}

// The header with its lists emptied: the vocabulary is most of it, and memcore does not need it.
function emptied(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const kept = [];
  let [begin, at] = [0, 8];
  const skip = (size) => {
    at += size;
    if (!(at <= bytes.length)) throw new RangeError("it ends early");
  };
  const number = () => {
    skip(4);
    return view.getUint32(at - 4, true);
  };
  const count = () => number() + 2 ** 32 * number();
  const value = (type) => {
    if (type === TEXT) return skip(count());
    if (type !== LIST) return skip(SIZES[type]);
    const inner = number();
    kept.push(bytes.subarray(begin, at), new Uint8Array(8));
    const length = count();
    if (inner === TEXT) for (let each = 0; each < length; each += 1) skip(count());
    else skip(length * SIZES[inner]);
    begin = at;
    return undefined;
  };
  const [tensors, keys] = [count(), count()];
  for (let each = 0; each < keys; each += 1) {
    skip(count());
    value(number());
  }
  for (let each = 0; each < tensors; each += 1) {
    skip(count());
    skip(8 * number());
    skip(12);
  }
  kept.push(bytes.subarray(begin, at));
  return kept;
}

function address(parts) {
  const reader = new FileReader();
  return new Promise((done, failed) => {
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(new Blob(parts));
  });
}
