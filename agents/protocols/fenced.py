"""Calls written into the text of a reply: as fenced JSON, or between the tags that many open models were taught."""

from __future__ import annotations

import json
import re

from agentctl.base.messages import Call, Text

from ..models.protocol import FinishReason, RawReply
from .arguments import loads_repaired, read_call
from .protocol import Tools

_FENCED = r"^[ \t]*```(?:json|tool|tool_call)?[ \t]*\n(.*?)^[ \t]*```[ \t]*$"
_TAGGED = r"<tool_call>(.*?)</tool_call>"  # where a server leaves them in the text
_BLOCK = re.compile(f"{_FENCED}|{_TAGGED}", re.DOTALL | re.MULTILINE)


def fenced_calls(reply: RawReply, step: int, tools: Tools, *, known_only: bool) -> list[Call]:
    """The calls in the fenced or tagged blocks of the reply's text, in order.

    A block is a call when it holds one JSON object with the keys `name` and `arguments` and no others. With
    `known_only` a name that is no tool's is taken for prose; else it is a call that is answered with an error.
    """
    cut = reply.finish is FinishReason.LENGTH
    calls: list[Call] = []
    for part in reply.parts:
        if not isinstance(part, Text):
            continue
        for block in _BLOCK.finditer(part.text):
            try:
                value = loads_repaired(block[block.lastindex or 0])
            except ValueError:
                continue
            if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
                continue
            name = value["name"]
            if not isinstance(name, str) or (known_only and name not in tools):
                continue
            raw = json.dumps(value["arguments"], ensure_ascii=False, separators=(",", ":"))
            call = read_call(f"c{step}.{len(calls) + 1}", name, raw, tools, cut=cut)
            calls.append(call.model_copy(update={"in_text": True}))
    return calls


def prose(text: str) -> str:
    """`text` without its fenced or tagged blocks."""
    return _BLOCK.sub("", text).strip()
