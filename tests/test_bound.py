"""The bound of a prompt, before it is sent."""

from __future__ import annotations

from gateway_bench import (
    QUESTION,
    TOOLS,
    message,
)

from agentctl.agents.models.bound import IMAGE_TOKENS, MESSAGE_TOKENS, REQUEST_TOKENS, PromptMeter
from agentctl.agents.models.protocol import (
    EncodedMessage,
)
from agentctl.agents.usage import Usage
from agentctl.base.jsonio import dumps


def size(messages: list[EncodedMessage]) -> int:
    return sum(len(each.body) + MESSAGE_TOKENS for each in messages)


def test_a_prompt_is_bounded_by_its_bytes_at_first() -> None:
    assert PromptMeter("m").bound(QUESTION, ()).tokens == REQUEST_TOKENS + size(QUESTION)
    with_tools = PromptMeter("m").bound(QUESTION, TOOLS).tokens
    assert with_tools >= REQUEST_TOKENS + size(QUESTION) + len(TOOLS[0].body)


def test_what_was_billed_bounds_what_follows() -> None:
    meter = PromptMeter("m")
    meter.learn(QUESTION, TOOLS, Usage(input_tokens=20, cache_read_tokens=10), images=False)
    more = [message(3, "answer", "assistant"), message(4, "go on")]
    assert meter.bound([*QUESTION, *more], TOOLS).tokens == 30 + size(more)
    assert meter.bound(QUESTION, TOOLS).tokens == 30


def test_after_a_rewrite_only_what_is_new_is_counted_by_its_bytes() -> None:
    meter = PromptMeter("m")
    past = [*QUESTION, *[message(n, "long " * 100) for n in range(3, 9)]]
    meter.learn(past, TOOLS, Usage(input_tokens=1500), images=False)
    summary = message(20, "all of it in short")
    assert meter.bound([*QUESTION, summary, *past[-1:]], TOOLS).tokens == 1500 + size([summary])
    # the prompt of a summary in between does not push the conversation's out
    meter.learn([message(30, "sum up")], (), Usage(input_tokens=1100), images=False)
    assert meter.bound([*past, summary], TOOLS).tokens == 1500 + size([summary])
    # small enough to be bounded by its own bytes
    assert meter.bound([message(40)], ()).tokens < 1500


def test_an_older_prompt_that_begins_like_this_one_is_not_preferred_to_a_nearer_one() -> None:
    meter = PromptMeter("m")
    past = [*QUESTION, *[message(n, "long " * 100) for n in range(3, 9)]]
    meter.learn(QUESTION, (), Usage(input_tokens=20), images=False)
    meter.learn(past, (), Usage(input_tokens=900), images=False)
    assert meter.bound([*QUESTION, *past[-4:]], ()).tokens == 900


def test_a_message_that_changed_or_comes_twice_is_counted_as_new() -> None:
    meter = PromptMeter("m")
    past = [message(n, "long " * 1000) for n in range(1, 4)]
    meter.learn(past, (), Usage(input_tokens=500), images=False)
    changed = message(3, "other " * 1000)
    assert meter.bound([*past[:2], changed], ()).tokens == 500 + size([changed])
    assert meter.bound([*past, past[0]], ()).tokens == 500 + size([past[0]])
    other_tools = meter.bound(past, TOOLS).tokens
    assert other_tools > 500 + len(TOOLS[0].body)


def test_estimated_counts_bound_nothing() -> None:
    meter = PromptMeter("m")
    meter.learn(QUESTION, (), Usage(input_tokens=3, estimated_prompt_tokens=3), images=False)
    meter.learn(QUESTION, (), Usage(), images=False)  # of a recording without counts
    assert meter.bound(QUESTION, ()).tokens > 3


def test_an_image_counts_as_the_dearest_there_is_not_by_its_bytes() -> None:
    content = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500_000}},
    ]
    tree = {"role": "user", "content": content}
    picture = EncodedMessage(3, dumps(tree), tree, images=1)
    found = PromptMeter("m").bound([picture], ())
    assert found.images
    assert IMAGE_TOKENS < found.tokens < IMAGE_TOKENS + REQUEST_TOKENS + 300
    assert PromptMeter("openai/gpt-4o-mini").bound([picture], ()).tokens > 48_000
