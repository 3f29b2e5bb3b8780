"""The seam between finishing and what is looked at before an agent is let go."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Protocol

from agentctl.base.messages import Status
from agentctl.base.values import Frozen

from ..tool import ToolContext, ToolResult

_DELETE_SECONDS = 30.0


class Refused(Frozen):
    """Why an agent that says it is done is not let go. `words` are told to it, and the work goes on."""

    words: str
    status: Status = Status.ERROR  # of the call that said so
    deletes: str | None = None  # path inside of what a call that is refused takes away: a fault of an original


class FinishCheck(Protocol):
    """One look at what an agent leaves, when it says that it is done. An instance serves one attempt."""

    def refusal(self, context: ToolContext) -> Refused | None:
        """Why the agent can't be let go, None where it can. Changes nothing in the workspace."""
        ...


class Checks:
    """An attempt's checks, in their order. The finish tool and whoever takes words for "done" ask the same ones."""

    def __init__(self, checks: Sequence[FinishCheck] = ()) -> None:
        self._checks = tuple(checks)

    def __bool__(self) -> bool:
        return bool(self._checks)

    def refusal(self, context: ToolContext) -> Refused | None:
        """What the first check that refuses says; those after it are not asked."""
        return next((refused for check in self._checks if (refused := check.refusal(context))), None)

    def finish(self, context: ToolContext) -> ToolResult:
        """The result of a call that says the work is done: the end, or what is in its way."""
        refused = self.refusal(context)
        if refused is None:
            return ToolResult.of("Done.", finish=True)
        if refused.deletes is None:
            return ToolResult.of(refused.words, status=refused.status)
        context.sandbox.exec(["rm", "-f", "--", refused.deletes], timeout=_DELETE_SECONDS)
        return ToolResult.of(f"{refused.words}\n{refused.deletes} has been deleted.", status=refused.status)


def expected_at(context: ToolContext, *, in_material: bool) -> str:
    """The path where the deliverable is looked for: its own, or the same name in the folder that the task is about."""
    path = context.deliverable.path
    if not in_material:
        return path
    workspace = context.sandbox.workspace
    return posixpath.join(workspace.material or workspace.start, posixpath.basename(path))
