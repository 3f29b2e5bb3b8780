"""The finish tool: how an agent says that it is done, and what is looked at before it is let go."""

from __future__ import annotations

from pydantic import Field

from agentctl.base.deliverable import Deliverable, Finding, Severity

from .tool import Arguments, ToolContext, ToolResult


class FinishArguments(Arguments):
    summary: str | None = Field(default=None, description="One or two sentences on what was done.")


class Finish:
    """Ends the attempt. With `check` on, a deliverable with errors is refused, and warnings are told once."""

    name = "finish"
    arguments = FinishArguments

    def __init__(self, *, check: bool) -> None:
        self._check = check
        self._warned = False
        self.description = "Say that the task is done and end the work." + (
            " First the form of the deliverable is checked (never whether it is right); what is wrong with it is told, "
            "and the work goes on."
            if check
            else ""
        )

    def run(self, arguments: FinishArguments, context: ToolContext) -> ToolResult:
        findings = context.deliverable.check() if self._check else []
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors:
            return ToolResult.error(f"Not finished yet. {described(context.deliverable, errors)}")
        if findings and not self._warned:
            self._warned = True
            return ToolResult.of(
                f"Look once more before finishing. {described(context.deliverable, findings)}\n"
                "If all of it is as you mean it, call finish again."
            )
        return ToolResult.of("Done.", finish=True)

    def close(self) -> None:
        pass


def described(deliverable: Deliverable, findings: list[Finding]) -> str:
    """The findings on `deliverable` as text for the agent, one a line."""
    lines = [
        f"- {repr(finding.where) + ': ' if finding.where else ''}{finding.message}"
        + (f" Did you mean {finding.suggestion!r}?" if finding.suggestion else "")
        for finding in findings
    ]
    return f"{deliverable.path}:\n" + "\n".join(lines)
