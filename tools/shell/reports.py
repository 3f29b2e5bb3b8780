"""What bash tells of itself: the end of each command, and its folder and exported variables after it.

Each report is a token, a blank and what is told, ended by a NUL. They come over a FIFO and not by a file, as rewriting
a file is slow. No command can know a token, so none can forge a report.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from dataclasses import dataclass

from ..sandbox.protocol import Mount
from . import control

FD = 59  # of the FIFO inside: high, as commands use low numbers
LONGEST = 4 << 20  # bytes; all exported variables are one report


@dataclass(frozen=True)
class State:
    """What a new shell takes over from one that has ended."""

    cwd: str
    exports: str  # as `export -p` prints them


class Reports:
    """The reports of one bash, which has to run the lines that are given out here. `fd` can be polled.

    SandboxError where no FIFO can be made in `folder`.
    """

    def __init__(self, folder: Mount) -> None:
        name = f"result-{secrets.token_hex(8)}"
        self._path = folder.host / name
        self._state_token = secrets.token_hex(8)
        self._unread = b""
        self._state = b""
        self.fd = control.make_fifo(self._path)
        self.open_line = f"exec {FD}>{shlex.quote(f'{folder.inside}/{name}')}"
        self.state_line = (
            rf"{{ \builtin printf '{self._state_token} '; \builtin pwd; \builtin printf '\1'; \builtin export -p; "
            rf"\builtin printf '\0'; }} >&{FD}"
        )

    def end_line(self, token: str) -> str:
        """The line that tells, under `token`, the exit status of what ran before it."""
        return rf"""\builtin printf '{token} %s\0' "$?" >&{FD}"""

    def hide(self) -> None:
        """Take the FIFO's name away. Call it when bash has opened it."""
        self._path.unlink(missing_ok=True)

    def find(self, token: str) -> str | None:
        """Read what has come. What was told under `token`, if that was among it."""
        if self.fd >= 0:
            with contextlib.suppress(BlockingIOError):
                self._unread += os.read(self.fd, 1 << 16)
        *reports, self._unread = self._unread.split(b"\0")
        self._unread = self._unread[-LONGEST:]
        found = None
        for report in reports:
            first, _, rest = report.partition(b" ")
            if first == self._state_token.encode():
                self._state = rest
            elif first == token.encode():
                found = rest.decode("utf-8", "surrogateescape")
        return found

    def state(self) -> State:
        """The working folder and exported variables as last reported: after the last command that came to its end."""
        self.find("")
        cwd, _, exports = self._state.decode("utf-8", "surrogateescape").partition("\n\x01")
        return State(cwd, exports)

    def close(self) -> None:
        """Let the FIFO go. Safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
