"""Tools by name: what a scaffold names is made here, anew for each attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentctl.base.errors import InputError
from agentctl.tools.files import EditFile, ListDir, ReadFile, SearchFiles, WriteFile
from agentctl.tools.finish import Finish
from agentctl.tools.shell import Shell
from agentctl.tools.tool import Tool

from .scaffold import Scaffold
from .spec import Limits

Make = Callable[[Scaffold, Limits], Tool[Any]]

_TOOLS: dict[str, Make] = {
    "bash": lambda scaffold, limits: Shell(seconds=limits.command_seconds, longest=limits.seconds),
    "read_file": lambda scaffold, limits: ReadFile(),
    "write_file": lambda scaffold, limits: WriteFile(),
    "edit_file": lambda scaffold, limits: EditFile(),
    "list_dir": lambda scaffold, limits: ListDir(),
    "search_files": lambda scaffold, limits: SearchFiles(),
    "finish": lambda scaffold, limits: Finish(check=scaffold.finish_check),
}


def make_tools(scaffold: Scaffold, limits: Limits) -> dict[str, Tool[Any]]:
    """The scaffold's tools by name, in its order. InputError names one that there is not."""
    unknown = [name for name in scaffold.tools if name not in _TOOLS]
    if unknown:
        raise InputError(
            f"no tool is named {unknown[0]!r}",
            file=f"scaffold {scaffold.name}",
            field="tools",
            remedy=f"one of: {', '.join(_TOOLS)}",
        )
    return {name: _TOOLS[name](scaffold, limits) for name in scaffold.tools}
