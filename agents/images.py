"""Images in requests: as many of the newest as a provider takes bytes, the older ones as a line of text.

It holds for whatever history is sent. Which images go depends on nothing but the messages. When a request would be too
large, so many go that the rest has half of the room: so the beginning of prompts, which providers keep, changes seldom.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from agentctl.base.messages import ImageRef, Text

from .models.protocol import EncodedMessage, EncodedTool

_AROUND = 4_096  # bytes of a request besides its messages and tools
_LEFT = 2  # after old images went, the rest takes at most this part of the room


def within(
    messages: Sequence[EncodedMessage],
    tools: Sequence[EncodedTool],
    limit: int,
    without: Callable[[EncodedMessage, int], EncodedMessage],
) -> Sequence[EncodedMessage]:
    """`messages`, with the oldest images told in words where the request would have more than `limit` bytes.

    `without` gives a message with so many of its images, from the first on, told in words. The task's images, which
    stand before the first reply, and the newest one always stay.
    """
    if not any(message.images for message in messages):
        return messages
    gone = _gone(messages, limit - _AROUND - sum(len(tool.body) + 1 for tool in tools))
    return [without(message, gone[n]) if gone[n] else message for n, message in enumerate(messages)]


def in_words(image: ImageRef) -> Text:
    """What is told in the place of an image that is shown no longer."""
    return Text(text=f"[image {image.width}x{image.height}, no longer shown]")


def image_bytes(message: EncodedMessage) -> list[int]:
    """Bytes of each image's data in a message, in order."""
    content = message.tree.get("content")
    parts = content if message.images and isinstance(content, list) else []
    return [len(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]


def _gone(messages: Sequence[EncodedMessage], room: int) -> Counter[int]:
    """How many images of each message have to go, by the message's place: as if each message had been the last once."""
    gone: Counter[int] = Counter()
    shown: deque[tuple[int, int]] = deque()  # place and bytes of each image that could go
    total = 0
    replied = False
    for place, message in enumerate(messages):
        replied = replied or message.tree["role"] == "assistant"
        total += len(message.body) + 1
        shown.extend((place, size) for size in image_bytes(message) if replied)
        if total > room:
            while len(shown) > 1 and total > room // _LEFT:
                oldest, size = shown.popleft()
                gone[oldest] += 1
                total -= size
    return gone
