"""The commands `execute_shell` and `execute_shell_popen`."""

from __future__ import annotations

from pydantic import Field

from agentctl.base.text import decode

from ..sandbox.running import MAX_WORD
from ..tool import Arguments, ToolContext, ToolResult
from .command import Commands
from .place import root

START_SECONDS = 20.0  # for a background command's process to be there, on a loaded machine

# The command is a word of its own, so nothing in it can end or change the line around it.
_BEHIND = 'sh -c "$1" </dev/null >/dev/null 2>&1 & echo "$!"'


class ShellArguments(Arguments):
    command_line: str = Field(min_length=1, description="The command line to execute.")


class ExecuteShell:
    """Runs a command in a fresh `sh`, to its end or its limit."""

    name = "execute_shell"
    arguments = ShellArguments

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    @property
    def description(self) -> str:
        return (
            "Run a shell command that asks no questions, and get what it printed. Every command starts anew in the "
            f"task's folder, and is stopped after {self._commands.seconds:g} seconds."
        )

    def run(self, arguments: ShellArguments, context: ToolContext) -> ToolResult:
        """Both streams under their labels; exit status, limit reached and cuts in a part of their own."""
        command = arguments.command_line
        if refusal := _unfit(command):
            return ToolResult.error(refusal)
        argv = ["sh", "-c", command]
        return self._commands.run(argv, context, name=self.name, cwd=root(context.sandbox))[1]

    def close(self) -> None:
        self._commands.close()


class ExecuteShellPopen:
    """Starts a command in the background. Nobody hears what it prints, and it ends with the attempt."""

    name = "execute_shell_popen"
    description = (
        "Start a shell command that asks no questions in the background, in the task's folder, and get its process "
        "id. What it prints is discarded: have it write to a file what you want to see. It ends with the task."
    )
    arguments = ShellArguments

    def run(self, arguments: ShellArguments, context: ToolContext) -> ToolResult:
        command = arguments.command_line
        if refusal := _unfit(command):
            return ToolResult.error(refusal)
        argv = ["sh", "-c", _BEHIND, "sh", command]
        done = context.sandbox.exec(argv, timeout=START_SECONDS, cwd=root(context.sandbox))
        if done.exit_code != 0:
            said = decode(done.stderr).strip() or f"no process in {START_SECONDS:g} s"
            return ToolResult.error(f"The command was not started: {said}")
        return ToolResult.of(f"Started in the background, process id {decode(done.stdout).strip()}.")

    def close(self) -> None:
        pass


def _unfit(command: str) -> str:
    """Why no shell can be given `command`, or nothing."""
    if "\0" in command:
        return (
            "The command was not run: it holds a NUL character (\\0), which no shell command can. Write that byte "
            "as \\0 in a format of printf instead."
        )
    if (size := len(command.encode())) >= MAX_WORD:
        return (
            f"The command was not run: it has {size:,} bytes, and a command line takes less than {MAX_WORD:,}. Put it "
            "into a file with write_file, and run that."
        )
    return ""
