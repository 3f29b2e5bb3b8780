"""Tools by name: what a scaffold names is made here, anew for each attempt."""

from __future__ import annotations

from typing import Any

from agentctl.base.errors import InputError
from agentctl.tools.files import EditFile, ListDir, ReadFile, SearchFiles, WriteFile
from agentctl.tools.finish import Finish
from agentctl.tools.shell import Job, Shell
from agentctl.tools.tool import Tool

from .scaffold import Scaffold
from .spec import Limits


def make_tools(scaffold: Scaffold, limits: Limits) -> dict[str, Tool[Any]]:
    """The scaffold's tools by name, in its order. InputError names one that there is not."""
    shell = Shell(seconds=limits.command_seconds, longest=limits.seconds)
    made: list[Tool[Any]] = [
        shell,
        Job(shell),
        ReadFile(),
        WriteFile(),
        EditFile(),
        ListDir(),
        SearchFiles(),
        Finish(check=scaffold.finish_check),
    ]
    known = {tool.name: tool for tool in made}
    unknown = [name for name in scaffold.tools if name not in known]
    if unknown:
        raise InputError(
            f"no tool is named {unknown[0]!r}",
            file=f"scaffold {scaffold.name}",
            field="tools",
            remedy=f"one of: {', '.join(known)}",
        )
    return {name: known[name] for name in scaffold.tools}
