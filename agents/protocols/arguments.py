"""Arguments of a call, from what a model wrote to what a tool takes. A call whose arguments did not parse never runs.

Repairs, each of which can change only the form: a code fence around the whole is taken off; a comma before a closing
bracket is dropped; line feeds and tabs written literally inside a string are accepted. Nothing is ever completed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import JsonValue, ValidationError

from agentctl.base.messages import Call
from agentctl.base.text import clean, head
from agentctl.tools.tool import Tool, spec_of

from .protocol import Tools

_FENCE = re.compile(r"\A\s*```[\w-]*\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\\.|,(?=\s*[}\]])', re.DOTALL)
_SHOWN = 300  # characters of the model's own text that an error quotes


def loads_repaired(text: str) -> JsonValue:
    """The JSON value in `text`, repaired as above where it has to be. ValueError where it still does not parse."""
    try:
        plain: JsonValue = _loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        return plain
    fenced = _FENCE.match(text)
    body = fenced.group(1) if fenced else text
    body = _STRING_OR_COMMA.sub(lambda found: found.group() if found.group() != "," else "", body)
    try:
        value: JsonValue = _loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _loads(text: str) -> JsonValue:
    value: JsonValue = json.loads(text, strict=False, parse_constant=_refuse, object_pairs_hook=_object)
    return value


def _object(members: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """A key that is there twice with two values is not read as either of them."""
    value = dict(members)
    if len(value) < len(members) and any(value[key] != given for key, given in members):
        raise ValueError("a key is there twice, with two values")
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def cleaned(value: JsonValue) -> JsonValue:
    """`value` with every text in it made valid Unicode."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): cleaned(item) for key, item in value.items()}
    return value


def read_call(call_id: str, name: str, raw: str, tools: Tools, *, cut: bool = False) -> Call:
    """The call that a model wrote as `name` with arguments `raw`. `cut`: the reply hit its output limit."""
    name, raw = clean(name), clean(raw)

    def refused(why: str) -> Call:
        return Call(id=call_id, name=name or "unnamed", arguments=None, raw=raw, error=why)

    tool = tools.get(name)
    if tool is None:
        return refused(f"There is no tool named {name!r}. The tools are: {', '.join(sorted(tools))}.")
    if cut:
        return refused(
            "Not run: the reply was cut off at the output limit, so this call may be incomplete. "
            "Write it again in smaller pieces."
        )
    try:
        value = loads_repaired(raw) if raw.strip() else {}
    except ValueError as error:
        why = (
            f"{error.msg} at line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else str(error)
        )
        return refused(
            f"Not run: the arguments are not JSON ({why}); they may have been cut off. "
            f"They began: {head(raw, _SHOWN)!r}. {_expected(tool)}"
        )
    if not isinstance(value, dict):
        return refused(f"Not run: the arguments must be a JSON object, not {_kind(value)}. {_expected(tool)}")
    arguments = cleaned(value)
    assert isinstance(arguments, dict)
    problem = misfit(tool, arguments)
    if problem:
        return refused(f"Not run: {problem}. {_expected(tool)}")
    plain = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return Call(id=call_id, name=name, arguments=arguments, raw="" if raw == plain else raw)


def misfit(tool: Tool[Any], arguments: dict[str, JsonValue]) -> str | None:
    """What is wrong with `arguments`, name by name; None where they fit the tool."""
    try:
        tool.arguments.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        return "; ".join(
            f"{'.'.join(str(step) for step in item['loc']) or 'arguments'}: {item['msg']}" for item in error.errors()
        )
    return None


def _expected(tool: Tool[Any]) -> str:
    properties = json.dumps(spec_of(tool).parameters, ensure_ascii=False, separators=(",", ":"))
    return f"{tool.name} takes {properties}"


def _kind(value: JsonValue) -> str:
    if value is None:
        return "null"
    return {bool: "a truth value", int: "a number", float: "a number", str: "a text", list: "a list"}[type(value)]
