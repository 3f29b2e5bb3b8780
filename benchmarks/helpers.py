"""The models of helpers' roles, as settings and scaffold make them."""

from __future__ import annotations

from typing import get_args

from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.roles import with_parameters
from agentctl.agents.scaffold import HelperRole, Scaffold

from .config import Config
from .settings import HelperSettings


def helper_models(config: Config, main: ModelSpec, scaffold: Scaffold) -> dict[HelperRole, ModelSpec]:
    """Those that `config` says something of, beside the main model. The other roles are left to that.

    What is not said is as `scaffold` wants it in the role; the rest is as main's, unless another model is named. What
    helpers said in a recording is in it, so beside one only those count that a flag names.
    """
    found: dict[HelperRole, ModelSpec] = {}
    for role in get_args(HelperRole):
        section: HelperSettings = getattr(config.settings, role)
        said = section.model_fields_set
        if not said or (main.name.startswith("replay:") and config.origin((role, "name")).place != "flag"):
            continue
        rest = {} if section.name else main.model_dump()
        model = ModelSpec.model_validate(rest | section.model_dump(include=said))
        found[role] = with_parameters(model, scaffold.roles, role, said=said)
    return found
