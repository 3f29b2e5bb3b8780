"""AutoGPT's commands over a sandbox laid out as a capsule is, for the tests of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from no_deliverable import NoDeliverable, keeps_no_image

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Part, Status, Text
from agentctl.tools.autogpt import OpenItems, autogpt_tools
from agentctl.tools.finish import Checks, Finish
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace
from agentctl.tools.tool import Tool, ToolContext, ToolResult

CAPSULE = "capsule-1234567"


@dataclass
class Desk:
    """The commands at work. `folder` is the capsule's folder on the host, `inside` its path inside."""

    base: Path
    folder: Path
    inside: str
    sandbox: Sandbox
    tools: dict[str, Tool[Any]]
    items: OpenItems
    cancel: Cancel = field(default_factory=Cancel)
    asked: list[tuple[str, str, int]] = field(default_factory=list)  # what a helper model was asked
    notes: list[tuple[str, str]] = field(default_factory=list)
    seconds_left: float = 600.0

    def context(self) -> ToolContext:
        def ask(role: str, parts: Sequence[Part], limit: int) -> str:
            self.asked.append((role, "".join(part.text for part in parts if isinstance(part, Text)), limit))
            return "what the fast model says"

        return ToolContext(
            sandbox=self.sandbox,
            deliverable=NoDeliverable(),
            cancel=self.cancel,
            outputs=self.base / "outputs",
            ask=ask,
            keep_image=keeps_no_image,
            emit=lambda kind, text: self.notes.append((kind, text)),
            seconds_left=lambda: self.seconds_left,
        )

    def run(self, name: str, **arguments: Any) -> ToolResult:
        """Call a command as the loop does."""
        tool = self.tools[f"autogpt/{name}"]
        return tool.run(tool.arguments.model_validate(arguments), self.context())

    def ok(self, name: str, **arguments: Any) -> str:
        result = self.run(name, **arguments)
        assert result.status is Status.OK, result.text()
        return result.text()

    def error(self, name: str, **arguments: Any) -> str:
        result = self.run(name, **arguments)
        assert result.status is Status.ERROR, result.text()
        return result.text()

    def shell(self, command: str) -> tuple[str, str]:
        """Both streams of a command that ends well."""
        return streams(self.run("execute_shell", command_line=command))

    def close(self) -> None:
        for tool in self.tools.values():
            tool.close()
        self.sandbox.close()


def streams(result: ToolResult) -> tuple[str, str]:
    """Standard output and standard error as shown."""
    out, err = (part.text for part in result.parts[:2] if isinstance(part, Text))
    assert out.startswith("Standard output:\n") and err.startswith("Standard error:\n")
    return out.partition("\n")[2], err.partition("\n")[2]


def open_desk(base: Path, kind: str, *, seconds: float = 60.0, **spec: Any) -> Desk:
    """A sandbox over a fresh capsule's folder below `base`, without a proxy of the host's. The caller closes it."""
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    work, scratch = base / "workspace", base / "scratch"
    (work / CAPSULE).mkdir(parents=True)
    scratch.mkdir()
    start = str(work) if kind == "local" else "/workspace"
    workspace = Workspace(mounts=(Mount(inside=start, host=work),), scratch=scratch, material=f"{start}/{CAPSULE}")
    sandbox = open_sandbox(SandboxSpec(kind=kind, **spec), workspace, owner_env=env)  # type: ignore[arg-type]
    items = OpenItems()
    tools = autogpt_tools(seconds=seconds, items=items, finish=Finish(Checks()))
    return Desk(base, work / CAPSULE, f"{start}/{CAPSULE}", sandbox, tools, items)
