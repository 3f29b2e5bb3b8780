"""Who answers in which role: the main model, and helpers for summaries (fast) and images (vision)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from agentctl.base.errors import AgentctlError

from .models.body import fixes_temperature
from .models.protocol import ModelSpec
from .scaffold import HelperRole, RoleParameters


def with_parameters(
    model: ModelSpec, roles: Mapping[HelperRole, RoleParameters], role: str, *, said: Collection[str] = ()
) -> ModelSpec:
    """`model` with the parameters that a scaffold's `roles` want of it in `role`, but for the fields that were `said`.

    A temperature is left out where the provider takes none, and what a model may think is not taken from its output.
    """
    wanted = next((parameters for name, parameters in roles.items() if name == role), RoleParameters())
    new: dict[str, float] = {}
    if wanted.temperature is not None and "temperature" not in said and not fixes_temperature(model):
        new["temperature"] = wanted.temperature
    if wanted.output_limit is not None and "output_limit" not in said:
        new["output_limit"] = wanted.output_limit + (model.thinking_budget or 0)
    return model.model_copy(update=new) if new else model


@contextmanager
def named(role: str) -> Iterator[None]:
    """An error about a model names the section of the settings that the model of `role` is set in."""
    try:
        yield
    except AgentctlError as error:
        if role == "main":
            raise
        field = role if error.field in (None, "model") else f"{role}.{str(error.field).removeprefix('model.')}"
        remedy = error.remedy and error.remedy.replace("model.", f"{role}.")
        raise type(error)(error.problem, file=error.file, field=field, remedy=remedy) from None
