"""CONNECT: a tunnel for TLS, to the host that is asked for and to no other of its names."""

from __future__ import annotations

import asyncio
import contextlib

import h11

from .names import parse_host
from .outward import Outward
from .peer import CHUNK, Peer
from .policy import Destination, NotAllowed, Policy, printable, shown
from .tls import ACCESS_DENIED, Hello, NotTls, read_hello

HELLO_SECONDS = 30.0


async def tunnel(client: Peer, request: h11.Request, policy: Policy, outward: Outward) -> None:
    """Carry bytes between `client` and the host that `request` names, until either has had enough.

    NotAllowed and Unreachable before the tunnel stands. NotAllowed later for a client that does not begin with TLS for
    that very host; by then an alert has told it.
    """
    to = policy.admit(request.target.decode("ascii", "replace"))
    reader, writer = await outward.open_tunnel(to)
    try:
        await _leave_http(client)
        try:
            data = await _hello(client, to)
        except NotAllowed:
            client.writer.write(ACCESS_DENIED)
            raise
        writer.write(data)
        await asyncio.gather(_carry(client.reader, writer), _carry(reader, client.writer))
    finally:
        writer.close()


async def _leave_http(client: Peer) -> None:
    while client.http.their_state is h11.SEND_BODY:
        await client.next(HELLO_SECONDS)
    await client.send(h11.Response(status_code=200, reason=b"Connection established", headers=[]))


async def _hello(client: Peer, to: Destination) -> bytes:
    """What the client has sent when its first message is whole: that message, and perhaps more. NotAllowed as above."""
    data, _ = client.http.trailing_data
    host = shown(to.host)
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            while (hello := read_hello(data)) is None:
                more = await client.reader.read(CHUNK)
                if not more:
                    raise ConnectionError("the client left")
                data += more
    except NotTls as error:
        raise NotAllowed(host, to.port, f"what was sent through the tunnel to {host} is not TLS: {error}") from None
    if why := _disagreement(hello, to):
        raise NotAllowed(host, to.port, f"TLS through the tunnel to {host} {why}")
    return data


def _disagreement(hello: Hello, to: Destination) -> str:
    if hello.encrypted:
        return "hides the name of its server"
    if not isinstance(to.host, str):  # one that the user listed: TLS names no addresses
        return "" if hello.server_name is None else f"asks for {printable(hello.server_name)}"
    if hello.server_name is None:
        return "names no server"
    try:
        same = parse_host(hello.server_name) == to.host
    except ValueError:
        same = False
    return "" if same else f"asks for {printable(hello.server_name)}"


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Move bytes one way. Their end is passed on; the other way stays open, and finds out itself what broke off."""
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        if sink.can_write_eof():
            sink.write_eof()
        else:  # TLS to the owner's proxy can only end both ways
            sink.close()
