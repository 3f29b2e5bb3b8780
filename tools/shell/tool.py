"""The tool `bash`: runs a command in the attempt's shell and says how it ended."""

from __future__ import annotations

from pydantic import Field

from agentctl.base.messages import Status, Text
from agentctl.base.text import clean

from ..tool import Arguments, ToolContext, ToolResult
from .capture import Capture, Shown
from .session import Ended, How, Late, Restart, Session

DEFAULT_SECONDS = 600.0
LONGEST_SECONDS = 7200.0
LIMIT = 20_000  # characters of output shown
SLOW_SECONDS = 10.0  # from here on the time a command took is told
NO_OUTPUT = "(no output)"


class BashArguments(Arguments):
    command: str = Field(description="The command or script to run; any number of lines.")
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds after which the command is stopped."
    )


class Shell:
    """The tool `bash`. One shell serves the whole attempt: see `session.Session`.

    `seconds` is the limit in seconds of a call that gives none, `longest` the most that a call may ask for (more is
    cut to it), `limit` the characters of output shown; of a longer output both ends are shown, and the record keeps it.

    A result's first part is the output alone. A second part, where there is something to tell, holds notices: exit
    status, limit reached, output cut, a new shell, later output of background processes.
    """

    name = "bash"
    arguments = BashArguments

    def __init__(
        self, *, seconds: float = DEFAULT_SECONDS, longest: float = LONGEST_SECONDS, limit: int = LIMIT
    ) -> None:
        self._seconds = min(seconds, longest)
        self._longest = longest
        self._limit = limit
        self._session: Session | None = None
        self._calls = 0

    @property
    def description(self) -> str:
        return (
            "Run a command in a bash shell. You get its output, stderr included, and then its exit status and time "
            f"where that is not 0, where there is no output, or where it took more than {SLOW_SECONDS:g} s. The shell "
            "persists: working directory, variables and functions stay from one call to the next. Standard input is "
            "empty and nobody answers questions, so use options such as -y or -m. A command is stopped after "
            f"{self._seconds:g} seconds unless `timeout` says otherwise (at most {self._longest:g}). Of an output "
            f"longer than {self._limit} characters only the beginning and the end are shown: send long output to a "
            "file."
        )

    def session(self, context: ToolContext) -> Session:
        """The attempt's shell session, begun with the first use."""
        if self._session is None:
            self._session = Session(context.sandbox)
        return self._session

    def run(self, arguments: BashArguments, context: ToolContext) -> ToolResult:
        """Run the command to its end or its limit. SandboxError when no shell can be had any more."""
        command, notes = _normal(arguments.command)
        if "\0" in command:
            return ToolResult.error(
                "The command was not run: it holds a NUL character (\\0), which no shell command can. Write that byte "
                "as \\0 in a format of printf instead."
            )
        seconds = min(arguments.timeout or self._seconds, self._longest)
        allowed = max(0.0, min(seconds, context.seconds_left()))
        session = self.session(context)
        self._calls += 1
        capture = Capture(context.outputs, f"bash-{self._calls:04}.txt", limit=self._limit)
        ended = session.run(command, seconds=allowed, cancel=context.cancel, feed=capture.feed)
        shown = capture.show()
        notes += _how(ended, allowed, attempt_over=allowed < seconds)
        silent = not shown.text.strip()
        if ended.how is How.FINISHED and (ended.status or silent or ended.seconds >= SLOW_SECONDS):
            notes.append(f"exit status {ended.status}, {_time(ended.seconds)}")
        notes += filter(None, [_restarted(ended.restart), shown.notice])
        notes += [_late(late) for late in session.late_output()]
        return _result(ended, shown, notes, silent)

    def close(self) -> None:
        """End the shell and all that was started in it."""
        if self._session:
            self._session.close()
            self._session = None


def _normal(command: str) -> tuple[str, list[str]]:
    """The command as bash is given it. Where all line ends are those of Windows, they are not the command's own."""
    command = clean(command)
    if "\r\n" in command and command.count("\n") == command.count("\r\n"):
        return command.replace("\r\n", "\n"), ["the command's CRLF line ends were read as LF"]
    return command, []


def _how(ended: Ended, allowed: float, *, attempt_over: bool) -> list[str]:
    match ended.how:
        case How.TIMEOUT:
            why = "the attempt's time is over" if attempt_over else f"the limit of {allowed:g} s was reached"
            return [
                f"stopped: {why}. Its later lines were not run and what it started was killed. If it waited for input: "
                "there is none; give it by options, a pipe or a here-document"
            ]
        case How.CANCELLED:
            return [f"cancelled after {_time(ended.seconds)}; what it started was killed"]
        case How.SHELL_ENDED:
            status = "unknown" if ended.status is None else str(ended.status)
            return [f"the command ended the shell, exit status {status}"]
        case How.FINISHED:
            return []


def _restarted(restart: Restart | None) -> str:
    if restart is None:
        return ""
    folder = f"still in {restart.cwd}" if restart.cwd_kept else f"now in {restart.cwd}, as the former folder is gone"
    return (
        f"a new shell was started: {folder}, exported variables as before this call; other variables, functions, "
        "aliases and options are lost"
    )


def _late(late: Late) -> str:
    size = len(late.text.encode())
    cut = "" if late.total <= size else f", its last {size:,} of {late.total:,} bytes"
    return f"since then, background processes of call {late.call} of this shell printed{cut}:\n{late.text.rstrip()}\n"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def _result(ended: Ended, shown: Shown, notes: list[str], silent: bool) -> ToolResult:
    statuses = {How.TIMEOUT: Status.TIMEOUT, How.CANCELLED: Status.CANCELLED}
    parts = [Text(text=NO_OUTPUT if silent else shown.text)]
    if notes:
        parts.append(Text(text="\n".join(f"[{note}]" for note in notes)))
    return ToolResult(
        parts=tuple(parts),
        status=statuses.get(ended.how, Status.OK),
        exit_code=ended.status,
        saved_as=shown.saved_as,
    )
