"""Runs on the host in place of a program inside: hands its terminal to the sandbox's first process, waits for the end.

Started as `enter.py SOCKET CWD PROGRAM ARGUMENT…`; its environment is the program's. Standard library alone: it must
start fast, and is run by path. It ends as the program ends (a signal n as 128 + n); killed, it takes the program along.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import termios

SANDBOX_GONE = 125


def request(connection: socket.socket, argv: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> None:
    """Ask the first process inside to run `argv` on `streams` (stdin, stdout, stderr)."""
    body = os.memfd_create("request")
    try:
        # Escaped to ASCII, so that bytes which are not UTF-8 pass through as lone surrogates.
        data = memoryview(json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode())
        while data:
            data = data[os.write(body, data) :]
        os.lseek(body, 0, os.SEEK_SET)
        rights = array.array("i", [body, *streams])
        connection.sendmsg([b"run"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    finally:
        os.close(body)


def main() -> int:
    path, cwd, *argv = sys.argv[1:]
    os.chdir(os.path.dirname(path))  # noqa: PTH120 - pathlib costs a third of the start; a socket's whole path may be too long
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(os.path.basename(path))  # noqa: PTH119
    if os.isatty(0):
        # Give the terminal up, so that the program inside can lead its session. That hangs up our own.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCNOTTY)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    request(connection, argv, dict(os.environ), cwd, [0, 1, 2])
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    while packet := connection.recv(1 << 16):
        message = json.loads(packet)
        if "failed" in message:
            os.write(2, f"the sandbox could not start it: {message['failed']}\n".encode(errors="replace"))
        elif "started" in message:
            os.dup2(nothing, 2)
        elif "exit" in message:
            return int(message["exit"])
    return SANDBOX_GONE


if __name__ == "__main__":
    sys.exit(main())
