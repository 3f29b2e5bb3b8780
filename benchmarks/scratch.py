"""The folder that an attempt works in: beside its record, locked while the attempt is at work, gone at its end.

The lock goes with the process however that ends, so what a killed attempt left is told from what is in use. A file in
the folder says whose it is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentctl.base.errors import InputError, SetupError

AT_WORK = "an attempt is at work in it"
MARKER = ".agentctl"  # holds the name of the machine: locks of another one may not be seen here
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PATIENCE = 5.0  # seconds for what is left of a killed attempt to be gone: the kernel ends it with its owner


class Left(StrEnum):
    """What became of a folder that may be a killed attempt's, or would."""

    NOT_OURS = "not ours"
    IN_USE = "in use"
    STAYS = "stays"  # it can't be removed
    GOES = "goes"


@contextmanager
def work_folder(record: Path) -> Iterator[Path]:
    """The work folder of the attempt that leaves `record`: empty but for its marker, and removed afterwards.

    What a killed attempt left in it is removed first; at the end go also the folders above it that were made for it, if
    they are empty. InputError where an attempt is at work in it, SetupError where it can't be made, or where somebody
    else may have put there what stands there.
    """
    folder = work_folder_of(record)
    above = [parent for parent in folder.parents if not parent.exists()]
    lock = _locked(folder, record)
    try:
        _empty(folder, lock)
        with suppress(OSError):  # a full disk, which who fills the folder can tell better
            (folder / MARKER).write_text(f"{socket.gethostname()}\n", encoding="utf-8")
        yield folder.resolve()
    finally:
        with suppress(OSError):
            _remove_all(lock)
            folder.rmdir()
        os.close(lock)
        with suppress(OSError):  # not empty: the record stands there
            for parent in above:
                parent.rmdir()


def work_folder_of(record: Path) -> Path:
    return record.with_name(f".{record.name}.work")


def record_of(folder: Path) -> Path:
    """The record whose work folder is `folder`."""
    return folder.with_name(folder.name.removeprefix(".").removesuffix(".work"))


def remove_abandoned(folder: Path, *, remove: bool) -> tuple[Left, str]:
    """Remove the work folder `folder` that a killed attempt left. Without `remove` only look whether that can be done.

    Returns what became of it, and why it is not gone. What does not bear our marker is not ours, unless it is empty.
    """
    try:
        lock = os.open(folder, _FOLDER)
    except OSError:  # a link, another user's, or gone
        return Left.NOT_OURS, ""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        host = _marked_by(lock)
        if host is None and any(folder.iterdir()):
            return Left.NOT_OURS, ""
        if host not in (None, socket.gethostname()):  # of its locks nothing is known here
            return Left.IN_USE, f"an attempt may be at work in it on {host}"
        why = _mounted_below(folder, unmount=remove)
        if why is None and remove:
            _remove_all(lock)
            folder.rmdir()
    except BlockingIOError:
        return Left.IN_USE, AT_WORK
    except OSError as error:
        return Left.STAYS, error.strerror or str(error)
    finally:
        os.close(lock)
    return (Left.GOES, "") if why is None else (Left.STAYS, why)


def in_use(path: Path) -> bool:
    """Whether somebody holds the lock of `path`, a work folder or a record's events."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _marked_by(lock: int) -> str | None:
    """The machine that the marker in the open folder `lock` names; None without one."""
    try:
        marker = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=lock)
    except OSError:
        return None
    with os.fdopen(marker, "rb") as file:
        return file.read(300).decode(errors="replace").strip()


def _mounted_below(folder: Path, *, unmount: bool) -> str | None:
    """Unmount what is mounted in `folder`, or it would be emptied with it. What stays mounted is named."""
    for point in mount_points(folder):
        if not unmount:
            continue
        done = subprocess.run(["umount", "--", point], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"something is mounted in it: {done.stderr.strip()}"
    return None


def mount_points(folder: Path) -> list[str]:
    """What is mounted at or below `folder`, as far as this process sees it: the innermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])
        if Path(point).is_relative_to(folder.resolve()):
            found.append(point)
    return found[::-1]


def _locked(folder: Path, record: Path) -> int:
    """A descriptor of `folder` that holds its lock."""
    while True:
        try:
            lock = _opened(folder)
        except OSError as error:
            raise SetupError(
                f"no folder can be made here: {error.strerror}",
                file=record.parent,
                field="record",
                remedy="give another",
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), folder.stat()):
                return lock
        except FileNotFoundError:  # its owner just ended, and removed it
            pass
        except OSError as error:
            os.close(lock)
            if isinstance(error, BlockingIOError):
                raise InputError("an attempt is at work on it", file=record, remedy="wait for its end") from None
            raise SetupError(f"can't be locked: {error.strerror}", file=folder) from None
        os.close(lock)


def _opened(folder: Path) -> int:
    """A descriptor of `folder`, which is made if it is not there. What others could have put there is not taken."""
    try:
        # For nobody else: who is root in a sandbox may leave programs in it that run as whoever owns them.
        folder.mkdir(0o700, parents=True)
        others = 0  # some file systems know no modes: what we made is ours, whatever they say
    except FileExistsError:
        others = stat.S_IWGRP | stat.S_IWOTH
    try:
        lock = os.open(folder, _FOLDER)
    except NotADirectoryError:  # a link too is none
        raise _not_taken(folder, "is no folder") from None
    status = os.fstat(lock)
    if status.st_uid == os.getuid() and not status.st_mode & others:
        return lock
    os.close(lock)
    raise _not_taken(folder, "can be written by others" if status.st_uid == os.getuid() else "belongs to another user")


def _not_taken(folder: Path, why: str) -> SetupError:
    return SetupError(
        f"{why}, and an attempt would work in it", file=folder, remedy="remove it, or give another record"
    )


def _empty(folder: Path, lock: int) -> None:
    """Remove what is in `folder`, which is open as `lock`. SetupError where that can't be done."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return _remove_all(lock)
        except OSError as error:  # perhaps a process of a killed attempt is still being ended
            if time.monotonic() > deadline:
                raise SetupError(
                    f"what an earlier attempt left can't be removed: {error.strerror}", file=folder, remedy="remove it"
                ) from None
            time.sleep(0.1)


def _remove_all(top: int) -> None:
    """Remove all that is in the open folder `top`, whatever an agent made of it.

    One folder is open at a time and none is named by a path, so that none is too deep. OSError where something can't
    be removed, or a folder was moved meanwhile.
    """
    folder = os.dup(top)
    try:
        levels = [_Level.of(folder)]
        while True:
            if levels[-1].folders:
                folder = _into(folder, levels[-1].folders[-1])
                levels.append(_Level.of(folder))
                continue
            levels.pop()
            if not levels:
                return
            folder = _into(folder, "..")
            if not os.path.samestat(os.fstat(folder), levels[-1].status):
                raise OSError(errno.ESTALE, "a folder was moved while it was removed")
            os.rmdir(levels[-1].folders.pop(), dir_fd=folder)
    finally:
        os.close(folder)


@dataclass(frozen=True)
class _Level:
    """A folder on the way down, and the names of what is still in it: folders alone."""

    status: os.stat_result
    folders: list[str]

    @classmethod
    def of(cls, folder: int) -> _Level:
        status = os.fstat(folder)
        if status.st_mode & 0o700 != 0o700:
            os.fchmod(folder, 0o700)
        return cls(status, [name for name in os.listdir(folder) if not _removed(folder, name)])


def _into(folder: int, name: str) -> int:
    """Open the folder `name` in the open `folder`, which is closed."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:  # closed to its owner, too
        os.chmod(name, 0o700, dir_fd=folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def _removed(folder: int, name: str) -> bool:
    """Remove `name` from the open `folder`, unless it is a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True
