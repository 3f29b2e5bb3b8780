"""For tests: an agent at work, with a scripted model and everything else real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentctl.agents.asking import Asking
from agentctl.agents.budget import Budget
from agentctl.agents.context import ContextItem, make_context
from agentctl.agents.ends import Ending
from agentctl.agents.events import MessageAdded
from agentctl.agents.history.make import make_history
from agentctl.agents.loop import Loop
from agentctl.agents.models.gateway import Gateway
from agentctl.agents.models.protocol import ModelSpec, RawReply, WireRequest
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.route import DEFAULT_BODY, Route
from agentctl.agents.pricing import CacheMarkers, Free, Pricing
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.purse import Purse
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import Record
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import Limits
from agentctl.agents.state import State, Step
from agentctl.agents.toolbox import make_tools
from agentctl.agents.transcript import Transcript
from agentctl.base.cancel import Cancel
from agentctl.base.deliverable import Deliverable, Finding
from agentctl.base.jsonio import dumps
from agentctl.base.messages import Message, Role, Text
from agentctl.tools.finish import make_checks
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace
from agentctl.tools.tool import Tool, ToolContext, ToolResult

NOON = datetime(2024, 5, 13, 12, tzinfo=UTC)  # whenever a test runs


class Scripted:
    """A deliverable that stands when the model's script has come to its last turn."""

    path = "nothing"

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    def check(self) -> list[Finding]:
        return []

    def still_missing(self) -> list[str]:
        return [] if self._model.at_its_end else ["what the rest of the script does"]

    def names(self) -> list[str]:
        return []

    def given(self, path: str | None = None) -> list[str] | None:
        return None

    def finish_text(self) -> str:
        return "Call finish when you are done."


class ScriptedModel:
    """Answers with the given turns in order, and keeps what it was sent. Fails the test when it runs out."""

    kind = "script"

    def __init__(self, turns: Sequence[Mapping[str, Any]]) -> None:
        self._turns = list(turns)
        self.requests: list[list[dict[str, Any]]] = []

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.requests.append([message.tree for message in request.messages])
        if len(self.requests) > len(self._turns):
            raise AssertionError("the loop asked more often than the script answers")
        turn = self._turns[len(self.requests) - 1]
        choice = {"index": 0, "message": turn["message"], "finish_reason": turn.get("finish_reason")}
        return decode_reply({"choices": [choice], "usage": turn.get("usage")})

    @property
    def at_its_end(self) -> bool:
        return len(self.requests) >= len(self._turns)

    def close(self) -> None:
        pass


class Watched:
    """A tool that notes what it was really run with."""

    def __init__(self, tool: Tool[Any], ran: list[tuple[str, dict[str, Any]]]) -> None:
        self._tool = tool
        self._ran = ran
        self.name, self.description, self.arguments = tool.name, tool.description, tool.arguments

    def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        self._ran.append((self.name, arguments.model_dump(exclude_none=True, exclude_unset=True)))
        return self._tool.run(arguments, context)

    def close(self) -> None:
        self._tool.close()


@dataclass
class Played:
    """What came of it."""

    ending: Ending
    state: State
    model: ScriptedModel
    ran: list[tuple[str, dict[str, Any]]]
    reader: RecordReader
    workspace: Path

    @property
    def tool_messages(self) -> list[dict[str, Any]]:
        """The tool messages of the conversation as it stands at the end, as a provider would get them."""
        return [message for message in self.conversation if message["role"] == "tool"]

    @property
    def conversation(self) -> list[dict[str, Any]]:
        from agentctl.agents.models.wire import encode

        return [
            encode(event.message, event.n, images=lambda ref: b"").tree
            for event in self.reader.events
            if isinstance(event, MessageAdded) and not event.aside
        ]


@dataclass
class Stage:
    """A workspace with a local sandbox, and what an agent needs to work in it."""

    folder: Path
    scaffold_name: str = "plain"
    scaffold: Scaffold | None = None  # in place of the one of that name
    limits: Limits = field(default_factory=lambda: Limits(command_seconds=20))
    extra_tools: Sequence[Tool[Any]] = ()
    cancel: Cancel = field(default_factory=Cancel)
    while_running: Callable[[Cancel], None] | None = None
    window: int = 128_000
    price: Pricing = field(default_factory=lambda: Free(name="scripted"))
    purse: Purse = field(default_factory=lambda: Purse(Decimal(4)))
    spec: ModelSpec = field(default_factory=lambda: ModelSpec(name="scripted"))
    markers: CacheMarkers = CacheMarkers.NONE
    helpers: Mapping[str, Route] = field(default_factory=dict)  # by role
    context: Sequence[ContextItem] = ()
    deliverable: Callable[[Sandbox], Deliverable] | None = None
    work_seconds: Callable[[], float] = lambda: 0.0
    prompt: tuple[str, str] = ("You are tested.", "Do it.")  # the system message and the task
    earlier: Sequence[Step] = ()  # that were taken already
    body_limit: int = DEFAULT_BODY
    sandbox: Sandbox | None = None  # one that is open already, in place of a fresh one

    def play(self, turns: Sequence[Mapping[str, Any]], model: ScriptedModel | None = None) -> Played:
        if self.sandbox is not None:
            self.folder.mkdir()
            host = self.sandbox.workspace.mounts[0].host
            return self._play(self.sandbox, model or ScriptedModel(turns), host)
        root = self.folder / "workspace"
        scratch = self.folder / "scratch"
        root.mkdir(parents=True)
        scratch.mkdir()
        workspace = Workspace(mounts=(Mount(inside=str(root), host=root),), scratch=scratch)
        sandbox = open_sandbox(SandboxSpec(kind="local"), workspace, owner_env={})
        try:
            return self._play(sandbox, model or ScriptedModel(turns), root)
        finally:
            sandbox.close()

    def _play(self, sandbox: Sandbox, model: ScriptedModel, root: Path) -> Played:
        scaffold = self.scaffold or load_scaffold(self.scaffold_name)
        checks = make_checks(scaffold.checks, faults=scaffold.faults)
        ran: list[tuple[str, dict[str, Any]]] = []
        own = make_tools(scaffold, self.limits, checks)
        tools: dict[str, Tool[Any]] = {name: Watched(tool, ran) for name, tool in own.items()}
        tools |= {tool.name: Watched(tool, ran) for tool in self.extra_tools}
        record = Record(self.folder / "record", dumps({"for": "a test"}), Secrets({}), now=lambda: 0.0)
        route = Route(self.spec, model, self.price, self.window, markers=self.markers, body_limit=self.body_limit)
        gateway = Gateway({"main": route, **self.helpers}, self.purse, record, self.cancel)
        transcript = Transcript(record, Secrets({}))
        asker = Asking(gateway, transcript)
        protocol = PROTOCOLS[scaffold.protocol]
        deliverable = self.deliverable(sandbox) if self.deliverable else Scripted(model)
        budget = Budget(scaffold, self.limits, gateway, asker, deliverable, self.work_seconds)
        context = [*self.context, *make_context(scaffold, own, sandbox, now=lambda: NOON)]
        loop = Loop(
            scaffold=scaffold,
            protocol=protocol,
            history=make_history(scaffold, protocol, transcript, context, asker, record.emit, tools, self.limits),
            asker=asker,
            tools=tools,
            checks=checks,
            context=ToolContext(
                sandbox=sandbox,
                deliverable=deliverable,
                cancel=self.cancel,
                outputs=record.outputs,
                ask=budget.ask,
                keep_image=record.keep_image,
                emit=lambda kind, text: None,
                seconds_left=lambda: 60.0,
            ),
            budget=budget,
            limits=self.limits,
            record=record,
            work_seconds=self.work_seconds,
        )
        state = State(
            prefix=(
                Message(role=Role.SYSTEM, parts=(Text(text=self.prompt[0]),)),
                Message(role=Role.USER, parts=(Text(text=self.prompt[1]),)),
            ),
            steps=list(self.earlier),
        )
        if self.while_running:
            self.while_running(self.cancel)
        try:
            ending = loop.run(state)
        finally:
            for tool in tools.values():
                tool.close()
            record.close()
        return Played(ending, state, model, ran, RecordReader(self.folder / "record"), root)


def check_pairs(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every call id has exactly one tool message, directly after its assistant message, and none repeats."""
    seen: set[str] = set()
    expected: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert expected, f"a tool message without a call before it: {message}"
            assert message["tool_call_id"] == expected.pop(0)
            continue
        assert not expected, f"calls without an answer: {expected}"
        expected = [call["id"] for call in message.get("tool_calls") or []]
        for call in expected:
            assert call not in seen, f"the id {call} is used twice"
            seen.add(call)
    assert not expected, f"calls without an answer at the end: {expected}"
