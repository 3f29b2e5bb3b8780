"""A shell session: commands one after another in one bash, each ended at its limit, a bash that ended replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from agentctl.base.cancel import Cancel
from agentctl.base.text import decode

from ..sandbox.protocol import Sandbox
from .bash import Bash
from .drain import Drain
from .kin import Moment, end, started_since
from .reports import State
from .screen import Screen
from .terminal import Terminal

GRACE = 1.0  # seconds between interrupt and kill at a limit: for a Python to say where it was, on a loaded machine
RETURN_SECONDS = 2.0  # for bash to leave an aborted command, before it is replaced
LAST_BYTES = 1 << 18  # read at most after a command's end: what the kernel holds of its output is less
LATE_BYTES = 1000  # of each background process's later output shown with a later result


class How(StrEnum):
    """How a command ended."""

    FINISHED = "finished"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SHELL_ENDED = "shell ended"  # it ended the shell that ran it


@dataclass(frozen=True)
class Restart:
    """A new bash has taken the place of one that ended. Only its folder and exported variables could be kept."""

    cwd: str
    cwd_kept: bool


@dataclass(frozen=True)
class Ended:
    """A command's end."""

    how: How
    status: int | None  # None where it was ended from outside
    seconds: float
    restart: Restart | None = None


@dataclass(frozen=True)
class Late:
    """What processes of an earlier command printed since the last look."""

    call: int
    text: str
    total: int  # bytes; more than `text` holds where only the end was kept


@dataclass(eq=False)
class _Leftover:
    """Collects what processes of one command print after its end."""

    call: int
    screen: Screen = field(default_factory=Screen)
    kept: bytearray = field(default_factory=bytearray)
    total: int = 0
    ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> None:
        """Take note that nothing more will be printed."""
        self.ended = True

    def feed(self, data: bytes) -> None:
        """Take what was printed."""
        with self.lock:
            self._take(self.screen.feed(data))

    def _take(self, text: bytes) -> None:
        self.total += len(text)
        self.kept += text
        del self.kept[:-LATE_BYTES]

    def look(self) -> Late | None:
        """What was printed since the last look."""
        with self.lock:
            self._take(self.screen.flush())
            late = Late(self.call, decode(bytes(self.kept)), self.total) if self.total else None
            self.kept.clear()
            self.total = 0
            return late


class Session:
    """Commands share one bash, so its folder, variables and functions stay from one to the next.

    Nothing is ever run twice: a command that ended its shell is not given to the new one. SandboxError when there is no
    shell to be had any more.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._begun = Moment.now()
        self._bash = Bash(sandbox)
        self._drain = Drain()
        self._leftovers: list[_Leftover] = []
        self._calls = 0
        self._last_status = 0
        self._untold: Restart | None = None

    def state(self) -> State:
        """The working folder and exported variables as they are now."""
        self._untold = self._replace_if_ended() or self._untold
        self._bash.sync()
        return self._bash.state()

    def run(self, command: str, *, seconds: float, cancel: Cancel, feed: Callable[[bytes], None]) -> Ended:
        """Run `command` and give its output, stdout and stderr as they come, to `feed`.

        At `seconds`, or when `cancel` is set, the command is left before its next line and what it started is killed;
        background processes of earlier commands are not.
        """
        self._calls += 1
        restart = self._replace_if_ended() or self._untold
        self._untold = None
        moment = Moment.now()
        began = time.monotonic()
        terminal = self._bash.open_terminal()
        try:
            token = self._bash.source(command.encode(), terminal, last_status=self._last_status)
            report = self._bash.wait(token, seconds, terminal=terminal, feed=feed, stop=cancel.is_set)
            how = How.FINISHED
            if report is None and not self._bash.ended:
                how = How.CANCELLED if cancel.is_set() else How.TIMEOUT
                report = self._abort(token, terminal, feed, moment, grace=0 if cancel.is_set() else GRACE)
            self._read_rest(terminal, feed)
        finally:
            self._leave(terminal)
        took = time.monotonic() - began
        status = int(report) if report is not None and report.isdigit() else None
        if status is None and how is How.FINISHED:
            how = How.SHELL_ENDED
            status = self._bash.exit_status()
        if report is None:
            restart = self._replace()
        self._last_status = status or 0
        return Ended(how, status if how in (How.FINISHED, How.SHELL_ENDED) else None, took, restart)

    def _abort(
        self, token: str, terminal: Terminal, feed: Callable[[bytes], None], moment: Moment, *, grace: float
    ) -> str | None:
        """End the running command and all that it started. The report of its end, or None where bash had to go too."""
        report: str | None = None

        def wait(seconds: float) -> None:
            nonlocal report
            if report is None and not self._bash.ended:
                report = self._bash.wait(token, seconds, terminal=terminal, feed=feed)
            else:
                time.sleep(seconds)

        self._bash.abort()
        end(self._sandbox, lambda: started_since(self._sandbox, moment, self._bash.pid), grace=grace, wait=wait)
        if report is None:
            wait(RETURN_SECONDS)
        return report

    def _read_rest(self, terminal: Terminal, feed: Callable[[bytes], None]) -> None:
        """What was printed before the end and not yet read. The kernel hands it all over before it says "nothing"."""
        left = LAST_BYTES
        while left > 0 and (data := terminal.read()):
            feed(data)
            left -= len(data)

    def _leave(self, terminal: Terminal) -> None:
        if terminal.ended:
            terminal.close()
            return
        leftover = _Leftover(self._calls)
        self._leftovers.append(leftover)
        self._drain.add(terminal, leftover.feed, leftover.end)

    def late_output(self) -> list[Late]:
        """What earlier commands' background processes have printed since the last look, oldest command first."""
        ended = [leftover for leftover in self._leftovers if leftover.ended]
        found = [late for leftover in self._leftovers if (late := leftover.look())]
        self._leftovers = [leftover for leftover in self._leftovers if leftover not in ended]
        return found

    def _replace_if_ended(self) -> Restart | None:
        """A new bash where the old one ended between commands."""
        return self._replace() if self._bash.has_ended() else None

    def _replace(self) -> Restart:
        state = self._bash.state()
        self._bash.close()
        self._bash = Bash(self._sandbox, state)
        self._last_status = 0
        cwd = self._bash.state().cwd
        return Restart(cwd=cwd, cwd_kept=cwd == state.cwd)

    def close(self) -> None:
        """End the shell and all that was started in the sandbox since the session began."""
        shell = self._bash.pid
        self._bash.close()
        end(self._sandbox, lambda: started_since(self._sandbox, self._begun, shell), grace=0, wait=time.sleep)
        self._drain.close()
