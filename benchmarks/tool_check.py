"""Looks at a tool that somebody wrote, and runs it in every sandbox that works here."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import ValidationError

from agentctl.agents.plugins import code_at, names_code, object_at
from agentctl.agents.toolbox import checked_tool
from agentctl.base.cancel import Cancel
from agentctl.base.deliverable import Finding
from agentctl.base.errors import AgentctlError, InputError, SetupError, refused
from agentctl.base.messages import ImageRef, Part
from agentctl.base.values import Frozen
from agentctl.tools.sandbox.protocol import Sandbox
from agentctl.tools.tool import Arguments, Tool, ToolContext, ToolResult, spec_of

from .trial import SandboxKind, trial_sandbox

_SECONDS = 60.0  # that a call may take here
_KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "local")


class Looked(Frozen):
    """One thing that was looked at. `told` is what was found: of a run what the model would be shown."""

    name: str
    state: Literal["ok", "wrong", "note"]
    told: str


def check_tool(name: str, arguments: Mapping[str, Any] | None, folder: Path) -> Iterator[Looked]:
    """Look at the tool `name`, as `FILE.py:NAME` from `folder`. With `arguments` it is run, in every sandbox.

    InputError where there is no tool of that name, or where `arguments` are not its own.
    """
    if not names_code(name):
        raise InputError(f"{name!r} names no tool", remedy="as FILE.py:NAME, NAME being a class or function in it")
    make = object_at(code_at(name, folder, field="FILE"), name.rpartition(":")[2])
    tool = checked_tool(make, name.rpartition(":")[0])
    spec = spec_of(tool)
    yield Looked(name="name", state="ok", told=spec.name)
    yield Looked(name="description", state="ok", told=spec.description)
    yield _schema(spec.parameters)
    yield _fields(tool)
    wanted = None if arguments is None else _arguments(tool, arguments)
    for kind in _KINDS:
        yield from _in_sandbox(kind, lambda: checked_tool(make, name), wanted)


def _schema(parameters: dict[str, Any]) -> Looked:
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        return Looked(name="arguments", state="wrong", told=f"no JSON Schema that a provider takes: {error.message}")
    fields = ", ".join(parameters.get("properties", {})) or "none"
    return Looked(name="arguments", state="ok", told=fields)


def _fields(tool: Tool[Any]) -> Looked:
    bare = [name for name, field in tool.arguments.model_fields.items() if not field.description]
    if bare:
        told = f"the model is not told what {', '.join(bare)} mean: give Field(description=...)"
        return Looked(name="their meaning", state="note", told=told)
    return Looked(name="their meaning", state="ok", told="described")


def _arguments(tool: Tool[Any], given: Mapping[str, Any]) -> Arguments:
    try:
        return tool.arguments.model_validate(given, strict=False)
    except ValidationError as error:
        raise refused(error, field="--arguments") from None


def _in_sandbox(kind: SandboxKind, make: Any, arguments: Arguments | None) -> Iterator[Looked]:
    where = f"in {kind}"
    try:
        with trial_sandbox(kind) as sandbox:
            yield from _run(where, make(), arguments, sandbox)
    except SetupError as error:
        yield Looked(name=where, state="note", told=f"not tried: {error}")


def _run(where: str, tool: Tool[Any], arguments: Arguments | None, sandbox: Sandbox) -> Iterator[Looked]:
    before = _process()
    try:
        if arguments is None:
            yield Looked(name=where, state="note", told="made and closed; give --arguments to see it run")
        else:
            result = tool.run(arguments, _context(sandbox))
            if not isinstance(result, ToolResult):
                yield Looked(name=where, state="wrong", told=f"run gave a {type(result).__name__}, not a ToolResult")
            else:
                yield Looked(name=where, state="ok", told=f"{result.status}: {result.text()}")
    except Exception as error:  # in an attempt it would be told to the model, and the tool's author wants to know
        yield Looked(name=where, state="wrong", told=f"run raised {type(error).__name__}: {error}")
    try:
        tool.close()
        tool.close()
    except Exception as error:
        yield Looked(
            name=where, state="wrong", told=f"close, or a second close, raised {type(error).__name__}: {error}"
        )
    for what, now in _process().items():
        if now != before[what]:
            yield Looked(name=where, state="wrong", told=f"it changed {what} of the process that all attempts share")


def _process() -> dict[str, object]:
    """What a tool may not change: it may be run in a thread of somebody's program."""
    return {
        "the working folder": Path.cwd(),
        "the environment": dict(os.environ),
        "the signal handlers": [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "the threads": threading.active_count(),
    }


class _Nothing:
    """A task that asks for nothing."""

    path = "nothing"

    def check(self) -> list[Finding]:
        return []

    def still_missing(self) -> list[str]:
        return []

    def names(self) -> list[str]:
        return []

    def given(self, path: str | None = None) -> list[str] | None:
        return None

    def finish_text(self) -> str:
        return ""


def _context(sandbox: Sandbox) -> ToolContext:
    def ask(role: str, parts: Sequence[Part], limit: int | None = None, *, closing: bool = False) -> str:
        raise AgentctlError(f"no {role} model is asked while a tool is looked at")

    def keep_image(data: bytes, media_type: str, width: int, height: int) -> ImageRef:
        raise AgentctlError("no image is kept while a tool is looked at")

    return ToolContext(
        sandbox=sandbox,
        deliverable=_Nothing(),
        cancel=Cancel(),
        outputs=sandbox.workspace.scratch.parent / "outputs",
        ask=ask,
        keep_image=keep_image,
        emit=lambda kind, text: None,
        seconds_left=lambda: _SECONDS,
    )
