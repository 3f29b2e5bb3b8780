"""One question to a model, through all of its sends, and what is kept of a role's earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from agentctl.agents.books import Charge
from agentctl.agents.pricing import CacheMarkers
from agentctl.agents.purse import Quote

from .billing import Worst
from .body import Body, BodyMaker
from .bound import PromptMeter
from .protocol import EncodedMessage, EncodedTool, ModelSpec
from .route import Route

LEAST_USEFUL_OUTPUT = 1_000  # tokens; a reply that may not be longer is not worth its prompt
CONVERSATION = ("main", "summary")  # roles whose prompts begin with the conversation, and are read from its cache


@dataclass(frozen=True)
class Earlier:
    """What is kept of one role's earlier prompts. Roles of the conversation have it in common."""

    meter: PromptMeter
    maker: BodyMaker

    @classmethod
    def of(cls, model: ModelSpec) -> Earlier:
        return cls(PromptMeter(model.name), BodyMaker(model))


@dataclass
class Call:
    """One `ask`, through all of its sends."""

    role: str
    route: Route
    messages: tuple[EncodedMessage, ...]
    tools: Sequence[EncodedTool]
    wanted: int  # output tokens
    meter: PromptMeter
    maker: BodyMaker
    keep: Decimal | None = None  # dollars that it must leave
    n: int = 0  # number of the last send
    sends: int = 0
    seconds: float = 0.0  # of the last send
    waited: float = 0.0
    reported: Charge | None = None  # of the last send, where it was lost: what the provider told before
    bodies: dict[int, Body] = field(default_factory=dict)

    @property
    def markers(self) -> CacheMarkers:
        """Helpers' prompts are never sent again: to have them kept would cost for nothing."""
        return self.route.markers if self.role in CONVERSATION else CacheMarkers.NONE

    def body(self, output_limit: int) -> Body:
        """The request's bytes, made once for each output limit."""
        if output_limit not in self.bodies:
            self.bodies[output_limit] = self.maker.make(self.messages, self.tools, output_limit)
        return self.bodies[output_limit]


def quote(call: Call, worst: Worst) -> Quote:
    """What one send of `call` can cost, by the output tokens it is allowed."""
    fixed = worst.rates.request + worst.prompt_tokens * worst.rates.prompt
    least = LEAST_USEFUL_OUTPUT + (call.route.spec.thinking_budget or 0)
    return Quote(fixed, worst.rates.output, call.wanted, min(least, call.wanted))
