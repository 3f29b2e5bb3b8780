"""For tests of tools: a task that wants nothing left behind."""

from __future__ import annotations

from agentctl.base.deliverable import Finding


class NoDeliverable:
    """A deliverable that nothing is asked of."""

    path = "report.json"

    def check(self) -> list[Finding]:
        return []

    def still_missing(self) -> list[str]:
        return []

    def finish_text(self) -> str:
        return ""
