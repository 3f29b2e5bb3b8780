"""AutoGPT's JSON thoughts: how commands are told, and what is taken for one in a reply."""

from __future__ import annotations

import json
import time
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from agent import Stage
from pydantic import BaseModel, Field
from thoughts_fixtures import FINISH, Fast, says, scaffold, uses

from agentctl.agents.models.protocol import FinishReason, RawCall, RawReply
from agentctl.agents.protocols import PROTOCOLS, Decoded
from agentctl.agents.protocols.typescript import parameters
from agentctl.agents.recorded import raw_reply
from agentctl.base.messages import Message, Opaque, Role, Text, ToolSpec
from agentctl.tools.files import ListDir, ReadFile, WriteFile
from agentctl.tools.finish import Finish, make_checks
from agentctl.tools.shell import Shell
from agentctl.tools.tool import Arguments, spec_of

THOUGHTS = PROTOCOLS["thoughts"]
TOOLS = {tool.name: tool for tool in (Shell(), ReadFile(), WriteFile(), ListDir(), Finish(make_checks(())))}


def decoded(text: str, **reply: Any) -> Decoded:
    parts = (Text(text=text),) if text else ()
    return THOUGHTS.decode(RawReply(parts=parts, **{"finish": FinishReason.STOP, **reply}), 3, TOOLS)


def obj(use: str, thoughts: str = '{"text": "look", "plan": ["a", "b"]}') -> str:
    return f'{{"thoughts": {thoughts}, "use_tool": {use}}}'


LS = '{"name": "bash", "arguments": {"command": "ls"}}'
CODE = "Run:\n```sh\nmake {all}\n```\n```python\nd = {'a': \"}\"}\n```\n"
WRITES = obj(json.dumps({"name": "write_file", "arguments": {"path": "a.md", "content": CODE}}))


@pytest.mark.parametrize(
    "text",
    [
        obj(LS),
        f"Here it is:\n```json\n{obj(LS)}\n```\nThat lists {{all}} files.",
        f"```\n{obj(LS)}\n```",
        f"```json\n{obj(LS)}",
        f"I saw {{x}} and {{}} and {{'a': 1}} and {json.dumps({'command': 'make'})}.\n{obj(LS)}",
        f"{obj(LS)}\n}}",
        f"[{obj(LS)}]",
        obj('{"name": "bash", "arguments": {"command": "ls",},}'),
        obj(LS, thoughts='{"text": "two\nlines", "plan": ["a",]}'),
        obj(LS, thoughts='{"text": "a fence: ```json {\\"use_tool\\": 1} ```"}'),
        f'{{"use_tool": {LS}}}',
        f'{{"thoughts": "just words", "use_tool": {LS}}}',
        f'{{"thoughts": {{}}, "command": {LS}}}',
        '{"thoughts": {}, "command": {"name": "bash", "args": {"command": "ls"}}}',
        obj('{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}'),
        f'{{"use_tool": {LS}, "use_tool": {LS}}}',
    ],
)
def test_one_command_is_found(text: str) -> None:
    [call] = decoded(text).calls
    assert (call.id, call.name, call.arguments, call.error) == ("c3.1", "bash", {"command": "ls"}, None)
    assert call.in_text


def test_the_text_of_a_reply_is_kept_to_the_letter() -> None:
    text = f" \n```json\n{obj(LS)}\n```\n\ttail"
    message = decoded(text).message
    assert message.text() == text
    assert THOUGHTS.decode(raw_reply(message, None), 3, TOOLS).message == message


@pytest.mark.parametrize("text", [WRITES, f"```json\n{WRITES}\n```", WRITES.replace("\\n", "\n")])
def test_fences_and_braces_inside_arguments_end_nothing(text: str) -> None:
    [call] = decoded(text).calls
    assert call.arguments == {"path": "a.md", "content": CODE}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON object"),
        ("I am done.", "no JSON object"),
        ('{"name": "bash", "arguments": {"command": "ls"}}', "no JSON object"),
        ('{"thoughts": {"text": "done"}}', "no `use_tool`"),
        (obj(LS) + obj(LS), "2 JSON objects"),
        (obj(LS) + "\n\nThe result is a.txt.\n" + obj('{"name": "finish", "arguments": {}}'), "2 JSON objects"),
        (obj(f"[{LS}, {LS}]"), "not one object"),
        (obj("null"), "not one object"),
        (obj('"finish"'), "not one object"),
        (obj("{}"), "without a name"),
        (obj('{"name": null, "arguments": {}}'), "without a name"),
        (obj('{"name": "bash", "command": "ls"}'), "'command' beside name and arguments"),
        (obj('{"name": "finish", "arguments": {}, "args": {}}'), "'args' beside name and arguments"),
        (f'{{"use_tool": {LS}, "command": {LS}}}', "both `use_tool` and `command`"),
        (obj(LS)[:-1], "where it ends"),
        (obj(LS)[:-3], "where it ends"),
        (obj(LS)[:-4], "Unterminated string"),
        (obj(LS).replace(', "use_tool"', ' "use_tool"'), "Expecting ',' delimiter"),
        (obj(LS).replace('"', "'"), "Expecting property name"),
        (obj(LS).replace('"thoughts"', "thoughts").replace('"use_tool"', "use_tool"), "Expecting property name"),
        (obj('{"name": "bash", "arguments": {"command": "grep \\d x"}}'), "Invalid \\escape"),
        (obj('{"name": "bash", "arguments": {"command": "ls", "command": "rm x"}}'), "twice"),
        (f'{{"use_tool": {LS}, "use_tool": {{"name": "finish", "arguments": {{}}}}}}', "twice"),
        (obj('{"name": "bash", "arguments": {"timeout": NaN}}'), "NaN is not JSON"),
        ('{"thoughts":' * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_no_command_and_says_why(text: str, problem: str) -> None:
    found = decoded(text)
    assert found.calls == ()
    assert problem in found.problem
    assert '{"thoughts": {...}, "use_tool": {"name": "...", "arguments": {...}}}' in found.problem
    assert found.message.text() == text


def test_no_beginning_of_a_reply_is_a_command() -> None:
    assert [cut for cut in range(len(WRITES) + 1) if decoded(WRITES[:cut]).calls] == [len(WRITES)]


@pytest.mark.parametrize(
    ("use", "error"),
    [
        ('{"name": "shell", "arguments": {"command": "ls"}}', "no tool named 'shell'"),
        ('{"name": "bash"}', "command: Field required"),
        ('{"name": "bash", "arguments": {"cmd": "ls"}}', "cmd: Extra inputs"),
        ('{"name": "bash", "arguments": {"command": ["ls"]}}', "valid string"),
        ('{"name": "bash", "arguments": null}', "must be a JSON object, not null"),
        ('{"name": "bash", "arguments": ["ls"]}', "must be a JSON object, not a list"),
        ('{"name": "bash", "arguments": "ls"}', "not JSON"),
    ],
)
def test_a_command_that_does_not_fit_is_answered_as_such(use: str, error: str) -> None:
    [call] = decoded(obj(use)).calls
    assert call.arguments is None
    assert error in str(call.error)


def test_a_reply_cut_at_the_output_limit_runs_nothing() -> None:
    [call] = decoded(obj(LS), finish=FinishReason.LENGTH).calls
    assert "cut off" in str(call.error)


def test_calls_in_the_providers_field_are_not_looked_at() -> None:
    native = (RawCall(id="1", name="bash", arguments='{"command": "rm -r ."}'),)
    assert decoded("", calls=native) == decoded("")
    assert decoded(obj(LS), calls=native) == decoded(obj(LS))


def test_parts_of_a_text_are_joined_as_they_are() -> None:
    parts = (
        Opaque(provider="p", field="content", data="<think>" + obj(LS) + "</think>"),
        Text(text=obj(LS)[:70]),
        Text(text=obj(LS)[70:]),
    )
    found = THOUGHTS.decode(RawReply(parts=parts, finish=FinishReason.STOP), 1, TOOLS)
    assert [call.arguments for call in found.calls] == [{"command": "ls"}]


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        (obj(LS), "look"),
        ('{"thoughts": " words ", "use_tool": {}}', "words"),
        ("words", ""),
        ('{"thoughts": {"text": 1}}', ""),
    ],
)
def test_the_short_thought(text: str, thought: str) -> None:
    assert THOUGHTS.thought(Message(role=Role.ASSISTANT, parts=(Text(text=text),))) == thought


@pytest.mark.parametrize(
    "text",
    ['{"thoughts": "' + '\\"' * 200_000, '{"' * 50_000, '"' * 400_000 + "{", "{}" * 200_000],
    ids=["escaped quotes", "never closed", "quotes", "empty objects"],
)
def test_a_long_reply_is_read_in_no_time(text: str) -> None:
    began = time.process_time()
    assert decoded(text).calls == ()
    assert time.process_time() - began < 2


def test_commands_are_numbered_and_typed() -> None:
    told = THOUGHTS.tools_text([spec_of(tool) for tool in TOOLS.values()])
    lines = [line for line in told.splitlines() if line[:1].isdigit()]
    assert [line.split(":")[0] for line in lines] == [f"{n}. {name}" for n, name in enumerate(TOOLS, 1)]
    assert lines[2].endswith(". Params: (path: string, content: string)")
    assert lines[4].endswith(". Params: (summary?: string)")
    assert THOUGHTS.wire_tools([spec_of(tool) for tool in TOOLS.values()]) == ()
    assert "use_tool" in THOUGHTS.format_text()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    deep: list[Inner] = Field(default_factory=list)
    size: int


class Many(Arguments):
    text: str
    numbers: list[int]
    choice: Literal["a", "b", 3]
    colour: Colour
    either: list[int | str]
    nullable: int | None
    inner: Inner
    table: dict[str, bool]
    pair: tuple[int, str]
    anything: Any
    flag: bool = True
    limit: int | None = None
    names: list[str] | None = None


def test_types_are_typescripts() -> None:
    assert parameters(Many.model_json_schema()) == (
        '(text: string, numbers: number[], choice: "a" | "b" | 3, colour: "red" | "blue", either: (number | string)[], '
        "nullable: number | null, inner: { deep?: any[]; size: number }, table: Record<string, boolean>, "
        "pair: [number, string], anything: any, flag?: boolean, limit?: number, names?: string[])"
    )
    assert parameters({"type": "object"}) == "()"
    listed = {"properties": {"x": {"type": ["string", "null"]}, "y": {"const": "k"}, "z": True}, "required": ["y", "z"]}
    assert parameters(listed) == '(x?: string, y: "k", z: any)'


def test_a_description_keeps_one_full_stop() -> None:
    specs = [ToolSpec(name="go", description=each, parameters={}) for each in ("Goes.", "Goes")]
    assert "1. go: Goes. Params: ()\n2. go: Goes. Params: ()" in THOUGHTS.tools_text(specs)


@pytest.mark.parametrize("history", ["full", "autogpt"])
def test_an_agent_works_by_thoughts(history: str, tmp_path: Path) -> None:
    stage = Stage(tmp_path, scaffold=scaffold(history=history), helpers={"fast": Fast().route()})
    play = stage.play([uses("bash", {"command": "echo one"}), says("What now?"), uses("nope", {}), FINISH])
    assert [name for name, _ in play.ran] == ["bash", "finish"]
    assert play.ending.end == "finished"
    roles = ["system", "user", *["assistant", "user"] * 4]
    assert [message["role"] for message in play.conversation] == roles
    answers = [message["content"] for message in play.conversation[3::2]]
    assert answers[0].startswith("Command bash returned (ok):\none")
    assert answers[1].startswith("Your last reply holds no JSON object")
    assert answers[2].startswith("Command nope returned (error):\nThere is no tool named 'nope'.")
    if history == "full":
        assert play.model.requests[3] == play.conversation[:8]
