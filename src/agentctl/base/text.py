"""Text that enters from outside is made safe here, once: no lone surrogates, no halves where it is cut."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200d\ufe0f\ufe0e"


def clean(text: str) -> str:
    """`text` as valid Unicode: a surrogate pair becomes its character, a lone half becomes U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def decode(data: bytes) -> str:
    """Bytes from a program as text: UTF-8, each undecodable byte replaced."""
    return data.decode("utf-8", "replace")


def _splits_a_character(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` would part a letter from its marks, or an emoji from its modifiers."""
    if at <= 0 or at >= len(text):
        return False
    after, before = text[at], text[at - 1]
    return (
        unicodedata.combining(after) != 0
        or after in _JOINERS
        or before == "\u200d"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")
    )


def head(text: str, limit: int) -> str:
    """At most the first `limit` characters of `text`, never half of a combined character."""
    if len(text) <= limit:
        return text
    while limit > 0 and _splits_a_character(text, limit):
        limit -= 1
    return text[:limit]


def tail(text: str, limit: int) -> str:
    """At most the last `limit` characters of `text`, never half of a combined character."""
    start = len(text) - limit
    if start <= 0:
        return text
    while start < len(text) and _splits_a_character(text, start):
        start += 1
    return text[start:]


def head_bytes(data: bytes, limit: int) -> bytes:
    """At most the first `limit` bytes of UTF-8 `data`, cut between characters where it is valid UTF-8."""
    if len(data) <= limit:
        return data
    end = limit
    while end > max(0, limit - 4) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def tail_bytes(data: bytes, limit: int) -> bytes:
    """At most the last `limit` bytes of UTF-8 `data`, cut between characters where it is valid UTF-8."""
    start = max(0, len(data) - limit)
    stop = min(len(data), start + 4)
    while start < stop and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def cut(text: str, limit: int, *, saved_as: str | None = None) -> str:
    """`text` if it has at most `limit` characters, else its head and tail with the cut stated between.

    The result has at most `limit` characters plus one line of notice. `saved_as` names where the whole is kept.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    first, last = head(text, half), tail(text, limit - half)
    kept = f"; whole output in {saved_as}" if saved_as else ""
    left_out = len(text) - len(first) - len(last)
    return f"{first}\n[... {left_out} of {len(text)} characters left out{kept} ...]\n{last}"
