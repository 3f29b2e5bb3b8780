"""Connections that another thread can cut: closing a socket does not wake a thread that waits for it, this does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError


class Line:
    """What one exchange is sent over. As a context it is that of the exchange which its thread has then.

    `seconds` is how long a socket may take to send, once there is a connection.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.sent = False  # whether any of a request may have left; once it is cut, what stands here stays so
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self._cut = False

    def cut(self) -> None:
        """End the exchange: whoever waits for it gets an error, and nothing of it is sent from now on."""
        with self._lock:
            self._cut = True
            shut(getattr(self._connection, "sock", None))

    def takes(self, connection: HTTPConnection, *, sending: bool = False) -> bool:
        """The exchange uses `connection` now, to send its request where `sending`. False where it was cut."""
        with self._lock:
            self._connection = connection
            self.sent = self.sent or (sending and not self._cut)
            return not self._cut

    def __enter__(self) -> Line:
        _own.line = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _own.line = None
        with self._lock:
            self._connection = None


def shut(connection: Any) -> None:
    """End a socket's traffic, whichever thread waits for it; None is no socket."""
    if connection is not None:
        with suppress(OSError):  # it is closed already
            connection.shutdown(socket.SHUT_RDWR)


class _Own(threading.local):
    line: Line | None = None


_own = _Own()


class _Cuttable(HTTPConnection):
    """To be mixed in: a connection that tells the line of its thread what it does."""

    def connect(self) -> None:
        super().connect()
        self._tell(sending=False)

    def request(self, *given: Any, **named: Any) -> None:
        if self.sock is None:
            self.connect()  # here rather than in the middle: what goes wrong with it has sent nothing
        self._tell(sending=True)
        if _own.line is not None:
            self.timeout = _own.line.seconds  # else a long body would have to be gone in the time for connecting
        super().request(*given, **named)

    def _tell(self, *, sending: bool) -> None:
        if _own.line is not None and not _own.line.takes(self, sending=sending):
            self.close()
            raise NewConnectionError(self, "nobody waits for it any more")


class _SecureConnection(_Cuttable, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Cuttable


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _Pool, "https": _SecurePool}
"""For a pool manager's `pool_classes_by_scheme`."""
