"""One CORE-Bench task: a capsule at a level, as the runner sees it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentctl.agents.task import Collected, Provenance, Score, TaskRef
from agentctl.base.deliverable import Finding
from agentctl.base.errors import InputError
from agentctl.base.jsonio import write_atomically
from agentctl.base.paths import resolve
from agentctl.base.text import clean
from agentctl.prompts.compose import TaskText
from agentctl.tools.report_check import ReportCheck, check_at
from agentctl.tools.sandbox.protocol import FileKind, PathRefused, Sandbox, Workspace

from .dataset import Capsule, Level, load_dataset
from .provenance import trace
from .scoring import score_report
from .shipped import Manifest
from .staging import REPRODUCING, stage, task_digest

__all__ = ["CapsuleTask", "ReportDeliverable", "task_digest"]

REPORT = "report.json"
KEPT_LIMIT = 16 << 20  # bytes; a report above SIZE_LIMIT can't be finished with, but is kept and scored up to here

_ALSO = "The folders code, data and results are also at /code, /data and /results. "

_FINISH = (
    "When the file holds an answer to every question, call the finish tool. "
    "Where you can't find an answer, give your best guess: a missing answer is always wrong."
)


class ReportDeliverable:
    """The report that an attempt must leave in its workspace."""

    def __init__(self, sandbox: Sandbox, questions: Sequence[str]) -> None:
        self._sandbox = sandbox
        self._questions = tuple(questions)
        self.path = report_path(sandbox.workspace)

    def check(self) -> list[Finding]:
        """What is wrong with the report, by its form alone."""
        return list(self.checked().findings)

    def still_missing(self) -> list[str]:
        """The questions that have no answer yet."""
        return list(self.checked().missing)

    def checked(self) -> ReportCheck:
        """The whole check."""
        return check_at(self._sandbox, self.path, self._questions)

    def names(self) -> list[str]:
        """The questions."""
        return list(self._questions)

    def given(self, path: str | None = None) -> list[str] | None:
        """The report's keys, as the benchmark's harness reads it."""
        try:
            report = json.loads(self._sandbox.read(path or self.path, limit=KEPT_LIMIT).decode("utf-8"))
        except (OSError, PathRefused, ValueError, RecursionError):
            return None
        return list(report) if isinstance(report, dict) else None

    def finish_text(self) -> str:
        return _FINISH


def report_path(workspace: Workspace) -> str:
    """Where the report belongs, as seen inside: beside the capsule's folder."""
    return f"{workspace.start.rstrip('/')}/{REPORT}"


class CapsuleTask:
    """A capsule at a level. One instance serves one attempt: it remembers what it staged."""

    def __init__(self, ref: TaskRef, capsule: Capsule, level: Level) -> None:
        self.ref = ref
        self.capsule = capsule
        self.level = level
        self._manifest: Manifest | None = None

    @classmethod
    def load(cls, ref: TaskRef) -> CapsuleTask:
        """The task that `ref` names. InputError where it is gone, or is no longer what it was when `ref` was made."""
        task = cls.current(ref)
        if task.ref.digest != ref.digest:
            raise InputError(
                f"{ref.id} at level {ref.level} has changed: its files, its questions or its recorded answers",
                file=ref.source,
                remedy="start a new attempt, or restore the dataset and the capsule's folder",
            )
        return task

    @classmethod
    def current(cls, ref: TaskRef) -> CapsuleTask:
        """The task that `ref` names as it is now, with today's digest."""
        level = Level.named(ref.level)
        dataset = load_dataset(resolve(ref.dataset))
        capsule = next((each for each in dataset.capsules if each.capsule_id == ref.id), None)
        if capsule is None:
            raise InputError(f"{ref.id} is no longer in it", file=ref.dataset)
        now = task_digest(capsule, level, resolve(ref.source))
        return cls(ref.model_copy(update={"digest": now}), capsule, level)

    def stage(self, folder: Path, sandbox_kind: str) -> Workspace:
        """Lay the capsule out in `folder`, as its level wants it. No gold answer is among it."""
        staged = stage(
            self.capsule.capsule_id,
            resolve(self.ref.source),
            self.level,
            folder,
            sandbox_kind,
            gold=resolve(self.ref.dataset),
        )
        self._manifest = staged.manifest
        # The system that the sandbox shows may hold an installed agentctl, with its examples, or somebody's dataset.
        gold = (resolve(self.ref.dataset), resolve(self.ref.source), resolve("agentctl:examples"))
        return staged.workspace.model_copy(update={"hidden": gold})

    def text(self, workspace: Workspace) -> TaskText:
        """What the level's prompt says of this capsule."""
        home = f"{workspace.start.rstrip('/')}/{self.capsule.capsule_id}"
        return TaskText(
            benchmark="corebench",
            level=self.level,
            variables={
                "task_prompt": self.capsule.task_prompt,
                "questions": "\n".join(json.dumps(question, ensure_ascii=False) for question in self.capsule.questions),
                "capsule": home,
                "code": f"{home}/code",
                "data": f"{home}/data",
                "results": f"{home}/results",
                "reproducing": f"{home}/{REPRODUCING}",
                "also": _ALSO if any(mount.inside == "/code" for mount in workspace.mounts) else "",
                "report": report_path(workspace),
                "finish": _FINISH,
            },
        )

    def deliverable(self, sandbox: Sandbox) -> ReportDeliverable:
        return ReportDeliverable(sandbox, self.capsule.questions)

    def collect(self, sandbox: Sandbox, folder: Path, *, also_in_material: bool = False) -> Collected:
        """Copy the report, byte by byte, into the record `folder`; say where its answers came from.

        `also_in_material`: one in the capsule's folder counts where there is none in the right place.
        """
        collected = self._collected(report_path(sandbox.workspace), sandbox, folder)
        if collected.deliverable or collected.problem or not also_in_material:
            return collected
        return self._collected(f"{sandbox.workspace.material}/{REPORT}", sandbox, folder)

    def _collected(self, path: str, sandbox: Sandbox, folder: Path) -> Collected:
        try:
            info = sandbox.stat(path)
            if info.kind is not FileKind.FILE:
                return Collected(deliverable=None, problem=f"{path} is a {info.kind}, not a file")
            if info.size > KEPT_LIMIT:
                return Collected(deliverable=None, problem=f"{path} has {info.size:,} bytes, more than a report can")
            data = sandbox.read(path, limit=KEPT_LIMIT)
        except FileNotFoundError:
            return Collected(deliverable=None)
        except (OSError, PathRefused) as error:
            return Collected(deliverable=None, problem=f"{path}: {error}")
        copy = folder / REPORT
        write_atomically(copy, data)
        return Collected(deliverable=copy, provenance=self._provenance(data, sandbox.workspace))

    def _provenance(self, data: bytes, workspace: Workspace) -> tuple[Provenance, ...]:
        if self._manifest is None:
            return ()
        work = workspace.mounts[0]
        report = read_leniently(data)
        try:
            return trace(report, self.capsule.questions, work.host, work.inside, self._manifest)
        except (OSError, RecursionError):  # folders that can't be walked must not cost an agent its answers
            answered = [each for each in self.capsule.questions if isinstance(report, dict) and each in report]
            return tuple(Provenance(name=clean(each), kind="unknown") for each in answered)

    def score(self, deliverable: Path | None) -> tuple[Score, ...]:
        """The benchmark's score of a collected report; none at all is scored as an empty one, as the benchmark does."""
        report = read_leniently(deliverable.read_bytes()) if deliverable is not None else {}
        return (score_report(self.capsule.results, report),)


def read_leniently(data: bytes) -> object:
    """The report as the benchmark's harness reads it: NaN and double keys pass, what can't be read is empty."""
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
