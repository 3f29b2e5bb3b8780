"""How loop and tools ask models: through the gateway, or, when an attempt is resumed, out of its record first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from agentctl.base.messages import Message, Part, Role

from .models.gateway import Gateway, ModelFailed
from .models.protocol import EncodedMessage, RawReply
from .transcript import Transcript


class Asker(Protocol):
    """What the loop and its tools know of models."""

    @property
    def waited(self) -> float:
        """Seconds spent waiting to send again, so far: no work time."""
        ...

    def context_window(self, role: str) -> int: ...

    def ask(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[dict[str, Any]]) -> RawReply:
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
        self._waited = 0.0
        self._lock = threading.Lock()

    @property
    def waited(self) -> float:
        return self._waited

    def context_window(self, role: str) -> int:
        return self._gateway.context_window(role)

    def ask(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[dict[str, Any]]) -> RawReply:
        return self._ask(role, messages, tools, None)

    def ask_helper(self, role: str, parts: Sequence[Part], limit: int) -> str:
        messages = self._transcript.add([Message(role=Role.USER, parts=tuple(parts))])
        reply = self._ask(role, messages, (), limit)
        return Message(role=Role.ASSISTANT, parts=reply.parts).text()

    def _ask(
        self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[dict[str, Any]], limit: int | None
    ) -> RawReply:
        try:
            answer = self._gateway.ask(role, messages, tools, output_limit=limit)
        except ModelFailed as failed:
            self._wait(failed.waited_seconds)
            raise
        self._wait(answer.waited_seconds)
        return answer.reply

    def _wait(self, seconds: float) -> None:
        with self._lock:
            self._waited += seconds


class Resumed:
    """Gives recorded replies of the main model while there are some, free of charge, and asks `inner` after that."""

    def __init__(self, inner: Asker, replies: Sequence[RawReply]) -> None:
        self._inner = inner
        self._replies = list(reversed(replies))

    @property
    def waited(self) -> float:
        return self._inner.waited

    def context_window(self, role: str) -> int:
        return self._inner.context_window(role)

    def ask(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[dict[str, Any]]) -> RawReply:
        if role == "main" and self._replies:
            return self._replies.pop()
        return self._inner.ask(role, messages, tools)

    def ask_helper(self, role: str, parts: Sequence[Part], limit: int) -> str:
        return self._inner.ask_helper(role, parts, limit)
