"""The gateway: what it sends, bills, writes down and tries again, with a scripted model behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import loopback
import pytest
from case_fields import Fields, ends_of, fields_of

from agentctl.agents.ends import End
from agentctl.agents.models import faults
from agentctl.agents.models.bound import IMAGE_TOKENS, MESSAGE_TOKENS, REQUEST_TOKENS, PromptMeter
from agentctl.agents.models.gateway import LEAST_USEFUL_OUTPUT, Answer, Gateway, ModelFailed, Route
from agentctl.agents.models.journal import Noted, ReplyCame, RequestSent, SendFailed, carried
from agentctl.agents.models.protocol import (
    EncodedMessage,
    Fault,
    FinishReason,
    Kind,
    ModelSpec,
    ProviderError,
    RawCall,
    RawReply,
    WireRequest,
)
from agentctl.agents.models.retry import RetryPolicy
from agentctl.agents.models.wire import encode_tool
from agentctl.agents.price_table import Entries, PriceTable
from agentctl.agents.pricing import Band, Free, Price, Pricing, Rates, ServiceTier, Unknown
from agentctl.agents.purse import CapReached, Purse
from agentctl.agents.usage import Usage
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled, InputError, SetupError
from agentctl.base.jsonio import digest, dumps
from agentctl.base.messages import Text, ToolSpec

D = Decimal
Step = RawReply | ProviderError | BaseException


def reply(text: str = "ok", **more: Any) -> RawReply:
    usage = more.pop("usage", {"prompt_tokens": 100, "completion_tokens": 10})
    return RawReply(parts=(Text(text=text),), finish=FinishReason.STOP, usage=usage, **more)


@dataclass
class Scripted:
    """A model that says what its script says, and keeps what it was sent."""

    script: Iterator[Step] | list[Step]
    kind: Kind = "script"
    received: list[WireRequest] = field(default_factory=list)
    closed: int = 0
    clock: FakeTime = field(default_factory=lambda: FakeTime())
    takes: float = 0.0  # seconds of each send

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.received.append(request)
        self.clock.now += self.takes
        step = next(self._steps, None)
        assert step is not None, "the gateway asked more often than the script answers"
        if isinstance(step, BaseException):
            raise step
        return step

    def __post_init__(self) -> None:
        self._steps = iter(self.script)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Log:
    """A journal in memory."""

    events: list[RequestSent | ReplyCame | SendFailed | Noted] = field(default_factory=list)
    full: bool = False

    def request(self, event: RequestSent) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.events.append(event)

    def reply(self, event: ReplyCame, raw: RawReply) -> None:
        self.events.append(event)

    def failed(self, event: SendFailed) -> None:
        self.events.append(event)

    def note(self, event: Noted) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class FakeTime:
    """A clock that only sleeping moves."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def price(**rates: str) -> Price:
    """A price of one band: dollars per token, or `request` dollars a call."""
    known = {name: D(value) for name, value in rates.items()}
    fresh, output = known.get("input", D(0)), known.get("output", D(0))
    full = {
        "input": fresh,
        "output": output,
        "cache_read": fresh,
        "cache_write_5m": fresh,
        "cache_write_1h": fresh,
        "image_input": fresh,
        "reasoning": output,
        "request": D(0),
    }
    band = Band(above=0, inclusive=True, rates=Rates(**(full | known)))
    return Price(name="m", source="test", schedules={ServiceTier.STANDARD: (band,)})


PRICE = price(input="0.000003", output="0.000015")


def message(number: int, text: str = "x", role: str = "user") -> EncodedMessage:
    tree = {"role": role, "content": text}
    return EncodedMessage(number, dumps(tree), tree)


QUESTION = [message(1, "be good", "system"), message(2, "do it")]
TOOLS = [encode_tool(ToolSpec(name="bash", description="Runs it.", parameters={}))]


@dataclass
class Bench:
    """A gateway with all that it uses, to look into."""

    client: Scripted
    gateway: Gateway
    purse: Purse
    log: Log
    time: FakeTime
    cancel: Cancel

    def ask(self, role: str = "main", **more: Any) -> Answer:
        return self.gateway.ask(role, QUESTION, **more)


def bench(
    *script: Step,
    cap: str | None = "4",
    pricing: Pricing | dict[str, Pricing] = PRICE,
    spec: ModelSpec | None = None,
    kind: Kind = "script",
    policy: RetryPolicy | None = None,
    purse: Purse | None = None,
    client: Scripted | None = None,
    clock: FakeTime | None = None,
    cancel: Cancel | None = None,
    **route: Any,
) -> Bench:
    client = client or Scripted(list(script), kind)
    purse = purse or Purse(None if cap is None else D(cap))
    log, clock, cancel = Log(), clock or FakeTime(), cancel or Cancel()
    by_role = pricing if isinstance(pricing, dict) else {"main": pricing}
    spec = spec or ModelSpec(name="acme/m")
    routes = {role: Route(spec, client, each, **route) for role, each in by_role.items()}
    gateway = Gateway(routes, purse, log, cancel, policy=policy, clock=clock, sleep=clock.sleep, jitter=lambda: 0.5)
    return Bench(client, gateway, purse, log, clock, cancel)


# The shared cases of cost


def rates_entry(given: dict[str, Any]) -> dict[str, str]:
    """A case's prices as an entry of a table."""
    keys = {
        "in": "input_cost_per_token",
        "out": "output_cost_per_token",
        "cache_read": "cache_read_input_token_cost",
        "cache_write": "cache_creation_input_token_cost",
    }
    return {keys.get(name, name): str(value) for name, value in given.items()}


def table_of(prices: dict[str, Any]) -> PriceTable:
    entries = {name: rates_entry(given) for name, given in prices.items()}
    return PriceTable(Entries(json.dumps(entries).encode(), "cases", "1"))


def fee(dollars: object) -> Price:
    """A price by which each call costs the same."""
    return price(request=str(dollars))


def call_until_refused(bench: Bench, role: str = "main") -> int:
    """Calls that were answered before the cap was reached."""
    for count in range(1000):
        try:
            bench.ask(role)
        except CapReached:
            return count
    raise AssertionError("the cap was never reached")


def always(step: RawReply) -> Scripted:
    return Scripted(iter(lambda: step, None))


GRID = "a cap over a whole grid belongs to the grid"
RESERVE = "a reserve for the closing steps belongs to the condensing and vision part"


@pytest.mark.cases("cost", later={"CO-10": GRID, "OWN-CO-11": GRID, "CO-12": RESERVE, "OWN-CO-12": RESERVE})
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


class Greedy(Scripted):
    """Uses all the output it is allowed."""

    def __init__(self) -> None:
        super().__init__([])

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.received.append(request)
        return reply(usage={"prompt_tokens": 1, "completion_tokens": request.output_limit})


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


COST_CHECKS: dict[frozenset[str], Callable[[Fields, Fields], None]] = {
    frozenset({"prices", "usage"}): check_usage,
    frozenset({"model", "price_map"}): check_price_map,
    frozenset({"each_call_usd", "cap_usd"}): check_each_call,
    frozenset({"sequence"}): check_sequence,
    frozenset({"next_call_worst_case_usd", "spent", "cap_usd"}): check_worst_case,
    frozenset({"run1", "run2"}): check_resume,
}


# The shared cases of the provider that are about retries and counts


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


# Retries


def overloaded(**more: Any) -> ProviderError:
    return ProviderError(Fault.TRANSIENT, "Overloaded", **more)


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


# The bound of a prompt


def size(messages: list[EncodedMessage]) -> int:
    return sum(len(each.body) + MESSAGE_TOKENS for each in messages)


def test_a_prompt_is_bounded_by_its_bytes_at_first() -> None:
    assert PromptMeter("m").bound(QUESTION, ()).tokens == REQUEST_TOKENS + size(QUESTION)
    with_tools = PromptMeter("m").bound(QUESTION, TOOLS).tokens
    assert with_tools >= REQUEST_TOKENS + size(QUESTION) + len(TOOLS[0].body)


def test_what_was_billed_bounds_what_follows() -> None:
    meter = PromptMeter("m")
    meter.learn(QUESTION, TOOLS, Usage(input_tokens=20, cache_read_tokens=10), images=False)
    more = [message(3, "answer", "assistant"), message(4, "go on")]
    assert meter.bound([*QUESTION, *more], TOOLS).tokens == 30 + size(more)
    assert meter.bound(QUESTION, TOOLS).tokens == 30


def test_after_a_rewrite_only_what_is_new_is_counted_by_its_bytes() -> None:
    meter = PromptMeter("m")
    past = [*QUESTION, *[message(n, "long " * 100) for n in range(3, 9)]]
    meter.learn(past, TOOLS, Usage(input_tokens=1500), images=False)
    summary = message(20, "all of it in short")
    assert meter.bound([*QUESTION, summary, *past[-1:]], TOOLS).tokens == 1500 + size([summary])
    # the prompt of a summary in between does not push the conversation's out
    meter.learn([message(30, "sum up")], (), Usage(input_tokens=1100), images=False)
    assert meter.bound([*past, summary], TOOLS).tokens == 1500 + size([summary])
    # small enough to be bounded by its own bytes
    assert meter.bound([message(40)], ()).tokens < 1500


def test_an_older_prompt_that_begins_like_this_one_is_not_preferred_to_a_nearer_one() -> None:
    meter = PromptMeter("m")
    past = [*QUESTION, *[message(n, "long " * 100) for n in range(3, 9)]]
    meter.learn(QUESTION, (), Usage(input_tokens=20), images=False)
    meter.learn(past, (), Usage(input_tokens=900), images=False)
    assert meter.bound([*QUESTION, *past[-4:]], ()).tokens == 900


def test_a_message_that_changed_or_comes_twice_is_counted_as_new() -> None:
    meter = PromptMeter("m")
    past = [message(n, "long " * 1000) for n in range(1, 4)]
    meter.learn(past, (), Usage(input_tokens=500), images=False)
    changed = message(3, "other " * 1000)
    assert meter.bound([*past[:2], changed], ()).tokens == 500 + size([changed])
    assert meter.bound([*past, past[0]], ()).tokens == 500 + size([past[0]])
    other_tools = meter.bound(past, TOOLS).tokens
    assert other_tools > 500 + len(TOOLS[0].body)


def test_estimated_counts_bound_nothing() -> None:
    meter = PromptMeter("m")
    meter.learn(QUESTION, (), Usage(input_tokens=3, estimated_prompt_tokens=3), images=False)
    meter.learn(QUESTION, (), Usage(), images=False)  # of a recording without counts
    assert meter.bound(QUESTION, ()).tokens > 3


def test_an_image_counts_as_the_dearest_there_is_not_by_its_bytes() -> None:
    content = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500_000}},
    ]
    tree = {"role": "user", "content": content}
    picture = EncodedMessage(3, dumps(tree), tree, images=1)
    found = PromptMeter("m").bound([picture], ())
    assert found.images
    assert IMAGE_TOKENS < found.tokens < IMAGE_TOKENS + REQUEST_TOKENS + 300
    assert PromptMeter("openai/gpt-4o-mini").bound([picture], ()).tokens > 48_000
