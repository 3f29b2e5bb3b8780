"""The folder that an attempt leaves, and its one writer.

    manifest.json   what went into it, written first
    events.jsonl    what happened, appended line by line as it happens
    outputs/        command output too long to show, whole
    images/         images by content
    environment.lock  packages installed at the end: dpkg's, Python's by environment, conda's, R's by library
    report.json     what the agent left, as found (or as its task names it)
    result.json     how it ended, written last, atomically, once
    scores/         one file a scorer, by any later scorer too

The folder appears with its manifest in it, all at once: before that it is made under another name beside its place.
A line is handed to the system in one write before anything that depends on it happens, so a killed process loses none.
A full disk is survived too: space for the last lines and the result is kept aside in `.aside` until it is needed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentctl.base.errors import AgentctlError, InputError, SetupError
from agentctl.base.jsonio import digest, write_atomically
from agentctl.base.messages import ImageRef

from .events import Event, MoneyNoted, Replied, Requested, encode
from .events import Failed as FailedEvent
from .models.journal import Noted, ReplyCame, RequestSent, SendFailed
from .models.protocol import RawReply
from .secrets import Secrets

ASIDE = ".aside"  # the file that keeps space
_ASIDE = 1 << 20  # bytes kept for the lines of a reply that was paid for, the end, and the result
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

Listener = Callable[[Event], None]


class RecordFull(AgentctlError):
    """The record's disk is full. What was written before is whole."""


class Record:
    """A record being written. One instance a folder; events may come from any thread."""

    def __init__(
        self,
        folder: Path,
        manifest: bytes,
        secrets: Secrets,
        *,
        now: Callable[[], float],
        first: Sequence[Event] = (),
    ) -> None:
        """Make `folder`, which must not exist, with its manifest and the events in `first`, or nothing at all.

        InputError where something has that name already, SetupError where the disk does not take it.
        """
        self.folder = folder
        self._secrets = secrets
        self._now = now
        self._began = now()
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._full = False
        self._size = 0
        if os.path.lexists(folder):
            raise exists_already(folder)
        making = folder.with_name(f".{folder.name}.new")
        try:
            shutil.rmtree(making, ignore_errors=True)  # of a start that was killed
            (making / "outputs").mkdir(parents=True)
            _set_aside(making)
            self._events = _open_events(making)
            _lock(self._events)
            for event in first:
                self._put(secrets.cut_line(encode(event)))
            write_atomically(making / "manifest.json", secrets.cut_line(manifest))
            making.rename(folder)
        except OSError as error:
            shutil.rmtree(making, ignore_errors=True)
            raise SetupError(f"can't make the record: {error.strerror}", file=folder) from None

    @property
    def outputs(self) -> Path:
        return self.folder / "outputs"

    @property
    def elapsed(self) -> float:
        """Seconds since the record was begun."""
        return self._now() - self._began

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each event after it is written: how a terminal follows an attempt."""
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Write one event. RecordFull where the disk is full and the space kept aside is used up."""
        at = round(self.elapsed, 3)
        line = self._secrets.cut_line(encode(event, at))
        with self._lock:
            self._append(line)
        if self._listeners:
            stamped = event.model_copy(update={"at": at})
            for listener in self._listeners:
                listener(stamped)

    def _append(self, line: bytes) -> None:
        try:
            self._put(line)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            os.ftruncate(self._events, self._size)  # a line is whole or absent
            if self._full:
                raise self._no_room(error) from None
            self._full = True
            (self.folder / ASIDE).unlink(missing_ok=True)
            self._append(line)

    def _put(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._events, rest) :]
        self._size += len(line)

    def _no_room(self, error: OSError | None = None) -> RecordFull:
        why = "the disk is full" if error is None or error.errno == errno.ENOSPC else f"{error.strerror}"
        return RecordFull(why, file=self.folder, remedy=f"make room, then: agentctl solve --resume {self.folder}")

    @property
    def disk_is_full(self) -> bool:
        """Whether the space kept aside had to be used: the attempt must end."""
        return self._full

    def keep_image(self, data: bytes, media_type: str, width: int, height: int) -> ImageRef:
        """Keep an encoded image by its content. RecordFull where the disk does not take it."""
        ref = ImageRef(digest=digest(data), media_type=media_type, width=width, height=height)
        path = self.folder / "images" / ref.digest
        try:
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                write_atomically(path, data)
        except OSError as error:
            raise self._no_room(error) from None
        return ref

    def image(self, ref: ImageRef) -> bytes:
        """The bytes of an image kept here."""
        return (self.folder / "images" / ref.digest).read_bytes()

    def finish(self, result: bytes) -> None:
        """Write `result.json`, once, and let go of the space kept aside. RecordFull where even that is too little."""
        path = self.folder / "result.json"
        if path.exists():
            raise AgentctlError("this record has a result already", file=path)
        (self.folder / ASIDE).unlink(missing_ok=True)
        self._cut_outputs()
        try:
            write_atomically(path, self._secrets.cut_line(result))
        except OSError as error:
            raise self._no_room(error) from None

    def _cut_outputs(self) -> None:
        """Cut secrets out of kept outputs too. One that can't be written anew is given up rather than kept."""
        for path in sorted(self.outputs.iterdir()):
            data = path.read_bytes()
            cut = self._secrets.cut_bytes(data)
            if cut != data:
                try:
                    write_atomically(path, cut)
                except OSError:
                    path.unlink()

    def close(self) -> None:
        """Let go of the file. The record stays as it is."""
        (self.folder / ASIDE).unlink(missing_ok=True)
        os.close(self._events)

    def discard(self) -> None:
        """Remove the record: the attempt could not start."""
        self.close()
        shutil.rmtree(self.folder)

    # The gateway's journal.

    def request(self, event: RequestSent) -> None:
        if self._full:
            raise self._no_room()
        self.emit(Requested(sent=event))

    def reply(self, event: ReplyCame, raw: RawReply) -> None:
        self.emit(Replied(came=event, helper=None if event.role == "main" else raw))

    def failed(self, event: SendFailed) -> None:
        self.emit(FailedEvent(failed=event))

    def note(self, event: Noted) -> None:
        self.emit(MoneyNoted(noted=event))


def exists_already(folder: Path) -> InputError:
    """A record is never written over."""
    return InputError("exists already", file=folder, field="record", remedy="give another folder for the record")


@contextmanager
def claimed(folder: Path) -> Iterator[Callable[[Event], None]]:
    """Take over a record whose writer is gone; what is given adds an event to it.

    InputError where its writer is at work, or somebody else took it over. A last line cut in half goes when one is
    added.
    """
    path = folder / "events.jsonl"
    try:
        events = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"can't be gone on from: {error.strerror}", file=path) from None
    try:
        if not _lock(events):
            raise InputError("an attempt is at work on it", file=folder, remedy="wait for its end")
        (folder / ASIDE).unlink(missing_ok=True)  # a kill leaves it

        def add(event: Event) -> None:
            before, line_feed, _ = path.read_bytes().rpartition(b"\n")
            os.ftruncate(events, len(before) + len(line_feed))
            os.pwrite(events, encode(event), len(before) + len(line_feed))

        yield add
    finally:
        os.close(events)


def _lock(events: int) -> bool:
    """Whether the lock could be had that says who writes a record. It goes with the process, however that ends."""
    try:
        fcntl.flock(events, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _set_aside(folder: Path) -> None:
    aside = os.open(folder / ASIDE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(aside, 0, _ASIDE)
    finally:
        os.close(aside)


def _open_events(folder: Path) -> int:
    return os.open(folder / "events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def monotonic() -> float:
    """The clock of records: seconds, never going back."""
    return time.monotonic()
