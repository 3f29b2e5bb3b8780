"""A page of a text file, read in bounded memory whatever the file's size."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentctl.base.text import head, head_bytes

from .encodings import NAMES, mark_of, narrow_encoding

BLOCK = 4 << 20  # bytes read at a time
COUNTED = 8 << 20  # a file up to this many bytes has its lines counted though they aren't shown
LINE = 4_000  # characters of one line that are shown
PAGE = 16_000  # bytes after which a page ends with the line it is in: at most 20,000 are shown
SECONDS = 20.0  # how long to look for a line


@dataclass(frozen=True)
class Page:
    """Some lines of a text. `notes` are what a reader must know: another encoding, a line that was cut."""

    text: str
    first: int  # number of the first line shown, from 1
    shown: int  # lines
    total: int | None  # lines of the whole text, None where not counted
    finished: bool  # the text ends with the last line shown
    gave_up: bool  # the time was up before the page was full
    notes: tuple[str, ...] = ()


def utf8_blocks(read: Callable[[int, int], bytes], start: bytes, size: int, codec: str | None) -> Iterator[bytes]:
    """A file of `size` bytes in blocks, without its byte order mark. `start` is its beginning, read already.

    `read(offset, limit)` gives the rest. A `codec` of several bytes a unit is turned into UTF-8, so that a line feed is
    one byte in whatever comes out.
    """
    decoder = codecs.getincrementaldecoder(codec)("replace") if codec else None
    block, place = start[len(mark_of(start)) :], len(start)
    while block:
        yield decoder.decode(block).encode() if decoder else block
        block = read(place, BLOCK) if place < size else b""
        place += len(block)
    if decoder and (rest := decoder.decode(b"", final=True)):
        yield rest.encode()


class _Lines:
    """Takes blocks and keeps the lines asked for, of each at most what can be shown."""

    def __init__(self, offset: int, limit: int) -> None:
        self.number = 1  # of the line that the next byte belongs to
        self.offset, self.limit = offset, limit
        self.kept: list[bytes] = []
        self.lengths: list[int] = []  # bytes of each kept line as it stands in the file
        self.characters = 0
        self._part = bytearray()
        self._length = 0

    @property
    def full(self) -> bool:
        return len(self.kept) >= self.limit or self.characters >= PAGE

    @property
    def inside(self) -> bool:
        """Whether a line is begun that has not ended."""
        return self._length > 0

    def take(self, block: bytes) -> int:
        """Look at `block`; returns how many of its bytes were needed (fewer than all once the page is full)."""
        place = self._skip(block)
        while place < len(block) and not self.full:
            end = block.find(b"\n", place)
            self._grow(block, place, end if end >= 0 else len(block))
            if end < 0:
                return len(block)
            self._end_line()
            place = end + 1
        return place

    def _skip(self, block: bytes) -> int:
        """Pass over lines before the page; returns where in `block` the page goes on."""
        if self.number >= self.offset:
            return 0
        ends = block.count(b"\n")
        if self.number + ends < self.offset:
            self.number += ends
            self._length = 0 if block.endswith(b"\n") else 1
            return len(block)
        place = 0
        while self.number < self.offset:
            place = block.index(b"\n", place) + 1
            self.number += 1
        self._length = 0
        return place

    def _grow(self, block: bytes, start: int, stop: int) -> None:
        self._length += stop - start
        room = 4 * LINE + 4 - len(self._part)  # a character has at most four bytes
        if room > 0:
            self._part += block[start : min(stop, start + room)]

    def _end_line(self) -> None:
        self.kept.append(bytes(self._part))
        self.lengths.append(self._length)
        self.characters += min(len(self._part), LINE) + 1
        self._part.clear()
        self._length = 0
        self.number += 1

    def end(self) -> None:
        """The file is over: a line without its line feed counts, too."""
        if self._length and self.number >= self.offset:
            self._end_line()
        elif self._length:
            self._length = 0
            self.number += 1


def read_page(blocks: Iterator[bytes], *, offset: int, limit: int, count: bool, check: Callable[[], None]) -> Page:
    """Lines `offset` to `offset + limit - 1`, fewer where PAGE characters are reached.

    With `count`, lines are counted to the end. `check` is called between blocks and may raise to stop.
    """
    lines = _Lines(offset, limit)
    deadline = time.monotonic() + SECONDS
    more, after, last = False, 0, b"\n"
    for block in blocks:
        check()
        rest = block[lines.take(block) :] if not lines.full else block
        if rest:
            more, last = True, rest[-1:]
            after += rest.count(b"\n")
        if more and not count:
            return _page(lines, total=None, finished=False, gave_up=False)
        if time.monotonic() > deadline:
            return _page(lines, total=None, finished=False, gave_up=not lines.full)
    if more:
        total = lines.number - 1 + after + (last != b"\n")
        return _page(lines, total=total, finished=False, gave_up=False)
    lines.end()
    return _page(lines, total=lines.number - 1, finished=True, gave_up=False)


def _page(lines: _Lines, *, total: int | None, finished: bool, gave_up: bool) -> Page:
    if gave_up and lines.inside:
        lines.end()
    unfinished = [length > len(line) for line, length in zip(lines.kept, lines.lengths, strict=True)]
    kept = [
        head_bytes(line, len(line) - 4) if short else line.removesuffix(b"\r")
        for line, short in zip(lines.kept, unfinished, strict=True)
    ]
    codec = narrow_encoding(b"\n".join(kept))
    whole = [line.decode(codec) for line in kept]
    shown = [head(line, LINE) for line in whole]
    notes = [] if codec == "utf-8" else [f"not UTF-8, shown as {NAMES[codec]}"]
    if crlf := sum(line.endswith(b"\r") for line in lines.kept):
        notes.append("lines end in CR LF" if crlf == len(kept) else "some lines end in CR LF")
    for at, (line, length) in enumerate(zip(shown, lines.lengths, strict=True)):
        if unfinished[at] or line != whole[at]:
            notes.append(f"line {lines.offset + at} has {length:,} bytes and is cut after {len(line):,} characters")
    text = "\n".join(shown)
    if "\0" in text:
        text = text.replace("\0", "\\0")
        notes.append("zero bytes are shown as \\0")
    return Page(text, lines.offset, len(shown), total, finished, gave_up, tuple(notes))
