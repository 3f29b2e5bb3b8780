"""litellm's own code paths against a provider on this machine. Importing litellm takes most of this file's time."""

from __future__ import annotations

import copy
import gc
import json
import os
import socket
import threading
import time
from typing import Any

import pytest
import sends
from loopback import Answer, Half, Hang, Loopback, Reset, Step, completion, failure
from sends import CHAT, CLAUDE, KEY, TOOL, a_request, no_proxy

from agentctl.agents.models import litellm_faults
from agentctl.agents.models.litellm_client import LitellmClient, _trees, load
from agentctl.agents.models.protocol import Fault, FinishReason, ProviderError
from agentctl.agents.models.stream import receive
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled
from agentctl.base.messages import Call, Message, Opaque, Result, Role, Text

pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning:pydantic")  # litellm's own, about its types

__all__ = ["no_proxy"]


@pytest.fixture(scope="module", autouse=True)
def before_and_after() -> tuple[dict[str, str], dict[str, str]]:
    """The environment before and after litellm was imported."""
    before = dict(os.environ)
    load()
    return before, dict(os.environ)


def failed(step: Step, name: str = CHAT, **more: Any) -> ProviderError:
    return sends.failed(("litellm", name), step, **more)


def test_importing_changes_neither_environment_nor_collector(
    before_and_after: tuple[dict[str, str], dict[str, str]],
) -> None:
    before, after = before_and_after
    assert before == after
    assert gc.isenabled()


def without_nulls(tree: Any) -> Any:
    """`tree` without members that are null: litellm leaves them out."""
    if isinstance(tree, list):
        return [without_nulls(item) for item in tree]
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    return tree


def test_what_is_sent_is_what_the_record_says(capfd: pytest.CaptureFixture[str]) -> None:
    messages = [
        Message(role=Role.SYSTEM, parts=(Text(text="You help."),)),
        Message(role=Role.USER, parts=(Text(text="grüße \U0001f378"),)),
        Message(role=Role.ASSISTANT, parts=(Call(id="c1.1", name="bash", arguments={"command": "ls"}),)),
        Message(role=Role.TOOL, parts=(Result(call_id="c1.1", parts=(Text(text="a.txt"),)),)),
    ]
    with Loopback([completion("hello", calls=[("bash", {"command": "ls"})])]) as server:
        request = a_request("openai/gpt-4o", server.url, messages=messages, temperature=0.5)
        trees = copy.deepcopy([message.tree for message in request.messages])
        reply = LitellmClient(key=KEY).send(request, Cancel())
    (received,) = server.received
    assert received.tree == without_nulls(json.loads(request.body))
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert [message.tree for message in request.messages] == trees
    assert request.tools == [TOOL]
    assert reply.parts == (Text(text="hello"),)
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
        ("call_1", "bash", {"command": "ls"})
    ]
    assert reply.finish is FinishReason.TOOL_CALLS
    assert reply.usage is not None and reply.usage["prompt_tokens"] == 100
    assert capfd.readouterr() == ("", "")


def test_the_limit_goes_out_under_the_name_that_the_model_takes() -> None:
    with Loopback([completion("hello")]) as server:
        LitellmClient(key=KEY).send(a_request("openai/gpt-5", server.url, effort="low"), Cancel())
    assert server.received[0].tree["max_completion_tokens"] == 16_384
    assert server.received[0].tree["reasoning_effort"] == "low"


def test_a_parameter_that_the_model_does_not_take_is_refused_not_dropped() -> None:
    with Loopback([completion("hello")]) as server:
        with pytest.raises(ProviderError, match="temperature") as caught:
            LitellmClient(key=KEY).send(a_request("openai/gpt-5", server.url, temperature=0.3), Cancel())
        assert server.received == []
    assert caught.value.fault is Fault.REJECTED


def told(status: int, kind: str, words: str, **headers: str) -> Answer:
    """An error as Anthropic tells it."""
    return Answer(status, {"type": "error", "error": {"type": kind, "message": words}}, headers)


def test_another_providers_form_comes_back_as_chat_and_goes_out_again() -> None:
    said = Answer(
        body={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SIGNED"},
                {"type": "text", "text": "hello"},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 2,
            },
        }
    )
    with Loopback([said, said]) as server:
        base = server.url.removesuffix("/v1")
        client = LitellmClient(key=KEY)
        reply = client.send(a_request(CLAUDE, base), Cancel())
        answered = [
            Message(role=Role.USER, parts=(Text(text="hi"),)),
            Message(
                role=Role.ASSISTANT, parts=(*reply.parts, Call(id="c1.1", name="bash", arguments={"command": "ls"}))
            ),
            Message(role=Role.TOOL, parts=(Result(call_id="c1.1", parts=(Text(text="a.txt"),)),)),
        ]
        client.send(a_request(CLAUDE, base, messages=answered), Cancel())
    assert [part.field for part in reply.parts if isinstance(part, Opaque)] == ["thinking_blocks"]
    assert (reply.calls[0].name, reply.model, reply.finish) == ("bash", "claude-x", FinishReason.TOOL_CALLS)
    assert reply.usage is not None
    assert (reply.usage["cache_creation_input_tokens"], reply.usage["cache_read_input_tokens"]) == (3, 2)
    assistant = server.received[1].tree["messages"][1]
    assert {"type": "thinking", "thinking": "hm", "signature": "SIGNED"} in assistant["content"]


@pytest.mark.parametrize(
    ("step", "fault", "lost"),
    [
        (told(529, "overloaded_error", "Overloaded"), Fault.TRANSIENT, False),
        (told(200, "overloaded_error", "Overloaded"), Fault.TRANSIENT, False),
        (
            told(400, "invalid_request_error", "prompt is too long: 207889 tokens > 200000 maximum"),
            Fault.CONTEXT,
            False,
        ),
        (told(400, "invalid_request_error", "tools.0: bad schema"), Fault.REJECTED, False),
        (told(400, "invalid_request_error", "Your credit balance is too low"), Fault.AUTH, False),
        (told(401, "authentication_error", f"invalid x-api-key {KEY}"), Fault.AUTH, False),
        (Reset(), Fault.TRANSIENT, True),
        (Hang(), Fault.TRANSIENT, True),
        (Answer(body=b"<html>hello</html>"), Fault.TRANSIENT, True),
        (Answer(502, b"<html><title>Bad gateway</title></html>"), Fault.TRANSIENT, True),
    ],
)
def test_another_providers_failures(step: Step, fault: Fault, lost: bool) -> None:
    error = failed(step, CLAUDE, timeout=0.4 if isinstance(step, Hang) else 5.0)
    assert (error.fault, error.lost) == (fault, lost), error.words


@pytest.mark.parametrize("name", ["openai/gpt-4o", CLAUDE])
def test_status_pause_and_words_are_the_providers(name: str) -> None:
    error = failed(told(429, "rate_limit_error", "slow down", **{"Retry-After": "7"}), name)
    assert (error.words, error.status, error.retry_after) == ("slow down", 429, 7.0)


@pytest.mark.parametrize(
    ("step", "lost"),
    [(Half(completion("x" * 5000)), True), (Answer(body=b"no json"), True), (failure(503, "busy"), False)],
)
def test_what_may_have_been_billed(step: Step, lost: bool) -> None:
    error = failed(step)
    assert (error.fault, error.lost) == (Fault.TRANSIENT, lost)


@pytest.mark.parametrize("name", ["openai/gpt-4o", CLAUDE])
def test_nothing_is_lost_where_nothing_was_sent(name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(ProviderError) as caught:
        LitellmClient(key=KEY).send(a_request(name, base), Cancel())
    assert (caught.value.fault, caught.value.lost) == (Fault.TRANSIENT, False)


def test_a_declined_prompt_is_a_refusal() -> None:
    body = {"error": {"message": "Invalid prompt: it was flagged", "type": "x", "code": "content_policy_violation"}}
    assert failed(Answer(400, body)).fault is Fault.REFUSED


def test_an_unknown_provider_is_rejected() -> None:
    with pytest.raises(ProviderError) as caught:
        LitellmClient(key=KEY).send(a_request("no-such-route/model", "http://127.0.0.1:1"), Cancel())
    assert caught.value.fault is Fault.REJECTED


def test_a_stop_is_honoured_while_waiting() -> None:
    cancel = Cancel()
    with Loopback([Hang()]) as server:
        threading.Timer(0.2, cancel.set, ["enough"]).start()
        began = time.monotonic()
        with pytest.raises(Cancelled, match="enough"):
            LitellmClient(key=KEY).send(a_request("openai/gpt-4o", server.url, timeout=1.0), cancel)
        assert time.monotonic() - began < 0.7


def test_what_can_not_be_read_of_a_stream_is_lost() -> None:
    with pytest.raises(ProviderError, match="switch streaming off") as caught:
        receive(_trees([object()]), Cancel(), provider="p", failure=litellm_faults.failure)
    assert caught.value.lost


@pytest.mark.parametrize("wrapper", [None, type("W", (), {"__init__": lambda self, completion_stream: None})])
def test_a_litellm_that_streams_otherwise_is_told_before_anything_is_sent(
    wrapper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load(), "CustomStreamWrapper", wrapper)
    with Loopback([completion("hello")] * 2) as server:
        with pytest.raises(ProviderError, match="stream=false") as caught:
            LitellmClient(key=KEY).send(a_request(base=server.url), Cancel())
        assert (caught.value.fault, caught.value.lost, server.received) == (Fault.REJECTED, False, [])
        assert LitellmClient(key=KEY).send(a_request(base=server.url, stream=False), Cancel()).parts
