"""What one reply is billed: by the provider's own counts, and where it gave none, by the most it can have counted."""

from __future__ import annotations

from dataclasses import dataclass

from agentctl.agents.books import Charge
from agentctl.agents.pricing import Cost, Price, Pricing, ServiceTier, WorstRates, cost
from agentctl.agents.usage import Usage, normalise
from agentctl.base.jsonio import dumps
from agentctl.base.messages import Opaque, Text

from .bound import MESSAGE_TOKENS
from .protocol import RawReply


@dataclass(frozen=True)
class Worst:
    """The most that one send can come to: tokens of its prompt, and the dearest rates that can apply."""

    prompt_tokens: int
    images: bool  # some of the prompt may be billed as images
    rates: WorstRates


@dataclass(frozen=True)
class MostCounted:
    """The most that a provider can have counted for one reply: an estimate under which the cap still holds."""

    worst: Worst
    reply: RawReply
    output_limit: int  # tokens that the reply was allowed
    hidden: bool  # the model may have made output that its reply does not show

    def prompt(self) -> int:
        return self.worst.prompt_tokens

    def output(self) -> int:
        """A token is at least a byte of what is shown; what is not shown has only its limit."""
        if self.hidden:
            return self.output_limit
        texts = [part.text for part in self.reply.parts if isinstance(part, Text)]
        for call in self.reply.calls:
            texts += [call.name, call.arguments]
        opaque = [dumps(part.data) for part in self.reply.parts if isinstance(part, Opaque)]
        shown = sum(len(text.encode("utf-8", "replace")) for text in texts) + sum(map(len, opaque))
        framing = MESSAGE_TOKENS * (1 + len(self.reply.calls))
        return min(shown + framing, self.output_limit) if shown else 0


def bill(reply: RawReply, price: Pricing, service: ServiceTier, most: MostCounted, *, recorded: bool) -> Charge:
    """The charge for `reply`. Never raises on what it holds. A recording (`recorded`) without counts is unpriced."""
    if recorded and reply.usage is None and isinstance(price, Price):
        return Charge(cost=None)
    usage = normalise("openai_chat", reply.usage, most) or Usage()
    known = cost(usage, price, service)
    if known is None or not usage.estimated:
        return Charge(usage=usage, cost=known)
    return Charge(usage=usage, cost=_at_most(usage, known, most.worst.rates))


@dataclass(frozen=True)
class _NothingMore:
    """An estimate for a lost reply: what was not reported of it stays uncertain."""

    def prompt(self) -> int:
        return 0

    def output(self) -> int:
        return 0


def bill_reported(usage: object, price: Pricing, service: ServiceTier) -> Charge | None:
    """The charge for what a provider told of a reply before it broke off; None where it told nothing."""
    told = normalise("openai_chat", usage, _NothingMore())
    return Charge(usage=told, cost=cost(told, price, service)) if told and told.total_tokens else None


def _at_most(usage: Usage, known: Cost, rates: WorstRates) -> Cost:
    """The cost where counts are estimates: nobody knows the classes either, nor the band of a prompt nobody counted."""
    if not usage.estimated_prompt_tokens:
        return known.model_copy(update={"output": usage.output_tokens * rates.output})
    return Cost(
        input=usage.prompt_tokens * rates.prompt, output=usage.output_tokens * rates.output, request=rates.request
    )
