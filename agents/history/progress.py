"""Steps told in words, as AutoGPT's history tells them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from textwrap import indent

from agentctl.base.messages import Result, Status, Text
from agentctl.base.text import head

from ..models.tokens import count_tokens
from ..state import Step

_SHORT = 200  # characters of a result, where nothing better sums it up


def told_whole(step: Step, thought: str) -> str:
    """Each command of `step` with its status and its output, or why it failed; the thought before, the notes after."""
    told = [f"Thought: {thought}"] if thought else []
    for call, result in zip(step.calls, step.results, strict=True):
        label = "Output" if result.status is Status.OK else "Reason"
        told += [f"Command: {call.name} {call.written()}", f"Status: {result.status}", f"{label}: {_text(result)}"]
    told += [f"Note: {note}" for note in step.notes]
    return "\n".join(f"- {indent(each, '  ').lstrip()}" for each in told)


def told_short(step: Step) -> str:
    """`step` on one line, for want of a summary."""
    told = zip(step.calls, step.results, strict=True)
    return "; ".join(f"{call.name}: {result.status}, {one_line(_text(result), _SHORT)}" for call, result in told)


def one_line(text: str, limit: int | None = None) -> str:
    """`text` on one line, of at most `limit` characters and a mark of what is cut."""
    line = " ".join(text.split())
    return line if limit is None or len(line) <= limit else f"{head(line, limit)}..."


tokens = lru_cache(maxsize=1024)(count_tokens)  # a step's text comes again with every later step


def fitting(texts: Sequence[str], room: int) -> Sequence[str]:
    """The last of `texts` that have at most `room` tokens together; the very last always.

    A token has at least one byte, so short texts need no counting.
    """
    if sum(len(text.encode()) for text in texts) <= room:
        return texts
    used = 0
    for n, text in enumerate(reversed(texts)):
        used += tokens(text)
        if n and used > room:
            return texts[len(texts) - n :]
    return texts


def _text(result: Result) -> str:
    """What `result` says; an image in it is shown beside the text, or not at all."""
    parts = (part.text if isinstance(part, Text) else f"[image {part.width}x{part.height}]" for part in result.parts)
    return "\n".join(parts).strip("\n")
