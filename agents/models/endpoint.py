"""One POST to one endpoint, over urllib3: connections are kept alive, nothing is repeated or followed.

urllib3 rather than httpx: on a loopback a request takes two thirds of the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.tools.sandbox.network.names import Address, parse_host
from agentctl.tools.sandbox.network.owners import DirectHosts, owners_proxy

from .attend import Patience, TimeLimit, attend
from .cuttable import POOLS, Line
from .near import nobody_at

T = TypeVar("T")

CONNECT_SECONDS = 20.0
LARGEST_BODY = 1 << 26  # bytes of a reply that is not streamed: no model says so much
IDLE_SECONDS = (
    20.0  # a connection that rested longer is not used again: what died unseen would cost an uncertain answer
)
END_SECONDS = 1.0  # for what comes after the end of a reply: a few bytes, or nothing for ever


class NotSent(Exception):
    """No connection: not one byte of the request has left.

    `certificate`: the peer's was refused. `absent`: no server is there, at an address near by.
    """

    def __init__(self, words: str, *, certificate: bool = False, absent: bool = False) -> None:
        super().__init__(words)
        self.certificate = certificate
        self.absent = absent


class NoReply(Exception):
    """The request left, at least in part, and no whole reply came back."""


class HttpAnswer:
    """An answer whose head is there, and whose body is still to come. Both readers raise NoReply where it does not."""

    def __init__(self, response: urllib3.BaseHTTPResponse, patience: Patience) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers  # names in any case
        self._response = response
        self._patience = patience

    def body(self) -> bytes:
        """The whole of it."""
        try:
            body = self._response.read(LARGEST_BODY + 1)
        except HTTPError as error:
            raise NoReply(_words(error)) from error
        if len(body) > LARGEST_BODY:
            raise NoReply(f"it has more than {LARGEST_BODY:,} bytes")
        return body

    def pieces(self) -> Iterator[bytes]:
        """As much as there is, each time something came."""
        try:
            while piece := self._response.read1():
                self._patience.heard()
                yield piece
        except HTTPError as error:
            raise NoReply(_words(error)) from error

    def end(self) -> None:
        """Make the connection fit for the next request: what follows the part that was read is short, or no part."""
        connection = self._response.connection
        if connection is None:  # all was read
            return
        if sock := getattr(connection, "sock", None):
            sock.settimeout(END_SECONDS)
        until = monotonic() + END_SECONDS
        try:
            for _ in self.pieces():
                if monotonic() > until:
                    raise NoReply("it goes on")
        except NoReply:
            self.close()

    def close(self) -> None:
        """End the connection."""
        self._response.close()


class Endpoint:
    """An URL to post to, through the proxy that `environment` names for it when this is made."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        self._url = url
        self._pool = pool_for(checked_url(url), environment)
        self._rested = monotonic()

    def post(
        self,
        body: bytes,
        headers: Mapping[str, str],
        cancel: Cancel,
        read: Callable[[HttpAnswer], T],
        *,
        seconds: float,
    ) -> T:
        """Send `body` and give back what `read` makes of the answer, in a thread of its own.

        Raises NotSent; NoReply where the reply may have been made and billed, also when it is not whole after `seconds`
        or its `pieces` stop coming for long; Cancelled soon after the wish. Nobody waiting any more, the connection is
        closed, so that the provider sees it. Safe to call from several threads.
        """
        if monotonic() - self._rested > IDLE_SECONDS:
            self._pool.clear()
        patience = Patience(seconds)
        line = Line(seconds)

        def exchange() -> T:
            with line:
                answer = self._answer(body, headers, patience, seconds, line)
                try:
                    made = read(answer)
                except BaseException:
                    answer.close()  # its rest would be taken for the next request's answer
                    raise
                answer.end()
                return made

        try:
            return attend(exchange, cancel, patience, leave=line.cut)
        except TimeLimit as limit:
            if not line.sent:
                raise NotSent(str(limit)) from None
            raise NoReply(str(limit)) from limit.__cause__
        finally:
            self._rested = monotonic()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _answer(
        self, body: bytes, headers: Mapping[str, str], patience: Patience, seconds: float, line: Line
    ) -> HttpAnswer:
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds)
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=body,
                headers=dict(headers),
                timeout=limits,
                redirect=False,
                preload_content=False,
            )
        except HTTPError as error:  # its class tells too little: a TLS error may come after all was sent
            if not line.sent:
                nobody = nobody_at(str(self._pool.proxy or self._url), error)
                words = f"{_words(error)} ({nobody})" if nobody else _words(error)
                certificate = "CERTIFICATE_VERIFY_FAILED" in str(error)
                raise NotSent(words, certificate=certificate, absent=bool(nobody)) from error
            raise NoReply(_words(error)) from error
        return HttpAnswer(response, patience)


def _words(error: HTTPError) -> str:
    """What happened, without the pool's own preamble."""
    cause = error.__cause__ or error
    return str(cause).rpartition(": ")[2] or type(cause).__name__


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


def pool_for(endpoint: SplitResult, environment: Mapping[str, str] = os.environ) -> urllib3.PoolManager:
    """Connections to the endpoint, by the proxy that `environment` names for its host. InputError for an unfit one."""
    proxy = owners_proxy(environment, endpoint.scheme)
    port = endpoint.port or (443 if endpoint.scheme == "https" else 80)
    if proxy is None or DirectHosts(environment).holds(_host(endpoint), port):
        return _cuttable(urllib3.PoolManager(maxsize=4, retries=False))
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    url = f"{'https' if proxy.tls else 'http'}://{host}:{proxy.port}"
    headers = {name.decode(): value.decode() for name, value in proxy.headers}
    return _cuttable(urllib3.ProxyManager(url, proxy_headers=headers, maxsize=4, retries=False))


def _host(endpoint: SplitResult) -> str | Address:
    host = endpoint.hostname or ""
    try:
        return parse_host(f"[{host}]" if ":" in host else host)
    except ValueError:  # in a spelling of its own, which no_proxy can't name
        return host


def _cuttable(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    manager.pool_classes_by_scheme = POOLS
    return manager
