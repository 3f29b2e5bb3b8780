"""Playing a record again, and telling whether it came out the same."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentctl.agents.manifest import AttemptResult, read_result
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import Listener
from agentctl.agents.state import calls_of
from agentctl.agents.task import TaskRef
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.base.messages import Result, Role, Text
from agentctl.base.text import cut
from agentctl.base.values import Frozen

from .runner import Outcome, run
from .tasks import current_ref

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

# What may differ from run to run without meaning anything. Everything else is a difference.
VOLATILE: tuple[tuple[str, str], ...] = (
    (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?\b", "<time>"),
    (rf"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} [ \d]\d \d\d:\d\d:\d\d( \w+)? \d{{4}}\b", "<time>"),
    (rf"\b{_MONTH} [ \d]\d +(?:\d\d:\d\d|\d{{4}})\b", "<time>"),
    (r"\b\d+(?:\.\d+)? ?(?:ms|s|sec|seconds|min|minutes)\b", "<duration>"),
    (r"\b\d+m\d+(?:\.\d+)?s\b", "<duration>"),
    (r"\b\d+(?:\.\d+)? ?[kMG]?B/s\b", "<rate>"),
    (r"\b0x[0-9a-f]{6,16}\b", "<address>"),
    (r"/tmp/[\w.-]*", "<temporary>"),
    (r"^\[\d+\] \d+$", "<job>"),
    (r"\bpid[ =:]*\d+\b", "<pid>"),
    (r"^[bcdlps-][rwxsStT-]{9}[.+]? .*$", "<listing>"),
    (r"^total \d+$", "<listing>"),
)
_PATTERNS = [(re.compile(pattern, re.MULTILINE), mark) for pattern, mark in VOLATILE]


def settled(text: str) -> str:
    """`text` with what is volatile replaced by marks."""
    for pattern, mark in _PATTERNS:
        text = pattern.sub(mark, text)
    return text.rstrip()


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
) -> Played:
    """Play the attempt in `record` again into the new record `into`, and compare the two.

    The task is staged as it is now: where it is no longer what was recorded, that is a difference too, and the rest
    shows what came of it.
    """
    reader = RecordReader(record)
    spec = reader.manifest.spec
    if not reader.replies:
        raise InputError("this record holds no reply to play again", file=record)
    ref = current_ref(spec.task)
    outcome = run(
        spec.model_copy(
            update={
                "task": ref,
                "model": spec.model.model_copy(update={"name": f"replay:{record}", "api_base": None, "client": "auto"}),
                "record": into,
                "resume_from": None,
            }
        ),
        cancel=cancel,
        listener=listener,
        environment=environment,
    )
    again = RecordReader(into)
    differences = [
        *_task_differences(spec.task, ref),
        *_result_differences(reader, again),
        *_ending_differences(read_result(record), outcome.result),
    ]
    return Played(outcome, len(shown_results(reader)), tuple(differences))


def shown_results(reader: RecordReader) -> dict[str, tuple[str, str]]:
    """What the model was shown after each step: a name for the place, to the call and the text."""
    calls = {call.id: f"{call.name} ({call.id})" for message in reader.replies for call in calls_of(message)}
    shown: dict[str, tuple[str, str]] = {}
    for number, message in reader.messages.items():
        for part in message.parts:
            if isinstance(part, Result):
                text = "\n".join(each.text for each in part.parts if isinstance(each, Text))
                shown[calls.get(part.call_id, part.call_id)] = (part.status, text)
        if message.role is Role.USER and number > 2:
            shown[f"message {number}"] = ("", message.text())
    return shown


def _task_differences(recorded: TaskRef, now: TaskRef) -> list[Difference]:
    if recorded.digest == now.digest:
        return []
    return [Difference(where=f"task {now.id}", what="its files or its questions are not those of the recording")]


def _result_differences(recorded: RecordReader, again: RecordReader) -> list[Difference]:
    before, after = shown_results(recorded), shown_results(again)
    differences: list[Difference] = []
    for place, (status, text) in before.items():
        if place not in after:
            differences.append(Difference(where=place, what="was not reached", recorded=cut(text, 300)))
            continue
        status_now, text_now = after[place]
        if status != status_now:
            differences.append(
                Difference(where=place, what=f"ended {status_now} instead of {status}", now=cut(text_now, 300))
            )
        elif settled(text) != settled(text_now):
            was, is_now = _first_difference(settled(text), settled(text_now))
            differences.append(Difference(where=place, what="gave another result", recorded=was, now=is_now))
    return differences


def _first_difference(before: str, after: str) -> tuple[str, str]:
    """The first lines that differ, of each side."""
    was, now = before.splitlines(), after.splitlines()
    for tag, a, b, c, d in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if tag != "equal":
            return cut("\n".join(was[a:b]), 300), cut("\n".join(now[c:d]), 300)
    return cut(before, 300), cut(after, 300)


def _ending_differences(recorded: AttemptResult | None, now: AttemptResult) -> list[Difference]:
    if recorded is None:
        return []
    differences: list[Difference] = []
    if recorded.end != now.end:
        differences.append(
            Difference(where="the attempt", what=f"ended {now.end} instead of {recorded.end}", now=now.detail)
        )
    found = {each.name: each for each in now.provenance}
    for each in recorded.provenance:
        again = found.get(each.name)
        kind = again.kind if again else "absent"
        if each.kind in ("produced", "read") and kind != each.kind:
            differences.append(
                Difference(
                    where=f"answer to {each.name!r}",
                    what=f"was {each.kind} in {each.where}, and now is {kind}",
                )
            )
    return differences
