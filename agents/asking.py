"""How loop and tools ask models: through the gateway, or, when an attempt is resumed, out of its record first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agentctl.base.messages import Message, Part, Role

from .models.gateway import Gateway
from .models.protocol import EncodedMessage, EncodedTool, RawReply
from .transcript import Transcript


class Asker(Protocol):
    """What the loop and its tools know of models."""

    @property
    def waited(self) -> float:
        """Seconds spent waiting to send again, so far: no work time."""
        ...

    def context_window(self, role: str) -> int: ...

    def ask(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]) -> RawReply:
        """The reply of the model of `role`. CapReached, ModelFailed or Cancelled where there is none."""
        ...

    def ask_helper(self, role: str, parts: Sequence[Part], limit: int) -> str:
        """The text that a helper's model (vision, fast) answers to one message, at most `limit` tokens long."""
        ...


class Asking:
    """Asks through a gateway."""

    def __init__(self, gateway: Gateway, transcript: Transcript) -> None:
        self._gateway = gateway
        self._transcript = transcript

    @property
    def waited(self) -> float:
        return self._gateway.waited

    def context_window(self, role: str) -> int:
        return self._gateway.context_window(role)

    def ask(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]) -> RawReply:
        return self._gateway.ask(role, messages, tools).reply

    def ask_helper(self, role: str, parts: Sequence[Part], limit: int) -> str:
        question = self._transcript.add([Message(role=Role.USER, parts=tuple(parts))])
        reply = self._gateway.ask(role, question, output_limit=limit).reply
        said = Message(role=Role.ASSISTANT, parts=reply.parts).text()
        return said or f"(no answer: {reply.refusal or reply.finish_raw or reply.finish})"


class Resumed:
    """Gives recorded replies of the main model while there are some, free of charge, and asks `inner` after that.

    `now` is a clock in seconds; `went_on` its time when `inner` was asked first, None before.
    """

    def __init__(self, inner: Asker, replies: Sequence[RawReply], now: Callable[[], float]) -> None:
        self._inner = inner
        self._replies = list(reversed(replies))
        self._now = now
        self.went_on: float | None = None

    @property
    def waited(self) -> float:
        return self._inner.waited

    def context_window(self, role: str) -> int:
        return self._inner.context_window(role)

    def ask(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]) -> RawReply:
        if role == "main" and self._replies:
            return self._replies.pop()
        if self.went_on is None:
            self.went_on = self._now()
        return self._inner.ask(role, messages, tools)

    def ask_helper(self, role: str, parts: Sequence[Part], limit: int) -> str:
        return self._inner.ask_helper(role, parts, limit)
