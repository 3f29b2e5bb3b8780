"""Secrets are cut where text enters a record or a log: values of the owner's variables whose names say secret."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping

_NAMES = re.compile(r"(^|_)(api_?)?(key|token|secret|passw(or)?d|passphrase|credentials?|pat)(_|$)", re.IGNORECASE)
_NOT_SECRET = re.compile(
    r"^(SSH_AUTH_SOCK|GPG_AGENT_INFO|XAUTHORITY|.*_(FILE|PATH|DIR|SOCK|LIMIT|TYPE))$", re.IGNORECASE
)
_PLAIN_WORD = re.compile(r"[a-z_]+")
_LEAST = 8  # characters; shorter values would cut innocent text


def says_secret(name: str) -> bool:
    """Whether what has this name is to be kept secret."""
    return bool(_NAMES.search(name)) and not _NOT_SECRET.match(name)


class Secrets:
    """The values to cut. Built from an environment; `cut` works on texts, `cut_line` on encoded JSON lines."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        found = {value: name for name, value in environment.items() if says_secret(name) and len(value) >= _LEAST}
        # The longest first: one secret may hold another.
        self._texts = [(value, f"[{found[value]} cut]") for value in sorted(found, key=len, reverse=True)]
        self._marks = {os.fsencode(value): mark.encode() for value, mark in self._texts}
        self._any = re.compile(b"|".join(map(re.escape, self._marks)))
        # In a line of JSON a plain word may be one of ours (an end reason, a status): it is cut in texts alone.
        self._bytes = [
            (json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "replace"), mark.encode())
            for value, mark in self._texts
            if not _PLAIN_WORD.fullmatch(value)
        ]

    def cut(self, text: str) -> str:
        """`text` with each secret replaced by the name of its variable."""
        for value, mark in self._texts:
            if value in text:
                text = text.replace(value, mark)
        return text

    def cut_bytes(self, data: bytes) -> bytes:
        """The same for a program's output."""
        return b"".join(self.cut_pieces([data]))

    def cut_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same for what comes in pieces, wherever a secret is cut by their ends."""
        overlap = max(map(len, self._marks), default=1) - 1
        rest = b""
        for piece in pieces:
            rest += piece
            # What begins later may be the beginning of a longer secret, whose end is still to come.
            cut, done = self._cut_before(rest, max(0, len(rest) - overlap))
            yield cut
            rest = rest[done:]
        yield self._cut_before(rest, len(rest))[0]

    def _cut_before(self, data: bytes, end: int) -> tuple[bytes, int]:
        """`data` without the secrets that begin before `end`, up to there or behind the last of them; and where."""
        kept: list[bytes] = []
        done = 0
        if any(value in data for value in self._marks):  # much faster than the search, and mostly false
            for found in self._any.finditer(data):
                if found.start() >= end:
                    break
                kept += [data[done : found.start()], self._marks[found[0]]]
                done = found.end()
        return b"".join([*kept, data[done:end]]), max(done, end)

    def cut_line(self, line: bytes) -> bytes:
        """The same for a line of JSON."""
        for value, mark in self._bytes:
            if value in line:
                line = line.replace(value, mark)
        return line
