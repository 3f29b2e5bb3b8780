"""Histories of any shape: whatever is cut, calls keep their results, and every shortening makes progress or ends."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from history_bench import Bench, Model, check_legal, step, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents.history.conversation import Conversation
from agentctl.agents.history.protocol import NoRoom
from agentctl.agents.history.shorter import Telling, View, shorter, summed_up
from agentctl.agents.history.sizes import Sizes
from agentctl.agents.models.protocol import Fault, ProviderError, WireRequest
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.usage import Usage

shapes = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 30, 700, 2_500]), st.booleans(), st.booleans()), max_size=9
)


@settings(max_examples=40, deadline=None)
@given(
    shapes=shapes,
    target=st.integers(0, 6_000),
    first=st.integers(1, 9),
    protocol=st.sampled_from(sorted(PROTOCOLS)),
)
def test_no_cut_parts_what_belongs_together_and_every_cut_makes_it_shorter(
    shapes: list[tuple[int, int, bool, bool]], target: int, first: int, protocol: str
) -> None:
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), protocol=protocol)
        for n, (calls, characters, thinking, noted) in enumerate(shapes, 1):
            notes = ("Mind the time.",) if noted or not calls else ()
            bench.state.put(step(n, calls=calls, characters=characters, thinking=thinking, notes=notes))
        conversation = Conversation(PROTOCOLS[protocol], bench.transcript)
        conversation.keep(bench.state)
        telling, sizes = Telling(conversation), Sizes(())
        view = View() if first > len(shapes) else summed_up(View(), "In short.", first)
        before = telling.messages(view)
        after = shorter(view, target, telling, sizes)
        messages = telling.messages(after)
        check_legal([message.tree for message in messages], protocol)
        assert sizes.of(messages) <= sizes.of(before) + 40  # the line that says what is left out
        if shapes:
            assert f"Step {len(shapes)}." in text_of([message.tree for message in messages])
        if sizes.of(before) <= target:
            assert messages == before
        assert shorter(after, target, telling, sizes) == after


says = st.sampled_from(["", "In short.", "word " * 9_000, "漢字" * 5_000, Fault.CONTEXT, Fault.REFUSED])


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 300, 1_500, 6_000])), min_size=1, max_size=25),
    summaries=st.lists(says, min_size=1, max_size=4),
    refused=st.sets(st.integers(1, 25)),
    ratio=st.sampled_from([None, 0.5, 1.0, 1.4]),
    window=st.sampled_from([3_000, 8_000, 20_000]),
    protocol=st.sampled_from(sorted(PROTOCOLS)),
)
def test_whatever_a_model_and_its_provider_do_requests_fit_or_the_attempt_ends(
    shapes: list[tuple[int, int]],
    summaries: list[str | Fault],
    refused: set[int],
    ratio: float | None,
    window: int,
    protocol: str,
) -> None:
    asked = 0

    def summary(request: WireRequest) -> str | ProviderError:
        nonlocal asked
        asked += 1
        said = summaries[asked % len(summaries)]
        return ProviderError(said, "no") if isinstance(said, Fault) else said

    counted = Sizes(())
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), Model(summary=summary), protocol=protocol, window=window)
        for n, (calls, characters) in enumerate(shapes, 1):
            sent = bench.history.render(bench.state)
            tokens = counted.of(sent)
            assert tokens * (ratio or 1.0) <= window or n == 1
            if n in refused:
                small = len(text_of([message.tree for message in sent]))
                if bench.history.shrink(bench.state):
                    sent = bench.history.render(bench.state)
                    assert len(text_of([message.tree for message in sent])) < small
            check_legal([message.tree for message in sent], protocol)
            usage = Usage(input_tokens=int(counted.of(sent) * ratio), output_tokens=9) if ratio else None
            notes = () if calls else ("Go on.",)
            bench.state.put(step(n, calls=calls, characters=characters, usage=usage, notes=notes, thinking=n % 2 == 0))
            before = asked
            try:
                bench.history.settle(bench.state)
            except NoRoom:
                assert counted.of(bench.history.render(bench.state)) * (ratio or 1.0) > window * 0.8
                break
            assert asked - before <= 1
        for request in bench.model.received:
            messages = [message.tree for message in request.messages]
            check_legal(messages[:-1], protocol)
            assert counted.of(request.messages) * (ratio or 1.0) <= window
