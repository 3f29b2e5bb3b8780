"""From a capsule's id to its folder in the store: downloaded, checked, unpacked, and there only when it is whole."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from agentctl.base.errors import InputError

from ..dataset import Level
from ..staging import REPRODUCING
from .catalog import Edition
from .download import NotThere, Silent, Watcher, download
from .library import Held, held, take_in
from .pins import Pin, pin, pin_of
from .place import Slot, Store, discard
from .room import UNPACKING, Room, clear_leftovers
from .seal import Seal, read_seal, write_seal
from .unpack import ArchiveLimits, unpack

_DATASETS = ".datasets"  # no collection has such a name


@dataclass(frozen=True)
class Fetching:
    """How capsules are fetched. `mirror` is an address, or a folder, with archives named `<id>.tar.gz`."""

    mirror: str | None = None
    lock_file: Path | None = None  # of digests, in place of the store's
    budget: int | None = None  # bytes that the whole store may take
    accept_changed: bool = False  # take an archive with another digest than before, and pin that


@dataclass(frozen=True)
class Fetched:
    """A capsule that is here. `new` is False for one that was here before."""

    slot: Slot
    seal: Seal | None
    new: bool


def fetch_dataset(store: Store, edition: Edition, watcher: Watcher | None = None, *, mirror: str | None = None) -> Held:
    """The dataset of `edition`, downloaded if it is not here yet.

    `mirror` is as for `Fetching`, and may hold the dataset's file under its published name; one that does not is passed
    over, for many mirrors have archives alone.
    """
    if edition.file is None:
        raise InputError(f"the dataset {edition.name} has no address", remedy="agentctl capsule import FILE")
    slot = store.slot(_DATASETS, edition.name)
    with slot.locked():
        here = held(store, edition.name)
        if here is not None and here.sha256 == edition.sha256:
            return here
        file, address = _dataset_file(edition.file, slot.part, mirror, watcher or Silent())
        try:
            found = _digest(file)
            if edition.sha256 not in (None, found):
                raise InputError(
                    f"has SHA-256 {found}, but {edition.name} is the file with {edition.sha256}",
                    file=address,
                    remedy="agentctl capsule import FILE, if you have it from elsewhere",
                )
            return take_in(store, file, edition, replace=True)
        finally:
            discard(slot.part)


def _dataset_file(published: str, part: Path, mirror: str | None, watcher: Watcher) -> tuple[Path, str]:
    """The dataset's file, and the address that it came from: of the mirror, else the published one."""
    if mirror is not None:
        address = f"{mirror.rstrip('/')}/{PurePosixPath(urlsplit(published).path).name}"
        if "://" not in mirror and Path(address).is_file():
            return Path(address), address
        if "://" in mirror:
            with suppress(NotThere):
                download(address, part, watcher=watcher)
                return part, address
        watcher.note(f"{address} is not there: asking {published}")
    download(published, part, watcher=watcher)
    return part, published


def fetch(
    store: Store, edition: Edition, capsule_id: str, how: Fetching | None = None, watcher: Watcher | None = None
) -> Fetched:
    """Bring the capsule into the store, if it is not here yet.

    Raises AgentctlError where it can't be downloaded, InputError where the archive is not the one it was before or
    can't be unpacked safely, SetupError where there is no room. Killed at any moment, it leaves what the next call goes
    on with or throws away. Two processes may fetch the same capsule: the second one waits and finds it.
    """
    how, watcher = how or Fetching(), watcher or Silent()
    slot = store.slot(edition.collection, capsule_id)
    with slot.locked(wait=False) as free:
        if free:
            return _fetched(store, edition, slot, how, watcher)
    watcher.note(f"another process is at {capsule_id}: waiting for it")
    with slot.locked():
        return _fetched(store, edition, slot, how, watcher)


def _fetched(store: Store, edition: Edition, slot: Slot, how: Fetching, watcher: Watcher) -> Fetched:
    """The work of `fetch`, with the capsule locked."""
    lock_file = how.lock_file or store.lock_file
    known = pin_of(lock_file, slot.key)
    clear_leftovers(slot)
    if slot.folder.is_dir():
        discard(slot.part)
        return Fetched(slot, _same(slot, known, lock_file), new=False)
    address = edition.address(slot.id, mirror=how.mirror)
    room = Room(store, how.budget)
    archive = _archive(slot, address, known, room, watcher)
    theirs = archive != slot.part  # a file in the user's own mirror folder
    try:
        found = _digest(archive)
        if known is not None and found != known.sha256 and not how.accept_changed:
            raise InputError(
                f"the archive has SHA-256 {found}, but {known.sha256} is the one known for {slot.id}",
                file=address,
                remedy=f"if the publisher changed it, --accept-changed; the pin is in {lock_file}",
            )
        seal = _unpacked(slot, archive, found, address, lock_file, room)
    except InputError:
        if not theirs:
            discard(slot.part)  # a refused archive is not gone on with
        raise
    if not theirs:
        discard(slot.part)
    return Fetched(slot, seal, new=True)


def _same(slot: Slot, known: Pin | None, lock_file: Path) -> Seal | None:
    """The seal of a capsule that is here. InputError where another archive is pinned than it came from."""
    seal = read_seal(slot)
    if seal is not None and known is not None and seal.sha256 != known.sha256:
        raise InputError(
            f"is here from the archive with SHA-256 {seal.sha256}, but {known.sha256} is pinned",
            file=slot.folder,
            remedy=f"agentctl capsule remove {slot.id}, then fetch it again; the pin is in {lock_file}",
        )
    return seal


def _archive(slot: Slot, address: str, known: Pin | None, room: Room, watcher: Watcher) -> Path:
    """The capsule's archive: downloaded, or where the mirror is a folder, as it is there."""
    unpacked = known.unpacked if known else None
    if "://" not in address:
        archive = Path(address)
        if not archive.is_file():
            raise InputError("no such archive", file=archive, field="--mirror", remedy="it is to hold <id>.tar.gz")
        room.demand(unpacked or archive.stat().st_size, slot.id)
        return archive

    here = slot.part.stat().st_size if slot.part.exists() else 0

    def admit(total: int | None) -> None:
        size = total or (known.size if known else None) or 0
        room.demand(max(0, size - here) + (unpacked or size), slot.id)  # no archive unpacks to less than it has

    download(address, slot.part, admit=admit, most=room.left() + here, watcher=watcher)
    return slot.part


def _unpacked(slot: Slot, archive: Path, sha256: str, address: str, lock_file: Path, room: Room) -> Seal:
    """Unpack the archive beside the capsule's place, write down what it held, and put it there."""
    beside = slot.folder.with_name(f"{UNPACKING}{slot.id}")
    try:
        done = unpack(archive, beside, slot.id, ArchiveLimits(total=min(ArchiveLimits.total, room.left())))
        seal = Seal(
            address=address,
            sha256=sha256,
            archive=archive.stat().st_size,
            unpacked=done.size,
            files=len(done.digests),
            levels=_levels(done.root),
            fetched=datetime.now(UTC).replace(microsecond=0),
        )
        write_seal(slot, seal, done.digests)
        pin(lock_file, slot.key, Pin(sha256=sha256, size=seal.archive, unpacked=seal.unpacked))
        done.root.rename(slot.folder)
    finally:
        clear_leftovers(slot)
    return seal


def _levels(folder: Path) -> tuple[Level, ...]:
    """The levels that there are files for."""
    easy = (folder / "results").is_dir() and any((folder / "results").iterdir())
    medium = (folder / REPRODUCING).is_file()
    return (*([Level.EASY] if easy else []), *([Level.MEDIUM] if medium else []), Level.HARD)


def _digest(archive: Path) -> str:
    with archive.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
