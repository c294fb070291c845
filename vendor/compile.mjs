// Compiles Python to bytecode with Pyodide itself, since stock Pyodide spends more than half its start compiling, and
// keeps the memory of a Python that has imported memcore, answered the example and recorded the steps that first edits
// ask for, since importing takes longer still.
//   node compile.mjs PYODIDE_FOLDER OUTPUT_FOLDER PACKAGE.whl INSTALLER.whl...
// The installers are micropip and what it needs: with them a first Pyodide installs the package.
// Writes library.zip, which holds bytecode of the standard library and of the installed package, without what a page
// never imports; and memory.bin, the memory without its zeros, compressed, made by a second Pyodide that boots from the first file. Then
// a third one wakes up from that memory and answers.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { basename, resolve } from "node:path";
import { gzipSync } from "node:zlib";

process.on("uncaughtException", (error) => {
  console.error(error.message); // Node would print a megabyte of Pyodide's source first
  process.exit(1);
});

const [folder, output, wheel, ...installers] = process.argv.slice(2).map((path) => resolve(path));
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const env = { PYTHONHASHSEED: "0", PYTHONNODEBUGRANGES: "1", HOME: "/home" };

// Two builds of one checkout are identical, so nothing in that memory comes from the clock, the time zone, the folder or
// from chance. Python keeps the name of the program that runs: it gets the one that it has in a browser.
process.argv[1] = "./this.program";
process.env.TZ = "UTC";
Date.now = () => 1577836800000;
performance.now = () => 0;

const compiler = await loadPyodide({ indexURL: folder, env, packages: [] });
compiler.FS.writeFile("/stdlib.zip", readFileSync(`${folder}/python_stdlib.zip`));
for (const path of installers) compiler.unpackArchive(new Uint8Array(readFileSync(path)), "wheel");
const given = `/${basename(wheel)}`;
compiler.FS.writeFile(given, readFileSync(wheel));
await compiler.pyimport("micropip").install(`emfs:${given}`);
compiler.runPython(`
import io, marshal, struct, zipfile
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path

UNUSED = {
    "_pyrepl/", "ctypes/", "dbm/", "doctest", "ensurepip/", "ftplib", "idlelib/", "imaplib", "lib2to3/", "mailbox",
    "multiprocessing/", "nntplib", "optparse", "pdb", "pickletools", "poplib", "pydoc", "pydoc_data/", "smtplib",
    "sqlite3/", "telnetlib", "tkinter/", "turtle", "turtledemo/", "unittest/", "venv/", "webbrowser", "wsgiref/",
    "xml/", "xmlrpc/",
}
ENCODINGS = {
    "__init__", "aliases", "ascii", "cp1252", "cp437", "idna", "latin_1", "punycode", "raw_unicode_escape",
    "unicode_escape", "utf_16", "utf_16_be", "utf_16_le", "utf_32", "utf_8", "utf_8_sig",
}


def wanted(name):
    module = name.removesuffix(".py")
    if module.startswith("encodings/"):
        return module.partition("/")[2] in ENCODINGS
    return module not in UNUSED and module.partition("/")[0] + "/" not in UNUSED


def compiled(source, name):
    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    return MAGIC_NUMBER + struct.pack("<III", 0, 0, 0) + marshal.dumps(code)


def packed(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 8)
    return buffer.getvalue()


def taken(files):
    """Modules as bytecode, other files as they are."""
    for name, content in sorted(files):
        is_module = name.endswith(".py")
        yield (name + "c", compiled(content, "/lib/python/" + name)) if is_module else (name, content)


def standard(own):
    with zipfile.ZipFile("/stdlib.zip") as archive:
        yield from ((name, archive.read(name)) for name in archive.namelist() if wanted(name) and name != "dataclasses.py")
        yield "dataclasses.py", archive.read("dataclasses.py").replace(DESCRIBES, b"if False:") + REMEMBERS
        yield "generated_code.py", f"CODE = {marshal.dumps(generated(own))!r}".encode()


# Data classes write their methods as source and compile it, and describe their signatures where docstrings are left out:
# together a third of the time that importing takes. The compiled methods come with the library.
DESCRIBES = b"if not getattr(cls, '__doc__'):"
REMEMBERS = b"""
import builtins, generated_code, marshal
_CODE = marshal.loads(generated_code.CODE)
def exec(source, *places):
    builtins.exec(_CODE.get(source, source), *places)
"""


def generated(own):
    """What data classes compile while memcore is imported, from its bytecode, and answers."""
    import builtins, dataclasses, sys

    found = {}
    for name, content in own.items():
        path = Path("/own", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    sys.path.insert(0, "/own")

    def keep(source, *places):
        found[source] = compile(source, "<string>", "exec", dont_inherit=True, optimize=2)
        builtins.exec(source, *places)

    dataclasses.exec = keep
    try:
        import memcore.faces.page.actions
        from memcore.faces.page.session import Session

        for _ in memcore.faces.page.actions.handle(Session(), {"do": "start", "link": "", "language": "en", "entry": 0}):
            pass
    finally:
        del dataclasses.exec
    if not found:
        raise SystemExit("data classes compile nothing any more")
    return found


def installed():
    root = Path(find_spec("memcore").origin).parent
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    yield from ((f"memcore/{path.relative_to(root).as_posix()}", path.read_bytes()) for path in files)
`);
const everything = "own = dict(taken(installed())); packed(dict(taken(standard(own))) | own)";
const library = `${output}/library.zip`;
writeFileSync(library, compiler.runPython(everything).toJs());

const options = { indexURL: folder, stdLibURL: library, packages: [] };
const answered = await loadPyodide({ ...options, env, _makeSnapshot: true });
answered.runPython(`
import asyncio, dataclasses, gc, generated_code, random
import memcore.faces.page.actions
from memcore.faces.page.precomputed import record_ahead
from memcore.faces.page.framing import keep_openings
record_ahead()
keep_openings()
dataclasses._CODE.clear()  # of no more use: it need not be in the memory
generated_code.CODE = b""
random.seed(0)
gc.collect()
gc.freeze()  # what is kept stays: the collector need not look at it again in the middle of an edit
`);
const memory = answered.makeMemorySnapshot();
const header = new Uint32Array(memory.buffer, memory.byteOffset, 2)[1]; // its length; the heap follows
const kept = [[0, header], ...filled(memory, header)].map(([from, to]) => [from, to, hashOf(memory.subarray(from, to))]);
const bytes = Buffer.concat(kept.map(([from, to]) => memory.subarray(from, to)));
writeFileSync(`${output}/memory.bin`, gzipSync(bytes, { level: 8 }));

const script = `${output}/python.mjs`;
const text = readFileSync(script, "utf8");
writeFileSync(script, text.replace("HEADER = 0;", `HEADER = ${header};`).replace("LENGTH = 0;", `LENGTH = ${memory.length};`).replace("KEPT = [];", `KEPT = ${JSON.stringify(kept)};`).replace('LIBRARY = "";', `LIBRARY = "sha256-${hashOf(readFileSync(library))}";`));
const { wake } = await import(pathToFileURL(script).href);
const woken = await wake(Promise.resolve(new Blob([bytes]).stream()), options);
woken.runPython(`
from memcore.faces.render import page
if not page.answer_config(page.example()).sections:
    raise SystemExit("no answer")
`);

function hashOf(bytes) {
  return createHash("sha256").update(bytes).digest("base64");
}

// Where a memory is not zeros after its header, from where to where: fewer zeros than a gap has do not end a stretch. A long one is cut,
// so that its pieces can be checked while the rest arrives.
function filled(memory, start) {
  const [step, gap, most] = [4096, 2 ** 18, 2 ** 22];
  const stretches = [];
  for (let at = start; at < memory.length; at += step) {
    if (!memory.subarray(at, at + step).some(Boolean)) continue;
    const end = Math.min(at + step, memory.length);
    const last = stretches.at(-1);
    if (last && at - last[1] < gap && end - last[0] <= most) last[1] = end;
    else stretches.push([at, end]);
  }
  return stretches;
}
