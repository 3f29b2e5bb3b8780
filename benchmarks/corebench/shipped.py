"""What came with a capsule: how each file stood when it was staged, so that what a run made can be told from it."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from agentctl.base.jsonio import digest
from agentctl.base.values import Frozen

_WHOLE = 1 << 20  # bytes; a file up to this size is fingerprinted whole
_END = 64 << 10  # bytes of head and of tail that stand for a larger one


def name_in_json(path: str) -> str:
    r"""A file's name as text that any JSON can hold: bytes of it that are not UTF-8 are written as \xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def fingerprint(file: Path) -> str:
    """The size of `file`, and SHA-256 over its content; over head and tail where it is larger than 1 MiB."""
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        if size <= _WHOLE:
            return fingerprint_of(content.read())
        head = content.read(_END)
        content.seek(-_END, os.SEEK_END)
        return f"{size}:{digest(head + content.read(_END))}"


def fingerprint_of(data: bytes) -> str:
    """`fingerprint` of a file with this content."""
    return f"{len(data)}:{digest(data if len(data) <= _WHOLE else data[:_END] + data[-_END:])}"


class ShippedFile(Frozen):
    """One file as staging left it. Times in nanoseconds; `changed_ns` is the inode's, which no program can set."""

    size: int  # bytes
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> ShippedFile:
        return cls(
            size=status.st_size,
            modified_ns=status.st_mtime_ns,
            changed_ns=status.st_ctime_ns,
            inode=status.st_ino,
        )


class Manifest(Frozen):
    """All files that were staged, by their path below the capsule's folder, and where they were copied from."""

    source: Path
    capsule_id: str
    files: dict[str, ShippedFile]

    @cached_property
    def _sizes(self) -> dict[int, list[str]]:
        sizes: dict[int, list[str]] = {}
        for path, file in self.files.items():
            sizes.setdefault(file.size, []).append(path)
        return sizes

    def untouched(self, path: str, status: os.stat_result) -> bool:
        """Whether the file at `path` is surely the one that was staged, with nothing done to it. Reads nothing."""
        return self.files.get(path) == ShippedFile.of(status)

    def holds_copy_of(self, data: bytes) -> bool:
        """Whether some staged file had this content. Reads only files of its size."""
        candidates = [self.source / path for path in self._sizes.get(len(data), [])]
        return any(file.is_file() and fingerprint(file) == fingerprint_of(data) for file in candidates)
