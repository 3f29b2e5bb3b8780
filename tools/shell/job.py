"""The tool `job`: programs that run for long, or that talk, each in a terminal of its own."""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import Field

from agentctl.base.errors import Cancelled
from agentctl.base.messages import Status
from agentctl.base.text import clean

from ..tool import Arguments, ToolContext, ToolResult
from . import control
from .drain import Drain
from .running_job import RunningJob
from .tool import LIMIT, Shell

INTERRUPT = "\x03"  # Ctrl-C


class JobArguments(Arguments):
    action: Literal["start", "read", "send", "interrupt", "kill"] = Field(
        description="start: run `command`. read: look. send: type `text`. interrupt: press Ctrl-C. kill: end the job."
    )
    job: int | None = Field(
        default=None, description="Needed by all actions but start, which gives it: the job's number."
    )
    command: str | None = Field(default=None, description="Needed by start: the command or script to run.")
    text: str | None = Field(
        default=None, description="Needed by send: what to type. Ctrl-D (\\u0004) with `enter` false ends the input."
    )
    enter: bool = Field(default=True, description="For send: press Enter after the text.")
    wait: float = Field(
        default=1,
        ge=0,
        allow_inf_nan=False,
        description="For all actions: seconds to wait before looking at the output; less when the job ends.",
    )
    until: str | None = Field(
        default=None, description="For all actions: wait no longer than until this text is printed."
    )


class Job:
    """The tool `job`. Jobs run beside the shell and end with the attempt.

    With `shell`, a job starts in the shell's folder with its exported variables, else in the workspace. `limit` is the
    characters of output shown at a time; a longer output is shown as its two ends and kept in the record.
    """

    name = "job"
    description = (
        "Run programs that ask questions, or that go on while you do other things: each job has a terminal of its own. "
        "Every call shows what the job has printed since the last one. For a long command that you only wait for, give "
        "bash a longer timeout instead; for one that you come back to, a job is better than a background process. "
        "Jobs end when the task ends."
    )
    arguments = JobArguments

    def __init__(self, shell: Shell | None = None, *, limit: int = LIMIT) -> None:
        self._shell = shell
        self._limit = limit
        self._drain = Drain()
        self._jobs: dict[int, RunningJob] = {}

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

    def _start(self, command: str, context: ToolContext) -> RunningJob:
        folder = context.sandbox.control
        number = len(self._jobs) + 1
        file = f"job-{number}"
        control.write(folder.host / file, f"{command}\n".encode())
        lines = []
        if self._shell:
            state = self._shell.session(context).state()
            control.write(folder.host / f"{file}-env", state.exports.encode("utf-8", "surrogateescape"))
            lines.append(f". {shlex.quote(f'{folder.inside}/{file}-env')}; cd -- {shlex.quote(state.cwd)}")
        lines.append(f". {shlex.quote(f'{folder.inside}/{file}')}")
        job = RunningJob(number, context.sandbox, "\n".join(lines), context.outputs, self._limit)
        self._jobs[number] = job
        self._drain.add(job.terminal, job.feed, job.hang_up)
        return job

    def close(self) -> None:
        """End all jobs."""
        for job in self._jobs.values():
            job.close()
        self._jobs.clear()
        self._drain.close()


def _act(job: RunningJob, arguments: JobArguments) -> str:
    """Do what is asked of a running job. What went wrong, or nothing."""
    match arguments.action:
        case "send":
            text = clean(arguments.text or "") + ("\n" if arguments.enter else "")
            return "" if job.type(text) else f"Job {job.number} does not take the text: it has ended, or does not read."
        case "interrupt":
            return "" if job.type(INTERRUPT) else f"Job {job.number} has ended."
        case "kill":
            job.kill()
    return ""
