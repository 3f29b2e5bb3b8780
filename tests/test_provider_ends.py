"""How a whole run ends that a provider refuses or finds too long: the cases through client, gateway and loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent import ScriptedModel, Stage, check_pairs
from case_fields import ends_of, fields_of
from gateway_bench import price
from history_bench import step
from loopback import Loopback, step_of

from agentctl.agents.ends import End
from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.protocol import RawReply, WireRequest
from agentctl.agents.scaffold import load_scaffold
from agentctl.base.cancel import Cancel

KINDS = ("context-overflow-recognised", "refusal")


class Served(ScriptedModel):
    """A model behind an endpoint."""

    def __init__(self, client: DirectClient) -> None:
        super().__init__(())
        self._client = client

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.requests.append([message.tree for message in request.messages])
        return self._client.send(request, cancel)

    def close(self) -> None:
        self._client.close()


@pytest.mark.cases("provider", only=lambda case: case["kind"] in KINDS)
def test_provider_case(case: dict[str, Any], tmp_path: Path) -> None:
    given, exact = fields_of(case)
    stage = Stage(tmp_path, price=price(input="0.000001", output="0.000002"))
    if "history" in given:
        assert given["history"] == "long"
        stage.scaffold = load_scaffold("plain").model_copy(update={"history": "condense"})
        stage.earlier = [step(n, calls=2, characters=3_000) for n in range(1, 21)]
    with Loopback([step_of(entry) for entry in given["script"]]) as server:
        play = stage.play([], model=Served(DirectClient(server.url)))
    calls = len(server.received)
    assert calls == exact.get("calls", calls)
    assert calls <= exact.get("max_calls", calls)
    assert play.ending.end in ends_of(exact["task_status"])
    assert exact.get("grid_continues", True) is (play.ending.end is not End.CRASH)
    assert exact.get("crash", False) is (play.ending.end is End.CRASH)
    if "cost_gt" in exact:
        assert stage.purse.spent > exact["cost_gt"]
    if exact.get("second_request_smaller"):
        assert len(server.received[1].body) < len(server.received[0].body)
    given.done()
    exact.done()


@pytest.mark.cases("provider", only=lambda case: case["kind"] == "mixed-roles")
def test_notes_part_no_call_from_its_result(case: dict[str, Any], tmp_path: Path) -> None:
    """The loop's own note, that the same calls gave the same answers, comes while calls are being answered."""
    given, exact = fields_of(case)
    assert "between" in given["history_has"], f"can't map {given['history_has']!r}"
    assert given["action"] == "next request" and "every call id" in exact["invariant"]
    calls = [
        {"id": f"x{n}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "true"}'}}
        for n in range(2)
    ]
    asks = {"message": {"role": "assistant", "content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    done = {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}
    play = Stage(tmp_path).play([asks] * 4 + [done])
    assert any("same call" in str(message["content"]) for message in play.conversation)
    for request in [*play.model.requests, play.conversation]:
        check_pairs(request)
    given.done()
    exact.done()
