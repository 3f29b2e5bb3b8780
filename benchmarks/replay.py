"""Playing a record again, and telling whether it came out the same."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentctl.agents.ends import End
from agentctl.agents.events import MessageAdded, Ran
from agentctl.agents.manifest import AttemptResult, read_result
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import Listener
from agentctl.agents.spec import Prices
from agentctl.agents.task import Provenance, TaskRef
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.base.messages import Result, Role, Text
from agentctl.base.text import cut
from agentctl.base.values import Frozen

from .runner import Outcome, run
from .tasks import current_ref
from .trust import Trust
from .volatile import Moment, settled

# Ends that come from outside of the replies. An attempt that ended so ends in a replay when the replies do.
_NOT_BY_REPLIES = frozenset(
    (End.COST, End.TIME, End.CONTEXT, End.REFUSED, End.SCRIPT, End.PROVIDER, End.SANDBOX, End.CANCELLED, End.CRASH)
)


class Difference(Frozen):
    """One thing that came out otherwise."""

    where: str  # a call, a question, the attempt
    what: str
    recorded: str = ""
    now: str = ""


@dataclass(frozen=True)
class Played:
    """A replay: its own record, how many tool results were compared, and what differed."""

    outcome: Outcome
    compared: int
    differences: tuple[Difference, ...]


def play_again(
    record: Path,
    into: Path,
    *,
    listener: Listener | None = None,
    environment: Mapping[str, str],
    cancel: Cancel | None = None,
    trust: Trust | None = None,
) -> Played:
    """Play the attempt in `record` again into the new record `into`, and compare the two.

    The task is staged as it is now: where it is no longer what was recorded, that is a difference too, and the rest
    shows what came of it. `trust` is what the caller knows of the record to be harmless.
    """
    reader = RecordReader(record)
    spec = reader.manifest.spec
    spec = (trust or Trust()).checked(record, spec)
    if not reader.replies:
        raise InputError("this record holds no reply to play again", file=record)
    ref = current_ref(spec.task)
    played = {"name": f"replay:{record}", "api_base": None, "client": "auto"}
    model = spec.model.model_copy(update=played)
    helpers = {role: each.model_copy(update=played) for role, each in spec.helpers.items()}
    outcome = run(
        spec.model_copy(
            update={
                "task": ref,
                "model": model,
                "helpers": helpers,
                "prices": Prices(),
                "record": into,
                "resume_from": None,
            },
        ),
        cancel=cancel,
        listener=listener,
        environment=environment,
    )
    again = RecordReader(into)
    differences = [
        *_task_differences(spec.task, ref),
        *_result_differences(reader, again),
        *_ending_differences(reader, again),
    ]
    return Played(outcome, len(shown_results(reader)), tuple(differences))


@dataclass(frozen=True)
class Shown:
    """What the model was shown of a call, or of several at once, and how that ended."""

    status: str
    text: str
    moment: Moment

    @property
    def settled(self) -> str:
        return settled(self.text, self.moment)


def shown_results(reader: RecordReader) -> dict[str, Shown]:
    """What the model was shown after each step, by the place's name: the calls, or the message's number.

    What is no part of the conversation counts for nothing: how often a clock is told differs from run to run.
    """
    shown: dict[str, Shown] = {}
    said = 0  # messages of the conversation
    ran: dict[str, str] = {}  # calls of the last reply that no message has answered yet
    for event in reader.events:
        if isinstance(event, Ran):
            ran[event.call] = f"{event.name} ({event.call})"
        if not isinstance(event, MessageAdded) or event.aside:
            continue
        said += 1
        moment = Moment(reader.manifest.created, event.at)
        message = event.message
        for part in message.parts:
            if isinstance(part, Result):
                place = ran.pop(part.call_id, part.call_id)
                text = "\n".join(each.text for each in part.parts if isinstance(each, Text))
                shown[place] = Shown(part.status, text, moment)
        if message.role is Role.USER and said > 2:
            shown[", ".join(ran.values()) or f"message {said}"] = Shown("", message.text(), moment)
        if message.role is Role.ASSISTANT:
            ran.clear()
    return shown


def _task_differences(recorded: TaskRef, now: TaskRef) -> list[Difference]:
    if recorded.digest == now.digest:
        return []
    return [Difference(where=f"task {now.id}", what="its files or its questions are not those of the recording")]


def _result_differences(recorded: RecordReader, again: RecordReader) -> list[Difference]:
    before, after = shown_results(recorded), shown_results(again)
    differences: list[Difference] = []
    for place, then in before.items():
        now = after.get(place)
        if now is None:
            differences.append(Difference(where=place, what="was not reached", recorded=cut(then.text, 300)))
        elif then.status != now.status:
            what = f"ended {now.status} instead of {then.status}"
            differences.append(Difference(where=place, what=what, now=cut(now.text, 300)))
        elif then.settled != now.settled:
            was, is_now = _first_difference(then.settled, now.settled)
            differences.append(Difference(where=place, what="gave another result", recorded=was, now=is_now))
    return differences


def _first_difference(before: str, after: str) -> tuple[str, str]:
    """The first lines that differ, of each side."""
    was, now = before.splitlines(), after.splitlines()
    for tag, a, b, c, d in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if tag != "equal":
            return cut("\n".join(was[a:b]), 300), cut("\n".join(now[c:d]), 300)
    return cut(before, 300), cut(after, 300)


def _ending_differences(recorded: RecordReader, again: RecordReader) -> list[Difference]:
    before, after = read_result(recorded.folder), read_result(again.folder)
    if before is None or after is None:
        return []
    differences: list[Difference] = []
    if before.end != after.end and not (after.end is End.PROVIDER and before.end in _NOT_BY_REPLIES):
        what = f"ended {after.end} instead of {before.end}"
        differences.append(Difference(where="the attempt", what=what, now=after.detail))
    if before.deliverable_digest != after.deliverable_digest:
        was, now = _first_difference(_deliverable(recorded, before), _deliverable(again, after))
        where = before.deliverable or after.deliverable or "the deliverable"
        differences.append(Difference(where=where, what="is another", recorded=was, now=now))
    found = {each.name: _found(each, again) for each in after.provenance}
    for each in before.provenance:
        was, now = _found(each, recorded), found.get(each.name, "absent")
        if each.kind in ("produced", "read") and was != now:
            differences.append(Difference(where=f"answer to {each.name!r}", what=f"was {was}, and now is {now}"))
    return differences


def _deliverable(reader: RecordReader, result: AttemptResult) -> str:
    if result.deliverable is None:
        return f"(none{': ' + result.deliverable_problem if result.deliverable_problem else ''})"
    return (reader.folder / result.deliverable).read_text(encoding="utf-8", errors="replace")


def _found(provenance: Provenance, reader: RecordReader) -> str:
    if provenance.where is None or provenance.kind == "read":  # which of the files that came with it is all one
        return provenance.kind
    return f"{provenance.kind} in {settled(provenance.where, Moment(reader.manifest.created, 0))}"
