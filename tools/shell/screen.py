"""What a terminal would show in the end, from the bytes that a program printed: no escape sequences, no redraws."""

from __future__ import annotations

import re

LONGEST_LINE = 1 << 16  # bytes of an unfinished line that are held back, as a later carriage return may redraw it
ERASED = 64  # characters in a row that backspaces may take away
LONGEST_ESCAPE = 2048  # a longer "sequence" is data that happens to begin like one, and must not swallow what follows

_ESCAPE = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, bracketed paste
    rb"|\][^\x07\x1b\n]{0,%(n)d}(?:\x07|\x1b\\)"  # OSC: window titles, links
    rb"|[PX^_][^\x1b\n]{0,%(n)d}\x1b\\"  # DCS, SOS, PM, APC
    rb"|[ -/]{1,8}[0-~]"  # character sets
    rb"|[0-~]"
    rb")?" % {b"n": LONGEST_ESCAPE}
)
_REDRAWN = re.compile(rb"[^\r\n]\r+[^\r\n]")
# Begins only where a state begins, so that a long line without carriage returns is passed over in one go.
_OVERWRITTEN = re.compile(rb"(?<![^\r\n])[^\r\n]*\r+(?=[^\r\n])")
_BACKSPACE = re.compile(rb"[^\x08\n]\x08")
_CONTROLS = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])


class Screen:
    """Takes output as it comes, gives it back cleaned: whole lines at once, the unfinished line at `flush`."""

    def __init__(self) -> None:
        self._line = b""
        self.redrawn = False  # whether anything shown before was overwritten

    def feed(self, data: bytes) -> bytes:
        """The cleaned text that `data` completes; up to LONGEST_LINE bytes may be kept for later."""
        self._line += data
        end = self._line.rfind(b"\n") + 1
        done, self._line = self._clean(self._line[:end]), self._line[end:]
        if len(self._line) > LONGEST_LINE:
            done += self._shorten()
        return done

    def flush(self) -> bytes:
        """The unfinished line as it stands."""
        done, self._line = self._clean(self._line), b""
        return done

    def _shorten(self) -> bytes:
        """Make room in a long unfinished line: drop what was redrawn, else let its beginning go."""
        start = self._line.rfind(b"\r", 0, -1)
        if start > 0:
            self._line = self._line[start:]
            self.redrawn = True
        if len(self._line) <= LONGEST_LINE:
            return b""
        end = self._line.rfind(b"\x1b", len(self._line) - LONGEST_ESCAPE)
        end = len(self._line) if end < 0 else end
        done, self._line = self._clean(self._line[:end]), self._line[end:]
        return done

    def _clean(self, block: bytes) -> bytes:
        if b"\x1b" in block:
            block = _ESCAPE.sub(b"", block)
        if b"\r" in block:
            block = self._redraw(block.replace(b"\r\n", b"\n"))
        if b"\b" in block:
            block = _erase(block)
        return block.translate(None, _CONTROLS)

    def _redraw(self, block: bytes) -> bytes:
        """Each line as its last state: what follows its last carriage return."""
        if _REDRAWN.search(block):
            self.redrawn = True
        return _OVERWRITTEN.sub(b"", block).replace(b"\r", b"")


def _erase(block: bytes) -> bytes:
    """Backspaces applied, as far as programs use them: to turn a wheel, or to write a counter anew."""
    for _ in range(ERASED):
        block, times = _BACKSPACE.subn(b"", block)
        if not times:
            break
    return block
