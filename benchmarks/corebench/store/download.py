"""Brings one file here over HTTP, however often the connection breaks.

A part that is here already is gone on with, if the server can say that the file is still the same one; else it begins
again. The part's neighbour `.json` says which file it is a part of. Whether the whole is the right file is not known
here: that is told by its digest.
"""

from __future__ import annotations

import errno
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import Protocol
from urllib.parse import SplitResult, urljoin, urlsplit

import tenacity
import urllib3
from pydantic import ValidationError
from urllib3.exceptions import HTTPError, SSLError

from agentctl import __version__
from agentctl.agents.models.endpoint import pool_for
from agentctl.agents.models.faults import seconds_to_wait
from agentctl.base.errors import AgentctlError, SetupError
from agentctl.base.jsonio import write_atomically
from agentctl.base.text import clean, head
from agentctl.base.values import Frozen

from .place import about, discard

_TRIES = 5  # in a row that bring nothing new
_LONGEST_PAUSE = 30.0  # seconds, of our own; a server may ask for up to
_LONGEST_ASKED = 300.0
_TIMEOUT = urllib3.Timeout(connect=20, read=60)  # seconds; `read` is from one piece to the next
_HOPS = 5
_BLOCK = 1 << 18
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})


class Watcher(Protocol):
    """Hears how a download goes."""

    def moved(self, done: int, total: int | None) -> None:
        """`done` of `total` bytes are here."""

    def note(self, line: str) -> None:
        """Something that a person who waits wants to know."""


class Silent:
    """Tells nobody."""

    def moved(self, done: int, total: int | None) -> None: ...

    def note(self, line: str) -> None: ...


class NotThere(AgentctlError):
    """The server has no such file."""


class _Again(Exception):
    """This try failed, and the next may not. `pause`: what the server asked for, in seconds."""

    def __init__(self, words: str, pause: float = 0.0) -> None:
        super().__init__(words)
        self.pause = pause


class _Part(Frozen):
    """Which file a part is of."""

    address: str
    validator: str  # a strong ETag, or the time of its last change
    total: int | None


def download(
    address: str,
    part: Path,
    *,
    admit: Callable[[int | None], None] = lambda total: None,
    most: int | None = None,
    watcher: Watcher | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Make `part` the whole file at `address`.

    `admit` is asked before any of it is written, with its size in bytes where the server tells it, and raises what
    forbids it; `most` is how many bytes may come, whatever the server told. AgentctlError where the file can't be had
    (NotThere where the server has none): what has come is kept, and gone on with by the next call.
    """
    watcher = watcher or Silent()
    patience = _Patience(part)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Again),
        stop=patience.spent,
        wait=patience.pause,
        before_sleep=lambda state: watcher.note(f"{_failure(state)}; trying again in {state.upcoming_sleep:.0f} s"),
        sleep=sleep,
        reraise=True,
    )
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        retrying(_once, address, part, admit, most, watcher)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise SetupError("the disk is full", file=part, remedy="make room: agentctl capsule remove") from None
    except _Again as failure:
        remedy = "the same command goes on with what has come" if _size(part) else "try later, or name a --mirror"
        raise AgentctlError(f"can't be downloaded: {failure}", file=address, remedy=remedy) from None


class _Patience:
    """Ends after `_TRIES` tries in a row that brought nothing new; how long the file is does not count."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self._most = _size(part)
        self._fruitless = 0

    def spent(self, state: tenacity.RetryCallState) -> bool:
        size = _size(self._part)
        self._fruitless = 0 if size > self._most else self._fruitless + 1
        self._most = max(size, self._most)
        return self._fruitless >= _TRIES

    def pause(self, state: tenacity.RetryCallState) -> float:
        failure = _failure(state)
        own = min(2.0**self._fruitless, _LONGEST_PAUSE) * (1 + random.random() / 2)
        return max(own, min(failure.pause, _LONGEST_ASKED) if failure else 0.0)


def _once(address: str, part: Path, admit: Callable[[int | None], None], most: int | None, watcher: Watcher) -> None:
    """One try. Raises _Again where another may help."""
    have, known = _size(part), _known(part, address)
    if known is None:
        have = 0
    elif have == known.total:
        return
    headers = {"Accept-Encoding": "identity", "User-Agent": f"agentctl/{__version__}"}
    if have and known:
        headers |= {"Range": f"bytes={have}-", "If-Range": known.validator}
    try:
        response = _get(address, headers)
        try:
            start, total = _placed(response, have, known, address, part)
            admit(total)
            _remember(part, address, response, total)
            with part.open("ab") as file:
                file.truncate(start)
                watcher.moved(start, total)
                for block in response.stream(_BLOCK, decode_content=False):
                    file.write(block)
                    start += len(block)
                    if most is not None and start > most:
                        raise SetupError("is larger than the room that is left", file=address, remedy="make room")
                    watcher.moved(start, total)
        finally:
            response.close()
    except HTTPError as error:
        if isinstance(error, SSLError) and any(isinstance(cause, SSLCertVerificationError) for cause in error.args):
            remedy = "see who answers there; SSL_CERT_FILE names certificates of your own"
            raise AgentctlError(f"no safe connection: {_words(error)}", file=address, remedy=remedy) from None
        raise _Again(_words(error)) from None
    if total is not None and start != total:
        raise _Again(f"{start:,} of {total:,} bytes came")


def _get(address: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    """The answer to a GET, after redirects. One that leads from https to http is refused."""
    parts = _web_address(address, "", address)
    for _ in range(_HOPS):
        response = pool_for(parts).request(
            "GET", parts.geturl(), headers=headers, redirect=False, preload_content=False, timeout=_TIMEOUT
        )
        if response.status not in _MOVED:
            return response
        response.close()
        parts = _web_address(parts.geturl(), response.headers.get("Location", ""), address)
    raise AgentctlError(f"leads on more than {_HOPS} times", file=address)


def _web_address(base: str, place: str, asked: str) -> SplitResult:
    """`place`, as it was told at `base`, in its parts. AgentctlError where that is no safe place to go on at."""
    problem = "which is no address of the web"
    with suppress(ValueError):
        parts = urlsplit(urljoin(base, place))
        _ = parts.port  # which raises where it can't be one
        if parts.scheme in ("http", "https") and parts.hostname:
            if parts.scheme == "https" or not asked.startswith("https:"):
                return parts
            problem = "which is not https"
    raise AgentctlError(f"leads to {head(clean(place or base), 200)}, {problem}", file=asked)


def _placed(
    response: urllib3.BaseHTTPResponse, have: int, known: _Part | None, address: str, part: Path
) -> tuple[int, int | None]:
    """At which byte the answer's body begins, and how many bytes the whole file has."""
    match response.status:
        case 200:
            length = response.headers.get("Content-Length", "")
            return 0, int(length) if length.isdecimal() else None
        case 206 if known is not None:
            span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
            first = span.partition("-")[0]
            same = _validator(response) in ("", known.validator) and total == str(known.total or total)
            if first == str(have) and total.isdecimal() and same:
                return have, int(total)
            discard(part)
            raise _Again("the server sent another part than the one asked for")
        case 416:
            discard(part)
            raise _Again("the file has changed")
        case status if status in _PASSING:
            raise _Again(f"the server answered {status} {response.reason or ''}".rstrip(), _asked_pause(response))
        case status:
            raise (NotThere if status in (404, 410) else AgentctlError)(
                f"the server answered {status} {response.reason or ''}".rstrip(),
                file=address,
                remedy="see whether the address is right, or name a --mirror",
            )


def _remember(part: Path, address: str, response: urllib3.BaseHTTPResponse, total: int | None) -> None:
    validator = _validator(response)
    if response.status == 200:  # what was here is not a part of this file
        discard(part)
        if validator:
            whole = _Part(address=address, validator=validator, total=total)
            write_atomically(about(part), whole.model_dump_json().encode())


def _validator(response: urllib3.BaseHTTPResponse) -> str:
    """What If-Range takes: a strong ETag, else the time of the last change; empty where there is neither."""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")


def _asked_pause(response: urllib3.BaseHTTPResponse) -> float:
    """Retry-After in seconds, 0 without one."""
    return seconds_to_wait(response.headers.get("Retry-After")) or 0.0


def _known(part: Path, address: str) -> _Part | None:
    """Which file `part` is of; None where it can't be gone on with."""
    try:
        known = _Part.model_validate_json(about(part).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return known if known.address == address else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _failure(state: tenacity.RetryCallState) -> _Again | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, _Again) else None


def _words(error: HTTPError) -> str:
    """What a person wants to know of urllib3's errors: not their objects."""
    first = str(error.args[0]) if error.args else type(error).__name__
    return head(clean(re.sub(r"^_?\w+\(.*?\): ", "", first)), 200)
