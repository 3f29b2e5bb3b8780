"""What the gateway writes down, as it happens: every send before it leaves, and what became of it.

The record implements `Journal`; the gateway knows nothing of files. A send with neither a reply nor a failure behind it
was open when the process died: its answer may have been billed, so its bound is carried as uncertain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from agentctl.agents.usage import Usage
from agentctl.base.values import Frozen, Usd

from .protocol import Fault, FinishReason, RawReply


class RequestSent(Frozen):
    """One send, written before it leaves. A retry is a send of its own, with its own number and its own bound."""

    n: int  # number of the send in the attempt, from 1; goes on after a resume
    role: str  # main, fast, vision, judge, summary
    messages: tuple[tuple[int, int], ...]  # record numbers of the messages, in order, as ranges (first, last), both in
    tools: tuple[str, ...]  # names of the tools that were offered, in order
    output_limit: int  # tokens
    digest: str  # SHA-256 of the whole body, in OpenAI chat form
    bound: Usd  # dollars set aside: it cannot cost more
    input_bound: int  # tokens that the prompt can have at most
    body_bytes: int
    try_number: int = 1  # 1 for the first send of a request, 2 for its first retry


class ReplyCame(Frozen):
    """A send that brought a reply, and what it cost. Written before anything of the reply is looked at."""

    n: int
    role: str
    usage: Usage
    cost: Usd | None  # dollars; None where the model has no known price
    finish: FinishReason
    model: str  # the name that the provider echoed; the price is that of the name asked
    seconds: float  # from send to reply


class SendFailed(Frozen):
    """A send that brought no reply. `lost`: an answer may have been billed, the bound stays counted as uncertain.

    Of that, `cost` is spent: it is what the provider reported, as `usage`, before the answer broke off.
    """

    n: int
    role: str
    fault: Fault
    words: str
    status: int | None = None
    lost: bool = False
    usage: Usage | None = None
    cost: Usd | None = None
    seconds: float = 0.0  # from send to failure
    pause: float | None = None  # seconds until the next try; None when there is none


class Noted(Frozen):
    """Something about money that a reader of the record should see."""

    what: str  # "output limit lowered", "bound overrun"
    role: str
    words: str
    n: int | None = None


class Journal(Protocol):
    """Where the gateway writes. Calls come from any thread; each returns when the line is handed to the system."""

    def request(self, event: RequestSent) -> None:
        """Called before the send. If it raises, nothing is sent and nothing is charged."""
        ...

    def reply(self, event: ReplyCame, raw: RawReply) -> None: ...

    def failed(self, event: SendFailed) -> None: ...

    def note(self, event: Noted) -> None: ...


@dataclass(frozen=True)
class EarlierBooks:
    """What a journal says of an earlier start of the attempt: its books, to go on from."""

    spent: Decimal = Decimal(0)
    uncertain: Decimal = Decimal(0)  # bounds of lost answers, and of sends that were open at the end
    sends: int = 0  # the number of the last send


def carried(events: Iterable[RequestSent | ReplyCame | SendFailed | Noted]) -> EarlierBooks:
    """The books after `events`, in the order they were written."""
    open_bounds: dict[int, Decimal] = {}
    spent = lost = Decimal(0)
    last = 0
    for event in events:
        match event:
            case RequestSent():
                open_bounds[event.n] = event.bound
                last = max(last, event.n)
            case ReplyCame():
                open_bounds.pop(event.n, None)
                spent += event.cost or 0
            case SendFailed():
                bound = open_bounds.pop(event.n, Decimal(0))
                spent += event.cost or 0
                lost += max(Decimal(0), bound - (event.cost or 0)) if event.lost else 0
            case Noted():
                pass
    return EarlierBooks(spent, lost + sum(open_bounds.values(), Decimal(0)), last)


def ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """`numbers` in their order as ranges of neighbours: 1, 2, 3, 7 gives (1, 3), (7, 7)."""
    first = numbers[0] if numbers else 0
    if numbers and list(numbers) == list(range(first, first + len(numbers))):  # a full history, however long
        return ((first, numbers[-1]),)
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)
