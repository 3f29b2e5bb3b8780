"""What of a workspace is kept in the record when an attempt ends: `workspace/`, and `workspace.json`, which lists all.

The deliverable is always kept, by its task. Besides it `changes` keeps files that the run made or changed, up to 50 MB
together: program text, documents, tables, figures and what lies in a `results` folder first, then the rest, each from
the smallest on, so that one giant does not crowd out a report; installed packages and caches are left out. `all` keeps
every file that the disk has room for. Files are read through the sandbox alone: links, devices and pipes stay behind.

A file stands in `workspace/` whole or not at all, and `workspace.json` is written last: where it is absent, keeping was
cut off.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import Keep
from agentctl.base.jsonio import write_atomically
from agentctl.base.values import Frozen
from agentctl.tools.sandbox.files import MAX_DEPTH
from agentctl.tools.sandbox.protocol import FileInfo, FileKind, PathRefused, Sandbox

from .corebench.provenance import INSTALLED
from .corebench.shipped import name_in_json

BUDGET = 50 << 20  # bytes that `changes` keeps
MOST_FILES = 10_000  # files that `changes` keeps
LISTED = 200_000  # entries of a workspace that are looked at
DEPTH = MAX_DEPTH - 1  # folders one in another that are looked into: a list goes one further, to tell of deeper ones
RESERVE = 64 << 20  # bytes of the disk that keeping leaves free, for the result and for others
_PIECE = 4 << 20  # bytes read at a time
MANIFEST = "workspace.json"
PART = ".keeping.part"  # the file of a record that is being copied
DELIVERABLE = "the deliverable, which is kept by its own name"
_SPARSE = 16 << 20  # bytes; a larger file that takes less than a sixteenth of its size on disk is mostly a hole

_FIRST = frozenset(
    (
        *(".py", ".r", ".rmd", ".qmd", ".ipynb", ".jl", ".m", ".do", ".sh", ".sql", ".c", ".cpp", ".h", ".patch"),
        *(".md", ".txt", ".rst", ".tex", ".html", ".pdf", ".log", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini"),
        *(".csv", ".tsv", ".xlsx", ".png", ".jpg", ".jpeg", ".svg", ".eps"),
    )
)  # fmt: skip

State: TypeAlias = Literal["given", "made", "changed", "removed", "unknown"]
Over: TypeAlias = Callable[[], bool]  # whether it is time to stop


class FileEntry(Frozen):
    """One file of the workspace at the end."""

    path: str  # below the workspace; bytes that are not UTF-8 as \\xNN
    size: int  # bytes
    state: State  # given: size and time are as they were at the start; unknown: not all was looked at then
    kept: bool = False
    why: str = ""  # it is not kept
    sha256: str | None = None  # of what is kept
    cut: bool = False  # secrets were cut out of what is kept


class WorkspaceManifest(Frozen):
    """`workspace.json`."""

    schema_version: int = 1
    keep: Keep
    start: str  # the workspace, as it was seen inside
    complete: bool  # whether all files were looked at, at the start as well as at the end
    kept_files: int
    kept_bytes: int
    files: tuple[FileEntry, ...]


@dataclass(frozen=True)
class AtStart:
    """How the workspace stood before the agent began: size and time of each file, by its path."""

    files: dict[str, tuple[int, int]]
    complete: bool  # whether these are all

    @classmethod
    def of(cls, sandbox: Sandbox) -> AtStart:
        listing = _Listing.of(sandbox)
        return cls({info.path: (info.size, info.modified_ns) for info in listing.files}, listing.complete)

    def state(self, info: FileInfo) -> State:
        was = self.files.get(info.path)
        if was is None:
            return "made" if self.complete else "unknown"
        return "given" if was == (info.size, info.modified_ns) else "changed"


def keep_workspace(
    sandbox: Sandbox, record: Path, keep: Keep, at_start: AtStart, *, deliverable: str, secrets: Secrets, over: Over
) -> WorkspaceManifest:
    """Copy what `keep` says into the `record` folder. Nothing should run in the sandbox any more.

    `deliverable` is the path of what the task has collected already. Once `over` says so, nothing more is copied.
    OSError where the disk does not even take the manifest.
    """
    listing = _Listing.of(sandbox)
    copying = _Copying(sandbox, record, keep, secrets, over)
    entries: dict[str, FileEntry] = {}
    wanted: list[tuple[FileInfo, State]] = []
    for info in listing.files:
        state = at_start.state(info)
        why = _left_out(info, state, keep, deliverable, secrets)
        if why is None:
            wanted.append((info, state))
        else:
            entries[info.path] = FileEntry(path=_name(sandbox, info.path), size=info.size, state=state, why=why)
    for info, state in sorted(wanted, key=lambda each: (each[1] == "unknown", _rank(each[0]))):
        entries[info.path] = copying.entry(info, state)
    if listing.complete:
        for path in at_start.files.keys() - entries.keys():
            entries[path] = FileEntry(path=_name(sandbox, path), size=at_start.files[path][0], state="removed")
    manifest = WorkspaceManifest(
        keep=keep,
        start=sandbox.workspace.start,
        complete=listing.complete and at_start.complete,
        kept_files=copying.files,
        kept_bytes=copying.bytes,
        files=tuple(entries[path] for path in sorted(entries)),
    )
    write_atomically(record / MANIFEST, secrets.cut_line(_encoded(manifest)))
    return manifest


def _encoded(manifest: WorkspaceManifest) -> bytes:
    """As JSON, a line a file."""
    head = manifest.model_dump_json(exclude={"files"}).removesuffix("}")
    lines = ",\n".join(entry.model_dump_json(exclude_defaults=True) for entry in manifest.files)
    return f'{head},"files":[\n{lines}\n]}}\n'.encode()


@dataclass(frozen=True)
class _Listing:
    """What is in the workspace, but its folders."""

    files: list[FileInfo]
    complete: bool  # whether these are all: there are no more entries than are looked at, and none is deeper

    @classmethod
    def of(cls, sandbox: Sandbox) -> _Listing:
        found = sandbox.list(sandbox.workspace.start, depth=DEPTH + 1, limit=LISTED + 1)
        shallow = [info for info in found[:LISTED] if _below(sandbox, info.path).count("/") < DEPTH]
        return cls([info for info in shallow if info.kind is not FileKind.FOLDER], len(shallow) == len(found))


def _below(sandbox: Sandbox, path: str) -> str:
    """`path`, as seen inside, below the workspace."""
    return path.removeprefix(sandbox.workspace.start.rstrip("/") + "/")


def _name(sandbox: Sandbox, path: str) -> str:
    """`path`, as seen inside, as the manifest has it."""
    return name_in_json(_below(sandbox, path))


def _left_out(info: FileInfo, state: State, keep: Keep, deliverable: str, secrets: Secrets) -> str | None:
    """Why a file is not to be kept, empty where its state says it; None where it is."""
    if info.kind is not FileKind.FILE:
        return "a link" if info.kind is FileKind.LINK else "a device, pipe or socket"
    if info.path == deliverable:
        return DELIVERABLE
    if keep == "answers":
        return "only the deliverable is kept"
    if keep == "changes" and state == "given":
        return ""
    if keep == "changes" and INSTALLED & set(info.path.split("/")):
        return "an installed package, or a cache"
    if info.size > _SPARSE and info.blocks < info.size // 16:
        return f"mostly a hole: it takes {info.blocks:,} bytes of the disk"
    return "its name holds a secret" if secrets.cut(name_in_json(info.path)) != name_in_json(info.path) else None


def _rank(info: FileInfo) -> tuple[bool, int, str]:
    """What a reader wants first comes first; of that the smallest."""
    place = PurePosixPath(info.path)
    return not (place.suffix.lower() in _FIRST or "results" in place.parts), info.size, info.path


class _Copying:
    """Copies files into the record, one by one, as long as there is room and time."""

    def __init__(self, sandbox: Sandbox, record: Path, keep: Keep, secrets: Secrets, over: Over) -> None:
        self._sandbox = sandbox
        self._folder = record / "workspace"
        self._part = record / PART
        self._secrets = secrets
        self._over = over
        free = shutil.disk_usage(record).free - RESERVE
        self._room = free if keep == "all" else min(free, BUDGET)
        self._why_no_room = "no room on the disk" if self._room == free else f"over the {BUDGET >> 20} MB that are kept"
        self._most = LISTED if keep == "all" else MOST_FILES
        self.files = 0
        self.bytes = 0

    def entry(self, info: FileInfo, state: State) -> FileEntry:
        """Copy one file, if that can be. What the manifest says of it."""
        entry = FileEntry(path=_name(self._sandbox, info.path), size=info.size, state=state)
        why = self._hindrance(info)
        if not why:
            try:
                digest, cut = self._copy(info)
                self.files += 1
                self.bytes += info.size
                return entry.model_copy(update={"kept": True, "sha256": digest, "cut": cut})
            except (OSError, PathRefused) as error:
                why = (isinstance(error, OSError) and error.strerror) or str(error)
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._room, self._why_no_room = 0, "the disk was full"
            finally:
                self._part.unlink(missing_ok=True)
        return entry.model_copy(update={"why": why})

    def _hindrance(self, info: FileInfo) -> str:
        if self.bytes + info.size > self._room:
            return self._why_no_room
        if self.files >= self._most:
            return f"over the {self._most:,} files that are kept"
        return "no time was left" if self._over() else ""

    def _copy(self, info: FileInfo) -> tuple[str, bool]:
        """Copy a file whole or not at all. SHA-256 of the copy, and whether secrets were cut out of it."""
        target = self._folder / _below(self._sandbox, info.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        given, written = hashlib.sha256(), hashlib.sha256()
        with self._part.open("wb") as part:
            for piece in self._secrets.cut_pieces(self._pieces(info, given)):
                part.write(piece)
                written.update(piece)
        self._part.replace(target)
        return written.hexdigest(), given.digest() != written.digest()

    def _pieces(self, info: FileInfo, given: hashlib._Hash) -> Iterator[bytes]:
        """The file's bytes. OSError where there are fewer than it had when it was listed."""
        for offset in range(0, info.size, _PIECE):
            wanted = min(_PIECE, info.size - offset)
            piece = self._sandbox.read(info.path, offset=offset, limit=wanted)
            if len(piece) < wanted:
                raise OSError("it changed while it was copied")
            given.update(piece)
            yield piece
