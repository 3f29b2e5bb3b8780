"""A reply that breaks off in a stream, through client, gateway and loop: never run, tried again, on the books."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from agent import Played, ScriptedModel, Stage, check_pairs
from case_fields import fields_of
from gateway_bench import price
from loopback import Answer, Step, Stream, completion
from sends import CHAT, WAYS, no_proxy, provider
from sse import chunk, event

from agentctl.agents.ends import End
from agentctl.agents.events import Failed, Ran, Replied
from agentctl.agents.models.protocol import ModelClient, ModelSpec, RawReply, WireRequest
from agentctl.base.cancel import Cancel

__all__ = ["no_proxy"]
pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning:pydantic")  # litellm's own, about its types

Way = tuple[str, str]


class Sent(ScriptedModel):
    """A model behind a client."""

    def __init__(self, client: ModelClient) -> None:
        super().__init__(())
        self._client = client

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.requests.append([message.tree for message in request.messages])
        return self._client.send(request, cancel)


class Chat:
    """Events in OpenAI's form."""

    def text(self, words: str) -> bytes:
        return chunk({"content": words})

    def call(self, arguments: str) -> bytes:
        call = {"index": 0, "id": "x", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        return chunk({"tool_calls": [call]})

    def begin(self, usage: bool) -> list[bytes]:
        return [chunk({"role": "assistant"}, usage={"prompt_tokens": 77, "completion_tokens": 3} if usage else None)]

    def whole(self, command: str) -> Answer:
        return completion(None, calls=[("bash", {"command": command})])

    def done(self) -> Answer:
        return completion("done")


class Claude(Chat):
    """Events in Anthropic's form, which tells at the start what the prompt had."""

    def text(self, words: str) -> bytes:
        begin = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        return begin + event("content_block_delta", index=0, delta={"type": "text_delta", "text": words})

    def call(self, arguments: str) -> bytes:
        block = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
        return event("content_block_start", index=1, content_block=block) + event(
            "content_block_delta", index=1, delta=delta
        )

    def begin(self, usage: bool) -> list[bytes]:
        return [event("message_start", message=self._message([], {"input_tokens": 77, "output_tokens": 3}))]

    def whole(self, command: str) -> Answer:
        call = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": command}}
        return self._answer(call, "tool_use")

    def done(self) -> Answer:
        return self._answer({"type": "text", "text": "done"}, "end_turn")

    def _answer(self, block: dict[str, Any], stop: str) -> Answer:
        message = self._message([block], {"input_tokens": 100, "output_tokens": 10})
        return Answer(body=message | {"stop_reason": stop})

    def _message(self, content: list[Any], usage: dict[str, int]) -> dict[str, Any]:
        return {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": content, "usage": usage}


def form_of(way: Way) -> Chat:
    return Chat() if way[1] == CHAT else Claude()


def broken(entries: list[str], form: Chat, *, usage: bool) -> Stream:
    """A case's stream as events and an end."""
    events: list[bytes | float] = [*form.begin(usage)]
    makers: dict[str, Callable[[str], bytes]] = {"text": form.text, "tool call delta": form.call}
    ends = {"<connection reset>": "reset", "<connection closed>": "close"}
    for entry in entries[:-1]:
        found = re.fullmatch(r"(text|tool call delta) '(.*)'", entry, re.DOTALL)
        if found is None:
            pytest.fail(f"this test can't map the stream entry {entry!r}")
        events.append(makers[found[1]](found[2]))
    if entries[-1] not in ends:
        pytest.fail(f"this test can't map the stream's end {entries[-1]!r}")
    return Stream([*events, 0.1], ends[entries[-1]])  # type: ignore[arg-type]


def played(way: Way, steps: list[Step], folder: Path, **more: Any) -> tuple[Played, Stage]:
    with provider(way, steps) as (server, client, base):
        spec = ModelSpec(name=way[1], api_base=base, client="litellm" if way[0] == "litellm" else "direct")
        stage = Stage(folder, price=price(input="0.000001", output="0.000002"), spec=spec, **more)
        play = stage.play([], model=Sent(client))
        assert len(server.received) == len(steps)
    return play, stage


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.cases("provider", only=lambda case: case["kind"] == "broken-stream")
def test_provider_case(case: dict[str, Any], way: Way, tmp_path: Path) -> None:
    given, exact = fields_of(case)
    command = re.fullmatch(r"complete answer with call (.*)", given["then"])
    assert command, f"this test can't map {given['then']!r}"
    form = form_of(way)
    steps = [broken(given["stream"], form, usage=False), form.whole(command[1]), form.done()]
    play, stage = played(way, steps, tmp_path)
    assert [arguments["command"] for _, arguments in play.ran] == exact["executed"]
    events = play.reader.events
    ran = next(n for n, event in enumerate(events) if isinstance(event, Ran))
    billed = [event for event in events[:ran] if isinstance(event, Replied | Failed)]
    assert len(billed) == exact["attempts_billed"]
    assert all(event.failed.lost for event in billed if isinstance(event, Failed))
    assert stage.purse.uncertain > 0
    assert play.ending.end is End.FINISHED
    check_pairs(play.conversation)
    given.done()
    exact.done()


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_what_was_reported_of_a_broken_reply_is_spent_and_the_rest_uncertain(way: Way, tmp_path: Path) -> None:
    form = form_of(way)
    stream = broken(['tool call delta \'{"command": "rm -r\'', "<connection reset>"], form, usage=True)
    play, stage = played(way, [stream, form.done()], tmp_path)
    (failure,) = [event.failed for event in play.reader.events if isinstance(event, Failed)]
    bound = play.reader.requests[1].bound
    assert failure.usage is not None and failure.usage.prompt_tokens == 77
    assert failure.cost == Decimal("0.000077") + 3 * Decimal("0.000002")
    assert stage.purse.uncertain == bound - failure.cost
    assert stage.purse.spent == failure.cost + Decimal("0.00012")
    books = play.reader.books()
    assert (books.spent, books.uncertain) == (stage.purse.spent, stage.purse.uncertain)
    assert play.ran == []
