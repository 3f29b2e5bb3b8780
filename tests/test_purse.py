"""The purse: what fits is let through, what could pass the cap is not, and the books say what is known."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest

from agentctl.agents.books import Charge
from agentctl.agents.models.journal import EarlierBooks, Noted, ReplyCame, RequestSent, SendFailed, carried, ranges
from agentctl.agents.models.protocol import Fault, FinishReason
from agentctl.agents.pricing import Cost
from agentctl.agents.purse import CapReached, Purse, Quote, smallest_cap
from agentctl.agents.usage import Usage
from agentctl.base.errors import AgentctlError, Cancelled

D = Decimal


def paid(dollars: str, tokens: int = 10) -> Charge:
    return Charge(usage=Usage(input_tokens=tokens), cost=Cost(input=D(dollars)))


def test_a_cap_is_reached_to_the_last_digit_and_not_passed() -> None:
    purse = Purse(D("0.3"))
    for _ in range(3):
        purse.reserve(D("0.1"), "main").settle(paid("0.1"))
    assert (purse.spent, purse.left) == (D("0.3"), 0)
    with pytest.raises(CapReached) as reached:
        purse.reserve(D("1E-20"), "main")
    assert (reached.value.needed, reached.value.because_uncertain) == (D("1E-20"), False)
    assert "0.3" in str(reached.value)


def test_open_tickets_count_until_they_are_closed() -> None:
    purse = Purse(D(4))
    ticket = purse.reserve(D(3), "main")
    assert (purse.open, purse.left, purse.spent) == (3, 1, 0)
    ticket.settle(paid("0.5"))
    assert (purse.open, purse.left, purse.spent) == (0, D("3.5"), D("0.5"))
    purse.reserve(D(3), "main").release()
    assert purse.left == D("3.5")


def test_lost_money_is_counted_and_shown_apart() -> None:
    purse = Purse(D(4))
    purse.reserve(D(3), "main").lose()
    assert (purse.spent, purse.uncertain, purse.left) == (0, 3, 1)
    with pytest.raises(CapReached) as reached:
        purse.reserve(D(2), "main")
    assert reached.value.because_uncertain  # spent money alone would have left room
    with pytest.raises(CapReached) as reached:
        purse.reserve(D(5), "main")
    assert not reached.value.because_uncertain
    assert purse.books().lost_calls == 1


def test_a_ticket_left_open_by_an_error_is_lost() -> None:
    purse = Purse(D(4))
    with pytest.raises(Cancelled), purse.reserve(D(1), "main"):
        raise Cancelled("stop")
    assert (purse.uncertain, purse.open) == (1, 0)
    with purse.reserve(D(1), "main") as ticket:
        ticket.settle(paid("0.25"))
    assert (purse.spent, purse.uncertain) == (D("0.25"), 1)
    with pytest.raises(AgentctlError, match="twice"):
        ticket.release()


def test_a_bill_above_its_bound_ends_the_run() -> None:
    purse = Purse(D(4))
    assert purse.reserve(D(1), "main").settle(paid("1.5")) is False
    assert (purse.broken, purse.spent) == (True, D("1.5"))
    with pytest.raises(CapReached, match="more than it could cost") as reached:
        purse.reserve(D("0.01"), "main")
    assert reached.value.overrun and not reached.value.because_uncertain


def test_an_output_is_cut_to_what_is_left_and_no_further_than_useful() -> None:
    quote = Quote(fixed=D("0.5"), per_token=D("0.0003"), wanted=10_000, least=1_000)
    full = Purse(D(4)).reserve(quote, "main")
    assert (full.output_limit, full.bound) == (10_000, D("3.5"))
    lowered = Purse(D("1.4")).reserve(quote, "main")
    assert (lowered.output_limit, lowered.bound) == (3_000, D("1.4"))
    assert Purse(D("0.8")).reserve(quote, "main").output_limit == 1_000
    with pytest.raises(CapReached):
        Purse(D("0.7999")).reserve(quote, "main")
    thirds = Quote(fixed=D(0), per_token=D(1) / 3, wanted=10, least=1)
    ticket = Purse(D(1)).reserve(thirds, "main")
    assert ticket.bound <= 1 and ticket.output_limit in (2, 3)


def test_a_call_waits_for_money_that_others_may_give_back() -> None:
    purse = Purse(D(4))
    first = purse.reserve(D(3), "vision")
    threading.Timer(0.05, lambda: first.settle(paid("1"))).start()
    second = purse.reserve(Quote(D(1), D("0.001"), 2_000, 1_000), "main")
    assert second.output_limit == 2_000  # not lowered to what was free at first
    purse.reserve(D(0), "main").release()
    second.lose()
    with pytest.raises(CapReached):  # waiting would not help
        purse.reserve(D("0.5"), "main")


def test_a_wait_for_money_can_be_interrupted() -> None:
    purse = Purse(D(4))
    purse.reserve(D(3), "vision")

    def interrupted() -> None:
        raise Cancelled("enough")

    with pytest.raises(Cancelled):
        purse.reserve(D(2), "main", interrupted=interrupted)


def test_many_threads_never_pass_the_cap() -> None:
    purse = Purse(D(5))
    refused = threading.Semaphore(0)

    def work() -> None:
        for _ in range(40):
            try:
                purse.reserve(D("0.13"), "main").settle(paid("0.07"))
            except CapReached:
                refused.release()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert purse.open == 0
    assert D(5) - D("0.13") < purse.spent <= 5
    assert refused.acquire(blocking=False)


def test_without_a_cap_everything_is_let_through_and_counted() -> None:
    purse = Purse(None)
    purse.reserve(Quote(D(1), D(1), 5_000, 1_000), "main").settle(paid("7"))
    purse.reserve(D(0), "judge").settle(Charge(usage=Usage(input_tokens=50), cost=None))
    books = purse.books()
    assert (purse.left, books.spent, books.complete) == (None, 7, False)
    assert (books.unpriced_calls, books.unpriced_tokens) == (1, 50)


def test_books_are_kept_by_role_and_class() -> None:
    purse = Purse(D(10), carried_spent=D(2), carried_uncertain=D(1))
    charge = Charge(usage=Usage(input_tokens=5, output_tokens=1), cost=Cost(input=D("0.5"), output=D("0.1")))
    purse.reserve(D(1), "main").settle(charge)
    purse.reserve(D(1), "main").settle(charge)
    purse.reserve(D(1), "vision").settle(paid("0.25"))
    books = purse.books()
    assert (books.spent, books.uncertain, books.carried_spent, books.carried_uncertain) == (D("3.45"), 1, 2, 1)
    assert books.by_role["main"].calls == 2
    assert books.by_role["main"].cost.breakdown() == {"input": 1, "output": D("0.2")}
    assert books.usage == Usage(input_tokens=20, output_tokens=2)
    assert '"spent":"3.45"' in books.model_dump_json()


def test_the_smallest_cap_is_in_whole_cents_and_enough() -> None:
    quote = Quote(fixed=D("0.12345"), per_token=D("0.00001"), wanted=16_000, least=1_000)
    needed = smallest_cap(quote, D("0.5"))
    assert needed == D("0.64")
    Purse(needed, carried_spent=D("0.5")).reserve(quote, "main")


def test_a_negative_cap_is_refused() -> None:
    with pytest.raises(AgentctlError):
        Purse(D(-1))


def sent(n: int, bound: str) -> RequestSent:
    return RequestSent(
        n=n,
        role="main",
        messages=((1, 2),),
        tools=(),
        output_limit=1000,
        digest="",
        bound=D(bound),
        input_bound=5,
        body_bytes=5,
    )


def came(n: int, cost: str | None) -> ReplyCame:
    dollars = None if cost is None else D(cost)
    return ReplyCame(n=n, role="main", usage=Usage(), cost=dollars, finish=FinishReason.STOP, model="", seconds=1)


def failed(n: int, lost: bool) -> SendFailed:
    return SendFailed(n=n, role="main", fault=Fault.TRANSIENT, words="", lost=lost)


def test_a_journal_gives_the_books_to_go_on_from() -> None:
    events = [
        sent(1, "1"),
        came(1, "0.4"),
        sent(2, "2"),
        failed(2, lost=False),
        sent(3, "4"),
        Noted(what="", role="main", words=""),
        failed(3, lost=True),
        sent(4, "8"),
        sent(5, "16"),
        came(5, None),
    ]
    assert carried(events) == EarlierBooks(spent=D("0.4"), uncertain=D(12), sends=5)
    assert carried([]) == EarlierBooks()


def test_message_numbers_are_kept_as_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == ((1, 3), (7, 7), (9, 10))
    assert ranges([]) == ()
    assert ranges([3, 2]) == ((3, 3), (2, 2))
