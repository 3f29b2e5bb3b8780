"""AttemptSpec: one attempt, whole. A frozen JSON value that any process can be handed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import Field

from agentctl.base.values import Frozen, Usd
from agentctl.tools.sandbox.protocol import SandboxSpec

from .models.protocol import ModelSpec
from .roles import with_parameters
from .scaffold import HelperRole, Scaffold
from .task import TaskRef

Keep: TypeAlias = Literal["answers", "changes", "all"]
"""What of the workspace is kept: the deliverable alone; files that the run made or changed, up to a size; all files."""


class Limits(Frozen):
    """Where an attempt ends whatever the agent wants."""

    cost_usd: Usd = Field(default=Decimal(4), gt=0, le=1_000_000)
    steps: int = Field(default=200, ge=1)
    seconds: float = Field(default=7200, gt=0)  # of work: time spent waiting to send again is not counted
    command_seconds: float = Field(default=600, gt=0)  # of a shell command that asks for no other limit


class Prices(Frozen):
    """What the user says of prices, before the bundled table is asked."""

    lines: tuple[str, ...] = ()  # as after --price: 'NAME=IN,OUT' in dollars a million tokens, 'NAME=free'
    file: Path | None = None


class AttemptSpec(Frozen):
    """One arm on one task, one repeat, one try."""

    schema_version: int = 1
    task: TaskRef
    scaffold: Scaffold
    model: ModelSpec
    helpers: dict[HelperRole, ModelSpec] = Field(default_factory=dict)  # of roles that main's model does not play
    limits: Limits = Limits()
    prices: Prices = Prices()
    sandbox: SandboxSpec = SandboxSpec()
    keep: Keep = "changes"
    record: Path  # the folder to make; must not exist
    repeat: int = 0
    try_number: int = 1
    seed: int | None = None  # of the attempt: recorded, and a part of its key
    resume_from: Path | None = None  # a record whose replies are played again before the model is asked

    def model_of(self, role: str) -> ModelSpec:
        """The model that requests of `role` go to: that role's helper, else main's as the scaffold wants it there."""
        helper = next((model for name, model in self.helpers.items() if name == role), None)
        return helper or with_parameters(self.model, self.scaffold.roles, role)

    def other_models(self) -> dict[str, ModelSpec]:
        """The models of helpers' roles that are not the main model, in name or parameters."""
        models = {role: self.model_of(role) for role in get_args(HelperRole)}
        return {role: model for role, model in models.items() if model != self.model}

    def other_names(self) -> dict[str, str]:
        """The names of helpers' models by role, where it is not the main model's."""
        return {role: model.name for role, model in self.other_models().items() if model.name != self.model.name}
