"""Waiting for a call that can't be interrupted, so that the wait can be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from agentctl.base.cancel import Cancel

T = TypeVar("T")

POLL = 0.1  # seconds between two looks at the cancel flag


class TimeLimit(Exception):
    """The call did not end in its time. It was abandoned."""


def attend(work: Callable[[], T], cancel: Cancel, *, seconds: float) -> T:
    """What `work` returns or raises. It runs in a thread of its own, where it may block on a name server or a socket.

    When `cancel` is set, or after `seconds`, the wait ends with Cancelled or TimeLimit. `work` is abandoned then: it
    goes on unseen, until a limit of its own ends it, and what it gives is dropped.
    """
    cancel.check()
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="agentctl-send", daemon=True).start()
    deadline = monotonic() + seconds
    while not done.wait(min(POLL, max(0.0, deadline - monotonic()))):
        cancel.check()
        if monotonic() >= deadline:
            raise TimeLimit
    if errors:
        raise errors[0]
    return results[0]
