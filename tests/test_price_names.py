"""A model's name that has no price: what was probably meant comes before how to state one."""

from __future__ import annotations

import pytest

from agentctl.agents.price_names import names_like
from agentctl.agents.price_table import Entries, PriceTable
from agentctl.agents.pricing import Price, Unknown

TABLE = {
    "gpt-4o": {"litellm_provider": "openai"},
    "gpt-5-mini": {"litellm_provider": "openai", "mode": "responses"},
    "gpt-4o-image": {"litellm_provider": "openai", "mode": "image_generation"},
    "claude-sonnet-4-6": {"litellm_provider": "anthropic", "mode": "chat"},
    "claude-sonnet-latest": {"alias_of": "claude-sonnet-4-6"},
    "anthropic.claude-x": {"litellm_provider": "bedrock_converse", "mode": "chat"},
    "azure/gpt-4o": {"litellm_provider": "azure", "mode": "chat"},
    "groq/llama-3-70b": {"litellm_provider": "groq", "mode": "chat"},
}


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("openai/gpt4o", "openai/gpt-4o"),
        ("openai/GPT-4O", "openai/gpt-4o"),
        ("azure/gpt-4oo", "azure/gpt-4o"),
        ("gpt-5mini", "openai/gpt-5-mini"),
        ("opnai/gpt-4o", "openai/gpt-4o"),
        ("claude-sonet-4-6", "anthropic/claude-sonnet-4-6"),
        ("bedrock/anthropic.claude-y", "bedrock/anthropic.claude-x"),
        ("groq/llama3-70b", "groq/llama-3-70b"),
    ],
)
def test_a_misspelt_name_is_like_the_one_that_was_meant(asked: str, meant: str) -> None:
    assert names_like(asked, TABLE)[0] == meant


@pytest.mark.parametrize("asked", ["my-model", "openai/gpt-4o-imag3x-huge", "local/llama-3", "", "/", "a/b/c"])
def test_a_name_of_ones_own_is_like_none(asked: str) -> None:
    assert names_like(asked, TABLE) == []


@pytest.mark.parametrize("asked", ["openai/gpt4o", "anthropic/claude-sonet-4-6", "gemini/gemini-2.5pro"])
def test_what_the_installed_table_suggests_has_a_price(asked: str) -> None:
    table = PriceTable(Entries.bundled())
    unknown = table.lookup(asked)
    assert isinstance(unknown, Unknown)
    first = unknown.remedy.removeprefix("did you mean ").partition("?")[0].partition(" or ")[0]
    assert isinstance(table.lookup(first), Price)
    assert f"? else add --price '{asked}=IN,OUT'" in unknown.remedy
