"""What a benchmark implements: a task that can be staged, told, collected and scored."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from pydantic import SerializeAsAny

from agentctl.base.deliverable import Deliverable
from agentctl.base.values import Frozen
from agentctl.prompts.compose import TaskText
from agentctl.tools.sandbox.protocol import Sandbox, Workspace


class TaskRef(Frozen):
    """Which task, exactly: enough to load it again and to see that it is still the same."""

    benchmark: str  # corebench
    id: str  # capsule-1234567
    level: str  # easy, medium, hard
    dataset: str  # file that holds its entry, as `base.paths` names it
    source: str  # folder with what is staged, likewise
    digest: str  # over all that the agent is given and is scored against


class ScorePart(Frozen):
    """One line of a score: a question, a criterion. `reason` says why in a sentence."""

    name: str
    group: str  # written, vision, ...
    correct: bool
    given: str  # the answer as text; empty where there was none
    expected: str
    reason: str


class Score(Frozen):
    """What a scorer says of one attempt. `solved` is None where the scorer knows no such thing."""

    scorer: str
    value: float  # 0..1
    solved: bool | None
    parts: tuple[ScorePart, ...] = ()


class Provenance(Frozen):
    """Where one answer's value was found."""

    name: str  # the question
    kind: Literal["produced", "read", "stated", "unknown"]
    where: str | None = None  # the file that holds it, as seen inside


class Collected(Frozen):
    """What was taken out of the workspace at the end."""

    deliverable: Path | None  # the copy in the record; None when there was none
    problem: str | None = None  # why it was not taken (a link, a device, too big)
    provenance: tuple[Provenance, ...] = ()


class Task(Protocol):
    """One task of a benchmark."""

    @property
    def ref(self) -> TaskRef: ...

    def stage(self, folder: Path, sandbox_kind: str) -> Workspace:
        """Lay out in the empty host folder what the agent may see, and nothing else. No gold answer is in it."""
        ...

    def text(self, workspace: Workspace) -> TaskText:
        """What the prompt says of this task."""
        ...

    def deliverable(self, sandbox: Sandbox) -> Deliverable: ...

    def collect(self, sandbox: Sandbox, folder: Path, *, also_in_material: bool = False) -> Collected:
        """Copy the deliverable, as found, into the record `folder`; say where its values came from.

        `also_in_material`: one in the folder that the task is about counts where there is none in the right place.
        """
        ...

    def score(self, deliverable: Path | None) -> tuple[SerializeAsAny[Score], ...]:
        """Score a collected deliverable by every scorer of the benchmark. Needs no sandbox; may be done again later."""
        ...
