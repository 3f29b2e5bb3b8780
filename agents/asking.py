"""How loop and tools ask models: through the gateway, or, when an attempt is resumed, out of its record first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from agentctl.base.messages import Message, Part, Role

from .events import GivenAgain
from .images import within
from .models.gateway import Gateway, ModelFailed
from .models.protocol import DECLINED, EncodedMessage, EncodedTool, RawReply
from .models.route import Route
from .transcript import Transcript

NO_ANSWER = "(no answer: "  # how the answer of a helper that said nothing begins


class Asker(Protocol):
    """What the loop and its tools know of models."""

    @property
    def waited(self) -> float:
        """Seconds spent waiting to send again, so far: no work time."""
        ...

    def context_window(self, role: str) -> int: ...

    def route(self, role: str) -> Route:
        """The way to the model of `role`: what it holds, what it costs."""
        ...

    def ask(
        self,
        role: str,
        messages: Sequence[EncodedMessage],
        tools: Sequence[EncodedTool] = (),
        output_limit: int | None = None,
        *,
        keep: Decimal | None = None,
    ) -> RawReply:
        """The reply of the model of `role`. CapReached, ModelFailed or Cancelled where there is none.

        Old images are told in words where a request would be larger than the model's provider takes. `output_limit`
        (tokens) takes the place of the model's own. `keep` are dollars that must be left after it.
        """
        ...

    def ask_helper(
        self, role: str, parts: Sequence[Part], limit: int | None = None, *, keep: Decimal | None = None
    ) -> str:
        """The text that a helper's model (vision, fast) answers to one message, at most `limit` tokens long.

        `keep` are dollars that must be left after it; where given, a CapReached says nothing of other calls.
        """
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

    def route(self, role: str) -> Route:
        return self._gateway.route(role)

    def ask(
        self,
        role: str,
        messages: Sequence[EncodedMessage],
        tools: Sequence[EncodedTool] = (),
        output_limit: int | None = None,
        *,
        keep: Decimal | None = None,
    ) -> RawReply:
        fitting = within(messages, tools, self.route(role).body_limit, self._transcript.without_images)
        return self._gateway.ask(role, fitting, tools, output_limit=output_limit, keep=keep).reply

    def ask_helper(
        self, role: str, parts: Sequence[Part], limit: int | None = None, *, keep: Decimal | None = None
    ) -> str:
        question = self._transcript.add([Message(role=Role.USER, parts=tuple(parts))], aside=True)
        try:
            reply = self.ask(role, question, output_limit=limit, keep=keep)
        except ModelFailed as failed:
            if failed.fault not in DECLINED:
                raise
            return f"{NO_ANSWER}{failed.words})"
        said = Message(role=Role.ASSISTANT, parts=reply.parts).text()
        return said or f"{NO_ANSWER}{reply.refusal or reply.finish_raw or reply.finish})"


class Resumed(Asking):
    """Gives the replies of a record while there are some, each role's in their order, and asks the gateway after that.

    What is given again costs nothing. A helper's is told to `record`, as no message says its words. `now` is a clock in
    seconds; `went_on` its time when the gateway was asked first, None before.
    """

    def __init__(
        self,
        gateway: Gateway,
        transcript: Transcript,
        replies: Mapping[str, Sequence[RawReply]],
        *,
        record: Callable[[GivenAgain], None],
        now: Callable[[], float],
    ) -> None:
        super().__init__(gateway, transcript)
        self._replies = {role: deque(said) for role, said in replies.items()}
        self._record = record
        self._now = now
        self.went_on: float | None = None

    def ask(
        self,
        role: str,
        messages: Sequence[EncodedMessage],
        tools: Sequence[EncodedTool] = (),
        output_limit: int | None = None,
        *,
        keep: Decimal | None = None,
    ) -> RawReply:
        if waiting := self._replies.get(role):
            reply = waiting.popleft()
            if role != "main":
                self._record(GivenAgain(role=role, reply=reply))
            return reply
        if self.went_on is None:
            self.went_on = self._now()
        return super().ask(role, messages, tools, output_limit, keep=keep)
