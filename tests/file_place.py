"""The file tools over a sandbox, for the tests of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from no_deliverable import NoDeliverable, keeps_no_image

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Status
from agentctl.tools.files import EditFile, ListDir, ReadFile, SearchFiles, WriteFile
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace
from agentctl.tools.tool import ToolContext, ToolResult

TOOLS = {tool.name: tool for tool in (ReadFile(), WriteFile(), EditFile(), ListDir(), SearchFiles())}


@dataclass
class Place:
    """A sandbox over a fresh workspace `folder` in `base`, and the tools to use in it."""

    base: Path
    folder: Path
    sandbox: Sandbox
    cancel: Cancel = field(default_factory=Cancel)

    def run(self, tool: str, **arguments: Any) -> ToolResult:
        def ask(role: str, parts: Any, limit: int) -> str:
            raise AssertionError("file tools ask no model")

        context = ToolContext(
            sandbox=self.sandbox,
            deliverable=NoDeliverable(),
            cancel=self.cancel,
            outputs=self.base / "outputs",
            ask=ask,
            keep_image=keeps_no_image,
            emit=lambda kind, text: None,
            seconds_left=lambda: 600.0,
        )
        chosen = TOOLS[tool]
        return chosen.run(chosen.arguments(**arguments), context)  # type: ignore[arg-type]

    def ok(self, tool: str, **arguments: Any) -> str:
        result = self.run(tool, **arguments)
        assert result.status is Status.OK, result.text()
        return result.text()

    def error(self, tool: str, **arguments: Any) -> str:
        result = self.run(tool, **arguments)
        assert result.status is Status.ERROR, result.text()
        return result.text()


def open_place(top: Path, name: str, kind: str) -> Place:
    """A sandbox over a fresh workspace of that name. The caller closes it."""
    folder, scratch = top / "base" / name, top / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    inside = str(folder) if kind == "local" else "/workspace"
    workspace = Workspace(mounts=(Mount(inside=inside, host=folder),), scratch=scratch)
    sandbox = open_sandbox(SandboxSpec(kind=kind), workspace, owner_env=dict(os.environ))  # type: ignore[arg-type]
    return Place(folder.parent, folder, sandbox)


def rise_in_memory(work: Callable[[], None]) -> float:
    """By how many MB this process's memory rises above where it stands, at most, while `work` runs."""

    def status(key: str) -> int:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key))

    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the high-water mark starts anew
    before = status("VmRSS:")
    work()
    return (status("VmHWM:") - before) / 1024
