"""Calls in plain text, for models and servers without native tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentctl.base.messages import ImageRef, Message, Opaque, Role, Text, ToolSpec
from agentctl.prompts.compose import fill, read_part

from ..models.protocol import RawReply
from ..state import Step
from .fenced import fenced_calls
from .protocol import Decoded, Tools, closing, message_of, without_images

_PART = "protocols/plain.md"


class PlainProtocol:
    """Tools told in the system message, calls as fenced JSON in the reply, results in a message of the user's."""

    name = "plain"

    def tools_text(self, tools: Sequence[ToolSpec]) -> str:
        lines = [
            f"- {tool.name}: {tool.description}\n  arguments: "
            + json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
            for tool in tools
        ]
        return fill(read_part(_PART), {"tools": "\n".join(lines)}, name=_PART)

    def wire_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return ()

    def decode(self, reply: RawReply, step: int, tools: Tools) -> Decoded:
        return message_of(reply, fenced_calls(reply, step, tools, known_only=False))

    def render(self, step: Step) -> tuple[Message, ...]:
        said = tuple(part for part in step.reply.parts if isinstance(part, Text | Opaque))
        messages = [Message(role=Role.ASSISTANT, parts=said)] if said else []
        names = {call.id: call.name for call in step.calls}
        images: list[ImageRef] = []
        answers: list[Text] = []
        for result in step.results:
            told, found = without_images(result)
            images.extend(found)
            text = "\n".join(part.text for part in told.parts if isinstance(part, Text))
            answers.append(Text(text=f"Result of {names[result.call_id]} ({result.status}):\n{text}"))
        after = closing(images, step.notes)
        if not answers:
            return (*messages, *after)
        parts = (*answers, *(after[0].parts if after else ()))
        return (*messages, Message(role=Role.USER, parts=parts))
