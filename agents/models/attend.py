"""Waiting for a call that can't be interrupted, so that the wait can be."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic
from typing import TypeVar

from agentctl.base.cancel import Cancel

T = TypeVar("T")

POLL = 0.1  # seconds between two looks at the cancel flag


class TimeLimit(Exception):
    """The call did not end in its time. It was abandoned."""


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


def attend(work: Callable[[], T], cancel: Cancel, *, seconds: float) -> T:
    """What `work` returns or raises. It runs in another thread, where it may block on a name server or a socket.

    When `cancel` is set, or after `seconds`, the wait ends with Cancelled or TimeLimit. `work` is abandoned then: it
    goes on unseen, until a limit of its own ends it, and what it gives is dropped.
    """
    cancel.check()
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
            done.release()

    hand = _free_hand()
    hand.ask(run)
    deadline = monotonic() + seconds
    while not done.acquire(timeout=max(0.0, min(POLL, deadline - monotonic()))):
        cancel.check()
        if monotonic() >= deadline:
            raise TimeLimit
    _idle.append(hand)
    if errors:
        raise errors[0]
    return results[0]
