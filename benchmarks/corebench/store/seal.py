"""What was unpacked, file by file, so that a change of it can be seen later."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from agentctl.base.errors import InputError
from agentctl.base.jsonio import write_atomically
from agentctl.base.values import Frozen

from ..dataset import Level
from ..shipped import name_in_json
from .place import Slot


class Seal(Frozen):
    """One unpacked capsule. Sizes in bytes."""

    address: str  # where its archive came from
    sha256: str  # of the archive
    archive: int
    unpacked: int
    files: int
    levels: tuple[Level, ...]  # those that what was unpacked has the files for
    fetched: datetime


class Difference(Frozen):
    """A file that is not as it was unpacked."""

    path: str
    how: Literal["changed", "missing", "added"]


Digests = TypeAdapter(dict[str, str])  # path -> SHA-256 of a file, or `-> target` of a link


def write_seal(slot: Slot, seal: Seal, digests: dict[str, str]) -> None:
    """Write down what `slot` holds; the summary last, so that it never stands without its files' digests."""
    for path in (slot.digests, slot.seal):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(slot.digests, Digests.dump_json(digests))
    write_atomically(slot.seal, seal.model_dump_json(indent=1).encode())


def read_seal(slot: Slot) -> Seal | None:
    """What was unpacked in `slot`; None where nothing was, or by hand."""
    try:
        return Seal.model_validate_json(slot.seal.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise InputError(
            "not a seal", file=slot.seal, remedy=f"agentctl capsule remove {slot.id}, then fetch it again"
        ) from None


def verify(slot: Slot) -> list[Difference]:
    """How the files of a capsule differ from what was unpacked. InputError where that was not written down."""
    if not slot.folder.is_dir():
        raise InputError("is not here", file=slot.folder, remedy=f"agentctl capsule fetch {slot.id}")
    try:
        sealed = Digests.validate_json(slot.digests.read_bytes())
    except FileNotFoundError:
        raise InputError(
            "nobody wrote down what it held: it was put there by hand",
            file=slot.folder,
            remedy=f"agentctl capsule remove {slot.id}, then fetch it",
        ) from None
    except ValidationError:
        raise InputError(
            "not a list of digests", file=slot.digests, remedy="remove the capsule and fetch it again"
        ) from None
    found = dict(digests_below(slot.folder))
    differences = [
        Difference(path=path, how="missing" if path not in found else "changed")
        for path, digest in sealed.items()
        if found.get(path) != digest
    ]
    differences += [Difference(path=path, how="added") for path in found if path not in sealed]
    return sorted(differences, key=lambda difference: difference.path)


def digests_below(folder: Path) -> Iterator[tuple[str, str]]:
    """Each file and link below `folder` with what stands for its content. No link is followed."""
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent) / name for name in (*folders, *files)):
            if path.is_symlink() or not path.is_dir():
                yield name_in_json(str(path.relative_to(folder))), digest_of(path)


def digest_of(path: Path) -> str:
    """SHA-256 of a file's content; where a link leads; what else it is."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"-> {name_in_json(str(path.readlink()))}"
    if not stat.S_ISREG(mode):
        return "neither a file nor a link"
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
