"""Reading records back: events, messages, books, and any request as it was sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agentctl.base.errors import InputError
from agentctl.base.jsonio import digest
from agentctl.base.messages import Message, Result, Role

from .events import Carried, Event, Failed, MessageAdded, MoneyNoted, Ran, Replied, Requested, ToolsOffered, decode
from .manifest import Manifest, read_manifest, read_result
from .models.body import request_body
from .models.journal import EarlierBooks, Noted, ReplyCame, RequestSent, SendFailed, carried
from .models.wire import encode, encode_tool


def read_events(record: Path) -> Iterator[Event]:
    """The events of a record, in order. A last line that a kill cut in half is left out; another is an error."""
    path = record / "events.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        what = "no such part of a record" if record.is_dir() else "no such record"
        raise InputError(what, file=path if record.is_dir() else record) from None
    whole, rest = lines[:-1], lines[-1]
    for number, line in enumerate(whole, start=1):
        try:
            yield decode(line)
        except ValueError as error:
            if number == len(whole) and not rest:
                return
            raise InputError(f"line {number} is no event: {error}", file=path) from None


@dataclass(frozen=True)
class Rebuilt:
    """A request as it was sent, built again from the record."""

    sent: RequestSent
    body: bytes

    @property
    def same(self) -> bool:
        """Whether it is, to the byte, what was sent."""
        return digest(self.body) == self.sent.digest


class RecordReader:
    """A record on disk, whole or cut off by a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def manifest(self) -> Manifest:
        return read_manifest(self.folder)

    @cached_property
    def events(self) -> list[Event]:
        return list(read_events(self.folder))

    @cached_property
    def messages(self) -> dict[int, Message]:
        return {event.n: event.message for event in self.events if isinstance(event, MessageAdded)}

    @cached_property
    def requests(self) -> dict[int, RequestSent]:
        return {event.sent.n: event.sent for event in self.events if isinstance(event, Requested)}

    @property
    def replies(self) -> list[Message]:
        """The main model's replies, in order."""
        return [message for message in self.messages.values() if message.role is Role.ASSISTANT]

    @property
    def calls(self) -> dict[str, Ran]:
        """What was run, by the call's id."""
        return {event.call: event for event in self.events if isinstance(event, Ran)}

    @property
    def results(self) -> dict[str, Result]:
        """What the model was shown of each call that was answered natively, by the call's id."""
        return {
            part.call_id: part
            for event in self.events
            if isinstance(event, MessageAdded) and not event.aside  # where results are cut later, it is told aside
            for part in event.message.parts
            if isinstance(part, Result)
        }

    def books(self) -> EarlierBooks:
        """What this attempt has spent, with all that it carried from records before it."""
        ours: list[RequestSent | ReplyCame | SendFailed | Noted] = []
        before = EarlierBooks()
        for event in self.events:
            match event:
                case Requested(sent=each):
                    ours.append(each)
                case Replied(came=each_reply):
                    ours.append(each_reply)
                case Failed(failed=each_failure):
                    ours.append(each_failure)
                case MoneyNoted(noted=each_note):
                    ours.append(each_note)
                case Carried():
                    before = EarlierBooks(event.spent, event.uncertain, event.sends)
                case _:
                    pass
        own = carried(ours)
        return EarlierBooks(own.spent + before.spent, own.uncertain + before.uncertain, max(own.sends, before.sends))

    @property
    def work_seconds(self) -> float:
        """Work time of this attempt, with what it carried; of a cut-off one up to its last event."""
        result = read_result(self.folder)
        if result is not None:
            return result.work_seconds
        before, began, waited = 0.0, 0.0, 0.0
        for event in self.events:
            match event:
                case Carried():
                    before, began = event.seconds, self.events[-1].at  # what was said is said again first: no work
                case Requested() if before or began:
                    began = min(began, event.at)
                case Failed():
                    waited += event.failed.pause or 0.0
                case _:
                    pass
        return before + max(0.0, self.events[-1].at - began - waited) if self.events else 0.0

    def rebuild(self, n: int) -> Rebuilt:
        """Request number `n`, built again. InputError where the record has none of that number."""
        sent = self.requests.get(n)
        if sent is None:
            last = max(self.requests, default=0)
            raise InputError(f"no request {n}; the last is {last}", file=self.folder, field="--request")
        known = {tool.name: tool for event in self.events if isinstance(event, ToolsOffered) for tool in event.tools}
        numbers = [number for first, last in sent.messages for number in range(first, last + 1)]
        messages = [encode(self.messages[number], number, images=self._image) for number in numbers]
        model = self.manifest.spec.model_of(sent.role)
        body = request_body(model, messages, [encode_tool(known[name]) for name in sent.tools], sent.output_limit)
        return Rebuilt(sent, body)

    def _image(self, ref: object) -> bytes:
        return (self.folder / "images" / getattr(ref, "digest", "")).read_bytes()
