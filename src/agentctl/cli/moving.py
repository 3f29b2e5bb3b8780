"""The last line of a terminal while something goes on: what it is, and for how long by now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TextIO

SOON = 1.0  # seconds; what is over sooner needs no line
STEP = 1.0  # seconds between two looks
_BACK = "\r\x1b[K"  # to the line's beginning, and what stands there away


class MovingLine:
    """Rewrites one line on `out`, a terminal, as time goes by. A thread of its own writes it; no call of this waits."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._line: Callable[[float], str] | None = None  # the line's text, by the seconds that have passed
        self._began = 0.0
        self._stands = False  # whether it is on the terminal now
        self._thread: threading.Thread | None = None

    def show(self, line: Callable[[float], str]) -> None:
        """Show `line` from now on; it is asked with the seconds since this call."""
        with self._lock:
            self._away()
            self._line, self._began = line, monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._move, name="agentctl-line", daemon=True)
                self._thread.start()
            self._wake.notify()

    def hide(self) -> None:
        """Take the line away, so that others may write."""
        with self._lock:
            self._line = None
            self._away()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While others write above it."""
        with self._lock:
            self._away()
            yield
            self._wake.notify()

    def _move(self) -> None:
        with self._lock:
            while True:
                if self._line is None:
                    self._wake.wait()
                    continue
                seconds = monotonic() - self._began
                if seconds >= SOON:
                    self._put(_BACK + self._line(seconds))
                    self._stands = True
                self._wake.wait(STEP)

    def _away(self) -> None:
        if self._stands:
            self._put(_BACK)
            self._stands = False

    def _put(self, text: str) -> None:
        with suppress(OSError):  # the terminal is gone: the attempt goes on
            self._out.write(text)
            self._out.flush()
