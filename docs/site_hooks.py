"""What MkDocs is told of the site: pages that are generated, links that leave docs/, and files that no page needs."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import guide_figures
from griffe import ModuleFinder
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Navigation

if TYPE_CHECKING:
    from griffe import Module, NamePartsAndPathType
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ELSEWHERE = re.compile(r"https://unpkg\.com/")
"""Where the theme would fetch what these pages do not use."""
FIGURE = re.compile(r"<!-- figure: (\w+) -->")
SHOWN = re.compile(r"(?m)^::: (memcore\.\S+)$")
"""What the reference of Python shows."""
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents of the checkout's root, and their pages."""


def on_config(config: MkDocsConfig) -> None:
    """Parse only what the reference of Python shows and inherits: of all of memcore it is a fortieth."""
    wanted: set[str] = set()
    for name in SHOWN.findall((Path(config.docs_dir) / "api.md").read_text(encoding="utf-8")):
        module, _, attribute = name.rpartition(".")
        found = getattr(import_module(module), attribute)
        wanted.update(each.__module__ for each in getattr(found, "__mro__", (found,)))
    files = {Path(sys.modules[name].__file__ or "") for name in wanted if name.startswith("memcore.")}
    every = ModuleFinder.submodules

    def submodules(self: ModuleFinder, module: Module) -> list[NamePartsAndPathType]:
        return [each for each in every(self, module) if each[1] in files or each[1].name == "__init__.py"]

    ModuleFinder.submodules = submodules  # type: ignore[method-assign]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root."""
    for name, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=_moved((ROOT / name).read_text(encoding="utf-8"))))
    return files


def _moved(text: str) -> str:
    """A document of the root with links as they are from docs/; searches leave it out, or it would be most of what they find."""
    return "---\nsearch:\n  exclude: true\n---\n" + re.sub(r"\]\(docs/", "](", text)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links to documents of the root lead to their pages, a patch shows its file, a rule has an anchor, the guide pictures."""
    for name, target in OUTSIDE.items():
        markdown = markdown.replace(f"](../{name}", f"]({target}")
    if page.file.src_uri == "reference.md":
        head, found, rest = markdown.partition("\n## Rules\n")
        markdown = head + found + re.sub(r"(?m)^\| `(\w+)` \|", r'| <span id="rule-\1"></span>`\1` |', rest)
    if page.file.src_uri.startswith("guide/"):
        up = "../" * (page.file.src_uri.count("/") + 1)
        language = "zh" if "/zh/" in page.file.src_uri else "en"
        other = ("../", "English") if language == "zh" else ("zh/", "中文")
        name = page.file.src_uri.rpartition("/")[2]
        markdown = re.sub(r"\A(# .*\n)", rf"\1\n[{other[1]}]({other[0]}{name}){{ .other-language }}\n", markdown)
        markdown = FIGURE.sub(lambda match: guide_figures.html(match[1], language, f"{up}index.html"), markdown)
    return re.sub(r"^```diff (\S+)$", r'```diff title="\1"', markdown, flags=re.MULTILINE)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """The Chinese pages say that they are Chinese."""
    return output.replace('<html lang="en"', '<html lang="zh-Hans"', 1) if "/zh/" in page.file.src_uri else output


def on_nav(nav: Navigation, **_: Any) -> Navigation:
    """The last tab opens the page."""
    nav.items.append(Link("Open the page", "../index.html"))
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Leave out what no page asks for: maps, other languages' stemmers, lists for search engines, the page of errors."""
    site = Path(config.site_dir)
    shutil.rmtree(site / "assets" / "javascripts" / "lunr", ignore_errors=True)
    for path in [*site.rglob("*.map"), *site.glob("sitemap.xml*"), site / "404.html"]:
        path.unlink(missing_ok=True)
    for path in (site / "assets" / "javascripts").glob("bundle.*.js"):
        text = path.read_text(encoding="utf-8").partition("\n//# sourceMappingURL")[0]
        path.write_text(ELSEWHERE.sub("./", text), encoding="utf-8")
    style = site / "assets" / "docs.css"
    style.write_text(style.read_text(encoding="utf-8") + guide_figures.colours(), encoding="utf-8")
