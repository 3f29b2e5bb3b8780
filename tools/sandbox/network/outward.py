"""The way from the proxy to a host outside: a name is resolved once, and the address found is the one connected to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from typing import TypeAlias

import h11

from .addresses import is_outside
from .names import Address
from .owners import DirectHosts, OwnersProxy, owners_proxy
from .peer import Peer
from .policy import Destination, NotAllowed, shown

CONNECT_SECONDS = 10.0  # for one address
RESOLVE_SECONDS = 20.0
OPINION_SECONDS = 2.0
ADDRESSES = 4  # of one name, tried in turn

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Unreachable(Exception):
    """A host that may be reached, and can't be."""


class Outward:
    """Connects to destinations that the policy has admitted, through the owner's proxies where there are any."""

    def __init__(self, owner_env: Mapping[str, str]) -> None:
        self._proxies = {scheme: owners_proxy(owner_env, scheme) for scheme in ("http", "https")}
        self._direct = DirectHosts(owner_env)

    def proxy(self, scheme: str, to: Destination) -> OwnersProxy | None:
        """The owner's proxy for a request to `to`."""
        return None if self._direct.holds(to.host, to.port) else self._proxies[scheme]

    async def open(self, scheme: str, to: Destination) -> Streams:
        """A connection for plain requests to `to`, or to the owner's proxy in its place.

        NotAllowed where `to` is at no public address, Unreachable where it can't be connected to.
        """
        if (proxy := self.proxy(scheme, to)) is None:
            return await _direct(to)
        await _check_as_far_as_known(to)
        context = ssl.create_default_context() if proxy.tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(proxy.host, proxy.port, ssl=context)
        except OSError as error:
            raise Unreachable(f"the proxy {proxy.host} can't be reached: {_words(error)}") from None

    async def open_tunnel(self, to: Destination) -> Streams:
        """A connection that carries any bytes to `to`. Raises as `open`."""
        streams = await self.open("https", to)
        if proxy := self.proxy("https", to):
            try:
                await _ask_for_tunnel(Peer(*streams, h11.CLIENT), proxy, to)
            except BaseException:
                streams[1].close()
                raise
        return streams


async def _direct(to: Destination) -> Streams:
    addresses = [to.host] if not isinstance(to.host, str) else await resolve(to.host)
    wanted = [address for address in addresses if to.anywhere or is_outside(address)]
    if not wanted:
        raise _not_public(to)
    failure: Exception | None = None
    for address in wanted[:ADDRESSES]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(str(address), to.port)
        except OSError as error:
            failure = error
            continue
        if not to.anywhere and _is_this_machine(writer):
            writer.close()
            raise _not_public(to)
        return reader, writer
    raise Unreachable(f"{to.authority} can't be reached: {_words(failure)}")


def _is_this_machine(writer: asyncio.StreamWriter) -> bool:
    """Whether a connection ends where it began, at a public address of our own."""
    return bool(writer.get_extra_info("sockname")[0] == writer.get_extra_info("peername")[0])


async def _check_as_far_as_known(to: Destination) -> None:
    """Where the owner's proxy resolves the name, ours is a second opinion: many such networks resolve none outside."""
    if to.listed or not isinstance(to.host, str):
        return
    with contextlib.suppress(Unreachable, TimeoutError):
        async with asyncio.timeout(OPINION_SECONDS):
            addresses = await resolve(to.host)
        if not any(is_outside(address) for address in addresses):
            raise _not_public(to)


def _not_public(to: Destination) -> NotAllowed:
    return NotAllowed(shown(to.host), to.port, f"{shown(to.host)} is not at a public address")


async def resolve(name: str) -> list[Address]:
    """The addresses of `name`, as the owner's system has them. Unreachable where there are none."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Address]] = loop.create_future()

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
            settle = partial(answer.set_result, addresses)
        except (OSError, UnicodeError) as error:
            settle = partial(answer.set_exception, Unreachable(f"{name} can't be resolved: {_words(error)}"))
        with contextlib.suppress(RuntimeError):  # the proxy ended meanwhile
            loop.call_soon_threadsafe(lambda: answer.done() or settle())

    # A thread of its own, that nobody waits for: a lookup can't be stopped, and may take minutes.
    threading.Thread(target=look_up, daemon=True, name="resolve").start()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            return await answer
    except TimeoutError:
        raise Unreachable(f"{name} can't be resolved in {RESOLVE_SECONDS:.0f} s") from None


async def _ask_for_tunnel(peer: Peer, proxy: OwnersProxy, to: Destination) -> None:
    target = to.authority.encode()
    headers = [(b"host", target), *proxy.headers]
    try:
        await peer.send(h11.Request(method=b"CONNECT", target=target, headers=headers))
        await peer.send(h11.EndOfMessage())
        answer = await peer.next(CONNECT_SECONDS)
        while isinstance(answer, h11.InformationalResponse):
            answer = await peer.next(CONNECT_SECONDS)
    except (OSError, h11.ProtocolError) as error:
        raise Unreachable(f"the proxy {proxy.host} gave no answer: {_words(error)}") from None
    status = answer.status_code if isinstance(answer, h11.Response) else 0
    if status // 100 != 2:
        raise Unreachable(
            f"the proxy {proxy.host} does not connect to {to.authority}: it answers {status or 'nothing'}"
        )


def _words(error: Exception | None) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
