"""`agentctl spend`: money is counted once, unknown is not zero, and a replay's dollars are nobody's."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attempts import PRICE_LINE, agentctl, spec

from agentctl.agents.events import Carried, Event, Failed, Replied, Requested, WentOn, encode
from agentctl.agents.manifest import Manifest, PriceRecord, Software, read_manifest
from agentctl.agents.models.journal import ReplyCame, RequestSent, SendFailed
from agentctl.agents.models.protocol import Fault, FinishReason, ModelSpec
from agentctl.agents.price_overrides import parse_flag
from agentctl.agents.price_table import TableOrigin
from agentctl.agents.pricing import Price, cost
from agentctl.agents.reading import RecordReader
from agentctl.agents.usage import Usage
from agentctl.base.errors import InputError
from agentctl.benchmarks.spend import CARRIED, NOT_SPLIT, SpendReport, Sum, spend_of
from agentctl.tools.sandbox.protocol import Fingerprint

PRICE = parse_flag(PRICE_LINE)  # $10 and $30 a million tokens
assert isinstance(PRICE, Price)
USAGE = Usage(input_tokens=1000, cache_read_tokens=500, output_tokens=100, reasoning_tokens=60)
COST = Decimal("0.0180")  # cached tokens at the price of others, where none is given


def record(
    folder: Path, events: Sequence[Event], *, kind: str = "live", key: str = "k", id: str = "", **model: Any
) -> Path:
    """A record as an attempt leaves it that was killed; one that ended has a result.json besides."""
    attempt = spec(folder, "http://127.0.0.1:9/v1")
    attempt = attempt.model_copy(update={"model": ModelSpec(**{"name": "loop", **model})})
    manifest = Manifest(
        record_id=id,
        attempt_key=key,
        kind=kind,  # type: ignore[arg-type]
        created=datetime.now(UTC),
        spec=attempt,
        prompt_digest="",
        source_digest="",
        fingerprint=Fingerprint(
            kind="bubblewrap", system="", apt=False, network="none", memory_mb=1, processes=1, cpus=1
        ),
        prices=PriceRecord(
            origin=TableOrigin(name="", version="", sha256=""), schedules=PRICE.model_dump(mode="json")["schedules"]
        ),
        software=Software(agentctl="", commit=None, dirty=None, python="", platform="", packages={}),
    )
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    (folder / "events.jsonl").write_bytes(b"".join(encode(event) for event in events))
    return folder


def sent(n: int, *, role: str = "main", bound: str = "0.5") -> Requested:
    return Requested(
        sent=RequestSent(
            n=n, role=role, messages=((1, 2),), tools=(), output_limit=9, digest="", bound=Decimal(bound),
            input_bound=9, body_bytes=9,
        )
    )  # fmt: skip


def came(n: int, *, role: str = "main", usage: Usage = USAGE, cost: Decimal | None = COST) -> Replied:
    return Replied(
        came=ReplyCame(n=n, role=role, usage=usage, cost=cost, finish=FinishReason.STOP, model="x", seconds=1)
    )


def failed(n: int, **more: Any) -> Failed:
    return Failed(failed=SendFailed(n=n, role="main", fault=Fault.TRANSIENT, words="", **more))


def went_on_from(earlier: Path) -> Carried:
    books = RecordReader(earlier).books()
    id = read_manifest(earlier).record_id
    return Carried(record=str(earlier), record_id=id, spent=books.spent, uncertain=books.uncertain, sends=books.sends)


def total(spend: SpendReport, kind: Any = "live") -> Sum:
    return spend.by(lambda line: "", kind).get("", Sum())


def test_the_price_is_what_these_tests_say() -> None:
    worked_out = cost(USAGE, PRICE)
    assert worked_out is not None
    assert worked_out.total == COST


def test_a_killed_attempt_counts(tmp_path: Path) -> None:
    record(tmp_path / "runs/a", [sent(1), came(1), sent(2)])
    spend = spend_of([tmp_path])
    assert total(spend).spent == COST
    assert total(spend).uncertain == Decimal("0.5")
    assert (total(spend).calls, total(spend).lost_calls) == (1, 1)
    assert [path.name for path in spend.no_result] == ["a"]


def test_lost_answers_are_uncertain_and_failed_ones_are_nothing(tmp_path: Path) -> None:
    events = [sent(1), failed(1), sent(2), failed(2, lost=True), sent(3, bound="0.4")]
    partly = failed(3, lost=True, usage=Usage(input_tokens=100), cost=Decimal("0.1"))
    spend = spend_of([record(tmp_path / "a", [*events, partly])])
    assert (total(spend).spent, total(spend).uncertain) == (Decimal("0.1"), Decimal("0.8"))
    assert (total(spend).calls, total(spend).lost_calls, total(spend).tokens) == (0, 2, 100)
    books = RecordReader(tmp_path / "a").books()
    assert (books.spent, books.uncertain) == (total(spend).spent, total(spend).uncertain)


def test_by_role_model_class_and_task(tmp_path: Path) -> None:
    record(tmp_path / "a", [sent(1), came(1), sent(2, role="vision"), came(2, role="vision")])
    record(tmp_path / "b", [sent(1), came(1)], name="other")
    spend = spend_of([tmp_path])
    roles = spend.by(lambda line: line.role, "live")
    assert {role: (sums.calls, sums.spent) for role, sums in roles.items()} == {
        "main": (2, 2 * COST),
        "vision": (1, COST),
    }
    assert set(spend.by(lambda line: line.model, "live")) == {"loop", "other"}
    assert set(spend.by(lambda line: line.task, "live")) == {"capsule-4810297"}
    classes = total(spend).by_class
    assert {name: (part.tokens, part.spent) for name, part in classes.items()} == {
        "input": (3000, Decimal("0.03")),
        "cached read": (1500, Decimal("0.015")),
        "output": (120, Decimal("0.0036")),
        "reasoning": (180, Decimal("0.0054")),
    }
    assert sum(part.tokens for part in classes.values()) == total(spend).tokens == 3 * USAGE.total_tokens
    assert sum(part.spent for part in classes.values()) == total(spend).spent


def test_dollars_that_the_price_does_not_explain_are_not_split(tmp_path: Path) -> None:
    spend = spend_of([record(tmp_path / "a", [sent(1), came(1, cost=Decimal("0.7"))])])
    assert total(spend).by_class[NOT_SPLIT].spent == total(spend).spent == Decimal("0.7")
    assert total(spend).by_class["input"].tokens == 1000


def test_unknown_is_not_zero(tmp_path: Path) -> None:
    record(tmp_path / "a", [sent(1), came(1), sent(2), came(2, cost=None)])
    record(tmp_path / "b", [sent(1), came(1, cost=None)], kind="replay")
    done = agentctl("spend", tmp_path)
    assert done.returncode == 0
    assert "≥ $0.0180" in done.stdout
    assert "unknown: 2 calls with 3,200 tokens had no known price" in done.stdout
    replayed = done.stdout.partition("replay")[2]
    assert "unknown" in replayed.splitlines()[2]
    assert "$0" not in replayed
    assert total(spend_of([tmp_path])).unpriced_tokens == USAGE.total_tokens


def test_a_replay_is_apart(tmp_path: Path) -> None:
    record(tmp_path / "a", [sent(1), came(1)])
    record(tmp_path / "b", [sent(1), came(1)], kind="replay", name="replay:/some/where/x")
    spend = spend_of([tmp_path])
    assert total(spend).spent == total(spend, "replay").spent == COST
    assert "nobody paid it again" in agentctl("spend", tmp_path).stdout


# Resumed attempts


def chain(folder: Path, *, ids: bool = True) -> list[Path]:
    """Three tries of one attempt, each cut off in a send: a, b goes on from a, c from b. Old records have no `ids`."""
    id_a, id_b, id_c = ("A", "B", "C") if ids else ("", "", "")
    a = record(folder / "a", [sent(1), came(1), sent(2, bound="0.1"), WentOn(record=str(folder / "b"))], id=id_a)
    more = [went_on_from(a), sent(3), came(3), sent(4, bound="0.2"), WentOn(record=str(folder / "c"))]
    b = record(folder / "b", more, id=id_b)
    return [a, b, record(folder / "c", [went_on_from(b), sent(5), came(5)], id=id_c)]


Choose = Callable[[list[Path]], list[Path]]


@pytest.mark.parametrize(
    ("chosen", "gone"),
    [("abc", ""), ("c", ""), ("ac", ""), ("ac", "b"), ("bc", ""), ("bc", "a"), ("c", "a"), ("c", "ab")],
)
@pytest.mark.parametrize("ids", [True, False])
def test_what_was_carried_over_counts_once(tmp_path: Path, chosen: str, gone: str, ids: bool) -> None:
    records = {path.name: path for path in chain(tmp_path, ids=ids)}
    for name in gone:
        shutil.rmtree(records[name])
    spend = spend_of([records[name] for name in chosen])
    assert total(spend).spent == 3 * COST
    assert total(spend).uncertain == Decimal("0.3")
    assert total(spend).by_class["input"].tokens == 1000 * len(chosen)
    split = sum((part.spent for part in total(spend).by_class.values()), Decimal(0))
    assert split == total(spend).spent
    carried = spend.by(lambda line: line.role, "live").get(CARRIED, Sum())
    assert carried.calls == 0


@pytest.mark.parametrize("ids", [True, False])
def test_records_that_were_moved_are_known_again(tmp_path: Path, ids: bool) -> None:
    chain(tmp_path / "there", ids=ids)
    (tmp_path / "there").rename(tmp_path / "here")
    (tmp_path / "here/a").rename(tmp_path / "here/first")
    assert total(spend_of([tmp_path])).spent == 3 * COST


def test_a_copy_made_before_it_was_gone_on_from_counts_no_more(tmp_path: Path) -> None:
    a, b, c = chain(tmp_path)
    backup = shutil.copytree(a, tmp_path / "0-backup")
    events = (backup / "events.jsonl").read_bytes().splitlines(keepends=True)
    (backup / "events.jsonl").write_bytes(b"".join(events[:-1]))
    spend = spend_of([tmp_path])
    assert (total(spend).spent, total(spend).uncertain) == (3 * COST, Decimal("0.3"))
    assert spend.copies == [backup]
    assert sorted(spend.records) == [a, b, c]


def test_two_attempts_with_the_same_books_are_two(tmp_path: Path) -> None:
    a, twin = (record(tmp_path / name, [sent(1)], id=name) for name in ("a", "twin"))
    went_on = record(tmp_path / "b", [went_on_from(a), sent(2), came(2)], id="b")
    assert total(spend_of([twin, went_on])).uncertain == Decimal("1.0")
    assert total(spend_of([a, twin, went_on])).uncertain == Decimal("1.0")


def test_the_beginning_alone_is_its_own(tmp_path: Path) -> None:
    assert total(spend_of([chain(tmp_path)[0]])).spent == COST


# Which records there are


def test_a_record_counts_once_however_it_is_named(tmp_path: Path) -> None:
    made = record(tmp_path / "runs/a", [sent(1), came(1)])
    (tmp_path / "link").symlink_to(made)
    shutil.copytree(made, tmp_path / "copy")
    spend = spend_of([tmp_path, made, tmp_path / "link", tmp_path / "runs/../runs/a"])
    assert total(spend).spent == COST
    assert len(spend.copies) == 1


def test_what_an_agent_left_is_no_record(tmp_path: Path) -> None:
    made = record(tmp_path / "runs/a", [sent(1), came(1)])
    record(made / "workspace/fake", [sent(1), came(1)])
    record(tmp_path / "runs/.b.new", [sent(1), came(1)])
    assert total(spend_of([tmp_path])).spent == COST


def test_one_at_work_is_told(tmp_path: Path) -> None:
    made = record(tmp_path / "a", [sent(1)])
    record(tmp_path / "b", [sent(1)])
    with (made / "events.jsonl").open("rb") as events:
        fcntl.flock(events, fcntl.LOCK_EX)
        done = agentctl("spend", tmp_path)
    assert "2 records, 1 cut off, without a result, 1 still at work" in done.stdout


def test_a_record_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    record(tmp_path / "a", [sent(1), came(1)])
    broken = record(tmp_path / "b", [sent(1), came(1)])
    (broken / "events.jsonl").write_text('{"t":"nonsense"}\n{"t":"more"}\n{"t":"half')
    done = agentctl("spend", tmp_path)
    assert done.returncode == 1
    assert "$0.0180" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("agentctl: not counted: ")
    assert "line 1 is no event" in line
    assert json.loads(agentctl("spend", tmp_path, "--json").stdout)["unreadable"]


@pytest.mark.parametrize("make", [lambda place: None, lambda place: place.mkdir(), lambda place: place.touch()])
def test_no_record_is_told(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(InputError):
        spend_of([tmp_path / "x"])


def test_json_is_exact(tmp_path: Path) -> None:
    tiny = Decimal("0.000000000123")
    record(tmp_path / "a", [sent(1), came(1, cost=tiny), sent(2), came(2, cost=tiny)])
    told = json.loads(agentctl("spend", tmp_path, "--json").stdout)
    assert told["kinds"]["live"]["total"]["spent"] == "0.000000000246"
    assert told["kinds"]["live"]["by_role"]["main"]["calls"] == 2


@pytest.mark.parametrize("by", [None, "role", "model", "class", "task"])
def test_lines_fit_80_columns(tmp_path: Path, by: str | None) -> None:
    chain(tmp_path)
    usage = Usage(input_tokens=10**10, output_tokens=10**9)
    record(tmp_path / "d", [sent(9), came(9, usage=usage, cost=Decimal(130_000))], name="provider/" + "long" * 30)
    words = f"stty cols 80; {sys.executable} -m agentctl spend {tmp_path} {f'--by {by}' if by else ''}"
    done = subprocess.run(["script", "-qec", words, "/dev/null"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) > 4
    assert [line for line in lines if len(line) > 80] == []
    assert "$130000" in done.stdout


def test_the_shipped_recording(tmp_path: Path) -> None:
    from agentctl.benchmarks.corebench.locate import examples

    spend = spend_of([examples() / "recordings"])
    assert len(spend.records) >= 2
    for kind in spend.kinds():
        sums = total(spend, kind)
        assert sum((part.spent for part in sums.by_class.values()), Decimal(0)) == sums.spent
    assert os.fspath(spend.records[0])
