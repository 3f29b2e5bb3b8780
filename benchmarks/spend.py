"""What a set of records came to: by kind, role, model, task and class of tokens.

All is read from the records' events, so that a killed attempt counts as well as one that ended. Money is counted where
it was spent: what a resumed attempt carried over is left to the record that it came from, and only where that is not
among the records is it counted here. Dollars of a replay are those of the recording; nobody paid them again. A call
without a known price is counted as such, never as $0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from agentctl.agents.events import Carried, Failed, Replied, Requested, WentOn
from agentctl.agents.models.protocol import Kind
from agentctl.agents.pricing import ZERO, Price, Pricing, ServiceTier, cost
from agentctl.agents.reading import RecordReader
from agentctl.agents.usage import Usage
from agentctl.base.errors import AgentctlError, InputError
from agentctl.base.jsonio import digest
from agentctl.base.values import Frozen, Usd

from .scratch import in_use

K = TypeVar("K", bound=Hashable)

CARRIED = "carried over"  # the role of what was spent in records that are not here
NOT_SPLIT = "not split"  # the class of dollars whose prices are not known any more


class ClassSum(Frozen):
    """Tokens of one class, and what they cost as far as that is known."""

    tokens: int = 0
    spent: Usd = ZERO

    def __add__(self, other: ClassSum) -> ClassSum:
        return ClassSum(tokens=self.tokens + other.tokens, spent=self.spent + other.spent)


class Sum(Frozen):
    """What some calls came to. With unpriced calls, `spent` is a lower bound."""

    calls: int = 0  # that brought a reply
    lost_calls: int = 0  # whose reply may have been billed and never arrived
    tokens: int = 0
    spent: Usd = ZERO
    uncertain: Usd = ZERO
    unpriced_calls: int = 0
    unpriced_tokens: int = 0
    estimated_calls: int = 0  # some of whose tokens no provider reported
    by_class: dict[str, ClassSum] = Field(default_factory=dict)

    def __add__(self, other: Sum) -> Sum:
        names = [name for name in Sum.model_fields if name != "by_class"]
        added = {name: getattr(self, name) + getattr(other, name) for name in names}
        classes = dict.fromkeys([*self.by_class, *other.by_class])
        none = ClassSum()
        split = {name: self.by_class.get(name, none) + other.by_class.get(name, none) for name in classes}
        return Sum(**added, by_class=split)


@dataclass(frozen=True)
class Line:
    """One call, or what was carried over, and whose it was."""

    kind: Kind
    model: str
    role: str
    task: str
    sum: Sum


@dataclass
class SpendReport:
    """All lines of a set of records, and what is to be said of the set."""

    lines: list[Line] = field(default_factory=list)
    records: list[Path] = field(default_factory=list)
    no_result: list[Path] = field(default_factory=list)  # killed, or still at work
    at_work: list[Path] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)  # of records that are counted already
    unreadable: dict[Path, str] = field(default_factory=dict)  # and why

    def kinds(self) -> list[Kind]:
        return list(dict.fromkeys(line.kind for line in self.lines))

    def by(self, key: Callable[[Line], K], kind: Kind) -> dict[K, Sum]:
        """The sums of one kind, by what `key` says of a line."""
        sums: dict[K, Sum] = {}
        for line in self.lines:
            if line.kind == kind:
                sums[key(line)] = sums.get(key(line), Sum()) + line.sum
        return sums


def spend_of(places: Iterable[Path]) -> SpendReport:
    """What the records at `places` came to; folders are searched. A record that stands there twice counts once.

    InputError for a place that is not there or holds no record. A record that can't be read is named in the answer.
    """
    spend = SpendReport()
    members: dict[str, _Member] = {}
    for folder in dict.fromkeys(record for place in places for record in _records(place)):
        try:
            member = _Member(folder)
        except (AgentctlError, OSError) as error:
            spend.unreadable[folder] = str(error)
            continue
        known = members.get(member.identity)
        if known is None or known.events < member.events:  # a copy that was made earlier holds less
            members[member.identity] = member
        if known is not None:
            spend.copies.append(known.folder if members[member.identity] is member else folder)
    for member in members.values():
        spend.records.append(member.folder)
        if not (member.folder / "result.json").exists():
            spend.no_result.append(member.folder)
            if in_use(member.folder / "events.jsonl"):
                spend.at_work.append(member.folder)
    for member in members.values():
        spend.lines += [*member.own(), *member.carried(list(members.values()))]
    return spend


def _records(place: Path) -> Iterator[Path]:
    """The record folders at or below `place`. What an agent left in one is not looked into."""
    if not place.is_dir():
        raise InputError("no such record or folder", file=place)
    found = False
    for folder, folders, files in os.walk(place):
        if "manifest.json" in files and "events.jsonl" in files:
            found = True
            folders.clear()
            yield Path(folder).resolve()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
    if not found:
        raise InputError("no record is in it", file=place, remedy="give a folder that `solve` made, or one above")


class _Member:
    """One record of the set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = RecordReader(folder)
        self.manifest = self.reader.manifest
        self.books = self.reader.books()
        self.events = len(self.reader.events)
        content = (folder / "manifest.json").read_bytes() + (folder / "events.jsonl").read_bytes()
        self.identity = self.manifest.record_id or digest(content)
        self._spec = self.manifest.spec

    def _price(self, role: str) -> Price | None:
        schedules = self.manifest.prices.of(role)
        return Price.model_validate({"name": "", "source": "", "schedules": schedules}) if schedules else None

    def _line(self, role: str, sum: Sum) -> Line:
        return Line(self._kind(role), self._spec.model_of(role).name, role, self._spec.task.id, sum)

    def _kind(self, role: str) -> Kind:
        """A helper with a name of its own is asked for real, whoever plays the main model."""
        other = self._spec.model_of(role)
        return self.manifest.kind if other.told or not self._spec.model.told else "live"

    def own(self) -> Iterator[Line]:
        """What was billed in this record, and what may have been."""
        waiting: dict[int, Requested] = {}
        for event in self.reader.events:
            match event:
                case Requested():
                    waiting[event.sent.n] = event
                case Replied(came=came):
                    waiting.pop(came.n, None)
                    yield self._line(came.role, self._billed(came.role, came.usage, came.cost, calls=1))
                case Failed(failed=failed):
                    sent = waiting.pop(failed.n, None)
                    if failed.usage is not None:
                        billed = self._billed(failed.role, failed.usage, failed.cost, calls=0)
                        yield self._line(failed.role, billed)
                    if failed.lost and sent is not None:
                        rest = max(ZERO, sent.sent.bound - (failed.cost or ZERO))
                        yield self._line(failed.role, Sum(lost_calls=1, uncertain=rest))
                case _:
                    pass
        for event in waiting.values():
            yield self._line(event.sent.role, Sum(lost_calls=1, uncertain=event.sent.bound))

    def _billed(self, role: str, usage: Usage, spent: Decimal | None, *, calls: int) -> Sum:
        """What a reply came to, or one that broke off: that is no call which brought one."""
        known = spent is not None
        return Sum(
            calls=calls,
            tokens=usage.total_tokens,
            spent=spent or ZERO,
            unpriced_calls=not known,
            unpriced_tokens=0 if known else usage.total_tokens,
            estimated_calls=usage.estimated,
            by_class=_split(usage, spent, self._price(role), ServiceTier(self._spec.model_of(role).service)),
        )

    def carried(self, members: Sequence[_Member]) -> Iterator[Line]:
        """What was spent in records before this one that are not among `members`."""
        for event in self.reader.events:
            if isinstance(event, Carried):
                spent, uncertain = self._counted(event, members)
                rest = Sum(spent=event.spent - spent, uncertain=event.uncertain - uncertain)
                if rest != Sum():
                    split = {NOT_SPLIT: ClassSum(spent=rest.spent)}
                    yield self._line(CARRIED, rest.model_copy(update={"by_class": split}))

    def _counted(self, carried: Carried, members: Sequence[_Member]) -> tuple[Decimal, Decimal]:
        """How much of what was carried over the nearest earlier record counts that is among `members`."""
        others = [member for member in members if member is not self]
        if carried.record_id:
            return self._of_nearest(carried, others)
        for other in others:  # it may have been moved since
            same = (other.books.spent, other.books.uncertain, other.books.sends) == (
                carried.spent, carried.uncertain, carried.sends,
            )  # fmt: skip
            if same and other.manifest.attempt_key == self.manifest.attempt_key:
                return other.books.spent, other.books.uncertain
        path, seen = Path(carried.record), set[Path]()
        while path not in seen:
            seen.add(path)
            for other in others:
                if other.folder == path.resolve() or other.went_on_to(path):
                    return other.books.spent, other.books.uncertain
            try:
                earlier = [event for event in RecordReader(path).events if isinstance(event, Carried)]
            except (AgentctlError, OSError):
                break
            path = Path(earlier[0].record) if earlier else path
        return ZERO, ZERO

    def _of_nearest(self, carried: Carried, others: Sequence[_Member]) -> tuple[Decimal, Decimal]:
        """The same where records have ids."""
        sought, path, seen = carried.record_id, Path(carried.record), set[Path]()
        while path not in seen:
            seen.add(path)
            nearest = next((other for other in others if other.identity == sought), None)
            nearest = nearest or next((other for other in others if other.went_on_to(path)), None)
            if nearest is not None:
                return nearest.books.spent, nearest.books.uncertain
            try:
                earlier = [event for event in RecordReader(path).events if isinstance(event, Carried)]
            except (AgentctlError, OSError):
                break
            if earlier:
                sought, path = earlier[0].record_id, Path(earlier[0].record)
        return ZERO, ZERO

    def went_on_to(self, path: Path) -> bool:
        return any(isinstance(event, WentOn) and event.record == str(path) for event in self.reader.events)


def _split(usage: Usage, spent: Decimal | None, price: Pricing | None, service: ServiceTier) -> dict[str, ClassSum]:
    """Tokens and dollars by class; reasoning apart from the output that is seen."""
    tokens = {
        "input": usage.input_tokens,
        "cached read": usage.cache_read_tokens,
        "cache write": usage.written_tokens,
        "image": usage.image_input_tokens,
        "output": usage.output_tokens - usage.reasoning_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    dollars = {NOT_SPLIT: spent} if spent else {}
    whole = cost(usage, price, service) if price else None
    rates = price.rates(usage.prompt_tokens, service) if isinstance(price, Price) else None
    if whole is not None and rates is not None and whole.total == spent:
        reasoning = usage.reasoning_tokens * rates.reasoning
        dollars = {
            "input": whole.input,
            "cached read": whole.cache_read,
            "cache write": whole.cache_write,
            "image": whole.image_input,
            "output": whole.output - reasoning,
            "reasoning": reasoning,
            "request": whole.request,
        }
    classes = [name for name in dict.fromkeys([*tokens, *dollars]) if tokens.get(name) or dollars.get(name)]
    return {name: ClassSum(tokens=tokens.get(name, 0), spent=dollars.get(name, ZERO)) for name in classes}
