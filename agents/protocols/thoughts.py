"""AutoGPT's JSON thoughts: a reply is one JSON object, with what the model thinks and exactly one command.

Several commands in a reply are none: which of them was meant is not guessed. Calls in the provider's own field are not
looked at, as none are offered there.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.base.messages import Message, Text, ToolSpec
from agentctl.prompts.compose import fill, read_part

from ..models.protocol import FinishReason, RawReply
from ..state import Step
from .arguments import read_call
from .protocol import Decoded, Tools, message_of, said_in_words
from .typescript import parameters
from .written import Unreadable, short_thought, written_command

_COMMANDS = "protocols/thoughts-commands.md"
_FORMAT = "protocols/thoughts.md"
_EXPECTED = (
    'expected is exactly one JSON object as {"thoughts": {...}, "use_tool": {"name": "...", "arguments": {...}}}'
)


class ThoughtsProtocol:
    """Commands numbered in the system message, one command a reply, results in a message of the user's."""

    name = "thoughts"

    def tools_text(self, tools: Sequence[ToolSpec]) -> str:
        lines = [
            f"{n}. {tool.name}: {tool.description.rstrip('.')}. Params: {parameters(tool.parameters)}"
            for n, tool in enumerate(tools, 1)
        ]
        return fill(read_part(_COMMANDS), {"commands": "\n".join(lines)}, name=_COMMANDS)

    def format_text(self) -> str:
        return read_part(_FORMAT)

    def wire_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return ()

    def decode(self, reply: RawReply, step: int, tools: Tools) -> Decoded:
        said = message_of(reply, ())
        try:
            written = written_command(_text(said.message))
        except Unreadable as unreadable:
            return Decoded(said.message, f"{unreadable}; {_EXPECTED}")
        cut = reply.finish is FinishReason.LENGTH
        call = read_call(f"c{step}.1", written.name, written.arguments, tools, cut=cut)
        return message_of(reply, [call.model_copy(update={"in_text": True})])

    def render(self, step: Step) -> tuple[Message, ...]:
        return said_in_words(step, "Command {name} returned ({status}):")

    def thought(self, reply: Message) -> str:
        return short_thought(_text(reply))


def _text(message: Message) -> str:
    """The texts of `message` as one: where a provider parts them, that is no line feed of the model's."""
    return "".join(part.text for part in message.parts if isinstance(part, Text))
