"""The one JSON object that a text reply is to hold: found among prose and fences, read, and looked at.

An object is found by its braces, counted outside of strings. So a fence around it is prose like any other, and one
inside a string (code that is to be written to a file) ends nothing. Of the form is repaired what `arguments` repairs.
Single quotes, unknown escapes and missing braces are not: there it would have to be guessed what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentctl.base.text import head

from .arguments import loads_repaired

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\\.|[{}]', re.DOTALL)
_COMMAND_KEYS = ("use_tool", "command")  # the second is of older releases of AutoGPT
_ARGUMENT_KEYS = ("arguments", "args")
# In an object that is meant for the reply, however it is written.
_MARK = re.compile(r"""\b(?:thoughts|use_tool)["']?\s*:|\bcommand["']?\s*:\s*\{""")
_SHOWN = 200  # characters of the model's own text that a problem quotes


class Unreadable(ValueError):
    """A reply that no command can be taken from. Its words go on from "Your last reply ..."."""


@dataclass(frozen=True)
class Written:
    """A command as it was written: its arguments are JSON text, not yet looked at."""

    name: str
    arguments: str


def written_command(text: str) -> Written:
    """The command in a reply. Unreadable says what is wrong where there is none, or more than one."""
    value = _reply_object(text)
    keys = [key for key in _COMMAND_KEYS if key in value]
    if len(keys) != 1:
        raise Unreadable(f"holds {'both `use_tool` and `command`' if keys else 'no `use_tool`'}")
    key, use = keys[0], value[keys[0]]
    if not isinstance(use, dict):
        raise Unreadable(f"holds a `{key}` that is not one object")
    name, given = use.get("name"), [each for each in _ARGUMENT_KEYS if each in use]
    if not isinstance(name, str) or not name.strip():
        raise Unreadable(f"holds a `{key}` without a name")
    if more := set(use) - {"name", *given[:1]}:
        raise Unreadable(f"holds a `{key}` with {min(more)!r} beside name and arguments")
    arguments = use[given[0]] if given else {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return Written(name, arguments)


def short_thought(text: str) -> str:
    """What the model thought, in short, as its reply tells; empty where it does not."""
    try:
        thoughts = _reply_object(text).get("thoughts")
    except Unreadable:
        return ""
    said = thoughts.get("text") if isinstance(thoughts, dict) else thoughts
    return said.strip() if isinstance(said, str) else ""


def _reply_object(text: str) -> dict[str, Any]:
    """The object with thoughts or a command in `text`. Objects of other kinds are prose."""
    found = [piece for piece in _objects(text) if _MARK.search(piece)]
    values = [_read(piece) for piece in found]
    values = [value for value in values if "thoughts" in value or any(key in value for key in _COMMAND_KEYS)]
    if not values:
        raise Unreadable("holds no JSON object with `thoughts` and `use_tool`")
    if len(values) > 1:
        raise Unreadable(f"holds {len(values)} JSON objects with thoughts or commands instead of one")
    return values[0]


def _objects(text: str) -> Iterator[str]:
    """The pieces of `text` that are objects by their braces, outermost ones; of one that is not closed the rest."""
    at = 0
    while (start := text.find("{", at)) >= 0:
        at, depth = len(text), 0
        for token in _TOKEN.finditer(text, start):
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            if not depth:
                at = token.end()
                break
        yield text[start:at]


def _read(piece: str) -> dict[str, Any]:
    try:
        value = loads_repaired(piece)
    except json.JSONDecodeError as error:
        near = head(error.doc[error.pos :], 40)
        where = f"line {error.lineno}, column {error.colno}" + (f", at {near!r}" if near else ", where it ends")
        raise Unreadable(f"holds JSON that can't be read ({error.msg}: {where})") from None
    except ValueError as error:
        raise Unreadable(f"holds JSON that can't be read ({error}); it began {head(piece, _SHOWN)!r}") from None
    assert isinstance(value, dict)
    return value
