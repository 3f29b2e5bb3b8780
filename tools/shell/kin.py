"""Which processes a command has started, and how they are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..sandbox.procs import Entry, descendants, kill_all, read_entry, table, to_process
from ..sandbox.protocol import Process, Sandbox

TICKS = os.sysconf("SC_CLK_TCK")  # a second, in the kernel's count of process starts
PAUSE = 0.01  # seconds between looks whether an interrupt was heeded


@dataclass(frozen=True)
class Moment:
    """A point in time that processes were started before or after. Ticks are coarse: within one the number decides."""

    ticks: int
    last_pid: int

    @classmethod
    def now(cls) -> Moment:
        """The present, as the kernel counts it."""
        fd = os.open("/proc/loadavg", os.O_RDONLY)  # a third of the time that a file object takes
        try:
            last_pid = int(os.read(fd, 256).rsplit(b" ", 1)[1])
        finally:
            os.close(fd)
        return cls(time.clock_gettime_ns(time.CLOCK_BOOTTIME) * TICKS // 1_000_000_000, last_pid)

    def before(self, process: Process) -> bool:
        """Whether `process` was started after this moment."""
        return (process.started, process.pid) > (self.ticks, self.last_pid)


def started_since(sandbox: Sandbox, moment: Moment, shell: int) -> list[Process]:
    """What was started inside since `moment`, parents first, by `shell` or by nobody who still lives.

    Children of older background processes are theirs, and left out. A descendant of the shell counts whatever the
    sandbox says: one that cleared its environment is still one.
    """
    inside = {process.pid: process for process in sandbox.processes()}
    entries = table()  # after the processes: what is not in it any more has ended
    for entry in descendants(shell, entries):
        if entry.pid not in inside and not entry.zombie:
            inside[entry.pid] = to_process(entry)
    new = {pid for pid, process in inside.items() if pid in entries and moment.before(process)}
    kept = {pid for pid, process in inside.items() if not moment.before(process)} - {shell}

    def oldest(pid: int) -> int:
        while pid in new:
            pid = entries[pid].parent
        return pid

    return sorted(
        (inside[pid] for pid in new if oldest(pid) not in kept), key=lambda process: (process.started, process.pid)
    )


def end(sandbox: Sandbox, find: Callable[[], list[Process]], *, grace: float, wait: Callable[[float], None]) -> None:
    """End all that `find` finds: SIGINT, at most `grace` seconds to clean up, SIGKILL. `wait` passes the time.

    Only processes without children get the SIGINT; the others are halted first, so that no script goes on to its next
    line when the program it waited for has ended.
    """
    if grace > 0:
        last = time.monotonic() + grace
        leaves = _interrupt(sandbox, find)
        while any(_lives(leaf) for leaf in leaves) and time.monotonic() < last:
            wait(PAUSE)
    kill_all(find, halted=sandbox.halted, wait=wait)


def _interrupt(sandbox: Sandbox, find: Callable[[], list[Process]]) -> list[Entry]:
    """SIGINT to those without children, which are given back; SIGSTOP to the others."""
    with sandbox.halted():
        entries = [entry for process in find() if (entry := read_entry(process.pid))]
    parents = {entry.parent for entry in entries}
    for entry in entries:
        send(entry.pid, signal.SIGSTOP if entry.pid in parents else signal.SIGINT)
    return [entry for entry in entries if entry.pid not in parents]


def send(pid: int, number: int) -> None:
    """A signal to `pid`, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _lives(entry: Entry) -> bool:
    now = read_entry(entry.pid)
    return now is not None and now.started == entry.started and not now.zombie


def holders_of(file: os.stat_result, sandbox: Sandbox) -> list[Process]:
    """The processes inside that have `file` as stdin, stdout or stderr, parents before their children."""
    found: dict[int, Process] = {}
    for process in sandbox.processes():
        for stream in range(3):
            with contextlib.suppress(OSError):
                if os.path.samestat(Path(f"/proc/{process.pid}/fd/{stream}").stat(), file):
                    found[process.pid] = process
    entries = table()

    def depth(pid: int) -> int:
        return 1 + depth(entries[pid].parent) if pid in entries and pid in found else 0

    return sorted(found.values(), key=lambda process: depth(process.pid))
