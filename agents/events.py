"""What happens in an attempt, as the lines of its `events.jsonl`: typed, append-only, each message once."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from agentctl.base.errors import refused
from agentctl.base.messages import Message, Status, ToolSpec
from agentctl.base.values import Frozen, Usd
from agentctl.tools.sandbox.protocol import Refusal

from .ends import End
from .models.journal import Noted, ReplyCame, RequestSent, SendFailed
from .models.protocol import RawReply


class _Line(Frozen):
    at: float = 0.0  # seconds since the attempt began, to the millisecond


class MessageAdded(_Line):
    """A message became part of the attempt, under its number."""

    t: Literal["message"] = "message"
    n: int
    message: Message
    aside: bool = False  # no part of the conversation: a helper's question, or what a request tells beside it


class ToolsOffered(_Line):
    """The tools that requests from here on may carry, as the model is told of them."""

    t: Literal["tools"] = "tools"
    tools: tuple[ToolSpec, ...]


class Requested(_Line):
    """A request is about to leave. Its body can be rebuilt from the messages it names, and checked by its digest."""

    t: Literal["request"] = "request"
    sent: RequestSent


class Replied(_Line):
    """A reply came. The main model's words follow as a message; a helper's are kept here."""

    t: Literal["reply"] = "reply"
    came: ReplyCame
    helper: RawReply | None = None


class GivenAgain(_Line):
    """A helper's reply of the record that this one goes on from, given again at no cost."""

    t: Literal["given_again"] = "given_again"
    role: str
    reply: RawReply


class Failed(_Line):
    """A send brought no reply."""

    t: Literal["failed"] = "failed"
    failed: SendFailed


class MoneyNoted(_Line):
    t: Literal["money"] = "money"
    noted: Noted


class Ran(_Line):
    """A call was run to its end. What the model was shown of it follows as a message."""

    t: Literal["ran"] = "ran"
    call: str
    name: str
    status: Status
    seconds: float
    exit_code: int | None = None
    saved_as: str | None = None


class Note(_Line):
    """A word of the harness or of a tool, for whoever reads the record: a restarted shell, a fault of ours."""

    t: Literal["note"] = "note"
    kind: str
    text: str


class Summarised(_Line):
    """One line takes the place of a step, from here on. It is the fast model's reply before this, where that came."""

    t: Literal["summary"] = "summary"
    step: int
    text: str
    problem: str = ""  # why it is not the model's


HowCondensed: TypeAlias = Literal["summed up", "results cut", "left out"]


class Condensed(_Line):
    """From here on requests tell the steps from `first` to `last` in less room."""

    t: Literal["condensed"] = "condensed"
    how: HowCondensed
    first: int
    last: int
    before: int  # tokens of the conversation, about
    after: int

    @property
    def words(self) -> str:
        became = f"about {self.before:,} tokens became {self.after:,}"
        return f"steps {self.first} to {self.last} {self.how}: {became}"


class NetworkRefused(_Line):
    """The network policy refused a request of the agent's."""

    t: Literal["network"] = "network"
    refusal: Refusal


class Carried(_Line):
    """This attempt goes on from another record: what was spent there, money and time, counts here."""

    t: Literal["carried"] = "carried"
    record: str
    record_id: str = ""
    spent: Usd
    uncertain: Usd
    sends: int = 0  # the number of the last send there
    seconds: float = 0.0  # of work there


class WentOn(_Line):
    """Another attempt goes on from this record, which was cut off. It carries all that was spent here."""

    t: Literal["went_on"] = "went_on"
    record: str


class Ended(_Line):
    """The agent's part is over; collecting and scoring follow."""

    t: Literal["ended"] = "ended"
    end: End
    detail: str = ""


Event: TypeAlias = Annotated[
    MessageAdded
    | ToolsOffered
    | Requested
    | Replied
    | GivenAgain
    | Failed
    | MoneyNoted
    | Ran
    | Note
    | Summarised
    | Condensed
    | NetworkRefused
    | Carried
    | WentOn
    | Ended,
    Field(discriminator="t"),
]


@cache
def _adapter() -> TypeAdapter[Event]:
    """Made when the first line is read: an attempt only writes."""
    return TypeAdapter(Event)


def encode(event: Event, at: float | None = None) -> bytes:
    """One line of `events.jsonl`, with its line feed. Fields at their defaults are left out.

    `at` takes the place of the event's own time.
    """
    at = event.at if at is None else at
    head = f'{{"t":"{event.t}","at":{at},' if at else f'{{"t":"{event.t}",'
    return b"".join((head.encode(), event.model_dump_json(exclude_defaults=True, exclude={"at"}).encode()[1:], b"\n"))


def decode(line: bytes) -> Event:
    """The event in one line. ValueError where it holds none."""
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        raise ValueError(str(refused(error))) from None
