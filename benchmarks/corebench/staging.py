"""Lays a capsule out for an attempt: a copy of what its level lets the agent see, and nothing else.

The copy stands at `<folder>/workspace/<capsule_id>/`, the report belongs beside it. What a level takes away is never
copied. Unlike in the benchmark's harness, a capsule that lacks what its level takes away is staged all the same.
"""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentctl.base.errors import InputError, SetupError
from agentctl.base.jsonio import canonical, digest
from agentctl.tools.sandbox.protocol import Mount, Workspace

from .dataset import Capsule, Level
from .shipped import Manifest, ShippedFile, fingerprint, name_in_json

REPRODUCING = "REPRODUCING.md"
ROOTS = ("code", "data", "results")  # folders that capsules also look for at the root of the file system

_BUILD = frozenset({REPRODUCING, "environment", "code/run", "code/run.sh"})
_LEFT_OUT = {Level.EASY: _BUILD, Level.MEDIUM: frozenset({"results"}), Level.HARD: _BUILD | {"results"}}


@dataclass(frozen=True)
class Entry:
    """One thing of a capsule that its level shows: a folder, a regular file, or a link that stays inside."""

    path: str  # relative to the capsule's folder
    status: os.stat_result
    target: str | None = None  # of a link, as it is made in the copy


@dataclass(frozen=True)
class Staged:
    """A capsule laid out: what the sandbox needs, and what was shipped."""

    workspace: Workspace
    manifest: Manifest


def stage(capsule_id: str, source: Path, level: Level, folder: Path, sandbox_kind: str, *, gold: Path) -> Staged:
    """Copy the capsule in the host folder `source` into the attempt's host `folder`, as `level` wants it.

    In a sandbox of kind `local` paths inside are the host's; in others the workspace is /workspace, and the capsule's
    code, data and results (where it has them) are at the root, too. `gold` is the dataset file: found among the
    capsule's files, it is refused. Also refused, with InputError: links that lead out, devices, a `results` that is no
    folder, an earlier staging in the same place. SetupError where the disk is too small.
    """
    if level is Level.MEDIUM and not (source / REPRODUCING).is_file():
        raise InputError(f"has no {REPRODUCING}, which level medium is about", file=source, remedy="use another level")
    entries = list(shown(source, level, gold=gold))
    _check_space(entries, folder)
    work = folder / "workspace"
    try:
        work.mkdir(parents=True)
        (folder / "scratch").mkdir()
    except FileExistsError as error:
        raise InputError("an attempt was staged here before", file=error.filename, remedy="use a new folder") from None
    copy = work / capsule_id
    shipped = _copy(source, copy, entries)
    manifest = Manifest(source=source.resolve(), capsule_id=capsule_id, files=shipped)
    mounts = _mounts(work, copy, sandbox_kind)
    material = f"{mounts[0].inside}/{capsule_id}"
    return Staged(Workspace(mounts=mounts, scratch=folder / "scratch", material=material), manifest)


def shown(source: Path, level: Level, *, gold: Path | None = None) -> Iterator[Entry]:
    """What of the capsule in `source` an agent may see at `level`, folders before what is in them, sorted by name."""
    if not source.is_dir():
        raise InputError("no such capsule folder", file=source, remedy="unpack the capsule there")
    results = source / "results"
    if results.is_symlink() or (results.exists() and not results.is_dir()):
        raise InputError("must be a real folder", file=results, remedy="put the folder itself in its place")
    yield from _walk(source.resolve(), _LEFT_OUT[level], gold if gold is not None and gold.is_file() else None)


def task_digest(capsule: Capsule, level: Level | str, source: Path) -> str:
    """SHA-256 over all that an attempt is given and is scored against: the entry, the level, and the files it shows.

    A file up to 1 MiB enters with its content, a larger one with its size and its first and last 64 KiB. Times, modes,
    owners and empty folders don't count, so that a fresh unpacking or checkout is the same task.
    """
    level = Level.named(level)
    root = source.resolve()
    files = [
        [name_in_json(entry.path), entry.target or fingerprint(root / entry.path)]
        for entry in shown(source, level)
        if not stat.S_ISDIR(entry.status.st_mode)
    ]
    return digest(canonical(["corebench", level, capsule.model_dump(mode="json"), files]))


def _walk(root: Path, left_out: frozenset[str], gold: Path | None) -> Iterator[Entry]:
    """The entries below `root`. Not recursive, so that no depth of folders is too much."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        inner = []
        for item in _sorted_entries(root / folder):
            path = f"{folder}/{item.name}" if folder else item.name
            if path in left_out:
                continue
            status = item.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                yield Entry(path, status, _target(root, path))
                continue
            if stat.S_ISDIR(status.st_mode):
                inner.append(path)
            elif not stat.S_ISREG(status.st_mode):
                raise InputError("a device, socket or pipe can't be staged", file=root / path, remedy="take it out")
            elif gold is not None and status.st_size == gold.stat().st_size and filecmp.cmp(root / path, gold, False):
                raise InputError(
                    "the dataset, with its gold answers, is in the capsule", file=root / path, remedy="move it"
                )
            yield Entry(path, status)
        waiting.extend(reversed(inner))


def _sorted_entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return sorted(items, key=lambda item: item.name)
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", file=folder) from None


def _target(root: Path, path: str) -> str:
    """Where the link at `path` leads, as it is written in the copy. InputError if that is outside of the capsule.

    Links to /code, /data and /results, where capsules expect their folders, and absolute ones into the capsule itself
    become relative, so that they hold in every sandbox.
    """
    link = root / path
    written = str(link.readlink())
    goal = PurePosixPath(written)
    if goal.is_absolute() and len(goal.parts) > 1 and goal.parts[1] in ROOTS:
        goal = PurePosixPath(root, *goal.parts[1:])
    real = os.path.realpath(link.parent / goal)
    if real != str(root) and not real.startswith(f"{root}{os.sep}"):
        raise InputError(
            f"a link that leads out of the capsule, to {name_in_json(written)}",
            file=name_in_json(str(link)),
            remedy="put a copy of the file in its place",
        )
    lexical = PurePosixPath(os.path.normpath(PurePosixPath(path).parent / written))
    stays_below = not lexical.is_absolute() and lexical.parts[:1] != ("..",)
    return written if stays_below else os.path.relpath(real, link.parent)


def _check_space(entries: list[Entry], folder: Path) -> None:
    needed = sum(entry.status.st_blocks * 512 for entry in entries)
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise SetupError(
            f"the capsule takes {needed / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free", file=place, remedy="make room"
        )


def _copy(source: Path, copy: Path, entries: list[Entry]) -> dict[str, ShippedFile]:
    """Make the entries below `copy`, with their times. Returns the regular files as they stand there."""
    root = source.resolve()
    shipped: dict[str, ShippedFile] = {}
    copy.mkdir()
    for entry in entries:
        target = copy / entry.path
        try:
            if entry.target is not None:
                target.symlink_to(entry.target)
            elif stat.S_ISDIR(entry.status.st_mode):
                target.mkdir()
            else:
                shipped[name_in_json(entry.path)] = _copy_file(root / entry.path, target, entry.status)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise SetupError("the disk is full", file=copy, remedy="make room") from None
            raise InputError(f"can't be copied: {error.strerror}", file=name_in_json(str(root / entry.path))) from None
    (copy / "results").mkdir(exist_ok=True)
    return shipped


def _copy_file(source: Path, target: Path, status: os.stat_result) -> ShippedFile:
    """Copy a regular file: no more blocks than the source has, its times, its mode and the owner's right to write."""
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _copy_content(reader, writer, status)
            os.fchmod(writer, stat.S_IMODE(status.st_mode) & 0o777 | 0o600)
            os.utime(writer, ns=(status.st_atime_ns, status.st_mtime_ns))
            written = os.fstat(writer)
        finally:
            os.close(writer)
    finally:
        os.close(reader)
    return ShippedFile.of(written)


def _copy_content(reader: int, writer: int, status: os.stat_result) -> None:
    size = status.st_size
    if status.st_blocks * 512 >= size:
        _copy_range(reader, writer, 0, size)
        return
    os.ftruncate(writer, size)  # sparse, or compressed by the file system: copy what is there and leave the holes
    at = 0
    while at < size:
        try:
            start = os.lseek(reader, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        at = os.lseek(reader, start, os.SEEK_HOLE)
        _copy_range(reader, writer, start, at - start)


def _copy_range(reader: int, writer: int, start: int, count: int) -> None:
    """Copy in the kernel, which shares the blocks where the file system can; by hand where it can't even that."""
    end = start + count
    in_kernel = True
    while start < end:
        if in_kernel:
            try:
                moved = os.copy_file_range(reader, writer, end - start, start, start)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
                    raise
                moved = 0
            in_kernel = moved > 0
        else:
            moved = os.pwrite(writer, os.pread(reader, min(end - start, 1 << 20), start), start)
            if moved == 0:  # the source shrank under us
                return
        start += moved


def _mounts(work: Path, copy: Path, sandbox_kind: str) -> tuple[Mount, ...]:
    if sandbox_kind == "local":
        return (Mount(inside=str(work), host=work),)
    roots = (Mount(inside=f"/{name}", host=(copy / name).resolve()) for name in ROOTS if (copy / name).is_dir())
    return (Mount(inside="/workspace", host=work), *roots)
