"""Dataset files that were encrypted with a published pass phrase. Decrypted in memory, and never written in clear."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from agentctl.base.errors import InputError

from .catalog import published

ABOUT = "about.json"  # beside a dataset's file in the store
_ARMOUR = b"-----BEGIN PGP MESSAGE-----"
_SESSION_KEY_TAG = 3  # of the packet that an OpenPGP message with a pass phrase begins with


def is_encrypted(data: bytes) -> bool:
    """Whether `data` is an OpenPGP message that a pass phrase opens, binary or in armour. JSON never begins so."""
    if data.lstrip()[: len(_ARMOUR)] == _ARMOUR:
        return True
    first = data[0] if data else 0
    tag = first & 0x3F if first & 0x40 else (first & 0x3C) >> 2
    return bool(first & 0x80) and tag == _SESSION_KEY_TAG


def decrypted(data: bytes, file: Path, *, passphrase: str | None = None) -> bytes:
    """What is in the encrypted file `file` with the content `data`.

    Opened by `passphrase`, else by the one kept beside a file in the store, else by the published ones. InputError
    where none fits, or the content was damaged.
    """
    phrases = (passphrase,) if passphrase else _kept(file) or tuple(_published())
    return _opened(data, phrases, file)


@lru_cache(maxsize=4)  # making a key from a pass phrase takes half a second, on purpose
def _opened(data: bytes, phrases: tuple[str, ...], file: Path) -> bytes:
    import pysequoia

    try:
        return bytes(pysequoia.decrypt(data, passwords=list(phrases)).bytes or b"")
    except BaseException as error:
        # A file cut off early ends the library in a panic, which is no Exception.
        if not isinstance(error, RuntimeError) and type(error).__name__ != "PanicException":
            raise
        words = str(error).split("\n\nStack backtrace", 1)[0]  # the library's own stack is nothing for people
        if "No key to decrypt" in words:
            raise InputError(
                "is encrypted, and no known pass phrase opens it",
                file=file,
                remedy="agentctl capsule import FILE --name NAME --passphrase PHRASE",
            ) from None
        raise InputError(
            f"is encrypted and can't be decrypted: {words}", file=file, remedy="download it again"
        ) from None


def _published() -> list[str]:
    return [edition.passphrase for edition in published().values() if edition.passphrase]


def _kept(file: Path) -> tuple[str, ...]:
    """The pass phrase that an import kept beside `file`, if that is a dataset's file in the store."""
    try:
        about = json.loads((file.parent / ABOUT).read_text(encoding="utf-8"))
        phrase = about["edition"]["passphrase"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return (phrase,) if isinstance(phrase, str) else ()
