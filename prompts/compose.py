"""Puts a prompt together. Pure: the same parts and task give the same bytes and hash, everywhere.

A system template places sections by variable: `${role} ${installs} ${network} ${constraints} ${best_practices} ${tools}
${format}`. What it does not place is appended, each section after an empty line; an empty section leaves no gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pydantic import Field

from agentctl.base.errors import InputError
from agentctl.base.jsonio import canonical, digest
from agentctl.base.values import Frozen

from .hints import Hint
from .parts import Part
from .texts import VARIABLE, fill, read_part, variables_in

__all__ = ["TOLD_OF_PLACE", "Piece", "Place", "Prompt", "PromptParts", "TaskText", "compose", "fill", "read_part"]


class TaskText(Frozen):
    """What a task contributes to its prompt: which level text, and the values that fill it."""

    benchmark: str  # folder below prompts/levels
    level: str  # file in it, without .md
    variables: dict[str, str]


class Place(Frozen):
    """What the agent is told of its sandbox."""

    network: str  # policy: none, registries or open
    apt: bool = False  # whether packages of the system can be installed where there is a network


class PromptParts(Frozen):
    """What a scaffold contributes."""

    system: Part  # template of the system message
    role: Part | None = None
    hints: tuple[Hint, ...] = ()  # in their order
    task: Part | None = None  # template around the task's text, placed by `${task}`
    tools_text: str = ""  # describes the tools, where a protocol tells of them in words
    format_text: str = ""  # says the form of a reply
    tool_names: dict[str, str] = Field(default_factory=dict)  # by the variable that hints name them by


class Piece(Frozen):
    """A stretch of a prompt."""

    text: str
    hint: str | None = None  # id of the hint that it is


class Prompt(Frozen):
    """A composed prompt: the system message in pieces, and the task as the first user message."""

    system: tuple[Piece, ...]
    task: str

    @property
    def system_text(self) -> str:
        """The system message, whole."""
        return "".join(piece.text for piece in self.system)

    @property
    def digest(self) -> str:
        """SHA-256 over both texts."""
        return digest(canonical([self.system_text, self.task]))


Pieces = tuple[Piece, ...]

_APPENDED = ("installs", "network", "constraints", "best_practices", "tools", "format")
TOLD_OF_PLACE = ("report", "results", "capsule")
"""What hints may name of a task, beside tools: paths, as they stand inside."""

_KINDS = {"constraint": "constraints", "best-practice": "best_practices"}


def compose(parts: PromptParts, task: TaskText, place: Place) -> Prompt:
    """The prompt of `task` under `parts`, in a sandbox at `place`. A hint is told at its levels alone.

    InputError where a text names a variable that there is not, a hint one of a tool that the scaffold has not.
    """
    sections = _sections(parts, task, place)
    known = {**{name: (Piece(text=value),) for name, value in parts.tool_names.items()}, **sections}
    placed = variables_in(parts.system.text)
    first = ["role"] if "role" not in placed else []
    after = [name for name in _APPENDED if name not in placed]
    paragraphs = [
        *(sections[name] for name in first),
        *_paragraphs(parts.system, known),
        *(sections[name] for name in after),
    ]
    level = f"levels/{task.benchmark}/{task.level}.md"
    asked = fill(read_part(level), task.variables, name=level)
    if parts.task is not None:
        asked = fill(parts.task.text, {"task": asked}, name=parts.task.name)
    return Prompt(system=_joined(paragraphs, "\n\n"), task=asked)


def _sections(parts: PromptParts, task: TaskText, place: Place) -> dict[str, Pieces]:
    installs = "" if place.network == "none" else read_part("installs/apt.md" if place.apt else "installs/home.md")
    texts = {
        "role": parts.role.text if parts.role is not None else "",
        "installs": installs,
        "network": read_part(f"network/{place.network}.md"),
        "tools": parts.tools_text,
        "format": parts.format_text,
    }
    sections: dict[str, Pieces] = {name: (Piece(text=text),) for name, text in texts.items()}
    paths = {name: task.variables[name] for name in TOLD_OF_PLACE if name in task.variables}
    for kind, name in _KINDS.items():
        told = [hint for hint in parts.hints if hint.kind == kind and hint.told_at(task.level)]
        sections[name] = _listed(name, told, {**paths, **parts.tool_names})
    return sections


def _listed(name: str, hints: Iterable[Hint], variables: Mapping[str, str]) -> Pieces:
    """A numbered list of hints under its heading. Empty where there are none."""
    items = [(Piece(text=f"{n}. {_told(hint, variables)}", hint=hint.id),) for n, hint in enumerate(hints, start=1)]
    if not items:
        return ()
    heading = Part(name=f"prompts/sections/{name}.md", text=read_part(f"sections/{name}.md"))
    return _filled(heading.text, {"items": _joined(items, "\n")}, heading.name)


def _told(hint: Hint, variables: Mapping[str, str]) -> str:
    for variable in hint.variables:
        if variable not in variables:
            raise InputError(
                f"names ${{{variable}}}, which this scaffold has no tool for",
                file=f"hint {hint.id}",
                remedy=f"add such a tool to its tools, or leave the hint out: --without {hint.id}",
            )
    return fill(hint.text, variables, name=f"hints/{hint.id}.md")


def _paragraphs(template: Part, known: Mapping[str, Pieces]) -> list[Pieces]:
    """The template's paragraphs, filled."""
    return [_filled(each, known, template.name) for each in re.split(r"\n(?:[ \t]*\n)+", template.text)]


def _filled(text: str, known: Mapping[str, Pieces], name: str) -> Pieces:
    """`text` with each variable's pieces in its place, in one pass."""
    pieces: list[Piece] = []
    start = 0
    for found in VARIABLE.finditer(text):
        pieces.append(Piece(text=text[start : found.start()]))
        start = found.end()
        if found[0].startswith("$$"):
            pieces.append(Piece(text=found[0][1:]))
        elif found[1] in known:
            pieces += known[found[1]]
        else:
            raise InputError(
                f"can't be filled: there is no ${{{found[1]}}}",
                file=name,
                remedy=f"there are: {', '.join(known)}; $${{{found[1]}}} stands for itself",
            )
    pieces.append(Piece(text=text[start:]))
    return _stripped([piece for piece in pieces if piece.text])


def _stripped(pieces: list[Piece]) -> Pieces:
    """`pieces` without blanks at their end: those that stood before a section which is empty."""
    while pieces and not (last := pieces[-1].text.rstrip()):
        pieces.pop()
    if pieces:
        pieces[-1] = pieces[-1].model_copy(update={"text": last})
    return tuple(pieces)


def _joined(groups: Iterable[Pieces], between: str) -> Pieces:
    """`groups` with `between` between those that hold text."""
    joined: list[Piece] = []
    for group in groups:
        if any(piece.text for piece in group):
            joined += [Piece(text=between), *group] if joined else group
    return tuple(joined)
