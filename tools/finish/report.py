"""The deliverable's own check: errors refuse, warnings are told once."""

from __future__ import annotations

from agentctl.base.deliverable import Deliverable, Finding, Severity
from agentctl.base.messages import Status

from ..tool import ToolContext
from .check import Refused


class ReportForm:
    """Whether the deliverable has the form that its task asks for. Never whether it is right; never deletes it."""

    def __init__(self) -> None:
        self._warned = False

    def refusal(self, context: ToolContext) -> Refused | None:
        findings = context.deliverable.check()
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors:
            return Refused(words=f"Not finished yet. {described(context.deliverable, errors)}")
        if findings and not self._warned:
            self._warned = True
            return Refused(
                words=f"Look once more before finishing. {described(context.deliverable, findings)}\n"
                "If all of it is as you mean it, call finish again.",
                status=Status.OK,
            )
        return None


def described(deliverable: Deliverable, findings: list[Finding]) -> str:
    """The findings on `deliverable` as text for the agent, one a line."""
    lines = [
        f"- {repr(finding.where) + ': ' if finding.where else ''}{finding.message}"
        + (f" Did you mean {finding.suggestion!r}?" if finding.suggestion else "")
        for finding in findings
    ]
    return f"{deliverable.path}:\n" + "\n".join(lines)
