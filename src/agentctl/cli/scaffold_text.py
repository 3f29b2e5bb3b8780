"""What `agentctl scaffold` shows: lists, what a scaffold is made of, its prompt, and how two differ."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from agentctl.agents.factors import VALUES, Factor, switches_of
from agentctl.agents.scaffold import Scaffold
from agentctl.agents.switches import is_on
from agentctl.agents.switching import value_of
from agentctl.base.values import Frozen
from agentctl.prompts.compose import Piece, Prompt
from agentctl.prompts.hints import Hint
from agentctl.prompts.parts import Part

from .words import folded, padded, wrapped

_LABEL = 11  # columns
_SURFACES = ("system", "task", "tools", "history", "finish", "helpers", "end")


class Line(Frozen):
    """A factor as a scaffold has it: whether it is on (None: a group of which some are), or its value."""

    name: str
    kind: str
    what: str
    changes: tuple[str, ...]
    on: bool | None = None
    value: Any = None


class Difference(Frozen):
    """A field in which two scaffolds differ: what of it each has and the other has not, or its two values."""

    field: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def factor_lines(scaffold: Scaffold) -> list[Line]:
    """All factors of a scaffold, switches first, and how they stand in it."""
    lines = {factor.name: _line(factor, on=is_on(scaffold, factor)) for factor in switches_of(scaffold)}
    for name, factor in VALUES.items():
        line = lines.get(name) or _line(factor)  # the role is a switch and has a value
        lines[name] = line.model_copy(update={"value": _shown(value_of(scaffold, factor))})
    return list(lines.values())


def _line(factor: Factor, *, on: bool | None = None) -> Line:
    changes = tuple(surface for surface in _SURFACES if surface in factor.changes)
    return Line(name=factor.name, kind=factor.kind, what=factor.what, changes=changes, on=on)


def _shown(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)


def table(scaffolds: Sequence[Scaffold]) -> list[tuple[Line, str]]:
    """All factors of some scaffolds, and in which of them each is on, or which value it has in which."""
    lines: dict[str, Line] = {}
    told: dict[str, dict[str, list[str]]] = {}
    for scaffold in scaffolds:
        for line in factor_lines(scaffold):
            before = lines.get(line.name)
            touched = {*line.changes, *(before.changes if before else ())}
            changes = tuple(surface for surface in _SURFACES if surface in touched)
            lines[line.name] = line.model_copy(update={"changes": changes})
            if state := _state(line):
                told.setdefault(line.name, {}).setdefault(state, []).append(scaffold.name)
    return [(line, _where(told.get(name, {}), alone=len(scaffolds) == 1)) for name, line in lines.items()]


def _state(line: Line) -> str:
    if line.value is not None or line.kind == "value":
        return str(line.value or "")
    return {True: "on", False: "", None: "partly"}[line.on]


def _where(told: dict[str, list[str]], *, alone: bool) -> str:
    if alone:
        return ", ".join(told)
    return "; ".join((f"{state}: " if state != "on" else "") + ", ".join(names) for state, names in told.items())


def as_parts(scaffold: Scaffold, lines: Sequence[Line], width: int) -> str:
    """What `scaffold` is made of."""
    values = [
        line
        for line in lines
        if line.kind == "value" and line.name not in ("system", "role", "task", "history", "protocol")
    ]
    switches = [line for line in lines if line.kind not in ("value", "hint", "hints")]
    hints = [line for line in lines if line.kind in ("hint", "hints")]
    rows = {
        "name": scaffold.label,
        "digest": scaffold.digest[:12],
        "protocol": scaffold.protocol,
        "system": scaffold.system.name,
        "role": scaffold.role.name if scaffold.role else "none",
        "task": scaffold.task.name if scaffold.task else "as it is",
        "tools": ", ".join(scaffold.tools),
        "history": scaffold.history,
        "context": ", ".join(scaffold.context) or "none",
        "checks": ", ".join(scaffold.checks) or "none",
        "values": ", ".join(f"{line.name} {line.value}" for line in values if line.value is not None),
        "hints": ", ".join(hint.id for hint in scaffold.hints) or "none",
    }
    shown = [line for name, text in rows.items() for line in _row(name, text, width)]
    told = [*(wrapped(scaffold.description, width, most=3) if scaffold.description else []), *shown, ""]
    told += ["factors: + on, - off, ~ partly on (agentctl scaffold factors says what each is)"]
    for some in (hints, switches):
        told += _row("", " ".join(f"{_mark(line.on)}{line.name}" for line in some), width)
    return "\n".join(told)


def _row(name: str, text: str, width: int) -> list[str]:
    """A row of a table: its name, and its text on as many lines as it takes."""
    lines = wrapped(text, width - _LABEL, most=40) or [""]
    return [padded(name if n == 0 else "", _LABEL) + line for n, line in enumerate(lines)]


def _mark(on: bool | None) -> str:
    return {True: "+", False: "-", None: "~"}[on]


def as_prompt(prompt: Prompt, *, header: str, width: int, fold: bool, colour: bool) -> str:
    """A prompt, whole. What a hint says stands after a line with its id. `fold`: long lines at `width`."""
    room = width if fold else sys.maxsize
    lines = [_rule(header, width), _rule("system message", width)]
    for piece in _told(prompt.system):
        marked = [_style(f"[{piece.hint}]", colour, fg="cyan")] if piece.hint else []
        lines += [*marked, *folded(piece.text, room)]
    lines += [_rule("task", width), *folded(prompt.task, room), _rule("end", width)]
    return "\n".join(lines)


def _told(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """`pieces` on lines of their own: what is between two is not lost, a line feed at an end is."""
    text = ""
    for piece in pieces:
        if piece.hint is None:
            text += piece.text
            continue
        if text.strip():
            yield Piece(text=text.removesuffix("\n").removeprefix("\n"))
        text = ""
        yield piece
    if text.strip():
        yield Piece(text=text.removeprefix("\n"))


def _rule(words: str, width: int) -> str:
    return padded(f"--- {words} " + "-" * width, width).replace("…", "-")


def _style(text: str, colour: bool, **style: Any) -> str:
    return click.style(text, **style) if colour else text


def as_factors(rows: Sequence[tuple[Line, str]], width: int) -> str:
    """A table of factors: what each is, what it may touch, and in which scaffolds it is on."""
    told = []
    for line, on in rows:
        told.append(f"{padded(line.name, 30)} {padded(line.kind, 8)} {', '.join(line.changes)}".rstrip())
        told += [f"    {each}" for each in wrapped(line.what + (f" ({on})" if on else ""), width - 4)]
    return "\n".join(told)


def as_markdown(rows: Sequence[tuple[Line, str]]) -> str:
    """The same table for a document."""
    lines = [
        f"| `{line.name}` | {line.kind} | {line.what.replace('|', chr(92) + '|')} | {', '.join(line.changes)} | {on} |"
        for line, on in rows
    ]
    return "\n".join(["| factor | kind | what | may touch | on in |", "|---|---|---|---|---|", *lines])


def differences(a: Scaffold, b: Scaffold) -> list[Difference]:
    """The fields in which two scaffolds differ, names apart. Where only the order differs, all of both are told."""
    found = []
    for field in Scaffold.model_fields:
        one, other = getattr(a, field), getattr(b, field)
        if field in ("name", "description", "changes") or one == other:
            continue
        mine, theirs = _members(one), _members(other)
        apart = [each for each in mine if each not in theirs], [each for each in theirs if each not in mine]
        if not any(apart):
            apart = mine, theirs
        found.append(Difference(field=field, a=tuple(map(_word, apart[0])), b=tuple(map(_word, apart[1]))))
    return found


def _members(value: Any) -> list[Any]:
    """What a field holds, one by one."""
    if isinstance(value, dict):
        return list(value.items())
    return list(value) if isinstance(value, tuple) else [] if value is None else [value]


def _word(member: Any) -> str:
    """A hint by its id, a text by its name, all else as it is."""
    match member:
        case Hint():
            return member.id
        case Part():
            return member.name
        case (name, inner):
            return f"{name}: {inner}"
        case _:
            return str(member)


def prompt_difference(a: Prompt, b: Prompt, names: tuple[str, str]) -> list[str]:
    """The unified difference of two prompts."""
    one, other = ((f"{prompt.system_text}\n\n{prompt.task}\n").splitlines() for prompt in (a, b))
    return list(difflib.unified_diff(one, other, *names, n=1, lineterm=""))


def as_difference(fields: Sequence[Difference], prompt: Sequence[str], *, width: int, colour: bool) -> str:
    """How two scaffolds differ, for people."""
    told = []
    for each in fields:
        told += [each.field]
        for mark, words, style in (("-", each.a, "red"), ("+", each.b, "green")):
            text = ", ".join(words) or "nothing"
            told += [
                _style(line, colour, fg=style) for line in wrapped(f"  {mark} {text}", width, indent="    ", most=20)
            ]
    told += ["", *([] if prompt else ["the prompts are the same"])]
    for line in prompt:
        paint = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1])
        told += [_style(each, colour, fg=paint) for each in folded(line, width)]
    return "\n".join(told)
