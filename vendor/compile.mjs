// Compiles Python to bytecode with Pyodide itself, since stock Pyodide spends more than half its start compiling.
//   node compile.mjs PYODIDE_FOLDER STDLIB.zip PACKAGE.whl OTHER.whl...
// Writes the standard library to STDLIB.zip as bytecode, without what a page never imports, and adds bytecode for
// Pyodide's Python to PACKAGE.whl beside its source. Then boots a second Pyodide from the result and imports it all.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

process.on("uncaughtException", (error) => {
  console.error(error.message); // Node would print a megabyte of Pyodide's source first
  process.exit(1);
});

const [folder, output, wheel, ...others] = process.argv.slice(2).map((path) => resolve(path));
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const env = { PYTHONHASHSEED: "0", HOME: "/home" };

const compiler = await loadPyodide({ indexURL: folder, env, packages: [] });
compiler.FS.writeFile("/stdlib.zip", readFileSync(`${folder}/python_stdlib.zip`));
compiler.FS.writeFile("/package.whl", readFileSync(wheel));
compiler.runPython(`
import base64, hashlib, io, marshal, struct, sys, zipfile
from importlib.util import MAGIC_NUMBER, cache_from_source

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


def compiled(source, name, flags):
    """Bytecode as a file; flags 1 says that it is never checked against its source."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    return MAGIC_NUMBER + struct.pack("<III", flags, 0, 0) + marshal.dumps(code)


def packed(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def stdlib(path):
    files = {}
    with zipfile.ZipFile(path) as stock:
        for name in sorted(filter(wanted, stock.namelist())):
            content = stock.read(name)
            if name.endswith(".py"):
                name, content = name + "c", compiled(content, "/lib/python/" + name, 0)
            files[name] = content
    return packed(files)


def package(path):
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    for name in [name for name in files if name.endswith(".py")]:
        files[cache_from_source(name)] = compiled(files[name], name, 1)
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[record] = "\\n".join([*lines, f"{record},,", ""]).encode()
    return packed(files)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
`);
writeFileSync(output, compiler.runPython(`stdlib("/stdlib.zip")`).toJs());
writeFileSync(wheel, compiler.runPython(`package("/package.whl")`).toJs());

const checked = await loadPyodide({ indexURL: folder, stdLibURL: output, env, packages: [] });
for (const path of [wheel, ...others]) {
  checked.unpackArchive(new Uint8Array(readFileSync(path)), "wheel", { extractDir: "/wheels" });
}
checked.runPython(`
import sys
sys.path.insert(0, "/wheels")
import asyncio, json, micropip
from memcore.render import page
assert page.answer_config(page.example()).sections
`);
