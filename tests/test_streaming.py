"""Streamed replies through each client: put together to the letter, and never half."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from loopback import Answer, Loopback, Stream, completion
from sends import CHAT, CLAUDE, WAYS, a_request, failed, no_proxy, provider, replied
from sse import DONE, chunk, event

from agentctl.agents.models import attend
from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.protocol import Fault, FinishReason, ProviderError
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled
from agentctl.base.messages import Opaque, Text

__all__ = ["no_proxy"]
pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning:pydantic")  # litellm's own, about its types

Way = tuple[str, str]
each_way = pytest.mark.parametrize("way", WAYS, ids="-".join)
chat_ways = pytest.mark.parametrize("way", WAYS[:2], ids="-".join)

CALLS = [("bash", {"command": "ls -l | wc"}), ("bash", {"command": "echo 'grüße \U0001f378'"})]
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 80},
    "completion_tokens_details": {"reasoning_tokens": 30},
}


def claude(*content: dict[str, Any], stop: str = "end_turn") -> Answer:
    usage = {"input_tokens": 10, "output_tokens": 50, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_sequence": None}
    return Answer(body=head | {"content": list(content), "stop_reason": stop, "usage": usage})


def tool_use(n: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{n}", "name": "bash", "input": arguments}


def answer(way: Way) -> Answer:
    """Some words and two calls, in the form of the way's provider."""
    if way[1] == CHAT:
        return completion("Let me look.", calls=CALLS, usage=USAGE)
    blocks = [tool_use(n, arguments) for n, (_, arguments) in enumerate(CALLS)]
    return claude({"type": "text", "text": "Let me look."}, *blocks, stop="tool_use")


def begun(way: Way, *, usage: bool = False) -> list[bytes | float]:
    """The events of a reply that breaks off in the middle of a call."""
    if way[1] == CHAT:
        told = {"usage": {"prompt_tokens": 77, "completion_tokens": 1}} if usage else {}
        half = {"index": 0, "id": "x", "function": {"name": "bash", "arguments": '{"command": "echo'}}
        return [chunk({"content": "I will run"}, **told), chunk({"tool_calls": [half]}), 0.1]
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": None}
    half_input = {"type": "input_json_delta", "partial_json": '{"command": "echo'}
    return [
        event("message_start", message=head | {"usage": {"input_tokens": 77, "output_tokens": 1}}),
        event("content_block_start", index=0, content_block=tool_use(1, {})),
        event("content_block_delta", index=0, delta=half_input),
        0.1,
    ]


# Whole replies


@each_way
@pytest.mark.parametrize("stream", [True, False])
def test_a_streamed_reply_is_the_same_as_a_whole_one(way: Way, stream: bool) -> None:
    with provider(way, [answer(way)]) as (server, client, base):
        reply = client.send(a_request(way[1], base, stream=stream), Cancel())
    assert server.received[0].tree.get("stream", False) is stream
    assert reply.parts == (Text(text="Let me look."),)
    assert [(call.name, call.arguments) for call in reply.calls] == [
        (name, json.dumps(arguments)) for name, arguments in CALLS
    ]
    assert reply.finish is FinishReason.TOOL_CALLS
    usage = reply.usage or {}
    if way[1] == CHAT:
        assert (
            USAGE.items() <= usage.items() or {"prompt_tokens": 100, "completion_tokens": 40}.items() <= usage.items()
        )
        assert dict(usage["prompt_tokens_details"])["cached_tokens"] == 80  # type: ignore[arg-type]
        assert dict(usage["completion_tokens_details"])["reasoning_tokens"] == 30  # type: ignore[arg-type]
    else:
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (15, 50)
        assert (usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]) == (3, 2)


@chat_ways
def test_a_server_that_streams_nothing_is_read_all_the_same(way: Way) -> None:
    assert replied(way, Answer(body=completion("hello").body, whole=True)).parts == (Text(text="hello"),)


@chat_ways
@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([chunk({"content": "hello"}, "stop"), DONE], None),
        ([chunk({"content": "hello"}), chunk({}, "stop")], None),  # no [DONE]
        ([chunk({"content": "hello"}), chunk({}, "stop"), chunk(usage={"prompt_tokens": 7}), DONE], 7),
        ([chunk({"content": "hello"}, usage={"prompt_tokens": 7}), chunk({}, "stop", usage=None), DONE], 7),
        ([chunk({"content": "hello"}, "stop", usage={"prompt_tokens": 7})], 7),
        ([b": wait\n\n", chunk({"role": "assistant"}), chunk({"content": "hello"}), chunk({}, "stop"), DONE], None),
    ],
)
def test_ends_and_counts_come_in_many_ways(way: Way, events: list[bytes], usage: int | None) -> None:
    reply = replied(way, Stream(events))
    assert (reply.parts, reply.finish) == ((Text(text="hello"),), FinishReason.STOP)
    assert (reply.usage or {}).get("prompt_tokens") == usage


@chat_ways
def test_a_connection_that_breaks_behind_the_end_costs_no_reply(way: Way) -> None:
    whole = [chunk({"content": "hello"}), chunk({}, "stop", usage={"prompt_tokens": 7, "completion_tokens": 2}), 0.1]
    assert replied(way, Stream(whole, "reset")).parts == (Text(text="hello"),)


def test_a_stream_that_goes_on_after_its_end_is_left() -> None:
    with Loopback([Stream([chunk({"content": "hello"}), DONE], "hang"), completion("again")]) as server:
        client = DirectClient(server.url)
        began = time.monotonic()
        assert client.send(a_request(), Cancel()).parts == (Text(text="hello"),)
        assert time.monotonic() - began < 2.0
        assert client.send(a_request(), Cancel()).parts == (Text(text="again"),)
        assert server.left.wait(2.0)


@chat_ways
def test_a_refusal_in_pieces(way: Way) -> None:
    reply = replied(way, completion(None, refusal="I can't help with that."))
    assert (reply.refusal, reply.finish) == ("I can't help with that.", FinishReason.REFUSED)
    filtered = replied(way, completion(None, finish="content_filter"))
    assert filtered.finish is FinishReason.REFUSED


# Broken ones


@each_way
@pytest.mark.parametrize("end", ["reset", "close"])
def test_half_a_reply_is_lost_with_what_was_told_of_its_cost(way: Way, end: Any) -> None:
    error = failed(way, Stream(begun(way, usage=True), end))
    assert (error.fault, error.lost) == (Fault.TRANSIENT, True), error.words
    assert error.usage is not None and error.usage["prompt_tokens"] == 77


@each_way
def test_silence_in_the_middle_ends_the_wait_and_the_connection(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "STALL_SECONDS", 0.4)
    with provider(way, [Stream(begun(way, usage=True), "hang")]) as (server, client, base):
        began = time.monotonic()
        with pytest.raises(ProviderError, match="nothing more came within") as caught:
            client.send(a_request(way[1], base, timeout=20.0), Cancel())
        assert time.monotonic() - began < 3.0
        assert server.left.wait(2.0), "the provider still sees us waiting"
    assert (caught.value.fault, caught.value.lost) == (Fault.TRANSIENT, True)
    assert caught.value.usage is not None and caught.value.usage["prompt_tokens"] == 77


@each_way
def test_a_slow_stream_is_waited_for(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "STALL_SECONDS", 0.5)
    events: list[bytes | float] = []
    for piece in answer(way).as_asked({"stream": True}).body.split(b"\n\n")[:-1]:
        events += [piece + b"\n\n", 0.05]
    assert len(replied(way, Stream(events)).calls) == 2


@each_way
def test_a_stop_closes_the_stream(way: Way) -> None:
    cancel = Cancel()
    with provider(way, [Stream(begun(way), "hang")]) as (server, client, base):
        threading.Timer(0.5, cancel.set, ["enough"]).start()
        began = time.monotonic()
        with pytest.raises(Cancelled, match="enough"):
            client.send(a_request(way[1], base), cancel)
        assert time.monotonic() - began < 1.2
        assert server.left.wait(2.0), "the provider still sees us waiting"


OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}


def trouble(way: Way) -> bytes:
    return chunk(error={"message": "Overloaded", "code": 529}) if way[1] == CHAT else event("error", error=OVERLOADED)


@each_way
def test_an_error_in_place_of_a_reply_is_not_billed(way: Way) -> None:
    error = failed(way, Stream([trouble(way)]))
    assert (error.fault, error.lost) == (Fault.TRANSIENT, False), error.words
    assert "Overloaded" in error.words


@each_way
def test_an_error_in_the_middle_of_a_reply_may_be(way: Way) -> None:
    error = failed(way, Stream([*begun(way), trouble(way)]))
    assert (error.fault, error.lost) == (Fault.TRANSIENT, True), error.words
    assert "Overloaded" in error.words


@each_way
def test_an_event_that_can_not_be_read_spoils_the_reply(way: Way) -> None:
    bad = b"data: {not json\n\n" if way[1] == CHAT else b"event: content_block_delta\ndata: {not json\n\n"
    error = failed(way, Stream([*begun(way), bad, bad]))
    assert (error.fault, error.lost) == (Fault.TRANSIENT, True), error.words


@each_way
@pytest.mark.parametrize("body", [{"error": OVERLOADED, "type": "error"}, {"error": {"message": "Overloaded"}}])
def test_an_error_told_without_a_stream_under_200(way: Way, body: dict[str, Any]) -> None:
    error = failed(way, Answer(body=body))
    assert (error.fault, error.lost) == (Fault.TRANSIENT, False), error.words


# Thinking


def test_thinking_comes_back_with_its_signature() -> None:
    blocks = [
        {"type": "thinking", "thinking": "first this, then that", "signature": "SIGNED"},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "thinking", "thinking": "and more", "signature": "AGAIN"},
    ]
    for stream in (True, False):
        reply = replied(("litellm", CLAUDE), claude(*blocks, {"type": "text", "text": "done"}), stream=stream)
        assert [part.data for part in reply.parts if isinstance(part, Opaque)] == [blocks]
        assert reply.parts[-1] == Text(text="done")


@chat_ways
@pytest.mark.parametrize(
    ("member", "data"),
    [
        ("reasoning_content", "because of this and that"),
        (
            "reasoning_details",
            [
                {"type": "reasoning.text", "text": "because", "signature": "S", "index": 0},
                {"type": "reasoning.encrypted", "data": "x==", "index": 1},
            ],
        ),
    ],
)
def test_reasoning_in_a_members_own_name_is_kept(way: Way, member: str, data: Any) -> None:
    reply = replied(way, completion("done", **{member: data}))
    assert [(part.field, part.data) for part in reply.parts if isinstance(part, Opaque)] == [(member, data)]
