"""What failures mean, by status, error body and the words of the provider."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentctl.agents.models import faults
from agentctl.agents.models.protocol import Fault

TOO_LONG = [
    (400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 509178 tokens."),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens."),
    (400, "prompt is too long: 207889 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (413, "Request exceeds the maximum size"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "Input is too long for requested model."),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens"),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (500, "the request exceeds the available context size, try increasing it"),
    (400, "Range of input length should be [1, 30720]"),
    (400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"),
    (400, "Invalid request: Your request exceeded model token limit: 131072"),
    (400, "Prompt exceeds max length"),
    (400, "invalid params, context window exceeds limit"),
    (400, "prompt token count of 130000 exceeds the limit of 128000"),
    (400, "prompt too long; exceeded max context length by 12 tokens"),
    (None, "litellm.ContextWindowExceededError"),
]


@pytest.mark.parametrize(("status", "words"), TOO_LONG)
def test_too_long_is_told_in_many_words(status: int | None, words: str) -> None:
    assert faults.classify(status, words, "invalid_request_error") is Fault.CONTEXT


@pytest.mark.parametrize(
    ("status", "words", "kind", "fault"),
    [
        (401, "missing key", "", Fault.AUTH),
        (403, "no access to this model", "", Fault.AUTH),
        (402, "", "", Fault.AUTH),
        (429, "You exceeded your current quota", "insufficient_quota", Fault.AUTH),
        (400, "Your credit balance is too low to access the API", "invalid_request_error", Fault.AUTH),
        (429, "You exceeded your current quota, please check your plan", "429 RESOURCE_EXHAUSTED", Fault.TRANSIENT),
        (
            429,
            "Request too large for tokens per minute: Limit 30000, Requested 40000 input tokens",
            "",
            Fault.TRANSIENT,
        ),
        (408, "", "", Fault.TRANSIENT),
        (409, "", "", Fault.TRANSIENT),
        (500, "", "", Fault.TRANSIENT),
        (529, "", "overloaded_error", Fault.TRANSIENT),
        (599, "never heard of", "", Fault.TRANSIENT),
        (400, "The server is busy, please try again later", "", Fault.TRANSIENT),
        (None, "Overloaded", "", Fault.TRANSIENT),
        (None, "boom", "server_error", Fault.TRANSIENT),
        (None, "Incorrect API key provided", "", Fault.AUTH),
        (400, "invalid tool schema", "", Fault.REJECTED),
        (400, "function 'overload_test' has a bad schema", "invalid_request_error", Fault.REJECTED),
        (400, "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens", "", Fault.REJECTED),
        (
            400,
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "",
            Fault.REJECTED,
        ),
        (400, "max_tokens (100000) exceeds the maximum of the model", "", Fault.REJECTED),
        (400, "'max_tokens' is too large: 9. This model's maximum context length is 8 tokens", "", Fault.CONTEXT),
        (404, "no such model", "", Fault.REJECTED),
        (422, "field required", "", Fault.REJECTED),
        (400, "The response was filtered due to the prompt", "content_filter", Fault.REFUSED),
        (400, "flagged as potentially violating our usage policy", "invalid_prompt", Fault.REFUSED),
        (403, "Your input was flagged", "", Fault.REFUSED),
        (None, "anything else", "", Fault.REJECTED),
    ],
)
def test_what_kind_of_failure_it_is(status: int | None, words: str, kind: str, fault: Fault) -> None:
    assert faults.classify(status, words, kind) is fault


NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        (" 12 ", 12.0),
        ("Tue, 01 Jan 2030 12:01:30 GMT", 90.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("nan", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert faults.seconds_to_wait(header, NOW) == seconds


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Rate limit reached. Please try again in 6.5s.", 6.5),
        ("Please try again in 1m30s", 90.0),
        ("Please try again in 250ms", 0.25),
        ('{"details": [{"retryDelay": "36s"}]}', 36.0),
        ("Please try again later", None),
    ],
)
def test_a_pause_told_only_in_words_is_found(words: str, seconds: float | None) -> None:
    assert faults.of_reply(429, None, words).retry_after == seconds


def test_words_of_an_error_are_the_providers_and_bounded() -> None:
    assert faults.of_reply(400, {"error": {"message": "bad schema"}}).words == "bad schema"
    assert faults.of_reply(400, [{"error": {"message": "bad"}}]).words == "bad"
    assert faults.of_reply(422, {"detail": "field required"}).words == "field required"
    assert faults.of_reply(502, None, "<html><title>Bad gateway</title>...</html>").words == "Bad gateway"
    assert faults.of_reply(503, None, "").words == "HTTP 503 Service Unavailable"
    assert len(faults.of_reply(500, None, "x" * 100_000).words) < 3000
    assert faults.of_reply(500, {"error": {"message": "\ud800"}}).words == "\ufffd"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", "--scaffold plain-text"),
        ("No endpoints found that support tool use. To learn more", "--scaffold plain-text"),
        ("Function calling is not supported for function calling by this model", "--scaffold plain-text"),
        ("stream_options: Extra inputs are not permitted", "--no-stream"),
        ("Streaming is not supported for this model", "--no-stream"),
        ("tools.0: bad schema", ""),
    ],
)
def test_what_can_be_done_about_a_rejection_is_said(words: str, remedy: str) -> None:
    error = faults.of_reply(400, {"error": {"message": words}})
    assert error.fault is Fault.REJECTED
    assert error.words.startswith(words) and remedy in error.words
    assert bool(remedy) is ("(" in error.words)
