"""Cache markers: where they stand, what they cost, and that the record's requests stay the same to the byte."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent import ScriptedModel, Stage
from gateway_bench import QUESTION, Scripted, bench, message, price, reply
from loopback import Answer
from sends import CHAT, CLAUDE, CLAUDE_BY_LITELLM, a_request, no_proxy, provider

from agentctl.agents.models.cache import marked, markers_of
from agentctl.agents.models.protocol import ModelClient, ModelSpec, RawReply, WireRequest
from agentctl.agents.pricing import CacheMarkers
from agentctl.base.cancel import Cancel
from agentctl.base.jsonio import digest
from agentctl.base.messages import Call, ImageRef, Message, Result, Role, Text

__all__ = ["no_proxy"]
pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning:pydantic")  # litellm's own, about its types


@pytest.mark.parametrize(
    ("roles", "places"),
    [
        ("su", (0, 1)),
        ("suat", (0, 1, 3)),
        ("suatt", (0, 1, 4)),
        ("suattuatt", (0, 1, 5, 8)),
        ("suatatuat", (0, 1, 6, 8)),
        ("susu", (0, 1)),
        ("susuau", (0, 1, 3, 5)),
        ("u", (0,)),
        ("uau", (0, 2)),
        ("", ()),
    ],
)
def test_markers_stand_behind_what_is_sent_again(roles: str, places: tuple[int, ...]) -> None:
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    assert marked([message(n, role=names[role]) for n, role in enumerate(roles, 1)]) == places


@pytest.mark.parametrize(
    ("model", "markers"),
    [
        ({"name": CLAUDE}, CacheMarkers.FIVE_MINUTES),
        ({"name": CLAUDE, "cache": "1h"}, CacheMarkers.ONE_HOUR),
        ({"name": CLAUDE, "cache": "off"}, CacheMarkers.NONE),
        ({"name": CLAUDE, "api_base": "http://localhost/v1"}, CacheMarkers.NONE),  # OpenAI's form has no word for it
        ({"name": CLAUDE, "api_base": "http://localhost", "client": "litellm"}, CacheMarkers.FIVE_MINUTES),
        ({"name": "claude-sonnet-4-5"}, CacheMarkers.FIVE_MINUTES),
        ({"name": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"}, CacheMarkers.FIVE_MINUTES),
        ({"name": "vertex_ai/claude-sonnet-4-5@20250929"}, CacheMarkers.FIVE_MINUTES),
        ({"name": CHAT}, CacheMarkers.NONE),
        ({"name": "bedrock/amazon.nova-pro-v1:0"}, CacheMarkers.NONE),
    ],
)
def test_providers_that_want_markers_get_them(model: dict[str, Any], markers: CacheMarkers) -> None:
    assert markers_of(ModelSpec.model_validate(model)) is markers


SAID = Answer(
    body={
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "true"}}],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 5},
    }
)


def markers_in(tree: Any) -> list[Any]:
    """All markers in a request, in order."""
    if isinstance(tree, dict):
        own = [tree["cache_control"]] if tree.get("cache_control") else []
        return own + [found for value in tree.values() for found in markers_in(value)]
    return [found for item in tree for found in markers_in(item)] if isinstance(tree, list) else []


@pytest.mark.parametrize(
    ("cache", "marker"), [("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})]
)
def test_markers_go_out_in_the_providers_form_whatever_the_message(cache: str, marker: dict[str, str]) -> None:
    image = ImageRef(digest="0" * 64, media_type="image/png", width=1, height=1)
    messages = [
        Message(role=Role.SYSTEM, parts=(Text(text="You help."),)),
        Message(role=Role.USER, parts=(Text(text="Do it."),)),
        Message(role=Role.ASSISTANT, parts=(Call(id="c1.1", name="bash", arguments={}),)),
        Message(role=Role.TOOL, parts=(Result(call_id="c1.1", parts=(Text(text="a.txt"),)),)),
        Message(role=Role.USER, parts=(Text(text="Look."), image)),
    ]
    with provider(CLAUDE_BY_LITELLM, [SAID]) as (server, client, base):
        request = a_request(CLAUDE, base, messages=messages, marked=(0, 1, 3, 4), cache=cache)
        client.send(request, Cancel())
        assert markers_in([message.tree for message in request.messages]) == []
    sent = server.received[0].tree
    assert sent["system"][-1]["cache_control"] == marker
    first, _, last = sent["messages"]
    assert first["content"][-1]["cache_control"] == marker
    assert [block["type"] for block in last["content"] if block.get("cache_control")] == ["tool_result", "image"]
    assert markers_in(sent) == [marker] * 4


class Sent(ScriptedModel):
    """A model behind a client, and what the client was handed."""

    def __init__(self, client: ModelClient) -> None:
        super().__init__(())
        self._client = client
        self.handed: list[WireRequest] = []

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.handed.append(request)
        self.requests.append([])
        return self._client.send(request, cancel)

    @property
    def at_its_end(self) -> bool:
        return len(self.handed) > 4


def test_a_whole_run_reads_what_it_wrote_and_its_record_holds_no_marker(tmp_path: Path) -> None:
    done = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
    with provider(CLAUDE_BY_LITELLM, [SAID] * 4 + [Answer(body=SAID.body | done)]) as (server, client, base):
        spec = ModelSpec(name=CLAUDE, api_base=base, client="litellm")
        model = Sent(client)
        play = Stage(tmp_path, spec=spec, markers=markers_of(spec)).play([], model=model)
    trees = [received.tree for received in server.received]
    assert [len(markers_in(tree)) for tree in trees] == [2, 3, 4, 4, 4]
    for before, after in pairwise(trees):
        # The last marker of each request stands where the next one has one again, behind the same beginning.
        end = len(before["messages"])
        assert markers_in(before["messages"][-1]) and markers_in(after["messages"][end - 1])
        assert without_markers(after["messages"][:end]) == without_markers(before["messages"])
    sent = play.reader.requests
    assert [sent[n].digest for n in sorted(sent)] == [digest(request.body) for request in model.handed]
    assert not any(b"cache_control" in request.body for request in model.handed)


def without_markers(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_markers(value) for key, value in tree.items() if key != "cache_control"}
    return [without_markers(item) for item in tree] if isinstance(tree, list) else tree


def test_the_worst_case_counts_writes_where_markers_ask_for_them_and_no_helper_has_any() -> None:
    pricing = price(input="0.000003", output="0", cache_write_5m="0.00000375", cache_write_1h="0.000006")
    pricing = pricing.model_copy(update={"writes_unasked": False})
    bounds = {}
    for markers in CacheMarkers:
        made = bench(client=Scripted([reply(), reply()]), pricing=pricing, markers=markers)
        bounds[markers] = made.ask().bound
        assert made.ask("vision").bound == bounds[CacheMarkers.NONE]
        asked, helper = made.client.received
        assert asked.marked == (() if markers is CacheMarkers.NONE else marked(QUESTION))
        assert helper.marked == ()
    assert bounds[CacheMarkers.FIVE_MINUTES] == bounds[CacheMarkers.NONE] * 375 / 300
    assert bounds[CacheMarkers.ONE_HOUR] == bounds[CacheMarkers.NONE] * 2
