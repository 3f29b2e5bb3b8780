"""Server-sent events and the chunks of a reply: pure functions, whatever a server makes of the form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sse import chat_events, pieces

from agentctl.agents.models import sse
from agentctl.agents.models.protocol import Fault, FinishReason, ProviderError, RawReply
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.sse import events
from agentctl.agents.models.stream import DONE, receive
from agentctl.agents.usage import Usage, normalise
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled
from agentctl.base.messages import Opaque, Text


def broken(error: Exception) -> ProviderError:
    return ProviderError(Fault.TRANSIENT, f"broken: {error}", lost=True)


def received(chunks: Iterable[object]) -> RawReply:
    return receive(chunks, Cancel(), provider="p", failure=broken)


def delta(finish: str | None = None, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


END = delta("stop")


# Events


def test_events_are_found_however_a_body_is_laid_out() -> None:
    body = ": hello\r\n\r\nevent: a\ndata: 1\ndata:2\n\n\ndata\n\nid: 7\nretry: 5\ndata:  grüße\r\rdata: cut"
    assert [*events([body.encode()])] == [("a", "1\n2"), ("", ""), ("", " grüße")]


@given(st.lists(st.sampled_from(["data: x", "data: ü", ": c", "event: e", "", "\r", "data"]), max_size=8), st.data())
def test_it_makes_no_difference_where_a_body_is_cut(lines: list[str], data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(["\n", "\r\n"])).join(lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert [*events(parts)] == [*events([body])]


def test_a_mark_before_a_body_is_no_part_of_it() -> None:
    body = b"\xef\xbb\xbfdata: 1\n\ndata: \xef\xbb\xbf2\n\n"
    assert [*events([body])] == [*events([body[:2], body[2:4], body[4:]])] == [("", "1"), ("", "\ufeff2")]


def test_a_long_event_comes_whole() -> None:
    body = b"data: " + b"x" * (8 << 20) + b"\n\n"
    ((_, data),) = events(body[at : at + 4096] for at in range(0, len(body), 4096))
    assert len(data) == 8 << 20


@pytest.mark.parametrize("body", [b"data: " + b"x" * 2000, b"data: xxxxxxx\n" * 200])
def test_an_event_without_end_is_given_up(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LARGEST_EVENT", 1000)
    with pytest.raises(ValueError, match="1,000 bytes"):
        list(events([body[:700], body[700:]]))


# Whole replies


CALL = {"id": "t", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
THINKING = [
    {"type": "thinking", "thinking": "hm, then", "signature": "S"},
    {"type": "redacted_thinking", "data": "x=="},
]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "grüße \U0001f378 and more"},
        {"content": None, "tool_calls": [CALL, {**CALL, "id": "u"}, {**CALL, "id": "v"}]},
        {"content": "a", "reasoning_content": "because of it", "tool_calls": [CALL]},
        {"content": "a", "thinking_blocks": THINKING},
        {"content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x==", "index": 0}]},
        {"content": None, "refusal": "I can't do that."},
        {"content": None, "function_call": {"name": "bash", "arguments": "{}"}},
        {"content": "<think>hm</think>\n\nYes."},
        {"content": None, "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "S"}}}]},
        {"content": "a", "provider_specific_fields": {"thought_signatures": ["S"], "citations": [1]}},
    ],
)
def test_a_reply_in_pieces_is_the_reply(message: dict[str, Any]) -> None:
    whole = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "model": "echo",
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    }
    chunks = [DONE if data == "[DONE]" else json.loads(data) for _, data in events([b"".join(chat_events(whole))])]
    assert received(chunks) == decode_reply(whole, provider="p")


@pytest.mark.parametrize(
    "calls",
    [
        # The usual way: numbered, id and name first, arguments side by side.
        [
            [{"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}}],
            [{"index": 1, "id": "b", "function": {"name": "two", "arguments": ""}}],
            [{"index": 0, "function": {"arguments": '{"x"'}}, {"index": 1, "function": {"arguments": "{"}}],
            [{"index": 0, "function": {"arguments": ":1}"}}, {"index": 1, "function": {"arguments": "}"}}],
        ],
        # All at once, without numbers; the name told again with an empty one.
        [
            [{"id": "a", "function": {"name": "one", "arguments": '{"x":1}'}}],
            [{"id": "b", "function": {"name": "two", "arguments": "{"}}],
            [{"function": {"name": "", "arguments": "}"}}],
        ],
        # Both under number 0, as some servers do.
        [
            [{"index": 0, "id": "a", "function": {"name": "one", "arguments": '{"x":1}'}}],
            [{"index": 0, "id": "b", "function": {"name": "two", "arguments": "{}"}}],
        ],
        # The id repeated with every piece.
        [
            [{"index": 0, "id": "a", "type": "function", "function": {"name": "one", "arguments": '{"x"'}}],
            [{"index": 0, "id": "a", "type": "function", "function": {"name": "one", "arguments": ":1}"}}],
            [{"index": 3, "id": "b", "type": "function", "function": {"name": "two", "arguments": "{}"}}],
        ],
    ],
)
def test_calls_are_put_together_however_they_are_numbered(calls: list[list[dict[str, Any]]]) -> None:
    reply = received([*(delta(tool_calls=each) for each in calls), delta("tool_calls")])
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("a", "one", '{"x":1}'),
        ("b", "two", "{}"),
    ]


def test_pieces_of_a_later_call_under_number_0_go_to_it() -> None:
    first = {"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}
    second = {"index": 0, "id": "b", "function": {"name": "two", "arguments": '{"x"'}}
    rest = {"index": 0, "function": {"arguments": ":1}"}}
    reply = received([*(delta(tool_calls=[each]) for each in (first, second, rest)), delta("tool_calls")])
    assert [(call.name, call.arguments) for call in reply.calls] == [("one", "{}"), ("two", '{"x":1}')]


def test_blocks_of_content_are_put_together() -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": part}]} for part in ("first ", "then")]
    reply = received([*(delta(content=[each]) for each in thinking), delta(content="It "), delta(content="is."), END])
    assert reply.parts == (
        Opaque(
            provider="p",
            field="content",
            data={"type": "thinking", "thinking": [{"type": "text", "text": "first then"}]},
        ),
        Text(text="It is."),
    )


def test_reasoning_of_one_kind_goes_on_until_it_is_signed() -> None:
    blocks = [
        {"type": "reasoning.text", "text": "a "},
        {"type": "reasoning.text", "text": "b"},
        {"type": "reasoning.text", "text": "", "signature": "S"},
        {"type": "reasoning.text", "text": "c"},
    ]
    reply = received([*(delta(reasoning_details=[each]) for each in blocks), END])
    assert reply.parts == (
        Opaque(
            provider="p",
            field="reasoning_details",
            data=[{"type": "reasoning.text", "text": "a b", "signature": "S"}, {"type": "reasoning.text", "text": "c"}],
        ),
    )


def test_counts_told_later_take_the_place_of_earlier_ones() -> None:
    chunks = [
        delta(content="a") | {"usage": {"prompt_tokens": 9, "completion_tokens": 1}},
        END | {"usage": {"completion_tokens": 5}},
        {"choices": [], "usage": {"prompt_tokens": None, "total_tokens": 14}},
    ]
    assert received(chunks).usage == {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


@pytest.mark.parametrize("end", [[END, DONE], [END]])
def test_counts_told_before_the_end_say_nothing_of_the_whole_output(end: list[object]) -> None:
    begun = {**delta(role="assistant"), "usage": {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}}
    reply = received([begun, *[delta(content="words and words ") for _ in range(500)], *end])
    assert reply.usage == {"prompt_tokens": 1000}


def test_counts_told_with_each_piece_hold() -> None:
    told = [{**delta(content="a"), "usage": {"prompt_tokens": 9, "completion_tokens": n}} for n in (1, 2, 3)]
    assert received([*told, END, DONE]).usage == {"prompt_tokens": 9, "completion_tokens": 3}


def test_zeros_told_later_do_not_take_the_place_of_counts() -> None:
    counts = {"prompt_tokens": 5000, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4000}}
    zeros = {"prompt_tokens": 0, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}, "cost": None}
    for odd in (zeros, {"prompt_tokens": "?", "completion_tokens": "9", "prompt_tokens_details": None}):
        usage = received([delta(content="a") | {"usage": counts}, END | {"usage": odd}]).usage
        assert normalise("openai_chat", usage) == Usage(input_tokens=1000, cache_read_tokens=4000, output_tokens=9)


# Broken ones


def breaks(chunks: list[object]) -> Iterable[object]:
    yield from chunks
    raise ConnectionResetError("reset")


@pytest.mark.parametrize(
    ("chunks", "lost"),
    [
        ([], True),
        ([delta(content="half")], True),
        ([delta(tool_calls=[CALL])], True),
        ([delta("stop", content="a"), delta(content="more after the end")], True),
        ([DONE], True),
        ([{"error": {"message": "Overloaded"}}], False),
        ([{"choices": [{"error": {"message": "Overloaded", "code": 529}}]}], False),
        ([delta(content="a"), {"error": {"message": "Overloaded"}}], True),
        ([{"choices": [], "usage": {"prompt_tokens": 5}}, {"error": {"message": "Overloaded"}}], True),
    ],
)
def test_what_has_no_end_is_no_reply(chunks: list[object], lost: bool) -> None:
    for source in (chunks, breaks(chunks)):
        with pytest.raises(ProviderError) as caught:
            received(source)
        assert (caught.value.fault, caught.value.lost) == (Fault.TRANSIENT, lost)


@pytest.mark.parametrize("end", [[END], [delta("length")], [DONE]])
def test_what_breaks_behind_the_end_is_a_reply(end: list[object]) -> None:
    reply = received(breaks([delta(content="all of it"), *end]))
    assert reply.parts == (Text(text="all of it"),)


def test_a_reply_cut_at_the_output_limit_says_so() -> None:
    assert received([delta(tool_calls=[CALL]), delta("length")]).finish is FinishReason.LENGTH


def test_a_stop_is_honoured_between_chunks() -> None:
    cancel = Cancel()

    def chunks() -> Iterable[object]:
        yield delta(content="a")
        cancel.set("enough")
        yield END

    with pytest.raises(Cancelled):
        receive(chunks(), cancel, provider="p", failure=broken)


# fmt: off
MEMBERS = (
    "choices", "delta", "content", "tool_calls", "function", "function_call", "arguments", "name", "id", "index",
    "usage", "thinking_blocks", "type", "text", "provider_specific_fields", "finish_reason",
)
# fmt: on
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(odd | st.builds(lambda members: {"choices": [{"delta": members}]}, odd), max_size=5))
def test_odd_chunks_raise_nothing_but_a_provider_error(chunks: list[object]) -> None:
    try:
        received([*chunks, END])
    except ProviderError as error:
        assert not error.words.startswith("broken"), error.words


def test_the_helper_cuts_everything() -> None:
    assert "".join(pieces("grüße")) == "grüße" and len([*pieces("grüße")]) > 1
