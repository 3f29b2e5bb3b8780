"""The shared cases of cost, through the gateway."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from case_fields import Fields, ends_of, fields_of
from figure_reader import Reading
from gateway_bench import D, Greedy, Scripted, always, bench, call_until_refused, fee, price, reply, table_of

from agentctl.agents.ends import End
from agentctl.agents.models.call import LEAST_USEFUL_OUTPUT
from agentctl.agents.models.gateway import Answer
from agentctl.agents.models.journal import carried
from agentctl.agents.models.protocol import (
    ModelSpec,
)
from agentctl.agents.pricing import Free, Unknown
from agentctl.agents.purse import Purse
from agentctl.base.errors import SetupError
from agentctl.base.values import plain_decimal

GRID = "a cap over a whole grid belongs to the grid"


@pytest.mark.cases("cost", later={"CO-10": GRID, "OWN-CO-11": GRID})
def test_cost_case(case: dict[str, Any]) -> None:
    given, exact = fields_of(case)
    for fields, check in COST_CHECKS.items():
        if fields <= given.keys():
            check(given, exact)
            given.done()
            exact.done()
            return
    pytest.fail(f"a case of cost that this test can't map: {sorted(given)}")


def check_cost(answer: Answer, exact: Fields) -> None:
    assert answer.cost is not None
    assert answer.cost.total == D(str(exact.get("cost", answer.cost.total)))
    assert answer.cost.total > D(str(exact.get("cost_gt", -1)))


def check_usage(given: Fields, exact: Fields) -> None:
    """A reply with this usage is billed this much, through the whole way."""
    asked = bench(reply(usage=given["usage"]), pricing=table_of({"m": given["prices"]}).lookup("m"))
    given.get("streamed")  # a stream's usage is put together before it comes here
    answer = asked.ask()
    check_cost(answer, exact)
    assert answer.cost is not None and answer.cost.total == asked.purse.spent


def check_price_map(given: Fields, exact: Fields) -> None:
    """The model is configured by the name in the map that its own begins with; the provider echoes its own."""
    prices, model = given["price_map"], given["model"]
    asked = max((name for name in prices if model.startswith(name)), key=len, default=model)
    found = table_of(prices).lookup(asked)
    cap = str(given.get("cap_usd", 4))
    if exact.get("model_calls") == 0:
        client = Scripted([])
        with pytest.raises(SetupError) as refused:
            bench(client=client, pricing=found, cap=cap).ask()
        assert not client.received
        assert exact.get("message_contains", "price") in str(refused.value)
        assert f"--price '{asked}=" in str(refused.value)
        given.get("usage")
        bench(reply(), pricing=Free(name=asked, source="--price"), cap=cap).ask()
        return
    check_cost(bench(reply(usage=given["usage"], model=model), pricing=found, cap=cap).ask(), exact)
    assert isinstance(table_of(prices).lookup(model), Unknown) or model in prices


def check_each_call(given: Fields, exact: Fields) -> None:
    assert isinstance(given.get("turns", ""), str)  # what the answers hold makes no difference to their price
    made = bench(
        client=always(reply("no call in here")), pricing=fee(given["each_call_usd"]), cap=str(given["cap_usd"])
    )
    assert call_until_refused(made) == exact["calls"] == len(made.client.received)
    assert made.purse.spent == D(str(exact["task_cost"]))
    assert ends_of(exact.get("task_status", "cost_limit")) == {End.COST}


def check_sequence(given: Fields, exact: Fields) -> None:
    roles = {name.removesuffix("_call_usd"): fee(given[name]) for name in given if name.endswith("_call_usd")}
    made = bench(client=always(reply()), pricing=dict(roles), cap=str(given.get("cap_usd", 4)))
    for role in given["sequence"]:
        made.ask(role)
    assert made.purse.spent == D(str(exact["task_cost"]))
    books = made.purse.books()
    assert {role: books.by_role[role].calls for role in roles} == {
        role: given["sequence"].count(role) for role in roles
    }


def check_worst_case(given: Fields, exact: Fields) -> None:
    """Whatever share of the worst case is prompt: the answer is cut to what fits, or the call is not sent."""
    worst = D(str(given["next_call_worst_case_usd"]))
    for prompt_share in (D(0), D("0.01"), D("0.5"), D(1)):
        for wanted in (LEAST_USEFUL_OUTPUT // 2, 4_000, 60_000):
            pricing = price(request=str(worst * prompt_share), output=str(worst * (1 - prompt_share) / wanted))
            purse = Purse(D(str(given["cap_usd"])), carried_spent=D(str(given["spent"])))
            made = bench(client=Greedy(), purse=purse, pricing=pricing, spec=ModelSpec(name="m", output_limit=wanted))
            call_until_refused(made)
            assert purse.spent <= D(str(exact["total_max"]))


def check_resume(given: Fields, exact: Fields) -> None:
    """The first run dies in a call; its journal is all that the second knows."""
    spent = re.search(r"after \$?(\d+(?:\.\d+)?)\D*$", given["run1"])
    cap = re.search(r"cap\D*?(\d+(?:\.\d+)?)", given["run2"])
    assert spent and cap, "a resume that this test can't read"
    died = KeyboardInterrupt("signal 9")
    first = bench(reply(), died, pricing=fee(spent[1]), cap=None)
    first.ask()
    with pytest.raises(KeyboardInterrupt):
        first.ask()
    books = carried(first.log.events)
    assert books.spent == D(spent[1])
    assert books.uncertain == D(spent[1])
    purse = Purse(D(cap[1]), carried_spent=books.spent, carried_uncertain=books.uncertain)
    assert purse.left is not None and purse.left <= D(str(exact["remaining_max"]))


def check_figures(given: Fields, exact: Fields) -> None:
    """Whatever the main model costs, and whether it asks for one look a step or for all at once."""
    cap, spent = D(str(given["cap_usd"])), D(str(given["spent"]))
    by_token = price(input="0.0000025", output="0.00001")
    for main in (Free(name="m"), by_token, fee((cap - spent) / 20)):
        for at_once in (False, True):
            with TemporaryDirectory() as folder:
                purse = Purse(cap, carried_spent=spent)
                look = fee(given["vision_call_usd"])
                reading = Reading(Path(folder), given["question_with_figures"], look, main=main, purse=purse)
                played = reading.play(at_once=at_once)
                notes = "\n".join(note for step in played.state.steps for note in step.notes)
                assert (Path(folder) / "workspace" / "report.json").exists() is exact.get("report_written", True)
            assert ends_of(exact.get("task_status", "success")) == {played.ending.end}
            assert purse.spent <= D(str(exact.get("total_max", cap)))
            assert f"of ${plain_decimal(cap)}" in notes  # the budget that is left is shown


COST_CHECKS: dict[frozenset[str], Callable[[Fields, Fields], None]] = {
    frozenset({"prices", "usage"}): check_usage,
    frozenset({"model", "price_map"}): check_price_map,
    frozenset({"each_call_usd", "cap_usd"}): check_each_call,
    frozenset({"sequence"}): check_sequence,
    frozenset({"next_call_worst_case_usd", "spent", "cap_usd"}): check_worst_case,
    frozenset({"run1", "run2"}): check_resume,
    frozenset({"question_with_figures", "vision_call_usd", "spent", "cap_usd"}): check_figures,
}
