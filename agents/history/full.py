"""The whole history."""

from __future__ import annotations

from collections.abc import Sequence

from ..context import ContextItem, told_now
from ..models.protocol import EncodedMessage
from ..protocols import Protocol as CallProtocol
from ..state import State
from ..transcript import Transcript


class FullHistory:
    """Everything, always. What was sent once is the beginning of all that is sent later.

    What the context items tell stands at the end, in a message that is not sent again.
    """

    def __init__(self, protocol: CallProtocol, transcript: Transcript, context: Sequence[ContextItem] = ()) -> None:
        self._protocol = protocol
        self._transcript = transcript
        self._context = context
        self._messages: list[EncodedMessage] = []
        self._complete = 0  # steps whose messages are all there
        self._of_last = 0  # messages that are there of the step after those

    def keep(self, state: State) -> None:
        if not self._messages:
            self._messages.extend(self._transcript.add(state.prefix))
        for step in state.steps[self._complete :]:
            rendered = self._protocol.render(step)
            self._messages.extend(self._transcript.add(rendered[self._of_last :]))
            if step.complete:
                self._complete, self._of_last = step.index, 0
            else:
                self._of_last = len(rendered)

    def render(self, state: State) -> Sequence[EncodedMessage]:
        self.keep(state)
        now = told_now(self._context)
        return [*self._messages, *self._transcript.add(now, aside=True)] if now else self._messages

    def settle(self, state: State) -> None:
        """There is nothing to do: nothing is ever left out."""

    def shrink(self, state: State) -> bool:
        return False
