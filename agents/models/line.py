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
    """What one exchange is sent over. As a context it is that of the exchange which its thread has then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self._cut = False

    def cut(self) -> None:
        """End the exchange: whoever waits for it gets an error, and nothing of it is sent from now on."""
        with self._lock:
            self._cut = True
            shut(getattr(self._connection, "sock", None))

    def takes(self, connection: HTTPConnection) -> bool:
        """The exchange uses `connection` now. False where it was cut."""
        with self._lock:
            self._connection = connection
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


def _taken(connection: HTTPConnection) -> None:
    if _own.line is not None and not _own.line.takes(connection):
        connection.close()
        raise NewConnectionError(connection, "nobody waits for it any more")


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _taken(self)

    def request(self, *given: Any, **named: Any) -> None:
        _taken(self)
        super().request(*given, **named)


class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _taken(self)

    def request(self, *given: Any, **named: Any) -> None:
        _taken(self)
        super().request(*given, **named)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _Pool, "https": _SecurePool}
"""For a pool manager's `pool_classes_by_scheme`."""
