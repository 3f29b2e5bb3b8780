"""What a task wants left behind, as loop and tools see it. Benchmarks implement it."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from .values import Frozen


class Severity(StrEnum):
    ERROR = "error"  # the deliverable can't be accepted as it stands
    WARNING = "warning"  # it is accepted; the agent should look again


class Finding(Frozen):
    """One thing that a check of the deliverable found. `where` names the part at fault (a key, a section)."""

    severity: Severity
    message: str
    where: str | None = None
    suggestion: str | None = None


class Deliverable(Protocol):
    """The thing that an attempt must leave in its workspace."""

    @property
    def path(self) -> str:
        """Where it belongs, as seen inside the sandbox."""
        ...

    def check(self) -> list[Finding]:
        """What is wrong with it now. Never changes or deletes it. Never tells anything of the gold answers."""
        ...

    def still_missing(self) -> list[str]:
        """Names of the parts that are not there yet, in the task's order."""
        ...

    def names(self) -> list[str]:
        """Names of all parts that are asked for, in the task's order."""
        ...

    def given(self, path: str | None = None) -> list[str] | None:
        """Names of the parts that are there, known or not, in the file at `path` (in the right one, where not given).

        None where there is no such file, or where it can't be read.
        """
        ...

    def finish_text(self) -> str:
        """One or two sentences that say when and how to finish, for prompt and tool description."""
        ...
