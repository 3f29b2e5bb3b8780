"""The history that condenses: what it keeps, when it asks for a summary, what that costs, and that it always ends."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from gateway_bench import price
from history_bench import PREFIX, Bench, Model, check_legal, prose, step, text_of, tokens

from agentctl.agents.history.protocol import NoRoom
from agentctl.agents.models.cache import marked
from agentctl.agents.models.gateway import ModelFailed
from agentctl.agents.models.protocol import Fault, FinishReason, ProviderError, RawReply, WireRequest
from agentctl.agents.pricing import CacheMarkers, Unknown
from agentctl.agents.reading import RecordReader
from agentctl.agents.usage import Usage
from agentctl.base.messages import Message, Role, Text
from agentctl.cli.show import _aside

CLAUDE = price(
    input="0.000003", output="0.000015", cache_read="0.0000003", cache_write_5m="0.00000375", cache_write_1h="0.000006"
)


def fill(bench: Bench, *, characters: int = 3_000, most: int = 60) -> int:
    """Take steps until something was condensed. Returns how many that took."""
    for n in range(len(bench.state.steps) + 1, most):
        before = len(bench.condensed)
        bench.add(step(n, characters=characters))
        if len(bench.condensed) > before:
            return n
    return 0


def test_old_steps_give_way_to_a_summary_and_the_rest_stays_to_the_byte(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    n = fill(bench)
    [done] = bench.condensed
    assert (done.how, done.first) == ("summed up", 1) and 1 < done.last < n
    assert done.after < done.before / 2
    messages = bench.history.render(bench.state)
    assert [message.number for message in messages[:2]] == [1, 2]
    assert "All of it in short." in messages[2].tree["content"]
    assert f"Steps 1 to {done.last} " in messages[2].tree["content"]
    whole = bench.history._conversation
    assert list(messages[3:]) == [each for index in range(done.last + 1, n + 1) for each in whole.step(index)]
    check_legal(bench.sent(), "native")


def test_the_summary_is_asked_for_behind_what_was_sent_and_by_the_main_model(tmp_path: Path) -> None:
    bench = Bench(tmp_path, markers=CacheMarkers.FIVE_MINUTES, price=CLAUDE)
    bench.add(*[step(n, characters=3_000) for n in range(1, 4)])
    sent = list(bench.history.render(bench.state))
    fill(bench)
    [request] = bench.model.of("summary")
    assert list(request.messages[: len(sent)]) == sent
    *conversation, instruction = request.messages
    assert conversation[-1].tree["role"] == "tool"
    assert "images" in instruction.tree["content"] or "image" in instruction.tree["content"]
    assert request.marked == marked(request.messages)
    assert request.model.name == "scripted"
    assert RecordReader(bench.record.folder).requests[1].role == "summary"


def test_the_bound_of_a_summary_begins_at_the_conversations_last_bill(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add(*[step(n, characters=3_000) for n in range(1, 3)])
    messages = list(bench.history.render(bench.state))
    usage = {"prompt_tokens": 900, "completion_tokens": 1}
    said = RawReply(parts=(Text(text="x"),), finish=FinishReason.STOP, usage=usage)
    bench.model.main = (said,)
    bench.gateway.ask("main", messages)
    fill(bench)
    summary = RecordReader(bench.record.folder).requests[2]
    later = bench.model.of("summary")[0].messages[len(messages) :]
    assert summary.role == "summary"
    assert summary.input_bound == 900 + sum(len(each.body) + 16 for each in later)


def test_a_new_summary_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    told: list[str] = []

    def longer_each_time(request: WireRequest) -> str:
        before = re.search(r"You summed them up:\n\n(.*)", str(request.messages[2].tree["content"]), re.DOTALL)
        told.append((before[1] if before else "") + "\nAnd one line more, which says what came after the rest." * 9)
        return told[-1]

    bench = Bench(tmp_path, Model(summary=longer_each_time))
    for _ in range(8):
        assert fill(bench, most=200)
        text = text_of(bench.sent())
        assert text.count("You summed them up") == 1
        assert len(str(bench.sent()[2]["content"])) < 20_000 // 8 + 200
    assert len(told[-1]) > 2_500  # it would have grown
    assert all(done.after < done.before for done in bench.condensed)


@pytest.mark.parametrize("said", ["", "as much as it was given", ProviderError(Fault.REFUSED, "no")])
def test_summaries_that_gain_nothing_are_given_up_and_old_results_cut(
    tmp_path: Path, said: str | ProviderError
) -> None:
    def summary(request: WireRequest) -> str | ProviderError:
        return "漢" * 30_000 if said == "as much as it was given" else said

    bench = Bench(tmp_path, Model(summary=summary), window=8_000)
    bench.add(*[step(n, characters=1_500) for n in range(1, 60)])
    asked = bench.model.of("summary")
    assert len(asked) == 2 or (said == "as much as it was given" and bench.condensed)
    if len(asked) == 2:
        assert {done.how for done in bench.condensed} == {"results cut", "left out"}
        assert "no room for them" in text_of(bench.sent())
    for request in asked:
        assert tokens([message.tree for message in request.messages]) < 8_000
    assert tokens(bench.sent()) < 4_000
    check_legal(bench.sent(), "native")


def test_what_is_kept_for_the_report_is_not_spent_on_a_summary(tmp_path: Path) -> None:
    for kept, asked in ((None, 1), (Decimal("1.9999"), 0)):
        bench = Bench(tmp_path / str(asked), price=CLAUDE, cap=Decimal(2), kept=kept)
        while not bench.condensed:
            bench.add(step(len(bench.state.steps) + 1, characters=3_000))
        assert len(bench.model.of("summary")) == asked
        assert bench.condensed[0].how == ("summed up" if asked else "results cut")


def test_an_outage_is_no_reason_to_lose_the_history(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Model(summary=lambda request: ProviderError(Fault.AUTH, "no key")))
    with pytest.raises(ModelFailed, match="no key"):
        fill(bench)


def test_a_request_for_a_summary_fits_the_window_however_long_the_history(tmp_path: Path) -> None:
    bench = Bench(tmp_path, window=20_000)
    bench.state.steps.extend(step(n, calls=3, characters=8_000) for n in range(1, 40))
    bench.history.settle(bench.state)
    [request] = bench.model.of("summary")
    assert 8_000 < tokens([message.tree for message in request.messages]) < 20_000
    check_legal([message.tree for message in request.messages[:-1]], "native")
    assert tokens(bench.sent()) < 14_000


def test_one_step_larger_than_the_window_is_cut_and_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, window=8_000)
    bench.add(step(1, calls=30, characters=2_000))
    assert tokens(bench.sent()) < 6_000
    check_legal(bench.sent(), "native")
    assert "characters left out" in text_of(bench.sent())
    assert not bench.model.received  # there is nothing before it to sum up


def test_a_task_that_leaves_no_room_ends_clearly(tmp_path: Path) -> None:
    task = Message(role=Role.USER, parts=(Text(text=prose(40_000, 1)),))
    bench = Bench(tmp_path, window=8_000, prefix=(PREFIX[0], task))
    with pytest.raises(NoRoom, match="too many for a window of 8,000"):
        bench.add(step(1))


def test_what_is_refused_as_too_long_is_made_shorter_without_a_model(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add(*[step(n, characters=2_500) for n in range(1, 10)])
    before = tokens(bench.sent())
    assert bench.history.shrink(bench.state)
    assert tokens(bench.sent()) < before * 0.6
    assert not bench.model.received
    check_legal(bench.sent(), "native")
    # and from then on the window is taken for smaller than it was said to be
    n = fill(bench, characters=2_500)
    assert n and tokens(bench.sent()) < before


def test_nothing_to_shorten_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert not bench.history.shrink(bench.state)
    bench.add(step(1, characters=10))
    assert not bench.history.shrink(bench.state)


def billed(prompt: int, read: int) -> Usage:
    return Usage(input_tokens=prompt - read, cache_read_tokens=read, output_tokens=50)


@pytest.mark.parametrize(
    ("most_steps", "pricing", "summaries"),
    [
        (200, CLAUDE, True),  # the steps to come pay for it
        (12, CLAUDE, False),  # the attempt is nearly over
        (12, None, True),  # nothing is paid
        (12, Unknown(name="m", problem="?", remedy="?"), True),  # nothing is known
    ],
)
def test_it_is_condensed_early_only_where_that_saves_money(
    tmp_path: Path, most_steps: int, pricing: object, summaries: bool
) -> None:
    window = 20_000
    bench = Bench(tmp_path, price=pricing, most_steps=most_steps, markers=CacheMarkers.FIVE_MINUTES, window=window)  # type: ignore[arg-type]
    for n in range(1, 12):
        tokens_then = 1_350 * n
        bench.add(step(n, characters=2_000, usage=billed(tokens_then, int(tokens_then * 0.9))))
    assert bool(bench.model.received) is summaries
    if not summaries:  # where the window forces it, prices do not count
        bench.add(step(12, characters=2_000, usage=billed(15_600, 15_000)))
        assert [done.how for done in bench.condensed] == ["summed up"]
        before = [message.tree for message in bench.model.received[0].messages[:-1]]
        assert "left out" not in text_of(before)  # still behind all that was sent, which is in the cache


def test_what_was_billed_is_believed_over_what_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for n in range(1, 40):
        bench.add(step(n, characters=3_000, usage=billed(900 * n, 0)))
        if bench.condensed:
            break
    assert 14 <= n <= 16  # 0.7 of 20,000 at 900 a step; by our count there would have been 1,700 a step


def test_the_same_steps_and_bills_give_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in "ab":
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name)
        bench.add(*[step(n, calls=2, characters=1_500, usage=billed(1_200 * (n % 12 + 1), 0)) for n in range(1, 30)])
        made.append([message.body for message in bench.history.render(bench.state)])
        made.append([request.body for request in bench.model.received])
    assert made[:2] == made[2:]


def test_summaries_and_what_they_stand_for_are_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    fill(bench)
    [done] = bench.condensed
    reader = RecordReader(bench.record.folder)
    assert _aside(done) == f"steps 1 to {done.last} summed up: about {done.before:,} tokens became {done.after:,}"
    told = [message.text() for message in reader.messages.values()]
    assert any("You summed them up:\n\nAll of it in short." in text for text in told)
    assert len(reader.results) == len(bench.state.steps)
