"""Strict reading of a report: nothing that only a lenient reader takes, and nothing lost on the way.

Python's reader takes NaN, overflowing numbers and keys that stand twice, and says nothing; here each is kept as found,
so that a check can name it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from agentctl.base.text import head

_BOM = b"\xef\xbb\xbf"


class Literal:
    """Stands for a number that JSON doesn't have: NaN, an infinity, one too large for a float."""

    def __init__(self, text: str) -> None:
        self.text = head(text, 30)


class Members(list[tuple[str, Any]]):
    """An object as read: its members in order, duplicates kept."""


class NotJson(Exception):
    """The bytes are not one strict JSON value; the message says where and why."""


def parse(data: bytes) -> Any:
    """The JSON value in `data`, objects as Members and numbers that JSON doesn't have as Literals. Raises NotJson."""
    if data.startswith(_BOM):
        raise NotJson("It starts with a byte-order mark, which graders can't read. Write it as UTF-8 without one.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(f"Not UTF-8 at byte {error.start} ({error.reason}).") from None
    if not text.strip():
        raise NotJson("The file is empty.")
    try:
        return json.loads(
            text, object_pairs_hook=Members, parse_constant=Literal, parse_float=_finite, parse_int=_finite_int
        )
    except json.JSONDecodeError as error:
        hint = " (one JSON value is allowed, nothing after it)" if error.msg == "Extra data" else ""
        raise NotJson(f"Not JSON: {error.msg} at line {error.lineno}, column {error.colno}{hint}.") from None
    except RecursionError:
        raise NotJson("Not usable: it is nested too deeply.") from None


def _finite(text: str) -> float | Literal:
    number = float(text)
    return number if math.isfinite(number) else Literal(text)


def _finite_int(text: str) -> int | Literal:
    return int(text) if len(text) <= 300 else Literal(text)  # a float has at most 309 digits before its point


def plain(value: Any) -> Any:
    """`value` with objects as dicts, and 0 for each literal that is no number."""
    if isinstance(value, Members):
        return {key: plain(member) for key, member in value}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return 0 if isinstance(value, Literal) else value


def literals(value: Any) -> Iterator[str]:
    """The text of each Literal in `value`, at any depth."""
    if isinstance(value, Literal):
        yield value.text
    elif isinstance(value, Members):
        for _, member in value:
            yield from literals(member)
    elif isinstance(value, list):
        for member in value:
            yield from literals(member)


def name_of(value: Any) -> str:
    """What a JSON value is, with its article."""
    if value is None:
        return "null"
    if isinstance(value, Literal):
        return value.text
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return kinds.get(type(value), "an object")
