"""The gateway: what it reserves, bills and writes down, with a scripted model behind it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from gateway_bench import PRICE, QUESTION, TOOLS, D, Greedy, bench, overloaded, price, reply, table_of

from agentctl.agents.models.call import LEAST_USEFUL_OUTPUT
from agentctl.agents.models.journal import Noted, ReplyCame, RequestSent, SendFailed, carried
from agentctl.agents.models.protocol import FinishReason, ModelSpec, ProviderError, RawCall, RawReply
from agentctl.agents.pricing import Free, ServiceTier
from agentctl.agents.purse import CapReached
from agentctl.base.errors import Cancelled, InputError, SetupError
from agentctl.base.jsonio import digest
from agentctl.base.messages import Text

# Money


def test_errors_cost_nothing_and_lost_answers_stay_uncertain() -> None:
    made = bench(overloaded(), overloaded(lost=True), reply())
    answer = made.ask()
    assert answer.cost is not None
    assert made.purse.spent == answer.cost.total == D("0.00045")
    assert made.purse.uncertain == answer.bound
    assert [event.lost for event in made.log.of(SendFailed)] == [False, True]
    assert carried(made.log.events).uncertain == made.purse.uncertain


def test_an_end_that_only_lost_answers_caused_says_so() -> None:
    made = bench(*[overloaded(lost=True)] * 50, cap="1")
    with pytest.raises(CapReached) as reached:
        made.ask()
    assert reached.value.because_uncertain
    assert made.purse.uncertain <= 1
    assert made.purse.spent == 0


def test_the_output_limit_is_lowered_only_when_the_rest_no_longer_fits() -> None:
    spec = ModelSpec(name="m", output_limit=10_000)
    made = bench(client=Greedy(), pricing=price(output="0.0001"), spec=spec, cap="2.5")
    assert [made.ask().output_limit for _ in range(3)] == [10_000, 10_000, 5_000]
    with pytest.raises(CapReached):
        made.ask()
    assert made.purse.spent == D("2.5")
    notes = made.log.of(Noted)
    assert [note.what for note in notes] == ["output limit lowered"]
    assert json.loads(made.client.received[-1].body)["max_tokens"] == 5_000


def test_a_limit_below_the_useful_one_is_used_in_full_or_not_at_all() -> None:
    made = bench(client=Greedy(), pricing=price(output="0.001"), cap="1")
    assert made.ask(output_limit=600).output_limit == 600
    with pytest.raises(CapReached):
        made.ask(output_limit=600)


def test_a_first_call_that_does_not_fit_is_refused_with_the_cap_that_would_do() -> None:
    pricing = price(output="0.0001", input="0.00001")
    small = bench(reply(), cap="0.05", pricing=pricing)
    with pytest.raises(InputError) as refused:
        small.gateway.check_first_call("main", QUESTION)
    named = re.search(r"at least \$(\d+\.\d\d)", str(refused.value))
    assert named
    assert small.client.received == []
    enough = bench(reply(), cap=named[1], pricing=pricing)
    enough.gateway.check_first_call("main", QUESTION)
    assert enough.ask().output_limit >= LEAST_USEFUL_OUTPUT
    too_little = bench(reply(), cap=str(D(named[1]) - D("0.01")), pricing=pricing)
    with pytest.raises(CapReached):
        too_little.ask()


def test_a_bill_above_the_bound_is_recorded_and_ends_the_run() -> None:
    made = bench(reply(usage={"prompt_tokens": 10**6, "completion_tokens": 5}), reply())
    answer = made.ask()
    assert answer.cost is not None and answer.cost.total > answer.bound
    assert made.log.of(Noted)[0].what == "bound overrun"
    with pytest.raises(CapReached) as reached:
        made.ask()
    assert reached.value.overrun


def test_unknown_prices_are_refused_under_a_cap_and_counted_without() -> None:
    unknown = table_of({}).lookup("acme/m")
    with pytest.raises(SetupError, match=r"--price 'acme/m=IN,OUT'"):
        bench(pricing=unknown)
    made = bench(reply(), pricing=unknown, cap=None)
    assert made.ask().cost is None
    books = made.purse.books()
    assert (books.complete, books.unpriced_tokens) == (False, 110)
    with pytest.raises(SetupError, match="batch"):
        bench(service=ServiceTier.BATCH)


def test_free_models_cost_nothing_and_are_counted() -> None:
    made = bench(reply(), pricing=Free(name="m"), cap="0")
    answer = made.ask()
    assert answer.cost is not None and answer.cost.total == 0
    assert made.purse.books().usage.total_tokens == 110


def test_missing_counts_are_estimated_so_that_the_cap_still_binds() -> None:
    call = RawCall(id="1", name="bash", arguments='{"command": "ls"}')
    answered = RawReply(parts=(Text(text="é" * 40),), calls=(call,), finish=FinishReason.STOP, usage=None)
    made = bench(answered)
    answer = made.ask()
    assert answer.usage.estimated
    assert answer.usage.prompt_tokens >= sum(len(each.body) for each in QUESTION)
    assert answer.usage.output_tokens >= 80 + len("bash") + len(call.arguments)
    assert answer.cost is not None and answer.cost.total <= answer.bound
    thinking = bench(answered, reasoning=True).ask()
    assert thinking.usage.output_tokens == thinking.output_limit  # what it thought is not in the reply


def test_an_estimate_is_charged_at_the_dearest_rates_that_could_apply() -> None:
    dear = price(input="0.000001", cache_write_5m="0.000009", output="0.000002", reasoning="0.000007")
    made = bench(reply(usage=None), pricing=dear)
    answer = made.ask()
    assert answer.cost is not None
    assert answer.cost.input == answer.usage.prompt_tokens * D("0.000009")
    assert answer.cost.output == answer.usage.output_tokens * D("0.000007")
    half = bench(reply(usage={"prompt_tokens": 100}), pricing=dear).ask()
    assert half.cost is not None
    assert half.cost.input == 100 * D("0.000001")
    assert half.cost.output == half.usage.output_tokens * D("0.000007")


def test_a_recording_without_counts_has_an_unknown_cost() -> None:
    made = bench(reply(usage=None), kind="replay", cap=None)
    assert made.ask().cost is None
    assert not made.purse.books().complete


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": "many"}, {"prompt_tokens": [1]}, {"x": {"y": None}}])
def test_odd_counts_never_stop_a_reply(usage: dict[str, Any]) -> None:
    assert bench(reply(usage=usage)).ask().usage.estimated


def lost(usage: dict[str, Any] | None) -> ProviderError:
    error = overloaded(lost=True)
    error.usage = usage
    return error


def test_what_a_lost_answer_reported_is_spent_and_the_rest_of_its_bound_uncertain() -> None:
    made = bench(lost({"prompt_tokens": 50, "completion_tokens": 4}), lost({"prompt_tokens": 60}), lost({}), reply())
    answer = made.ask()
    assert answer.cost is not None
    failures = made.log.of(SendFailed)
    costs = [50 * D("0.000003") + 4 * D("0.000015"), 60 * D("0.000003"), None]
    assert [failure.cost for failure in failures] == costs
    assert [failure.usage and failure.usage.prompt_tokens for failure in failures] == [50, 60, None]
    told = sum(cost for cost in costs if cost)
    assert made.purse.spent == told + answer.cost.total
    assert made.purse.uncertain == sum(event.bound for event in made.log.of(RequestSent)[:3]) - told
    books = made.purse.books()
    assert (books.lost_calls, books.by_role["main"].calls, books.usage.prompt_tokens) == (3, 3, 210)
    again = carried(made.log.events)
    assert (again.spent, again.uncertain) == (made.purse.spent, made.purse.uncertain)


def test_a_lost_answer_that_reported_more_than_its_bound_ends_the_run() -> None:
    made = bench(lost({"prompt_tokens": 5_000_000, "completion_tokens": 1}), reply(), cap="400")
    with pytest.raises(CapReached) as reached:
        made.ask()
    assert reached.value.overrun
    assert made.purse.uncertain == 0
    assert made.purse.spent == carried(made.log.events).spent > 10


def test_an_error_that_was_not_billed_reports_nothing() -> None:
    error = overloaded()
    error.usage = {"prompt_tokens": 5}
    made = bench(error, reply(usage={"prompt_tokens": 1, "completion_tokens": 0}))
    made.ask()
    assert made.log.of(SendFailed)[0].cost is None
    assert made.purse.uncertain == 0


def test_a_thinking_budget_is_no_room_for_an_answer() -> None:
    spec = ModelSpec(name="m", output_limit=10_000, thinking_budget=4_000)
    made = bench(client=Greedy(), pricing=price(output="0.001"), spec=spec, cap="15.5")
    assert [made.ask().output_limit for _ in range(2)] == [10_000, 5_500]
    made = bench(client=Greedy(), pricing=price(output="0.001"), spec=spec, cap="14.9")
    made.ask()
    with pytest.raises(CapReached):  # 4,900 tokens: less than the budget and a useful answer
        made.ask()


def test_no_more_output_is_asked_for_than_the_model_has() -> None:
    made = bench(reply(), reply(), spec=ModelSpec(name="m", output_limit=10_000), most_output=8_192)
    assert made.ask().output_limit == 8_192
    assert made.ask(output_limit=500).output_limit == 500


# What is written down


def test_every_send_is_written_before_it_leaves_and_can_be_checked() -> None:
    made = bench(overloaded(status=503), reply(model="m-20991231"))
    made.gateway.ask("main", QUESTION, TOOLS)
    kinds = [type(event).__name__ for event in made.log.events]
    assert kinds == ["RequestSent", "SendFailed", "RequestSent", "ReplyCame"]
    first, failure, second, came = made.log.events
    assert isinstance(first, RequestSent) and isinstance(second, RequestSent)
    assert (first.n, second.n, second.try_number) == (1, 2, 2)
    assert (first.messages, first.tools) == (((1, 2),), ("bash",))
    assert [digest(request.body) for request in made.client.received] == [first.digest, second.digest]
    assert isinstance(failure, SendFailed) and (failure.status, failure.pause) == (503, 1.25)
    assert isinstance(came, ReplyCame) and (came.model, came.cost) == ("m-20991231", D("0.00045"))
    for event in made.log.events:
        assert type(event).model_validate_json(event.model_dump_json()) == event


def test_what_can_not_be_written_down_is_not_sent() -> None:
    made = bench(reply())
    made.log.full = True
    with pytest.raises(OSError, match="No space"):
        made.ask()
    assert made.client.received == []
    assert made.purse.left == 4


def test_a_crash_in_a_send_leaves_its_money_uncertain() -> None:
    made = bench(RuntimeError("a fault of the adapter"))
    with pytest.raises(RuntimeError):
        made.ask()
    assert made.purse.uncertain == carried(made.log.events).uncertain > 0


def test_nothing_is_sent_after_a_stop() -> None:
    made = bench(reply())
    made.cancel.set("stop")
    with pytest.raises(Cancelled):
        made.ask()
    assert made.log.events == []


def test_clients_are_closed_once_each() -> None:
    made = bench(pricing={"main": PRICE, "judge": PRICE})
    made.gateway.close()
    assert made.client.closed == 1


def test_a_role_without_a_route_goes_to_main_and_is_booked_under_its_own_name() -> None:
    made = bench(reply("a cat"))
    made.gateway.ask("vision", QUESTION, output_limit=500)
    assert made.client.received[0].output_limit == 500
    assert made.purse.books().by_role.keys() == {"vision"}
