"""The output of one command: drained without end, held in little memory, kept whole in a file when it is long."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentctl.base.text import decode, head, head_bytes, tail, tail_bytes

from .screen import Screen

KEPT_BYTES = 128 << 20  # the file of a long output ends here
WIDEST = 4  # bytes of a character in UTF-8


@dataclass(frozen=True)
class Shown:
    """An output as the model sees it."""

    text: str
    notice: str = ""  # what was left out, and where it is
    saved_as: str | None = None


class Capture:
    """Takes raw output, cleans it as a terminal would, and shows at most `limit` characters of it, half from each end.

    Where that leaves something out, the cleaned output is kept as `folder/name`, at most KEPT_BYTES of it.
    """

    def __init__(self, folder: Path, name: str, *, limit: int) -> None:
        self._folder = folder
        self._name = name
        self._limit = limit
        self._end_bytes = limit * WIDEST
        self._screen = Screen()
        self._first = bytearray()
        self._last = bytearray()
        self._total = 0
        self._file: IO[bytes] | None = None
        self._failure = ""
        self._saved_as: str | None = None

    def feed(self, raw: bytes) -> None:
        """Take what was printed."""
        self._take(self._screen.feed(raw))

    def show(self) -> Shown:
        """The output so far. Ends the file; call it once, at the end."""
        self._take(self._screen.flush())
        try:
            return self._show()
        finally:
            if self._file:
                with contextlib.suppress(OSError):
                    self._file.close()

    def _show(self) -> Shown:
        redrawn = "lines that were redrawn are shown in their last state" if self._screen.redrawn else ""
        whole = bytes(self._first + self._last)
        if self._total == len(whole) and len(text := decode(whole)) <= self._limit:
            return Shown(text, redrawn)
        if self._file is None:
            self._spill()
        half = self._limit // 2
        if self._total == len(whole):
            text = decode(whole)
            first, last = head(text, half), tail(text, half)
        else:
            first = head(decode(head_bytes(bytes(self._first), self._end_bytes)), half)
            last = tail(decode(tail_bytes(bytes(self._last), self._end_bytes)), half)
        left_out = max(0, self._total - len(first.encode()) - len(last.encode()))
        gap = f"[... {left_out:,} of {self._total:,} bytes left out ...]"
        notices = [f"output cut: {left_out:,} of {self._total:,} bytes left out of its middle", self._kept(), redrawn]
        return Shown(f"{first}\n{gap}\n{last}", "; ".join(filter(None, notices)), self._saved_as)

    def _kept(self) -> str:
        if self._failure:
            return f"the whole could not be kept ({self._failure})"
        if self._total > KEPT_BYTES:
            return f"the record keeps the first {KEPT_BYTES:,} bytes"
        return ""

    def _take(self, data: bytes) -> None:
        if not data:
            return
        if self._file:
            self._write(data)
        self._total += len(data)
        room = self._end_bytes - len(self._first)
        if room > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data
        if len(self._last) > 2 * self._end_bytes:
            if self._file is None and not self._failure:
                self._spill()
            del self._last[: -self._end_bytes]

    def _spill(self) -> None:
        """Begin the file with what is in memory. It holds the whole output then, as nothing was dropped before."""
        try:
            self._file = self._open()
        except OSError as error:
            self._failure = error.strerror or str(error)
            return
        self._write(self._first + self._last, total=0)

    def _open(self) -> IO[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            name = self._name if number == 1 else f"{Path(self._name).stem}-{number}{Path(self._name).suffix}"
            with contextlib.suppress(FileExistsError):
                file = (self._folder / name).open("xb")
                self._saved_as = name
                return file
            number += 1

    def _write(self, data: bytes | bytearray, total: int | None = None) -> None:
        assert self._file is not None
        room = KEPT_BYTES - (self._total if total is None else total)
        if room <= 0 or self._failure:
            return
        try:
            self._file.write(data[:room])
        except OSError as error:
            self._failure = error.strerror or str(error)
