"""What is said between an agent and its model: parts, and messages made of them.

A message is normalised once, when it is made part of an attempt (see `agents.transcript`), and never changes after.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, model_serializer

from .values import Frozen


class _Part(Frozen):
    """A part says its kind wherever it is written, also where defaults are left out."""

    kind: str

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}


class Text(_Part):
    """Plain text."""

    kind: Literal["text"] = "text"
    text: str


class ImageRef(_Part):
    """An image, kept by content in the record's `images/`; the bytes are put in when a request is encoded."""

    kind: Literal["image"] = "image"
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")  # SHA-256 of the encoded image file; names it in the record
    media_type: str  # image/png, image/jpeg, image/webp or image/gif
    width: int  # pixels
    height: int  # pixels


class Call(_Part):
    """One call of a tool that the model asked for.

    `id` is ours (`c<step>.<n>`), unique in the attempt. `arguments` is None when they did not parse or did not fit the
    tool: then `error` says why and the call is never run; `raw` is what it wrote, to the letter.
    """

    kind: Literal["call"] = "call"
    id: str
    name: str
    arguments: dict[str, JsonValue] | None
    raw: str = ""  # empty where it is just the arguments as compact JSON
    error: str | None = None
    in_text: bool = False  # written into the reply's text, not given in the provider's field for calls

    def written(self) -> str:
        """The arguments as the model wrote them."""
        return self.raw or json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))


class Status(StrEnum):
    """How one call of a tool ended."""

    OK = "ok"
    ERROR = "error"  # the tool ran and says that it failed, or the call could not be run at all
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    NOT_RUN = "not_run"  # an earlier call of the same reply ended the attempt


class Result(_Part):
    """The answer to one call: what the model is shown."""

    kind: Literal["result"] = "result"
    call_id: str
    status: Status = Status.OK
    parts: tuple[Annotated[Text | ImageRef, Field(discriminator="kind")], ...]


class Opaque(_Part):
    """A provider's own part (signed thinking, encrypted reasoning): kept, and sent back to the letter."""

    kind: Literal["opaque"] = "opaque"
    provider: str
    field: str  # the key of the provider's message that held it
    data: JsonValue


Part: TypeAlias = Annotated[Text | ImageRef | Call | Result | Opaque, Field(discriminator="kind")]


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Message(Frozen):
    """One message. A TOOL message holds exactly one Result; an ASSISTANT message may hold Calls."""

    role: Role
    parts: tuple[Part, ...]
    finish: str = ""  # of an ASSISTANT message: why it ended there, as `agents.models.protocol.FinishReason`

    def text(self) -> str:
        """The text parts, joined by line feeds."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class ToolSpec(Frozen):
    """A tool as a model is told of it. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]
