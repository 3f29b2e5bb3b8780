"""Going on from a record that was cut off: what was said is said again, tools run for real, and its spend counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from agentctl.agents.events import Carried as CarriedEvent
from agentctl.agents.events import Event, WentOn
from agentctl.agents.manifest import read_result
from agentctl.agents.models.journal import Carried
from agentctl.agents.models.protocol import Kind, RawReply
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import add_event
from agentctl.agents.recorded import recorded_replies
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import InputError

from .scratch import work_folder


def resumed(record: Path, into: Path) -> AttemptSpec:
    """The spec of an attempt that goes on in `into` from where the one in `record` was cut off."""
    spec = RecordReader(record).manifest.spec
    return spec.model_copy(update={"resume_from": record.absolute(), "record": into})


@dataclass(frozen=True)
class Before:
    """What an attempt goes on from: nothing, or a record that was cut off."""

    record: Path | None = None
    carried: Carried = field(default_factory=Carried)
    replies: tuple[RawReply, ...] = ()  # of the main model, to be given again
    claim: ExitStack = field(default_factory=ExitStack)  # nobody else is at work on the record, or goes on from it

    @classmethod
    def claimed(cls, record: Path | None, kind: Kind, stack: ExitStack) -> Before:
        """What stands in `record`, which is this attempt's alone until it is handed over or `stack` is closed.

        `kind` of the model that goes on: recordings and scripts begin anew, at no cost. InputError where there is
        nothing to go on from: it ended by its own doing, or another attempt is at work on it or went on already.
        """
        if record is None:
            return cls()
        claim = stack.enter_context(ExitStack())
        claim.enter_context(work_folder(record))
        reader = RecordReader(record)
        _check_unfinished(reader)
        replies = tuple(_replies(reader)) if kind in ("live", "human") else ()
        return cls(record, reader.books(), replies, claim)

    def first_events(self) -> tuple[Event, ...]:
        """What the new record begins with, so that at no moment it exists without what was spent before."""
        if self.record is None:
            return ()
        books = self.carried
        return (CarriedEvent(record=str(self.record), spent=books.spent, uncertain=books.uncertain, sends=books.sends),)

    def hand_over(self, record: Path) -> None:
        """Say in the old record that the new one, which stands, goes on from it."""
        if self.record is not None:
            add_event(self.record, WentOn(record=str(record.absolute())))
        self.claim.close()


def _check_unfinished(reader: RecordReader) -> None:
    record = reader.folder
    result = read_result(record)
    if result is not None and not result.infrastructure:
        raise InputError(
            f"this attempt has ended ({result.end}): there is nothing to resume",
            file=record,
            remedy=f"agentctl show {record}" if (record / "scores").exists() else f"agentctl score {record}",
        )
    for later in (Path(event.record) for event in reader.events if isinstance(event, WentOn)):
        if later.exists():
            raise InputError("another attempt went on from it", file=record, remedy=f"resume that one: {later}")


def _replies(reader: RecordReader) -> Iterator[RawReply]:
    """The main model's replies, in order, those included that the attempt was to give again and did not get to."""
    own = [reply for role, reply in recorded_replies(reader) if role == "main"]
    yield from own
    earlier = reader.manifest.spec.resume_from
    if earlier is not None and earlier.is_dir():
        yield from list(_replies(RecordReader(earlier)))[len(own) :]
