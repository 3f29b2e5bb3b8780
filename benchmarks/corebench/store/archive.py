"""Reads a tar archive from front to back, whoever made it: what it holds, one member after the other.

The archive is taken for hostile: headers that want gigabytes of memory, that point backwards, or that never end are
refused here. What a member may be and where it may be written is `unpack.py`'s to say.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

BLOCK = 1 << 20  # bytes; what is read at once
_LONGEST_HEADER = BLOCK  # bytes; extended headers hold names, which have a few hundred
_RATIO = 250  # unpacked bytes a byte of archive; text packs to a tenth, gzip's utmost is a thousandth
_RATIO_FROM = 1 << 30  # bytes; below that nobody is harmed

_MAGIC: dict[bytes, Callable[[Path], io.BufferedIOBase]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError)


class Hostile(Exception):
    """Why an archive, or its member of that name, can't be unpacked."""

    def __init__(self, why: str, member: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.member = member


class Kind(StrEnum):
    FILE = "a file"
    FOLDER = "a folder"
    LINK = "a symbolic link"
    SAME = "a hard link"
    ODD = "a device, a pipe or something unknown"


@dataclass(frozen=True)
class Member:
    """One entry of an archive. `target` is a link's; `content` a file's, to be read before the next member comes."""

    name: str
    kind: Kind
    size: int  # bytes
    executable: bool
    modified: float  # seconds since 1970, as the archive has it
    target: str
    content: Iterator[bytes]


def members(archive: Path) -> Iterator[Member]:
    """The members in their order. Raises Hostile where the archive is no tar, is damaged, or means harm."""
    size = archive.stat().st_size
    try:
        with _opened(archive) as raw:
            stream = _Forward(raw, archive_size=size)
            with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
                while (info := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]  # else all members are kept in memory
                    yield _member(tar, info)
            stream.drain()  # only at its end is a compressed stream's own checksum looked at
    except _DAMAGE as error:
        raise Hostile(f"is damaged: {error or 'it ends too soon'}") from None


def _opened(archive: Path) -> io.BufferedIOBase:
    with archive.open("rb") as file:
        head = file.read(512)
    for magic, opener in _MAGIC.items():
        if head.startswith(magic):
            return opener(archive)
    if head[257:262] == b"ustar":
        return archive.open("rb")
    raise Hostile(f"is no tar archive: it begins with {head[:24]!r}")


def _member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    if info.size < 0:
        raise Hostile("has a size below zero", info.name)
    return Member(
        name=info.name,
        kind=_kind(info),
        size=info.size,
        executable=bool(info.mode & 0o100),
        modified=info.mtime,
        target=info.linkname,
        content=_content(tar, info),
    )


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        file = tar.extractfile(info)
        while file is not None and (block := file.read(BLOCK)):
            yield block
    except _DAMAGE as error:
        raise Hostile(f"is damaged: {error or 'it ends too soon'}") from None


def _kind(info: tarfile.TarInfo) -> Kind:
    if info.issym():
        return Kind.LINK
    if info.islnk():
        return Kind.SAME
    if info.isdir():
        return Kind.FOLDER
    # tarfile takes types that it does not know for files
    return Kind.FILE if info.isreg() and info.type in tarfile.SUPPORTED_TYPES else Kind.ODD


class _Forward(io.RawIOBase):
    """A stream that is read forwards, in small pieces, and not without end."""

    def __init__(self, raw: io.BufferedIOBase, *, archive_size: int) -> None:
        self._raw = raw
        self._at = 0
        self._most = max(_RATIO_FROM, _RATIO * archive_size)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise Hostile(f"has a header of {size:,} bytes")
        data = self._raw.read(size)
        self._at += len(data)
        if self._at > self._most:
            raise Hostile(f"is a bomb: it unpacks to more than {_RATIO} times its size")
        return data

    def seek(self, to: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or to < self._at:
            raise Hostile("has a header that leads backwards")
        while self._at < to and self.read(min(BLOCK, to - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def drain(self) -> None:
        """Read to the end."""
        while self.read(BLOCK):
            pass
