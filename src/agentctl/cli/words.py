"""How figures and texts are written for people at a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from decimal import ROUND_UP, Decimal

_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")  # of text's direction


def dollars(amount: Decimal) -> str:
    """`amount` in dollars, rounded up so that no spend looks smaller than it is: $0.0123, $1.24."""
    places = Decimal("0.0001") if amount < 1 else Decimal("0.01")
    return f"${amount.quantize(places, rounding=ROUND_UP)}" if amount else "$0"


def seconds(value: float) -> str:
    """A duration: 0.3 s, 42 s, 3m10s, 1h05m."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 100:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def count(number: int, what: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def harmless(text: str) -> str:
    """`text` of an agent or a program with nothing in it that a terminal acts on, line feeds and tabs apart."""
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in "\n\t" or (character.isprintable() and character not in _TURNING):
        return character
    number = ord(character)
    if number < 32:
        return chr(0x2400 + number)  # its picture
    return " " if character in "\u2028\u2029\xa0" or character.isspace() else "\N{REPLACEMENT CHARACTER}"


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int) -> str:
    """`text` on one line of at most `width` columns, cut with a mark where it is longer."""
    text = " ".join(harmless(text).split())
    if columns(text) <= width:
        return text
    taken, at = 0, 0
    while at < len(text) and taken + _columns(text[at]) < width:
        taken += _columns(text[at])
        at += 1
    return text[:at] + "…"


def padded(text: str, width: int) -> str:
    """`text` on exactly `width` columns."""
    text = fitted(text, width)
    return text + " " * (width - columns(text))


def wrapped(text: str, width: int, *, indent: str = "", most: int = 4) -> list[str]:
    """`text` on lines of at most `width` columns, those after the first indented; at most `most` of them."""
    lines = list(_lines(harmless(text).split(), width, indent))
    if len(lines) > most:
        lines = [*lines[: most - 1], indent + fitted(" ".join(lines[most - 1 :]), width - len(indent))]
    return lines


def _lines(words: list[str], width: int, indent: str) -> Iterator[str]:
    line, empty = "", True
    for word in words:
        if not empty and columns(line) + 1 + columns(word) > width:
            yield line
            line, empty = indent, True
        line, empty = line + ("" if empty else " ") + word, False
    if not empty:
        yield line


def folded(text: str, width: int) -> list[str]:
    """`text` in its own lines, blanks kept; a line that is too wide is folded at a blank, keeping its indent."""
    return [piece for line in harmless(text).expandtabs().split("\n") for piece in _folds(line, width)]


def _folds(line: str, width: int) -> Iterator[str]:
    indent = " " * min(len(line) - len(line.lstrip(" ")), width // 2)
    while columns(line) > width:
        taken, end = 0, 0
        while taken + _columns(line[end]) <= width:
            taken += _columns(line[end])
            end += 1
        blank = line.rfind(" ", width // 3, end + 1)
        end = blank if blank > len(indent) else max(end, len(indent) + 1)
        yield line[:end].rstrip(" ")
        line = indent + line[end:].lstrip(" ")
    yield line
