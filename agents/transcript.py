"""The messages of one attempt, each normalised, numbered, recorded and encoded once, when it is added.

That is why a prompt's beginning stays the same to the byte, why a step costs the same however long the history is, and
why a record holds each message once.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentctl.base.messages import Call, ImageRef, Message, Opaque, Result, Text
from agentctl.base.text import clean

from .events import MessageAdded
from .images import in_words
from .models.protocol import EncodedMessage
from .models.wire import encode
from .record import Record
from .secrets import Secrets


class Transcript:
    """The numbered messages of an attempt."""

    def __init__(self, record: Record, secrets: Secrets) -> None:
        self._record = record
        self._secrets = secrets
        self._encoded: list[EncodedMessage] = []
        self._pictured: dict[int, Message] = {}  # those with images, by number
        self._without: dict[tuple[int, int], EncodedMessage] = {}

    def add(self, messages: Iterable[Message], *, aside: bool = False) -> list[EncodedMessage]:
        """Make `messages` part of the attempt, in order. Returns them encoded.

        `aside` marks those that are no part of the conversation: a helper's question, what a request tells beside it.
        """
        return [self._add(message, aside) for message in messages]

    def _add(self, message: Message, aside: bool) -> EncodedMessage:
        number = len(self._encoded) + 1
        normal = message.model_copy(update={"parts": tuple(self._normal(part) for part in message.parts)})
        encoded = encode(normal, number, images=self._record.image)
        self._record.emit(MessageAdded(n=number, message=normal, aside=aside))
        self._encoded.append(encoded)
        if encoded.images:
            self._pictured[number] = normal
        return encoded

    def without_images(self, message: EncodedMessage, count: int) -> EncodedMessage:
        """`message` with its first `count` images told in words: a message of its own, the same at each call."""
        key = (message.number, count)
        if key not in self._without:
            pictured = self._pictured[message.number]
            parts = list(pictured.parts)
            pictures = [(place, part) for place, part in enumerate(parts) if isinstance(part, ImageRef)]
            for place, image in pictures[:count]:
                parts[place] = in_words(image)
            self._without[key] = self._add(pictured.model_copy(update={"parts": tuple(parts)}), aside=True)
        return self._without[key]

    def _normal(self, part: Text | ImageRef | Call | Result | Opaque) -> Text | ImageRef | Call | Result | Opaque:
        match part:
            case Text(text=text):
                safe = self._safe(text)
                return part if safe == text else Text(text=safe)
            case Result(parts=inner):
                return part.model_copy(update={"parts": tuple(self._normal(each) for each in inner)})
            case _:
                return part

    def _safe(self, text: str) -> str:
        return self._secrets.cut(clean(text))
