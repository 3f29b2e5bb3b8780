"""solve(): one attempt from Python, with the defaults of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.record import Listener
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.spec import AttemptSpec, Limits, Prices
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.tools.sandbox.protocol import SandboxSpec

from .corebench.locate import Located, locate
from .runner import Outcome, run


def solve(
    task: str,
    *,
    level: str = "hard",
    model: str | ModelSpec | None = None,
    scaffold: str | Scaffold = "plain",
    dataset: str | Path | None = None,
    capsules: str | Path | None = None,
    limits: Limits | None = None,
    prices: Prices | None = None,
    sandbox: SandboxSpec | None = None,
    record: str | Path | None = None,
    cancel: Cancel | None = None,
    listener: Listener | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run an agent on the capsule `task` (an id, or the beginning of one) and return what it left.

    `model` is a name as after --model, or a ModelSpec; None takes `AGENTCTL_MODEL`, or a shipped recording. Keys are
    taken from `environment`, by default the process's own. Raises InputError or SetupError where the attempt can't
    start; how it went is in the outcome.
    """
    environment = os.environ if environment is None else environment
    located = locate(
        task,
        level,
        dataset=Path(dataset) if dataset else None,
        capsules=Path(capsules) if capsules else None,
    )
    if not isinstance(model, ModelSpec):
        model = ModelSpec(name=model or default_model(located, environment))
    spec = AttemptSpec(
        task=located.ref,
        scaffold=scaffold if isinstance(scaffold, Scaffold) else load_scaffold(scaffold),
        model=model,
        limits=limits or Limits(),
        prices=prices or Prices(),
        sandbox=sandbox or SandboxSpec(),
        record=Path(record) if record else new_record(located.ref.id, located.ref.level),
    )
    return run(spec, cancel=cancel, listener=listener, environment=environment)


def default_model(located: Located, environment: Mapping[str, str]) -> str:
    """The model where none is named: `AGENTCTL_MODEL`, else the task's shipped recording. InputError without both."""
    name = environment.get("AGENTCTL_MODEL")
    if name:
        return name
    if located.recording:
        return f"replay:{located.recording}"
    raise InputError(
        "no model is given",
        field="--model",
        remedy=f"export OPENAI_API_KEY=... ; agentctl solve {located.ref.id} --model openai/gpt-5",
    )


def new_record(task: str, level: str) -> Path:
    """A folder below runs/ that is not there yet, named by task, level and time."""
    base = Path("runs") / f"{task}-{level}-{datetime.now():%Y%m%d-%H%M%S}"
    path, n = base, 1
    while path.exists():
        n += 1
        path = base.with_name(f"{base.name}-{n}")
    return path
