"""Finishing in an attempt: said in words, and with the faults of the original that need all of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from agent import Played, Stage
from attempts import ANSWERS, CAPSULE, FINISH, Provider, Turn, bash, check_books, report, spec
from gateway_bench import reply

from agentctl.agents.ends import End
from agentctl.agents.models.protocol import ModelSpec, RawReply, WireRequest
from agentctl.agents.models.route import Route
from agentctl.agents.pricing import Free
from agentctl.agents.scaffold import load_scaffold
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.benchmarks.corebench.task import ReportDeliverable
from agentctl.benchmarks.runner import Outcome, run

QUESTIONS = ("Report the number of sheep.", "fig Report the label on the y axis.")
RIGHT = {QUESTIONS[0]: 412, QUESTIONS[1]: "sheep"}


def words(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}


class Answers:
    """A fast model that gives these answers."""

    kind = "script"

    def __init__(self, *answers: str) -> None:
        self.left = list(answers)

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        return reply(self.left.pop(0))

    def close(self) -> None:
        pass


def saying(folder: Path, answers: object, *said: str, fast: Sequence[str] = (), **changes: Any) -> Played:
    """An agent that writes a report and then says so, in words alone."""
    report = folder / "workspace" / "report.json"
    writing = calling("write_file", path=str(report), content=json.dumps(answers))
    price = Free(name="m")
    return Stage(
        folder,
        scaffold=load_scaffold("plain").model_copy(update=changes),
        helpers={"fast": Route(ModelSpec(name="fast"), Answers(*fast), price)},
        deliverable=lambda sandbox: ReportDeliverable(sandbox, QUESTIONS),
    ).play([writing, *map(words, said)])


class TestSaidInWords:
    @pytest.mark.parametrize("checks", [("report",), ("keys",), ("keys", "giving-up")])
    def test_as_good_as_the_tool_where_the_checks_let_it(self, tmp_path: Path, checks: tuple[str, ...]) -> None:
        played = saying(tmp_path, RIGHT, "All is done.", fast=["NO"], checks=checks)
        assert played.ending.end is End.FINISHED
        assert "in words" in played.ending.detail

    def test_without_checks_words_are_no_end(self, tmp_path: Path) -> None:
        played = saying(tmp_path, RIGHT, *["All is done."] * 3, checks=())
        assert played.ending.end is End.FORMAT

    def test_a_check_that_refuses_is_told(self, tmp_path: Path) -> None:
        played = saying(tmp_path, RIGHT, "Done.", "Done.", "Done.", fast=["YES"], checks=("report", "giving-up"))
        assert played.ending.end is End.FORMAT
        assert "amounts to giving up" in played.state.steps[1].notes[0]
        assert "holds no tool call" in played.state.steps[1].notes[1]

    def test_warnings_are_told_once_here_too(self, tmp_path: Path) -> None:
        played = saying(tmp_path, {**RIGHT, "more": 1}, "Done.", "It is as I mean it.")
        assert "Look once more" in played.state.steps[1].notes[0]
        assert played.ending.end is End.FINISHED

    def test_what_is_said_on_the_way_deletes_nothing(self, tmp_path: Path) -> None:
        changes = {"checks": ("keys",), "faults": ("delete-report",)}
        played = saying(tmp_path, {**RIGHT, "more": 1}, "I look once more.", "And again.", "And again.", **changes)
        assert played.ending.end is End.FORMAT
        assert (tmp_path / "workspace" / "report.json").exists()
        assert "deleted" not in str(played.state.steps)


def attempt(folder: Path, turns: Sequence[Turn], cap: str = "4", **changes: Any) -> Outcome:
    """A whole attempt at the example capsule, under the plain scaffold with `changes`."""
    with Provider(turns) as provider:
        plain = load_scaffold("plain").model_copy(update=changes)
        made = spec(folder / "record", provider.url, cap=cap).model_copy(update={"scaffold": plain})
        outcome = run(made, environment={**os.environ, "OPENAI_API_KEY": "word"})
        check_books(outcome.record, provider, Decimal(cap))
    return outcome


def in_capsule(answers: object) -> Turn:
    return "write_file", {"path": f"/workspace/{CAPSULE}/report.json", "content": json.dumps(answers)}


def test_a_report_in_the_capsule_counts_with_that_fault(tmp_path: Path) -> None:
    faults = ("delete-report", "report-in-capsule")
    turns = [in_capsule({"a": 1}), FINISH, FINISH, in_capsule(ANSWERS), FINISH]
    outcome = attempt(tmp_path, turns, checks=("keys",), faults=faults)
    assert (outcome.result.end, outcome.result.steps) == (End.FINISHED, 5)
    assert outcome.scores[0].solved


def test_and_without_it_does_not(tmp_path: Path) -> None:
    turns = [in_capsule(ANSWERS), FINISH, report({"a": 1}), FINISH, report(), FINISH]
    outcome = attempt(tmp_path, turns, checks=("keys",))
    assert (outcome.result.end, outcome.result.steps) == (End.FINISHED, 6)
    assert outcome.scores[0].solved


def test_the_right_place_comes_first_with_it_too(tmp_path: Path) -> None:
    turns = [in_capsule(ANSWERS), report({"a": 1}), FINISH]
    outcome = attempt(tmp_path, turns, checks=("keys",), faults=("report-in-capsule",))
    assert outcome.result.end is End.FINISHED
    assert not outcome.scores[0].solved


def test_an_overshoot_ends_as_cost_and_what_stands_is_scored(tmp_path: Path) -> None:
    turns = [report(), *[bash(f"echo {n}") for n in range(30)]]
    outcome = attempt(tmp_path, turns, faults=("overshoot",), budget_usd=Decimal("0.1"))
    assert outcome.result.end is End.COST and not outcome.result.infrastructure
    assert Decimal("0.1") < outcome.result.spend.books.spent < Decimal("0.2")
    assert outcome.scores[0].solved


def test_a_cap_without_room_for_it_is_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--cap"):
        attempt(tmp_path, [], cap="4", faults=("overshoot",), budget_usd=Decimal(4))
    assert list(tmp_path.iterdir()) == []
