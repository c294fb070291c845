"""Takes the pictures of the README from the built page: `.venv/bin/python docs/screenshots.py`."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from build import server

DESKTOP, PHONE = (1200, 900), (390, 900)
PICTURES: dict[str, tuple[Literal["light", "dark"], tuple[int, int]]] = {
    "page.png": ("light", DESKTOP),
    "page-dark.png": ("dark", DESKTOP),
    "page-phone.png": ("light", PHONE),
}


def main() -> None:
    """On a light and on a dark ground, and on a phone."""
    running = server(0, "/memcore/")
    threading.Thread(target=running.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (scheme, (width, height)) in PICTURES.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{running.server_address[1]}/memcore/")
            page.locator("html[data-state=live]").wait_for(state="attached")
            page.screenshot(path=HERE / name)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
