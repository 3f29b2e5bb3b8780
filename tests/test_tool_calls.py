"""What models send as calls, or instead of calls, goes through the real loop with the real tools."""

from __future__ import annotations

import builtins
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agent import Played, Stage, check_pairs
from case_fields import ends_of

from agentctl.agents.ends import End
from agentctl.agents.spec import Limits
from agentctl.base.cancel import Cancel
from agentctl.base.messages import ImageRef
from agentctl.tools.tool import Arguments, ToolContext, ToolResult

KNOWN_INPUT = {
    "turns", "repeat_first", "repeat_all", "tool_b_raises", "cancel", "then", "saved_history_contains", "action",
    "view_image_returns",
}  # fmt: skip


class PathAndQuestion(Arguments):
    path: str
    question: str = ""


class RaisingTool:
    """A tool that raises what a case says, as `PermissionError with empty text` or `ValueError with 'no such axis'`."""

    name = "query_image"
    description = "Ask about an image."
    arguments = PathAndQuestion

    def __init__(self, raises: str) -> None:
        found = re.fullmatch(r"(\w+)(?: with (?:empty text|'(.*)'))?", raises)
        kind = getattr(builtins, found[1], None) if found else None
        assert found and isinstance(kind, type) and issubclass(kind, Exception), f"can't map tool_b_raises: {raises}"
        self._error = kind(found[2]) if found[2] else kind()

    def run(self, arguments: PathAndQuestion, context: ToolContext) -> ToolResult:
        raise self._error

    def close(self) -> None:
        pass


class ImageTool:
    """A tool that gives back an image."""

    name = "view_image"
    description = "Look at an image."
    arguments = PathAndQuestion

    def run(self, arguments: PathAndQuestion, context: ToolContext) -> ToolResult:
        digest = "00" * 32
        folder = context.outputs.parent / "images"
        folder.mkdir(exist_ok=True)
        (folder / digest).write_bytes(b"\x89PNG")
        return ToolResult(parts=(ImageRef(digest=digest, media_type="image/png", width=4, height=4),))

    def close(self) -> None:
        pass


def interrupt_when_busy(cancel: Cancel) -> None:
    def later() -> None:
        time.sleep(1.0)
        cancel.set("the user pressed Ctrl-C")

    threading.Thread(target=later, daemon=True).start()


DONE = {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}


def played(case: dict[str, Any], folder: Path) -> Played:
    given = case["input"]
    unknown = set(given) - KNOWN_INPUT
    assert not unknown, f"this test knows nothing of the input fields {sorted(unknown)}"
    turns = [*given.get("turns", ())]
    if "saved_history_contains" in given:
        turns = [given["saved_history_contains"], DONE]
    turns = turns[:1] * given.get("repeat_first", 1) + turns[1:]
    turns *= given.get("repeat_all", 1)
    raising = RaisingTool(given.get("tool_b_raises", "PermissionError with empty text"))
    stage = Stage(folder, limits=Limits(command_seconds=20, steps=30), extra_tools=[raising, ImageTool()])
    if "cancel" in given:
        stage.while_running = interrupt_when_busy
    return stage.play(turns)


def check_executed(play: Played, expected: list[Any]) -> bool:
    ran = [arguments for _, arguments in play.ran]
    if all(isinstance(each, str) for each in expected):
        return [arguments.get("command") for arguments in ran] == expected
    return ran == expected


@pytest.mark.cases("tool_calls")
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    play = played(case, tmp_path)
    sent_last = play.conversation
    told = "\n".join(str(message["content"]) for message in sent_last[2:])
    calls = [call for message in sent_last for call in message.get("tool_calls") or []]
    for key, expected in case["expect"].get("exact", {}).items():
        match key:
            case "executed":
                assert check_executed(play, expected)
            case "executed_any_of":
                assert any(check_executed(play, each) for each in expected)
            case "never_executed":
                assert not any(arguments in expected for _, arguments in play.ran)
            case "tool_messages":
                assert len(play.tool_messages) == expected
            case "crash":
                assert (play.ending.end is End.CRASH) is expected
            case "invariant":
                for request in [*play.model.requests, sent_last]:
                    check_pairs(request)
            case "order":
                asked = [
                    call["id"] for turn in case["input"]["turns"] for call in turn["message"].get("tool_calls", ())
                ]
                assert asked == expected
                assert [message["tool_call_id"] for message in play.tool_messages] == [call["id"] for call in calls]
                assert len(calls) == len(asked)
            case "nonempty":
                assert all(message["content"].strip() for message in play.tool_messages)
            case "outgoing_arguments_are_json_objects":
                assert calls
                assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
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
                assert len({call["id"] for call in calls}) == len(calls)
            case "first_output":
                assert play.tool_messages[0]["content"].splitlines()[0] == expected
            case "notice_before_end":
                assert "same call" in told
                assert play.ending.end in (End.STUCK, End.STEPS)
            case _:
                pytest.fail(f"this test knows nothing of the expectation {key}")


def turn(*calls: tuple[str, str], content: str | None = None, finish: str = "tool_calls") -> dict[str, Any]:
    tree = [
        {"id": f"x{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"message": {"role": "assistant", "content": content, "tool_calls": tree}, "finish_reason": finish}


def test_literal_line_feeds_in_arguments_are_what_was_meant(tmp_path: Path) -> None:
    play = Stage(tmp_path).play([turn(("bash", '{"command": "echo a\necho b"}')), DONE])
    assert play.ran == [("bash", {"command": "echo a\necho b"})]
    assert "a\nb" in play.tool_messages[0]["content"]


def test_a_comma_inside_a_text_is_no_trailing_comma(tmp_path: Path) -> None:
    play = Stage(tmp_path).play([turn(("bash", r'{"command": "echo \"[1, ]\" ,}",}')), DONE])
    assert play.ran == [("bash", {"command": 'echo "[1, ]" ,}'})]


@pytest.mark.parametrize("name", ["", "functions.bash", "BASH", "finish ", "../bash"])
def test_names_that_are_no_tools(name: str, tmp_path: Path) -> None:
    play = Stage(tmp_path).play([turn((name, '{"command": "echo no"}')), DONE])
    assert play.ran == []
    assert "no tool named" in play.tool_messages[0]["content"]


def test_calls_after_finish_are_answered_and_not_run(tmp_path: Path) -> None:
    play = Stage(tmp_path).play([turn(("finish", ""), ("bash", '{"command": "touch late"}'))])
    assert play.ending.end is End.FINISHED
    assert not (play.workspace / "late").exists()
    check_pairs(play.conversation)


@pytest.mark.parametrize("protocol", ["plain", "plain-text"])
def test_calls_between_tags_are_calls(protocol: str, tmp_path: Path) -> None:
    text = (
        'Both:\n<tool_call>\n{"name": "bash", "arguments": {"command": "echo one"}}\n</tool_call>\n```json\n```\n'
        '<tool_call>{"name": "bash", "arguments": {"command": "echo two"}}</tool_call><tool_call></tool_call>'
    )
    says = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    play = Stage(tmp_path, scaffold_name=protocol).play([says, DONE])
    assert [arguments["command"] for _, arguments in play.ran] == ["echo one", "echo two"]


def test_the_plain_protocol_runs_fenced_calls_in_order(tmp_path: Path) -> None:
    text = (
        'First.\n```json\n{"name": "bash", "arguments": {"command": "echo one"}}\n```\n'
        'Then:\n```json\n{"name": "bash", "arguments": {"command": "echo two",}}\n```\n'
        'Not this: ```{"name": "bash"}```'
    )
    finish = '```json\n{"name": "finish", "arguments": {}}\n```'
    play = Stage(tmp_path, scaffold_name="plain-text").play(
        [
            {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"},
            {"message": {"role": "assistant", "content": finish}, "finish_reason": "stop"},
        ]
    )
    assert [arguments["command"] for _, arguments in play.ran[:2]] == ["echo one", "echo two"]
    assert play.ending.end is End.FINISHED
    assert [message["role"] for message in play.model.requests[1]] == ["system", "user", "assistant", "user"]
    assert "one" in play.model.requests[1][3]["content"]
    assert not any(message.get("tool_calls") for message in play.model.requests[1])


def test_waiting_for_a_job_is_not_being_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import agentctl.agents.acting as acting

    monkeypatch.setattr(acting, "_WAITING", 0.05)
    again = turn(("bash", '{"command": "sleep 0.1; echo still running"}'))
    play = Stage(tmp_path).play([again] * 15 + [turn(("finish", "{}"))])
    assert play.ending.end is End.FINISHED


def test_the_beginning_of_a_prompt_never_changes(tmp_path: Path) -> None:
    play = Stage(tmp_path).play([turn(("bash", f'{{"command": "echo {n}"}}')) for n in range(5)] + [DONE])
    for earlier, later in zip(play.model.requests, play.model.requests[1:], strict=False):
        assert later[: len(earlier)] == earlier
