"""For tests of tools: a task that wants nothing left behind, and a record that keeps no image."""

from __future__ import annotations

from agentctl.base.deliverable import Finding
from agentctl.base.messages import ImageRef


class NoDeliverable:
    """A deliverable that nothing is asked of."""

    path = "report.json"

    def check(self) -> list[Finding]:
        return []

    def still_missing(self) -> list[str]:
        return []

    def names(self) -> list[str]:
        return []

    def given(self, path: str | None = None) -> list[str] | None:
        return None

    def finish_text(self) -> str:
        return ""


def keeps_no_image(data: bytes, media_type: str, width: int, height: int) -> ImageRef:
    """As a tool's `keep_image`, for tools that have none to keep."""
    raise AssertionError("this tool keeps no image")
