"""The folder that an attempt works in: beside its record, locked while the attempt is at work, gone at its end.

The lock goes with the process however that ends, so what a killed attempt left is told from what is in use.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentctl.base.errors import InputError, SetupError

_PATIENCE = 5.0  # seconds for what is left of a killed attempt to be gone: the kernel ends it with its owner


@contextmanager
def work_folder(record: Path) -> Iterator[Path]:
    """The work folder of the attempt that leaves `record`: empty, and removed afterwards.

    What a killed attempt left in it is removed first; at the end go also the folders above it that were made for it, if
    they are empty. InputError where an attempt is at work in it, SetupError where it can't be made.
    """
    folder = record.with_name(f".{record.name}.work")
    above = [parent for parent in folder.parents if not parent.exists()]
    lock = _locked(folder, record)
    try:
        _empty(folder, lock)
        yield folder.resolve()
    finally:
        with suppress(OSError):
            _remove_all(lock)
            folder.rmdir()
        os.close(lock)
        with suppress(OSError):  # not empty: the record stands there
            for parent in above:
                parent.rmdir()


def _locked(folder: Path, record: Path) -> int:
    """A descriptor of `folder` that holds its lock."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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


def _empty(folder: Path, lock: int) -> None:
    """Remove what is in `folder`, which is open as `lock`. SetupError where that can't be done."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return _remove_all(lock)
        except OSError as error:  # perhaps a process of a killed attempt is still being ended
            if time.monotonic() > deadline:
                raise SetupError(
                    f"what an earlier attempt left can't be removed: {error.strerror}", file=folder, remedy="remove it"
                ) from None
            time.sleep(0.1)


def _remove_all(folder: int) -> None:
    """Remove all that is in the open `folder`, whatever an agent made of it.

    No path is followed down: a folder's folders are moved up here before it goes, so that none is too deep.
    """
    while names := os.listdir(folder):
        for name in names:
            if _removed(folder, name):
                continue
            inner: int = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                for child in os.listdir(inner):
                    if not _removed(inner, child):
                        os.rename(child, f".{secrets.token_hex(8)}", src_dir_fd=inner, dst_dir_fd=folder)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def _removed(folder: int, name: str) -> bool:
    """Remove `name` from the open `folder`, unless it is a folder: that is then opened to us."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.chmod(name, 0o700, dir_fd=folder)
        return False
    return True
