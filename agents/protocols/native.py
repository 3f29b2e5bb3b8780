"""Native tool calls: the provider's own field carries them.

A reply without a call but with one written out as JSON (`{"name": ..., "arguments": {...}}`, a known tool), fenced or
between `<tool_call>` tags, is taken as that call: some models, local ones above all, write their calls so.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.base.messages import Call, ImageRef, Message, Role, ToolSpec

from ..models.protocol import FinishReason, RawReply
from ..state import Step
from .arguments import read_call
from .fenced import fenced_calls, prose
from .protocol import Decoded, Tools, closing, message_of, without_images


class NativeProtocol:
    """Calls in the provider's field, results as messages of the tool role."""

    name = "native"

    def tools_text(self, tools: Sequence[ToolSpec]) -> str:
        return ""

    def format_text(self) -> str:
        return ""

    def wire_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return tuple(tools)

    def decode(self, reply: RawReply, step: int, tools: Tools) -> Decoded:
        cut = reply.finish is FinishReason.LENGTH
        calls: Sequence[Call] = [
            read_call(f"c{step}.{n}", raw.name, raw.arguments, tools, cut=cut)
            for n, raw in enumerate(reply.calls, start=1)
        ]
        return message_of(reply, calls or fenced_calls(reply, step, tools, known_only=True))

    def render(self, step: Step) -> tuple[Message, ...]:
        messages = [step.reply] if step.reply.parts else []
        images: list[ImageRef] = []
        for result in step.results:
            told, found = without_images(result)
            messages.append(Message(role=Role.TOOL, parts=(told,)))
            images.extend(found)
        return (*messages, *closing(images, step.notes))

    def thought(self, reply: Message) -> str:
        return prose(reply.text())
