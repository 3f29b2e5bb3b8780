"""A warm parent for many attempts: `python -m agentctl.benchmarks.worker`.

Specs come in on standard input, one JSON document a line; each is run in a process of its own, forked from this one,
so that modules are loaded once. A line goes out as each ends: `{"record": ..., "exit": 0}`, the status as `solve` has
it. When standard input closes, running attempts are waited for.

Attempts hold the reading end of a pipe whose writing end only this process has: when that closes, however it happened,
each attempt ends itself, with its record whole and its sandbox closed. It is closed on SIGINT and SIGTERM, and when
nobody reads standard output any more.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import traceback

from pydantic import ValidationError

from agentctl.agents.spec import AttemptSpec
from agentctl.base.cancel import Cancel
from agentctl.base.errors import AgentctlError, refused

from .runner import run

_GRACE = 20.0  # seconds an attempt has to end in order after its owner is gone
_STOPS = (signal.SIGINT, signal.SIGTERM)


def watch_owner(pipe: int, cancel: Cancel) -> None:
    """Ask for the stop when the owner's pipe closes; end the process at once if that takes too long."""

    def watch() -> None:
        os.read(pipe, 1)
        cancel.set("its owner is gone")
        timer = threading.Timer(_GRACE, os._exit, (1,))
        timer.daemon = True
        timer.start()

    threading.Thread(target=watch, daemon=True).start()


def attempt(spec: AttemptSpec, pipe: int) -> int:
    """Run the attempt. Returns an exit status."""
    cancel = Cancel()
    watch_owner(pipe, cancel)
    try:
        outcome = run(spec, cancel=cancel, environment=os.environ)
    except AgentctlError as error:
        print(f"agentctl: {error}", file=sys.stderr)
        return error.exit_status
    except Exception:
        traceback.print_exc()
        return 1
    return 1 if outcome.result.infrastructure else 0


class Server:
    """Reads specs, forks, reports."""

    def __init__(self) -> None:
        self._owner_reads, self._owner_writes = os.pipe()
        self._children: dict[int, tuple[int, str]] = {}  # a child's pidfd, to its number and its record
        self._poll = select.poll()
        self._reading = True
        self._rest = b""

    def serve(self) -> None:
        """Until standard input is closed and every attempt has ended."""
        self._poll.register(sys.stdin.fileno(), select.POLLIN)
        self._poll.register(sys.stdout.fileno(), 0)  # tells by itself that nobody reads
        for number in _STOPS:
            signal.signal(number, lambda *_: self._stop())
        while self._reading or self._children:
            for fd, _ in self._poll.poll():
                if fd in self._children:
                    self._ended(fd)
                elif fd == sys.stdin.fileno() and self._reading:
                    self._read()
                elif fd == sys.stdout.fileno():
                    self._poll.unregister(fd)
                    self._stop()

    def _stop(self) -> None:
        """Take no more specs, and let the attempts end themselves."""
        self._read_no_more()
        if self._owner_writes >= 0:
            os.close(self._owner_writes)
            self._owner_writes = -1

    def _read_no_more(self) -> None:
        if self._reading:
            self._reading = False
            self._poll.unregister(sys.stdin.fileno())

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 1 << 20)
        *lines, self._rest = (self._rest + (data or b"\n")).split(b"\n")
        if not data:
            self._read_no_more()
        for line in lines:
            if line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            spec = AttemptSpec.model_validate_json(line)
        except ValidationError as error:
            print(f"agentctl: {refused(error, file='standard input')}", file=sys.stderr)
            self._tell(None, 2)
            return
        pid = self._fork(spec)
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = pid, str(spec.record)
        self._poll.register(pidfd, select.POLLIN)

    def _fork(self, spec: AttemptSpec) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            if self._owner_writes >= 0:
                os.close(self._owner_writes)
            # A Ctrl-C reaches every process of the terminal; the owner decides, and its pipe tells. Not SIG_IGN, which
            # the commands of the agent would inherit.
            for number in _STOPS:
                signal.signal(number, lambda *_: None)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, sys.stdin.fileno())
            os.dup2(nothing, sys.stdout.fileno())
            status = attempt(spec, self._owner_reads)
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _ended(self, pidfd: int) -> None:
        pid, record = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        self._tell(record, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def _tell(self, record: str | None, status: int) -> None:
        line = json.dumps({"record": record, "exit": status}) + "\n"
        try:
            os.write(sys.stdout.fileno(), line.encode())
        except BrokenPipeError:
            self._stop()


if __name__ == "__main__":
    Server().serve()
