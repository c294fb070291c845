"""The built page in Firefox, driven by its own remote protocol, Marionette: it boots, answers and works offline.

The page as a whole is tested in Chromium by test_page.py.
"""

import json
import shutil
import socket
import subprocess
import threading
import time

import pytest

import build
from memcore import estimate
from memcore.config.url import decode_fragment
from memcore.faces.render.page import EXAMPLE

pytestmark = pytest.mark.machine
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
if FIREFOX is None:
    pytest.skip("no Firefox on this machine: the tests of the page in Firefox are skipped", allow_module_level=True)

PATIENCE = 120
"""Seconds after which a condition that does not come true fails a test."""
UNTIL = "const [value, done] = arguments, look = () => (%s ? done(true) : setTimeout(look, 20)); look();"


class Firefox:
    """A browser with a profile of its own. Messages are JSON lists behind their length, over a socket."""

    def __init__(self, profile):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (profile / "user.js").write_text(f'user_pref("marionette.port", {port});\n')
        command = [FIREFOX, "--headless", "--marionette", "--no-remote", "--profile", profile]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.socket = self._connected(port)
        self.carrier = self.socket.makefile("rwb")
        self._receive()
        self.number = 0
        self.do("WebDriver:NewSession")
        self.do("WebDriver:SetTimeouts", script=1000 * PATIENCE, pageLoad=1000 * PATIENCE)

    def _connected(self, port):
        end = time.monotonic() + PATIENCE
        while True:
            found = socket.socket()
            found.settimeout(PATIENCE)
            if found.connect_ex(("127.0.0.1", port)) == 0:
                return found
            found.close()
            assert self.process.poll() is None, "Firefox does not start"
            assert time.monotonic() < end, "Firefox does not listen"
            time.sleep(0.05)

    def _receive(self):
        length = b""
        while not length.endswith(b":"):
            length += self.carrier.read(1)
        return json.loads(self.carrier.read(int(length[:-1])))

    def do(self, name, **values):
        """What a command answers."""
        self.number += 1
        message = json.dumps([0, self.number, name, values]).encode()
        self.carrier.write(b"%d:%s" % (len(message), message))
        self.carrier.flush()
        _, number, error, result = self._receive()
        assert number == self.number
        assert error is None, error
        return result

    def evaluate(self, script, *values):
        """What a function's body returns in the page."""
        return self.do("WebDriver:ExecuteScript", script=script, args=values)["value"]

    def until(self, condition, value=None):
        """Wait until an expression, in which `value` is known, is true in the page."""
        self.do("WebDriver:ExecuteAsyncScript", script=UNTIL % condition, args=[value])

    def close(self):
        """End the browser."""
        self.do("Marionette:Quit", flags=["eForceQuit"])
        self.process.wait(timeout=PATIENCE)
        self.carrier.close()
        self.socket.close()

    def open(self, address):
        """Open an address and wait until Python answers."""
        self.do("WebDriver:Navigate", url=address)
        self.until("document.documentElement.dataset.state === 'live'")

    def set(self, path, text):
        """Type into a field."""
        script = """const field = document.querySelector(`[name="${arguments[0]}"]`);
                    field.value = arguments[1]; field.dispatchEvent(new Event("input", { bubbles: true }));"""
        self.evaluate(script, path, text)

    def answered(self, config):
        """Wait until the verdict is what Python on this machine says of a config, to the byte."""
        found = estimate(config)
        self.until("document.getElementById('verdict').dataset.allocatedBytes === value", str(found.allocated.expected))
        self.until("document.getElementById('verdict').dataset.deviceBytes === value", str(found.device.expected))


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    """One browser for all tests."""
    started = Firefox(tmp_path_factory.mktemp("firefox"))
    yield started
    started.close()


def test_answers_in_firefox(firefox, site):
    """The example, an edit with its link, another person's link and the Chinese page."""
    firefox.open(site)
    firefox.answered(EXAMPLE)
    firefox.set("training.sequence_length", "2k")
    firefox.answered({**EXAMPLE, "training": {**EXAMPLE["training"], "sequence_length": 2048}})
    firefox.until("location.hash.includes('seq=2048')")
    fragment = "v1&model=gpt2&seq=512&accelerator=t4"
    firefox.open(f"{site}?other#{fragment}")
    firefox.answered(decode_fragment(fragment))
    firefox.set("training.sequence_length", "many")
    firefox.until("""document.querySelector('[name="training.sequence_length"]').ariaInvalid === 'true'""")
    firefox.evaluate(
        """const language = document.getElementById("language"); language.value = "zh";
           language.dispatchEvent(new Event("change", { bubbles: true }));"""
    )
    firefox.until("document.documentElement.lang === 'zh-CN'")


def test_offline_in_firefox(firefox, dist):
    """After one visit the page answers although its server is gone."""
    running = build.server(0, "/memcore/")
    threading.Thread(target=running.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{running.server_address[1]}/memcore/"
    firefox.open(address)
    firefox.until("navigator.serviceWorker.controller !== null")
    running.shutdown()
    running.server_close()
    firefox.open(f"{address}?again#v1&model=gpt2&seq=512")
    firefox.answered(decode_fragment("v1&model=gpt2&seq=512"))
