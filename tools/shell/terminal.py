"""Terminals of a command's own: opened by the harness, found inside the sandbox by path.

Each command prints to a terminal of its own, so what a background process prints later can't be taken for the output of
a later command, and settings of a terminal (`stty raw`) end with the command that made them. None of them is ever the
shell's controlling terminal: a program that opens /dev/tty to ask a question is refused at once instead of waiting.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from dataclasses import dataclass, field

from ..sandbox.protocol import SandboxError

ROWS, COLUMNS = 50, 160
PTMX = os.makedev(5, 2)
FLAGS = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
CHUNK = 1 << 16
# Linux's, which the module termios does not name.
TIOCSPTLCK = 0x40045431
TIOCGPTN = 0x80045430
SIZE = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)


@dataclass
class Stream:
    """The harness's side of what programs print to: a pipe, or a terminal. `fd` does not block."""

    fd: int
    ended: bool = field(default=False, kw_only=True)  # no process has its other side open any more, and all is read

    def read(self) -> bytes:
        """What can be read now; b"" where there is nothing (then `ended` tells whether more may come)."""
        if self.ended:
            return b""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: hung up
            data = b""
        self.ended = not data
        return data

    def close(self) -> None:
        """Let it go. Safe to call twice."""
        self.ended = True
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass
class Terminal(Stream):
    """A stream that is a terminal. `path` is its other side: of a command's as seen inside, of a job's outside."""

    path: str


def pass_line_ends(fd: int) -> None:
    """Make the terminal pass line ends as they are printed: no carriage returns put in."""
    iflag, oflag, *others = termios.tcgetattr(fd)
    termios.tcsetattr(fd, termios.TCSANOW, [iflag, oflag & ~termios.ONLCR, *others])


def number_of(fd: int) -> int:
    """Which one it is in its folder of terminals. `fd` is the harness's side."""
    (number,) = struct.unpack("i", fcntl.ioctl(fd, TIOCGPTN, bytes(4)))
    return int(number)


class Terminals:
    """Makes terminals that processes beside `pid` can open. `pid` is a process inside, by its number on the host.

    The folder is opened once, before any command has run: nothing that a command puts in its place is ever followed.
    """

    def __init__(self, pid: int) -> None:
        try:
            self._folder = os.open(f"/proc/{pid}/root/dev/pts", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SandboxError(f"the sandbox has no terminals: {error}") from error

    def open(self) -> Terminal:
        """A fresh terminal that no process has open inside."""
        try:
            try:
                fd = os.open("ptmx", FLAGS, dir_fd=self._folder)
            except PermissionError:  # on most hosts an ordinary user may open /dev/ptmx alone, which comes to the same
                fd = os.open("../ptmx", FLAGS, dir_fd=self._folder)
        except OSError as error:
            raise SandboxError(f"no terminal can be opened in the sandbox: {error}") from error
        try:
            if os.fstat(fd).st_rdev != PTMX:
                raise SandboxError("the sandbox has no terminals: its ptmx is something else")
            fcntl.ioctl(fd, TIOCSPTLCK, struct.pack("i", 0))
            number = number_of(fd)
            # For writing alone: a pager that looks for a keyboard behind its output finds none, and ends.
            os.chmod(str(number), 0o200, dir_fd=self._folder)
            pass_line_ends(fd)
            fcntl.ioctl(fd, termios.TIOCSWINSZ, SIZE)
        except BaseException:
            os.close(fd)
            raise
        return Terminal(fd, f"/dev/pts/{number}")

    def close(self) -> None:
        """Make no more. Those that were made stay open."""
        os.close(self._folder)
