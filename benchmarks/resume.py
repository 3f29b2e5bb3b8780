"""Going on from a record that was cut off: what was said is said again, tools run for real, and its spend counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agentctl.agents.events import Carried, Event, WentOn
from agentctl.agents.manifest import read_manifest, read_result
from agentctl.agents.models.journal import EarlierBooks
from agentctl.agents.models.protocol import Kind, RawReply
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import claimed
from agentctl.agents.recorded import recorded_replies
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import InputError, SetupError

from .scratch import work_folder
from .trust import Trust, refuse_addresses, refuse_model_code


def resumed(
    record: Path, into: Path, *, addresses: Mapping[str, str | None] | None = None, trust: Trust | None = None
) -> AttemptSpec:
    """The spec of an attempt that goes on in `into` from where the one in `record` was cut off.

    What a stranger's record could do harm with, its reader must name, and what is named must be the record's:
    `addresses` of models by their roles (main, fast, vision), and what is in `trust`.
    """
    spec = read_manifest(record).spec
    refuse_addresses(record, spec, addresses or {})
    refuse_model_code(record, spec)
    spec = (trust or Trust()).checked(record, spec)
    return spec.model_copy(update={"resume_from": record.absolute(), "record": into})


@dataclass(frozen=True)
class Before:
    """What an attempt goes on from: nothing, or a record that was cut off."""

    record: Path | None = None
    carried: EarlierBooks = field(default_factory=EarlierBooks)
    seconds: float = 0.0  # of work
    replies: Mapping[str, Sequence[RawReply]] = field(default_factory=dict)  # by role, to be given again
    add: Callable[[Event], None] = lambda event: None  # to the record that was cut off

    @classmethod
    @contextmanager
    def claimed(cls, record: Path | None, kind: Kind) -> Iterator[Before]:
        """What stands in `record`, which nobody else writes, or goes on from, meanwhile.

        `kind` of the model that goes on: recordings and scripts begin anew, at no cost. InputError where there is
        nothing to go on from: it ended by its own doing, or another attempt is at work on it or went on already.
        """
        if record is None:
            yield cls()
            return
        read_manifest(record)
        reader = RecordReader(record)
        with claimed(record) as add:
            with work_folder(record):
                pass  # what was killed left it
            _check_unfinished(reader)
            if kind in ("live", "human"):
                yield cls(record, reader.books(), reader.work_seconds, _replies(reader), add)
            else:
                yield cls(record, reader.books(), add=add)

    def hand_over(self, record: Path) -> tuple[Event, ...]:
        """Say in the old record who goes on from it. Returns what the new record begins with.

        To be called before the new one stands: so no record that stands lacks what was spent before, and none that was
        gone on from looks as if it were not.
        """
        if self.record is None:
            return ()
        try:
            self.add(WentOn(record=str(record.absolute())))
        except OSError as error:
            raise SetupError(f"can't be gone on from: {error.strerror}", file=self.record) from None
        books = self.carried
        carried = Carried(
            record=str(self.record),
            record_id=read_manifest(self.record).record_id,
            spent=books.spent,
            uncertain=books.uncertain,
            sends=books.sends,
            seconds=round(self.seconds, 3),
        )
        return (carried,)


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


def _replies(reader: RecordReader, seen: tuple[Path, ...] = ()) -> dict[str, list[RawReply]]:
    """Replies by role, in order, those included that the attempt was to give again and did not get to."""
    replies: dict[str, list[RawReply]] = {}
    for role, reply in recorded_replies(reader):
        replies.setdefault(role, []).append(reply)
    earlier = reader.manifest.spec.resume_from
    if earlier is not None and earlier.is_dir() and earlier.resolve() not in seen:
        for role, before in _replies(RecordReader(earlier), (*seen, earlier.resolve())).items():
            own = replies.setdefault(role, [])
            own += before[len(own) :]
    return replies
