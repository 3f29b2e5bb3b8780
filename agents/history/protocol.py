"""The seam between the loop and a policy for what of an attempt's past is sent."""

from __future__ import annotations

import typing
from collections.abc import Sequence

from ..models.protocol import EncodedMessage
from ..state import State


class NoRoom(Exception):
    """The conversation can't be made to fit the model's window: its words say what takes the room."""


class History(typing.Protocol):
    """A policy for what of an attempt's past is sent."""

    def keep(self, state: State) -> None:
        """Put what is new into the record, at once: also of a step that has got its reply but not yet its results."""
        ...

    def render(self, state: State) -> Sequence[EncodedMessage]:
        """The messages of the next request. Every call in them has its result, directly after it."""
        ...

    def settle(self, state: State) -> None:
        """The last step is complete: summarise or condense where that is due.

        May ask models, and lets through what that raises (CapReached, ModelFailed, Cancelled). NoRoom where what must
        be told no longer fits the window.
        """
        ...

    def shrink(self, state: State) -> bool:
        """The model's provider says that the request is too long: make it shorter. False where that can't be done."""
        ...
