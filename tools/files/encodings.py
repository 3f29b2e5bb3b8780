"""How the bytes of a text file stand for characters: told without a guess where possible, and said where it is one."""

from __future__ import annotations

import codecs

_BOMS: tuple[tuple[bytes, str], ...] = (  # the longer first: UTF-32's mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1b"))  # what texts, and logs with colours, don't hold
NAMES = {
    "utf-8": "UTF-8",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32-le": "UTF-32",
    "utf-32-be": "UTF-32",
}


def wide_encoding(head: bytes) -> str | None:
    """The codec of a file of two or four bytes a character, by its mark or by where its zero bytes stand; else None."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    pairs = len(head) // 2
    if pairs < 4:
        return None
    even, odd = head[: 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if even == 0 and odd > 0.7 * pairs:
        codec, letters = "utf-16-le", head[0 : 2 * pairs : 2]
    elif odd == 0 and even > 0.7 * pairs:
        codec, letters = "utf-16-be", head[1 : 2 * pairs : 2]
    else:
        return None
    return codec if looks_like_text(letters) else None  # small numbers of two bytes have the same zeros


def mark_of(head: bytes) -> bytes:
    """The byte order mark that `head` starts with, or nothing."""
    return next((mark for mark, _ in ((codecs.BOM_UTF8, ""), *_BOMS) if head.startswith(mark)), b"")


def looks_like_text(head: bytes) -> bool:
    """Whether `head` can be text of one byte a unit: no zero byte, and hardly any control characters."""
    if 0 in head:
        return False
    return len(head) - len(head.translate(None, _CONTROLS)) <= len(head) // 50


def narrow_encoding(data: bytes) -> str:
    """The codec of text of one byte a unit: UTF-8 where valid, else Windows-1252 or Latin-1; it decodes `data`."""
    try:
        data.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        pass
    if any(0x80 <= byte <= 0x9F for byte in data):  # control characters in Latin-1, quotes and dashes in Windows-1252
        try:
            data.decode("cp1252")
            return "cp1252"
        except UnicodeDecodeError:
            pass
    return "latin-1"


def encoding_of(data: bytes) -> str:
    """The codec of the whole text `data`; its byte order mark, if any, is not part of the text."""
    return wide_encoding(data[:4096]) or narrow_encoding(data)
