"""File access from the host to what an agent may have arranged: only regular files and folders are touched."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat as modes
from collections.abc import Iterator

from .paths import FOLDER, Place, Resolver
from .protocol import FileInfo, FileKind, Mount, PathRefused

MAX_DEPTH = 100  # levels that `list` goes down: each holds a descriptor
MAX_WHOLE = 256 << 20  # bytes that `read` takes without a limit


class Files:
    """The file methods of a sandbox, over its mounts."""

    def __init__(self, mounts: tuple[Mount, ...], start: str) -> None:
        self._paths = Resolver(mounts, start)

    def stat(self, path: str) -> FileInfo:
        with self._paths.resolve(path) as place:
            return self._info(place.inside, self._status(place))

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        with self._paths.resolve(path) as place:
            fd = self._open_regular(place)
        with os.fdopen(fd, "rb", buffering=0) as file:
            size = os.fstat(fd).st_size
            if limit is None and size - offset > MAX_WHOLE:
                raise PathRefused(f"{place.inside} has {size} bytes: too large to read whole")
            file.seek(offset)
            wanted = max(0, size - offset) if limit is None else limit
            parts = []
            while wanted > 0 and (data := file.read(min(wanted, 1 << 20))):
                parts.append(data)
                wanted -= len(data)
            return b"".join(parts)

    def write(self, path: str, data: bytes) -> None:
        with self._paths.resolve(path) as place:
            if not place.writable:
                raise PathRefused(f"{place.inside} is read-only")
            if place.name is None:
                raise IsADirectoryError(errno.EISDIR, "is a folder", place.inside)
            assert place.parent is not None
            with _made(place.parent, place.missing) as folder:
                self._replace(folder, place.name, place.inside, data)

    def list(self, path: str, *, depth: int = 1, limit: int = 10_000) -> list[FileInfo]:
        with self._paths.resolve(path) as place:
            if not modes.S_ISDIR(self._status(place).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", place.inside)
            assert place.parent is not None
            top = os.open(place.name or ".", FOLDER, dir_fd=place.parent)
        found: list[FileInfo] = []
        for info in self._below(top, place.inside, min(depth, MAX_DEPTH)):
            if len(found) >= limit:
                break
            found.append(info)
        return found

    def _status(self, place: Place) -> os.stat_result:
        assert place.parent is not None
        if place.missing:
            raise FileNotFoundError(errno.ENOENT, "no such file or folder", place.inside)
        try:
            status = os.stat(place.name or ".", dir_fd=place.parent, follow_symlinks=False)
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such file or folder", place.inside) from None
        if not (modes.S_ISREG(status.st_mode) or modes.S_ISDIR(status.st_mode)):
            raise PathRefused(f"{place.inside} is a {_word(status.st_mode)}, not a regular file")
        return status

    def _open_regular(self, place: Place) -> int:
        status = self._status(place)
        if modes.S_ISDIR(status.st_mode) or place.name is None:
            raise IsADirectoryError(errno.EISDIR, "is a folder", place.inside)
        # Not blocking, and looked at again: a FIFO may have taken the file's place meanwhile.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(place.name, flags, dir_fd=place.parent)
        mode = os.fstat(fd).st_mode
        if not modes.S_ISREG(mode):
            os.close(fd)
            raise PathRefused(f"{place.inside} is a {_word(mode)}, not a regular file")
        return fd

    def _replace(self, folder: int, name: str, inside: str, data: bytes) -> None:
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and modes.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", inside)
        if mode is not None and not modes.S_ISREG(mode):
            raise PathRefused(f"{inside} is a {_word(mode)}, not a regular file")
        new = f".{secrets.token_hex(8)}.tmp"  # short: the file's own name may already be as long as names can be
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, 0o666, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) or 0 :]
                if mode is not None:
                    os.fchmod(fd, modes.S_IMODE(mode))
            os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new, dir_fd=folder)
            raise

    def _below(self, folder: int, inside: str, depth: int) -> Iterator[FileInfo]:
        """Entries below the open `folder`, which is closed at the end, in the order of their whole paths."""
        try:
            with os.scandir(folder) as entries:
                keys = []
                for entry in entries:
                    keys.append(entry.name)
                    if depth > 1 and entry.is_dir(follow_symlinks=False):
                        keys.append(f"{entry.name}/")
            # "a" < "a.b" < "a/c": a folder's content comes where its name with a slash would stand.
            for key in sorted(keys):
                path = f"{inside.rstrip('/')}/{key}"
                if not key.endswith("/"):
                    with contextlib.suppress(FileNotFoundError):
                        yield self._info(path, os.stat(key, dir_fd=folder, follow_symlinks=False))
                elif (child := self._paths.child(folder, key[:-1], path[:-1])) is not None:
                    yield from self._below(child, path[:-1], depth - 1)
        finally:
            os.close(folder)

    def _info(self, inside: str, status: os.stat_result) -> FileInfo:
        return FileInfo(
            path=inside,
            kind=_kind(status.st_mode),
            size=status.st_size,
            blocks=status.st_blocks * 512,
            modified_ns=status.st_mtime_ns,
        )


@contextlib.contextmanager
def _made(parent: int, missing: tuple[str, ...]) -> Iterator[int]:
    """The folder `missing` below the open `parent`, made where needed."""
    opened: list[int] = []
    try:
        for name in missing:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=opened[-1] if opened else parent)
            opened.append(os.open(name, FOLDER, dir_fd=opened[-1] if opened else parent))
        yield opened[-1] if opened else parent
    finally:
        for fd in opened:
            os.close(fd)


def _kind(mode: int) -> FileKind:
    if modes.S_ISREG(mode):
        return FileKind.FILE
    if modes.S_ISDIR(mode):
        return FileKind.FOLDER
    return FileKind.LINK if modes.S_ISLNK(mode) else FileKind.OTHER


def _word(mode: int) -> str:
    words = {modes.S_IFIFO: "FIFO", modes.S_IFSOCK: "socket", modes.S_IFCHR: "device", modes.S_IFBLK: "device"}
    return words.get(modes.S_IFMT(mode), "link")
