"""Notices an agent that does the same over and over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentctl.base.messages import Call, Result

from .ends import End, Ending


@dataclass
class Repeats:
    """Counts how often in a row the same calls got the same answers. Told at `notice` times, ended at `end`."""

    notice: int
    end: int
    count: int = 0
    _last: object = None

    def forget(self) -> None:
        """What was done was waiting, which looks the same each time."""
        self.count = 0

    def see(self, calls: Sequence[Call], results: Sequence[Result], notes: list[str]) -> Ending | None:
        """Take in one step. Adds to `notes` what the model is told; returns the end where it is time for one."""
        this = [(call.name, call.arguments or call.raw) for call in calls], [r.parts for r in results]
        self.count = self.count + 1 if calls and this == self._last else 1
        self._last = this
        if self.count >= self.end:
            return Ending(End.STUCK, f"the same call got the same answer {self.count} times in a row")
        if self.count >= self.notice:
            notes.append(
                f"You have made the same call {self.count} times in a row and got the same answer each time. "
                "Try something else."
            )
        return None
