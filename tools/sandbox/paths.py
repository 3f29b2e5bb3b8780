"""Paths of the agent's, resolved as they stand inside, one component at a time.

No such path is ever given to the host's kernel whole. Each component is opened below the folder before it and never
followed; a link's target is read and resolved by us against the mounts, so `/data/x` means the sandbox's /data. What
changes between two looks can only make an open fail, never make it leave.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from .protocol import Mount, PathRefused

MAX_LINKS = 40  # as in the kernel
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Place:
    """Where a path led: `name` in the open folder `parent`, or the root of a mount where `name` is None."""

    inside: str
    parent: int | None  # None above the mounts, and where folders on the way are missing
    name: str | None
    missing: tuple[str, ...] = ()  # folders between `parent` and `name` that are not there
    writable: bool = False


@dataclass
class _Walk:
    """The folders passed so far, from the root inside."""

    names: list[str] = field(default_factory=list)
    folders: list[int | None] = field(default_factory=list)  # None: above the mounts, or missing
    writable: list[bool] = field(default_factory=list)

    def inside(self, *more: str) -> str:
        return "/" + "/".join((*self.names, *more))

    def push(self, name: str, folder: int | None, writable: bool) -> None:
        self.names.append(name)
        self.folders.append(folder)
        self.writable.append(writable)

    def pop(self) -> None:
        if self.names:
            self.names.pop()
            self.writable.pop()
            folder = self.folders.pop()
            if folder is not None:
                os.close(folder)

    def clear(self) -> None:
        while self.names:
            self.pop()


class Resolver:
    """Follows paths through a sandbox's mounts. Relative ones begin at `start`."""

    def __init__(self, mounts: tuple[Mount, ...], start: str) -> None:
        self._mounts = {mount.inside.rstrip("/") or "/": mount for mount in mounts}
        self._start = start
        self._shown = ", ".join(sorted(self._mounts))

    @contextlib.contextmanager
    def resolve(self, path: str) -> Iterator[Place]:
        """Follow `path` to its end, links included. The place is good within the block."""
        walk = _Walk()
        try:
            yield self._follow(walk, path)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                raise PathRefused(f"{path}: {error.strerror}") from error
            raise
        finally:
            walk.clear()

    def _follow(self, walk: _Walk, path: str) -> Place:
        if "\0" in path:
            raise PathRefused("the path holds a NUL character")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise PathRefused("the path holds characters that no file name can have") from error
        waiting = deque(_parts(path if path.startswith("/") else f"{self._start}/{path}"))
        links = 0
        while waiting:
            name = waiting.popleft()
            if name == "..":
                walk.pop()
                continue
            target = self._step(walk, name, last=not waiting)
            if target is None:
                continue
            links += 1
            if links > MAX_LINKS:
                raise PathRefused(f"{path}: too many links")
            if target.startswith("/"):
                walk.clear()
            waiting.extendleft(reversed(_parts(target)))
        return self._place(walk)

    def child(self, folder: int, name: str, inside: str) -> int | None:
        """The folder `name` of the open `folder`, opened too; None where it is none, or may not be read."""
        try:
            if mount := self._mounts.get(inside):
                return _open_mount(mount)
            return os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            return None

    def _step(self, walk: _Walk, name: str, *, last: bool) -> str | None:
        """Go to `name` below the walk's end. Gives back the target where it is a link."""
        inside = walk.inside(name)
        if mount := self._mounts.get(inside):
            walk.push(name, _open_mount(mount), mount.writable)
            return None
        folder = walk.folders[-1] if walk.folders else None
        writable = bool(walk.writable) and walk.writable[-1]
        if folder is None:
            walk.push(name, None, writable)
            return None
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            walk.push(name, None, writable)
            return None
        if modes.S_ISLNK(status.st_mode):
            return os.readlink(name, dir_fd=folder)
        if modes.S_ISDIR(status.st_mode):
            walk.push(name, os.open(name, FOLDER, dir_fd=folder), writable)
        elif last:
            walk.push(name, None, writable)
        else:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", inside)
        return None

    def _mount_above(self, inside: str) -> bool:
        return any(inside.startswith(f"{known}/") for known in self._mounts)

    def _outside(self, inside: str) -> PathRefused:
        return PathRefused(f"{inside} is outside: file tools reach {self._shown} (the shell sees more)")

    def _place(self, walk: _Walk) -> Place:
        inside = walk.inside()
        if inside not in self._mounts and not self._mount_above(inside):
            raise self._outside(inside)
        if walk.folders[-1] is not None:
            return Place(inside, walk.folders[-1], None, (), walk.writable[-1])
        known = max(index for index, folder in enumerate(walk.folders) if folder is not None)
        *missing, name = walk.names[known + 1 :]
        return Place(inside, walk.folders[known], name, tuple(missing), walk.writable[-1])


def _open_mount(mount: Mount) -> int:
    # Laid out by us: its own path on the host may hold links.
    return os.open(mount.host, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
