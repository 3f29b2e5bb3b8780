"""The owner's side of the first process inside: start a command there, learn its number, wait for its end."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import enter
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


class RemoteCommand:
    """One command that the process inside was asked to start. SandboxError where it can't be."""

    def __init__(
        self, folder: Path, argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Sequence[int]
    ) -> None:
        self._exit: int | None = None
        self._pid: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.settimeout(START_SECONDS)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            try:
                self._socket.connect(f"/proc/self/fd/{opened}/{SOCKET}")
            finally:
                os.close(opened)
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
