"""Where the store is, how it is laid out, and who may change a capsule in it.

    datasets/NAME/<digest>.json[.gpg]   a dataset's file, never overwritten; about.json says which one is current
    capsules/COLLECTION/ID/             an unpacked capsule; stands there only when it is whole
    seals/COLLECTION/ID.json            what was unpacked
    digests/COLLECTION/ID.json          each file of it
    downloads/COLLECTION/ID.part        an archive on its way
    capsules.lock                       the digests of the archives, learned at the first download
    flaws.yaml                          the user's own flaw list

A collection is a set of archives that share an address: versions of a dataset with capsules of their own keep apart.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentctl.base.jsonio import written_for


def store_folder(environment: Mapping[str, str]) -> Path:
    """The store: AGENTCTL_DATA, else `agentctl` where the XDG rules put a user's data. It need not exist."""
    named = environment.get("AGENTCTL_DATA")
    if named:
        return Path(named).expanduser().absolute()
    home = Path(environment.get("HOME") or Path.home())
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return (data if data.is_absolute() else home / ".local" / "share") / "agentctl"  # a relative one is to be ignored


@dataclass(frozen=True)
class Slot:
    """The places that belong to one capsule."""

    root: Path
    collection: str
    id: str

    @property
    def folder(self) -> Path:
        return self.root / "capsules" / self.collection / self.id

    @property
    def seal(self) -> Path:
        return self.root / "seals" / self.collection / f"{self.id}.json"

    @property
    def digests(self) -> Path:
        return self.root / "digests" / self.collection / f"{self.id}.json"

    @property
    def part(self) -> Path:
        return self.root / "downloads" / self.collection / f"{self.id}.part"

    @property
    def key(self) -> str:
        """The capsule's name in a lock file."""
        return f"{self.collection}/{self.id}"

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        """While this is held no other process changes the capsule. Without `wait`: False where another one holds it."""
        path = self.root / "locks" / self.collection / self.id
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)


@dataclass(frozen=True)
class Store:
    """The folder that holds datasets and capsules."""

    root: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Store:
        return cls(store_folder(environment))

    def slot(self, collection: str, capsule_id: str) -> Slot:
        return Slot(self.root, collection, capsule_id)

    @property
    def datasets(self) -> Path:
        return self.root / "datasets"

    @property
    def lock_file(self) -> Path:
        return self.root / "capsules.lock"

    @property
    def flaws(self) -> Path:
        return self.root / "flaws.yaml"

    def present(self) -> list[Slot]:
        """All capsules that are here."""
        folders = sorted((self.root / "capsules").glob("*/[!.]*"))
        return [self.slot(folder.parent.name, folder.name) for folder in folders]

    def sealed(self) -> list[Slot]:
        """Those that were unpacked here, not put here by hand."""
        return [slot for slot in self.present() if slot.seal.exists()]


def discard(part: Path) -> None:
    """Remove a part of a download, and what is known of it."""
    part.unlink(missing_ok=True)
    about(part).unlink(missing_ok=True)


def sweep_writes(path: Path) -> None:
    """Remove what killed processes left of writing `path` atomically. Nobody may be writing it."""
    for left in path.parent.glob(".*.part"):
        if written_for(left.name) == path.name:
            left.unlink(missing_ok=True)


def about(part: Path) -> Path:
    """The file that says of which file `part` is one."""
    return part.with_name(f"{part.name}.json")
