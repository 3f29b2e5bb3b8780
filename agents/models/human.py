"""A person plays the model: sees what a model would be sent, and answers in words and calls.

For walks through a scaffold, and for trying a task by hand. What is typed makes an ordinary reply, so the record reads
like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol, cast

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Text

from .protocol import EncodedMessage, Fault, FinishReason, Kind, ProviderError, RawCall, RawReply, WireRequest

HELP = """\
!COMMAND         runs it in the shell; ends the reply
!                begins a command of several lines, which a line with a single dot ends
TOOL {"a": 1}    calls a tool by its name, its arguments as JSON; a line without braces where it takes none
anything else    is said; an empty line ends the reply
?                this, and the tools"""

_CALL = re.compile(r"(\w+)\s*(\{.*\})?\s*", re.DOTALL)


class Person(Protocol):
    """Somebody at a terminal."""

    def show(self, title: str, text: str) -> None:
        """Let them read `text`."""
        ...

    def line(self, prompt: str, cancel: Cancel) -> str | None:
        """What they type next, without its line feed; None when they leave. Cancelled soon after the wish."""
        ...


class HumanClient:
    """Asks `person` for each reply. It costs nothing."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._shown = 0  # number of the last message they saw

    @property
    def kind(self) -> Kind:
        return "human"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """What they answer. ProviderError with the fault EXHAUSTED when they leave, Cancelled after the wish."""
        if not self._shown:
            self._person.show("how to answer", HELP)
        for message in request.messages:
            if message.number > self._shown and message.tree["role"] != "assistant":
                self._person.show(message.tree["role"], _text_of(message))
        self._shown = max((message.number for message in request.messages), default=self._shown)
        return _Answer(self._person, request, cancel).read()

    def close(self) -> None:
        """Nothing is open."""


class _Answer:
    """One reply, as it is typed."""

    def __init__(self, person: Person, request: WireRequest, cancel: Cancel) -> None:
        self._person = person
        self._tools: Mapping[str, dict[str, Any]] = {tool.name: tool.tree["function"] for tool in request.tools}
        self._cancel = cancel

    def read(self) -> RawReply:
        said: list[str] = []
        while True:
            line = self._line("> ")
            if line.strip() == "?":
                self._person.show("how to answer", "\n".join([HELP, *map(_told, self._tools.values())]))
            elif line.startswith("!"):
                return self._reply(said, "bash", {"command": line[1:].strip() or self._until_dot()})
            elif call := self._call(line):
                name, text = call
                if (arguments := self._arguments(text)) is not None:
                    return self._reply(said, name, arguments)
            elif line.strip():
                said.append(line)
            elif said:
                return self._reply(said)

    def _line(self, prompt: str) -> str:
        line = self._person.line(prompt, self._cancel)
        if line is None:
            raise ProviderError(Fault.EXHAUSTED, "the person who played the model left")
        return line

    def _call(self, line: str) -> tuple[str, str] | None:
        """The tool that `line` calls, and its arguments as they are typed; None where it is said."""
        found = _CALL.fullmatch(line)
        if found is None or (self._tools and found[1] not in self._tools) or not (found[2] or self._bare(found[1])):
            return None
        return found[1], found[2] or "{}"

    def _arguments(self, text: str) -> dict[str, Any] | None:
        """`text` read, or None where it can't be, which they are told: the line counts as not typed."""
        try:
            return cast(dict[str, Any], json.loads(text, strict=False))
        except (ValueError, RecursionError) as error:
            self._person.show("not sent", f"the arguments are no JSON: {error}")
            return None

    def _bare(self, name: str) -> bool:
        """Whether a line that is just `name` calls a tool: one that needs no arguments."""
        if not self._tools:  # they are told in the system message, if there are any
            return name == "finish"
        return not self._tools[name]["parameters"].get("required")

    def _until_dot(self) -> str:
        lines: list[str] = []
        while (line := self._line("| ")) != ".":
            lines.append(line)
        return "\n".join(lines)

    def _reply(self, said: list[str], name: str = "", arguments: dict[str, Any] | None = None) -> RawReply:
        calls: tuple[RawCall, ...] = ()
        if name and self._tools:
            calls = (RawCall(id="", name=name, arguments=json.dumps(arguments, ensure_ascii=False)),)
        elif name:
            said = [*said, _fenced(name, arguments)]
        parts = (Text(text="\n".join(said)),) if said else ()
        finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        return RawReply(parts=parts, calls=calls, finish=finish, model="human")


def _fenced(name: str, arguments: object) -> str:
    return f"```json\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n```"


def _told(tool: Mapping[str, Any]) -> str:
    properties = tool["parameters"].get("properties", {})
    required = tool["parameters"].get("required", ())
    names = ", ".join(name if name in required else f"[{name}]" for name in properties)
    return f"{tool['name']} {{{names}}}  {tool['description'].splitlines()[0].partition('. ')[0]}"


def _text_of(message: EncodedMessage) -> str:
    content = message.tree.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", f"[{part['type']}]") for part in content)
    return content or ""
