"""Plain files of the host in the shape of a sandbox's files, for checks that work on both."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

from .sandbox.protocol import FileInfo, FileKind, PathRefused


class Files(Protocol):
    """What a check needs of the place that holds the report. A Sandbox has it, and `HostFiles` below."""

    def stat(self, path: str) -> FileInfo: ...

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes: ...

    def list(self, path: str, *, depth: int = 1, limit: int = 10_000) -> list[FileInfo]: ...


class HostFiles:
    """Plain files of the host in the shape of a sandbox's. Links are shown as links and not followed."""

    def stat(self, path: str) -> FileInfo:
        return _info(path, Path(path).lstat())

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PathRefused(f"{path} is not a regular file")
            file.seek(offset)
            return file.read(-1 if limit is None else limit)

    def list(self, path: str, *, depth: int = 1, limit: int = 10_000) -> list[FileInfo]:
        found: list[FileInfo] = []
        for folder, folders, names in os.walk(path):
            level = len(Path(folder).relative_to(path).parts)
            for name in sorted([*folders, *names]):
                entry = Path(folder, name)
                found.append(_info(str(entry), entry.lstat()))
            if level + 1 >= depth or len(found) >= limit:
                folders.clear()
        return sorted(found, key=lambda info: info.path)[:limit]


def _info(path: str, status: os.stat_result) -> FileInfo:
    kinds = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.FOLDER, stat.S_IFLNK: FileKind.LINK}
    return FileInfo(
        path=path,
        kind=kinds.get(stat.S_IFMT(status.st_mode), FileKind.OTHER),
        size=status.st_size,
        blocks=status.st_blocks * 512,
        modified_ns=status.st_mtime_ns,
    )
