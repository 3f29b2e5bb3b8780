"""`capsules.lock`: the digest of each archive, learned at its first download and demanded ever after.

One line a capsule, sorted, so that it can be kept under version control beside an experiment.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from agentctl.base.errors import refused
from agentctl.base.jsonio import write_atomically
from agentctl.base.values import Frozen

from .place import sweep_writes


class Pin(Frozen):
    """What an archive is: its SHA-256 and, where it was unpacked once, how much it is. Sizes in bytes."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: int | None = None
    unpacked: int | None = None


class LockFile(Frozen):
    """Pins by `collection/id`."""

    source: str = ""
    capsules: dict[str, Pin] = Field(default_factory=dict)

    def encoded(self) -> bytes:
        lines = (
            f"  {json.dumps(key)}: {json.dumps(pin.model_dump(exclude_none=True))}"
            for key, pin in sorted(self.capsules.items())
        )
        source = f' "source": {json.dumps(self.source)},\n' if self.source else ""
        return ("{\n" + source + ' "capsules": {\n' + ",\n".join(lines) + "\n }\n}\n").encode()


@cache
def published_pins() -> Mapping[str, Pin]:
    """The digests that others published."""
    text = files(__package__).joinpath("published.lock").read_text(encoding="utf-8")
    return LockFile.model_validate_json(text).capsules


def read_lock(path: Path) -> LockFile:
    """The lock file at `path`, empty where there is none. InputError where it is no lock file."""
    try:
        return LockFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return LockFile()
    except ValidationError as error:
        raise refused(error, file=path, remedy="not a lock file: restore it") from None


def pin_of(path: Path, key: str) -> Pin | None:
    """What the archive of `key` must be: by the lock file at `path`, else by what others published."""
    return read_lock(path).capsules.get(key) or published_pins().get(key)


def pin(path: Path, key: str, found: Pin) -> None:
    """Write down what the archive of `key` is. Safe beside other processes that do the same."""
    if read_lock(path).capsules.get(key) == found:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        sweep_writes(path)
        lock = read_lock(path)
        write_atomically(path, lock.model_copy(update={"capsules": {**lock.capsules, key: found}}).encoded())
