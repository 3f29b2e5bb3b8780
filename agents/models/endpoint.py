"""One POST to one endpoint, over urllib3: connections are kept alive, nothing is repeated or followed.

urllib3 rather than httpx: on a loopback a request takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError, SSLError

from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError, SetupError

from .attend import TimeLimit, attend

CONNECT_SECONDS = 20.0
IDLE_SECONDS = (
    20.0  # a connection that rested longer is not used again: what died unseen would cost an uncertain answer
)
_BEFORE_SENDING = (NewConnectionError, ConnectTimeoutError, ProxyError, SSLError)


class NotSent(Exception):
    """No connection: not one byte of the request has left. `certificate`: the peer's was refused."""

    def __init__(self, words: str, *, certificate: bool = False) -> None:
        super().__init__(words)
        self.certificate = certificate


class NoReply(Exception):
    """The request left, at least in part, and no whole reply came back."""


@dataclass(frozen=True)
class HttpReply:
    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes


class Endpoint:
    """An URL to post to. The proxy is the one that the environment names for it when this is made."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = _pool(checked_url(url))
        self._rested = monotonic()

    def post(self, body: bytes, headers: Mapping[str, str], cancel: Cancel, *, seconds: float) -> HttpReply:
        """Send `body` and give back the whole reply.

        Raises NotSent; NoReply where the reply may have been made and billed, also after `seconds`; Cancelled soon
        after the wish. Safe to call from several threads.
        """
        if monotonic() - self._rested > IDLE_SECONDS:
            self._pool.clear()
        try:
            return attend(lambda: self._exchange(body, headers, seconds), cancel, seconds=seconds)
        except TimeLimit:
            raise NoReply(f"none within {seconds:g} s") from None
        finally:
            self._rested = monotonic()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _exchange(self, body: bytes, headers: Mapping[str, str], seconds: float) -> HttpReply:
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds)
        try:
            reply = self._pool.request(
                "POST", self._url, body=body, headers=dict(headers), timeout=limits, redirect=False
            )
        except _BEFORE_SENDING as error:
            raise NotSent(_words(error), certificate="CERTIFICATE_VERIFY_FAILED" in str(error)) from error
        except HTTPError as error:
            raise NoReply(_words(error)) from error
        return HttpReply(reply.status, reply.headers, reply.data)


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


def _pool(endpoint: SplitResult) -> urllib3.PoolManager:
    """Connections to the endpoint, by the proxy that the environment names for its host."""
    proxies = getproxies()
    address = proxies.get(endpoint.scheme) or proxies.get("all")
    if not address or proxy_bypass(endpoint.netloc):
        return urllib3.PoolManager(maxsize=4, retries=False)
    proxy = urllib3.util.parse_url(address if "://" in address else f"http://{address}")
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise SetupError(
            f"a proxy of the kind {proxy.scheme} is not supported",
            field=f"{endpoint.scheme}_proxy",
            remedy="name an http:// proxy, or list the host in no_proxy",
        )
    sign_in = urllib3.make_headers(proxy_basic_auth=unquote(proxy.auth)) if proxy.auth else None
    return urllib3.ProxyManager(proxy.url, proxy_headers=sign_in, maxsize=4, retries=False)
