"""Exact dollars: the worked examples, the bundled table, and the prices that a user gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentctl.agents.books import Charge, RoleBooks
from agentctl.agents.price_overrides import parse_flag, price_table
from agentctl.agents.price_table import Entries, PriceTable
from agentctl.agents.pricing import (
    CacheMarkers,
    Cost,
    Free,
    Price,
    ServiceTier,
    Unknown,
    cost,
    show,
    worst_rates,
)
from agentctl.agents.usage import Usage
from agentctl.base.errors import InputError


@pytest.fixture
def examples(conformance: Callable[[str], Any]) -> tuple[PriceTable, list[dict[str, Any]]]:
    data = conformance("cost/cases.json")
    return PriceTable(Entries(json.dumps(data["prices"]).encode(), "cases", "1")), data["cases"]


def test_the_worked_examples(examples: tuple[PriceTable, list[dict[str, Any]]]) -> None:
    table, cases = examples
    assert cases
    kinds = {"call": _call, "run": _run, "run_totals": _totals, "mixed_run": _mixed}
    for case in cases:
        kinds[case["kind"]](table, case)


def _call(table: PriceTable, case: dict[str, Any]) -> None:
    price = table.lookup(case["model"])
    found = cost(Usage(**case["usage"]), price, ServiceTier(case["service_tier"]))
    expected = case["expected"]
    if "price_known" in expected:
        assert isinstance(price, Unknown) is not expected["price_known"], case["id"]
    if expected["total_usd"] is None:
        assert found is None, case["id"]
        return
    assert found is not None
    assert found.total == Decimal(expected["total_usd"]), case["id"]
    assert found.breakdown() == {name: Decimal(value) for name, value in expected["breakdown_usd"].items()}, case["id"]
    assert show(found.total) == expected["display_6dp"], case["id"]


def _run(table: PriceTable, case: dict[str, Any]) -> None:
    price = table.lookup(case["model"])
    total = Decimal(0)
    for call in case["calls"] * case.get("repeat", 1):
        part = cost(Usage(**call), price)
        assert part is not None
        total += part.total
    _is(total, case)


def _totals(table: PriceTable, case: dict[str, Any]) -> None:
    """Only sums are known, so no request can be put into a long-context tier: the base rates count."""
    price = table.lookup(case["model"])
    assert isinstance(price, Price)
    base = price.model_copy(update={"schedules": {tier: bands[:1] for tier, bands in price.schedules.items()}})
    found = cost(Usage(**case["usage"]), base)
    assert found is not None
    _is(found.total, case)


def _is(total: Decimal, case: dict[str, Any]) -> None:
    assert total == Decimal(case["expected"]["total_usd"]), case["id"]
    if "must_not_equal" in case:
        assert total != Decimal(case["must_not_equal"]), case["id"]


def _mixed(table: PriceTable, case: dict[str, Any]) -> None:
    books = RoleBooks()
    for call in case["calls"]:
        usage = Usage(**call["usage"])
        books = books.plus(Charge(usage=usage, cost=cost(usage, table.lookup(call["model"]))))
    expected = case["expected"]
    assert books.cost.total == Decimal(expected["known_usd"]), case["id"]
    assert books.unpriced_calls == expected["unpriced_calls"]
    assert books.unpriced_tokens == expected["unpriced_tokens"]
    assert (books.unpriced_calls == 0) is expected["complete"]


BASE = {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06, "litellm_provider": "acme"}


def table_of(**entries: dict[str, Any]) -> PriceTable:
    return PriceTable(Entries(json.dumps(entries).encode(), "test", "1"))


def price_of(**entry: Any) -> Price:
    price = table_of(m=BASE | entry).lookup("m")
    assert isinstance(price, Price)
    return price


def rates_of(prompt: int = 1, service: ServiceTier = ServiceTier.STANDARD, **entry: Any) -> Any:
    return price_of(**entry).rates(prompt, service)


def test_an_hour_in_anthropics_cache_costs_twice_the_input() -> None:
    assert rates_of(cache_creation_input_token_cost=1.25e-06).cache_write_1h == Decimal("0.000002")
    assert rates_of(cache_creation_input_token_cost=0).cache_write_1h == 0
    assert rates_of().cache_write_1h == Decimal("0.000001")


def test_flex_and_priority_fall_back_and_batch_does_not() -> None:
    assert rates_of(service=ServiceTier.FLEX).output == Decimal("0.000002")
    assert rates_of(service=ServiceTier.PRIORITY, input_cost_per_token_priority=3e-06).input == Decimal("0.000003")
    assert rates_of(service=ServiceTier.BATCH) is None
    assert cost(Usage(input_tokens=1), price_of(), ServiceTier.BATCH) is None
    batch = rates_of(
        service=ServiceTier.BATCH,
        input_cost_per_token_batches=5e-07,
        output_cost_per_token_batches=1e-06,
        cache_read_input_token_cost=1e-07,
    )
    assert batch.cache_read == Decimal("0.0000005")  # not the standard cache rate


def test_reasoning_follows_the_output_where_that_is_special() -> None:
    entry = {"output_cost_per_reasoning_token": 2e-06, "output_cost_per_token_flex": 1e-06}
    assert rates_of(service=ServiceTier.FLEX, **entry).reasoning == Decimal("0.000001")
    entry = {"output_cost_per_reasoning_token": 2e-06, "output_cost_per_token_above_100k_tokens": 4e-06}
    assert rates_of(prompt=100_001, **entry).reasoning == Decimal("0.000004")


def test_several_thresholds_and_one_that_is_not_in_thousands() -> None:
    entry = {"input_cost_per_token_above_500_tokens": 2e-06, "input_cost_per_token_above_2k_tokens": 3e-06}
    found = [rates_of(prompt=size, **entry).input for size in (0, 500, 501, 2000, 2001)]
    assert found == [Decimal(f"0.00000{n}") for n in (1, 1, 2, 2, 3)]


def test_ranges_reach_from_nothing_to_beyond_the_last() -> None:
    tiers = [
        {"range": [1000, 2000], "input_cost_per_token": 2e-06, "output_cost_per_token": 3e-06},
        {"range": [0, 1000], "input_cost_per_token": 1e-06, "output_cost_per_token": 3e-06},
    ]
    found = [rates_of(prompt=size, tiered_pricing=tiers).input for size in (0, 1000, 1001, 9999)]
    assert found == [Decimal(f"0.00000{n}") for n in (1, 1, 2, 2)]


@pytest.mark.parametrize(
    "entry",
    [
        {"mode": "chat"},
        {"input_cost_per_token": 1e-06},
        {"input_cost_per_token": "see the docs", "output_cost_per_token": 1e-06},
        {"input_cost_per_token": -1e-06, "output_cost_per_token": 1e-06},
        {"input_cost_per_token": 0, "output_cost_per_token": 0, "output_cost_per_second": 0.01},
        {"tiered_pricing": [{"range": None, "input_cost_per_token": 1}]},
        {"tiered_pricing": ["no tier"]},
    ],
)
def test_an_entry_without_prices_is_unknown(entry: dict[str, Any]) -> None:
    found = table_of(m=entry).lookup("m")
    assert isinstance(found, Unknown)
    assert "--price 'm=IN,OUT'" in found.remedy


def test_names_with_a_route_are_found_only_at_the_same_provider() -> None:
    table = table_of(m=BASE, bed=BASE | {"litellm_provider": "bedrock_converse"})
    assert isinstance(table.lookup("acme/m"), Price)
    assert isinstance(table.lookup("bedrock/bed"), Price)
    assert isinstance(table.lookup("reseller/m"), Unknown)


def test_a_dated_name_that_is_not_there_gets_the_line_to_add() -> None:
    found = table_of(m=BASE).lookup("acme/m-20991231")
    assert isinstance(found, Unknown)
    assert "--price 'acme/m-20991231=1,2'" in found.remedy
    line = found.remedy.split("'")[1]
    assert cost(Usage(input_tokens=1_000_000), parse_flag(line)) == Cost(input=Decimal(1))


def test_an_alias_has_the_price_of_what_it_stands_for() -> None:
    table = table_of(m=BASE, latest={"alias_of": "m"})
    assert table.lookup("latest").model_dump(exclude={"name"}) == table.lookup("m").model_dump(exclude={"name"})


def test_worst_rates_count_all_that_can_apply() -> None:
    price = price_of(
        cache_creation_input_token_cost=1.25e-06,
        cache_creation_input_token_cost_above_1hr=2e-06,
        input_cost_per_image_token=9e-06,
        input_cost_per_token_above_100k_tokens=5e-06,
        output_cost_per_reasoning_token=7e-06,
    )
    asked_only = price.model_copy(update={"writes_unasked": False})

    def prompt(bound: int = 10, price: Price = price, **more: Any) -> str:
        return f"{worst_rates(price, bound, **more).prompt * 1_000_000:f}".rstrip("0").rstrip(".")

    assert prompt(price=asked_only) == "1"
    assert prompt() == "1.25"
    assert prompt(price=asked_only, markers=CacheMarkers.FIVE_MINUTES) == "1.25"
    assert prompt(markers=CacheMarkers.ONE_HOUR) == "2"
    assert prompt(images=True) == "9"
    assert prompt(100_000) == "1.25"
    assert prompt(100_001) == "5"
    assert worst_rates(price, 10).output == Decimal("0.000007")
    for unpriced in (Free(name="m"), table_of().lookup("m")):
        assert worst_rates(unpriced, 10).prompt == 0


def test_the_bundled_table_is_read_without_litellm() -> None:
    code = (
        "import sys\n"
        "from agentctl.agents.price_overrides import price_table\n"
        "table = price_table()\n"
        "assert table.lookup('openai/gpt-5').state == 'price', table.lookup('openai/gpt-5')\n"
        "assert table.origin.name == 'litellm' and len(table.origin.sha256) == 64\n"
        "assert 'litellm' not in sys.modules and 'yaml' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_entry_is_found_as_a_whole_parse_finds_it() -> None:
    entries = Entries.bundled()
    found = entries.get("claude-sonnet-4-6")
    assert entries.get("there/is/no-such-model") is None
    other_layout = Entries(
        json.dumps({name: entries.get(name) for name in ("claude-sonnet-4-6",)}, default=str).encode(), "", ""
    )
    assert found is not None
    assert str(found["input_cost_per_token"]) == other_layout.get("claude-sonnet-4-6")["input_cost_per_token"]  # type: ignore[index]


def test_facts_of_a_model() -> None:
    entry = BASE | {"max_input_tokens": 272000, "supports_function_calling": False, "supports_reasoning": "maybe"}
    facts = table_of(m=entry).facts("acme/m-2099-12-31")
    assert (facts.max_input_tokens, facts.native_tools, facts.reasoning) == (272000, False, None)


def test_flags_come_before_files_and_files_before_the_table(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.yaml"
    first.write_text('{"m": {"input": 3, "output": 4}, "n": "free", "acme/o": {"input": 0.1, "output": 1e-3}}')
    second.write_text(
        "m: {input: 5, output: 6, cache_read: 0.5}\np: {input_cost_per_token: 1e-6, output_cost_per_token: '0'}\n"
    )
    entries = Entries(json.dumps({"m": BASE}).encode(), "test", "1")

    def read(name: str, table: PriceTable) -> str:
        found = cost(Usage(input_tokens=1_000_000), table.lookup(name))
        return "unknown" if found is None else f"{found.total.normalize():f}"

    table = price_table(files=[first, second], entries=entries)
    assert [read(name, table) for name in ("m", "n", "acme/o", "p", "q")] == ["5", "0", "0.1", "1", "unknown"]
    assert isinstance(table.lookup("n"), Free)
    price = table.lookup("m")
    assert isinstance(price, Price) and price.source == str(second)
    flagged = price_table(flags=["m=7,8", "q=free"], files=[first, second], entries=entries)
    assert [read(name, flagged) for name in ("m", "acme/m", "q")] == ["7", "7", "0"]


def test_a_file_can_tell_facts_too(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("local: {input: 0, output: 0, max_input_tokens: 8192, supports_function_calling: false}\n")
    table = price_table(files=[path], entries=Entries(b"{}", "", ""))
    assert table.facts("local").max_input_tokens == 8192
    assert table.facts("local").native_tools is False


def test_a_flag_with_all_four_rates() -> None:
    price = parse_flag("openai/local = 3, 15, 0.3, 3.75")
    found = cost(Usage(input_tokens=1, cache_read_tokens=1, cache_write_tokens=1, output_tokens=1), price)
    assert found is not None
    assert found.total == Decimal("0.00002205")


@pytest.mark.parametrize("flag", ["", "m", "m=", "=1,2", "m=1", "m=1,x", "m=1,-2", "m=1,2,3,4,5", "m=nan,1", "m=1,,2"])
def test_a_flag_that_is_no_price_is_refused(flag: str) -> None:
    with pytest.raises(InputError, match="--price"):
        parse_flag(flag)


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("p.json", "{", "line 1"),
        ("p.json", "[]", "maps names"),
        ("p.yaml", "m: [1, 2]", "m: "),
        ("p.yaml", "m: {input: 1}", "m: "),
        ("p.yaml", "m: {input: one, output: 2}", "m.input: "),
        ("p.yaml", "m: {input: 1, output: 2, cached: 3}", "m.cached: "),
        ("p.yaml", "m: 'gratis'", "m: "),
        ("p.yaml", "m: {input: -1, output: 2}", "m.input: "),
        ("p.yaml", "m: {input: 1, output: 2", "line"),
        ("p.yaml", "3: free", "maps names"),
    ],
)
def test_a_file_that_holds_no_prices_is_refused(tmp_path: Path, name: str, text: str, where: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        price_table(files=[path], entries=Entries(b"{}", "", ""))
    assert str(path) in str(caught.value)
    assert where in str(caught.value)


def test_a_missing_price_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such price file"):
        price_table(files=[tmp_path / "none.json"], entries=Entries(b"{}", "", ""))
