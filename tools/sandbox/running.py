"""One command to its end: feed its input, drain its output, watch the clock. Shared by all kinds of sandbox."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .protocol import ExecResult

CHUNK = 1 << 16
POLL = 0.02  # seconds between looks where the kernel gives no event for an exit
MAX_WORD = 1 << 17  # bytes of one argument, in Linux
CANNOT_RUN = 126  # as a shell has it
LINGER = 0.3  # seconds to drain after the exit while something left behind still writes


def unrunnable(argv: Sequence[str]) -> ExecResult | None:
    """What a shell would say of words that no program can be given, else None."""
    try:
        if any("\0" in word for word in argv):
            why = "an argument holds a NUL character"
        else:
            size = sum(len(os.fsencode(word)) + 1 for word in argv)
            longest = max(len(os.fsencode(word)) for word in argv)
            if longest < MAX_WORD and size < os.sysconf("SC_ARG_MAX") // 2:
                return None
            why = "the arguments are too long"
    except UnicodeEncodeError:
        why = "an argument holds characters that can't be encoded"
    return ExecResult(exit_code=CANNOT_RUN, stdout=b"", stderr=f"{why}\n".encode())


class Pipes:
    """The three streams of a command: `theirs` to start it with, `ours` to talk to it. Closes what nobody took over."""

    def __init__(self, stdin: bytes) -> None:
        if stdin:
            their_in, our_in = os.pipe()
        else:
            their_in, our_in = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None
        our_out, their_out = os.pipe()
        our_err, their_err = os.pipe()
        self.theirs = [their_in, their_out, their_err]
        self.ours: tuple[int | None, int, int] | None = (our_in, our_out, our_err)

    def started(self) -> tuple[int | None, int, int]:
        """Close their ends, which the command now holds, and give ours away."""
        self._close_theirs()
        assert self.ours is not None
        ours, self.ours = self.ours, None
        return ours

    def _close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_theirs()
        for fd in self.ours or ():
            if fd is not None:
                os.close(fd)


@dataclass
class Running:
    """A started command as the pump needs it. Takes over the three descriptors."""

    stdin: int | None  # write end, None where it was given /dev/null
    stdout: int
    stderr: int
    wake: int | None  # becomes readable when `poll` may have news
    poll: Callable[[], int | None]  # exit code once it has ended
    kill: Callable[[], None]  # ends it and all its children


@dataclass
class _Stream:
    limit: int
    kept: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def take(self, data: bytes) -> None:
        room = self.limit - len(self.kept)
        self.kept += data[:room]
        self.truncated |= len(data) > room


class _Pump:
    def __init__(self, running: Running, stdin: bytes, limit: int) -> None:
        self.running = running
        self.rest = memoryview(stdin)
        self.streams = {running.stdout: _Stream(limit), running.stderr: _Stream(limit)}
        self.selector = selectors.DefaultSelector()
        for fd in self.streams:
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ)
        if running.stdin is not None:
            os.set_blocking(running.stdin, False)
            self.selector.register(running.stdin, selectors.EVENT_WRITE)
        if running.wake is not None:
            self.selector.register(running.wake, selectors.EVENT_READ)

    def turn(self, wait: float) -> bool:
        """Move what can be moved within `wait` seconds. False when nothing was."""
        moved = False
        for key, _ in self.selector.select(max(0.0, wait)):
            if key.fd == self.running.stdin:
                self._feed()
                moved = True
            elif key.fd in self.streams:
                self._drain(key.fd)
                moved = True
        return moved

    def _feed(self) -> None:
        fd = self.running.stdin
        assert fd is not None
        try:
            self.rest = self.rest[os.write(fd, self.rest[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not want the rest
            self.rest = self.rest[:0]
        if not self.rest:
            self.selector.unregister(fd)
            os.close(fd)
            self.running.stdin = None

    def _drain(self, fd: int) -> None:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        if data:
            self.streams[fd].take(data)
        else:
            self.selector.unregister(fd)

    def close(self) -> None:
        self.selector.close()
        for fd in (*self.streams, self.running.stdin):
            if fd is not None:
                os.close(fd)


def finish(running: Running, *, timeout: float, stdin: bytes = b"", limit: int) -> ExecResult:
    """Wait for the command, at most `timeout` seconds, then kill it and its children.

    Output past `limit` bytes a stream is read and dropped, so that the command never blocks on a full pipe. A child
    left in the background that still holds the pipes does not hold up the result.
    """
    pump = _Pump(running, stdin, limit)
    deadline = time.monotonic() + timeout
    try:
        while (code := running.poll()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                running.kill()
                break
            pump.turn(left if running.wake is not None else min(left, POLL))
        last = time.monotonic() + LINGER
        while time.monotonic() < last and pump.turn(0):
            pass
    except BaseException:
        with contextlib.suppress(OSError):
            running.kill()
        raise
    finally:
        pump.close()
    out, err = pump.streams[running.stdout], pump.streams[running.stderr]
    return ExecResult(
        exit_code=code,
        stdout=bytes(out.kept),
        stderr=bytes(err.kept),
        timed_out=code is None,
        truncated=out.truncated or err.truncated,
    )
