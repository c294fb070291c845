"""Where this machine has Chromium, for the tests that need it."""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same engine without a window's own interface, which takes a third of the processor's time of a start."""
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
