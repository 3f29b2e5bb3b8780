"""Files in the control folder. Commands can write there too: nothing that they put in our place is followed."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from ..sandbox.protocol import SandboxError


def write(path: Path, data: bytes) -> None:
    """Put `data` in place of the file's content. SandboxError where that can't be done.

    The file is not emptied first, as some file systems then wait for the disk.
    """
    try:
        fd = _open(path)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.ftruncate(fd, len(data))
        finally:
            os.close(fd)
    except OSError as error:
        raise SandboxError(f"the sandbox's control folder can't be written: {error}") from error


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_CREAT, 0o644)
        info = os.fstat(fd)
        if stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
            return fd
        os.close(fd)
    except FileNotFoundError:  # the folder is gone
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:  # a link, a folder, a pipe that nobody reads
        pass
    path.rename(path.with_name(f"moved-{secrets.token_hex(4)}"))
    return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)


def make_fifo(path: Path) -> int:
    """A new FIFO, open for reading, and for writing so that it never ends. SandboxError where it can't be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(f"the sandbox's control folder can't be written: {error}") from error
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise SandboxError("something else was put in place of a pipe in the sandbox's control folder")
    return fd
