"""Going on from a record that was cut off: what was said is said again, tools run for real, and its spend counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentctl.agents.events import Carried, Event, WentOn
from agentctl.agents.manifest import read_manifest, read_result
from agentctl.agents.models.journal import EarlierBooks
from agentctl.agents.models.keys import THIS_MACHINE
from agentctl.agents.models.protocol import Kind, RawReply
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import claimed
from agentctl.agents.recorded import recorded_replies
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import InputError, SetupError

from .scratch import work_folder

_LEAVE = "leave it out: what an attempt began with is not changed"


def refuse_kind(record: Path, spec: AttemptSpec, kind: str | None) -> None:
    """A record may be anybody's: only its reader can say that its commands may run outside of a sandbox.

    `kind` is the kind of sandbox that the reader names, if any; like all that is named, it must be the record's.
    """
    named = spec.sandbox.kind
    if named == "local" and kind != "local":
        raise InputError(
            "its commands ran without a sandbox",
            file=record,
            field="--sandbox",
            remedy="if you trust it: --sandbox local",
        )
    if kind not in (None, named):
        raise InputError(f"its commands ran in the sandbox {named}", file=record, field="--sandbox", remedy=_LEAVE)


def refuse_address(record: Path, spec: AttemptSpec, api_base: str | None) -> None:
    """A record may be anybody's: only its reader can say that a key may go to the address that it names."""
    named = spec.model.api_base
    if api_base == named or (named and api_base is None and urlsplit(named).hostname in THIS_MACHINE):
        return
    if named is None:
        raise InputError("its model is at its provider's own address", file=record, field="--api-base", remedy=_LEAVE)
    raise InputError(
        f"its model is at {named}",
        file=record,
        field="--api-base",
        remedy="if that is right, name it: --api-base, the same address",
    )


def with_rootfs(record: Path, spec: AttemptSpec, rootfs: Path | None) -> AttemptSpec:
    """`spec` with the system that its reader names, where it has one of its own.

    A record may be anybody's: only its reader can say which of their folders its commands may see.
    """
    named = spec.sandbox.rootfs
    if named is not None and rootfs is None:
        raise InputError(
            f"its commands ran in the system at {named}",
            file=record,
            field="--rootfs",
            remedy="if that is right, name it, or where it is here: --rootfs DIR",
        )
    if named is None and rootfs is not None:
        raise InputError("its commands ran in the machine's own system", file=record, field="--rootfs", remedy=_LEAVE)
    return spec.model_copy(update={"sandbox": spec.sandbox.model_copy(update={"rootfs": rootfs})})


def resumed(
    record: Path, into: Path, *, api_base: str | None = None, kind: str | None = None, rootfs: Path | None = None
) -> AttemptSpec:
    """The spec of an attempt that goes on in `into` from where the one in `record` was cut off.

    What a stranger's record could do harm with, its reader must name, and what is named must be the record's: see
    `refuse_address`, `refuse_kind` and `with_rootfs`.
    """
    spec = read_manifest(record).spec
    refuse_address(record, spec, api_base)
    refuse_kind(record, spec, kind)
    spec = with_rootfs(record, spec, rootfs)
    return spec.model_copy(update={"resume_from": record.absolute(), "record": into})


@dataclass(frozen=True)
class Before:
    """What an attempt goes on from: nothing, or a record that was cut off."""

    record: Path | None = None
    carried: EarlierBooks = field(default_factory=EarlierBooks)
    seconds: float = 0.0  # of work
    replies: tuple[RawReply, ...] = ()  # of the main model, to be given again
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
                yield cls(record, reader.books(), reader.work_seconds, tuple(_replies(reader)), add)
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


def _replies(reader: RecordReader, seen: tuple[Path, ...] = ()) -> Iterator[RawReply]:
    """The main model's replies, in order, those included that the attempt was to give again and did not get to."""
    own = [reply for role, reply in recorded_replies(reader) if role == "main"]
    yield from own
    earlier = reader.manifest.spec.resume_from
    if earlier is not None and earlier.is_dir() and earlier.resolve() not in seen:
        yield from list(_replies(RecordReader(earlier), (*seen, earlier.resolve())))[len(own) :]
