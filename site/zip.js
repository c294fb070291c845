// The whole page as a zip archive: stored, not compressed, since most of it is compressed already.
const CRC = Uint32Array.from({ length: 256 }, (_, number) => {
  let value = number;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});

function crcOf(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

const little = (size, value) => Array.from({ length: size }, (_, place) => (value >>> (8 * place)) & 255);

export async function zip() {
  const names = [...Object.keys(await (await fetch("./files.json")).json()), "files.json", "sw.js"];
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const path of names) {
    const bytes = new Uint8Array(await (await fetch(`./${path}`)).arrayBuffer());
    const name = new TextEncoder().encode(`memcore/${path}`);
    const common = [
      ...little(2, 20), ...little(2, 0x800), ...little(2, 0), ...little(2, 0), ...little(2, 0x21),
      ...little(4, crcOf(bytes)), ...little(4, bytes.length), ...little(4, bytes.length), ...little(2, name.length), ...little(2, 0),
    ];
    parts.push(new Uint8Array([...little(4, 0x04034b50), ...common]), name, bytes);
    directory.push(
      new Uint8Array([...little(4, 0x02014b50), ...little(2, 20), ...common, ...little(2, 0), ...little(2, 0), ...little(2, 0), ...little(4, 0), ...little(4, offset)]),
      name,
    );
    offset += 30 + name.length + bytes.length;
    await new Promise((done) => { setTimeout(done); });
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = [
    ...little(4, 0x06054b50), ...little(2, 0), ...little(2, 0), ...little(2, names.length), ...little(2, names.length),
    ...little(4, size), ...little(4, offset), ...little(2, 0),
  ];
  return new Blob([...parts, ...directory, new Uint8Array(end)], { type: "application/zip" });
}
