"""Requests files from the model hub, and no more of each than is needed. Nothing else in memcore uses a network.

Sources: huggingface_hub, constants.py (`HF_ENDPOINT`, `HF_HOME`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`), utils/_auth.py
(`get_token`) and utils/_http.py (`hf_raise_for_status`: what `X-Error-Code` says).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit

from memcore.errors import ConfigError
from memcore.limits import FILE_BYTES
from memcore.messages import Message
from memcore.records import dataclass
from memcore.tools.repositories import ENDPOINT

TIMEOUT, WHOLE = 10.0, 60.0
"""Seconds that the hub may take to answer, and in which a file has to be complete."""
_REDIRECTS = 5
_PIECE = 2**16
_TOKEN = re.compile(r"[\x21-\x7e]{1,400}")
_BEARER = "Bearer "
_LOCAL = ("localhost", "127.0.0.1", "::1")
_SWITCHED_ON = ("1", "on", "true", "yes")
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _BUSY = 401, 403, 404, 429


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub, and the token that it is asked with."""

    endpoint: str = ENDPOINT
    token: str | None = None

    @property
    def host(self) -> str:
        """Return its host, without credentials that the address may have."""
        return _host(urlsplit(self.endpoint))

    def text(self, address: str, name: str) -> str:
        """Return a whole text. Raises ConfigError, with a message for the user, where the hub gives none."""
        with self.opened(address, name) as file:
            held: bytes = file.read(FILE_BYTES + 1)
        if len(held) > FILE_BYTES:
            raise ConfigError.at(name, Message("is longer than {:,} bytes", FILE_BYTES))
        try:
            return held.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigError.at(name, "is not text") from None

    @contextmanager
    def opened(self, address: str, name: str, most: int | None = None) -> Iterator[Any]:
        """Open a file, or its first `most` bytes; the connection is closed after the block.

        Raises ConfigError as `text` does.
        """
        begins = {"Range": f"bytes=0-{most - 1}"} if most is not None else {}
        asked = request.Request(address, headers={"User-Agent": "memcore", **begins})  # noqa: S310 - `_opener` knows only http
        if self.token is not None and _is_safe(urlsplit(address)):
            asked.add_unredirected_header("Authorization", _BEARER + self.token)
        try:
            with _opener().open(asked, timeout=TIMEOUT) as response:
                yield _Timed(response, time.monotonic() + WHOLE)
        except HTTPError as error:
            self._refuse(error, name)
        except (URLError, HTTPException, OSError) as error:
            why = getattr(error, "reason", error)
            if isinstance(why, TimeoutError):
                raise ConfigError.at(name, "{} did not answer in time", self.host) from None
            said = getattr(why, "strerror", None) or type(why).__name__
            raise ConfigError.at(name, "{} cannot be reached: {}", self.host, said) from None

    def _refuse(self, error: HTTPError, name: str) -> NoReturn:
        """Raise what a status means (huggingface_hub, utils/_http.py, `hf_raise_for_status`)."""
        status, code = error.code, str(error.headers.get("X-Error-Code", ""))
        error.close()
        if code == "GatedRepo" and self.token is None:
            said: str = Message("is gated: accept its licence on {}, and give a token in HF_TOKEN", self.host)
        elif code == "GatedRepo" or status == _FORBIDDEN:
            said = Message("is gated, and your token has no access: accept its licence on {}", self.host)
        elif code == "RevisionNotFound":
            said = Message("{} has no such revision", self.host)
        elif status == _UNAUTHORIZED and self.token is not None and code != "RepoNotFound":
            said = Message("{} does not accept your token", self.host)
        elif status in (_UNAUTHORIZED, _MISSING):
            said = Message(
                "{} has no such repository or file, or it is private: then give a token in HF_TOKEN", self.host
            )
        elif status == _BUSY:
            said = Message("{} takes no more requests for now; a token in HF_TOKEN allows more", self.host)
        elif status // 100 == 3:
            said = Message("{} redirects too often, or to an address that is not https", self.host)
        else:
            said = Message("{} answered with status {}", self.host, status)
        raise ConfigError.at(name, said) from None


class _Timed:
    """A response that has to be complete by a deadline."""

    def __init__(self, response: IO[bytes], until: float) -> None:
        self._response, self._until = response, until

    def read(self, size: int) -> bytes:
        """Read `size` bytes, fewer at the end. Raises TimeoutError where they come too slowly."""
        held = bytearray()
        while len(held) < size:
            piece = self._response.read(min(_PIECE, size - len(held)))
            if not piece:
                break
            held += piece
            if time.monotonic() > self._until:
                raise TimeoutError
        return bytes(held)


class _Redirects(request.HTTPRedirectHandler):
    """Follows redirects to https, and within a host. A token stays with the host that it was for."""

    max_redirections = _REDIRECTS

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> request.Request | None:
        """Return the next request. Raises HTTPError for an address that is not followed."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        same = (before.scheme, before.netloc) == (after.scheme, after.netloc)
        if after.scheme != "https" and not same:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.get_header("Authorization")
        if made is not None and same and token is not None:
            made.add_unredirected_header("Authorization", token)
        return made


def _opener() -> request.OpenerDirector:
    """Return an opener of http and https through the environment's proxies, and of nothing else: no files, no ftp."""
    opener = request.OpenerDirector()
    kinds = ("ProxyHandler", "HTTPHandler", "HTTPSHandler", "HTTPDefaultErrorHandler", "HTTPErrorProcessor")
    for each in kinds:
        if hasattr(request, each):  # without TLS there is no HTTPSHandler
            opener.add_handler(getattr(request, each)())
    opener.add_handler(_Redirects())
    opener.add_handler(request.UnknownHandler())
    return opener


def _host(address: SplitResult) -> str:
    return address.netloc.rpartition("@")[2]


def _is_safe(address: SplitResult) -> bool:
    """Return whether what is sent is encrypted, or stays on this machine."""
    return address.scheme == "https" or address.hostname in _LOCAL


def hub_of(environment: Mapping[str, str], token: str | None = None) -> Hub:
    """Return the hub that the environment names, with the token that it or the hub's file has.

    Raises ConfigError where requests are switched off, and for what is no address or no token.
    """
    if environment.get("HF_HUB_OFFLINE", "").lower() in _SWITCHED_ON:
        raise ConfigError.at("HF_HUB_OFFLINE", "is set, so nothing is fetched")
    endpoint = (environment.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    if not re.fullmatch(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", endpoint):
        raise ConfigError.at("HF_ENDPOINT", "expected an address such as {}, found {!r:.80}", ENDPOINT, endpoint)
    told = token or _token(environment)
    if told and not _TOKEN.fullmatch(told):
        raise ConfigError.at("HF_TOKEN", "is not a token: it has spaces or other signs that no token has")
    return Hub(endpoint, told or None)


def _token(environment: Mapping[str, str]) -> str:
    """Return the token of the environment, or of the file that `hf auth login` writes; empty without one."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if environment.get(name, "").strip():
            return environment[name].strip()
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{cache}/huggingface"
    with suppress(OSError, UnicodeError, RuntimeError):
        return Path(environment.get("HF_TOKEN_PATH") or f"{home}/token").expanduser().read_text("utf-8").strip()
    return ""
