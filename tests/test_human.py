"""A person who plays the model: what they see, how what they type is read, and a whole run at a real terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agentctl.agents.manifest import read_manifest, read_result
from agentctl.agents.models.human import HumanClient
from agentctl.agents.models.protocol import Fault, FinishReason, ModelSpec, ProviderError, RawReply, WireRequest
from agentctl.agents.models.wire import encode, encode_tool
from agentctl.base.cancel import Cancel
from agentctl.base.messages import ImageRef, Message, Role, Text, ToolSpec


@dataclass
class Typist:
    """Types the given lines, and keeps what they were shown."""

    lines: list[str]
    shown: list[tuple[str, str]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)

    def show(self, title: str, text: str) -> None:
        self.shown.append((title, text))

    def line(self, prompt: str, cancel: Cancel) -> str | None:
        cancel.check()
        self.prompts.append(prompt)
        return self.lines.pop(0) if self.lines else None


def tool(name: str, *required: str) -> Any:
    properties = {each: {"type": "string"} for each in ("command", "path", "text")}
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return encode_tool(ToolSpec(name=name, description=f"Does {name}.\nAt length.", parameters=schema))


TOOLS = [tool("bash", "command"), tool("write_file", "path", "text"), tool("finish")]


def a_request(*said: tuple[Role, str], tools: Any = TOOLS) -> WireRequest:
    messages = [
        encode(Message(role=role, parts=(Text(text=text),)), n, images=lambda ref: b"")
        for n, (role, text) in enumerate(said, 1)
    ]
    return WireRequest("main", ModelSpec(name="human"), messages, tools, 100, b"{}", 5.0)


def answer(*lines: str, tools: Any = TOOLS) -> RawReply:
    return HumanClient(Typist([*lines])).send(a_request((Role.USER, "Work."), tools=tools), Cancel())


@pytest.mark.parametrize(
    ("lines", "text", "call"),
    [
        (["!ls -l | wc"], "", ("bash", {"command": "ls -l | wc"})),
        (["I look.", "", "!ls"], "I look.", None),
        (["I look.", "Then I read.", "!ls"], "I look.\nThen I read.", ("bash", {"command": "ls"})),
        (["!", "cat <<E", "", "grüße", "E", "."], "", ("bash", {"command": "cat <<E\n\ngrüße\nE"})),
        (["finish"], "", ("finish", {})),
        (['write_file {"path": "a", "text": "b"}'], "", ("write_file", {"path": "a", "text": "b"})),
        (["", "  ", "finish the work", "bash", ""], "finish the work\nbash", None),
        (['write_file {"path": }', 'write_file {"path": "a"}'], "", ("write_file", {"path": "a"})),
        (['{"path": "a"}', 'nothing {"x": 1}', ""], '{"path": "a"}\nnothing {"x": 1}', None),
        (["?", "finish"], "", ("finish", {})),
    ],
)
def test_what_is_typed_makes_a_reply(lines: list[str], text: str, call: tuple[str, Any] | None) -> None:
    reply = answer(*lines)
    assert "\n".join(part.text for part in reply.parts if isinstance(part, Text)) == text
    assert [(each.name, json.loads(each.arguments)) for each in reply.calls] == ([call] if call else [])
    assert reply.finish is (FinishReason.TOOL_CALLS if call else FinishReason.STOP)
    assert reply.usage is None


@pytest.mark.parametrize(
    ("next_line", "text", "called"),
    [
        ('bash {"command": "ls"}', "first", True),
        ("I mean", "first\nI mean", False),
        ("?", "first", False),
        ("", "first", False),
    ],
)
def test_a_line_with_bad_arguments_counts_as_not_typed(next_line: str, text: str, called: bool) -> None:
    typist = Typist(["first", 'bash {"command": }', next_line, ""])
    reply = HumanClient(typist).send(a_request(), Cancel())
    assert [part.text for part in reply.parts if isinstance(part, Text)] == [text]
    assert bool(reply.calls) == called
    assert ("not sent" in dict(typist.shown)) and (next_line != "?" or typist.shown[-1][0] == "how to answer")


def test_where_calls_go_as_text_they_are_written_so() -> None:
    for line, call in (("!ls", {"name": "bash", "arguments": {"command": "ls"}}), ("finish", {"name": "finish"})):
        reply = answer("So:", line, tools=[])
        (part,) = reply.parts
        assert isinstance(part, Text) and reply.calls == ()
        assert part.text.startswith("So:\n```json\n") and part.text.endswith("\n```")
        assert json.loads(part.text.split("\n")[2]).items() >= call.items()


def test_only_what_is_new_is_shown_and_never_the_persons_own_words() -> None:
    typist = Typist(["!ls", "?", "finish"])
    client = HumanClient(typist)
    first = [(Role.SYSTEM, "You help."), (Role.USER, "Do it.")]
    client.send(a_request(*first), Cancel())
    assert [title for title, _ in typist.shown] == ["how to answer", "system", "user"]
    typist.shown.clear()
    client.send(a_request(*first, (Role.ASSISTANT, "!ls"), (Role.USER, "a.txt")), Cancel())
    assert typist.shown[0] == ("user", "a.txt")
    title, text = typist.shown[1]
    assert title == "how to answer" and "write_file {[command], path, text}  Does write_file." in text


def test_images_are_told() -> None:
    image = ImageRef(digest="0" * 64, media_type="image/png", width=1, height=1)
    message = encode(Message(role=Role.USER, parts=(Text(text="see"), image)), 1, images=lambda ref: b"x")
    typist = Typist(["finish"])
    request = WireRequest("main", ModelSpec(name="human"), [message], TOOLS, 100, b"{}", 5.0)
    HumanClient(typist).send(request, Cancel())
    assert typist.shown[-1] == ("user", "see\n[image_url]")


def test_a_person_who_leaves_gives_no_reply() -> None:
    with pytest.raises(ProviderError) as caught:
        answer("I think")
    assert caught.value.fault is Fault.EXHAUSTED


# At a terminal

SOLVE = ["-m", "agentctl", "solve", "capsule-4810297", "--level", "easy", "--model", "human", "--sandbox", "local"]


def test_without_a_terminal_it_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *SOLVE], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "at a terminal" in done.stderr and "script:FILE" in done.stderr
    assert not (tmp_path / "runs").exists()


@contextmanager
def at_terminal(folder: Path, *arguments: str) -> Iterator[Any]:
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "100"}
    child = pexpect.spawn(sys.executable, [*arguments], cwd=str(folder), env=environment, encoding="utf-8", timeout=30)
    try:
        yield child
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)


def test_a_person_plays_leaves_and_goes_on(tmp_path: Path) -> None:
    with at_terminal(tmp_path, *SOLVE, "--record", "record") as terminal:
        terminal.expect("how to answer")
        terminal.expect("── user")
        terminal.expect("> ")
        terminal.sendline("I look around.")
        terminal.sendline("!echo found-$((40 + 2))")
        terminal.expect("── tool")
        terminal.expect("found-42")
        terminal.expect("> ")
        terminal.sendline("finish")
        terminal.expect("There is no report yet")
        terminal.expect("> ")
        terminal.sendeof()
        terminal.expect("left")
        terminal.expect("--resume")
    record = tmp_path / "record"
    result = read_result(record)
    assert read_manifest(record).kind == "human"
    assert result is not None and (result.kind, result.steps, result.spend.books.spent) == ("human", 2, 0)

    with at_terminal(tmp_path, *SOLVE[:3], "--resume", "record", "--sandbox", "local", "--record", "again") as terminal:
        terminal.expect("found-42")
        terminal.expect("There is no report yet")
        terminal.expect("> ")
        terminal.sendintr()
        terminal.expect("cancelled")
    result = read_result(tmp_path / "again")
    assert result is not None and (result.end, result.steps) == ("cancelled", 2)
