"""run(spec): the one way to run an attempt. Stage, sandbox, agent, collect, score; a record is what is left.

Whoever runs attempts does it through this. Nothing here changes the process's folder, environment or signals.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from agentctl.agents.account import Account
from agentctl.agents.budget import check_budget
from agentctl.agents.clients import Clients
from agentctl.agents.manifest import AttemptResult
from agentctl.agents.models.human import Person
from agentctl.agents.record import Listener, exists_already
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import AttemptSpec
from agentctl.agents.task import Score, Task
from agentctl.base.cancel import Cancel
from agentctl.base.errors import AgentctlError, SetupError
from agentctl.base.jsonio import write_atomically
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Sandbox

from .attempt import Attempt
from .recording_programs import check_programs
from .resume import Before
from .scratch import work_folder
from .tasks import load_task


@dataclass(frozen=True)
class Outcome:
    """What an attempt left: its record on disk, and the two things most callers want of it."""

    record: Path
    result: AttemptResult
    scores: tuple[Score, ...]


def run(
    spec: AttemptSpec,
    *,
    cancel: Cancel | None = None,
    listener: Listener | None = None,
    person: Person | None = None,
    environment: Mapping[str, str],
) -> Outcome:
    """Run one attempt to its end, whatever that is.

    `person` plays the model named `human`.

    `environment` is the owner's: keys for providers and values to keep out of the record are taken from it; the agent
    gets none of it. Raises InputError or SetupError, before any model is called and with nothing left behind, when the
    attempt can't start; after that every failure is an end reason in the record.
    """
    cancel = cancel or Cancel()
    task = load_task(spec.task)
    with ExitStack() as stack:
        if os.path.lexists(spec.record):
            raise exists_already(spec.record)
        folder = stack.enter_context(work_folder(spec.record))
        clients = stack.enter_context(Clients.opened(spec, environment, person))
        before = stack.enter_context(Before.claimed(spec.resume_from, clients.kind))
        check_budget(spec.scaffold, spec.limits)
        account = Account(spec, clients, before.carried, cancel)
        sandbox = _opened(spec, task, folder, environment)
        stack.callback(sandbox.close)
        check_programs(spec.model, sandbox)
        left = Attempt(spec, task, sandbox, clients, account, before, cancel, Secrets(environment)).run(listener)
        scores = () if left.result.infrastructure else write_scores(left.record, task, left.deliverable)
        return Outcome(left.record, left.result, scores)


def _opened(spec: AttemptSpec, task: Task, folder: Path, environment: Mapping[str, str]) -> Sandbox:
    """The task, staged, in a sandbox that stands."""
    try:
        return open_sandbox(spec.sandbox, task.stage(folder, spec.sandbox.kind), owner_env=environment)
    except OSError as error:
        raise SetupError(f"can't set up the attempt: {error.strerror}", file=error.filename or folder) from None


def write_scores(record: Path, task: Task, deliverable: Path | None) -> tuple[Score, ...]:
    """Score a collected deliverable by all scorers of its benchmark, one file each below the record's scores/."""
    scores = task.score(deliverable)
    folder = record / "scores"
    try:
        folder.mkdir(exist_ok=True)
        for score in scores:
            write_atomically(folder / f"{score.scorer}.json", score.model_dump_json(indent=1).encode())
    except OSError as error:
        raise AgentctlError(
            f"can't write the scores: {error.strerror}", file=folder, remedy=f"later: agentctl score {record}"
        ) from None
    return scores
