"""What killed runs left: found, and removed.

Nothing that a living attempt uses is touched: a process is left behind when the owner that its label names is gone, a
folder when nobody holds its lock. Nothing is touched that does not bear our marks.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from agentctl.agents.record import ASIDE, claimed
from agentctl.base.errors import AgentctlError, InputError, SetupError
from agentctl.base.jsonio import written_for
from agentctl.base.values import Frozen
from agentctl.tools.sandbox import limits, procs
from agentctl.tools.sandbox.label import left_behind
from agentctl.tools.sandbox.protocol import Process

from .keeping import PART
from .scratch import AT_WORK, PATIENCE, Left, in_use, remove_abandoned, work_folder, work_folder_of

DOCTOR = "agentctl-doctor"  # how records of `agentctl doctor` would be called, in the folder for temporary files
_WRITTEN = frozenset({"manifest.json", "result.json", "workspace.json", "report.json"})
_HALF_MADE = frozenset({"outputs", ASIDE, "events.jsonl", "manifest.json"})

What: TypeAlias = Literal["process", "control group", "work folder", "half-made record", "rest in a record"]
State: TypeAlias = Literal["left", "removed", "in use", "stays"]


class Found(Frozen):
    """One thing that a killed run left, or that is in use."""

    what: What
    name: str
    state: State
    why: str = ""  # it was left, or stays


def sweep(deep: Iterable[Path], shallow: Iterable[Path] = (), *, remove: bool) -> list[Found]:
    """What was left on this machine, in and below the folders `deep`, and in those `shallow`.

    It is removed where `remove` says so.
    """
    found = [*_processes(remove), *_groups(remove)]
    seen = set()
    for top, whole in (*((top, True) for top in deep), *((top, False) for top in shallow)):
        for place in _candidates(top, whole=whole):
            if place.resolve() not in seen:
                seen.add(place.resolve())
                found += _in_place(place, remove)
    for folder in sorted(Path(tempfile.gettempdir()).glob(f".{DOCTOR}-*.work")):
        found += _work_folder(folder, remove)
    return found


def _candidates(top: Path, *, whole: bool) -> Iterator[Path]:
    """Work folders, half-made records and records in `top`; also below it, where the `whole` of it is meant."""
    for folder, names, files in os.walk(top):
        if "manifest.json" in files and "events.jsonl" in files:
            names.clear()  # what an agent left in it is its own
            yield Path(folder)
            continue
        yield from (Path(folder, name) for name in sorted(names) if re.fullmatch(r"\..+\.(work|new)", name))
        if not whole and Path(folder) == top:
            yield from (Path(folder, name) for name in sorted(names) if Path(folder, name, "manifest.json").exists())
        names[:] = [name for name in sorted(names) if whole and not name.startswith(".")]


def _in_place(place: Path, remove: bool) -> Iterator[Found]:
    if place.name.endswith(".work") and place.name.startswith("."):
        yield from _work_folder(place, remove)
    elif place.name.endswith(".new") and place.name.startswith("."):
        yield from _half_made(place, remove)
    else:
        yield from _rests(place, remove)


def _processes(remove: bool) -> list[Found]:
    """Processes of sandboxes whose owner is gone."""
    left = left_behind()
    names = [f"{each.entry.pid} {procs.command_of(each.entry.pid)}" for each in left]

    def living() -> list[Process]:
        # One that is being ended has no words any more, so no label, but is there until all in its namespace is gone.
        ended = [each.entry for each in left if procs.same(each.entry)]
        return [procs.to_process(entry) for entry in {*ended, *(each.entry for each in left_behind())}]

    if remove and left:
        procs.kill_all(living)
    return [
        Found(
            what="process",
            name=name,
            state=("stays" if procs.same(each.entry) else "removed") if remove else "left",
            why=f"its owner, process {each.owner}, is gone",
        )
        for each, name in zip(left, names, strict=True)
    ]


def _groups(remove: bool) -> Iterator[Found]:
    """Control groups whose owners were killed before they could remove them."""
    for folder in limits.abandoned():
        why = limits.remove_group(folder) if remove else ""
        yield _told("control group", folder, remove, Left.STAYS if why else Left.GOES, why)


def _work_folder(folder: Path, remove: bool) -> Iterator[Found]:
    left, why = remove_abandoned(folder, remove=remove)
    last = time.monotonic() + PATIENCE
    while left is Left.STAYS and time.monotonic() < last:  # perhaps for what is being ended, and still writes in it
        time.sleep(0.1)
        left, why = remove_abandoned(folder, remove=remove)
    if left is not Left.NOT_OURS:
        yield _told("work folder", folder, remove, left, why)


def _half_made(folder: Path, remove: bool) -> Iterator[Found]:
    """A record that was being made when its maker was killed. Its maker would hold the lock of the work folder."""
    names = [path.name for path in folder.iterdir()]
    if "outputs" not in names or not all(_half_made_by_us(name) for name in names):
        return
    record = folder.with_name(folder.name.removeprefix(".").removesuffix(".new"))
    left, why = (Left.IN_USE, AT_WORK) if in_use(work_folder_of(record)) else (Left.GOES, "")
    if remove and left is Left.GOES:
        try:
            with work_folder(record):
                shutil.rmtree(folder)
        except InputError:  # an attempt began just now
            left, why = Left.IN_USE, AT_WORK
        except SetupError as error:
            left, why = Left.STAYS, str(error)
        except OSError as error:
            left, why = Left.STAYS, error.strerror or str(error)
    yield _told("half-made record", folder, remove, left, why)


def _half_made_by_us(name: str) -> bool:
    return name in _HALF_MADE or written_for(name) == "manifest.json"


def _rests(record: Path, remove: bool) -> Iterator[Found]:
    """What a writer that was killed left in its record beside what belongs there."""
    names = [path.name for path in record.iterdir()]
    parts = [name for name in names if name in (ASIDE, PART) or written_for(name) in _WRITTEN]
    if not parts or in_use(record / "events.jsonl"):
        return
    if remove:
        try:
            with claimed(record):
                for name in parts:
                    (record / name).unlink(missing_ok=True)
        except AgentctlError:  # somebody goes on from it just now
            return
    yield from (_told("rest in a record", record / name, remove, Left.GOES, "") for name in sorted(parts))


def _told(what: What, place: Path, remove: bool, left: Left, why: str) -> Found:
    gone: State = "removed" if remove else "left"
    state: State = "in use" if left is Left.IN_USE else "stays" if left is Left.STAYS else gone
    return Found(what=what, name=str(place), state=state, why=why)
