"""The label that the processes of a sandbox and its control groups carry. It names their owner, so that what a killed
owner left is known.

The kind `local` has it in the environment of every command; bubblewrap in the arguments of its first process, with
which all others end; a control group in its name. A label tells the owner's process by number and start, and the
namespace in which that number counts: a process of another container is never taken for one that is gone.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import procs
from .layout import INIT

VARIABLE = "AGENTCTL_SANDBOX"
_LABEL = re.compile(r"(\d+)-(\d+)-(\d+)-[0-9a-f]{8}")


@dataclass(frozen=True)
class Left:
    """A process whose sandbox has lost its owner."""

    entry: procs.Entry
    owner: int  # the number that its owner had


def new_label() -> str:
    """A label for one sandbox of this process."""
    me = procs.read_entry(os.getpid())
    return f"{_namespace()}-{os.getpid()}-{me.started if me else 0}-{secrets.token_hex(4)}"


def left_behind() -> list[Left]:
    """All processes in sight whose label names an owner that is gone; never this one, nor one above it."""
    processes = procs.table()
    spared = set()
    above: int | None = os.getpid()
    while above is not None and above not in spared:
        spared.add(above)
        above = processes[above].parent if above in processes else None
    found = []
    for entry in processes.values():
        if entry.zombie or entry.pid in spared:
            continue
        owner = owner_gone(label_of(entry.pid) or "", processes)
        if owner is not None:
            found.append(Left(entry, owner))
    return found


def owner_gone(label: str, processes: Mapping[int, procs.Entry]) -> int | None:
    """The number that the owner had whom `label` names, where it is gone: it is none of `processes`, which are all.

    None where it lives, where its number counts in another namespace, and where `label` is no label.
    """
    match = _LABEL.fullmatch(label)
    if match is None:
        return None
    namespace, owner, started = map(int, match.groups())
    now = processes.get(owner)
    alive = now is not None and now.started == started and not now.zombie
    return owner if namespace == _namespace() and not alive else None


def label_of(pid: int) -> str | None:
    """The label of a process, if it carries one."""
    place = procs.PROC / str(pid)
    try:
        words = (place / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        if len(words) > 2 and words[-3] == INIT:  # the last of the words is followed by a NUL, too
            config = json.loads(words[-2])
            label = config.get("label") if isinstance(config, dict) else None
            return label if isinstance(label, str) else None
        environ = (place / "environ").read_bytes().split(b"\0")
    except (OSError, ValueError):  # gone, another user's, or not ours
        return None
    prefix = f"{VARIABLE}=".encode()
    return next((each[len(prefix) :].decode("ascii", "replace") for each in environ if each.startswith(prefix)), None)


def _namespace() -> int:
    """The namespace in which this process's number counts."""
    return Path("/proc/self/ns/pid").stat().st_ino
