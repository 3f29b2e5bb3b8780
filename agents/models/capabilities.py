"""What can be known before the start of a model that can't do what it is asked for."""

from __future__ import annotations

from agentctl.agents.price_table import ModelFacts
from agentctl.base.errors import InputError

from .cache import wants_markers
from .protocol import ModelSpec

_OWN_FIELDS = {
    "model": "name",
    "stream": "stream",
    "stream_options": "stream",
    "max_tokens": "output_limit",
    "max_completion_tokens": "output_limit",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "reasoning_effort": "effort",
    "thinking": "thinking_budget",
    "service_tier": "service",
}  # parameters of a request, and the field of a model that sets them
_COSTLY = ("n", "best_of", "web_search_options")  # billed by more than the tokens that the purse sets aside
# Set by the harness, or taken by litellm for an order to itself.
_HARNESS = (
    "api_base", "api_key", "base_url", "caching", "client", "context_window_fallback_dict", "drop_params", "fallbacks",
    "max_retries", "messages", "mock_response", "model_list", "num_retries", "timeout", "tools",
)  # fmt: skip


def check_asked(model: ModelSpec) -> None:
    """Refuse what `model` can't be asked for, whatever it is. InputError names the field."""
    for name in model.extra:
        _check_extra(name)
    _check_thinking(model)
    if model.cache in ("5m", "1h") and not wants_markers(model):
        raise InputError(f"{model.name} takes no cache markers", field="model.cache", remedy="leave it at auto")


def check_can(model: ModelSpec, facts: ModelFacts, *, native: bool) -> None:
    """Refuse what `model` can't do, by `facts` and what its fields say instead. `native`: the scaffold calls natively.

    InputError names the field.
    """
    most = facts.max_output_tokens
    if model.thinking_budget is not None and most is not None and model.thinking_budget >= most:
        raise InputError(
            f"{model.thinking_budget} tokens leave nothing of the {most} that a reply of {model.name} can have",
            field="model.thinking_budget",
            remedy="give a smaller budget",
        )
    takes = facts.native_tools if model.native_tools is None else model.native_tools
    if native and takes is False:
        told = "as the price table says" if model.native_tools is None else "as was said"
        raise InputError(
            f"{model.name} takes no native tool calls, {told}",
            field="scaffold",
            remedy="use --scaffold plain-text, or say that it does: --set model.native_tools=true",
        )


def _check_extra(name: str) -> None:
    field = f"model.extra.{name}"
    if name in _COSTLY:
        raise InputError("can't be asked for: a cap could not hold", field=field)
    if name in _OWN_FIELDS:
        raise InputError("has a setting of its own", field=field, remedy=f"use model.{_OWN_FIELDS[name]}")
    if name in _HARNESS:
        raise InputError("is set by agentctl itself", field=field, remedy="leave it out")


def _check_thinking(model: ModelSpec) -> None:
    budget = model.thinking_budget
    if budget is None:
        return
    if model.direct:
        raise InputError(
            "has no name that all OpenAI-compatible endpoints know",
            field="model.thinking_budget",
            remedy="give the parameter that yours takes: --set model.extra.NAME=VALUE",
        )
    if model.effort is not None:
        raise InputError("an effort is given too", field="model.thinking_budget", remedy="give one of them")
    if budget >= model.output_limit:
        raise InputError(
            f"{budget} tokens leave nothing of the output limit of {model.output_limit}",
            field="model.thinking_budget",
            remedy=f"raise the output limit, to {budget + 16_384} for example",
        )
