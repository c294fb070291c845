"""Objects as short texts, for links: JSON, deflated and in base64."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping

from memcore.limits import INFLATED_BYTES
from memcore.untrusted import parse_json

DEFLATED = "deflate:"
"""How the text of a deflated object begins."""


def deflated(value: Mapping[str, object]) -> str:
    """Return an object as text for a URL."""
    packed = zlib.compress(json.dumps(dict(value), separators=(",", ":"), sort_keys=True).encode(), 9)
    return DEFLATED + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def inflated(text: str) -> Mapping[str, object]:
    """Return the object of a text from a URL, which is hostile until checked."""
    packed = text.removeprefix(DEFLATED)
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), INFLATED_BYTES)
        found = parse_json(raw.decode())
    except (binascii.Error, zlib.error, ValueError):
        found = None
    if not isinstance(found, dict) or not inflate.eof:
        raise ValueError("the model in the link is damaged; the link may be cut off: copy it again")
    return found
