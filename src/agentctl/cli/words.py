"""How figures are written for people."""

from __future__ import annotations

from decimal import ROUND_UP, Decimal


def dollars(amount: Decimal) -> str:
    """`amount` in dollars, rounded up so that no spend looks smaller than it is: $0.0123, $1.24."""
    places = Decimal("0.0001") if amount < 1 else Decimal("0.01")
    return f"${amount.quantize(places, rounding=ROUND_UP)}" if amount else "$0"


def seconds(value: float) -> str:
    """A duration: 0.3 s, 42 s, 3m10s, 1h05m."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 100:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def count(number: int, what: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
