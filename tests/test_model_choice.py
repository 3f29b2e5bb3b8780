"""What is refused before the start: parameters, capabilities, keys and prices of a model."""

from __future__ import annotations

from typing import Any

import pytest
from chosen import ALL, KEYS, NEAR, opened, spec

from agentctl.agents.account import Account
from agentctl.agents.models.capabilities import check_asked, check_can
from agentctl.agents.models.human import HumanClient
from agentctl.agents.models.keys import KeyFound, present_keys
from agentctl.agents.models.litellm_client import check_parameters
from agentctl.agents.models.make import make_client
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.price_table import ModelFacts
from agentctl.agents.pricing import CacheMarkers, ServiceTier
from agentctl.agents.spec import Prices
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError, SetupError


def account(name: str, **more: Any) -> Account:
    whole = spec(name, **more)
    return opened(whole, ALL)


# Parameters


@pytest.mark.parametrize(
    ("model", "field", "words"),
    [
        ({"thinking_budget": 16_384}, "model.thinking_budget", "output limit"),
        ({"thinking_budget": 2_000, "effort": "low"}, "model.thinking_budget", "effort"),
        ({"thinking_budget": 2_000, "api_base": NEAR}, "model.thinking_budget", "extra"),
        ({"cache": "5m", "name": "openai/gpt-4o"}, "model.cache", "auto"),
        ({"extra": {"n": 5}}, "model.extra.n", "cap"),
        ({"extra": {"max_tokens": 5}}, "model.extra.max_tokens", "output_limit"),
        ({"extra": {"mock_response": "hi"}}, "model.extra.mock_response", "agentctl"),
        *(
            ({"extra": {name: value}}, f"model.extra.{name}", "cap")
            for name, value in {
                "extra_body": {"n": 8, "max_tokens": 99_999},
                "candidate_count": 8,
                "best_of": 8,
                "maxOutputTokens": 99_999,
                "max_output_tokens": 99_999,
                "max_new_tokens": 99_999,
                "num_predict": 99_999,
                "options": {"num_predict": 99_999},
                "generationConfig": {"candidateCount": 8},
                "modalities": ["audio"],
                "audio": {"voice": "alloy"},
                "plugins": [{"id": "web"}],
                "search_parameters": {"mode": "on"},
                "models": ["openai/gpt-5-pro"],
                "functions": [],
                "system": "another prompt",
                "extra_headers": {"anthropic-beta": "context-1m"},
                "optional_params": {"n": 8},
                "never-heard-of": 1,
            }.items()
        ),
        ({"extra": {"model": "another"}}, "model.extra.model", "model.name"),
    ],
)
def test_what_can_not_be_asked_for_is_refused(model: dict[str, Any], field: str, words: str) -> None:
    asked = ModelSpec.model_validate({"name": "anthropic/claude-sonnet-4-5"} | model)
    with pytest.raises(InputError) as caught:
        make_client(asked, KEYS)
    assert caught.value.field == field
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        {"thinking_budget": 2_000},
        {"effort": "high"},
        {"cache": "1h"},
        {"extra": {"top_k": 5, "stop": ["END"], "reasoning": {"max_tokens": 2_000}}},
        {"extra": {"chat_template_kwargs": {"enable_thinking": False}}, "api_base": NEAR},
    ],
)
def test_what_can_be_asked_for_is_not(model: dict[str, Any]) -> None:
    asked = ModelSpec.model_validate({"name": "anthropic/claude-sonnet-4-5"} | model)
    check_asked(asked)


def test_a_model_without_native_calls_needs_another_scaffold_or_a_word() -> None:
    facts = ModelFacts(native_tools=False)
    with pytest.raises(InputError, match="--scaffold plain-text"):
        check_can(ModelSpec(name="m"), facts, native=True)
    check_can(ModelSpec(name="m"), facts, native=False)
    check_can(ModelSpec(name="m", native_tools=True), facts, native=True)
    with pytest.raises(InputError, match="as was said"):
        check_can(ModelSpec(name="m", native_tools=False), ModelFacts(native_tools=True), native=True)


def test_a_thinking_budget_is_smaller_than_what_the_model_can_say() -> None:
    asked = ModelSpec(name="m", output_limit=64_000, thinking_budget=32_000)
    check_can(asked, ModelFacts(max_output_tokens=64_000), native=True)
    with pytest.raises(InputError, match="smaller budget"):
        check_can(asked, ModelFacts(max_output_tokens=32_000), native=True)


def test_the_price_table_knows_of_models_without_native_calls() -> None:
    name = "deepseek/deepseek-reasoner"
    with pytest.raises(InputError, match="--scaffold plain-text") as caught:
        account(name)
    assert caught.value.field == "scaffold"
    account(name, scaffold="plain-text")
    account(name, native_tools=True)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("openai/gpt-5", {"temperature": 0.3}, "temperature=0.3"),
        ("openai/gpt-5", {"top_p": 0.5}, "top_p"),
        ("openai/gpt-4o", {"effort": "low"}, "reasoning_effort"),
        ("openai/gpt-4o", {"thinking_budget": 2000}, "thinking"),
        ("anthropic/claude-sonnet-4-5", {"seed": 1}, "seed"),
        ("no-such-route/model", {"seed": 1}, "Provider"),
    ],
)
def test_a_parameter_that_the_provider_does_not_take_is_refused_before_the_start(
    name: str, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_client(ModelSpec.model_validate({"name": name} | parameters), KEYS)
    assert words in str(caught.value)
    assert "drop_params" not in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_one_that_litellm_does_not_know_of_can_be_insisted_on() -> None:
    asked = {"name": "openai/gpt-4o", "effort": "low"}
    check_parameters(ModelSpec.model_validate(asked | {"extra": {"allowed_openai_params": ["reasoning_effort"]}}))
    check_parameters(ModelSpec(name="anthropic/claude-sonnet-4-5", thinking_budget=2000, temperature=1.0))


@pytest.mark.parametrize("model", [{"temperature": 3}, {"top_p": 0}, {"thinking_budget": 0}, {"service": "batch"}])
def test_values_out_of_range_make_no_model(model: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(model))):
        ModelSpec.model_validate({"name": "m"} | model)


# What an account makes of it


def test_service_markers_and_limits_reach_the_gateway() -> None:
    route = account("openai/gpt-5", service="flex")._routes["main"]
    assert (route.service, route.markers, route.most_output) == (ServiceTier.FLEX, CacheMarkers.NONE, 128_000)
    claude = "anthropic/claude-sonnet-4-5"
    assert account(claude)._routes["main"].markers is CacheMarkers.FIVE_MINUTES
    assert account(claude, cache="1h")._routes["main"].markers is CacheMarkers.ONE_HOUR
    assert account(claude, cache="off")._routes["main"].markers is CacheMarkers.NONE


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ollama/some-model-of-mine", {}),
        ("hosted_vllm/my/model", {"api_base": NEAR, "client": "litellm"}),
        ("my-model", {"api_base": NEAR}),
        ("my-model", {"api_base": "http://gpu-box.local:8000/v1"}),
    ],
)
def test_a_server_of_ones_own_wants_no_key_and_one_word_about_its_price(name: str, more: dict[str, Any]) -> None:
    asked = spec(name, **more)
    with pytest.raises(SetupError) as caught:
        opened(asked, {})
    typed = f"--price '{name}=free'"
    assert typed in str(caught.value)
    free = spec(name, prices=Prices(lines=(f"{name}=free",)), **more)
    assert opened(free, {}).prices.schedules == {}


def test_a_price_is_asked_for_elsewhere_too() -> None:
    with pytest.raises(SetupError, match=r"--price 'openai/no-such-model=IN,OUT'"):
        account("openai/no-such-model")


# Keys


def test_keys_are_found_by_name_and_never_told() -> None:
    environment = KEYS | {"GROQ_API_KEY": "  ", "CO_API_KEY": "co-0123456789", "PATH": "/bin"}
    found = present_keys(environment)
    assert [key.variable for key in found] == ["ANTHROPIC_API_KEY", "CO_API_KEY", "OPENAI_API_KEY"]
    assert found[1] == KeyFound(variable="CO_API_KEY", routes=("cohere",))
    assert found[2].routes == ("hosted_vllm", "openai")
    assert not any(value in repr(found) for value in environment.values() if value.strip() and value != "/bin")


def test_a_person_must_be_there_to_play_the_model() -> None:
    with pytest.raises(InputError, match="terminal"):
        make_client(ModelSpec(name="human"), {})

    class Nobody:
        def show(self, title: str, text: str) -> None: ...

        def line(self, prompt: str, cancel: Cancel) -> str | None:
            return None

    assert isinstance(make_client(ModelSpec(name="human"), {}, Nobody()), HumanClient)
