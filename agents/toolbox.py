"""Tools by id: what a scaffold names is made here, anew for each attempt."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from agentctl.base.errors import InputError
from agentctl.tools.autogpt import OpenItems, autogpt_tools
from agentctl.tools.files import EditFile, ListDir, ReadFile, SearchFiles, WriteFile
from agentctl.tools.finish import Checks, Finish, make_checks
from agentctl.tools.shell import Job, Shell
from agentctl.tools.tool import Arguments, Tool, spec_of
from agentctl.tools.vision import QueryImages

from .plugins import Code, code_of, names_code, object_at, packaged, packaged_object

if TYPE_CHECKING:
    from .scaffold import Scaffold
    from .spec import Limits


@dataclass(frozen=True)
class Kit:
    """What an attempt's tools are made from, and share."""

    scaffold: Scaffold
    limits: Limits
    checks: Checks

    @cached_property
    def shell(self) -> Shell:
        return Shell(seconds=self.limits.command_seconds, longest=self.limits.seconds)

    @cached_property
    def autogpt(self) -> dict[str, Tool[Any]]:
        finish = Finish(self.checks)
        return autogpt_tools(seconds=self.limits.command_seconds, items=OpenItems(), finish=finish)


_TOOL = "a tool has name, description, arguments, run and close: agentctl tool check FILE.py:NAME says more"

Maker: TypeAlias = Callable[[Kit], Tool[Any]]

AUTOGPT = (
    *("execute_shell", "execute_shell_popen", "execute_python_code", "execute_python_file", "read_file", "write_file"),
    *("create_file", "list_folder", "open_file", "open_folder", "close_context_item", "web_search", "search"),
    *("read_webpage", "finish"),
)  # names of AutoGPT's commands


def _autogpt(id: str, kit: Kit) -> Tool[Any]:
    return kit.autogpt[id]


MAKERS: dict[str, Maker] = {
    "bash": lambda kit: kit.shell,
    "job": lambda kit: Job(kit.shell),
    "read_file": lambda kit: ReadFile(),
    "write_file": lambda kit: WriteFile(),
    "edit_file": lambda kit: EditFile(),
    "list_dir": lambda kit: ListDir(),
    "search_files": lambda kit: SearchFiles(),
    "vision": lambda kit: QueryImages(),
    "finish": lambda kit: Finish(kit.checks),
    **{f"autogpt/{name}": partial(_autogpt, f"autogpt/{name}") for name in AUTOGPT},
}


def make_tools(scaffold: Scaffold, limits: Limits, checks: Checks | None = None) -> dict[str, Tool[Any]]:
    """The scaffold's tools by the name that the model calls, in its order. `checks` are those of the attempt.

    InputError where there is no such tool, or where two have the same name.
    """
    if checks is None:
        checks = make_checks(scaffold.checks, faults=scaffold.faults)
    kit = Kit(scaffold, limits, checks)
    tools: dict[str, Tool[Any]] = {}
    for id in scaffold.tools:
        tool = _made(id, kit)
        if tool.name in tools:
            raise _wrong(scaffold, f"two tools are named {tool.name!r}", "leave one out")
        tools[tool.name] = tool
    return tools


def _made(id: str, kit: Kit) -> Tool[Any]:
    if maker := MAKERS.get(id):
        return maker(kit)
    code = kit.scaffold.code.get(id)
    if code is None:
        known = ", ".join([*MAKERS, *packaged("tools")])
        raise _wrong(kit.scaffold, f"no tool is named {id!r}", f"one of: {known}; or FILE.py:NAME")
    make = object_at(code, id.rpartition(":")[2]) if names_code(id) else _packaged(id, code, kit.scaffold)
    return checked_tool(make, code.source)


def _packaged(id: str, code: Code, scaffold: Scaffold) -> Any:
    """What the package that `code` names brings as `id`. InputError where it is not there, or in another version."""
    entry = packaged("tools").get(id)
    if entry is None:
        told = f"{id!r} is a tool of {code.source}, which is not installed"
        raise _wrong(scaffold, told, f"pip install {code.source}")
    if (now := code_of(entry)) != code:
        told = f"{id!r} was a tool of {code.source} {code.digest}, and now is one of {now.source} {now.digest}"
        raise _wrong(scaffold, told, f"pip install {code.source}=={code.digest}")
    return packaged_object(entry)


def checked_tool(make: Any, source: str) -> Tool[Any]:
    """The tool that somebody's class or function `make` makes. InputError where what it makes is no tool."""
    try:
        tool: Any = make()
        spec = spec_of(tool)
    except Exception as error:
        raise InputError(f"makes no tool: {type(error).__name__}: {error}", file=source, remedy=_TOOL) from None
    faults = [
        problem
        for problem, wrong in (
            (
                "its name is not of letters, digits, _ and -",
                not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", spec.name),
            ),
            ("its description is empty", not spec.description.strip()),
            ("its arguments are no class of tools.tool.Arguments", not issubclass(tool.arguments, Arguments)),
            ("it can't be run", not callable(getattr(tool, "run", None))),
            ("it can't be closed", not callable(getattr(tool, "close", None))),
        )
        if wrong
    ]
    if faults:
        raise InputError(f"makes no tool: {faults[0]}", file=source, remedy=_TOOL)
    checked: Tool[Any] = tool
    return checked


def _wrong(scaffold: Scaffold, problem: str, remedy: str) -> InputError:
    return InputError(problem, file=f"scaffold {scaffold.name}", field="tools", remedy=remedy)
