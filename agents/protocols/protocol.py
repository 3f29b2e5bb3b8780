"""The seam between the loop and a way of calling tools."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentctl.base.messages import Call, ImageRef, Message, Opaque, Result, Role, Text, ToolSpec
from agentctl.tools.tool import Tool

from ..models.protocol import FinishReason, RawReply
from ..state import Step, calls_of

Tools = Mapping[str, Tool[Any]]


@dataclass(frozen=True)
class Decoded:
    """A reply, understood: the assistant message, calls included."""

    message: Message
    problem: str = ""  # where it holds no call: what is wrong with it, as the end of "Your last reply ..."

    @property
    def cut(self) -> bool:
        """Whether the output limit cut it."""
        return self.message.finish == FinishReason.LENGTH

    @property
    def calls(self) -> tuple[Call, ...]:
        return calls_of(self.message)

    @property
    def says_something(self) -> bool:
        """Whether there is text that is meant for somebody. Hidden reasoning is not."""
        return bool(self.message.text().strip())


class Protocol(typing.Protocol):
    """How tools are told to a model, and how its calls are read."""

    @property
    def name(self) -> str: ...

    def tools_text(self, tools: Sequence[ToolSpec]) -> str:
        """What the system message says of the tools; empty where they are told outside the messages."""
        ...

    def format_text(self) -> str:
        """What the system message says of the form of a reply; empty where `tools_text` says it too, or nothing is."""
        ...

    def wire_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The tools that a request carries beside its messages."""
        ...

    def decode(self, reply: RawReply, step: int, tools: Tools) -> Decoded:
        """The reply of step `step` as a message. Calls are numbered `c<step>.<n>`; one that can't be run says why."""
        ...

    def render(self, step: Step) -> tuple[Message, ...]:
        """The step as messages, each call's result directly after the reply that called."""
        ...

    def thought(self, reply: Message) -> str:
        """What the model said beside its calls, in short."""
        ...


def message_of(reply: RawReply, calls: Sequence[Call]) -> Decoded:
    """The assistant message of `reply` with `calls` after its text and opaque parts."""
    kept = tuple(part for part in reply.parts if isinstance(part, Text | Opaque | ImageRef))
    return Decoded(Message(role=Role.ASSISTANT, parts=(*kept, *calls), finish=reply.finish))


def said_in_words(step: Step, heading: str) -> tuple[Message, ...]:
    """The step as messages of a protocol without native calls: the reply, and all results in one message of the user's.

    `heading` stands above each result, with its tool's `{name}` and the result's `{status}`.
    """
    said = tuple(part for part in step.reply.parts if isinstance(part, Text | Opaque))
    messages = [Message(role=Role.ASSISTANT, parts=said)] if said else []
    names = {call.id: call.name for call in step.calls}
    images: list[ImageRef] = []
    answers: list[Text] = []
    for result in step.results:
        told, found = without_images(result)
        images.extend(found)
        text = "\n".join(part.text for part in told.parts if isinstance(part, Text))
        answers.append(Text(text=f"{heading.format(name=names[result.call_id], status=result.status)}\n{text}"))
    after = closing(images, step.notes)
    if not answers:
        return (*messages, *after)
    parts = (*answers, *(after[0].parts if after else ()))
    return (*messages, Message(role=Role.USER, parts=parts))


def without_images(result: Result) -> tuple[Result, tuple[ImageRef, ...]]:
    """`result` with each image replaced by a line of text, and the images: they travel in a message of the user's."""
    images = tuple(part for part in result.parts if isinstance(part, ImageRef))
    parts = tuple(
        Text(text=f"[image {part.width}x{part.height}, shown below]") if isinstance(part, ImageRef) else part
        for part in result.parts
    )
    return result.model_copy(update={"parts": parts}), images


def closing(images: Sequence[ImageRef], notes: Sequence[str]) -> tuple[Message, ...]:
    """The user message that follows a step: its images, then the harness's notes. None where there are neither."""
    parts = (*images, *(Text(text=note) for note in notes))
    return (Message(role=Role.USER, parts=parts),) if parts else ()
