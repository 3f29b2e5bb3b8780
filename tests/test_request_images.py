"""Images in requests: charged by size, and kept while they fit the bytes that a provider takes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent import ScriptedModel, Stage
from context_cases import DONE, call_turn
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.images import image_bytes, within
from agentctl.agents.models.protocol import EncodedMessage, EncodedTool, RawReply, WireRequest
from agentctl.agents.models.tokens import LEAST_IMAGE, MOST_IMAGE, count_tokens, image_tokens, message_tokens
from agentctl.agents.models.wire import encode
from agentctl.agents.scaffold import load_scaffold
from agentctl.base.cancel import Cancel
from agentctl.base.jsonio import dumps
from agentctl.base.messages import ImageRef, Message, Role, Text
from agentctl.tools.tool import Arguments, ToolContext, ToolResult

LIMIT = 100_000


def message(number: int, role: str, images: tuple[int, ...] = (), text: str = "see") -> EncodedMessage:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    parts += [{"type": "image_url", "image_url": {"url": "A" * size}} for size in images]
    tree = {"role": role, "content": parts if images else text}
    return EncodedMessage(number, dumps(tree), tree, len(images))


def without(message: EncodedMessage, count: int) -> EncodedMessage:
    places = [place for place, part in enumerate(message.tree["content"]) if part["type"] == "image_url"][:count]
    parts = [part for place, part in enumerate(message.tree["content"]) if place not in places]
    tree = message.tree | {"content": parts}
    return EncodedMessage(message.number, dumps(tree), tree, message.images - count)


sizes = st.lists(st.integers(100, 30_000), max_size=3).map(tuple)


@given(images=st.lists(sizes, max_size=30), task=sizes, text=st.integers(0, 300))
def test_requests_stay_below_the_limit_and_the_task_and_the_newest_image_stay(
    images: list[tuple[int, ...]], task: tuple[int, ...], text: int
) -> None:
    conversation = [message(1, "system"), message(2, "user", task)]
    before: list[EncodedMessage] = []
    changes = 0
    for n, each in enumerate(images):
        conversation += [message(10 + 2 * n, "assistant"), message(11 + 2 * n, "user", each, "x" * text)]
        sent = list(within(conversation, (), LIMIT, without))
        assert sent[:2] == conversation[:2]
        newest = [told for told in sent[2:] if told.images]
        small_enough = sum(len(told.body) + 1 for told in sent) <= LIMIT - 4_000
        assert small_enough or sum(told.images for told in newest) == 1
        assert sent[-1].images or not each
        kept = [size for told in sent[2:] for size in image_bytes(told)]
        given_bytes = [size for told in conversation[2:] for size in image_bytes(told)]
        assert kept == given_bytes[len(given_bytes) - len(kept) :]  # the oldest go
        changes += sent[: len(before)] != before
        before = sent
    room = LIMIT // 2 - sum(task) - 5_000  # what can come before the next change
    if room > 40_000:
        assert changes <= sum(sum(each) + text + 200 for each in images) // (room - 30_000) + 1


def test_nothing_is_touched_that_fits_or_has_no_image() -> None:
    plain = [message(1, "system"), message(2, "user", text="x" * 3 * LIMIT)]
    assert within(plain, (), LIMIT, without) is plain
    small = [message(1, "system"), message(2, "user"), message(3, "assistant"), message(4, "user", (50_000,))]
    assert list(within(small, (), LIMIT, without)) == small


def test_the_tools_of_a_request_take_room_too() -> None:
    messages = [message(1, "user"), message(2, "assistant"), message(3, "user", (40_000, 40_001))]
    tool = EncodedTool("t", b"x" * 30_000, {})
    assert [each.images for each in within(messages, (), LIMIT, without)] == [0, 0, 2]
    assert [each.images for each in within(messages, [tool], LIMIT, without)] == [0, 0, 1]


class Camera:
    """A tool that gives another image at each call."""

    name = "camera"
    description = "Gives an image."
    arguments = Arguments

    def __init__(self) -> None:
        self._taken = 0

    def run(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        self._taken += 1
        data = bytes(range(256)) * 40 + bytes([self._taken])
        image = context.keep_image(data, "image/png", 100 + self._taken, 80)
        return ToolResult(parts=(Text(text=f"Image {self._taken}:"), image))

    def close(self) -> None:
        pass


class Keeping(ScriptedModel):
    """Keeps requests as they are sent."""

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.sent = [*getattr(self, "sent", []), request]
        return super().send(request, cancel)


@pytest.mark.parametrize("history", ["full", "condense"])
@pytest.mark.parametrize("scaffold", ["plain", "plain-text"])
def test_in_any_history_old_images_become_words_and_the_record_holds_what_was_sent(
    history: str, scaffold: str, tmp_path: Path
) -> None:
    turn = call_turn("camera", "{}")
    if scaffold == "plain-text":
        turn = {"message": {"role": "assistant", "content": '```json\n{"name": "camera", "arguments": {}}\n```'}}
    changed = load_scaffold(scaffold).model_copy(update={"history": history})
    model = Keeping([turn] * 20 + [DONE])
    play = Stage(tmp_path, scaffold=changed, extra_tools=[Camera()], body_limit=LIMIT).play([], model=model)
    assert len(model.sent) == 21
    for request, event in zip(model.sent, play.reader.requests.values(), strict=True):
        assert len(request.body) <= LIMIT
        numbers = [n for first, last in event.messages for n in range(first, last + 1)]
        again = [encode(play.reader.messages[n], n, images=_bytes(tmp_path)) for n in numbers]
        assert [each.body for each in again] == [each.body for each in request.messages]
    assert 2 <= sum(each.images for each in model.sent[-1].messages) < 8
    assert "[image 101x80, no longer shown]" in model.sent[-1].body.decode()
    assert model.sent[-1].messages[-1].images
    changes = sum(
        list(after.messages[: len(before.messages)]) != list(before.messages) for before, after in pairwise(model.sent)
    )
    assert changes <= 5  # what a provider's cache holds stays, most of the time


def _bytes(folder: Path) -> Any:
    return lambda ref: (folder / "record" / "images" / ref.digest).read_bytes()


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1, 1, LEAST_IMAGE), (640, 480, 414), (1_000, 1_000, 1_296), (1_568, 1_568, 3_136), (9_000, 9_000, MOST_IMAGE)],
)
def test_an_image_is_counted_by_its_size(width: int, height: int, tokens: int) -> None:
    ref = ImageRef(digest="0" * 64, media_type="image/png", width=width, height=height)
    assert image_tokens(ref) == tokens
    picture = Message(role=Role.USER, parts=(Text(text="Look."), ref, ref))
    for size in (10, 900_000):
        encoded = encode(picture, 1, images=lambda _: b"x" * size)  # noqa: B023
        assert 0 <= message_tokens(encoded) - 2 * tokens - count_tokens("Look.") < 20
