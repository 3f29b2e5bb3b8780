"""What an attempt is, at any moment: a prompt and a list of steps. Every request is rendered from this."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentctl.base.messages import Call, Message, Result

from .usage import Usage


@dataclass(frozen=True)
class Step:
    """One reply and what came of it. When it is complete, each call has its result, in the order of the calls."""

    index: int  # from 1
    reply: Message
    results: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()  # what the harness tells the model after this step
    complete: bool = False
    usage: Usage | None = None  # what its request was billed, where the provider told
    summary: str = ""  # one line in its place, where the history makes such

    @property
    def calls(self) -> tuple[Call, ...]:
        return calls_of(self.reply)


def calls_of(message: Message) -> tuple[Call, ...]:
    """The calls in a message, in order."""
    return tuple(part for part in message.parts if isinstance(part, Call))


@dataclass
class State:
    """The prompt's messages, and the steps so far. Only the last step may be incomplete."""

    prefix: tuple[Message, ...]
    steps: list[Step] = field(default_factory=list)

    def put(self, step: Step) -> None:
        """Add a step, or replace the incomplete one of the same index."""
        del self.steps[step.index - 1 :]
        self.steps.append(step)
