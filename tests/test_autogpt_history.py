"""AutoGPT's history: prompts built anew, steps summed up, replies sent back.

Whole message lists stand in tests/data/autogpt-history.txt, for reading and for seeing in a diff what a change does to
them. They are written anew by `WRITE_PROMPTS=1 pytest tests/test_autogpt_history.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from agent import Played, ScriptedModel, Stage
from attempts import CAPSULE
from gateway_bench import price
from test_tool_calls import ImageTool, turn
from thoughts_fixtures import FINISH, Fast, says, scaffold, uses

from agentctl.agents.ends import End
from agentctl.agents.events import Requested, Summarised
from agentctl.agents.models.protocol import Fault, ModelSpec, ProviderError, RawReply, WireRequest
from agentctl.agents.models.tokens import count_tokens
from agentctl.agents.models.wire import encode
from agentctl.agents.purse import Purse
from agentctl.agents.reading import RecordReader
from agentctl.agents.recorded import recorded_replies
from agentctl.agents.scaffold import RoleParameters, load_scaffold
from agentctl.agents.spec import AttemptSpec, Limits
from agentctl.base.cancel import Cancel
from agentctl.benchmarks.corebench.locate import locate
from agentctl.benchmarks.replay import play_again
from agentctl.benchmarks.runner import run
from agentctl.tools.tool import Arguments, ToolContext, ToolResult

WHOLE = Path(__file__).parent / "data" / "autogpt-history.txt"
PROGRESS, NOW, ASK = "Progress on your task", "The current date and time is", "Choose exactly one command"
LOST = says("I am lost.")


class Said:
    """A context item that says one thing."""

    name = "open-files"

    def contribute(self) -> str:
        return "What you keep open, as it is now:\n\n1. file a.txt:\na"


class Flood:
    """A tool that gives a text of so many words."""

    name = "flood"
    description = "Gives a long text."

    class arguments(Arguments):
        words: int

    def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        return ToolResult.of("word " * arguments.words)

    def close(self) -> None:
        pass


def echo(n: int) -> dict[str, Any]:
    return uses("bash", {"command": f"printf 'line {n}\\nend'"}, thought=f"I print {n}.")


def play(folder: Path, turns: Sequence[Mapping[str, Any]], *, fast: Fast | None = None, **stage: Any) -> Played:
    fast = fast or Fast()
    arms = stage.pop("scaffold", None) or scaffold(idle_replies=9, context=("clock",))
    stage = {"scaffold": arms, "helpers": {"fast": fast.route()}, **stage}
    return Stage(folder, limits=Limits(command_seconds=20, steps=30), **stage).play(turns)


def progress_of(request: Sequence[Mapping[str, Any]]) -> str:
    [text] = [message["content"] for message in request if str(message["content"]).startswith(PROGRESS)]
    return str(text)


def beginnings(request: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(message["role"], str(message["content"])[:20]) for message in request]


def test_whole_message_lists(tmp_path: Path) -> None:
    turns = [echo(1), echo(2), LOST, says('{"thoughts": {'), echo(3), uses("nope", {}), echo(5), echo(6), FINISH]
    fast = Fast(*(f"printed\n line {n}, then end." for n in range(1, 7)))
    done = play(tmp_path, turns, fast=fast, context=[Said()])
    assert done.ending.end is End.FINISHED
    titles = {
        0: "step 1",
        1: "step 2",
        3: "step 3, its reply sent back once",
        4: "step 3, sent back twice",
        7: "step 6",
    }
    lists = []
    for place, title in titles.items():
        messages = [f"======== {m['role']} ========\n{m['content']}" for m in done.model.requests[place]]
        lists.append("\n\n".join([f"######## {title} ########", *messages]))
    lists.append(f"######## step 1, to be summed up ########\n\n{fast.asked[0]}")
    text = "\n\n".join(lists) + "\n"
    if os.environ.get("WRITE_PROMPTS"):
        WHOLE.write_text(text, encoding="utf-8")
    assert WHOLE.read_text(encoding="utf-8") == text


def test_the_order_of_messages(tmp_path: Path) -> None:
    done = play(tmp_path, [echo(1), FINISH], context=[Said()])
    first, second = done.model.requests
    before, after = [("system", "You are tested."), ("user", "Do it.")], [("system", NOW[:20]), ("user", ASK[:20])]
    open_files = [("system", "What you keep open, ")]
    assert beginnings(first) == [*before, *open_files, *after]
    assert beginnings(second) == [*before, *open_files, ("system", PROGRESS[:20]), *after]


def test_four_steps_are_whole_and_older_ones_a_line(tmp_path: Path) -> None:
    fast = Fast(*(f"did {n}" for n in range(1, 9)))
    done = play(tmp_path, [*(echo(n) for n in range(1, 8)), FINISH], fast=fast)
    for taken, request in enumerate(done.model.requests[1:], start=1):
        told = progress_of(request)
        for n in range(1, taken + 1):
            whole, line = f"Thought: I print {n}.", f"* Step {n}: did {n}\n"
            assert (whole in told, line in told) == ((True, False) if n > taken - 4 else (False, True))
        assert [line.split(":")[0] for line in told.splitlines() if line[:1] == "*"] == [
            f"* Step {n}" for n in range(1, taken + 1)
        ]
    assert len(fast.requests) == 7  # none after the last command
    assert {request.output_limit for request in fast.requests} == {500}
    noted = [event for event in done.reader.events if isinstance(event, Summarised)]
    assert [(event.step, event.text) for event in noted] == [(n, f"did {n}") for n in range(1, 8)]


def test_the_scaffold_says_how_long_a_summary_may_be(tmp_path: Path) -> None:
    fast = Fast()
    play(tmp_path, [echo(1), FINISH], fast=fast, scaffold=scaffold(roles={"fast": RoleParameters(output_limit=77)}))
    assert [request.output_limit for request in fast.requests] == [77]


def test_a_reply_is_sent_back_behind_the_same_prompt(tmp_path: Path) -> None:
    done = play(tmp_path, [echo(1), LOST, LOST, LOST, LOST, echo(2), FINISH])
    one, back, twice, anew, again, two = done.model.requests[1:]
    assert back[: len(one)] == one
    assert twice[: len(back)] == back
    assert [message["role"] for message in twice[len(one) :]] == ["assistant", "user"] * 2
    assert twice[-2]["content"] == "I am lost."
    assert "holds no JSON object" in twice[-1]["content"]
    assert anew == one  # the third starts the step over
    assert again == back
    assert len(two) == len(one)
    assert "I am lost" not in str(two)


@pytest.mark.parametrize(("faults", "asked"), [((), 9), (("unparsable-ends",), 3)])
def test_when_replies_without_a_command_end_it(faults: tuple[str, ...], asked: int, tmp_path: Path) -> None:
    done = play(tmp_path, [LOST] * 10, scaffold=scaffold(idle_replies=9, faults=faults))
    assert (done.ending.end, len(done.model.requests)) == (End.FORMAT, asked)


def test_every_request_can_be_built_again_from_the_record(tmp_path: Path) -> None:
    fast = Fast("did it")
    done = play(tmp_path, [echo(1), LOST, echo(2), echo(3), FINISH], fast=fast)
    sent = {"main": [], "fast": []}
    for event in done.reader.events:
        if isinstance(event, Requested):
            numbers = [n for first, last in event.sent.messages for n in range(first, last + 1)]
            messages = [encode(done.reader.messages[n], n, images=lambda ref: b"").tree for n in numbers]
            sent[event.sent.role].append(messages)
    assert sent["main"] == done.model.requests
    assert sent["fast"] == [[message.tree for message in request.messages] for request in fast.requests]
    texts = [message.model_dump_json() for message in done.reader.messages.values()]
    assert (
        sum(NOW in text for text in texts) == sum(ASK in text for text in texts) == 1
    )  # what still holds is kept once
    assert [role for role, _ in recorded_replies(done.reader)] == [
        "main",
        "fast",
        "main",
        "main",
        "fast",
        "main",
        "fast",
        "main",
    ]


@pytest.mark.parametrize("protocol", ["native", "plain"])
def test_other_protocols_are_told_their_progress_too(protocol: str, tmp_path: Path) -> None:
    calls = [("bash", {"command": "echo one"}), ("bash", {"command": "echo two"})]
    if protocol == "native":
        both = turn(*((name, json.dumps(arguments)) for name, arguments in calls), content="Both at once.")
        finish = turn(("finish", "{}"))
    else:
        blocks = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
        both = says("Both at once.\n" + "\n".join(f"```json\n{block}\n```" for block in blocks))
        finish = says('```json\n{"name": "finish", "arguments": {}}\n```')
    done = play(tmp_path, [both, says("What now?"), finish], scaffold=scaffold(protocol=protocol))
    assert done.ending.end is End.FINISHED
    told = progress_of(done.model.requests[1])
    assert (
        told.index("Thought: Both at once.")
        < told.index("echo one")
        < told.index("Output: one")
        < told.index("echo two")
    )
    assert "```" not in told
    assert not any(message.get("tool_calls") or message["role"] == "tool" for r in done.model.requests for message in r)
    assert beginnings(done.model.requests[2])[-2:] == [("assistant", "What now?"), ("user", "Your last reply hold")]


def test_images_are_shown_while_their_step_is_told_whole(tmp_path: Path) -> None:
    done = play(tmp_path, [uses("view_image", {"path": "a"}), *map(echo, range(4)), FINISH], extra_tools=[ImageTool()])
    shown = [[m["role"] for m in request if isinstance(m["content"], list)] for request in done.model.requests]
    assert shown == [[], ["user"], ["user"], ["user"], ["user"], []]
    assert "[image 4x4]" in progress_of(done.model.requests[1])


def test_what_the_harness_says_is_part_of_a_step(tmp_path: Path) -> None:
    done = play(tmp_path, [echo(1)] * 5 + [FINISH])
    assert "same call" not in progress_of(done.model.requests[3])
    assert "- Note: " in progress_of(done.model.requests[4])
    assert "same call" in progress_of(done.model.requests[4])


def test_the_oldest_steps_go_where_the_window_is_small(tmp_path: Path) -> None:
    window = 8_000
    fast = Fast("s" * 400)
    turns = [uses("flood", {"words": 380}, thought=f"flood {n}") for n in range(1, 25)]
    done = play(tmp_path, [*turns, FINISH], fast=fast, window=window, extra_tools=[Flood()],
                scaffold=scaffold(repeat_notice=99, repeat_end=99))  # fmt: skip
    counts = [count_tokens(progress_of(request)) for request in done.model.requests[1:]]
    assert max(counts) <= 0.75 * window + 50
    assert counts[-1] > 0.6 * window  # as many as there is room for
    last = [line.split(":")[0] for line in progress_of(done.model.requests[-1]).splitlines() if line[:1] == "*"]
    assert last[-1] == "* Step 24"
    assert last == [f"* Step {n}" for n in range(25 - len(last), 25)]


def test_the_newest_step_stays_however_long(tmp_path: Path) -> None:
    turns = [echo(1), uses("flood", {"words": 3_000}), FINISH]
    done = play(tmp_path, turns, window=500, extra_tools=[Flood()])
    told = progress_of(done.model.requests[2])
    assert "* Step 2:" in told
    assert "* Step 1" not in told


class TooLong(ScriptedModel):
    """A model whose provider says that a request is too long while its progress has more than `most` characters."""

    def __init__(self, turns: Sequence[Mapping[str, Any]], most: int) -> None:
        super().__init__(turns)
        self._most = most
        self.refused: list[str] = []

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        trees = [message.tree for message in request.messages]
        if len(self.requests) and len(progress_of(trees)) > self._most:
            self.refused.append(progress_of(trees))
            raise ProviderError(Fault.CONTEXT, "too long", status=400)
        return super().send(request, cancel)


@pytest.mark.parametrize(("most", "end", "refusals"), [(1_500, End.FINISHED, 1), (100, End.CONTEXT, 1)])
def test_a_request_that_is_too_long_loses_its_oldest_steps(most: int, end: End, refusals: int, tmp_path: Path) -> None:
    turns = [uses("bash", {"command": f"seq -s ' ' {n}00 {n}50"}) for n in range(1, 8)]
    model = TooLong([*turns, FINISH], most)
    stage = Stage(tmp_path, scaffold=scaffold(), helpers={"fast": Fast("a line " * 20).route()})
    done = stage.play([], model)
    assert done.ending.end is end
    assert len(model.refused) == refusals
    if end is End.FINISHED:
        assert progress_of(done.model.requests[-1]).count("* Step") < model.refused[0].count("* Step")


def test_a_step_that_will_not_be_summed_up_gets_a_line_of_ours(tmp_path: Path) -> None:
    declined = ProviderError(Fault.REFUSED, "content policy", status=400)
    done = play(tmp_path, [*map(echo, range(1, 7)), FINISH], fast=Fast(declined, "", "did it"))
    noted = [event for event in done.reader.events if isinstance(event, Summarised)]
    assert noted[0].text == "bash: ok, line 1 end"
    assert "content policy" in noted[0].problem
    assert (noted[1].text, bool(noted[1].problem)) == ("bash: ok, line 2 end", True)
    assert (noted[2].text, noted[2].problem) == ("did it", "")
    assert "* Step 1: bash: ok, line 1 end\n* Step 2: bash: ok, line 2 end\n" in progress_of(done.model.requests[-1])


def test_a_model_for_summaries_that_is_gone_ends_it_with_all_that_was_done(tmp_path: Path) -> None:
    done = play(tmp_path, [echo(1), FINISH], fast=Fast(ProviderError(Fault.AUTH, "no such key", status=401)))
    assert (done.ending.end, done.ending.detail) == (End.PROVIDER, "no such key")
    [step] = done.state.steps
    assert step.complete
    assert "line 1" in str(done.conversation[-1]["content"])


def test_a_summary_that_does_not_fit_the_cap_ends_it_by_cost(tmp_path: Path) -> None:
    dear = Fast().route(price(input=Decimal(1), output=Decimal(1)))
    done = play(tmp_path, [echo(1), FINISH], helpers={"fast": dear}, purse=Purse(Decimal(4)))
    assert done.ending.end is End.COST
    assert done.state.steps[0].complete


def test_an_attempt_plays_again(tmp_path: Path) -> None:
    """Its clock goes on meanwhile, and what is told beside the conversation has other numbers: no difference."""
    turns = [uses("execute_shell", {"command_line": "ls; sleep 1.1"}), LOST, uses("open_folder", {"path": "/code"})]
    turns += [uses("execute_shell", {"command_line": "echo $((6 * 7))"}), uses("finish", {"reason": "done"})]
    script = {
        "main": [{"text": turn["message"]["content"]} for turn in turns],
        "fast": [{"text": f"summary {n}"} for n in range(3)],
    }
    (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
    attempt = AttemptSpec(
        task=locate(CAPSULE, "hard").ref,
        scaffold=load_scaffold("autogpt"),
        model=ModelSpec(name=f"script:{tmp_path / 'script.json'}"),
        record=tmp_path / "first",
    )
    assert run(attempt, environment={}).result.end is End.FINISHED
    reader = RecordReader(tmp_path / "first")
    assert all(reader.rebuild(n).same for n in reader.requests)
    played = play_again(tmp_path / "first", tmp_path / "second", environment={})
    assert (played.compared, played.differences) == (5, ())
