"""When the gateway sends again, after what pause, and when it gives up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import loopback
import pytest
from case_fields import Fields, fields_of
from gateway_bench import Bench, D, FakeTime, Scripted, Step, bench, overloaded, reply

from agentctl.agents.models import faults
from agentctl.agents.models.gateway import ModelFailed
from agentctl.agents.models.journal import ReplyCame, RequestSent, SendFailed
from agentctl.agents.models.protocol import (
    Fault,
    ProviderError,
)
from agentctl.agents.models.retry import RetryPolicy
from agentctl.base.errors import Cancelled


def step_of(entry: object) -> Step:
    """One entry of a case's script as what an adapter makes of it."""
    if isinstance(entry, dict):
        return reply(entry.get("content") or "some words", usage=entry.get("usage"))
    loopback.step_of(entry)  # fails on words that no test of providers knows
    assert isinstance(entry, str)
    if entry == "ok":
        return reply()
    number = re.match(r"[1-5]\d\d\b", entry)
    if number is None:
        return ProviderError(Fault.TRANSIENT, entry, lost=True)  # the line broke: nobody knows what was billed
    words = entry[number.end() :].strip()
    body = re.search(r"\{.*\}", words)
    wait = re.search(r"retry-after: *(\S+)", words, re.IGNORECASE)
    tree = json.loads(body[0]) if body else {"error": {"message": words}}
    return faults.of_reply(int(number[0]), tree, words, retry_after=wait[1] if wait else None)


KINDS = ("retry-which", "usage-missing")


@pytest.mark.cases("provider", only=lambda case: case["kind"] in KINDS)
def test_provider_case(case: dict[str, Any]) -> None:
    given, exact = fields_of(case)
    assert given.get("clock", "fake") == "fake"
    tries = given.get("max_retries", 9) + 1
    made = bench(*[step_of(entry) for entry in given["script"]], cap="400", policy=RetryPolicy(tries=tries))
    check_script(made, len(given["script"]), exact)
    given.done()


def check_script(made: Bench, length: int, exact: Fields) -> None:
    status, failure = "success", None
    while len(made.client.received) < length:
        try:
            made.ask()
        except ModelFailed as failed:
            status, failure = "provider_error", failed
            break
    pauses, books = made.time.pauses, made.purse.books()
    known = books.usage.prompt_tokens - books.usage.estimated_prompt_tokens
    holds: dict[str, Callable[[Any], bool]] = {
        "calls": lambda value: len(made.client.received) == value,
        "max_calls": lambda value: len(made.client.received) <= value,
        "task_status": lambda value: status == value,
        "run_aborted": lambda value: (failure is not None and failure.fault is Fault.AUTH) is value,
        "max_wall_s": lambda value: made.time.now - 1000 <= value,
        "pauses_grow": lambda value: (pauses == sorted(set(pauses)) and len(pauses) > 1) is value,
        "crash": lambda value: value is False,
        "cost": lambda value: books.spent == D(str(value)),
        "cost_gt": lambda value: books.spent > D(str(value)),
        "cost_flag": lambda value: books.usage.estimated is (value == "estimated"),
        "known_prompt_tokens": lambda value: known == value,
    }
    for key, value in exact.items():
        if number := re.fullmatch(r"pause_before_call_(\d+)_min_s", key):
            assert pauses[int(number[1]) - 2] >= value
            continue
        assert key in holds, f"a result that this test can't check: {key}"
        assert holds[key](value), f"{key} is not {value}"
    assert len(made.log.of(RequestSent)) == len(made.client.received)


def test_pauses_grow_within_their_limit_and_are_no_work_time() -> None:
    policy = RetryPolicy(tries=9, first_pause=1, longest_pause=20)
    made = bench(*[overloaded()] * 8, reply(), policy=policy)
    answer = made.ask()
    assert made.time.pauses == [1.25, 2.5, 5, 10, 20, 25, 25, 25]
    assert answer.sends == 9
    assert answer.waited_seconds == made.gateway.waited == sum(made.time.pauses)


def test_the_time_of_a_failed_send_is_waiting_and_that_of_a_reply_is_work() -> None:
    clock = FakeTime()
    made = bench(client=Scripted([overloaded(lost=True), reply()], clock=clock, takes=30), clock=clock)
    answer = made.ask()
    assert (answer.seconds, answer.waited_seconds) == (30, 31.25)
    assert [event.seconds for event in made.log.events if isinstance(event, SendFailed | ReplyCame)] == [30, 30]


def test_what_the_provider_asks_to_wait_is_never_undercut() -> None:
    made = bench(overloaded(retry_after=7), overloaded(retry_after=0.1), reply())
    made.ask()
    assert made.time.pauses == [7, 2.5]


def test_nobody_waits_an_hour_to_be_told_no() -> None:
    made = bench(overloaded(retry_after=3600), reply(), policy=RetryPolicy(patience=600))
    with pytest.raises(ModelFailed) as failed:
        made.ask()
    assert (failed.value.fault, failed.value.words, made.time.pauses) == (Fault.TRANSIENT, "Overloaded", [])
    assert made.log.of(SendFailed)[-1].pause is None


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.TRANSIENT])
def test_other_faults_are_not_tried_again(fault: Fault) -> None:
    made = bench(ProviderError(fault, "no", status=418), reply())
    with pytest.raises(ModelFailed) as failed:
        made.ask()
    assert (failed.value.fault, failed.value.status, failed.value.sends) == (fault, 418, 1)
    assert made.purse.left == 4


def test_a_stop_during_a_pause_ends_the_call() -> None:
    made = bench(overloaded(), reply())

    def stopped(seconds: float) -> None:
        made.cancel.set("enough")
        made.cancel.sleep(seconds)

    made.time.sleep = stopped  # type: ignore[method-assign]
    made = bench(client=made.client, clock=made.time, cancel=made.cancel)
    with pytest.raises(Cancelled, match="enough"):
        made.ask()
    assert len(made.client.received) == 1
    assert made.purse.left == 4
