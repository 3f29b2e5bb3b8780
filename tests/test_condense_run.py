"""Whole attempts whose history is condensed: what the record holds, what it costs, and that it plays again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from agent import Stage, check_pairs
from attempts import FINISH, PRICE_IN, PRICE_OUT, Provider, Turn, bash, report, spec
from context_cases import Flood, Talker, said
from history_bench import prose, tokens
from loopback import Answer, Received, Step, completion

from agentctl.agents.ends import End
from agentctl.agents.events import Condensed, GivenAgain, Requested
from agentctl.agents.manifest import read_result
from agentctl.agents.models.protocol import RawReply, WireRequest
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.reading import RecordReader
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import AttemptSpec
from agentctl.base.cancel import Cancel
from agentctl.benchmarks.replay import play_again
from agentctl.benchmarks.resume import resumed
from agentctl.benchmarks.runner import run

TURNS: list[Turn] = [*[bash(f"seq {n}000 {n}250") for n in range(1, 25)], report(), FINISH]


class Summing(Provider):
    """Gives the turn that follows the newest step in the request, and a summary where that is asked for."""

    def _take(self, received: Received) -> Step:
        messages = received.tree["messages"]
        usage = {"prompt_tokens": len(received.body) // 3, "completion_tokens": 40}
        usage["total_tokens"] = sum(usage.values())
        with self._lock:
            self.received.append(received)
            self.billed += usage["prompt_tokens"] * PRICE_IN + usage["completion_tokens"] * PRICE_OUT
        said = [found for each in messages if (found := re.match(r"Step (\d+)\.", str(each["content"])))]
        done = int(said[-1][1]) if said else 0
        if asks_for_summary(received):
            return completion(f"Numbers were counted up to step {done}.", usage=usage)
        text = f"Step {done + 1}."
        return Answer(body=completion(text, calls=[self._turns[done]], usage=usage).body)


def asks_for_summary(received: Received) -> bool:
    return "Call no tool" in str(received.tree["messages"][-1]["content"])


def condensing(record: Path, url: str) -> AttemptSpec:
    made = spec(record, url, output_limit=2_000)
    return made.model_copy(
        update={
            "scaffold": made.scaffold.model_copy(update={"history": "condense"}),
            "model": made.model.model_copy(update={"context_window": 16_000}),
        }
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summing]:
    """A whole attempt, and what its provider was asked."""
    record = tmp_path_factory.mktemp("condensed") / "a"
    with Summing(TURNS) as provider:
        run(condensing(record, provider.url), environment=os.environ)
    return record, provider


def test_summaries_are_paid_from_the_same_purse_and_every_request_can_be_built_again(
    recorded: tuple[Path, Summing],
) -> None:
    record, provider = recorded
    result = read_result(record)
    assert result and result.end == "finished"
    reader = RecordReader(record)
    summaries = [request for request in reader.requests.values() if request.role == "summary"]
    assert len(summaries) >= 2
    assert sum(map(asks_for_summary, provider.received)) == len(summaries)
    assert result.spend.books.by_role["summary"].calls == len(summaries)
    assert result.spend.books.spent == provider.billed
    for n, received in zip(sorted(reader.requests), provider.received, strict=True):
        rebuilt = reader.rebuild(n)
        assert rebuilt.same and rebuilt.body == received.body
        assert len(received.body) // 3 <= 16_000
    done = [event for event in reader.events if isinstance(event, Condensed)]
    assert len(done) == len(summaries)


def test_it_plays_again_with_its_summaries(recorded: tuple[Path, Summing], tmp_path: Path) -> None:
    record, _ = recorded
    played = play_again(record, tmp_path / "again", environment=os.environ)
    assert not played.differences
    before, after = RecordReader(record), RecordReader(tmp_path / "again")
    assert [request.role for request in after.requests.values()] == [each.role for each in before.requests.values()]
    assert [each.messages for each in after.requests.values()] == [each.messages for each in before.requests.values()]


def test_it_goes_on_from_a_kill_with_the_summaries_it_had(recorded: tuple[Path, Summing], tmp_path: Path) -> None:
    record, first = recorded
    lines = (record / "events.jsonl").read_bytes().splitlines(keepends=True)
    events = RecordReader(record).events
    asked = [n for n, event in enumerate(events) if isinstance(event, Requested) and event.sent.role == "summary"]
    last = asked[-1]
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "events.jsonl").write_bytes(b"".join(lines[: last - 3]))
    had = sum(isinstance(event, Condensed) for event in events[: last - 3])
    with Summing(TURNS) as provider:
        manifest = (record / "manifest.json").read_text(encoding="utf-8").replace(first.url, provider.url)
        (cut / "manifest.json").write_text(manifest, encoding="utf-8")
        outcome = run(resumed(cut, tmp_path / "b"), environment=os.environ)
    assert outcome.result.end == "finished"
    again = RecordReader(tmp_path / "b")
    assert had and sum(isinstance(event, GivenAgain) and event.role == "summary" for event in again.events) == had
    whole = [event for event in events if isinstance(event, Condensed)]
    assert [(each.first, each.last) for each in again.events if isinstance(each, Condensed)] == [
        (each.first, each.last) for each in whole
    ]
    assert sum(map(asks_for_summary, provider.received)) == len(whole) - had


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_in_any_protocol_a_run_goes_on_behind_its_summaries(protocol: str, tmp_path: Path) -> None:
    scaffold = load_scaffold("plain").model_copy(update={"protocol": protocol, "history": "condense"})
    model = Wordy(40, 1, lambda request: "Floods came.", protocol)
    stage = Stage(tmp_path, scaffold=scaffold, window=12_000, extra_tools=[Flood(2_000)])
    played = stage.play([], model=model)
    assert played.ending.end is End.FINISHED, played.ending
    assert "summary" in model.roles and len(played.state.steps) >= 30
    for request in model.sent:
        messages = [message.tree for message in request.messages]
        check_pairs(messages)
        assert messages[:2] == [message.tree for message in model.sent[0].messages[:2]]
        assert tokens(messages) < 12_000


class Wordy(Talker):
    """Writes its calls as the protocol wants them."""

    def __init__(self, turns: int, calls: int, summary: Callable[[WireRequest], str], protocol: str) -> None:
        super().__init__(turns, calls, summary)
        self._form = {
            "plain": '```json\n{"name": "flood", "arguments": {}}\n```',
            "thoughts": '{"thoughts": {"thought": "Go on."}, "use_tool": {"name": "flood", "arguments": {}}}',
        }.get(protocol)
        self._end = '{"thoughts": {}, "use_tool": {"name": "finish", "arguments": {"summary": "done"}}}'
        if protocol != "thoughts":
            self._end = "done"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        reply = super().send(request, cancel)
        if request.role == "summary" or self._form is None:
            return reply
        return said(self._end if self.at_its_end else self._form)


def test_a_task_that_fills_the_window_ends_the_run_clearly(tmp_path: Path) -> None:
    scaffold = load_scaffold("plain").model_copy(update={"history": "condense"})
    prompt = ("You are tested.", prose(40_000, 1))
    stage = Stage(tmp_path, scaffold=scaffold, window=8_000, prompt=prompt, extra_tools=[Flood(100)])
    played = stage.play([], model=Talker(5, 1, lambda request: ""))
    assert played.ending.end is End.CONTEXT
    assert "too many for a window of 8,000" in played.ending.detail
