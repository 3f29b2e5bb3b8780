"""One bash inside a sandbox, and how it is told what to do.

It reads our lines from a pipe, and each command is a file that it sources, so here-documents, quotes and comments are
the command's own. It is interactive (-i): then a failed expansion or an interrupt ends the command and not the shell.
Outside of commands its output is /dev/null, which swallows prompts, traces and what our own lines would print.

It does not lead its session (another bash does, which only waits for it), so that opening a terminal by its path does
not make that the controlling one.
"""

from __future__ import annotations

import os
import secrets
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

from agentctl.base.text import decode

from ..sandbox.protocol import Process, Sandbox, SandboxError
from . import control
from .kin import holders_of, send
from .reports import Reports, State
from .terminal import Terminal, Terminals

START_SECONDS = 30.0  # for bash to answer, on a loaded machine
END_SECONDS = 5.0
ABORT = signal.SIGRTMAX - 3  # a signal that no program uses
LEADER = "trap : HUP INT TERM; bash --noprofile --norc --noediting -i; exit $?"

# An interrupt ends the sourced file and returns to reading lines, whatever the command was waiting for and however that
# ended, and also where the command traps or ignores interrupts. At the prompt there is nothing to end (and an
# interrupt that bash sends itself there crashes it).
ABORT_TRAP = r"[[ -z ${BASH_SOURCE[0]-} ]] || { \builtin trap - INT; \builtin kill -INT $$; }"
QUIET = "exec 2>/dev/null; set +o history; set +H; unset HISTFILE MAILCHECK"


class Bash:
    """A running bash. SandboxError where none can be started.

    `ended` becomes true when it is gone.
    """

    def __init__(self, sandbox: Sandbox, state: State | None = None) -> None:
        self._sandbox = sandbox
        self._host = sandbox.control.host
        self._inside = sandbox.control.inside
        self._terminals: Terminals | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = -1
        self._itself: Process | None = None
        self._reports = Reports(sandbox.control)
        self.ended = False
        try:
            self._start(state)
        except BaseException:
            self.close()
            raise

    def _start(self, state: State | None) -> None:
        ready = secrets.token_hex(8)
        theirs, self._lines = os.pipe()
        lines = os.fstat(theirs)
        launch = self._sandbox.launch(["bash", "-c", LEADER])
        with tempfile.TemporaryFile() as log:
            try:
                self._process = subprocess.Popen(
                    launch.argv,
                    env=launch.env,
                    cwd=launch.cwd,
                    stdin=theirs,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f"the shell can't be started: {error}") from error
            finally:
                os.close(theirs)
            self._type(self._setup(state, ready))
            answer = self.wait(ready, START_SECONDS)
            readers = [] if answer is None else holders_of(lines, self._sandbox)
            if not readers:
                log.seek(0)
                said = decode(log.read()).strip().splitlines()
                raise SandboxError(f"the shell in the sandbox does not answer{': ' + said[-1] if said else ''}")
        self._itself = readers[-1]
        self._terminals = Terminals(self.pid)
        self._reports.hide()

    def _setup(self, state: State | None, ready: str) -> str:
        lines = [QUIET, f"trap {shlex.quote(ABORT_TRAP)} {int(ABORT)}", self._reports.open_line]
        if state:
            control.write(self._host / "restore", state.exports.encode("utf-8", "surrogateescape"))
            lines += [rf"\builtin . {self._path('restore')}", rf"\builtin cd -- {shlex.quote(state.cwd)}"]
        lines += ["exec >/dev/null", self._reports.state_line, self._reports.end_line(ready)]
        return "".join(f"{line}\n" for line in lines)

    def _path(self, name: str) -> str:
        return shlex.quote(f"{self._inside}/{name}")

    @property
    def pid(self) -> int:
        """Its number on the host."""
        assert self._itself is not None
        return self._itself.pid

    def open_terminal(self) -> Terminal:
        """A fresh terminal for a command's output."""
        assert self._terminals is not None
        return self._terminals.open()

    def source(self, command: bytes, terminal: Terminal, *, last_status: int) -> str:
        """Let it run `command` with its output on `terminal`. Returns the token that will tell its end."""
        token = secrets.token_hex(8)
        control.write(self._host / "command", command)
        first = ""
        if last_status:  # for a command that begins with a look at $?
            control.write(self._host / "status", rf"\builtin return {last_status}".encode())
            first = rf"\builtin . {self._path('status')} || "
        # A blank line first: bash looks at its jobs where it reads a line, and one that ended while it waited for this
        # command would keep its number, so that what is started now would not be %1 although nothing else runs.
        # Lines of their own: an interrupt drops the rest of the line that it meets.
        run = rf"{first}\builtin . {self._path('command')} </dev/null >{terminal.path} 2>&1"
        self._type(f"\n{run}\n{self._reports.end_line(token)}\n{self._reports.state_line}\n")
        return token

    def sync(self) -> None:
        """Wait until it has reported its state after the last command."""
        token = secrets.token_hex(8)
        self._type(f"{self._reports.end_line(token)}\n")
        self.wait(token, END_SECONDS)

    def state(self) -> State:
        """The working folder and exported variables as last reported: after the last command that came to its end."""
        return self._reports.state()

    def has_ended(self) -> bool:
        """Looks whether it is still there."""
        if not self.ended:
            poll = select.poll()
            poll.register(self._lines, 0)
            self.ended = bool(poll.poll(0))
        return self.ended

    def abort(self) -> None:
        """Make it leave the command that it runs before any later line, as soon as what it waits for has ended."""
        send(self.pid, ABORT)
        send(self.pid, signal.SIGCONT)

    def wait(
        self,
        token: str,
        seconds: float,
        *,
        terminal: Terminal | None = None,
        feed: Callable[[bytes], None] = lambda data: None,
        stop: Callable[[], bool] = lambda: False,
        every: float = 0.1,
    ) -> str | None:
        """Wait for what is told under `token`, reading `terminal` meanwhile.

        None after `seconds`, when the shell has ended, or when `stop`, asked every `every` seconds, says so.
        """
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._reports.fd, select.POLLIN)
        poll.register(self._lines, 0)  # tells when nobody reads our lines any more
        reading = terminal is not None and not terminal.ended
        if terminal and reading:
            poll.register(terminal.fd, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0 and not stop():
            for fd, _ in poll.poll(1000 * min(left, every)):
                if terminal and fd == terminal.fd:
                    feed(terminal.read())
                    if terminal.ended:
                        poll.unregister(fd)
                elif fd == self._lines:
                    self.ended = True
            if (report := self._reports.find(token)) is not None or self.ended:
                return report
        return None

    def exit_status(self) -> int | None:
        """The exit status of an ended shell; 128 + n for a signal n."""
        assert self._process is not None
        try:
            status = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return status if status >= 0 else 128 - status

    def _type(self, lines: str) -> None:
        try:
            os.write(self._lines, lines.encode("utf-8", "surrogateescape"))
        except BrokenPipeError:
            self.ended = True

    def close(self) -> None:
        """End it, with SIGKILL. What it started is left to the caller."""
        self.ended = True
        self._reports.close()
        if self._lines >= 0:
            os.close(self._lines)
            self._lines = -1
        if self._terminals:
            self._terminals.close()
            self._terminals = None
        if self._process:
            if self._itself:
                self._sandbox.kill([self._itself])
            try:
                self._process.wait(END_SECONDS if self._itself else 0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
