"""A model that says what a file says: for tests, examples, and a walk through a scaffold that costs nothing.

The file is JSON or YAML: a list of replies of the main model, or a mapping from role (main, fast, vision, judge,
summary) to such a list. A reply is in chat-completion form,

    {"message": {"content": "...", "tool_calls": [...]}, "finish_reason": "stop", "usage": {...}}

or in short, with `text`, `calls` or both. A call's arguments may be a text, which is then taken as the model's own:

    {"text": "I look around.", "calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, JsonValue, ValidationError

from agentctl.base.errors import InputError, refused
from agentctl.base.jsonio import dumps, read_json
from agentctl.base.values import Frozen

from .protocol import Fault, Kind, ProviderError, RawReply
from .replay import ReplayClient
from .reply import decode_reply

ROLES = ("main", "fast", "vision", "judge", "summary")


class ScriptedCall(Frozen):
    name: str
    arguments: dict[str, JsonValue] | str = Field(default_factory=dict)
    id: str = ""


class ScriptedReply(Frozen):
    """One reply of a script, in either form."""

    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    message: dict[str, JsonValue] | None = None
    finish_reason: str | None = None
    usage: dict[str, JsonValue] | None = None
    model: str = "script"

    def reply(self) -> RawReply:
        """The reply as a client gives it. ValueError where it is in neither form, or in both."""
        short = self.text is not None or bool(self.calls)
        if short == (self.message is not None):
            raise ValueError("a reply has a message, or text and calls, and not both")
        message = self.message if self.message is not None else self._message()
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        try:
            return decode_reply({"choices": [choice], "model": self.model, "usage": self.usage}, provider="script")
        except ProviderError as error:
            raise ValueError(error.words) from None

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _text(call.arguments)}}
                for call in self.calls
            ]
        return message


class ScriptClient(ReplayClient):
    """Gives a script's replies, by role and order."""

    at_end = Fault.OVER

    @property
    def kind(self) -> Kind:
        return "script"

    @classmethod
    def from_file(cls, path: Path) -> ScriptClient:
        """The client of the script in `path`. InputError names the file and the field at fault."""
        return cls.from_turns(_read(path), source=str(path))

    @classmethod
    def from_turns(cls, turns: object, *, source: str = "the script") -> ScriptClient:
        """The client of a script that is read already: a list of replies, or a mapping from roles to lists."""
        return cls(list(_replies(turns, source)), source=source)


def _read(path: Path) -> object:
    if path.suffix not in (".yaml", ".yml"):
        return read_json(path, what="script")
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no such script", file=path) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"can't read the script: {error}", file=path) from None


def _replies(turns: object, source: str) -> Iterator[tuple[str, RawReply]]:
    by_role = turns if isinstance(turns, dict) else {"main": turns}
    for role, entries in by_role.items():
        if role not in ROLES:
            raise InputError("not a role", file=source, field=str(role), remedy=f"roles are {', '.join(ROLES)}")
        if not isinstance(entries, list):
            raise InputError("not a list of replies", file=source, field=role)
        yield from ((role, reply) for reply in _role_replies(entries, source, role))


def _role_replies(entries: Iterable[object], source: str, role: str) -> Iterator[RawReply]:
    for n, entry in enumerate(entries):
        field = f"{role}[{n}]"
        try:
            yield ScriptedReply.model_validate(entry, strict=False).reply()
        except ValidationError as error:
            raise refused(error, file=source, field=field) from None
        except ValueError as error:
            raise InputError(str(error), file=source, field=field) from None


def _text(arguments: dict[str, JsonValue] | str) -> str:
    return arguments if isinstance(arguments, str) else dumps(arguments).decode("utf-8")
