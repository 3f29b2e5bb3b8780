"""How much the store takes, how much it may take, and how it gets less. Sizes in bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from agentctl.base.errors import SetupError

from .place import Slot, Store, about, discard, sweep_writes
from .seal import read_seal

UNPACKING, _GOING = ".unpacking-", ".removed-"  # before a capsule's id: what is not there yet, or no more
_SPARE = 64 << 20  # bytes of the disk that are left to others


def used(store: Store) -> int:
    """What all capsules and downloads in the store take, as counted when they were unpacked."""
    seals = (read_seal(slot) for slot in store.sealed())
    parts = (path for path in (store.root / "downloads").glob("*/*") if path.is_file())
    return sum(seal.unpacked for seal in seals if seal) + sum(path.stat().st_size for path in parts)


@dataclass(frozen=True)
class Room:
    """How much more the store may take: within its `budget`, and on its disk."""

    store: Store
    budget: int | None = None

    def left(self) -> int:
        """Bytes that may still be written."""
        self.store.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.store.root).free - _SPARE
        return max(0, free if self.budget is None else min(free, self.budget - used(self.store)))

    def demand(self, needed: int, what: str) -> None:
        """SetupError where `needed` bytes more for `what` do not fit."""
        if needed <= (left := self.left()):
            return
        limit = f"of the budget of {in_words(self.budget)} " if self.budget is not None else "on the disk "
        raise SetupError(
            f"{what} takes at least {in_words(needed)}, {in_words(left)} {limit}are left",
            file=self.store.root,
            remedy="make room: agentctl capsule remove --until SIZE",
        )


def least_used(slots: Iterable[Slot]) -> list[Slot]:
    """Those capsules, the one first that was used least recently."""
    return sorted((slot for slot in slots if slot.seal.exists()), key=lambda slot: slot.seal.stat().st_mtime_ns)


def used_now(slot: Slot) -> None:
    """Note that the capsule is used, for `least_used`. A store that is only to be read stays as it is."""
    with suppress(OSError):
        os.utime(slot.seal)


def remove(slot: Slot) -> int:
    """Remove the capsule from the store; its digest stays pinned. Returns the bytes that it took."""
    with slot.locked():
        seal = read_seal(slot) if slot.seal.exists() else None
        clear_leftovers(slot)
        discard(slot.part)
        if slot.folder.exists():
            slot.folder.rename(slot.folder.with_name(f"{_GOING}{slot.id}"))  # from here on it is gone, if killed or not
            clear_leftovers(slot)
        slot.seal.unlink(missing_ok=True)
        slot.digests.unlink(missing_ok=True)
    return seal.unpacked if seal else 0


def clear_leftovers(slot: Slot) -> None:
    """Throw away what a killed process left of unpacking or removing the capsule. The capsule must be locked."""
    for start in (UNPACKING, _GOING):
        left = slot.folder.with_name(f"{start}{slot.id}")
        if left.exists():
            shutil.rmtree(left)
    for path in (slot.seal, slot.digests, about(slot.part)):
        sweep_writes(path)


def in_words(size: int) -> str:
    """A size for people: 640 B, 12.3 MB, 1.2 GB."""
    if size < 1000:
        return f"{size} B"
    amount, unit = float(size), "B"
    for unit in ("kB", "MB", "GB"):  # noqa: B007
        amount /= 1000
        if amount < 999.95:
            break
    return f"{amount:,.1f} {unit}"
