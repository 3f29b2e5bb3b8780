"""One job: a program in a terminal, and what it has printed since the last look."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Status, Text

from ..sandbox.procs import Entry, read_entry, to_process, tree
from ..sandbox.protocol import Process, Sandbox
from ..tool import ToolResult
from .capture import Capture
from .kin import end, holders_of
from .program import Program
from .screen import Screen
from .tool import NO_OUTPUT

START_SECONDS = 30.0  # for a job's process to be there, on a loaded machine
LINGER = 0.2  # seconds for the last output of a job that has ended, where something it left holds the terminal
SEND_SECONDS = 5.0  # for a job to take what is sent
SEARCHED = 1 << 16  # the last bytes since the last look, which `until` is looked for in
PAUSE = 0.1  # seconds between looks at a job that prints nothing
SOON = 0.005  # and at one whose terminal has hung up, as it ends then


class RunningJob:
    """The script `script`, run by a bash of its own. SandboxError where it can't be started.

    Whoever drains its terminal gives what comes to `feed`, and calls `hang_up` at its end; these two may be called on
    any thread. A longer output than `limit` characters is kept in `outputs`.
    """

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
        self._program = Program(sandbox.launch(["bash", "-c", script]))
        self.terminal = self._program.terminal
        self._root = self._find()

    def _find(self) -> Entry | None:
        """The program itself: what was started is, in some sandboxes, only its keeper on the host."""
        terminal = Path(self.terminal.path).stat()
        last = time.monotonic() + START_SECONDS
        while time.monotonic() < last and self._program.status() is None:
            if processes := holders_of(terminal, self._sandbox):
                return read_entry(processes[0].pid)
            time.sleep(0.005)
        return None

    def _new_capture(self) -> Capture:
        return Capture(self._outputs, f"job-{self.number:02}.txt", limit=self._limit)

    def feed(self, data: bytes) -> None:
        """Take what it has printed."""
        with self._news:
            self._capture.feed(data)
            self._recent += data
            del self._recent[:-SEARCHED]
            self._news.notify_all()

    def hang_up(self) -> None:
        """Take note that nothing more will be printed."""
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
                self._news.wait(min(left, SOON if self._hung_up else PAUSE))

    def _printed(self) -> str:
        screen = Screen()
        return (screen.feed(bytes(self._recent)) + screen.flush()).decode("utf-8", "replace")

    def over(self) -> bool:
        """Whether it has ended and its output is all there."""
        if self._program.status() is None:
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
        code = self._program.status() if over else None
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
                sent = self._program.send(rest)
            except OSError:  # hung up
                break
            rest = rest[sent:]
            if not sent:
                time.sleep(PAUSE)
        return not rest

    def kill(self) -> None:
        """End it, with all that descends from it."""
        end(self._sandbox, self._tree, grace=0, wait=time.sleep)
        self._program.kill()

    def _tree(self) -> list[Process]:
        return [to_process(entry) for entry in tree(self._root) if not entry.zombie] if self._root else []

    def close(self) -> None:
        """End it, and let its terminal go."""
        self.kill()
        self._program.close()
