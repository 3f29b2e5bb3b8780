"""Which variable of the owner's environment holds the key of which provider."""

from __future__ import annotations

from collections.abc import Mapping

from agentctl.base.values import Frozen

# The variables that hold a route's key; one of them is enough. Routes that are not here bring their own ways to sign in
# (clouds), or need none: litellm looks for those itself.
KEYS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "dashscope": ("DASHSCOPE_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "hosted_vllm": ("HOSTED_VLLM_API_KEY", "OPENAI_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_TOKEN"),
    "xai": ("XAI_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}

THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
"""Hosts to which a record or a project's file may send a key without its reader's word."""

KEY_VARIABLES = tuple(dict.fromkeys(name for names in KEYS.values() for name in names))
"""All of them, each once."""


class KeyFound(Frozen):
    """A key that is there: the variable that holds it, and the routes that take it."""

    variable: str
    routes: tuple[str, ...]


def present_keys(environment: Mapping[str, str]) -> list[KeyFound]:
    """The providers' keys that `environment` holds, by the variables' names. Their values are in none of it."""
    return [
        KeyFound(variable=name, routes=tuple(route for route in KEYS if find_key(route, environment)[0] == name))
        for name in sorted(KEY_VARIABLES)
        if environment.get(name, "").strip()
    ]


def find_key(route: str, environment: Mapping[str, str]) -> tuple[str, str | None]:
    """The variable that holds the key of `route`, and the key: None where it is set in none of its variables.

    A route that is not known is taken for an OpenAI-compatible one.
    """
    variables = KEYS.get(route, KEYS["openai"])
    for variable in variables:
        value = environment.get(variable, "").strip()
        if value:
            return variable, value
    return variables[0], None
