"""Calls in plain text, for models and servers without native tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentctl.base.messages import Message, ToolSpec
from agentctl.prompts.compose import fill, read_part

from ..models.protocol import RawReply
from ..state import Step
from .fenced import fenced_calls, prose
from .protocol import Decoded, Tools, message_of, said_in_words

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

    def format_text(self) -> str:
        return ""

    def wire_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return ()

    def decode(self, reply: RawReply, step: int, tools: Tools) -> Decoded:
        return message_of(reply, fenced_calls(reply, step, tools, known_only=False))

    def render(self, step: Step) -> tuple[Message, ...]:
        return said_in_words(step, "Result of {name} ({status}):")

    def thought(self, reply: Message) -> str:
        return prose(reply.text())
