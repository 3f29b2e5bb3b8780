"""The finish tool: how an agent says that it is done."""

from __future__ import annotations

from pydantic import Field

from ..tool import Arguments, ToolContext, ToolResult
from .check import Checks


class FinishArguments(Arguments):
    summary: str | None = Field(default=None, description="One or two sentences on what was done.")


class Finish:
    """Ends the attempt, unless one of `checks` is in the way. A model is not told which ones there are."""

    name = "finish"
    description = (
        "Say that the task is done and end the work. If something is wrong with the form of what you leave, it may be "
        "told then, and the work goes on."
    )
    arguments = FinishArguments

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def run(self, arguments: FinishArguments, context: ToolContext) -> ToolResult:
        return self._checks.finish(context)

    def close(self) -> None:
        pass
