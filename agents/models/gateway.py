"""The one way to a model: every call of an attempt is bounded, journalled, sent, billed and retried here.

The order is what makes the cap hold and the record complete: money is set aside, the request is written down, then
sent; a reply is billed before anything in it is looked at. Each send has its own ticket, retries too.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal

from agentctl.agents.books import Charge
from agentctl.agents.pricing import ZERO, CacheMarkers, Cost, worst_rates
from agentctl.agents.purse import Purse, Ticket, smallest_cap
from agentctl.agents.usage import Usage
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError, NoAnswer
from agentctl.base.values import plain_decimal

from .billing import MostCounted, Worst, bill, bill_reported
from .cache import marked
from .call import CONVERSATION, Call, Earlier, quote
from .journal import Journal, Noted, ReplyCame, RequestSent, SendFailed, ranges
from .protocol import EncodedMessage, EncodedTool, Fault, ProviderError, RawReply, WireRequest
from .retry import RetryPolicy, retrying
from .route import Route, check_priced


@dataclass(frozen=True)
class Answer:
    """A reply, and what it took to get it."""

    reply: RawReply
    usage: Usage
    cost: Cost | None  # of this reply; None where the model has no known price
    n: int  # number of the send that brought it
    sends: int  # 1 where nothing had to be repeated
    bound: Decimal  # dollars that were set aside for it
    output_limit: int  # tokens it was allowed
    seconds: float  # from send to reply
    waited_seconds: float  # failed sends, pauses after them, and waits for money: no work time


class ModelFailed(NoAnswer):
    """No reply came, and trying again would not help or was tried enough. `words` are the provider's."""

    def __init__(self, error: ProviderError, sends: int, waited_seconds: float) -> None:
        super().__init__(error.words)
        self.fault: Fault = error.fault
        self.words = error.words
        self.status = error.status
        self.sends = sends
        self.waited_seconds = waited_seconds


class Gateway:
    """Routes by role (see `RequestSent`), one purse and one journal. `ask` may be called from several threads.

    A role without a route of its own goes to `main`, and is booked under its own name. SetupError where a price is
    unknown and the purse has a cap: a cap can't hold for what has no price.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        purse: Purse,
        journal: Journal,
        cancel: Cancel,
        *,
        policy: RetryPolicy | None = None,
        first_send: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if purse.cap is not None:
            for route in routes.values():
                check_priced(route)
        self._routes = dict(routes)
        self._roles: dict[str, Earlier] = {}
        self._last: dict[str, Call] = {}  # by role, of those that were answered
        self.purse = purse
        self._journal = journal
        self._cancel = cancel
        self._policy = policy or RetryPolicy()
        self._numbers = itertools.count(first_send)
        self._waited = 0.0
        self._lock = threading.Lock()
        self._clock = clock
        self._sleep = sleep or cancel.sleep
        self._jitter = jitter

    def route(self, role: str) -> Route:
        """The way to the model of `role`."""
        return self._routes.get(role) or self._routes["main"]

    def context_window(self, role: str) -> int:
        """Tokens that the model of `role` can hold."""
        return self.route(role).context_window

    @property
    def waited(self) -> float:
        """Seconds that all calls so far waited for a provider or for money."""
        return self._waited

    def ask(
        self,
        role: str,
        messages: Sequence[EncodedMessage],
        tools: Sequence[EncodedTool] = (),
        *,
        output_limit: int | None = None,
        keep: Decimal | None = None,
    ) -> Answer:
        """Send `messages` to the model of `role`, again where that may help, and return its reply, billed.

        `output_limit` (tokens) takes the place of the model's own; the purse may lower either. `keep` are dollars that
        the call must leave for others. CapReached where a useful reply could pass the cap, ModelFailed where none
        comes, Cancelled where the owner asked to stop.
        """
        call = self._call(role, messages, tools, output_limit)
        call.keep = keep

        def tell(error: ProviderError, pause: float) -> None:
            self._failed(call, error, pause)

        def sleep(seconds: float) -> None:
            with self._waiting(call):
                self._sleep(seconds)

        try:
            return retrying(self._policy, sleep=sleep, before_pause=tell, jitter=self._jitter)(self._send, call)
        except ProviderError as error:
            self._failed(call, error, None)
            raise ModelFailed(error, call.sends, call.waited) from error

    def smallest_cap(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool] = ()) -> Decimal:
        """The smallest cap, in dollars and whole cents, that lets this call through on top of what is spent."""
        call = self._call(role, messages, tools)
        return smallest_cap(quote(call, self._worst(call)), self.purse.spent + self.purse.uncertain)

    def again(self, role: str, *, more: int, output: int) -> Decimal:
        """The most, in dollars, that another call of `role` can cost, alike to the last one that was answered.

        Its prompt may have `more` tokens more, its reply `output` besides thinking. Zero where none was answered yet.
        """
        call = self._last.get(role)
        if call is None:
            return ZERO
        worst = self._worst(call, more)
        return quote(call, worst).at(min(output + (call.route.spec.thinking_budget or 0), call.wanted))

    def check_first_call(
        self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool] = ()
    ) -> None:
        """Refuse a run whose first call would not fit its cap. InputError names the smallest cap that would do."""
        needed = self.smallest_cap(role, messages, tools)
        if self.purse.cap is not None and needed > self.purse.cap:
            raise InputError(
                f"the first call could cost more than the cap of ${plain_decimal(self.purse.cap)}",
                field="cap",
                remedy=f"give at least ${needed:.2f}, or a cheaper model than {self.route(role).spec.name}",
            )

    def close(self) -> None:
        """Close the clients, each once."""
        for client in {id(route.client): route.client for route in self._routes.values()}.values():
            client.close()

    def _call(
        self,
        role: str,
        messages: Sequence[EncodedMessage],
        tools: Sequence[EncodedTool],
        output_limit: int | None = None,
    ) -> Call:
        route = self.route(role)
        shared = CONVERSATION[0] if role in CONVERSATION else role
        with self._lock:
            kept = self._roles.get(shared) or self._roles.setdefault(shared, Earlier.of(route.spec))
        wanted = route.output_limit(output_limit)
        return Call(role, route, tuple(messages), tools, wanted, kept.meter, kept.maker)

    @contextmanager
    def _waiting(self, call: Call) -> Iterator[None]:
        """Count the time inside as waiting."""
        began = self._clock()
        try:
            yield
        finally:
            self._wait(call, self._clock() - began)

    def _wait(self, call: Call, seconds: float) -> None:
        call.waited += seconds
        with self._lock:
            self._waited += seconds

    def _worst(self, call: Call, more: int = 0) -> Worst:
        """The most that one send of `call` can come to, or of one whose prompt has `more` tokens more."""
        route = call.route
        bound = call.meter.bound(call.messages, call.tools)
        tokens = bound.tokens + more
        rates = worst_rates(route.price, tokens, service=route.service, markers=call.markers, images=bound.images)
        return Worst(tokens, bound.images, rates)

    def _send(self, call: Call) -> Answer:
        """One send with its own ticket: the reply, or ProviderError with the ticket closed as the failure tells."""
        self._cancel.check()
        worst = self._worst(call)
        with self._waiting(call):
            asked = quote(call, worst)
            ticket = self.purse.reserve(asked, call.role, keep=call.keep, interrupted=self._cancel.check)
        with ticket:
            request = self._journalled(call, ticket, worst)
            began = self._clock()
            try:
                reply = call.route.client.send(request, self._cancel)
            except ProviderError as error:
                call.seconds = self._clock() - began
                self._wait(call, call.seconds)
                call.reported = bill_reported(error.usage, call.route.price, call.route.service) if error.lost else None
                ticket.lose(call.reported) if error.lost else ticket.release()
                raise
            call.seconds = self._clock() - began
            charge = self._charge(call, worst, ticket, reply)
            within = ticket.settle(charge)
        self._came(call, charge, reply)
        if not within:
            self._note(call, "bound overrun", f"billed more than the ${plain_decimal(ticket.bound)} set aside")
        call.meter.learn(call.messages, call.tools, charge.usage, images=worst.images)
        self._last[call.role] = replace(call, bodies={})
        return Answer(
            reply=reply,
            usage=charge.usage,
            cost=charge.cost,
            n=call.n,
            sends=call.sends,
            bound=ticket.bound,
            output_limit=ticket.output_limit,
            seconds=call.seconds,
            waited_seconds=call.waited,
        )

    def _journalled(self, call: Call, ticket: Ticket, worst: Worst) -> WireRequest:
        """The request for this ticket, written down. Where that fails nothing is sent, so the ticket is released."""
        try:
            body = call.body(ticket.output_limit)
            if ticket.output_limit < call.wanted:
                words = f"from {call.wanted} to {ticket.output_limit} tokens: ${plain_decimal(ticket.bound)} are left"
                self._note(call, "output limit lowered", words)
            call.n = next(self._numbers)
            call.sends += 1
            self._journal.request(
                RequestSent(
                    n=call.n,
                    role=call.role,
                    messages=ranges([message.number for message in call.messages]),
                    tools=tuple([tool.name for tool in call.tools]),
                    output_limit=ticket.output_limit,
                    digest=body.digest,
                    bound=ticket.bound,
                    input_bound=worst.prompt_tokens,
                    body_bytes=len(body.data),
                    try_number=call.sends,
                )
            )
        except BaseException:
            ticket.release()
            raise
        route = call.route
        return WireRequest(
            call.role,
            route.spec,
            call.messages,
            call.tools,
            ticket.output_limit,
            body.data,
            route.timeout,
            marked=() if call.markers is CacheMarkers.NONE else marked(call.messages),
        )

    def _charge(self, call: Call, worst: Worst, ticket: Ticket, reply: RawReply) -> Charge:
        route = call.route
        most = MostCounted(worst, reply, ticket.output_limit, route.hidden_output)
        return bill(reply, route.price, route.service, most, recorded=route.client.kind == "replay")

    def _came(self, call: Call, charge: Charge, reply: RawReply) -> None:
        event = ReplyCame(
            n=call.n,
            role=call.role,
            usage=charge.usage,
            cost=None if charge.cost is None else charge.cost.total,
            finish=reply.finish,
            model=reply.model,
            seconds=round(call.seconds, 3),
        )
        self._journal.reply(event, reply)

    def _failed(self, call: Call, error: ProviderError, pause: float | None) -> None:
        event = SendFailed(
            n=call.n,
            role=call.role,
            fault=error.fault,
            words=error.words,
            status=error.status,
            lost=error.lost,
            usage=call.reported.usage if call.reported else None,
            cost=call.reported.cost.total if call.reported and call.reported.cost else None,
            seconds=round(call.seconds, 3),
            pause=None if pause is None else round(pause, 3),
        )
        self._journal.failed(event)

    def _note(self, call: Call, what: str, words: str) -> None:
        self._journal.note(Noted(what=what, role=call.role, words=words, n=call.n or None))
