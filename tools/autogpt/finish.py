"""The command `finish`, with AutoGPT's argument."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ..tool import Arguments, Tool, ToolContext, ToolResult


class ReasonArguments(Arguments):
    reason: str = Field(description="Why you finish: what was done, or what stands in the way.")


class FinishWithReason:
    """Ends the attempt as `finish` does, the tool that is given; the reason takes the place of its summary."""

    name = "finish"
    arguments = ReasonArguments

    def __init__(self, finish: Tool[Any]) -> None:
        self._finish = finish

    @property
    def description(self) -> str:
        return self._finish.description

    def run(self, arguments: ReasonArguments, context: ToolContext) -> ToolResult:
        return self._finish.run(self._finish.arguments.model_validate({"summary": arguments.reason}), context)

    def close(self) -> None:
        self._finish.close()
