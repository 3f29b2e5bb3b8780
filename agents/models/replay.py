"""Replies that are there already, given again by role and order: out of a record."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from agentctl.base.cancel import Cancel

from .protocol import Fault, Kind, ProviderError, RawReply, WireRequest


class ReplayClient:
    """Gives `replies`, pairs of a role and what its model said, each once and in order, whatever is asked.

    A reply that was recorded without usage has none: its cost is unknown, not 0. `source` names where the replies are
    from, for the message when a role has no more of them.
    """

    at_end = Fault.EXHAUSTED  # what it is when there is no further reply

    def __init__(self, replies: Iterable[tuple[str, RawReply]], *, source: str = "the recording") -> None:
        self._source = source
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[RawReply]] = {}
        for role, reply in replies:
            self._waiting.setdefault(role, deque()).append(reply)
        self._given = dict.fromkeys(self._waiting, 0)

    @property
    def kind(self) -> Kind:
        return "replay"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """The next reply of the request's role. ProviderError with the fault `at_end` where there is none."""
        cancel.check()
        with self._lock:
            waiting = self._waiting.get(request.role)
            if not waiting:
                given = self._given.get(request.role, 0)
                words = f"{self._source} has no reply {given + 1} of the {request.role} model"
                raise ProviderError(self.at_end, words)
            self._given[request.role] += 1
            return waiting.popleft()

    def close(self) -> None:
        """Nothing is open."""
