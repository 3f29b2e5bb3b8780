"""How much of a model's window a prompt takes, as cheaply as the question allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from ..images import image_bytes
from ..models.protocol import EncodedMessage, EncodedTool
from ..models.route import Route
from ..models.tokens import message_tokens, tool_tokens

DUE = 0.7  # of the window: what a step brings, and the request for a summary, still fit behind it
MARGIN = 0.05  # of the window: counts are another model's
_LEAST, _MOST = 0.4, 2.5  # a model's tokens for one of ours; a ratio beyond tells that its count is of something else


@dataclass
class Room:
    """Tokens that a prompt may have.

    From `due` on it is condensed where that pays. Beyond `most`, which leaves the longest reply its room, it must be.
    More than `window` is not sent.
    """

    due: int
    most: int
    window: int

    @classmethod
    def of(cls, route: Route) -> Room:
        window = int((1 - MARGIN) * route.context_window)
        most = window - route.output_limit()
        return cls(min(int(DUE * route.context_window), most), most, window)

    def refused(self, tokens: int) -> None:
        """A prompt of so many tokens was too long: the window is smaller than it was said to be."""
        self.most = min(self.most, tokens * 3 // 4)
        self.due = min(self.due, self.most)


class Sizes:
    """Sizes of prompts with the same tools, in tokens.

    The last billed prompt is known; what was added since has at most as many tokens as bytes. Only where that sum does
    not settle whether a prompt fits, what was added is counted, each message once.
    """

    def __init__(self, tools: Sequence[EncodedTool]) -> None:
        self._tools = tools
        self._counted: dict[int, int] = {}
        self._billed: tuple[Sequence[EncodedMessage], int] | None = None

    def learn(self, messages: Sequence[EncodedMessage], tokens: int) -> None:
        """A prompt of `messages` was billed at `tokens`."""
        self._billed = (list(messages), tokens)
        self.__dict__.pop("_ratio", None)

    def fit(self, messages: Sequence[EncodedMessage], limit: int) -> bool:
        """Whether a prompt of `messages` has at most `limit` tokens."""
        return self._at_most(messages) <= limit or self.of_prompt(messages) <= limit

    def of_prompt(self, messages: Sequence[EncodedMessage]) -> int:
        """Tokens of a prompt of `messages`: more than their sum, for there are tools in it."""
        known, new = self._known(messages)
        return (self.as_billed(self._of_tools) if known is None else known) + self.of(new)

    def of(self, messages: Sequence[EncodedMessage]) -> int:
        """Tokens of `messages`, as the model that was billed counts them."""
        return self.as_billed(sum(self._count(message) for message in messages))

    def as_billed(self, tokens: int) -> int:
        """What the model makes of `tokens` of ours."""
        return ceil(tokens * self._ratio)

    def _known(self, messages: Sequence[EncodedMessage]) -> tuple[int | None, Sequence[EncodedMessage]]:
        """What the beginning of a prompt was billed, None where it was not, and the messages that this leaves."""
        if self._billed:
            sent, tokens = self._billed
            if list(messages[: len(sent)]) == sent:
                return tokens, messages[len(sent) :]
        return None, messages

    def _at_most(self, messages: Sequence[EncodedMessage]) -> int:
        known, new = self._known(messages)
        if known is None:
            known = sum(len(tool.body) for tool in self._tools)
        return known + sum(len(each.body) - sum(image_bytes(each)) + each.image_tokens for each in new)

    @cached_property
    def _ratio(self) -> float:
        """The model's tokens for one of ours, by the last billed prompt."""
        if self._billed is None:
            return 1.0
        sent, tokens = self._billed
        ours = self._of_tools + sum(self._count(message) for message in sent)
        return max(_LEAST, min(tokens / ours, _MOST))

    @cached_property
    def _of_tools(self) -> int:
        return sum(tool_tokens(tool) for tool in self._tools)

    def _count(self, message: EncodedMessage) -> int:
        if message.number not in self._counted:
            self._counted[message.number] = message_tokens(message)
        return self._counted[message.number]
