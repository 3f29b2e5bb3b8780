"""How a person at a terminal stops what runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from agentctl.base.cancel import Cancel


@contextmanager
def cancelled_by_signals() -> Iterator[Cancel]:
    """A Cancel that Ctrl-C, SIGTERM and a closed terminal set; a second Ctrl-C stops at once."""
    cancel = Cancel()

    def ask(number: int, frame: object) -> None:
        if cancel.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        cancel.set(signal.Signals(number).name)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
