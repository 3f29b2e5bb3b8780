"""A whole request: the bytes of its messages joined, and their digest."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.models.body import BodyMaker, parameters, request_body
from agentctl.agents.models.protocol import EncodedMessage, ModelSpec
from agentctl.agents.models.wire import encode, encode_tool
from agentctl.agents.reading import RecordReader
from agentctl.base.messages import ImageRef, Message, Role, Text, ToolSpec

EXAMPLES = Path(__file__).parents[1] / "examples"
MODEL = ModelSpec(name="openai/gpt-4o", temperature=0.5)
BASH = encode_tool(ToolSpec(name="bash", description="Runs it.", parameters={"type": "object"}))


def no_image(ref: ImageRef) -> bytes:
    raise AssertionError("no message here holds an image")


def said(number: int, text: str) -> EncodedMessage:
    return encode(Message(role=Role.USER, parts=(Text(text=text),)), number, images=no_image)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),  # how many of the last request's messages are kept
            st.lists(st.sampled_from(["", "a", "ü", '"]}']), max_size=3),  # what is added
            st.sampled_from([100, 101]),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_a_request_is_the_same_whatever_was_made_before_it(steps: list[tuple[int, list[str], int, bool]]) -> None:
    maker = BodyMaker(MODEL)
    history: tuple[EncodedMessage, ...] = ()
    for kept, added, limit, offered in steps:
        history = (*history[:kept], *(said(n, text) for n, text in enumerate(added, start=kept)))
        tools = [BASH] if offered else []
        made = maker.make(history, tools, limit)
        assert made.data == request_body(MODEL, history, tools, limit)
        assert made.digest == sha256(made.data).hexdigest()
        tree = json.loads(made.data)
        assert tree["messages"] == [message.tree for message in history]
        assert tree.get("tools", []) == [tool.tree for tool in tools]


def test_all_that_a_model_is_asked_with_is_in_its_requests() -> None:
    plain = {"max_tokens": 9, "stream": True, "stream_options": {"include_usage": True}}
    assert parameters(ModelSpec(name="m"), 9) == plain
    asked = ModelSpec(
        name="m", stream=False, temperature=0.0, top_p=0.5, seed=0, effort="low", service="flex", extra={"top_k": 5}
    )
    assert parameters(asked, 9) == {
        "max_tokens": 9,
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 0,
        "reasoning_effort": "low",
        "service_tier": "flex",
        "top_k": 5,
    }
    thinking = parameters(ModelSpec(name="m", thinking_budget=2_000), 9)
    assert thinking == plain | {"thinking": {"type": "enabled", "budget_tokens": 2_000}}


@pytest.mark.parametrize("level", ["easy", "hard"])
def test_the_shipped_recordings_requests_are_built_as_they_were(level: str) -> None:
    reader = RecordReader(EXAMPLES / "recordings" / "plain" / f"capsule-4810297-{level}")
    assert reader.requests
    assert all(reader.rebuild(n).same for n in reader.requests)


def test_a_history_that_differs_in_the_middle_is_hashed_anew() -> None:
    maker = BodyMaker(MODEL)
    maker.make((said(1, "one"), said(2, "two"), said(3, "three")), [], 100)
    other = (said(1, "one"), said(2, "2"), said(3, "three"))
    assert maker.make(other, [], 100).digest == sha256(request_body(MODEL, other, [], 100)).hexdigest()
