"""Finding one piece of text in a file's bytes, and putting another in its place."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from difflib import SequenceMatcher

from agentctl.base.text import cut, head

from .encodings import NAMES, encoding_of, mark_of, wide_encoding

_NAMED = 10  # places that are named where there are several
_COMPARED, _SECONDS = 20_000, 2.0  # lines that are compared to find the nearest, and for how long at most
_QUOTED = 1_000  # characters of a near miss that are shown
_AROUND = 2_000  # characters before and after an edit that are looked at for the lines around it


class NotReplaced(Exception):
    """The piece does not occur, or not once. The text says so to the agent, with what comes near."""


@dataclass(frozen=True)
class Edit:
    """What became of a file: its bytes, the codec it is read in, and the changed lines with one on either side."""

    data: bytes
    codec: str
    line: int  # number of the first changed line, from 1
    context: str


def replace_once(data: bytes, old: str, new: str) -> Edit:
    """`data` with its one occurrence of `old` replaced by `new`; line endings as said at `EditFile`.

    Raises NotReplaced if `old` occurs never or several times, or if the file's encoding has no way to write `new`.
    """
    if old == new:
        raise NotReplaced("old and new are the same.")
    codec = encoding_of(data)
    found: list[tuple[int, int]] = []
    for candidate in _codecs(data, codec):
        if found := _occurrences(data, old, candidate):
            codec = codec if old.isascii() else candidate
            break
    if len(found) != 1:
        raise NotReplaced(_several(data, found, codec) if found else _near_miss(_text(data, codec), old))
    start, end = found[0]
    before, matched, after = _text(data[:start], codec), data[start:end].decode(codec), _text(data[end:], codec)
    put_in = new
    if "\r" not in old or matched != old:
        crlf = _ends_in_crlf(before, matched, after)
        put_in = new.replace("\r\n", "\n").replace("\n", "\r\n" if crlf else "\n")
    try:
        inserted = put_in.encode(codec)
    except UnicodeEncodeError as error:
        letter = put_in[error.start]
        raise NotReplaced(f"The file is {NAMES[codec]}, which has no {letter!r} (U+{ord(letter):04X}).") from None
    context = _whole_lines(before[-_AROUND:], put_in, after[:_AROUND])
    return Edit(data[:start] + inserted + data[end:], codec, before.count("\n") + 1, context)


def _codecs(data: bytes, codec: str) -> list[str]:
    """The codecs in which a piece of `data` may have been shown: several only where it is not UTF-8 throughout."""
    if codec == "utf-8" or wide_encoding(data[:4096]) is not None:
        return [codec]
    return list(dict.fromkeys((codec, "utf-8", "latin-1")))


def _occurrences(data: bytes, old: str, codec: str) -> list[tuple[int, int]]:
    """Where `old` stands in `data`, whatever its lines end in. At most _NAMED + 1 places.

    Only where `old` has carriage returns of its own is it first looked for to the letter.
    """
    try:
        whole = old.encode(codec)
        pieces = [re.escape(piece.encode(codec)) for piece in old.replace("\r\n", "\n").split("\n")]
    except UnicodeEncodeError:
        return []
    line_feed, carriage_return = "\n".encode(codec), "\r".encode(codec)
    if "\r" in old and (exact := _find(data, re.escape(whole), len(line_feed))):
        return exact
    ending = b"(?:%s)?%s" % (re.escape(carriage_return), re.escape(line_feed))
    return _find(data, ending.join(pieces), len(line_feed))


def _find(data: bytes, pattern: bytes, unit: int) -> list[tuple[int, int]]:
    """Spans of `pattern`, overlapping ones too, that begin between characters of `unit` bytes."""
    expression, place, spans = re.compile(pattern), 0, list[tuple[int, int]]()
    while len(spans) <= _NAMED and (match := expression.search(data, place)):
        again = spans and spans[-1][1] == match.end()  # the same, less the carriage return that it begins with
        if match.start() % unit == 0 and not again:
            spans.append(match.span())
        place = match.start() + 1
    return spans


def _ends_in_crlf(before: str, matched: str, after: str) -> bool:
    """Whether lines end in CR LF where `matched` stands: in it, or else at the nearest line's end."""
    for text, place in ((matched, matched.find("\n")), (after, after.find("\n")), (before, before.rfind("\n"))):
        if place >= 0:
            return text[:place].endswith("\r")
    return False


def _text(data: bytes, codec: str) -> str:
    return data[len(mark_of(data)) :].decode(codec, "replace")


def _whole_lines(before: str, put_in: str, after: str) -> str:
    """What was put in, made up to whole lines and one more on either side."""
    begin = before.rfind("\n", 0, max(0, before.rfind("\n")))
    stop = after.find("\n", after.find("\n") + 1) if "\n" in after else -1
    lines = (before[begin + 1 :] + put_in + (after[:stop] if stop >= 0 else after)).split("\n")
    return "\n".join(line.removesuffix("\r") for line in lines).removesuffix("\n")


def _several(data: bytes, found: list[tuple[int, int]], codec: str) -> str:
    numbers = [str(_text(data[:start], codec).count("\n") + 1) for start, _ in found[:_NAMED]]
    count = f"{len(found)} times" if len(found) <= _NAMED else f"more than {_NAMED} times"
    places = f"lines {', '.join(numbers)}" if len(set(numbers)) > 1 else f"line {numbers[0]}"
    return f"old occurs {count}, at {places}: take in lines around it, so that it occurs once."


def _near_miss(text: str, old: str) -> str:
    """Why `old` may not be found in `text`: other blanks, or the line that comes nearest."""
    lines, wanted = text.split("\n"), [_squeezed(line) for line in old.strip().split("\n")]
    squeezed = [_squeezed(line) for line in lines[:_COMPARED]]
    for at, line in enumerate(squeezed):
        if line == wanted[0] and squeezed[at : at + len(wanted)] == wanted:
            there = "\n".join(line.removesuffix("\r") for line in lines[at : at + len(wanted)])
            span = f"lines {at + 1}-{at + len(wanted)} differ" if len(wanted) > 1 else f"line {at + 1} differs"
            return f"old does not occur. Only in blanks {span}, which the file has as:\n{cut(there, _QUOTED)}"
    if (nearest := _nearest(squeezed, max(wanted, key=len))) is not None:
        there = lines[nearest].removesuffix("\r")
        return f"old does not occur. Nearest is line {nearest + 1}:\n{head(there, _QUOTED)}"
    return "old does not occur, nor anything like it: read the file again."


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _nearest(lines: list[str], wanted: str) -> int | None:
    """Index of the line most like `wanted`, None if none is much like it."""
    matcher = SequenceMatcher(None, "", head(wanted, 200), autojunk=False)
    best, found, deadline = 0.6, -1, time.monotonic() + _SECONDS
    for at, line in enumerate(lines):
        if time.monotonic() > deadline:
            break
        matcher.set_seq1(head(line, 200))
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), at
    return found if found >= 0 else None
