"""What processes print when no call waits for them: drained by one thread, so that they never block."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from .terminal import Terminal

READS = 16  # of one terminal in a row, so that a flood on one does not starve the others
BREATH = 0.005  # seconds of rest after so many: who floods a terminal that nobody waits for is slowed down


@dataclass
class _Source:
    terminal: Terminal
    feed: Callable[[bytes], None]
    ended: Callable[[], None]


class Drain:
    """Reads terminals handed to it until they end. `feed` and `ended` are called on its thread."""

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}
        self._new: list[_Source] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] | None = None
        self._stop = False

    def add(self, terminal: Terminal, feed: Callable[[bytes], None], ended: Callable[[], None] = lambda: None) -> None:
        """Take over `terminal`: it is read here from now on, and closed at its end."""
        with self._lock:
            self._new.append(_Source(terminal, feed, ended))
            if self._thread is None:
                self._wake = os.pipe()
                os.set_blocking(self._wake[1], False)
                self._thread = threading.Thread(target=self._run, name="terminal drain", daemon=True)
                self._thread.start()
        self._ring()

    def close(self) -> None:
        """Stop, and close all terminals."""
        if self._thread is None or self._wake is None:
            return
        self._stop = True
        self._ring()
        self._thread.join()
        self._thread = None
        for fd in self._wake:
            os.close(fd)
        for source in (*self._sources.values(), *self._new):
            source.terminal.close()
        self._sources.clear()
        self._new.clear()

    def _ring(self) -> None:
        assert self._wake is not None
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake[1], b"!")

    def _run(self) -> None:
        assert self._wake is not None
        poll = select.poll()
        poll.register(self._wake[0], select.POLLIN)
        while not self._stop:
            with self._lock:
                new, self._new = self._new, []
            for source in new:
                self._sources[source.terminal.fd] = source
                poll.register(source.terminal.fd, select.POLLIN)
            for fd, _ in poll.poll():
                if fd == self._wake[0]:
                    os.read(fd, 4096)
                elif not self._move(self._sources[fd]):
                    poll.unregister(fd)
                    del self._sources[fd]

    def _move(self, source: _Source) -> bool:
        """Read what is there. False when the terminal has ended."""
        for _ in range(READS):
            data = source.terminal.read()
            if not data:
                break
            source.feed(data)
        else:
            time.sleep(BREATH)
        if not source.terminal.ended:
            return True
        source.terminal.close()
        source.ended()
        return False
