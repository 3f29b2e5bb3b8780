"""The cases of tool calls once more, each reply put as a model of the JSON-thoughts protocol would put it.

A native call becomes one JSON object, with the arguments in it as they are written, so that what is broken there
breaks the object; calls of one reply become as many replies, in their order, since a reply holds one command; a reply
without a call stays as it is, but for a last "done", which has to be the command `finish`.

So a native reply may be several here: the limit of replies in a row without a usable command is that much higher. Where
the attempt is cancelled, the replies after that are never given. "Tool messages" are the user messages that answer a
reply, each directly after it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent import Played, Stage
from case_fields import ends_of
from test_tool_calls import (
    DONE,
    KNOWN_INPUT,
    ImageTool,
    RaisingTool,
    check_executed,
    interrupt_when_busy,
)
from thoughts_fixtures import FINISH, Fast, scaffold

from agentctl.agents.ends import End
from agentctl.agents.spec import Limits


def as_thoughts(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """The replies that stand for one native reply."""
    message = turn["message"]
    calls = message.get("tool_calls") or []
    if not calls:
        return [turn]
    finish = "length" if turn["finish_reason"] == "length" else "stop"
    return [
        {
            "message": {"role": "assistant", "content": f"{message['content'] or ''}\n{written(call['function'])}"},
            "finish_reason": finish,
        }
        for call in calls
    ]


def written(function: dict[str, Any]) -> str:
    arguments = f', "arguments": {function["arguments"]}' if function["arguments"] else ""
    name = json.dumps(function["name"])
    return f'{{"thoughts": {{"text": "on", "plan": ["it"]}}, "use_tool": {{"name": {name}{arguments}}}}}'


def played(case: dict[str, Any], folder: Path) -> Played:
    given = case["input"]
    unknown = set(given) - KNOWN_INPUT
    assert not unknown, f"this test knows nothing of the input fields {sorted(unknown)}"
    native = [given["saved_history_contains"]] if "saved_history_contains" in given else [*given["turns"]]
    native = native[:1] * given.get("repeat_first", 1) + native[1:]
    native *= given.get("repeat_all", 1)
    closing = [FINISH] if native[-1] == DONE or "saved_history_contains" in given else []
    turns = [reply for turn in native if turn != DONE for reply in as_thoughts(turn)]
    more = len(turns) - sum(turn != DONE for turn in native)
    stage = Stage(
        folder,
        scaffold=scaffold(idle_replies=3 + more),
        limits=Limits(command_seconds=20, steps=30),
        extra_tools=[RaisingTool(given.get("tool_b_raises", "PermissionError with empty text")), ImageTool()],
        helpers={"fast": Fast().route()},
    )
    if "cancel" in given:
        stage.while_running = interrupt_when_busy
    return stage.play([*turns, *closing])


def answers(play: Played) -> list[str]:
    """What answers each reply but the last command to finish."""
    told = play.conversation[2:]
    pairs = [(reply, answer) for reply, answer in pairwise(told) if reply["role"] == "assistant"]
    return [text_of(answer) for reply, answer in pairs if reply["content"] != FINISH["message"]["content"]]


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, list):
        content = "\n".join(block["text"] for block in content if block["type"] == "text")
    return str(content)


def check_answered(play: Played) -> None:
    """Replies and what answers them take turns, in the record and in every request."""
    for sent in [play.conversation, *play.model.requests]:
        roles = [message["role"] for message in sent if message["role"] != "system"]
        for role, following in zip(roles, [*roles[1:], "user"], strict=True):
            assert role in ("assistant", "user")
            assert role == "user" or following == "user"
        assert not any(message.get("tool_calls") for message in sent)


@pytest.mark.cases("tool_calls")
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    play = played(case, tmp_path)
    told = "\n".join(answers(play))
    calls = [call for step in play.state.steps for call in step.calls]
    native = [case["input"]["saved_history_contains"]] if "saved_history_contains" in case["input"] else None
    asked = [call for turn in native or case["input"]["turns"] for call in turn["message"].get("tool_calls") or ()]
    for key, expected in case["expect"].get("exact", {}).items():
        match key:
            case "executed":
                assert executed(play, expected)
            case "executed_any_of":
                assert any(executed(play, each) for each in expected)
            case "never_executed":
                assert not any(arguments in expected for name, arguments in play.ran if name != "finish")
            case "tool_messages":
                assert len(answers(play)) == (1 if "cancel" in case["input"] else expected)
            case "order":
                assert [call["id"] for call in asked] == expected
                ran = [call.name for call in calls if call.name != "finish"]
                assert ran == [call["function"]["name"] for call in asked][: len(ran)]
                check_answered(play)
            case "crash":
                assert (play.ending.end is End.CRASH) is expected
            case "invariant" | "outgoing_arguments_are_json_objects":
                check_answered(play)
            case "nonempty":
                assert all(answer.partition("\n")[2].strip() for answer in answers(play))
            case "file_exists":
                assert {name: (play.workspace / name).exists() for name in expected} == expected
            case "message_contains":
                assert expected in told
            case "message_contains_any":
                assert any(each in told for each in expected)
            case "message_lists_tools":
                assert all(name in told for name in ("bash", "read_file", "write_file"))
            case "max_model_calls":
                assert len(play.model.requests) <= (30 if expected == "step limit" else expected)
            case "task_status":
                assert play.ending.end in ends_of(expected)
            case "task_status_not":
                assert play.ending.end not in ends_of(expected)
            case "unique_outgoing_ids":
                assert len({call.id for call in calls}) == len(calls)
            case "first_output":
                assert next(line for text in answers(play) for line in text.splitlines()[1:]) == expected
            case "notice_before_end":
                assert "same call" in told
                assert play.ending.end in (End.STUCK, End.STEPS)
            case _:
                pytest.fail(f"this test knows nothing of the expectation {key}")


def executed(play: Played, expected: list[Any]) -> bool:
    play.ran[:] = [(name, arguments) for name, arguments in play.ran if name != "finish"]
    return check_executed(play, expected)
