"""What an agent is told of its budget, what is kept for its report, and the budget that is tested too late."""

from __future__ import annotations

import re
from decimal import Decimal as D
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent import Played, Stage
from figure_reader import CLOSE, KEPT, Reading, Sees, looking
from gateway_bench import bench, fee, price
from no_deliverable import NoDeliverable

from agentctl.agents.asking import Resumed
from agentctl.agents.budget import CLOSING_CALLS, Budget, check_budget
from agentctl.agents.ends import End
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.models.route import Route
from agentctl.agents.pricing import Free, Pricing
from agentctl.agents.purse import Purse
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.spec import Limits
from agentctl.agents.state import State, Step
from agentctl.base.errors import InputError
from agentctl.base.messages import Call, Message, Role

FREE = Free(name="m")
GPT = price(input="0.0000025", output="0.00001")


def echo(n: int) -> dict[str, Any]:
    call = {"id": f"a{n}", "type": "function", "function": {"name": "bash", "arguments": f'{{"command": "echo {n}"}}'}}
    return {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}


DONE = {"message": {"role": "assistant", "content": "I am done."}, "finish_reason": "stop"}


def notes_of(played: Played) -> dict[int, str]:
    return {step.index: "\n".join(step.notes) for step in played.state.steps if step.notes}


def work(folder: Path, steps: int, **stage: Any) -> Played:
    """An agent that runs so many commands, and is done."""
    notes = load_scaffold("plain").model_copy(update={"budget_notes": True})
    return Stage(folder, **{"scaffold": notes, "price": fee("0.1")} | stage).play([*map(echo, range(steps)), DONE])


def test_told_at_marks_of_money_and_when_to_close(tmp_path: Path) -> None:
    played = work(tmp_path, 36)
    notes = notes_of(played)
    marked = {
        index: re.findall(r"(half|three quarters|nine tenths) of the money", text) for index, text in notes.items()
    }
    assert {index: told for index, told in marked.items() if told} == {
        20: ["half"],
        30: ["three quarters"],
        36: ["nine tenths"],
    }
    assert "$2 of $4 ($0.3 of it kept for the report), 180 of 200 steps" in notes[20]
    # three calls at $0.1 are kept, and after step 36 another one leaves as much
    assert not any(CLOSE in text for text in notes.values())


def test_told_to_close_once(tmp_path: Path) -> None:
    notes = notes_of(work(tmp_path, 38))
    assert [index for index, text in notes.items() if CLOSE in text] == [37]
    assert "write nothing now" in notes[37] and "Call finish when you are done." in notes[37]


def test_what_was_sent_is_never_rewritten(tmp_path: Path) -> None:
    requests = work(tmp_path, 38).model.requests
    for before, after in pairwise(requests):
        assert after[: len(before)] == before


def test_off_tells_nothing_and_asks_the_same(tmp_path: Path) -> None:
    """Also the switch itself changes nothing before the first mark."""
    off = work(tmp_path / "off", 8, scaffold=load_scaffold("plain"))
    on = work(tmp_path / "on", 8)
    assert not notes_of(off)
    assert strip(off, tmp_path / "off") == strip(on, tmp_path / "on")


def strip(played: Played, folder: Path) -> list[str]:
    text = [str(request).replace(str(folder), "") for request in played.model.requests]
    return [re.sub(r"\d+\.\d+ s\]", "s]", each) for each in text]


def test_steps_and_time_without_a_price(tmp_path: Path) -> None:
    notes = notes_of(work(tmp_path, 39, price=FREE, limits=Limits(steps=40, seconds=7200)))
    text = "\n".join(notes.values())
    assert "$" not in text and "money" not in text and "half of the time" not in text
    assert "half of the steps" in notes[20] and "20 of 40 steps. Time elapsed: 0 s of 7200 s." in notes[20]
    assert "nine tenths of the steps" in notes[36]
    assert [index for index, told in notes.items() if "of the steps is little more" in told] == [37]


def test_time(tmp_path: Path) -> None:
    clock = iter(range(0, 10_000, 40))
    played = work(tmp_path, 100, price=FREE, work_seconds=lambda: float(next(clock)))
    text = "\n".join(notes_of(played).values())
    assert played.ending.end is End.TIME
    for mark in ("half of", "three quarters of", "nine tenths of", "What is left of"):
        assert text.count(f"{mark} the time") == 1


def test_several_marks_at_once_are_one_note(tmp_path: Path) -> None:
    played = work(tmp_path, 2, price=fee("1.6"), limits=Limits(steps=4))
    assert "Used: three quarters of the money and half of the steps." in notes_of(played)[2]


def test_money_that_may_be_gone_is_gone(tmp_path: Path) -> None:
    """An answer was lost: what it may have cost is not counted as left, and the agent is told so."""
    scaffold = load_scaffold("plain").model_copy(update={"budget_notes": True})
    purse = Purse(D(4), carried_spent=D("1.5"), carried_uncertain=D("0.75"))
    stage = Stage(tmp_path, scaffold=scaffold, price=fee("0.1"), purse=purse)
    played = stage.play([echo(1), DONE])
    assert "half of the money" in notes_of(played)[1]
    assert "$1.65 of $4" in notes_of(played)[1]
    assert "$0.75 may have been billed for answers that were lost" in notes_of(played)[1]


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "all in one reply"])
@pytest.mark.parametrize("main", [FREE, fee("0.01"), GPT], ids=["free", "by the call", "by the token"])
@pytest.mark.parametrize(("vision", "spent", "cap"), [("0.02", "3.8", "4"), ("0.05", "0", "0.3"), ("1", "0", "0.5")])
def test_the_report_is_written_whatever_looks_cost(
    tmp_path: Path, main: Pricing, at_once: bool, vision: str, spent: str, cap: str
) -> None:
    reading = Reading(tmp_path, 12, fee(vision), main=main, purse=Purse(D(cap), carried_spent=D(spent)))
    played = reading.play(at_once=at_once)
    assert played.ending.end is End.FINISHED
    assert (tmp_path / "workspace" / "report.json").exists()
    assert reading.purse.spent <= D(cap)
    assert reading.eyes.looks < 12
    if reading.eyes.looks:
        assert f"A question about images has cost ${vision} on average." in "\n".join(notes_of(played).values())


def test_a_look_too_many_is_refused_and_the_work_goes_on(tmp_path: Path) -> None:
    reading = Reading(tmp_path, 12, fee("0.02"), main=fee("0.01"), purse=Purse(D("0.2")))
    played = reading.play(at_once=True)
    [*seen, refused] = [result.parts[0].text for result in played.state.steps[0].results if result.status == "error"]
    assert KEPT in refused and seen
    assert reading.eyes.looks == (20 - 1 - CLOSING_CALLS) // 2
    assert played.ending.end is End.FINISHED


def test_without_notes_a_look_too_many_ends_it(tmp_path: Path) -> None:
    scaffold = looking(budget_notes=False)
    reading = Reading(tmp_path, 12, fee("0.02"), main=fee("0.01"), purse=Purse(D("0.2")), scaffold=scaffold)
    played = reading.play(at_once=True)
    assert played.ending.end is End.COST
    assert not (tmp_path / "workspace" / "report.json").exists()


def test_the_giving_up_check_may_use_what_is_kept(tmp_path: Path) -> None:
    fast = Sees()  # it says neither yes nor no
    stage = Stage(
        tmp_path,
        scaffold=load_scaffold("plain").model_copy(update={"budget_notes": True, "checks": ("giving-up",)}),
        price=fee("0.1"),
        purse=Purse(D("0.4")),
        helpers={"fast": Route(ModelSpec(name="fast"), fast, fee("0.15"))},
    )
    write = {"name": "write_file", "arguments": f'{{"path": "{tmp_path}/workspace/nothing", "content": "412"}}'}
    call = {"id": "w", "type": "function", "function": write}
    writing = {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    played = stage.play([writing, DONE])
    assert played.ending.end is End.FINISHED
    assert (fast.looks, stage.purse.spent) == (1, D("0.35"))


def overshooting(budget: str, **changes: Any) -> Scaffold:
    changes = {"faults": ("overshoot",), "budget_usd": D(budget)} | changes
    return load_scaffold("plain").model_copy(update=changes)


@pytest.mark.parametrize(
    ("budget", "steps", "spent"), [("0.35", 4, "0.4"), ("0.3", 4, "0.4"), ("0.01", 1, "0.1"), ("0.299", 3, "0.3")]
)
def test_overshoot_ends_after_the_command_that_passed_it(tmp_path: Path, budget: str, steps: int, spent: str) -> None:
    played = work(tmp_path, 30, scaffold=overshooting(budget))
    assert played.ending.end is End.COST
    assert not played.ending.because_uncertain
    assert len(played.ran) == len(played.state.steps) == steps  # the last command has run
    assert f"${spent} are spent, more than the scaffold's budget of ${budget}" in played.ending.detail


def test_overshoot_counts_helpers_and_the_cap_still_holds(tmp_path: Path) -> None:
    purse = Purse(D(1))
    scaffold = looking(budget_notes=False, faults=("overshoot",), budget_usd=D("0.5"))
    reading = Reading(tmp_path / "a", 12, fee("0.2"), main=fee("0.01"), purse=purse, scaffold=scaffold)
    played = reading.play()
    assert (played.ending.end, reading.eyes.looks, purse.spent) == (End.COST, 3, D("0.63"))
    purse = Purse(D(1))
    reading = Reading(tmp_path / "b", 12, fee("0.2"), main=fee("0.01"), purse=purse, scaffold=scaffold)
    played = reading.play(at_once=True)
    assert played.ending.end is End.COST and "the next vision call" in played.ending.detail
    assert purse.spent <= 1


def test_a_reply_without_a_command_is_not_tested(tmp_path: Path) -> None:
    words = {"message": {"role": "assistant", "content": "Let me think."}, "finish_reason": "stop"}
    played = Stage(tmp_path, scaffold=overshooting("0.05"), price=fee("0.1")).play([words, words, echo(1), DONE])
    assert len(played.state.steps) == 3
    assert "budget" in played.ending.detail


def test_without_the_fault_the_budget_is_not_tested(tmp_path: Path) -> None:
    assert work(tmp_path, 6, scaffold=overshooting("0.1", faults=())).ending.end is End.FINISHED


@pytest.mark.parametrize("cap", ["4", "3.99"])
def test_a_cap_that_leaves_no_room_to_overshoot_is_refused(cap: str) -> None:
    with pytest.raises(InputError, match=r"--cap: .*\$4 \(.*--cap 5\)") as refused:
        check_budget(overshooting("4"), Limits(cost_usd=D(cap)))
    assert refused.value.exit_status == 2
    check_budget(overshooting("4"), Limits(cost_usd=D("4.01")))
    check_budget(overshooting("4", faults=()), Limits(cost_usd=D(cap)))


def test_steps_that_are_done_again_are_told_nothing(tmp_path: Path) -> None:
    """An attempt that goes on has spent already what its first steps are about to spend: it is no time to say so."""
    made = bench(purse=Purse(D(4), carried_spent=D("3.9")), pricing=fee("0.1"))
    again = Resumed(made.gateway, None, {}, record=lambda event: None, now=lambda: 7.0)  # type: ignore[arg-type]
    scaffold = overshooting("1", budget_notes=True)
    budget = Budget(scaffold, Limits(), made.gateway, again, NoDeliverable(), lambda: 0.0)
    call = Call(id="c1.1", name="bash", arguments={"command": "ls"})
    step = Step(1, Message(role=Role.ASSISTANT, parts=(call,)))
    state = State((), [step])
    assert budget.told(step) == [] and budget.overshot(state) is None
    again.went_on = 7.0
    [note] = budget.told(step)
    assert "nine tenths of the money" in note and "$0.1 of $4" in note
    ending = budget.overshot(state)
    assert ending is not None and ending.end is End.COST
