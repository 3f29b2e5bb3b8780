"""Server-sent events, as the HTML standard defines them: what chat completions are streamed as."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LARGEST_EVENT = 1 << 26  # bytes: no model says so much at once

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a carriage return at the end may be the first half of one


def events(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """The name (often empty) and data of each event in a body that comes in `pieces`, cut anywhere.

    Comments, and events without data, are left out; so is an event that the body ends in the middle of. ValueError for
    one of more than LARGEST_EVENT bytes.
    """
    name = ""
    data: list[str] = []
    size = 0
    for line in _lines(pieces):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data, size = "", [], 0
        elif field == "data":
            data.append(value)
            size = _checked(size + len(value) + 1)
        elif field == "event":
            name = value


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    begun: list[bytes] = []  # of a line whose end is still to come: joined once, however many they are
    size = 0
    held = b""  # a carriage return whose line feed may follow
    mark = "\ufeff"  # which may stand before the first line
    for piece in pieces:
        *ended, rest = _LINE_END.split(held + piece)
        for end in ended:
            yield b"".join([*begun, end]).decode("utf-8", "replace").removeprefix(mark)
            begun, size, mark = [], 0, ""
        held = b"\r" if rest.endswith(b"\r") else b""
        begun.append(rest.removesuffix(b"\r"))
        size = _checked(size + len(begun[-1]))
    if held:
        yield b"".join(begun).decode("utf-8", "replace").removeprefix(mark)


def _checked(size: int) -> int:
    if size > LARGEST_EVENT:
        raise ValueError(f"an event of more than {LARGEST_EVENT:,} bytes")
    return size
