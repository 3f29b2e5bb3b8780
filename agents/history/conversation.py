"""An attempt's messages step by step, each encoded once: in full, and with results cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentctl.base.messages import ImageRef, Message, Result, Text
from agentctl.base.text import cut

from ..images import in_words
from ..models.protocol import EncodedMessage
from ..protocols import Protocol as CallProtocol
from ..state import State, Step
from ..transcript import Transcript

_NOTICE = 80  # characters of the line that says what was cut


class Conversation:
    """The messages of the prompt and of each step. A step's are whole: every call with its result."""

    def __init__(self, protocol: CallProtocol, transcript: Transcript) -> None:
        self.transcript = transcript
        self.prefix: list[EncodedMessage] = []
        self._protocol = protocol
        self._steps: list[Step] = []
        self._whole: list[list[EncodedMessage]] = []
        self._cut: dict[tuple[int, int], list[EncodedMessage]] = {}

    @property
    def last(self) -> int:
        """The index of the last step; 0 where none was taken."""
        return len(self._steps)

    def keep(self, state: State) -> None:
        """Add what is new in `state`."""
        if not self.prefix:
            self.prefix = self.transcript.add(state.prefix)
        done = len(self._steps) - 1 if self._steps and not self._steps[-1].complete else len(self._steps)
        for step in state.steps[done:]:
            if step.index > len(self._steps):
                self._steps.append(step)
                self._whole.append([])
            self._steps[step.index - 1] = step
            there = self._whole[step.index - 1]
            there += self.transcript.add(self._protocol.render(step)[len(there) :])

    def step(self, index: int, longest: int | None = None) -> Sequence[EncodedMessage]:
        """The messages of a step. With `longest`, each text of its results has at most so many characters and a line.

        Then its images are told in words. The reply is the same in either case, to the byte.
        """
        whole = self._whole[index - 1]
        if longest is None:
            return whole
        if (index, longest) not in self._cut:
            step = self._steps[index - 1]
            short = replace(step, results=tuple(_shorter(result, longest) for result in step.results))
            same = list(zip(self._protocol.render(step), whole, strict=True))
            self._cut[index, longest] = [
                next((encoded for known, encoded in same if known == message), None) or self.added(message)
                for message in self._protocol.render(short)
            ]
        return self._cut[index, longest]

    def characters(self, index: int) -> int:
        """How long the texts of a step's results are together."""
        parts = [part for result in self._steps[index - 1].results for part in result.parts]
        return sum(len(part.text) for part in parts if isinstance(part, Text))

    def results(self, index: int) -> int:
        """How many results a step has."""
        return len(self._steps[index - 1].results)

    def added(self, message: Message) -> EncodedMessage:
        """A message that takes the place of others, or asks for that."""
        return self.transcript.add([message], aside=True)[0]


def cut_to(longest: int, text: str) -> str:
    """`text` with at most `longest` characters, what it says of the cut included."""
    return text if len(text) <= longest else cut(text, longest - _NOTICE)


def _shorter(result: Result, longest: int) -> Result:
    parts = tuple(in_words(part) if isinstance(part, ImageRef) else _cut(part, longest) for part in result.parts)
    return result.model_copy(update={"parts": parts})


def _cut(part: Text, longest: int) -> Text:
    text = cut(part.text, longest)
    return part if len(text) >= len(part.text) else Text(text=text)
