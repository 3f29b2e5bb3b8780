"""One end of a connection that speaks HTTP/1.1: h11 decides what the bytes mean, this moves them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import h11

HEAD_LIMIT = 1 << 15  # bytes of a head that is not whole yet
LEFT_LIMIT = 1 << 20  # bytes read of a body that nobody wants, so that its sender comes to read the answer
CHUNK = 1 << 16
CLOSE_SECONDS = 1.0

Header = tuple[bytes, bytes]
# About the connection itself, not about what is asked or answered (RFC 9110 7.6.1).
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade expect".split()
)
FRAMING = frozenset((b"host", b"content-length", b"transfer-encoding"))


class Peer:
    """An end in the role h11.SERVER (it asks us) or h11.CLIENT (we ask it)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: Any) -> None:
        self.reader = reader
        self.writer = writer
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD_LIMIT)
        self._wants_no_body = False  # the last request was HEAD

    async def next(self, seconds: float) -> Any:
        """The next event. TimeoutError (an OSError) where nothing comes for `seconds`, h11.RemoteProtocolError where
        what comes is no HTTP."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(seconds):
                self.http.receive_data(await self.reader.read(CHUNK))
        if isinstance(event, h11.Request):
            self._wants_no_body = event.method == b"HEAD"
        return event

    async def send(self, event: h11.Event) -> None:
        if data := self.http.send(event):
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self, status: int, reason: str, *, seconds: float) -> None:
        """Answer a request with one line, in the reason phrase and in the body: clients show the one or the other."""
        if self.http.our_state is h11.SEND_BODY:
            self.writer.transport.abort()  # an answer has begun: all that can still be told is that it broke off
        if self.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = reason.encode("ascii", "replace") + b"\n"
        headers: list[Header] = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        if self.http.their_state is h11.ERROR:
            headers.append((b"connection", b"close"))
        await self.send(h11.Response(status_code=status, reason=body.strip(), headers=headers))
        if not self._wants_no_body:
            await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())
        await self._leave_the_rest(seconds)

    async def _leave_the_rest(self, seconds: float) -> None:
        left = LEFT_LIMIT
        if self.http.they_are_waiting_for_100_continue:
            return
        while self.http.their_state is h11.SEND_BODY and left > 0:
            event = await self.next(seconds)
            left -= len(event.data) if isinstance(event, h11.Data) else 0

    def again(self) -> bool:
        """Whether another request may follow on this connection; makes ready for it."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True

    async def close(self) -> None:
        """End the connection. What was sent arrives, even at one who still sends: a plain close would cut it off."""
        left = LEFT_LIMIT
        with contextlib.suppress(OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                self.writer.write_eof()
                while left > 0 and (data := await self.reader.read(CHUNK)):
                    left -= len(data)
        self.writer.close()


def passed_on(headers: Any) -> list[Header]:
    """The headers of a message that belong to it wherever it goes."""
    named = {token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")}
    dropped = HOP_BY_HOP | (named - FRAMING)
    return [(name, value) for name, value in headers if name not in dropped]
