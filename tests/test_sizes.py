"""How tokens are counted: texts by their encoding, prompts by what was billed, and nothing far from the limit."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_bench import price
from history_bench import encoding, prose
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.history.sizes import Room, Sizes
from agentctl.agents.history.worth import Change, saves
from agentctl.agents.models.protocol import EncodedMessage, EncodedTool, ModelSpec
from agentctl.agents.models.replay import ReplayClient
from agentctl.agents.models.route import Route
from agentctl.agents.models.tokens import count_tokens
from agentctl.agents.models.wire import encode
from agentctl.agents.pricing import CacheMarkers, Free, Pricing, Unknown
from agentctl.base.messages import Message, Role, Text

TEXTS = {
    "code": Path(__file__).read_text(encoding="utf-8"),
    "tool output": prose(20_000, 1),
    "numbers": "\n".join(",".join(f"{random.Random(n * 9 + k).random():.6f}" for k in range(8)) for n in range(300)),
    "progress": "".join(f"\r{n}%|{'#' * (n % 50)}" for n in range(500)),
    "Chinese": "漢字仮名交じり文です。" * 300,
    "one letter": "a" * 30_000,
    "blank": " \n" * 5_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts_have_the_tokens_that_their_encoding_gives_them(text: str) -> None:
    real = len(encoding("cl100k_base").encode_ordinary(text))
    assert 0.98 * real <= count_tokens(text) <= 1.02 * real + 8


@given(st.text(st.characters(codec=None), max_size=60), st.sampled_from(["<|endoftext|>", "<|im_start|>", ""]))
def test_any_text_can_be_counted_and_has_no_more_tokens_than_bytes(text: str, mark: str) -> None:
    whole = text + mark + text
    count = count_tokens(whole)
    assert (count > 0) == bool(whole)
    assert count <= len(whole.encode("utf-8", "surrogatepass"))
    if mark:
        assert count_tokens(mark) > 1


def messages(*lengths: int) -> list[EncodedMessage]:
    return [
        encode(Message(role=Role.USER, parts=(Text(text=prose(length, n)),)), n, images=lambda ref: b"")
        for n, length in enumerate(lengths, 1)
    ]


def test_a_prompt_is_what_was_billed_and_what_was_added() -> None:
    sizes, told = Sizes(()), messages(4_000, 4_000, 900)
    counted = sizes.of(told)
    sizes.learn(told[:2], 1_000)  # this model makes fewer tokens of the same text
    assert 1_000 < sizes.of_prompt(told) < 1_000 + sizes._count(told[2])
    assert sizes.of(told) < counted * 0.6
    assert sizes.of_prompt(told[1:]) < counted * 0.6  # and after a rewrite


def test_a_bill_that_can_be_of_nothing_of_the_kind_bends_no_count() -> None:
    sizes, told = Sizes(()), messages(4_000, 4_000)
    counted = sizes.of(told)
    for tokens in (1, 9_999_999):
        sizes.learn(told[:1], tokens)
        assert counted * 0.4 <= sizes.of(told) <= counted * 2.5 + 1


def test_tools_take_room_until_they_are_billed() -> None:
    told = messages(400)
    tool = EncodedTool("t", b"", {"description": prose(4_000, 3)})
    assert Sizes([tool]).of_prompt(told) > Sizes(()).of_prompt(told) + 1_000


def test_nothing_is_counted_far_from_the_limit() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_sizes import messages, Sizes\n"
        "sizes, told = Sizes(()), messages(4_000, 4_000)\n"
        "assert sizes.fit(told, 9_000)\n"
        "sizes.learn(told[:1], 60_000)\n"
        "assert sizes.fit(told, 65_000)\n"
        "assert 'tiktoken' not in sys.modules or not sizes._counted\n"
        "assert not sizes._counted\n"
    )
    subprocess.run([sys.executable, "-c", script, str(Path(__file__).parent)], check=True)


def route(window: int, pricing: Pricing | None = None, **more: object) -> Route:
    spec = ModelSpec(name="m", output_limit=16_384)
    pricing = pricing or Free(name="m")
    return Route(spec, ReplayClient(()), pricing, window, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window", "due", "most"),
    [(128_000, 89_600, 105_216), (1_000_000, 700_000, 933_616), (8_000, 3_600, 3_600)],
)
def test_a_reply_and_a_margin_have_room_behind_every_prompt(window: int, due: int, most: int) -> None:
    room = Room.of(route(window))
    assert (room.due, room.most) == (due, most)
    room.refused(80_000)
    assert room.due <= room.most <= 60_000


PRICED = price(input="0.00001", output="0.00005", cache_read="0.000001", cache_write_5m="0.0000125")
CHANGE = Change(before=100_000, after=30_000, prefix=10_000, output=2_000)
# Cached: the call 0.1 + 0.1, then 20,000 tokens written instead of read: 0.23. Each step saves 0.07.
# Not cached: the call 1.0 + 0.1. Each step saves 0.7.


@pytest.mark.parametrize(
    ("pricing", "cached", "steps", "pays"),
    [
        (PRICED, True, 6, False),
        (PRICED, True, 7, True),
        (PRICED, False, 1, False),
        (PRICED, False, 2, True),
        (PRICED, True, 0, False),
        (Free(name="m"), True, 0, True),
        (Unknown(name="m", problem="?", remedy="?"), True, 0, True),
    ],
)
def test_a_summary_pays_when_the_steps_to_come_save_more_than_it_costs(
    pricing: Pricing, cached: bool, steps: int, pays: bool
) -> None:
    way = route(128_000, pricing, markers=CacheMarkers.FIVE_MINUTES)
    assert saves(CHANGE, way, steps=steps, cached=cached) is pays


def test_without_markers_a_cache_is_written_for_nothing_more() -> None:
    # 0.2 for the call and 0.18 for what is written: five steps at 0.07 fall short, six do not.
    assert not saves(CHANGE, route(128_000, PRICED), steps=5, cached=True)
    assert saves(CHANGE, route(128_000, PRICED), steps=6, cached=True)
