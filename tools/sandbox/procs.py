"""Processes as /proc tells of them: who descends from whom, who carries a label, and a kill that hits no stranger."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from .protocol import Process

PROC = Path("/proc")
END_SECONDS = 5.0  # for killed processes to be gone, on a loaded machine
PAUSE = 0.005  # seconds between looks whether they are


@dataclass(frozen=True)
class Entry:
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    started: int  # clock ticks since boot
    zombie: bool
    name: str


def read_entry(pid: int) -> Entry | None:
    """The table's line of `pid`, or None where there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in brackets and may hold blanks and brackets itself: the last bracket ends it.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Entry(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        started=int(fields[19]),
        zombie=fields[0] in "ZX",
        name=head.partition("(")[2],
    )


def table() -> dict[int, Entry]:
    """All processes that this one can see, by number."""
    found = {}
    with os.scandir(PROC) as names:
        for name in names:
            if name.name.isdigit() and (entry := read_entry(int(name.name))):
                found[entry.pid] = entry
    return found


def descendants(root: int, processes: dict[int, Entry]) -> list[Entry]:
    """All below `root`, itself left out, parents before children."""
    children: dict[int, list[Entry]] = {}
    for entry in processes.values():
        children.setdefault(entry.parent, []).append(entry)
    found: list[Entry] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(entry.pid for entry in below)
    return found


def labelled(label: str, processes: Iterable[Entry]) -> list[Entry]:
    """Those that were started with `label` (as `NAME=value`) in their environment."""
    wanted = label.encode()
    found = []
    for entry in processes:
        with contextlib.suppress(OSError):  # another user's, or gone
            if wanted in (PROC / str(entry.pid) / "environ").read_bytes().split(b"\0"):
                found.append(entry)
    return found


def to_process(entry: Entry) -> Process:
    return Process(pid=entry.pid, started=entry.started)


def command_of(pid: int) -> str:
    """Its command line, for people. A process that has none is named in brackets, one that is gone not at all."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = " ".join(word.decode(errors="replace") for word in words if word)
    return command or (f"[{entry.name}]" if (entry := read_entry(pid)) else "")


def kill(pid: int, started: int, number: int = signal.SIGKILL) -> None:
    """Signal `pid` if it is still the process that began at `started`. A process already gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        try:
            handle = os.pidfd_open(pid)
        except OSError:  # gone, or a kernel before 5.3: then a tiny race stays
            if _same(pid, started):
                os.kill(pid, number)
            return
        try:
            if _same(pid, started):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def same(entry: Entry) -> bool:
    """Whether the process is still there. A zombie is not: it runs nothing."""
    return _same(entry.pid, entry.started)


def tree(root: Entry) -> list[Entry]:
    """`root` and all below it, as long as it has not been reaped: its number may then be another's."""
    processes = table()
    now = processes.get(root.pid)
    if now is None or now.started != root.started:
        return []
    return [now, *descendants(root.pid, processes)]


def kill_all(
    find: Callable[[], Sequence[Process]],
    *,
    seconds: float = END_SECONDS,
    halted: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(False),
    wait: Callable[[float], None] = time.sleep,
) -> bool:
    """SIGKILL what `find` finds until it finds nothing more. False if some is left after `seconds`.

    `halted` makes a block in which none of them runs, or gives false. Then they are stopped one by one before any is
    killed, for some may be making others faster than we kill. `wait` passes the time that each needs to be gone.
    """
    deadline = time.monotonic() + seconds
    while True:
        with halted() as still:
            victims = find() if still else _stopped(find, deadline)
            for victim in victims:
                kill(victim.pid, victim.started)
        if not victims:
            return True
        # Who is on the way out may not be found any more: the kernel takes words and environment from it first.
        while any(_same(victim.pid, victim.started) for victim in victims):
            if time.monotonic() > deadline:
                return False
            wait(PAUSE)


def _stopped(find: Callable[[], Sequence[Process]], deadline: float) -> list[Process]:
    """All that `find` finds, once they make no others any more."""
    stopped: dict[Process, None] = {}
    while new := [process for process in find() if process not in stopped]:
        for process in new:
            kill(process.pid, process.started, signal.SIGSTOP)
            stopped[process] = None
        if time.monotonic() > deadline:
            break
    return list(stopped)


def _same(pid: int, started: int) -> bool:
    entry = read_entry(pid)
    return entry is not None and entry.started == started and not entry.zombie
