"""The proxy: the only way out of a sandbox, and on the owner's side of it.

It listens on a socket that was opened inside, and answers and connects outside, in a thread of the owner's. So there is
no program of ours inside that could be ended or deceived, and the proxy is gone when the owner is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import h11

from .forward import BadRequest, forward
from .outward import Outward, Unreachable
from .peer import Peer
from .policy import NotAllowed, Policy
from .refusals import Refusals
from .tunnel import tunnel

CONNECTIONS = 128  # at once
IDLE_SECONDS = 120.0  # between requests
END_SECONDS = 5.0


class Proxy:
    """Serves one sandbox from `start` to `close`."""

    def __init__(self, policy: Policy, outward: Outward, refusals: Refusals) -> None:
        self._policy = policy
        self._outward = outward
        self._refusals = refusals
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which becomes ours."""
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            try:
                server = await asyncio.start_server(self._accept, sock=listener)
            finally:
                ready.set()
            await self._end.wait()
            server.close()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), name="network proxy", daemon=True)
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        """Cut all connections. When it returns nobody is told of refusals any more."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(END_SECONDS)
            self._loop = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= 2 * CONNECTIONS:  # not even told why: each costs the owner a descriptor
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._client(Peer(reader, writer, h11.SERVER)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _client(self, client: Peer) -> None:
        """All requests of one connection."""
        try:
            if len(self._tasks) > CONNECTIONS:
                await client.answer(503, f"more than {CONNECTIONS} connections at once", seconds=1)
                return
            while await self._request(client) and client.again():
                pass
        except OSError:
            pass
        except h11.RemoteProtocolError as error:
            await self._complain(client, error)
        except asyncio.CancelledError:
            client.writer.transport.abort()
            raise
        finally:
            await client.close()

    async def _request(self, client: Peer) -> bool:
        """Carry out the next request. False where there is none."""
        request = await client.next(IDLE_SECONDS)
        if not isinstance(request, h11.Request):
            return False
        carry_out = tunnel if request.method == b"CONNECT" else forward
        try:
            await carry_out(client, request, self._policy, self._outward)
        except NotAllowed as refused:
            self._refusals.add(refused.host, refused.port, str(refused))
            words = f"Refused by the network policy '{self._policy.name}': {refused}"
            await client.answer(403, words, seconds=IDLE_SECONDS)
        except Unreachable as error:
            await client.answer(502, str(error), seconds=IDLE_SECONDS)
        except BadRequest as error:
            await client.answer(400, str(error), seconds=IDLE_SECONDS)
        return True

    async def _complain(self, client: Peer, error: h11.RemoteProtocolError) -> None:
        with contextlib.suppress(OSError, h11.ProtocolError):
            await client.answer(error.error_status_hint, f"that is not HTTP: {error}", seconds=1)
