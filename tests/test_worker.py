"""The worker of the page, site/main.py, without a browser: who is answered first."""

import asyncio
import json
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.machine
MAIN = Path(__file__).parents[1] / "site" / "main.py"
TOO_BIG = "v1&model=llama-2-7b-hf&seq=2048&accelerator=rtx-4090&gpus=1"


class Worker:
    """What the page has on its side: it posts texts, and gets texts."""

    def __init__(self):
        self.said = []
        self.onmessage = None

    def postMessage(self, text):  # noqa: N802 - the browser's name
        self.said.append(json.loads(text))

    def ask(self, number, doing, **more):
        event = ModuleType("event")
        event.data = json.dumps({"do": doing, "number": number, "texts": {}, **more})
        self.onmessage(event)

    async def until(self, count):
        """Wait until as many messages are answered."""
        for _ in range(100_000):
            if len(self.finished()) >= count:
                return
            await asyncio.sleep(0)
        raise TimeoutError(self.finished())

    def finished(self):
        return [patch["finished"] for patch in self.said if "finished" in patch]


@pytest.fixture
def worker(monkeypatch):
    """main.py as the browser runs it, within a loop."""
    found, polyscript = Worker(), ModuleType("polyscript")
    polyscript.xworker = found
    monkeypatch.setitem(sys.modules, "polyscript", polyscript)
    return found


def test_tracks_come_before_plans(worker):
    """What is next to the number that was edited is not held up by what is asked for at the same time."""

    async def visit():
        runpy.run_path(str(MAIN))
        worker.ask(1, "start", link=f"#{TOO_BIG}", texts=None, language="en", entry=0)
        await worker.until(1)
        worker.ask(2, "ways")
        worker.ask(3, "tracks")
        await worker.until(2)
        assert worker.finished() == [1, 3]

    with ThreadPoolExecutor(1) as apart:
        apart.submit(lambda: asyncio.run(asyncio.wait_for(visit(), 60))).result()


@pytest.mark.parametrize("doing", ["exports", "curve", "search"])
def test_a_click_comes_before_what_nobody_waits_for(worker, doing):
    """While plans and tracks are looked for, a click is answered whole before either goes on; then both are finished."""

    async def visit():
        runpy.run_path(str(MAIN))
        worker.ask(1, "start", link=f"#{TOO_BIG}", texts=None, language="en", entry=0)
        await worker.until(1)
        worker.ask(2, "ways")
        worker.ask(3, "tracks")
        for _ in range(20):
            await asyncio.sleep(0)
        texts = {"model": "llama-2-7b-hf", "training.sequence_length": "2048", "hardware.accelerator": "rtx-4090"}
        before = len(worker.said)
        worker.ask(4, doing, base="https://example.org/", texts=texts, value="training.sequence_length")
        await worker.until(2)
        while_asked = worker.said[before:]
        assert worker.finished() == [1, 4]
        assert not any("ways" in patch.get("html", {}) or "tracks" in patch for patch in while_asked)
        worker.ask(5, "edit", texts=texts, entry=1)  # whoever edits ends both
        await worker.until(5)

    with ThreadPoolExecutor(1) as apart:  # Playwright keeps a loop in the tests' own thread
        apart.submit(lambda: asyncio.run(asyncio.wait_for(visit(), 60))).result()
