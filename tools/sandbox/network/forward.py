"""Requests over plain HTTP, each of them checked: `GET http://deb.debian.org/... HTTP/1.1`."""

from __future__ import annotations

import re

import h11

from .names import parse_authority
from .outward import Outward, Unreachable
from .peer import Header, Peer, passed_on
from .policy import Destination, NotAllowed, Policy, printable, shown

ANSWER_SECONDS = 300.0  # without a byte
METHODS = (b"GET", b"HEAD", b"POST")
_ABSOLUTE = re.compile(r"http://([^/?#]*)([/?][^#]*)?(?:#.*)?", re.IGNORECASE)  # some clients send the fragment too


class BadRequest(Exception):
    """A request that no proxy can carry out."""


async def forward(client: Peer, request: h11.Request, policy: Policy, outward: Outward) -> None:
    """Carry out one request of `client` and give it the answer.

    NotAllowed, BadRequest and Unreachable as long as no part of an answer is sent.
    """
    to, path = _destination(request, policy)
    proxy = outward.proxy("http", to)
    target = f"http://{_host(to)}{path}" if proxy else path
    headers = _headers(request, to) + list(proxy.headers if proxy else ())
    server = Peer(*await outward.open("http", to), h11.CLIENT)
    try:
        await _ask(client, server, h11.Request(method=request.method, target=target, headers=headers))
        answer = await server.next(ANSWER_SECONDS)
        while isinstance(answer, h11.InformationalResponse):
            answer = await server.next(ANSWER_SECONDS)
        if not isinstance(answer, h11.Response) or (proxy and answer.status_code == 407):
            raise Unreachable(f"{proxy.host if proxy else to.authority} gave no answer")
        await _give(server, client, answer)
    except (OSError, h11.ProtocolError) as error:
        raise Unreachable(f"{to.authority} broke off: {error or type(error).__name__}") from None
    finally:
        server.writer.close()


def _destination(request: h11.Request, policy: Policy) -> tuple[Destination, str]:
    """Where a request goes, and the path it asks for there."""
    target = request.target.decode("ascii", "replace")
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        if "://" in target:
            raise NotAllowed(printable(target), 0, "only http goes through unencrypted, and https by CONNECT")
        raise BadRequest("this is a proxy: it takes requests for http://HOST/... and CONNECT")
    to = policy.admit(found[1], default_port=80)
    if request.method not in METHODS:
        method = printable(request.method.decode("ascii", "replace"))
        raise NotAllowed(shown(to.host), to.port, f"{method} to {shown(to.host)} is not allowed over plain http")
    for name, value in request.headers:
        if name == b"host" and not _agrees(value.decode("ascii", "replace"), to):
            raise NotAllowed(shown(to.host), to.port, f"a request to {shown(to.host)} has another Host header")
    path = found[2] or "/"
    return to, path if path.startswith("/") else f"/{path}"


def _agrees(header: str, to: Destination) -> bool:
    try:
        host, port = parse_authority(header)
    except ValueError:
        return False
    return (host, port or 80) == (to.host, to.port)


def _headers(request: h11.Request, to: Destination) -> list[Header]:
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise BadRequest("a request has one length, by Content-Length or by Transfer-Encoding")
    kept = [(name, value) for name, value in passed_on(request.headers) if name != b"host"]
    return [(b"host", _host(to).encode()), *kept, (b"connection", b"close")]


def _host(to: Destination) -> str:
    return shown(to.host) if to.port == 80 else to.authority


async def _ask(client: Peer, server: Peer, request: h11.Request) -> None:
    await server.send(request)
    if client.http.they_are_waiting_for_100_continue:
        await client.send(h11.InformationalResponse(status_code=100, headers=[]))
    while isinstance(event := await client.next(ANSWER_SECONDS), h11.Data):
        await server.send(h11.Data(data=event.data))
    await server.send(h11.EndOfMessage())


async def _give(server: Peer, client: Peer, answer: h11.Response) -> None:
    headers = passed_on(answer.headers)
    await client.send(h11.Response(status_code=answer.status_code, reason=answer.reason, headers=headers))
    while isinstance(event := await server.next(ANSWER_SECONDS), h11.Data):
        await client.send(h11.Data(data=event.data))
    await client.send(h11.EndOfMessage())
