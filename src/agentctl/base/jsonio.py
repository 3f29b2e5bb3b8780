"""JSON in and out: strict reading, one canonical writing, digests, and files that are whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from pydantic import JsonValue

from .errors import InputError


class StrictJsonError(ValueError):
    """A text that is not strict JSON. `key` names the member at fault where one is known."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def dumps(value: Any) -> bytes:
    """`value` as compact UTF-8 JSON, keys in their given order. Decimals are written as numbers' plain text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_default).encode("utf-8")


def canonical(value: Any) -> bytes:
    """`value` as the one byte string that equal values share: compact UTF-8 JSON with sorted keys."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_default)
    return text.encode("utf-8")


def _default(value: object) -> str:
    if isinstance(value, Decimal | Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def digest(data: bytes) -> str:
    """SHA-256 of `data` in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def read_json(path: Path, *, what: str = "file") -> JsonValue:
    """The JSON value in the file `path`. InputError names the file, and line and column where it does not parse."""
    if path.exists() and not path.is_file():  # reading a device may never end
        raise InputError(f"is no regular file, so no {what}", file=path)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))  # type: ignore[no-any-return]
    except FileNotFoundError:
        raise InputError(f"no such {what}", file=path) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}", file=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't read {what}: {error}", file=path) from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` so that `path` is afterwards whole or as it was: a neighbour file is written, then renamed.

    A kill may leave the neighbour: see `written_for`.
    """
    neighbour = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        neighbour.write_bytes(data)
        neighbour.replace(path)
    except BaseException:
        neighbour.unlink(missing_ok=True)
        raise


def written_for(name: str) -> str | None:
    """The name of the file that a file called `name` was to become in `write_atomically`; None where it is no such."""
    neighbour = re.fullmatch(r"\.(.+)\.\d+\.part", name, re.DOTALL)
    return neighbour[1] if neighbour else None


def refuse_constant(name: str) -> NoReturn:
    """For `json.loads(parse_constant=...)`: NaN and the infinities are Python's, not JSON's."""
    raise StrictJsonError(f"{name} is not JSON")
