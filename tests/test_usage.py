"""Token counts: every provider's form gives the same disjoint classes, and no shape of it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.recorded import as_given
from agentctl.agents.usage import Dialect, Usage, normalise

DIALECTS: tuple[Dialect, ...] = ("openai_chat", "anthropic_messages", "gemini")


@dataclass
class Counts:
    """An estimate that remembers which sides were asked for."""

    prompt_tokens: int = 700
    output_tokens: int = 70
    asked: str = ""

    def prompt(self) -> int:
        self.asked += "p"
        return self.prompt_tokens

    def output(self) -> int:
        self.asked += "o"
        return self.output_tokens


def test_raw_usage_of_the_worked_examples(conformance: Callable[[str], Any]) -> None:
    examples = [case for case in conformance("cost/cases.json")["cases"] if "raw_usage" in case]
    assert examples
    for case in examples:
        raw = dict(case["raw_usage"])
        assert normalise(raw.pop("dialect"), raw) == Usage(**case["usage"]), case["id"]


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        # cached tokens told in three places, once inside the total
        ({"prompt_tokens": 50, "completion_tokens": 5, "prompt_cache_hit_tokens": 30}, (20, 30, 0, 5)),
        (
            {
                "prompt_tokens": 50,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 10},
                "cache_read_input_tokens": 40,
            },
            (10, 40, 0, 5),
        ),
        # more cached than there was: the total stands
        ({"prompt_tokens": 50, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}}, (0, 50, 0, 5)),
        # Anthropic's counts behind OpenAI's names: the cached ones lie outside
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 5,
                "cache_read_input_tokens": 40,
                "cache_creation_input_tokens": 7,
            },
            (5, 40, 7, 5),
        ),
        # one side is told by the sum alone
        ({"prompt_tokens": 50, "total_tokens": 61}, (50, 0, 0, 11)),
        ({"completion_tokens": 11, "total_tokens": 61}, (50, 0, 0, 11)),
        # the Responses API's names
        (
            {"input_tokens": 50, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 20}},
            (30, 20, 0, 5),
        ),
        # counts as text and as float
        ({"prompt_tokens": "50", "completion_tokens": 5.0}, (50, 0, 0, 5)),
    ],
)
def test_mixed_forms(raw: dict[str, Any], usage: tuple[int, int, int, int]) -> None:
    found = normalise("openai_chat", raw)
    assert found is not None
    assert (found.input_tokens, found.cache_read_tokens, found.written_tokens, found.output_tokens) == usage


def test_reasoning_is_counted_once() -> None:
    inside = {"prompt_tokens": 10, "completion_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 20}}
    assert normalise("openai_chat", inside) == Usage(input_tokens=10, output_tokens=30, reasoning_tokens=20)
    apart = inside | {"total_tokens": 60}  # the sum shows that this provider's completion leaves reasoning out
    assert normalise("openai_chat", apart) == Usage(input_tokens=10, output_tokens=50, reasoning_tokens=20)
    gemini = {"promptTokenCount": 10, "candidatesTokenCount": 30, "thoughtsTokenCount": 20}
    assert normalise("gemini", gemini) == Usage(input_tokens=10, output_tokens=50, reasoning_tokens=20)


def test_writes_without_lifetime_keep_none() -> None:
    raw = {"input_tokens": 1, "cache_creation_input_tokens": 9, "output_tokens": 2}
    assert normalise("anthropic_messages", raw) == Usage(input_tokens=1, cache_write_tokens=9, output_tokens=2)
    part = raw | {"cache_creation": {"ephemeral_1h_input_tokens": 4}}
    found = normalise("anthropic_messages", part)
    assert found is not None
    assert (found.cache_write_1h_tokens, found.cache_write_tokens) == (4, 5)


def test_cached_images_of_gemini_are_read_from_the_cache() -> None:
    raw = {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 600,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 484}, {"modality": "IMAGE", "tokenCount": 516}],
        "cacheTokensDetails": [{"modality": "IMAGE", "tokenCount": 258}],
        "candidatesTokenCount": 3,
    }
    assert normalise("gemini", raw) == Usage(
        input_tokens=142, cache_read_tokens=600, image_input_tokens=258, output_tokens=3
    )


def test_a_form_under_another_name_is_recognised() -> None:
    raw = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}
    expected = Usage(input_tokens=3, cache_read_tokens=4, output_tokens=5)
    assert normalise("openai_chat", raw) == expected
    assert normalise("gemini", {"prompt_tokens": 7, "completion_tokens": 5}) == Usage(input_tokens=7, output_tokens=5)


@pytest.mark.parametrize("raw", [None, {}, [], "", {"prompt_tokens": None}, {"prompt_tokens": -5}, {"usage": 1}])
def test_what_tells_nothing_is_estimated_and_marked(raw: object) -> None:
    assert normalise("openai_chat", raw) is None
    counts = Counts()
    found = normalise("openai_chat", raw, counts)
    assert found is not None
    assert (found.prompt_tokens, found.output_tokens, found.estimated, counts.asked) == (700, 70, True, "po")


def test_only_the_missing_side_is_estimated() -> None:
    counts = Counts()
    found = normalise("openai_chat", {"prompt_tokens": 120, "completion_tokens": None}, counts)
    assert found is not None
    assert (found.prompt_tokens, found.estimated_prompt_tokens, found.estimated_output_tokens) == (120, 0, 70)
    assert counts.asked == "o"
    nothing_said = Counts(output_tokens=0)
    found = normalise("openai_chat", {"prompt_tokens": 120, "completion_tokens": 0}, nothing_said)
    assert found == Usage(input_tokens=120)  # 0 told, 0 seen: that is a count


def test_sums_keep_what_was_estimated() -> None:
    total = Usage(input_tokens=100, output_tokens=10) + Usage(input_tokens=7, estimated_prompt_tokens=7)
    assert total.prompt_tokens - total.estimated_prompt_tokens == 100
    assert total.estimated


_NAMES = [
    "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "cached_tokens",
    "prompt_tokens_details", "completion_tokens_details", "cache_read_input_tokens", "cache_creation_input_tokens",
    "cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens", "image_tokens", "reasoning_tokens",
    "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount", "cachedContentTokenCount",
    "promptTokensDetails", "cacheTokensDetails", "modality", "tokenCount", "prompt_cache_hit_tokens",
]  # fmt: skip
_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**15) | st.floats() | st.text(max_size=8) | st.just("IMAGE"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=6),
    max_leaves=12,
)


@given(dialect=st.sampled_from(DIALECTS), raw=_ODD)
def test_no_shape_raises_and_no_class_is_negative(dialect: Dialect, raw: object) -> None:
    for found in (normalise(dialect, raw), normalise(dialect, raw, Counts())):
        if found is not None:
            assert all(getattr(found, name) >= 0 for name in Usage.model_fields)
            assert found.reasoning_tokens <= found.output_tokens


@given(
    st.builds(
        Usage,
        **{
            name: st.integers(0, 10**6)
            for name in Usage.model_fields
            if not name.startswith(("estimated", "reasoning"))
        },
    ).filter(lambda usage: usage.prompt_tokens > 0 and usage.output_tokens > 0),
    st.floats(0, 1),
)
def test_a_recorded_usage_is_read_again_as_it_was(usage: Usage, share: float) -> None:
    usage = usage.model_copy(update={"reasoning_tokens": int(usage.output_tokens * share)})
    assert normalise("openai_chat", as_given(usage)) == usage


def test_an_estimate_is_not_recorded_as_a_count() -> None:
    assert as_given(Usage(input_tokens=5, estimated_prompt_tokens=5, output_tokens=1)) is None
