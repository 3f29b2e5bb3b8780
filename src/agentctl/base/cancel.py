"""How an owner stops an attempt: one flag, looked at wherever the attempt waits."""

from __future__ import annotations

import threading

from .errors import Cancelled


class Cancel:
    """A flag set once, from any thread or signal handler."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason = ""

    def set(self, reason: str) -> None:
        """Ask for the stop. The first reason is kept."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raise Cancelled if the stop was asked for."""
        if self._event.is_set():
            raise Cancelled(self.reason)

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`, or raise Cancelled as soon as the stop is asked for."""
        if self._event.wait(seconds):
            raise Cancelled(self.reason)
