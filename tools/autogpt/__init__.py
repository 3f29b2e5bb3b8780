"""The commands of AutoGPT under their own names and arguments. docs/fidelity.md lists where they differ, and why."""

from __future__ import annotations

from typing import Any

from ..tool import Tool
from .command import Commands
from .files import ListFolder, ReadFile, WriteFile
from .finish import FinishWithReason
from .open_items import CloseContextItem, OpenFile, OpenFolder, OpenItem, OpenItems
from .python import ExecutePythonCode, ExecutePythonFile
from .shell import ExecuteShell, ExecuteShellPopen
from .web import ReadWebpage, WebSearch

__all__ = ["OpenItem", "OpenItems", "autogpt_tools"]


def autogpt_tools(*, seconds: float, items: OpenItems, finish: Tool[Any]) -> dict[str, Tool[Any]]:
    """The commands of one attempt by id (`autogpt/NAME`), `create_file` and `search` being second names.

    `seconds` is the limit of a command that runs a program, `items` what the prompt shows as open, `finish` the tool
    that ends the attempt.
    """
    commands = Commands(seconds)
    made: list[Tool[Any]] = [
        ExecuteShell(commands),
        ExecuteShellPopen(),
        ExecutePythonCode(commands),
        ExecutePythonFile(commands),
        ReadFile(),
        WriteFile(),
        WriteFile("create_file"),
        ListFolder(),
        OpenFile(items),
        OpenFolder(items),
        CloseContextItem(items),
        WebSearch(commands),
        WebSearch(commands, "search"),
        ReadWebpage(commands),
        FinishWithReason(finish),
    ]
    return {f"autogpt/{tool.name}": tool for tool in made}
