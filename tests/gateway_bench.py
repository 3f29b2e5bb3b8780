"""A gateway with a scripted model behind it and a journal in memory, to look into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from agentctl.agents.models.gateway import Answer, Gateway
from agentctl.agents.models.journal import Noted, ReplyCame, RequestSent, SendFailed
from agentctl.agents.models.protocol import (
    EncodedMessage,
    Fault,
    FinishReason,
    Kind,
    ModelSpec,
    ProviderError,
    RawReply,
    WireRequest,
)
from agentctl.agents.models.retry import RetryPolicy
from agentctl.agents.models.route import Route
from agentctl.agents.models.wire import encode_tool
from agentctl.agents.price_table import Entries, PriceTable
from agentctl.agents.pricing import Band, Price, Pricing, Rates, ServiceTier
from agentctl.agents.purse import CapReached, Purse
from agentctl.base.cancel import Cancel
from agentctl.base.jsonio import dumps
from agentctl.base.messages import Text, ToolSpec

D = Decimal
Step = RawReply | ProviderError | BaseException


def reply(text: str = "ok", **more: Any) -> RawReply:
    usage = more.pop("usage", {"prompt_tokens": 100, "completion_tokens": 10})
    return RawReply(parts=(Text(text=text),), finish=FinishReason.STOP, usage=usage, **more)


@dataclass
class Scripted:
    """A model that says what its script says, and keeps what it was sent."""

    script: Iterator[Step] | list[Step]
    kind: Kind = "script"
    received: list[WireRequest] = field(default_factory=list)
    closed: int = 0
    clock: FakeTime = field(default_factory=lambda: FakeTime())
    takes: float = 0.0  # seconds of each send

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.received.append(request)
        self.clock.now += self.takes
        step = next(self._steps, None)
        assert step is not None, "the gateway asked more often than the script answers"
        if isinstance(step, BaseException):
            raise step
        return step

    def __post_init__(self) -> None:
        self._steps = iter(self.script)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Log:
    """A journal in memory."""

    events: list[RequestSent | ReplyCame | SendFailed | Noted] = field(default_factory=list)
    full: bool = False

    def request(self, event: RequestSent) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.events.append(event)

    def reply(self, event: ReplyCame, raw: RawReply) -> None:
        self.events.append(event)

    def failed(self, event: SendFailed) -> None:
        self.events.append(event)

    def note(self, event: Noted) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class FakeTime:
    """A clock that only sleeping moves."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def price(**rates: str) -> Price:
    """A price of one band: dollars per token, or `request` dollars a call."""
    known = {name: D(value) for name, value in rates.items()}
    fresh, output = known.get("input", D(0)), known.get("output", D(0))
    full = {
        "input": fresh,
        "output": output,
        "cache_read": fresh,
        "cache_write_5m": fresh,
        "cache_write_1h": fresh,
        "image_input": fresh,
        "reasoning": output,
        "request": D(0),
    }
    band = Band(above=0, inclusive=True, rates=Rates(**(full | known)))
    return Price(name="m", source="test", schedules={ServiceTier.STANDARD: (band,)})


PRICE = price(input="0.000003", output="0.000015")


def message(number: int, text: str = "x", role: str = "user") -> EncodedMessage:
    tree = {"role": role, "content": text}
    return EncodedMessage(number, dumps(tree), tree)


QUESTION = [message(1, "be good", "system"), message(2, "do it")]
TOOLS = [encode_tool(ToolSpec(name="bash", description="Runs it.", parameters={}))]


@dataclass
class Bench:
    """A gateway with all that it uses, to look into."""

    client: Scripted
    gateway: Gateway
    purse: Purse
    log: Log
    time: FakeTime
    cancel: Cancel

    def ask(self, role: str = "main", **more: Any) -> Answer:
        return self.gateway.ask(role, QUESTION, **more)


def bench(
    *script: Step,
    cap: str | None = "4",
    pricing: Pricing | dict[str, Pricing] = PRICE,
    spec: ModelSpec | None = None,
    kind: Kind = "script",
    policy: RetryPolicy | None = None,
    purse: Purse | None = None,
    client: Scripted | None = None,
    clock: FakeTime | None = None,
    cancel: Cancel | None = None,
    **route: Any,
) -> Bench:
    client = client or Scripted(list(script), kind)
    purse = purse or Purse(None if cap is None else D(cap))
    log, clock, cancel = Log(), clock or FakeTime(), cancel or Cancel()
    by_role = pricing if isinstance(pricing, dict) else {"main": pricing}
    spec = spec or ModelSpec(name="acme/m")
    routes = {role: Route(spec, client, each, **route) for role, each in by_role.items()}
    gateway = Gateway(routes, purse, log, cancel, policy=policy, clock=clock, sleep=clock.sleep, jitter=lambda: 0.5)
    return Bench(client, gateway, purse, log, clock, cancel)


def rates_entry(given: dict[str, Any]) -> dict[str, str]:
    """A case's prices as an entry of a table."""
    keys = {
        "in": "input_cost_per_token",
        "out": "output_cost_per_token",
        "cache_read": "cache_read_input_token_cost",
        "cache_write": "cache_creation_input_token_cost",
    }
    return {keys.get(name, name): str(value) for name, value in given.items()}


def table_of(prices: dict[str, Any]) -> PriceTable:
    entries = {name: rates_entry(given) for name, given in prices.items()}
    return PriceTable(Entries(json.dumps(entries).encode(), "cases", "1"))


def fee(dollars: object) -> Price:
    """A price by which each call costs the same."""
    return price(request=str(dollars))


def call_until_refused(bench: Bench, role: str = "main") -> int:
    """Calls that were answered before the cap was reached."""
    for count in range(1000):
        try:
            bench.ask(role)
        except CapReached:
            return count
    raise AssertionError("the cap was never reached")


def always(step: RawReply) -> Scripted:
    return Scripted(iter(lambda: step, None))


class Greedy(Scripted):
    """Uses all the output it is allowed."""

    def __init__(self) -> None:
        super().__init__([])

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.received.append(request)
        return reply(usage={"prompt_tokens": 1, "completion_tokens": request.output_limit})


def overloaded(**more: Any) -> ProviderError:
    return ProviderError(Fault.TRANSIENT, "Overloaded", **more)
