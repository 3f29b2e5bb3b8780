"""The owner's side of the first process inside: start a command there, learn its number, wait for its end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import enter
from .init import HALT
from .protocol import SandboxError

SOCKET = "init.sock"
CREDENTIALS = struct.Struct("3i")  # process, user, group, as the kernel fills them in for the receiver
START_SECONDS = 20.0  # for the inside to be laid out and a process to be started there, on a loaded machine


def listen(folder: Path) -> socket.socket:
    """The socket that requests come to, in `folder`. Bound by a short path: a socket's may have 107 bytes only."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (folder / SOCKET).unlink(missing_ok=True)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{SOCKET}")
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(opened)
    return listener


def _connect(connection: socket.socket, folder: Path) -> None:
    connection.settimeout(START_SECONDS)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{opened}/{SOCKET}")
    finally:
        os.close(opened)


@contextlib.contextmanager
def halted(folder: Path) -> Iterator[bool]:
    """Stop all commands inside for the block; what is killed in it ends all the same. False where nobody answers.

    Unlike signals from here, one from the first process inside comes to all of them before any can start another.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        answered = False
        with contextlib.suppress(OSError):  # the sandbox has ended
            _connect(connection, folder)
            connection.send(HALT)
            answered = bool(connection.recv(1 << 10))
        try:
            yield answered
        finally:
            with contextlib.suppress(OSError):  # wait until they go on: a SIGSTOP before that would be undone by it
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)


class RemoteCommand:
    """One command that the process inside was asked to start. SandboxError where it can't be."""

    def __init__(
        self, folder: Path, argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Sequence[int]
    ) -> None:
        self._exit: int | None = None
        self._pid: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            _connect(self._socket, folder)
            enter.request(self._socket, list(argv), dict(env), cwd, list(streams))
            while self._pid is None:
                self._receive()
            self._socket.setblocking(False)
        except OSError as error:
            self.close()
            raise SandboxError(f"the sandbox no longer answers: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its number on the host."""
        assert self._pid is not None
        return self._pid

    def fileno(self) -> int:
        return self._socket.fileno()

    def poll(self) -> int | None:
        """The exit code once the command has ended. SandboxError when the sandbox ended before it."""
        while self._exit is None:
            try:
                self._receive()
            except BlockingIOError:
                return None
        return self._exit

    def _receive(self) -> None:
        data, extra, _, _ = self._socket.recvmsg(1 << 16, socket.CMSG_SPACE(CREDENTIALS.size))
        if not data:
            raise SandboxError("the sandbox has ended")
        message = json.loads(data)
        if "failed" in message:
            raise SandboxError(f"the sandbox could not start a command: {message['failed']}")
        if "exit" in message:
            self._exit = int(message["exit"])
        elif "started" in message:
            self._pid = next(
                CREDENTIALS.unpack(body[: CREDENTIALS.size])[0]
                for level, kind, body in extra
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
            )

    def close(self) -> None:
        self._socket.close()
