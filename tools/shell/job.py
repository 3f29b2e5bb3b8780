"""The tool `job`: programs that run for long, or that talk, each in a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
import time
from pathlib import Path
from typing import Literal

from pydantic import Field

from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled
from agentctl.base.messages import Status, Text
from agentctl.base.text import clean

from ..sandbox.procs import descendants, table, to_process
from ..sandbox.protocol import Process, Sandbox, SandboxError
from ..tool import Arguments, ToolContext, ToolResult
from . import control
from .capture import Capture
from .kin import end, holders_of
from .leftover import Drain
from .screen import Screen
from .terminal import Terminal, set_plain
from .tool import LIMIT, NO_OUTPUT, Shell

START_SECONDS = 30.0  # for a job's process to be there, on a loaded machine
LINGER = 0.2  # seconds for the last output of a job that has ended, where something it left holds the terminal
SEND_SECONDS = 5.0  # for a job to take what is sent
SEARCHED = 1 << 16  # the last bytes since the last look, which `until` is looked for in
PAUSE = 0.1


class JobArguments(Arguments):
    action: Literal["start", "read", "send", "interrupt", "kill"] = Field(
        description="start: run `command`. read: look. send: type `text`. interrupt: press Ctrl-C. kill: end the job."
    )
    job: int | None = Field(default=None, description="The job's number. Not for start, which gives it.")
    command: str | None = Field(default=None, description="For start: the command or script to run.")
    text: str | None = Field(default=None, description="For send: what to type. \\u0004 ends the input.")
    enter: bool = Field(default=True, description="For send: press Enter after the text.")
    wait: float = Field(
        default=1,
        ge=0,
        allow_inf_nan=False,
        description="Seconds to wait for output before looking; less when the job ends.",
    )
    until: str | None = Field(default=None, description="Wait no longer than until this text is printed.")


class _Running:
    """One job: its process, its terminal and what it has printed since the last look."""

    def __init__(self, number: int, sandbox: Sandbox, script: str, outputs: Path, limit: int) -> None:
        self.number = number
        self._sandbox = sandbox
        self._outputs = outputs
        self._limit = limit
        self._began = time.monotonic()
        self._ended: float | None = None
        self._news = threading.Condition()
        self._capture = self._new_capture()
        self._recent = bytearray()
        self._hung_up = False
        master, slave = os.openpty()
        self.terminal = Terminal(master, os.ttyname(slave))
        try:
            os.set_blocking(master, False)
            set_plain(slave)
            launch = sandbox.launch(["bash", "-c", script])
            self._process = subprocess.Popen(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
            )
            self._root = self._find(os.fstat(slave))
        except OSError as error:
            self.terminal.close()
            raise SandboxError(f"the job can't be started: {error}") from error
        finally:
            os.close(slave)

    def _find(self, terminal: os.stat_result) -> Process | None:
        last = time.monotonic() + START_SECONDS
        while time.monotonic() < last and self._process.poll() is None:
            if processes := holders_of(terminal, self._sandbox):
                return processes[0]
            time.sleep(0.005)
        return None

    def _new_capture(self) -> Capture:
        return Capture(self._outputs, f"job-{self.number:02}.txt", limit=self._limit)

    def feed(self, data: bytes) -> None:
        with self._news:
            self._capture.feed(data)
            self._recent += data
            del self._recent[:-SEARCHED]
            self._news.notify_all()

    def hang_up(self) -> None:
        with self._news:
            self._hung_up = True
            self._news.notify_all()

    def wait(self, seconds: float, until: str | None, cancel: Cancel) -> None:
        """Wait until `until` is printed or the job has ended, at most `seconds`. Raises Cancelled."""
        last = time.monotonic() + seconds
        with self._news:
            while not self.over() and not (until and until in self._printed()):
                cancel.check()
                if (left := last - time.monotonic()) <= 0:
                    return
                self._news.wait(min(left, PAUSE))

    def _printed(self) -> str:
        screen = Screen()
        return (screen.feed(bytes(self._recent)) + screen.flush()).decode("utf-8", "replace")

    def over(self) -> bool:
        """Whether it has ended and its output is all there."""
        if self._process.poll() is None:
            return False
        self._ended = self._ended or time.monotonic()
        return self._hung_up or time.monotonic() > self._ended + LINGER

    def look(self, status: Status) -> ToolResult:
        """What it has printed since the last look, and how it stands."""
        over = self.over()
        with self._news:
            shown = self._capture.show()
            self._capture = self._new_capture()
            self._recent.clear()
        code = self._process.returncode if over else None
        code = code if code is None or code >= 0 else 128 - code
        took = f"{(self._ended or time.monotonic()) - self._began:.0f} s"
        how = f"job {self.number} ended after {took}, exit status {code}" if over else f"job {self.number} runs, {took}"
        notes = [how, *filter(None, [shown.notice])]
        return ToolResult(
            parts=(Text(text=shown.text or NO_OUTPUT), Text(text="\n".join(f"[{note}]" for note in notes))),
            status=status,
            exit_code=code,
            saved_as=shown.saved_as,
        )

    def type(self, text: str) -> bool:
        """Whether all of `text` was taken."""
        rest = text.encode()
        last = time.monotonic() + SEND_SECONDS
        while rest and not self.over() and time.monotonic() < last:
            try:
                rest = rest[os.write(self.terminal.fd, rest) :]
            except BlockingIOError:
                time.sleep(PAUSE)
            except OSError:  # hung up
                break
        return not rest

    def kill(self) -> None:
        """End it, with all that descends from it."""
        root = self._root
        if root:
            end(self._sandbox, lambda: _tree(root), grace=0, wait=time.sleep)
        self._process.kill()
        self._process.wait()


def _tree(root: Process) -> list[Process]:
    processes = table()
    entry = processes.get(root.pid)
    if entry is None or entry.started != root.started:
        return []
    below = [entry, *descendants(root.pid, processes)]
    return [to_process(one) for one in below if not one.zombie]


class Job:
    """The tool `job`. Jobs run beside the shell and end with the attempt.

    With `shell`, a job starts in the shell's folder with its exported variables, else in the workspace. `limit` is the
    characters of output shown at a time; a longer output is shown as its two ends and kept in the record.
    """

    name = "job"
    description = (
        "Run programs that take long or that ask questions: each job has a terminal of its own and goes on between "
        "calls. Every call shows what the job has printed since the last one. Jobs end when the task ends."
    )
    arguments = JobArguments

    def __init__(self, shell: Shell | None = None, *, limit: int = LIMIT) -> None:
        self._shell = shell
        self._limit = limit
        self._drain = Drain()
        self._jobs: dict[int, _Running] = {}

    def run(self, arguments: JobArguments, context: ToolContext) -> ToolResult:
        """Do it, wait, and show the job's new output. SandboxError when nothing can be started any more."""
        if arguments.action == "start":
            if not arguments.command or "\0" in arguments.command:
                return ToolResult.error("To start a job, give its `command`, without NUL characters.")
            job = self._start(clean(arguments.command), context)
        elif arguments.job in self._jobs:
            job = self._jobs[arguments.job]
        else:
            numbers = ", ".join(map(str, self._jobs)) or "none"
            return ToolResult.error(f"There is no such job; give its number as `job`. Jobs: {numbers}.")
        if arguments.action == "send" and arguments.text is None:
            return ToolResult.error("To send, give the `text` to type; it may be empty.")
        if problem := _act(job, arguments):
            return ToolResult.error(problem)
        try:
            job.wait(min(arguments.wait, max(0.0, context.seconds_left())), arguments.until, context.cancel)
        except Cancelled:
            return job.look(Status.CANCELLED)
        return job.look(Status.OK)

    def _start(self, command: str, context: ToolContext) -> _Running:
        folder = context.sandbox.control
        number = len(self._jobs) + 1
        file = f"job-{number}"
        control.write(folder.host / file, f"{command}\n".encode())
        # Opened anew by the leader of the session, a terminal becomes its controlling one.
        lines = ["exec <>/proc/self/fd/0 >&0 2>&0"]
        if self._shell:
            state = self._shell.session(context).state()
            control.write(folder.host / f"{file}-env", state.exports.encode("utf-8", "surrogateescape"))
            lines.append(f". {shlex.quote(f'{folder.inside}/{file}-env')}; cd -- {shlex.quote(state.cwd)}")
        lines.append(f". {shlex.quote(f'{folder.inside}/{file}')}")
        job = _Running(number, context.sandbox, "\n".join(lines), context.outputs, self._limit)
        self._jobs[number] = job
        self._drain.add(job.terminal, job.feed, job.hang_up)
        return job

    def close(self) -> None:
        """End all jobs."""
        for job in self._jobs.values():
            with contextlib.suppress(ProcessLookupError):
                job.kill()
        self._jobs.clear()
        self._drain.close()


def _act(job: _Running, arguments: JobArguments) -> str:
    """Do what is asked of a running job. What went wrong, or nothing."""
    match arguments.action:
        case "send":
            text = clean(arguments.text or "") + ("\n" if arguments.enter else "")
            return "" if job.type(text) else f"Job {job.number} does not take the text: it has ended, or does not read."
        case "interrupt":
            return "" if job.type("\x03") else f"Job {job.number} has ended."
        case "kill":
            job.kill()
    return ""
