"""Limits on memory and processes: a control group where one can be made, else limits on each process.

A group counts all processes of the sandbox together. Without one, RLIMIT_DATA bounds the memory of each process (not
RLIMIT_AS: Java, Node and Julia reserve far more address space than they use), and RLIMIT_NPROC the number of processes
of the sandbox's user, which the kernel does not apply to real root.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import procs
from .label import new_label, owner_gone
from .protocol import Guarantee, SandboxSpec

PREFIX = "agentctl-"  # of a group's name; a label follows
GROUP_FILES: dict[int, dict[str, tuple[str, ...]]] = {
    1: {"memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "pids": ("pids.max",)},
    2: {"memory": ("memory.max",), "pids": ("pids.max",)},
}
MIB = 1 << 20
EMPTY_SECONDS = 2.0  # for a group to be empty when its processes have been killed
# From here on the kernel counts RLIMIT_NPROC within the sandbox's user namespace, not over all that its user runs.
COUNTS_BY_NAMESPACE = (5, 14)


@dataclass
class Limits:
    """The limits of one sandbox. `join` are files to which a process writes "0" to come under them."""

    join: list[Path] = field(default_factory=list)
    rlimits: dict[str, int] = field(default_factory=dict)  # by name in the `resource` module
    holds: frozenset[Guarantee] = frozenset()

    def close(self) -> None:
        """Remove the groups. Their processes must have ended."""
        for file in self.join:
            remove_group(file.parent)  # where that fails, the next sandbox sweeps it up


def file_limits(spec: SandboxSpec) -> dict[str, int]:
    """Limits that need nothing of the machine: the largest file, and no core dumps in the workspace."""
    return {"RLIMIT_FSIZE": spec.file_mb * MIB, "RLIMIT_CORE": 0}


def memory_of_each(spec: SandboxSpec) -> dict[str, int]:
    return {"RLIMIT_DATA": spec.memory_mb * MIB}


def make_limits(spec: SandboxSpec) -> Limits:
    """The best limits for a sandbox with processes of its own, by groups as far as they go."""
    limits = Limits(rlimits=file_limits(spec))
    held = set()
    name = f"{PREFIX}{new_label()}"
    parents = group_parents(
        *(Path(f"/proc/self/{name}").read_text(encoding="utf-8") for name in ("mountinfo", "cgroup"))
    )
    for version, controllers, parent in parents:
        _sweep(parent)
        values = {"memory": spec.memory_mb * MIB, "pids": spec.processes}
        file = _make_group(parent / name, version, {key: values[key] for key in controllers})
        if file is not None:
            limits.join.append(file)
            held |= set(controllers)
    if "memory" not in held:
        limits.rlimits |= memory_of_each(spec)
    holds = {Guarantee.MEMORY_LIMIT}
    if "pids" in held or os.getuid() != 0:
        holds.add(Guarantee.PROCESS_LIMIT)
    if "pids" not in held and os.getuid() != 0:
        limits.rlimits["RLIMIT_NPROC"] = spec.processes + _counted_already()
    limits.holds = frozenset(holds)
    return limits


def group_parents(mounts: str, own: str) -> list[tuple[int, tuple[str, ...], Path]]:
    """Where groups may be made: (version, controllers, folder). In version 1 each controller has a tree of its own.

    `mounts` and `own` are the texts of /proc/self/mountinfo and /proc/self/cgroup.
    """
    found: list[tuple[int, tuple[str, ...], Path]] = []
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4])
        kind, _, options = right.split(maxsplit=2)
        if kind == "cgroup":
            for controller in {"memory", "pids"} & set(options.split(",")):
                found.append((1, (controller,), point))
        elif kind == "cgroup2" and (parent := _unified_parent(point, own)):
            found.append((2, ("memory", "pids"), parent))
    return found


def _unified_parent(root: Path, own: str) -> Path | None:
    """The nearest group above our own that hands both controllers down: our own has processes, so it may not itself."""
    line = re.search(r"^0::(.*)$", own, re.MULTILINE)
    if line is None:
        return None
    group = root / line[1].lstrip("/")
    for above in (group, *group.parents):
        if not above.is_relative_to(root):
            return None
        with contextlib.suppress(OSError):
            if {"memory", "pids"} <= set((above / "cgroup.subtree_control").read_text(encoding="utf-8").split()):
                return above
    return None


def _make_group(folder: Path, version: int, values: dict[str, int]) -> Path | None:
    """Make a group with these limits. Gives back the file to join it by, or None where that is not allowed here."""
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        for controller, value in values.items():
            for name in GROUP_FILES[version][controller]:
                if (folder / name).exists():
                    (folder / name).write_text(str(value), encoding="utf-8")
        if version == 2 and (folder / "memory.swap.max").exists():
            (folder / "memory.swap.max").write_text("0", encoding="utf-8")
        # Making a group may be allowed where moving a process into it is not.
        command = ("/bin/sh", "-c", 'echo 0 > "$0"', str(folder / "cgroup.procs"))
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return folder / "cgroup.procs"


def _sweep(parent: Path) -> None:
    """Remove groups whose owners were killed before they could."""
    for folder in _abandoned(parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_group(folder: Path) -> str:
    """Remove a group that is empty, or soon will be: the kernel counts a process that has ended a moment longer.

    Why it can't be removed; nothing when it is gone.
    """
    deadline = time.monotonic() + EMPTY_SECONDS
    while True:
        try:
            folder.rmdir()
            return ""
        except FileNotFoundError:
            return ""
        except OSError as error:
            if time.monotonic() > deadline:
                return error.strerror or str(error)
            time.sleep(0.01)


def abandoned() -> list[Path]:
    """All groups on this machine whose owners were killed before they could remove them."""
    texts = (Path(f"/proc/self/{name}").read_text(encoding="utf-8") for name in ("mountinfo", "cgroup"))
    return [folder for _, _, parent in group_parents(*texts) for folder in _abandoned(parent)]


def _abandoned(parent: Path) -> list[Path]:
    folders = list(parent.glob(f"{PREFIX}*"))  # before the processes: a group that is made later is not looked at
    processes = procs.table() if folders else {}
    return [folder for folder in folders if owner_gone(folder.name.removeprefix(PREFIX), processes) is not None]


def _counted_already() -> int:
    """Processes of this user that an older kernel counts against a limit set inside."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    if version is not None and (int(version[1]), int(version[2])) >= COUNTS_BY_NAMESPACE:
        return 0
    own = os.getuid()
    count = 0
    for pid in procs.table():
        with contextlib.suppress(OSError):
            count += (procs.PROC / str(pid)).stat().st_uid == own
    return count


def settable(rlimits: dict[str, int]) -> dict[str, int]:
    """`rlimits` lowered to what this process may set: a hard limit can't be raised."""
    lowered = {}
    for name, value in rlimits.items():
        _, hard = resource.getrlimit(getattr(resource, name))
        lowered[name] = value if hard == resource.RLIM_INFINITY else min(value, hard)
    return lowered
