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
SAFE = frozenset({
    # how the next token is chosen
    "bad_words", "dry_allowed_length", "dry_base", "dry_multiplier", "frequency_penalty", "length_penalty",
    "logit_bias", "min_p", "min_tokens", "mirostat", "mirostat_eta", "mirostat_tau", "no_repeat_ngram_size",
    "presence_penalty", "random_seed", "repeat_last_n", "repeat_penalty", "repetition_penalty", "tfs_z", "top_a",
    "top_k", "typical_p", "xtc_probability", "xtc_threshold",
    # how it thinks
    "chat_template_kwargs", "enable_thinking", "include_reasoning", "preserve_thinking", "prompt_mode", "reasoning",
    "reasoning_format", "reasoning_split", "think", "verbosity",
    # what form the reply has
    "format", "grammar", "guided_choice", "guided_grammar", "guided_json", "guided_regex", "ignore_eos",
    "include_stop_str_in_output", "logprobs", "parallel_tool_calls", "response_format", "skip_special_tokens",
    "spaces_between_special_tokens", "stop", "stop_token_ids", "structured_outputs", "tool_choice", "top_logprobs",
    # who serves and sees it
    "allowed_openai_params", "keep_alive", "num_ctx", "priority", "prompt_cache_key", "provider", "safe_prompt",
    "safety_identifier", "safety_settings", "store", "user",
})  # fmt: skip
"""What a request may hold besides. Any other name could ask for more or longer replies, dearer ones, another model or
another prompt, or be an order to litellm itself: the names for that are beyond counting, so those without it are told.
"""


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


def check_sees(model: ModelSpec, facts: ModelFacts, *, section: str) -> None:
    """Refuse a `model` that takes no images, by `facts` and what its field says instead.

    `section` is that of the settings which the model is from. InputError names the field.
    """
    takes = facts.images if model.images is None else model.images
    if takes is False:
        raise InputError(
            f"{model.name} takes no images, {'as was said' if model.images is False else 'by the price table'}, and "
            "the scaffold asks about some",
            field=f"{section}.images",
            remedy="name a model that does: --vision-model openai/gpt-4o; or say that it does: "
            f"--set {section}.images=true; or leave the tool out: --without vision",
        )


def _check_extra(name: str) -> None:
    field = f"model.extra.{name}"
    if name in _OWN_FIELDS:
        raise InputError("has a setting of its own", field=field, remedy=f"use model.{_OWN_FIELDS[name]}")
    if name not in SAFE:
        raise InputError(
            "agentctl does not know that a cap holds with it and nothing else of a request changes",
            field=field,
            remedy="leave it out; SAFE in agents/models/capabilities.py lists what can be given",
        )


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
