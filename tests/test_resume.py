"""Going on from a record: its replies are given again, its spend counts, and nobody can go on from it twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attempts import (
    FINISH,
    PRICE_IN,
    Provider,
    Turn,
    Worker,
    agentctl,
    bash,
    check_books,
    check_solved,
    kill,
    report,
    spec,
    wait_for,
)

from agentctl.agents.events import Carried, WentOn, encode
from agentctl.agents.manifest import read_result
from agentctl.agents.models.journal import RequestSent
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.reading import RecordReader
from agentctl.agents.spec import AttemptSpec
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError, SetupError
from agentctl.benchmarks.resume import resumed
from agentctl.benchmarks.runner import Outcome, run
from agentctl.benchmarks.scratch import MARKER, work_folder

TURNS: list[Turn] = [bash("echo one"), bash("echo two"), bash("echo three"), report(), FINISH]


def go(attempt: AttemptSpec, *, until: int | None = None) -> Outcome:
    """Run it; cancel it once it has `until` steps."""
    cancel = Cancel()
    steps = 0

    def listen(event: Any) -> None:
        nonlocal steps
        steps += event.t == "ran"
        if steps == until:
            cancel.set("enough")

    return run(attempt, cancel=cancel, listener=listen, environment=os.environ)


def cut_off(record: Path, *, lines: int | None = None) -> None:
    """Make a record look as a kill leaves it: no result, and only the first `lines` of its events and half another."""
    for name in ("result.json", "report.json"):
        (record / name).unlink(missing_ok=True)
    if lines is not None:
        whole = (record / "events.jsonl").read_bytes().splitlines(keepends=True)
        (record / "events.jsonl").write_bytes(b"".join(whole[:lines]) + whole[lines][:20])


@pytest.fixture
def provider() -> Any:
    with Provider(TURNS) as provider:
        yield provider


def test_a_cancelled_attempt_goes_on(tmp_path: Path, provider: Provider) -> None:
    first = go(spec(tmp_path / "a", provider.url), until=2)
    assert (first.result.end, first.result.infrastructure) == ("cancelled", True)
    asked = len(provider.received)
    second = go(resumed(tmp_path / "a", tmp_path / "b"))
    assert len(provider.received) == 5  # replies that were there were not asked for again
    assert asked == 2
    check_solved(tmp_path / "b")
    check_books(tmp_path / "b", provider)
    assert second.result.spend.books.spent == provider.billed
    assert second.result.spend.books.carried_spent == first.result.spend.books.spent
    (carried,) = (event for event in RecordReader(tmp_path / "b").events if isinstance(event, Carried))
    assert Path(carried.record) == tmp_path / "a"
    assert list(RecordReader(tmp_path / "b").requests) == [3, 4, 5]  # sends go on counting


def test_the_conversation_goes_on_to_the_byte(tmp_path: Path, provider: Provider) -> None:
    go(spec(tmp_path / "whole", provider.url))
    straight = [received.body for received in provider.received]
    del provider.received[:]
    go(spec(tmp_path / "a", provider.url), until=3)
    go(resumed(tmp_path / "a", tmp_path / "b"))
    assert [received.body for received in provider.received] == straight


@pytest.mark.parametrize("lines", [1, 5, 8, 13])
def test_any_beginning_of_a_record_goes_on(tmp_path: Path, provider: Provider, lines: int) -> None:
    go(spec(tmp_path / "a", provider.url))
    cut_off(tmp_path / "a", lines=lines)
    told = RecordReader(tmp_path / "a").books()
    outcome = go(resumed(tmp_path / "a", tmp_path / "b"))
    check_solved(tmp_path / "b")
    books = outcome.result.spend.books
    assert (books.carried_spent, books.carried_uncertain) == (told.spent, told.uncertain)
    assert books.spent + books.uncertain <= Decimal(4)


def test_replies_that_were_not_reached_again_are_not_lost(tmp_path: Path, provider: Provider) -> None:
    go(spec(tmp_path / "a", provider.url), until=4)
    go(resumed(tmp_path / "a", tmp_path / "b"), until=1)
    asked = len(provider.received)
    go(resumed(tmp_path / "b", tmp_path / "c"))
    assert asked == 4
    assert len(provider.received) == 5
    check_solved(tmp_path / "c")


def test_a_record_is_gone_on_from_once(tmp_path: Path, provider: Provider) -> None:
    go(spec(tmp_path / "a", provider.url), until=2)
    go(resumed(tmp_path / "a", tmp_path / "b"), until=3)
    assert isinstance(RecordReader(tmp_path / "a").events[-1], WentOn)
    with pytest.raises(InputError, match=rf"went on from it \(resume that one: {tmp_path}/b\)"):
        go(resumed(tmp_path / "a", tmp_path / "c"))
    assert not (tmp_path / "c").exists()
    go(resumed(tmp_path / "b", tmp_path / "c"))
    check_books(tmp_path / "c", provider)


def test_a_start_that_came_to_nothing_leaves_the_record_free(tmp_path: Path, provider: Provider) -> None:
    go(spec(tmp_path / "a", provider.url), until=2)
    with (tmp_path / "a" / "events.jsonl").open("ab") as events:
        events.write(encode(WentOn(record=str(tmp_path / "never"))))
    go(resumed(tmp_path / "a", tmp_path / "b"))
    check_solved(tmp_path / "b")


def test_an_attempt_at_work_is_left_alone(tmp_path: Path) -> None:
    with Provider([bash("sleep 60"), *TURNS]) as provider, Worker() as worker:
        child = worker.start(spec(tmp_path / "a", provider.url))
        wait_for(lambda: (tmp_path / "a").exists() and RecordReader(tmp_path / "a").replies, seconds=20)
        with pytest.raises(InputError, match="an attempt is at work on it"):
            go(resumed(tmp_path / "a", tmp_path / "b"))
        with pytest.raises(InputError, match="exists already"):
            go(spec(tmp_path / "a", provider.url))
        assert (tmp_path / ".a.work" / "workspace").is_dir()
        kill(child)
        worker.told()


def test_an_ended_attempt_is_not_resumed(tmp_path: Path, provider: Provider) -> None:
    go(spec(tmp_path / "a", provider.url))
    done = agentctl("solve", "--resume", tmp_path / "a", "--record", tmp_path / "b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has ended (finished)" in done.stderr
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("option", [["--cap", "8"], ["--model", "x"], ["capsule-4810297"], ["--price", "loop=free"]])
def test_a_resume_takes_no_new_settings(tmp_path: Path, option: list[str]) -> None:
    done = agentctl("solve", "--resume", tmp_path, *option)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "goes on with what it began with" in line
    assert option[0] in line or "task" in line


def test_no_record_is_no_attempt_to_resume(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        done = agentctl("solve", "--resume", path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_what_was_spent_counts_against_the_cap(tmp_path: Path) -> None:
    """Killed in a call after 2.70 of 4.00: at most 1.30 is left, less the worst case of the lost call."""
    with Provider([bash(f"echo {n}") for n in range(40)]) as provider:
        attempt = spec(tmp_path / "a", provider.url, output_limit=2000)
        go(attempt, until=1)
        cut_off(tmp_path / "a")
        lost = RequestSent(
            n=9, role="main", messages=((1, 2),), tools=(), output_limit=9, digest="", bound=Decimal("0.5"),
            input_bound=9, body_bytes=9,
        )  # fmt: skip
        line = {"t": "reply", "came": {"n": 8, "role": "main", "usage": {}, "cost": "2.68", "finish": "stop"}}
        line["came"] |= {"model": "m", "seconds": 1}  # type: ignore[operator]
        with (tmp_path / "a" / "events.jsonl").open("ab") as events:
            events.write(json.dumps(line).encode() + b"\n")
            events.write(json.dumps({"t": "request", "sent": lost.model_dump(mode="json")}).encode() + b"\n")
        before, spent = provider.billed, RecordReader(tmp_path / "a").books()
        assert Decimal("2.7") < spent.spent < Decimal("2.71")
        outcome = go(resumed(tmp_path / "a", tmp_path / "b"))
        assert outcome.result.end == "cost"
        assert provider.billed - before <= Decimal("1.3") - spent.uncertain
        books = outcome.result.spend.books
        assert books.spent == spent.spent + provider.billed - before
        assert books.spent + books.uncertain <= 4
        assert outcome.result.infrastructure  # spent money alone would have left room


def test_a_resume_with_nothing_left_still_ends_what_is_there(tmp_path: Path) -> None:
    """Killed after its last paid reply, with no money for another: the replies are played, and the end is right."""
    with Provider(TURNS) as provider:
        go(spec(tmp_path / "a", provider.url, cap="0.25", output_limit=1000))
        cut_off(tmp_path / "a")
        assert go(resumed(tmp_path / "a", tmp_path / "b")).result.end == "finished"
        assert len(provider.received) == 5
        check_solved(tmp_path / "b")


def test_scripts_and_recordings_begin_anew(tmp_path: Path, provider: Provider) -> None:
    script = tmp_path / "s.json"
    script.write_text(json.dumps([{"calls": [{"name": name, "arguments": given}]} for name, given in TURNS]))
    free = spec(tmp_path / "a", provider.url).model_copy(update={"model": ModelSpec(name=f"script:{script}")})
    go(free, until=2)
    go(resumed(tmp_path / "a", tmp_path / "b"))
    check_solved(tmp_path / "b")
    assert len(RecordReader(tmp_path / "b").replies) == 5


# The folder an attempt works in


def test_the_work_folder_is_emptied_of_anything(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    with work_folder(tmp_path / "runs" / "r") as folder:
        fd = os.open(folder, os.O_RDONLY)
        for _ in range(1200):  # deeper than Python recurses, and than a path may be long
            os.mkdir("d" * 9, dir_fd=fd)
            inner = os.open("d" * 9, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)
        (folder / "closed" / "in").mkdir(parents=True)
        (folder / "closed" / "link").symlink_to(outside)
        os.mkfifo(folder / "closed" / "in" / "pipe")
        (folder / "closed" / "in").chmod(0)
        (folder / "closed").chmod(0)
    assert not (tmp_path / "runs").exists()
    assert (outside / "kept").exists()


def test_what_a_killed_attempt_left_is_removed_first(tmp_path: Path) -> None:
    left = tmp_path / ".r.work"
    (left / "workspace").mkdir(parents=True)
    with work_folder(tmp_path / "r") as folder:
        assert [path.name for path in folder.iterdir()] == [MARKER]
        with pytest.raises(InputError, match="at work"), work_folder(tmp_path / "r"):
            pass
        assert folder.is_dir()
    assert not left.exists()


@pytest.mark.parametrize("blocked", [lambda place: place.touch(), lambda place: place.parent.touch()])
def test_a_place_that_is_none_is_told(tmp_path: Path, blocked: Callable[[Path], None]) -> None:
    place = tmp_path / "runs" / "x"
    if blocked.__code__.co_names[-2:] != ("parent", "touch"):
        place.parent.mkdir()
    blocked(place)
    with pytest.raises(SetupError, match="no folder can be made"), work_folder(place / "r"):
        pass


# The worker


def test_a_worker_tells_how_each_ended(tmp_path: Path, provider: Provider) -> None:
    with Worker() as worker:
        worker.start(spec(tmp_path / "a", provider.url))
        worker.stdin.write(b'{"record": 1}\n\n')
        worker.stdin.write(spec(tmp_path / "b", provider.url, cap="0.01").model_dump_json().encode())  # no line feed
        worker.stdin.close()
        told = sorted((worker.told() for _ in range(3)), key=lambda line: str(line["record"]))
        assert [(line["record"], line["exit"]) for line in told] == [
            (str(tmp_path / "a"), 0),
            (str(tmp_path / "b"), 2),
            (None, 2),
        ]
        assert worker.process.wait(10) == 0


def test_a_worker_without_readers_ends_its_attempts(tmp_path: Path) -> None:
    with Provider([bash("sleep 60"), *TURNS]) as provider, Worker() as worker:
        worker.start(spec(tmp_path / "a", provider.url))
        wait_for(lambda: (tmp_path / "a").exists() and RecordReader(tmp_path / "a").replies, seconds=20)
        worker.stdout.close()
        result = wait_for(lambda: read_result(tmp_path / "a"), seconds=10)
        assert result.end == "cancelled"
        worker.process.wait(10)


def test_a_stopped_worker_stops_its_attempts_in_order(tmp_path: Path) -> None:
    with Provider([bash("trap '' INT; sleep 60"), *TURNS]) as provider, Worker() as worker:
        worker.start(spec(tmp_path / "a", provider.url))
        wait_for(lambda: (tmp_path / "a").exists() and RecordReader(tmp_path / "a").replies, seconds=20)
        time.sleep(0.2)
        worker.process.send_signal(signal.SIGINT)
        assert worker.told() == {"record": str(tmp_path / "a"), "exit": 1}
        assert worker.process.wait(10) == 0
    result = read_result(tmp_path / "a")
    assert result is not None
    assert (result.end, result.detail) == ("cancelled", "its owner is gone")


def test_the_provider_bills_by_its_own_prices(provider: Provider, tmp_path: Path) -> None:
    outcome = go(spec(tmp_path / "a", provider.url))
    assert outcome.result.spend.books.spent == provider.billed > 10_000 * PRICE_IN


# Work time


def test_work_time_goes_on(tmp_path: Path) -> None:
    """What was worked before counts against the limit; doing it again does not."""
    turns = [bash("sleep 1.5"), bash("echo two"), bash("sleep 1.2"), bash("echo four"), report(), FINISH]
    with Provider(turns) as provider:
        short = spec(tmp_path / "a", provider.url)
        short = short.model_copy(update={"limits": short.limits.model_copy(update={"seconds": 2.5})})
        go(short, until=2)
        cut_off(tmp_path / "a")
        worked = RecordReader(tmp_path / "a").work_seconds
        assert 1.5 < worked < 2.4
        ended = go(resumed(tmp_path / "a", tmp_path / "b")).result
        assert ended.end == "time"
        assert 2.5 <= ended.work_seconds < 3.4  # its last command was cut off by what was left of the time
    (carried,) = (event for event in RecordReader(tmp_path / "b").events if isinstance(event, Carried))
    assert carried.seconds == pytest.approx(worked, abs=0.01)


def test_work_time_of_a_chain_counts_once(tmp_path: Path, provider: Provider) -> None:
    times = []
    record = tmp_path / "r1"
    go(spec(record, provider.url), until=1)
    for n in (2, 3):
        cut_off(record)
        times.append(RecordReader(record).work_seconds)
        record = tmp_path / f"r{n}"
        go(resumed(tmp_path / f"r{n - 1}", record), until=n)
    cut_off(record)
    times.append(RecordReader(record).work_seconds)
    assert times == sorted(times)
    assert times[-1] < 3 * (times[0] + 0.5)
