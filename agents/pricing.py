"""What tokens cost: exact dollars, by class, at the rates that hold for one request.

A long-context price is chosen by the prompt of one request and moves all of that request's tokens, never by the sum of
a run. A price that nobody gave is `Unknown`, which is not 0: `cost` gives None for it, and a sum with such a part is a
lower bound.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from typing import Literal, TypeAlias

from agentctl.base.values import Frozen, Usd

from .usage import Usage

ZERO = Decimal(0)


class ServiceTier(StrEnum):
    """How a provider was asked to serve a request, where that has a price of its own."""

    STANDARD = "standard"
    BATCH = "batch"
    FLEX = "flex"
    PRIORITY = "priority"


class CacheMarkers(StrEnum):
    """What cache markers a request holds: they decide which cache-write rate can apply to its prompt."""

    NONE = "none"
    FIVE_MINUTES = "5m"
    ONE_HOUR = "1h"


class Rates(Frozen):
    """Dollars per token, every class resolved: a class without a rate of its own has the rate it is billed at."""

    input: Usd
    output: Usd
    cache_read: Usd
    cache_write_5m: Usd
    cache_write_1h: Usd
    image_input: Usd
    reasoning: Usd
    request: Usd = ZERO  # dollars a request, whatever its size


class Band(Frozen):
    """The rates of a request whose prompt has more than `above` tokens (`inclusive`: that many already)."""

    above: int
    inclusive: bool = False
    rates: Rates

    def holds(self, prompt_tokens: int) -> bool:
        return prompt_tokens > self.above or (self.inclusive and prompt_tokens == self.above)


class Price(Frozen):
    """A known price. `schedules` hold bands in rising order; a service tier that is not offered is absent."""

    state: Literal["price"] = "price"
    name: str  # the name it was found under
    source: str  # the table, file or flag that gave it
    schedules: dict[ServiceTier, tuple[Band, ...]]
    writes_unasked: bool = True  # the provider may write its cache without a marker of ours

    def rates(self, prompt_tokens: int, service: ServiceTier = ServiceTier.STANDARD) -> Rates | None:
        """The rates of one request, or None where `service` has no price."""
        found = [band.rates for band in self.schedules.get(service, ()) if band.holds(prompt_tokens)]
        return found[-1] if found else None


class Free(Frozen):
    """Nothing is paid: somebody said so."""

    state: Literal["free"] = "free"
    name: str
    source: str = ""  # the file or flag that said so


class Unknown(Frozen):
    """No price is known. `problem` says of what, `remedy` holds the exact line to add."""

    state: Literal["unknown"] = "unknown"
    name: str
    problem: str
    remedy: str


Pricing: TypeAlias = Price | Free | Unknown


class Cost(Frozen):
    """Dollars by class of tokens. Exact: nothing is rounded before it is shown."""

    input: Usd = ZERO
    cache_read: Usd = ZERO
    cache_write: Usd = ZERO
    image_input: Usd = ZERO
    output: Usd = ZERO  # reasoning included
    request: Usd = ZERO

    @property
    def total(self) -> Decimal:
        return self.input + self.cache_read + self.cache_write + self.image_input + self.output + self.request

    def breakdown(self) -> dict[str, Decimal]:
        """The classes that cost something."""
        return {name: value for name in Cost.model_fields if (value := getattr(self, name))}

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in Cost.model_fields})


def cost(usage: Usage, price: Pricing, service: ServiceTier = ServiceTier.STANDARD) -> Cost | None:
    """What one request cost, in dollars. None where its price, or that of its service tier, is unknown."""
    if isinstance(price, Free):
        return Cost()
    rates = None if isinstance(price, Unknown) else price.rates(usage.prompt_tokens, service)
    if rates is None:
        return None
    reasoning = min(usage.reasoning_tokens, usage.output_tokens)
    return Cost(
        input=usage.input_tokens * rates.input,
        cache_read=usage.cache_read_tokens * rates.cache_read,
        cache_write=(usage.cache_write_5m_tokens + usage.cache_write_tokens) * rates.cache_write_5m
        + usage.cache_write_1h_tokens * rates.cache_write_1h,
        image_input=usage.image_input_tokens * rates.image_input,
        output=(usage.output_tokens - reasoning) * rates.output + reasoning * rates.reasoning,
        request=rates.request,
    )


class WorstRates(Frozen):
    """The dearest that a request can come to: dollars per token of its prompt and output, and a request."""

    prompt: Usd
    output: Usd
    request: Usd = ZERO


def worst_rates(
    price: Pricing,
    prompt_bound: int,
    *,
    service: ServiceTier = ServiceTier.STANDARD,
    markers: CacheMarkers = CacheMarkers.NONE,
    images: bool = False,
) -> WorstRates:
    """The highest rates that can apply to a request whose prompt has at most `prompt_bound` tokens.

    Of every band that can be reached the dearest counts, since a smaller prompt is not always cheaper. Cache writes
    count where `markers` ask for them or the provider writes unasked; image rates where the prompt holds `images`. Free
    and unknown prices give 0: nothing can be set aside for what has no price.
    """
    if not isinstance(price, Price):
        return WorstRates(prompt=ZERO, output=ZERO)
    bands = price.schedules.get(service, ())
    reached = [band.rates for band in bands if band.above <= 0 or band.holds(prompt_bound)]
    prompt: list[Decimal] = []
    for rates in reached:
        prompt += [rates.input, rates.cache_read]
        if markers is not CacheMarkers.NONE or price.writes_unasked:
            prompt.append(rates.cache_write_5m)
        if markers is CacheMarkers.ONE_HOUR:
            prompt.append(rates.cache_write_1h)
        if images:
            prompt.append(rates.image_input)
    return WorstRates(
        prompt=max(prompt, default=ZERO),
        output=max((max(rates.output, rates.reasoning) for rates in reached), default=ZERO),
        request=max((rates.request for rates in reached), default=ZERO),
    )


def show(amount: Decimal, places: int = 6) -> str:
    """`amount` of dollars for reading, rounded half to even to `places` decimals. Never computed with again."""
    return str(amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))
