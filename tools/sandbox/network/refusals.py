"""What the network policy refused, kept until somebody listens, and bounded: a loop must not fill the record."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..protocol import Refusal

DIFFERENT = 200  # refusals that are told one by one; what comes then counts as others
OTHERS = "other hosts"


class Refusals:
    """Counts refusals by host, port and reason. A listener is told of the 1st, 10th, 100th, ... of each.

    Any thread may add.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[tuple[str, int, str], int] = {}
        self._waiting: list[Refusal] = []
        self._told: Callable[[Refusal], None] | None = None

    def add(self, host: str, port: int, why: str) -> None:
        key = (host, port, why)
        with self._lock:
            if key not in self._times and len(self._times) >= DIFFERENT:
                key = (OTHERS, 0, "refused as well")
            times = self._times[key] = self._times.get(key, 0) + 1
            if str(times).strip("0") != "1":
                return
            host, port, why = key
            refusal = Refusal(host=host, port=port, why=why, times=times)
            if self._told is None:
                self._waiting.append(refusal)
            else:
                self._told(refusal)

    def listen(self, told: Callable[[Refusal], None] | None) -> None:
        """Tell `told` from now on, first of what nobody has heard yet. With None, keep them again."""
        with self._lock:
            self._told = told
            while told is not None and self._waiting:
                told(self._waiting.pop(0))
