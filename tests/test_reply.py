"""Replies as they come, whatever a server made of the form: pure functions, no sending."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.models.protocol import Fault, FinishReason, ProviderError, RawReply
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.wire import encode
from agentctl.base.messages import Call, Message, Opaque, Role, Text


def received(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> RawReply:
    return decode_reply({"choices": [{"message": message, "finish_reason": finish}], **more}, provider="p")


def as_message(reply: RawReply) -> Message:
    """The reply as the loop would keep it, with calls numbered."""
    calls = [
        Call(id=f"c1.{n}", name=call.name, arguments=json.loads(call.arguments), raw=call.arguments)
        for n, call in enumerate(reply.calls, 1)
    ]
    return Message(role=Role.ASSISTANT, parts=(*reply.parts, *calls))


def test_a_plain_reply() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "odd": {"a": [1]}}
    reply = received({"content": "hi", "tool_calls": [call, call]}, "tool_calls", usage=usage, model="echo")
    assert reply.parts == (Text(text="hi"),)
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [("x", "bash", '{"command": "ls"}')] * 2
    assert (reply.finish, reply.finish_raw) == (FinishReason.TOOL_CALLS, "tool_calls")
    assert (reply.usage, reply.model, reply.refusal) == (usage, "echo", None)


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("content_filter", FinishReason.REFUSED),
        ("SAFETY", FinishReason.REFUSED),
        ("function_call", FinishReason.TOOL_CALLS),
        ("something_new", FinishReason.OTHER),
        (None, FinishReason.STOP),
    ],
)
def test_finish_reasons(word: str | None, finish: FinishReason) -> None:
    assert received({"content": "x"}, word).finish is finish


def test_a_refusal_carries_the_providers_words() -> None:
    assert received({"content": None, "refusal": "I can't."}).refusal == "I can't."
    blocks = received({"content": [{"type": "refusal", "refusal": "No."}]})
    assert (blocks.refusal, blocks.finish, blocks.parts) == ("No.", FinishReason.REFUSED, ())


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"id": None, "function": {"name": "bash", "arguments": "{}"}}, ("", "bash", "{}")),
        ({"function": {"name": "bash", "arguments": {"command": "ls"}}}, ("", "bash", '{"command":"ls"}')),
        ({"id": 5, "function": {"name": "bash", "arguments": None}}, ("5", "bash", "")),
        ({"id": "a", "name": "bash", "arguments": "{}"}, ("a", "bash", "{}")),
        ({"id": "a", "function": None}, ("a", "", "")),
        ("bash", ("", "", "bash")),
        ({"id": "a", "function": {"name": "bash", "arguments": '{"a": "\ud83c"}'}}, ("a", "bash", '{"a": "\ufffd"}')),
    ],
)
def test_odd_calls_are_kept_for_the_loop_to_answer(call: Any, expected: tuple[str, str, str]) -> None:
    (only,) = received({"tool_calls": [call]}, "tool_calls").calls
    assert (only.id, only.name, only.arguments) == expected


def test_the_old_form_of_a_call_is_read() -> None:
    (call,) = received({"content": "", "function_call": {"name": "bash", "arguments": "{}"}}, "function_call").calls
    assert (call.name, call.arguments) == ("bash", "{}")


@pytest.mark.parametrize(
    "message",
    [
        {"content": None},
        {"content": "", "tool_calls": []},
        {"content": []},
        {"content": {}},
        {},
        None,
        "text",
    ],
)
def test_shapes_of_nothing_are_an_empty_reply(message: Any) -> None:
    reply = decode_reply({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.parts, reply.calls, reply.usage) == ((), (), None)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "<think>\nhm\n</think>\n\n", "Yes."),
        ("<think>never closed", "<think>never closed", ""),
        ("opened in the prompt\n</think>\n\nYes.", "opened in the prompt\n</think>\n\n", "Yes."),
        ("The tag </think> in a sentence.", "", "The tag </think> in a sentence."),
        ("First words, <think>then</think> this.", "", "First words, <think>then</think> this."),
        ("   \n", "", "   \n"),
    ],
)
def test_leading_thinking_is_kept_apart_from_the_text(text: str, thinking: str, answer: str) -> None:
    reply = received({"content": text})
    assert "".join(str(part.data) for part in reply.parts if isinstance(part, Opaque)) == thinking
    assert "".join(part.text for part in reply.parts if isinstance(part, Text)) == answer
    assert encode(as_message(reply), 1, images=lambda ref: b"").tree["content"] == text


CALL = {"id": "t", "type": "function", "function": {"name": "bash", "arguments": '{"a":1}'}}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "a", "reasoning_content": "because"},
        {"content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x=="}]},
        {"content": "a", "reasoning_items": [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x=="}]},
        {
            "content": None,
            "tool_calls": [CALL],
            "thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "S"}],
        },
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "a"},
            ]
        },
        {"content": None, "tool_calls": [CALL, CALL | {"extra_content": {"google": {"thought_signature": "S"}}}]},
        {
            "content": None,
            "tool_calls": [CALL | {"function": {**CALL["function"], "provider_specific_fields": {"s": 1}}}],
        },
        {"content": "a", "provider_specific_fields": {"thought_signatures": ["S"]}},
    ],
)
def test_what_is_the_providers_own_goes_back_to_the_letter(message: dict[str, Any]) -> None:
    tree = encode(as_message(received(message)), 1, images=lambda ref: b"").tree
    for n, call in enumerate(message.get("tool_calls", []), 1):
        call = {**call, "id": f"c00001{n:03}"}
        assert tree["tool_calls"][n - 1] == call
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    assert {key: tree[key] for key in kept} == kept


def test_a_plain_copy_of_structured_reasoning_is_not_sent_twice() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "S"}]
    reply = received({"content": "a", "reasoning_content": "hm", "thinking_blocks": blocks})
    assert [part.field for part in reply.parts if isinstance(part, Opaque)] == ["thinking_blocks"]


@pytest.mark.parametrize(
    ("tree", "fault", "lost"),
    [
        ({"error": {"message": "Overloaded"}}, Fault.TRANSIENT, False),
        ({"error": "model is overloaded", "error_type": "overloaded"}, Fault.TRANSIENT, False),
        (
            {"choices": [{"error": {"code": 502, "message": "upstream"}, "finish_reason": "error"}]},
            Fault.TRANSIENT,
            True,
        ),
        ({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, Fault.REJECTED, False),
        ({"error": {"message": "nobody knows"}}, Fault.REJECTED, False),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}, Fault.TRANSIENT, False),
        ({"msg": "insufficient balance"}, Fault.AUTH, False),
        ({"message": "Overloaded"}, Fault.TRANSIENT, False),
        ({}, Fault.TRANSIENT, True),
        ([], Fault.TRANSIENT, True),
        (None, Fault.TRANSIENT, True),
        ("data: {}", Fault.TRANSIENT, True),
        ({"choices": None}, Fault.TRANSIENT, True),
    ],
)
def test_what_is_no_completion_is_a_failure(tree: Any, fault: Fault, lost: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        decode_reply(tree)
    assert (caught.value.fault, caught.value.lost) == (fault, lost)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8)
# fmt: off
words = st.sampled_from([
    "choices", "message", "content", "tool_calls", "function", "function_call", "name", "arguments", "id", "type",
    "text", "refusal", "finish_reason", "usage", "model", "error", "code", "status", "thinking", "thought_signatures",
    "reasoning_content", "thinking_blocks", "provider_specific_fields",
])
# fmt: on
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)
messages = st.fixed_dictionaries(
    {},
    optional={"content": values, "tool_calls": values, "refusal": values, "function_call": values, "reasoning": values},
)
completions = st.builds(
    lambda message, finish, usage, model: {
        "choices": [{"message": message, "finish_reason": finish}],
        "usage": usage,
        "model": model,
    },
    messages,
    values,
    values,
    values,
)


@given(values | completions)
def test_decoding_never_raises_anything_but_a_provider_error(tree: Any) -> None:
    try:
        reply = decode_reply(tree, provider="p")
    except ProviderError as error:
        error.words.encode("utf-8")
        return
    reply.model_dump_json()
    calls = [
        Call(id=f"c1.{n}", name=call.name, arguments=None, raw=call.arguments) for n, call in enumerate(reply.calls)
    ]
    message = Message(role=Role.ASSISTANT, parts=(*reply.parts, *calls))
    again = encode(message, 1, images=lambda ref: b"")
    assert json.loads(again.body.decode("utf-8")) == again.tree


def test_an_empty_error_beside_a_reply_is_none() -> None:
    for nothing in (None, "", {}, {"message": "", "code": None}):
        assert received({"content": "x"}, error=nothing).parts == (Text(text="x"),)


def test_a_reply_nested_beyond_reason_is_unreadable() -> None:
    tree: Any = "x"
    for _ in range(5000):
        tree = [tree]
    with pytest.raises(ProviderError) as caught:
        received({"content": tree})
    assert caught.value.lost
