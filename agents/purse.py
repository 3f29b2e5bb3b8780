"""Money that may still be spent. Every send sets aside the most it can cost, so the cap can't be passed.

A ticket ends in one of three ways: settled at what was billed, released because nothing was, or lost because nobody
knows. Lost money is *uncertain*: it counts against the cap, and is shown apart from what was spent. What a provider
reported of a reply before it broke off is spent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from types import TracebackType

from agentctl.base.errors import AgentctlError, NoAnswer
from agentctl.base.values import plain_decimal

from .books import Books, Charge, RoleBooks
from .pricing import ZERO

_CENT = Decimal("0.01")
_POLL = 0.1  # seconds between looks at `interrupted` while other sends hold the money


@dataclass(frozen=True)
class Quote:
    """What a call may cost: `fixed` dollars for its prompt, `per_token` for each of the output tokens it is allowed."""

    fixed: Decimal
    per_token: Decimal = ZERO
    wanted: int = 0  # output tokens it should be allowed
    least: int = 0  # with fewer it is of no use

    def at(self, tokens: int) -> Decimal:
        return self.fixed + self.per_token * tokens

    def affordable(self, money: Decimal) -> int:
        """Output tokens that `money` pays for, at most `wanted`; negative where it does not even pay for the prompt."""
        if money < self.fixed:
            return -1
        if not self.per_token:
            return self.wanted
        return min(self.wanted, int((money - self.fixed) // self.per_token))


class CapReached(NoAnswer):
    """The next call could pass the cap, so it is not sent. The run ends; what stands is checked and scored.

    `needed` are the dollars of the least useful form of the call; `because_uncertain` says that spent money alone would
    have left room for it; `overrun` that a provider billed more than the bound of an earlier call. Where
    `kept` is given, the call was to leave that many dollars for others: it alone is refused, and the run goes on.
    """

    def __init__(
        self,
        *,
        cap: Decimal,
        spent: Decimal,
        uncertain: Decimal,
        needed: Decimal,
        role: str,
        overrun: bool = False,
        kept: Decimal | None = None,
    ) -> None:
        self.cap, self.spent, self.uncertain, self.needed, self.role = cap, spent, uncertain, needed, role
        self.overrun, self.kept = overrun, kept
        self.because_uncertain = not overrun and uncertain > 0 and spent + needed <= cap
        super().__init__(str(self))

    @property
    def left(self) -> Decimal:
        return self.cap - self.spent - self.uncertain

    def __str__(self) -> str:
        held = f" and ${plain_decimal(self.uncertain)} uncertain" if self.uncertain else ""
        books = f"${plain_decimal(self.spent)} spent{held} of ${plain_decimal(self.cap)}"
        if self.overrun:
            return f"a call was billed more than it could cost by its prices: {books}"
        kept = f"; of what is left ${plain_decimal(self.kept)} are kept" if self.kept else ""
        return f"the next {self.role} call could cost ${plain_decimal(self.needed)}: {books}{kept}"


class Ticket:
    """Money set aside for one send. As a context it is lost unless it was settled or released inside."""

    def __init__(self, purse: Purse, role: str, bound: Decimal, output_limit: int) -> None:
        self._purse = purse
        self.role = role
        self.bound = bound  # dollars
        self.output_limit = output_limit  # tokens that the bound pays for

    def settle(self, charge: Charge) -> bool:
        """A reply came and is billed. False if it cost more than the bound: the run must end."""
        return self._purse._settle(self, charge)

    def release(self) -> None:
        """Nothing was billed: it was never sent, or an error came back."""
        self._purse._release(self)

    def lose(self, reported: Charge | None = None) -> None:
        """Nobody knows what was billed: what was `reported` is spent, and the rest of the bound counts as uncertain."""
        self._purse._lose(self, reported)

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._purse.holds(self):
            self.lose()


class Purse:
    """The money of one attempt. May be used from several threads.

    `cap` in dollars, None for no cap. What an earlier start of the attempt spent or lost is carried in and counts.
    """

    def __init__(
        self, cap: Decimal | None, *, carried_spent: Decimal = ZERO, carried_uncertain: Decimal = ZERO
    ) -> None:
        if cap is not None and cap < 0:
            raise AgentctlError("a cap can't be negative", field="cap")
        self.cap = cap
        self._carried = (carried_spent, carried_uncertain)
        self._spent = carried_spent
        self._uncertain = carried_uncertain
        self._lost = 0
        self._broken = False
        self._open: dict[int, Ticket] = {}
        self._by_role: dict[str, RoleBooks] = {}
        self._changed = threading.Condition()

    @property
    def spent(self) -> Decimal:
        """Dollars that were billed."""
        return self._spent

    @property
    def uncertain(self) -> Decimal:
        """Dollars that lost answers may have been billed."""
        return self._uncertain

    @property
    def open(self) -> Decimal:
        """Dollars set aside for sends that are under way."""
        with self._changed:
            return self._held()

    @property
    def left(self) -> Decimal | None:
        """Dollars that no send, lost answer or bill has taken; None without a cap."""
        with self._changed:
            return None if self.cap is None else self._free()

    @property
    def broken(self) -> bool:
        """Whether a call was billed more than its bound. No further call is let through."""
        return self._broken

    def books(self) -> Books:
        """The books as they stand."""
        with self._changed:
            return Books(
                spent=self._spent,
                uncertain=self._uncertain,
                carried_spent=self._carried[0],
                carried_uncertain=self._carried[1],
                lost_calls=self._lost,
                by_role=dict(self._by_role),
            )

    def reserve(
        self,
        bound: Decimal | Quote,
        role: str,
        *,
        keep: Decimal | None = None,
        interrupted: Callable[[], None] | None = None,
    ) -> Ticket:
        """Set money aside for one send: for a quote, as many output tokens as it wants, or as the cap still allows.

        `keep` are dollars that this send must leave for others; where given, that it does not fit ends nothing else.

        While sends under way hold money that this call could need, it waits for them, and asks `interrupted` (which may
        raise) now and then. CapReached where even the least useful form of the call does not fit.
        """
        quote = bound if isinstance(bound, Quote) else Quote(bound)
        with self._changed:
            while True:
                tokens = self._allowed(quote, role, keep)
                if tokens is not None:
                    ticket = Ticket(self, role, quote.at(tokens), tokens)
                    self._open[id(ticket)] = ticket
                    return ticket
                self._changed.wait(_POLL)
                if interrupted is not None:
                    interrupted()

    def _allowed(self, quote: Quote, role: str, keep: Decimal | None) -> int | None:
        """Output tokens that the call may have now; None while it is worth waiting for sends under way."""
        if self.cap is None:
            return quote.wanted
        if self._broken:
            raise self._reached(quote, role)
        others = keep or ZERO
        if quote.affordable(self._free() - others) == quote.wanted:
            return quote.wanted
        if quote.affordable(self.cap - self._spent - self._uncertain - others) < quote.least:
            raise self._reached(quote, role, keep)
        if self._open:
            return None
        return quote.affordable(self._free() - others)

    def _reached(self, quote: Quote, role: str, kept: Decimal | None = None) -> CapReached:
        assert self.cap is not None
        return CapReached(
            cap=self.cap,
            spent=self._spent,
            uncertain=self._uncertain,
            needed=quote.at(quote.least),
            role=role,
            overrun=self._broken,
            kept=kept,
        )

    def _held(self) -> Decimal:
        return sum((ticket.bound for ticket in self._open.values()), ZERO)

    def _free(self) -> Decimal:
        assert self.cap is not None
        return self.cap - self._spent - self._uncertain - self._held()

    def holds(self, ticket: Ticket) -> bool:
        """Whether `ticket` is still open."""
        return id(ticket) in self._open

    def _settle(self, ticket: Ticket, charge: Charge) -> bool:
        with self._changed:
            self._take(ticket)
            billed = self._booked(ticket.role, charge)
            within = billed <= ticket.bound
            self._broken = self._broken or (self.cap is not None and not within)
            return within

    def _booked(self, role: str, charge: Charge) -> Decimal:
        """Enter what was billed. Returns the dollars that it came to, as far as they are known."""
        self._by_role[role] = self._by_role.get(role, RoleBooks()).plus(charge)
        billed = ZERO if charge.cost is None else charge.cost.total
        self._spent += billed
        return billed

    def _release(self, ticket: Ticket) -> None:
        with self._changed:
            self._take(ticket)

    def _lose(self, ticket: Ticket, reported: Charge | None) -> None:
        with self._changed:
            self._take(ticket)
            self._lost += 1
            billed = self._booked(ticket.role, reported) if reported else ZERO
            self._uncertain += max(ZERO, ticket.bound - billed)
            self._broken = self._broken or (self.cap is not None and billed > ticket.bound)

    def _take(self, ticket: Ticket) -> None:
        if self._open.pop(id(ticket), None) is None:
            raise AgentctlError("a ticket was closed twice")
        self._changed.notify_all()


def smallest_cap(quote: Quote, already: Decimal = ZERO) -> Decimal:
    """The smallest cap in whole cents that lets a call through in its least useful form, on top of `already`."""
    return (already + quote.at(quote.least)).quantize(_CENT, ROUND_CEILING)
