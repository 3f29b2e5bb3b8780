"""Whether a shorter conversation saves more than it costs to make, at the model's prices."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ..models.route import Route
from ..pricing import CacheMarkers, Price, Rates


@dataclass(frozen=True)
class Change:
    """What would be done, in tokens."""

    before: int  # of the prompt as it is
    after: int  # of the prompt as it would be
    prefix: int  # of what stays as it is, at its beginning
    output: int  # of the reply that is asked for


def saves(change: Change, route: Route, *, steps: int, cached: bool) -> bool:
    """Whether `change` pays within `steps` steps to come. `cached`: prompts are read from the provider's cache.

    It costs the call, whose prompt is the one that is sent anyway, and once the writing of what stands behind the
    prefix into the cache; it saves the difference of two prompts at each step. Where nothing is paid, tokens are saved
    all the same; where the price is not known, nothing speaks against it.
    """
    if not isinstance(route.price, Price):
        return True
    now = route.price.rates(change.before, route.service)
    then = route.price.rates(change.after, route.service)
    if now is None or then is None:
        return True
    write = _write(then, route.markers) - _read(then, cached) if cached else Decimal(0)
    costs = now.request + change.before * _read(now, cached) + change.output * now.output
    costs += (change.after - change.prefix) * write
    return costs < steps * (change.before * _read(now, cached) - change.after * _read(then, cached))


def _read(rates: Rates, cached: bool) -> Decimal:
    return rates.cache_read if cached else rates.input


def _write(rates: Rates, markers: CacheMarkers) -> Decimal:
    """What a token costs that the cache does not hold yet."""
    match markers:
        case CacheMarkers.FIVE_MINUTES:
            return rates.cache_write_5m
        case CacheMarkers.ONE_HOUR:
            return rates.cache_write_1h
        case CacheMarkers.NONE:
            return rates.input
