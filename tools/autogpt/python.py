"""The commands `execute_python_code` and `execute_python_file`, with the Python that packages are installed in."""

from __future__ import annotations

import shlex
from itertools import count
from pathlib import PurePosixPath

from pydantic import Field

from agentctl.base.messages import Status

from ..files.paths import FAILURES, failure, shown, stat_file
from ..sandbox.protocol import Sandbox
from ..tool import Arguments, ToolContext, ToolResult
from .command import Commands
from .place import placed, root

REMOVE_SECONDS = 20.0
ENTRIES = 1_000_000  # of a folder: all of them


class CodeArguments(Arguments):
    code: str = Field(description="The Python code to run.")


class ExecutePythonCode:
    """Runs code from a file that stands in the task's folder meanwhile, so that it can import what is there."""

    name = "execute_python_code"
    description = (
        "Run Python code in the task's folder, and get what it printed; use print for what you want to see. Nothing "
        "is kept from one call to the next."
    )
    arguments = CodeArguments

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def run(self, arguments: CodeArguments, context: ToolContext) -> ToolResult:
        sandbox = context.sandbox
        try:
            path = _free_name(sandbox)
            sandbox.write(path, arguments.code.encode())
        except FAILURES as error:
            return failure(sandbox, root(sandbox), error)
        try:
            return _run(self._commands, [path], context, self.name)
        finally:
            sandbox.exec(["rm", "-f", "--", path], timeout=REMOVE_SECONDS, cwd="/")

    def close(self) -> None:
        self._commands.close()


class FileArguments(Arguments):
    filename: str = Field(min_length=1, description="The Python file to run.")
    args: list[str] | str = Field(default=[], description="What to give it on its command line.")


class ExecutePythonFile:
    """Runs a Python file, with the task's folder as its working folder."""

    name = "execute_python_file"
    description = "Run an existing Python file in the task's folder, and get what it printed."
    arguments = FileArguments

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def run(self, arguments: FileArguments, context: ToolContext) -> ToolResult:
        path = placed(context.sandbox, arguments.filename)
        if PurePosixPath(path).suffix != ".py":
            return ToolResult.error(f"{shown(arguments.filename)} was not run: its name does not end in .py.")
        try:
            path = stat_file(context.sandbox, path).path
            words = shlex.split(arguments.args) if isinstance(arguments.args, str) else arguments.args
        except FAILURES as error:
            return failure(context.sandbox, path, error)
        return _run(self._commands, [path, *words], context, self.name)

    def close(self) -> None:
        self._commands.close()


def _run(commands: Commands, words: list[str], context: ToolContext, name: str) -> ToolResult:
    argv = ["python", "-B", *words]
    ended, result = commands.run(argv, context, name=name, cwd=root(context.sandbox))
    return result.model_copy(update={"status": Status.ERROR}) if ended.status else result


def _free_name(sandbox: Sandbox) -> str:
    """A path in the task's folder where there is nothing. Always the first such one, so that replays print the same."""
    folder = sandbox.stat(root(sandbox)).path
    taken = {info.path for info in sandbox.list(folder, limit=ENTRIES)}  # links too, which are not followed
    return next(path for number in count(1) if (path := f"{folder}/temp_{number}.py") not in taken)
