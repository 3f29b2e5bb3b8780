"""solve(): one attempt from Python, with the settings of the command line."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from agentctl.agents.manifest import read_manifest
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.record import Listener
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.spec import AttemptSpec, Keep, Limits, Prices
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.base.paths import resolve
from agentctl.base.values import Frozen
from agentctl.tools.sandbox.protocol import SandboxSpec

from .config import Config, Given, read_config
from .corebench.locate import Located, locate, recorded_levels
from .runner import Outcome, run


def solve(
    task: str,
    *,
    level: str = "hard",
    model: str | ModelSpec | None = None,
    scaffold: str | Scaffold | None = None,
    dataset: str | Path | None = None,
    capsules: str | Path | None = None,
    limits: Limits | None = None,
    prices: Prices | None = None,
    sandbox: SandboxSpec | None = None,
    keep: Keep | None = None,
    record: str | Path | None = None,
    cancel: Cancel | None = None,
    listener: Listener | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run an agent on the capsule `task` (an id, or the beginning of one) and return what it left.

    `model` is a name as after --model, or a ModelSpec. What is not given, also of a ModelSpec and the like, is taken
    from the environment, from `agentctl.toml`, or is the command line's default; with no model at all a shipped
    recording is played. Keys are taken from `environment`, by default the process's own. Raises InputError or
    SetupError where the attempt can't start; how it went is in the outcome.
    """
    environment = os.environ if environment is None else environment
    given = Given("flag")
    _put(given, "model", ModelSpec(name=model) if isinstance(model, str) else model)
    _put(given, "limits", limits)
    _put(given, "sandbox", sandbox)
    _put(given, "prices", prices)
    single = {
        ("scaffold",): scaffold if isinstance(scaffold, str) else None,
        ("data", "dataset"): str(dataset) if dataset else None,
        ("data", "capsules"): capsules,
        ("records", "keep"): keep,
    }
    for key, value in single.items():
        if value is not None:
            given.put(key, value, key[-1])
    spec = attempt_spec(
        read_config(given, environment=environment),
        task,
        level,
        environment=environment,
        scaffold=scaffold if isinstance(scaffold, Scaffold) else None,
        record=Path(record) if record else None,
    )
    return run(spec, cancel=cancel, listener=listener, environment=environment)


def _put(given: Given, section: str, values: Frozen | None) -> None:
    """Take what was given of one section: not what is a default of the value's."""
    for name in sorted(values.model_fields_set) if values else ():
        given.put((section, name), getattr(values, name), f"{section}.{name}")


def attempt_spec(
    config: Config,
    task: str,
    level: str,
    *,
    environment: Mapping[str, str],
    scaffold: Scaffold | None = None,
    record: Path | None = None,
) -> AttemptSpec:
    """The attempt at `task` that `config` describes. InputError where something it names is not there.

    `environment` tells where fetched datasets are.

    A shipped recording that is played because no model is named is played with the scaffold and the network that it was
    recorded with, unless a flag says otherwise; any other recording with that network.
    """
    settings = config.settings
    data = settings.data
    located = locate(task, level, dataset=data.dataset, capsules=data.capsules, environment=environment)
    model = settings.model.name or _shipped_recording(located)
    sandbox = SandboxSpec.model_validate(settings.sandbox.model_dump())
    if model.startswith("replay:"):
        recorded = read_manifest(resolve(model.removeprefix("replay:")).expanduser()).spec
        if not settings.model.name and config.origin(("scaffold",)).place != "flag":
            scaffold = scaffold or recorded.scaffold
        if sandbox.kind != "local" and config.origin(("sandbox", "network")).place != "flag":
            sandbox = sandbox.model_copy(update={"network": recorded.sandbox.network})
    return AttemptSpec(
        task=located.ref,
        scaffold=scaffold or load_scaffold(settings.scaffold),
        model=ModelSpec.model_validate(settings.model.model_dump() | {"name": model}),
        limits=Limits.model_validate(settings.limits.model_dump()),
        prices=settings.prices.prices(),
        sandbox=sandbox,
        keep=settings.records.keep,
        record=record or new_record(settings.records.folder, located.ref.id, located.ref.level),
    )


def _shipped_recording(located: Located) -> str:
    """The recording that is played where no model is named. InputError where none is shipped."""
    if located.recording:
        return f"replay:{located.recording}"
    levels = recorded_levels(located.ref)
    there = f", and a recorded run is shipped for {' and '.join(levels)} alone" if levels else ""
    raise InputError(
        f"no model is given{there}",
        field="--model",
        remedy=f"export OPENAI_API_KEY=... ; agentctl solve {located.ref.id} --model openai/gpt-5"
        + (f"; or try --level {levels[-1]}" if levels else ""),
    )


def new_record(folder: Path, task: str, level: str) -> Path:
    """A place in `folder` that is not taken yet, named by task, level and time.

    By chance too: of attempts that start in the same second none sees the others yet, and they may be on many machines.
    """
    while True:
        path = folder / f"{task}-{level}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        if not os.path.lexists(path):
            return path
