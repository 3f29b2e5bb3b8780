"""Renderers of one state: which messages a request holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .models.protocol import EncodedMessage
from .protocols import Protocol as CallProtocol
from .state import State
from .transcript import Transcript


class History(Protocol):
    """A policy for what of an attempt's past is sent."""

    def render(self, state: State) -> Sequence[EncodedMessage]:
        """The messages of the next request. Every call in them has its result, directly after it.

        Also called when a step has got its reply but not yet its results, so that what is new is recorded at once.
        """
        ...


class FullHistory:
    """Everything, always. What was sent once is the beginning of all that is sent later."""

    def __init__(self, protocol: CallProtocol, transcript: Transcript) -> None:
        self._protocol = protocol
        self._transcript = transcript
        self._messages: list[EncodedMessage] = []
        self._complete = 0  # steps whose messages are all there
        self._of_last = 0  # messages that are there of the step after those

    def render(self, state: State) -> Sequence[EncodedMessage]:
        if not self._messages:
            self._messages.extend(self._transcript.add(state.prefix))
        for step in state.steps[self._complete :]:
            rendered = self._protocol.render(step)
            self._messages.extend(self._transcript.add(rendered[self._of_last :]))
            if step.complete:
                self._complete, self._of_last = step.index, 0
            else:
                self._of_last = len(rendered)
        return self._messages
