"""The folder that an attempt works in: beside its record, locked while the attempt is at work, gone at its end.

The lock goes with the process however that ends, so what a killed attempt left is told from what is in use.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
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
        _empty(folder)
        yield folder.resolve()
    finally:
        _remove(folder)
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


def _empty(folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while left := list(folder.iterdir()):
        for path in left:
            _remove(path)
        if time.monotonic() > deadline:
            raise SetupError("what an earlier attempt left can't be removed", file=folder, remedy="remove it by hand")


def _remove(path: Path) -> None:
    """Remove `path`, as far as that is possible, whatever an agent made of it.

    By `rm`, which also gets through folders that are nested deeper than a path can say.
    """
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    if subprocess.run(["rm", "-rf", "--", path], **quiet).returncode:  # type: ignore[call-overload]
        subprocess.run(["chmod", "-R", "u+rwx", "--", path], **quiet)  # type: ignore[call-overload]
        subprocess.run(["rm", "-rf", "--", path], **quiet)  # type: ignore[call-overload]
