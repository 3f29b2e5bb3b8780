"""What the calls of an attempt came to: by role, by class of tokens, and what is not known of it."""

from __future__ import annotations

from agentctl.base.values import Frozen, Usd

from .pricing import Cost
from .usage import Usage


class Charge(Frozen):
    """What one reply cost. `cost` is None where the model has no known price."""

    usage: Usage = Usage()
    cost: Cost | None = Cost()


class RoleBooks(Frozen):
    """What the calls of one role came to. With unpriced calls, `cost` is a lower bound."""

    calls: int = 0
    usage: Usage = Usage()
    cost: Cost = Cost()
    unpriced_calls: int = 0
    unpriced_tokens: int = 0

    def plus(self, charge: Charge) -> RoleBooks:
        known = charge.cost is not None
        return RoleBooks(
            calls=self.calls + 1,
            usage=self.usage + charge.usage,
            cost=self.cost + (charge.cost or Cost()),
            unpriced_calls=self.unpriced_calls + (not known),
            unpriced_tokens=self.unpriced_tokens + (0 if known else charge.usage.total_tokens),
        )


class Books(Frozen):
    """What an attempt came to. Dollars; `by_role` leaves out what was carried over from an earlier start."""

    spent: Usd
    uncertain: Usd
    carried_spent: Usd
    carried_uncertain: Usd
    lost_calls: int
    by_role: dict[str, RoleBooks]

    @property
    def complete(self) -> bool:
        """Whether `spent` is all: no call without a price. If not, it is a lower bound."""
        return self.unpriced_calls == 0

    @property
    def unpriced_calls(self) -> int:
        return sum(role.unpriced_calls for role in self.by_role.values())

    @property
    def unpriced_tokens(self) -> int:
        return sum(role.unpriced_tokens for role in self.by_role.values())

    @property
    def usage(self) -> Usage:
        return sum((role.usage for role in self.by_role.values()), Usage())
