"""Programs run to their end with their two streams apart, shown one after the other."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentctl.base.messages import Status, Text

from ..sandbox.protocol import SandboxError
from ..shell.capture import Capture, Shown
from ..shell.drain import Drain
from ..shell.kin import Moment, end, started_since
from ..shell.session import GRACE, LAST_BYTES, Ended, How
from ..shell.terminal import Stream
from ..shell.tool import LIMIT
from ..tool import ToolContext, ToolResult

PAUSE = 0.1  # seconds between looks whether to stop
END_SECONDS = 5.0  # for a killed program to be gone
NOTHING = "(nothing)"

Feed = Callable[[bytes], None]


@dataclass
class _Source:
    stream: Stream
    feed: Feed

    def move(self) -> int:
        """Hand on what is there, at most one piece. Its size."""
        data = self.stream.read()
        if data:
            self.feed(data)
        return len(data)


class Commands:
    """Runs programs, each for at most `seconds`, and shows at most `limit` characters of each of their two streams.

    What a program left running prints later is read and dropped, so that it never waits or dies for being unheard.
    """

    def __init__(self, seconds: float, limit: int = LIMIT) -> None:
        self.seconds = seconds
        self._limit = limit
        self._drain = Drain()
        self._calls = 0

    def run(self, argv: Sequence[str], context: ToolContext, *, name: str, cwd: str) -> tuple[Ended, ToolResult]:
        """Run `argv` in the folder `cwd`. How it ended, and both streams as a result; `name` begins names of files."""
        self._calls += 1
        out, err = (
            Capture(context.outputs, f"{name}-{self._calls:04}-{stream}.txt", limit=self._limit)
            for stream in ("stdout", "stderr")
        )
        allowed = max(0.0, min(self.seconds, context.seconds_left()))
        ended = self.feed(argv, context, cwd=cwd, seconds=allowed, out=out.feed, err=err.feed)
        limit = "the attempt's time is over" if allowed < self.seconds else f"the limit of {allowed:g} s was reached"
        return ended, _result(ended, out.show(), err.show(), limit, context)

    def feed(
        self, argv: Sequence[str], context: ToolContext, *, cwd: str, seconds: float, out: Feed, err: Feed
    ) -> Ended:
        """Run `argv` for at most `seconds`, giving all that it prints to `out` and `err`. Its stdin is at its end.

        At the limit, or once the attempt is cancelled, it is killed with all that it started. SandboxError where it
        can't be started, or the sandbox ended with it.
        """
        began = time.monotonic()
        with _Program(argv, context, cwd, out, err) as program:
            while program.status is None and time.monotonic() < began + seconds and not context.cancel.is_set():
                program.turn(min(PAUSE, max(0.0, began + seconds - time.monotonic())))
            how = How.FINISHED
            if program.status is None:
                how = How.CANCELLED if context.cancel.is_set() else How.TIMEOUT
                program.end(grace=0 if how is How.CANCELLED else GRACE)
            program.leave(self._drain)
            if program.status and not context.sandbox.alive():
                raise SandboxError("the sandbox has ended")
            return Ended(how, program.status if how is How.FINISHED else None, time.monotonic() - began)

    def close(self) -> None:
        """Hear no more of what is left running; it ends with the sandbox. Safe to call twice."""
        self._drain.close()


class _Program:
    """One running program."""

    def __init__(self, argv: Sequence[str], context: ToolContext, cwd: str, out: Feed, err: Feed) -> None:
        self._sandbox = context.sandbox
        self._moment = Moment.now()
        launch = self._sandbox.launch(argv, cwd=cwd)
        try:
            self._process = subprocess.Popen(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"the command can't be started: {error}") from error
        self._sources = {}
        for pipe, feed in ((self._process.stdout, out), (self._process.stderr, err)):
            assert pipe is not None
            fd = os.dup(pipe.fileno())
            pipe.close()
            os.set_blocking(fd, False)
            self._sources[fd] = _Source(Stream(fd), feed)
        self._poll = select.poll()
        for fd in self._sources:
            self._poll.register(fd, select.POLLIN)
        self._exit = _exit_event(self._process.pid)
        if self._exit is not None:
            self._poll.register(self._exit, select.POLLIN)

    @property
    def status(self) -> int | None:
        """None while it runs, then its exit status; 128 + n for a signal n."""
        status = self._process.poll()
        return status if status is None or status >= 0 else 128 - status

    def turn(self, seconds: float) -> None:
        """Read what comes, waiting for it, or for the end, at most `seconds`."""
        for fd, _ in self._poll.poll(1000 * (seconds if self._exit is not None else min(seconds, PAUSE / 10))):
            if (source := self._sources.get(fd)) and not source.move() and source.stream.ended:
                self._poll.unregister(fd)

    def end(self, *, grace: float) -> None:
        """End it with all that it started, reading on meanwhile; `grace` seconds lie between interrupt and kill."""

        def wait(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                self.turn(left)
                time.sleep(min(left, 0.001))  # what has ended wakes `turn` at once

        pid = self._process.pid
        end(self._sandbox, lambda: started_since(self._sandbox, self._moment, pid), grace=grace, wait=wait)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def leave(self, drain: Drain) -> None:
        """Read what it printed before its end; what others still print to its streams goes to `drain`."""
        for source in self._sources.values():
            left = LAST_BYTES
            while left > 0 and (size := source.move()):
                left -= size
            if not source.stream.ended:
                drain.add(Stream(os.dup(source.stream.fd)), lambda data: None)

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process.poll() is None:
            self.end(grace=0)
            self._process.kill()
            self._process.wait()
        for source in self._sources.values():
            source.stream.close()
        if self._exit is not None:
            os.close(self._exit)


def _exit_event(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` has ended."""
    try:
        return os.pidfd_open(pid)
    except OSError:  # a kernel before 5.3
        return None


def _result(ended: Ended, out: Shown, err: Shown, limit: str, context: ToolContext) -> ToolResult:
    notes = []
    match ended.how:
        case How.TIMEOUT:
            notes.append(
                f"stopped: {limit}. What it started was killed. If it waited for input: there is none; give it by "
                "options, a pipe or a here-document"
            )
        case How.CANCELLED:
            notes.append("cancelled; what it started was killed")
        case _ if ended.status:
            notes.append(f"exit status {ended.status}")
    parts = []
    for label, shown in (("Standard output", out), ("Standard error", err)):
        parts.append(Text(text=f"{label}:\n{shown.text if shown.text.strip() else NOTHING}"))
        notes += [f"{label.lower()}: {shown.notice}"] if shown.notice else []
    if out.saved_as and err.saved_as:  # a result names one file
        context.emit("output", f"standard error is kept as {err.saved_as}")
    if notes:
        parts.append(Text(text="\n".join(f"[{note}]" for note in notes)))
    statuses = {How.TIMEOUT: Status.TIMEOUT, How.CANCELLED: Status.CANCELLED}
    return ToolResult(
        parts=tuple(parts),
        status=statuses.get(ended.how, Status.OK),
        exit_code=ended.status,
        saved_as=out.saved_as or err.saved_as,
    )
