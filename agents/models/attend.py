"""Waiting for a call that can't be interrupted, so that the wait can be."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from math import inf
from queue import SimpleQueue
from time import monotonic
from typing import TypeVar

from agentctl.base.cancel import Cancel

T = TypeVar("T")

POLL = 0.1  # seconds between two looks at the cancel flag
STALL_SECONDS = 300.0  # the longest silence in the middle of what came in part
_MOMENT = 0.5  # seconds that a call has to end after it was left


class TimeLimit(Exception):
    """The call did not end in its time, and was abandoned. Its words say which time that was."""


class Patience:
    """How long to wait: `seconds` in all and, once something came, at most STALL_SECONDS until more does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = monotonic() + seconds
        self._stalled = inf

    def heard(self) -> None:
        """Something came. Called from the thread that does the work."""
        self._stalled = monotonic() + STALL_SECONDS

    @property
    def left(self) -> float:
        """Seconds until the wait is over."""
        return min(self._end, self._stalled) - monotonic()

    @property
    def over(self) -> TimeLimit:
        """The end of the wait, in words."""
        if self._stalled < self._end:
            return TimeLimit(f"nothing more came within {STALL_SECONDS:g} s")
        return TimeLimit(f"none within {self._seconds:g} s")


class _Hand:
    """A thread that does one thing after another for whoever holds it, and ends with the process."""

    def __init__(self) -> None:
        self.process = os.getpid()  # threads do not follow a fork
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._serve, name="agentctl-send", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._asked.get()()

    def ask(self, work: Callable[[], None]) -> None:
        self._asked.put(work)


_idle: list[_Hand] = []  # taken and given back whole by list.pop and list.append, which are atomic


def _free_hand() -> _Hand:
    """One that waits, as starting a thread costs more than asking one; else a new one."""
    while True:
        try:
            hand = _idle.pop()
        except IndexError:
            return _Hand()
        if hand.process == os.getpid():
            return hand


def attend(work: Callable[[], T], cancel: Cancel, patience: Patience, *, leave: Callable[[], None] = lambda: None) -> T:
    """What `work` returns or raises. It runs in another thread, where it may block on a name server or a socket.

    When `cancel` is set, or `patience` is over, `leave` is called, to end what `work` waits for, and the wait ends with
    Cancelled or TimeLimit. `work` is abandoned then: what it gives later is dropped. After TimeLimit's `leave` it has a
    moment to end: with what it got before, or with an error, which is the TimeLimit's cause.
    """
    cancel.check()
    hand = _free_hand()
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Lock()  # released when it is done: a plain lock is woken faster than an event
    done.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)
        finally:
            _idle.append(hand)  # also where nobody waits any more
            done.release()

    hand.ask(run)
    while not done.acquire(timeout=max(0.0, min(POLL, patience.left))):
        if cancel.is_set():
            leave()
            cancel.check()
        if patience.left <= 0:
            limit = patience.over
            leave()
            if done.acquire(timeout=_MOMENT) and results:
                return results[0]
            raise limit from next(iter(errors), None)
    if errors:
        raise errors[0]
    return results[0]
