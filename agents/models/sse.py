"""Server-sent events, as the HTML standard defines them: what chat completions are streamed as."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a carriage return at the end may be the first half of one


def events(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """The name (often empty) and data of each event in a body that comes in `pieces`, cut anywhere.

    Comments, and events without data, are left out; so is an event that the body ends in the middle of.
    """
    name = ""
    data: list[str] = []
    for line in _lines(pieces):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "", []
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = _LINE_END.split(rest + piece)
        yield from (line.decode("utf-8", "replace") for line in whole)
    if rest.endswith(b"\r"):
        yield rest[:-1].decode("utf-8", "replace")
