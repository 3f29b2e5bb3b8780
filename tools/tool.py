"""The seam between the loop and a tool. A tool gets validated arguments and a context, and gives back a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from agentctl.base.cancel import Cancel
from agentctl.base.deliverable import Deliverable
from agentctl.base.messages import ImageRef, Part, Status, Text, ToolSpec
from agentctl.base.values import Frozen

from .sandbox.protocol import Sandbox


class Arguments(BaseModel):
    """Base of every tool's arguments: strict types, unknown names refused, field descriptions shown to the model."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments, contravariant=True)


class ToolResult(Frozen):
    """What a tool gives back. `parts` are shown to the model; the rest is kept in the record."""

    parts: tuple[Text | ImageRef, ...]
    status: Status = Status.OK
    exit_code: int | None = None  # of a command, where there is one
    saved_as: str | None = None  # file in the record's outputs/ that holds what was cut
    finish: bool = False  # the agent is done: the attempt ends as `finished`

    @classmethod
    def of(cls, text: str, **more: Any) -> ToolResult:
        """A result of one text. An empty text is replaced by words, so that no result is ever empty."""
        return cls(parts=(Text(text=text or "(no output)"),), **more)

    @classmethod
    def error(cls, text: str) -> ToolResult:
        """A failure, said to the model."""
        return cls(parts=(Text(text=text or "the tool failed without saying why"),), status=Status.ERROR)

    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class Ask(Protocol):
    """Puts a question to a helper model (role `vision` or `fast`) through the attempt's purse. Returns its text.

    `limit` is that of its answer, in tokens; None leaves it to the model's own. `closing`: the question is a part of
    finishing, so it may use what is kept for that. NoAnswer where its provider fails or the money does not reach.
    """

    def __call__(self, role: str, parts: Sequence[Part], limit: int | None = None, *, closing: bool = False) -> str: ...


class KeepImage(Protocol):
    """Keeps an encoded image of `width` by `height` pixels in the record. What it returns can be put into a message."""

    def __call__(self, data: bytes, media_type: str, width: int, height: int) -> ImageRef: ...


@dataclass(frozen=True)
class ToolContext:
    """All that a tool may use of the attempt."""

    sandbox: Sandbox
    deliverable: Deliverable
    cancel: Cancel
    outputs: Path  # the record's outputs/ folder (host path): what was cut for the model is kept whole here
    ask: Ask
    keep_image: KeepImage
    emit: Callable[[str, str], None]  # (kind, text): a note of the tool's in the record
    seconds_left: Callable[[], float]  # until the attempt's time limit


class Tool(Protocol[A]):
    """A tool. One instance serves one attempt, so it may hold state (a shell session); `close` ends that."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """What the model is told, whole sentences."""
        ...

    @property
    def arguments(self) -> type[Arguments]: ...

    def run(self, arguments: A, context: ToolContext) -> ToolResult:
        """Do it. Failures the model can act on are results with status ERROR; what is raised is shown to it too."""
        ...

    def close(self) -> None: ...


def spec_of(tool: Tool[Any]) -> ToolSpec:
    """The tool as a model is told of it."""
    schema = tool.arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    return ToolSpec(name=tool.name, description=tool.description, parameters=schema)
