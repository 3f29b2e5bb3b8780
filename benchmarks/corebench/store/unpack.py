"""Unpacks a capsule's archive so that nothing in it can reach outside of the folder it is given.

No link exists while files are written: links are made last, when all that they can lead through is known. So nothing
is ever written through a link, and where one leads is decided by names alone. (tarfile's own `data` filter asks the
disk, and refuses links to /data, which capsules have.)
"""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from agentctl.base.errors import InputError, SetupError
from agentctl.base.text import head

from ..shipped import name_in_json
from ..staging import ROOTS
from .archive import Hostile, Kind, Member, members

_LONGEST_NAME = 255  # bytes of one part of a path: what file systems take
_LONGEST_PATH = 2000  # bytes; the system takes 4096, with the store's own path before it
_LATEST = 2**33  # seconds since 1970: the year 2242
_LINKS_IN_A_ROW = 40  # as Linux
_NOT_WRITABLE = (errno.EEXIST, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)  # a name that this disk does not take


@dataclass(frozen=True)
class ArchiveLimits:
    """The most that an archive may unpack to."""

    total: int = 200 << 30  # bytes
    entries: int = 1_000_000
    depth: int = 64  # folders in each other


@dataclass
class Unpacked:
    """What was written: where the capsule begins, its bytes, and what stands for each file's and link's content."""

    root: Path
    size: int = 0
    digests: dict[str, str] = field(default_factory=dict)


def unpack(archive: Path, folder: Path, capsule_id: str, limits: ArchiveLimits | None = None) -> Unpacked:
    """Unpack the capsule `capsule_id` from `archive` into `folder`, which must not exist yet.

    An archive has one top folder, named by the id; one without it, with `code` at its top, is taken as well. InputError
    names archive, member and reason for whatever is refused; SetupError where the disk is full. What was written by
    then stays: `folder` is the caller's to throw away.
    """
    folder.mkdir(parents=True)
    try:
        return _Tree(folder, capsule_id, limits or ArchiveLimits()).filled(archive)
    except Hostile as refusal:
        raise InputError(
            refusal.why,
            file=archive,
            field=None if refusal.member is None else shown(refusal.member),
            remedy="nothing of it was kept",
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError("the disk is full", file=folder, remedy="make room: agentctl capsule remove") from None
        raise


def shown(name: str) -> str:
    """A member's name on one line, whatever it holds."""
    return head(repr(name)[1:-1], 200)


class _Tree:
    """The folder that is being filled. Paths are texts, relative to the archive's top."""

    def __init__(self, folder: Path, capsule_id: str, limits: ArchiveLimits) -> None:
        self._folder = folder
        self._id = capsule_id
        self._limits = limits
        self._kinds: dict[str, Kind] = {}
        self._links: dict[str, str] = {}
        self._done = Unpacked(folder)

    def filled(self, archive: Path) -> Unpacked:
        for member in members(archive):
            try:
                self._add(member)
            except Hostile as refusal:
                raise Hostile(refusal.why, member.name) from None
            except OSError as error:
                if error.errno not in _NOT_WRITABLE:
                    raise
                raise Hostile(f"can't be written on this disk: {error.strerror}", member.name) from None
        top = self._top()
        self._make_links(top)
        self._done.root = self._folder / top
        self._done.digests = {name_in_json(path.removeprefix(top)): of for path, of in self._done.digests.items()}
        return self._done

    def _add(self, member: Member) -> None:
        path = self._checked(member.name)
        if path is None:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self._make_folder(parent)
        match member.kind:
            case Kind.FOLDER:
                self._make_folder(path)
            case Kind.FILE:
                self._take(path, Kind.FILE)
                self._write(path, member)
            case Kind.SAME:
                self._repeat(path, member.target)
            case Kind.LINK:
                self._take(path, Kind.LINK)
                self._links[path] = member.target
            case Kind.ODD:
                raise Hostile(f"is {Kind.ODD}")

    def _checked(self, name: str) -> str | None:
        """A member's name as a path; None for one that has nothing to do with the capsule."""
        if name.startswith("/"):
            raise Hostile("has an absolute name")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise Hostile("has a name that leads out")
        if not parts or parts[0].startswith("._") or parts[0] in ("__MACOSX", ".DS_Store"):
            return None  # the archive's own top, or what macOS adds beside it
        if any(ord(character) < 32 or ord(character) == 127 for character in name):
            raise Hostile("has a control character in its name")
        try:
            longest, whole = max(len(os.fsencode(part)) for part in parts), len(os.fsencode(name))
        except UnicodeEncodeError:
            raise Hostile("has half a character in its name") from None
        if longest > _LONGEST_NAME or whole > _LONGEST_PATH:
            raise Hostile("has too long a name")
        if len(parts) > self._limits.depth:
            raise Hostile(f"is more than {self._limits.depth} folders deep")
        return "/".join(parts)

    def _take(self, path: str, kind: Kind) -> None:
        if path in self._kinds:
            raise Hostile(f"stands twice, first as {self._kinds[path]}")
        if len(self._kinds) >= self._limits.entries:
            raise Hostile(f"is one of more than {self._limits.entries:,} entries")
        self._kinds[path] = kind

    def _make_folder(self, path: str) -> None:
        """The folder at `path`, with those above it."""
        known = self._kinds.get(path)
        if known is Kind.FOLDER:
            return
        if known is not None:
            raise Hostile(f"wants {shown(path)} to be a folder, which is {known}")
        parent = path.rpartition("/")[0]
        if parent:
            self._make_folder(parent)
        self._take(path, Kind.FOLDER)
        (self._folder / path).mkdir()

    def _write(self, path: str, member: Member) -> None:
        self._count(member.size)
        mode = 0o755 if member.executable else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        seen = hashlib.sha256()
        with os.fdopen(os.open(self._folder / path, flags, mode), "wb", buffering=0) as file:
            for block in member.content:
                seen.update(block)
                file.write(block)
            if 0 <= member.modified < _LATEST:
                os.utime(file.fileno(), (member.modified, member.modified))
        self._done.digests[path] = seen.hexdigest()

    def _repeat(self, path: str, target: str) -> None:
        """A hard link: the same file by another name. The first must have been written before."""
        first = self._checked(target)
        if first is None or self._kinds.get(first) is not Kind.FILE:
            raise Hostile(f"is a hard link to {shown(target)}, which is no file of the archive before it")
        self._take(path, Kind.FILE)
        (self._folder / path).hardlink_to(self._folder / first)
        self._count((self._folder / path).stat().st_size)  # whoever copies it gets it once more
        self._done.digests[path] = self._done.digests[first]

    def _count(self, size: int) -> None:
        self._done.size += size
        if self._done.size > self._limits.total:
            raise Hostile(f"would unpack to more than the {self._limits.total / 1e9:,.1f} GB that there are for it")

    def _top(self) -> str:
        """What all paths of the capsule begin with: its folder's name and a slash, or nothing."""
        tops = sorted({path.partition("/")[0] for path in self._kinds})
        if tops == [self._id] and self._kinds[self._id] is Kind.FOLDER:
            return f"{self._id}/"
        if self._kinds.get("code") is Kind.FOLDER:
            return ""
        found = ", ".join(map(shown, tops[:5])) or "nothing"
        raise Hostile(f"holds {found}, not one folder {self._id}")

    def _make_links(self, top: str) -> None:
        """Make all links, once each is known to lead to a place below `top`."""
        written = {}
        inside = {path.removeprefix(top): target for path, target in self._links.items()}
        for path, target in inside.items():
            parent = path.rpartition("/")[0]
            try:
                lead(inside, parent, target)
            except Hostile as refusal:
                raise Hostile(refusal.why, top + path) from None
            absolute = target.startswith("/")
            written[path] = os.path.relpath(target[1:], parent or ".") if absolute else target
        for path, target in written.items():
            (self._folder / top / path).symlink_to(target)
            self._done.digests[top + path] = f"-> {name_in_json(target)}"


def lead(links: dict[str, str], folder: str, target: str) -> str:
    """Where a link in `folder` with this `target` leads, through the other `links` of a capsule, by names alone.

    Paths are relative to the capsule; a target at /code, /data or /results means the capsule's own. Raises Hostile
    where that is outside of the capsule.
    """
    why = f"is a link that leads out of the capsule, to {shown(target)}"
    here = folder.split("/") if folder else []
    ahead: list[str] = []
    hops = 0

    def follow(target: str) -> None:
        nonlocal hops
        hops += 1
        if hops > _LINKS_IN_A_ROW:
            raise Hostile("is a link that leads in a circle")
        if not target or "\0" in target or len(os.fsencode(target)) > _LONGEST_PATH:
            raise Hostile("is a link to nowhere")
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if target.startswith("/"):
            if not parts or parts[0] not in ROOTS:
                raise Hostile(why)
            here.clear()
        ahead.extend(reversed(parts))

    follow(target)
    while ahead:
        part = ahead.pop()
        if part != "..":
            here.append(part)
        elif here:
            here.pop()
        else:
            raise Hostile(why)
        inner = links.get("/".join(here))
        if inner is not None:
            here.pop()
            follow(inner)
    return "/".join(here)
