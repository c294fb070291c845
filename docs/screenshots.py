"""Takes pictures of the built page: `.venv/bin/python docs/screenshots.py` those of the README, `--every` all views.

With `--every` each view is taken on both grounds, at three widths and in both languages, of jobs that fit and that do not,
into build/screenshots/.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from build import WORK, server

Scheme = Literal["light", "dark"]
DESKTOP, PHONE = (1200, 900), (390, 900)
PICTURES: Mapping[str, tuple[Scheme, tuple[int, int]]] = {
    "page.png": ("light", DESKTOP),
    "page-dark.png": ("dark", DESKTOP),
    "page-phone.png": ("light", PHONE),
}
JOBS: Mapping[str, str] = {
    "fits": "v1&model=llama-3.1-8b&seq=8192&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8",
    "too-big": "v1&model=llama-3.1-8b&seq=4096&accelerator=rtx-4090&gpus=1",
    "pipeline": "v1&model=llama-3.1-70b&seq=8192&engine=megatron&tp=4&pp=4&accelerator=h100-sxm-80gb&gpus=64",
    "server": "v1&model=llama-3.1-8b&batch=8&max-len=8192&engine=vllm&accelerator=h100-sxm-80gb",
}
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SIZES: Mapping[str, tuple[int, int]] = {"desktop": (1280, 800), "tablet": (820, 1180), "phone": (390, 844)}
LANGUAGES: Mapping[str, str] = {"en": "en-GB", "zh": "zh-CN"}
PLANS = 20_000
"""Milliseconds that plans may take until a picture is taken without them."""


def pictures(browser: Browser, address: str) -> None:
    """On a light and on a dark ground, and on a phone."""
    for name, (scheme, size) in PICTURES.items():
        context = browser.new_context(viewport=_viewport(size), color_scheme=scheme)
        page = context.new_page()
        page.goto(address)
        page.locator("html[data-state=live]").wait_for(state="attached")
        page.locator("#ways li").first.wait_for(timeout=PLANS)
        page.locator("#sentence .strip i").first.wait_for(state="attached", timeout=PLANS)
        page.screenshot(path=HERE / name)
        context.close()


def every(browser: Browser, address: str, folder: Path) -> Iterator[Path]:
    """Every view of every job, whole, in every dress."""
    folder.mkdir(parents=True, exist_ok=True)
    for (language, locale), (width, size), scheme in product(LANGUAGES.items(), SIZES.items(), SCHEMES):
        context = browser.new_context(viewport=_viewport(size), color_scheme=scheme, locale=locale)
        page = context.new_page()
        for name, link in JOBS.items():
            page.goto("about:blank")
            page.goto(f"{address}#{link}")
            page.locator('html[data-state="live"][data-answer="whole"]:not([data-job])').wait_for(state="attached")
            if page.locator("#ways-part").is_visible():
                page.locator("#ways [role=listitem], #ways li").first.wait_for(timeout=PLANS)
            for shown in page.locator("[data-show]").evaluate_all(
                "(all) => [...new Set(all.map((each) => each.dataset.show))]"
            ):
                button = page.locator(f'[data-show="{shown}"]').first
                if not button.is_visible():
                    continue
                button.click()
                path = folder / f"{name}-{shown}-{width}-{scheme}-{language}.png"
                page.screenshot(path=path, full_page=True)
                yield path
        context.close()


def _viewport(size: tuple[int, int]) -> Any:
    return {"width": size[0], "height": size[1]}


def main() -> None:
    """Serve dist/ and look at it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--every", action="store_true", help="all views, grounds, widths and languages")
    options = parser.parse_args()
    running = server(0, "/memcore/")
    threading.Thread(target=running.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{running.server_address[1]}/memcore/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        if options.every:
            for path in every(browser, address, WORK / "screenshots"):
                print(path.relative_to(HERE.parent))
        else:
            pictures(browser, address)
        browser.close()


if __name__ == "__main__":
    main()
