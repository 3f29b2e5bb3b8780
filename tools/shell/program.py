"""A program in a terminal of its own, started, typed to and watched by pexpect. Reading it is the caller's."""

from __future__ import annotations

import os
import signal

from ..sandbox.protocol import Launch, SandboxError
from .terminal import COLUMNS, ROWS, Terminal, number_of, pass_line_ends

STDIN = 0


class Program:
    """Runs from its making to its end. SandboxError where it can't be started.

    `terminal` is for whoever reads what it prints: a descriptor of its own, which may be closed at any time.
    """

    def __init__(self, launch: Launch) -> None:
        import pexpect  # takes 30 ms, and few attempts have jobs

        def prepare() -> None:
            """In the new process. What is raised here ends it and is raised again by spawn."""
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and so by what it starts
                signal.signal(number, signal.SIG_DFL)
            pass_line_ends(STDIN)
            if launch.cwd is not None:  # given to spawn, a folder that is gone would let two of us go on from here
                os.chdir(launch.cwd)

        command, *arguments = launch.argv
        try:
            self._child = pexpect.spawn(
                command, arguments, env=launch.env, echo=False, dimensions=(ROWS, COLUMNS), preexec_fn=prepare
            )
        except (OSError, pexpect.ExceptionPexpect) as error:
            raise SandboxError(f"the program can't be started: {error}") from error
        self._child.delaybeforesend = None
        self._child.ptyproc.delayafterclose = 0  # type: ignore[attr-defined]
        fd = self._child.child_fd
        os.set_inheritable(fd, False)
        os.set_blocking(fd, False)
        self.terminal = Terminal(os.dup(fd), f"/dev/pts/{number_of(fd)}")

    def send(self, data: bytes) -> int:
        """Type `data`. The number of bytes that were taken: 0 where the terminal is full. OSError where it hung up."""
        try:
            return self._child.send(data)
        except BlockingIOError:
            return 0

    def status(self) -> int | None:
        """None while it runs, then its exit status; 128 + n for a signal n."""
        if self._child.isalive():
            return None
        number = self._child.signalstatus
        return self._child.exitstatus if number is None else 128 + number

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._child.kill(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        """Close the side of the terminal that it is typed to by. Call it when the program has ended."""
        self._child.close()
