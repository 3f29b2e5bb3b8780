"""Errors that reach a person: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import ValidationError


class AgentctlError(Exception):
    """Something failed that a person can act on.

    `problem` says what is wrong; `file` and `field` where; `remedy` what to do. `exit_status` is what the
    command line ends with: 1 for work that ran and failed, 2 for bad input or a machine not set up.
    """

    exit_status: ClassVar[int] = 1

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        field: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = None if file is None else str(file)
        self.field = field
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.file, self.field) if part)
        remedy = f" ({self.remedy})" if self.remedy else ""
        return " ".join(f"{where}{self.problem}{remedy}".split())


class InputError(AgentctlError):
    """What the user gave can't be used: a file, a flag, a value."""

    exit_status = 2


def refused(
    error: ValidationError, *, file: str | Path | None = None, field: str = "", remedy: str | None = None
) -> InputError:
    """What pydantic found wrong first, as an error for a person: `field` and the place within it, parts joined by dots.

    What was given is not told: it may be long, or a secret.
    """
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join([*([field] if field else []), *map(str, first["loc"])])
    return InputError(first["msg"].removeprefix("Value error, "), file=file, field=where or None, remedy=remedy)


class SetupError(AgentctlError):
    """The machine lacks something that the work needs: a program, a permission, a key, a price."""

    exit_status = 2


class NoAnswer(Exception):
    """A model gave no answer: its provider failed, or the money does not reach."""


class Cancelled(Exception):
    """The owner of an attempt asked it to stop. Raised wherever an attempt waits."""
