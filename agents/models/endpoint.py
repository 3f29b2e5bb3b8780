"""One POST to one endpoint: connections are kept alive, nothing is repeated or followed, and any wait can be ended.

On the standard library's client: on a loopback a request takes two thirds of the time that it takes through urllib3,
and less than half of httpx's. What it lacks, a wait that can be ended, is added below the reply: `_Patient` looks up between reads.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError, SetupError

from .attend import POLL, TimeLimit, attend

CONNECT_SECONDS = 20.0
IDLE_SECONDS = (
    20.0  # a connection that rested longer is not used again: what died unseen would cost an uncertain answer
)
PROBE_SECONDS = 60  # of silence, after which the system asks the peer: answers of reasoning models take minutes


class NotSent(Exception):
    """No connection: not one byte of the request has left."""


class NoReply(Exception):
    """The request left, at least in part, and no whole reply came back."""


@dataclass(frozen=True)
class HttpReply:
    status: int
    headers: Message  # names in any case
    body: bytes


class Endpoint:
    """An URL to post to, with its idle connections. The proxy is the one that the environment names for it now."""

    def __init__(self, url: str) -> None:
        parts = checked_url(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._proxy = _proxy(parts.scheme, self._host, self._port)
        self._proxy_headers = _proxy_headers(self._proxy)
        if self._proxy and not self._tls:
            self._target = f"http://{_netloc(self._host, self._port)}{self._target}"
        self._context = ssl.create_default_context() if self._tls else None
        self._idle: list[tuple[float, HTTPConnection]] = []
        self._lock = threading.Lock()

    def post(self, body: bytes, headers: Mapping[str, str], cancel: Cancel, *, seconds: float) -> HttpReply:
        """Send `body` and give back the whole reply.

        Raises NotSent, or NoReply where the reply may have been made and billed; also NoReply after `seconds`, and
        Cancelled, both within POLL or so of their time. Safe to call from several threads.
        """
        deadline = monotonic() + seconds

        def look() -> None:
            cancel.check()
            if monotonic() >= deadline:
                raise TimeLimit

        connection = self._connection(cancel, seconds)
        try:
            reply, keep = self._exchange(connection, body, headers, look)
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoReply(_words(error)) from error
        except TimeLimit:
            connection.close()
            raise NoReply(f"none within {seconds:g} s") from None
        except BaseException:
            connection.close()
            raise
        if keep:
            with self._lock:
                self._idle.append((monotonic(), connection))
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _connection(self, cancel: Cancel, seconds: float) -> HTTPConnection:
        """An idle connection that still stands, or a new one."""
        cancel.check()
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if monotonic() - since < IDLE_SECONDS and _stands(connection):
                    return connection
                connection.close()
        connection = self._closed_connection()
        try:
            # Name servers can't be interrupted: only this runs in a thread of its own.
            attend(connection.connect, cancel, seconds=min(CONNECT_SECONDS, seconds))
        except TimeLimit:
            raise NotSent("timed out") from None
        except (OSError, HTTPException) as error:
            raise NotSent(_words(error)) from error
        _probe(connection.sock)
        return connection

    def _closed_connection(self) -> HTTPConnection:
        host, port = (self._proxy.hostname or "", self._proxy.port or 80) if self._proxy else (self._host, self._port)
        if self._context is None:
            return HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        secure = HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=self._context)
        if self._proxy:
            secure.set_tunnel(self._host, self._port, dict(self._proxy_headers))
        return secure

    def _exchange(
        self, connection: HTTPConnection, body: bytes, headers: Mapping[str, str], look: Callable[[], None]
    ) -> tuple[HttpReply, bool]:
        """The reply, and whether the connection can be used again."""
        connection.sock.settimeout(POLL)
        connection.putrequest("POST", self._target)
        own = self._proxy_headers if self._proxy and not self._tls else {}
        for name, value in {**headers, **own, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        # A server may answer and hang up before it has read the whole of a request that it won't take.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.endheaders()
            _send(connection.sock, body, look)
        connection.response_class = cast(type[HTTPResponse], partial(_reply_from, look))
        response = connection.getresponse()
        reply = HttpReply(response.status, response.headers, response.read())
        return reply, not response.will_close


def _reply_from(look: Callable[[], None], sock: socket.socket, *rest: Any, **more: Any) -> HTTPResponse:
    return HTTPResponse(cast(socket.socket, _Patient(sock, look)), *rest, **more)


class _Patient(io.RawIOBase):
    """What a reply is read from: a socket whose short time limit only means to look whether the wait should end."""

    def __init__(self, sock: socket.socket, look: Callable[[], None]) -> None:
        self._sock = sock
        self._hold = sock.makefile("rb", 0)  # keeps the socket open where the connection lets go of it before the end
        self._look = look

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            self._look()  # also between reads that bring something: some servers send blanks while a model thinks
            with suppress(TimeoutError):
                return self._sock.recv_into(buffer)

    def close(self) -> None:
        self._hold.close()
        super().close()


def _send(sock: socket.socket, body: bytes, look: Callable[[], None]) -> None:
    rest = memoryview(body)
    while rest:
        look()
        with suppress(TimeoutError):
            rest = rest[sock.send(rest) :]


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return str(error) or type(error).__name__


def checked_url(url: str) -> SplitResult:
    """The parts of an endpoint's URL. InputError where it is none; it is not shown then, for it may hold a secret."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or " " in url or not (url.isascii() and url.isprintable()):
        raise InputError(
            "not the address of an endpoint",
            field="api_base",
            remedy="give it as https://HOST/v1 or http://HOST:PORT/v1",
        )
    if parts.username or parts.password:
        raise InputError(
            "a name or password in the address is not used", field="api_base", remedy="give the key by its variable"
        )
    return parts


def _proxy(scheme: str, host: str, port: int) -> SplitResult | None:
    """The proxy that the environment names for this host."""
    proxies = getproxies()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or proxy_bypass(_netloc(host, port)):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme != "http" or not parts.hostname:
        raise SetupError(
            f"a proxy of the kind {parts.scheme} is not supported",
            field=f"{scheme}_proxy",
            remedy="name an http:// proxy, or list the host in no_proxy",
        )
    return parts


def _proxy_headers(proxy: SplitResult | None) -> dict[str, str]:
    if proxy is None or proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _probe(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), PROBE_SECONDS)


def _stands(connection: HTTPConnection) -> bool:
    """Whether an idle connection is open: one that has something to read was closed, or is out of step."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)
