"""What processes print when no call waits for them: drained by one thread, so that they never block."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from .terminal import Stream

READS = 16  # of one stream in a row, so that a flood on one does not starve the others
BREATH = 0.005  # seconds of rest after so many: who floods a stream that nobody waits for is slowed down


@dataclass
class _Source:
    stream: Stream
    feed: Callable[[bytes], None]
    ended: Callable[[], None]


class Drain:
    """Reads streams handed to it until they end. `feed` and `ended` are called on its thread."""

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}
        self._new: list[_Source] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] | None = None
        self._stop = False

    def add(self, stream: Stream, feed: Callable[[bytes], None], ended: Callable[[], None] = lambda: None) -> None:
        """Take over `stream`: it is read here from now on, and closed at its end."""
        with self._lock:
            self._new.append(_Source(stream, feed, ended))
            if self._thread is None:
                self._wake = os.pipe()
                os.set_blocking(self._wake[1], False)
                self._thread = threading.Thread(target=self._run, name="output drain", daemon=True)
                self._thread.start()
        self._ring()

    def close(self) -> None:
        """Stop, and close all streams."""
        if self._thread is None or self._wake is None:
            return
        self._stop = True
        self._ring()
        self._thread.join()
        self._thread = None
        for fd in self._wake:
            os.close(fd)
        for source in (*self._sources.values(), *self._new):
            source.stream.close()
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
                self._sources[source.stream.fd] = source
                poll.register(source.stream.fd, select.POLLIN)
            for fd, _ in poll.poll():
                if fd == self._wake[0]:
                    os.read(fd, 4096)
                elif not self._move(self._sources[fd]):
                    poll.unregister(fd)
                    del self._sources[fd]

    def _move(self, source: _Source) -> bool:
        """Read what is there. False when the stream has ended."""
        for _ in range(READS):
            data = source.stream.read()
            if not data:
                break
            source.feed(data)
        else:
            time.sleep(BREATH)
        if not source.stream.ended:
            return True
        source.stream.close()
        source.ended()
        return False
