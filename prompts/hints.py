"""Hints: pieces of advice, one file each, that a scaffold holds or holds not.

A file is YAML between two lines of `---`, then the text. Its name without .md is the hint's id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from agentctl.base.errors import InputError, refused
from agentctl.base.paths import means_file
from agentctl.base.values import Frozen

from .calls import CallMade, Deed, acts_of, fits
from .texts import read_part, variables_in

__all__ = ["Applies", "CallMade", "Followed", "Hint", "all_hints", "load_hint"]

HINT_FILES = frozenset({".md"})
_FORM = "YAML between two lines of ---, then the text; see prompts/hints"


class Applies(Frozen):
    """Where a hint has something to say: where a file was staged that fits one of the patterns (`*.pdf`)."""

    files: Annotated[tuple[str, ...], Field(min_length=1)]


class Followed(Deed):
    """When a hint was acted on: `at_least` so many calls of this kind; with `paths`, so many different paths in them.

    `never`: no such call may be made. `before`: calls count only until the first call of that kind. `when`: there was
    an occasion only where a call of that kind was made.
    """

    at_least: int = Field(default=1, ge=1)
    never: bool = False
    before: Deed | None = None
    when: Deed | None = None

    def by(self, calls: Sequence[CallMade], tools: Mapping[str, str]) -> bool | None:
        """Whether `calls` follow; None where there was no occasion."""
        acts = acts_of(calls)

        def first(deed: Deed) -> int | None:
            return next((n for n, act in enumerate(acts) if deed.meant(act, tools)), None)

        if self.when is not None and first(self.when) is None:
            return None
        until = None if self.before is None else first(self.before)
        if self.before is not None and until is None:
            return None
        meant = [act for act in acts[:until] if self.meant(act, tools)]
        if self.never:
            return not meant
        counted = frozenset[str | int]()
        for act in meant:
            counted |= self.paths_in(act) if self.paths else {act.call}
        return len(counted) >= self.at_least


class Hint(Frozen):
    """One piece of advice. What is told of it is `text`, with tools named by variable: `${shell}`, `${vision}`."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    kind: Literal["constraint", "best-practice"]
    group: str = "own"  # where it comes from: core-agent, autogpt, ...
    levels: tuple[str, ...] = ()  # at which it is told; empty: at every one
    what: Annotated[str, Field(min_length=1)]  # in a few words, for people
    why: str = ""
    source: str = ""
    text: Annotated[str, Field(min_length=1)]
    applies: Applies | None = None
    followed: Followed | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that its text names."""
        return variables_in(self.text)

    def told_at(self, level: str) -> bool:
        """Whether it is told at `level`."""
        return not self.levels or level in self.levels

    def applies_to(self, paths: Sequence[str]) -> bool | None:
        """Whether it has something to say of a task with the staged files `paths`; None where it does not tell."""
        return None if self.applies is None else any(fits(path, self.applies.files) for path in paths)

    def was_followed(self, calls: Sequence[CallMade], tools: Mapping[str, str]) -> bool | None:
        """Whether the calls that were run, in their order, follow it. `tools`: names of the scaffold's by variable.

        None where it does not tell, or where there was no occasion.
        """
        return None if self.followed is None else self.followed.by(calls, tools)


def load_hint(name: str) -> Hint:
    """The hint shipped with the id `name`, or the one in the .md file of that path. InputError names file and field."""
    if not means_file(name, HINT_FILES):
        if name not in _shipped():
            raise InputError(f"no hint is named {name!r}", remedy=f"one of: {', '.join(_shipped())}; or a .md file")
        return _parsed(read_part(f"hints/{name}.md"), name, f"prompts/hints/{name}.md")
    path = Path(name)
    try:
        return _parsed(path.read_text(encoding="utf-8-sig"), path.stem, name)
    except (OSError, ValueError) as error:  # no UTF-8, or what no path can be
        problem = "no such hint file" if isinstance(error, FileNotFoundError) else f"can't be read: {error}"
        raise InputError(problem, file=name) from None


@cache
def all_hints() -> tuple[Hint, ...]:
    """All shipped hints, in the order in which prompts tell them."""
    return tuple(load_hint(id) for id in _shipped())


@cache
def _shipped() -> tuple[str, ...]:
    """Ids of the shipped hints: first those that hints/order.txt lists, in its order."""
    there = sorted(entry.name for entry in files(__package__).joinpath("hints").iterdir())
    ids = [name.removesuffix(".md") for name in there if name.endswith(".md")]
    listed = read_part("hints/order.txt").split()
    return (*(id for id in listed if id in ids), *(id for id in ids if id not in listed))


def _parsed(text: str, id: str, file: str) -> Hint:
    import yaml

    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    if not text.startswith("---\n") or not body.strip():
        raise InputError("is no hint", file=file, remedy=_FORM)
    try:
        fields: Any = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that there is not
        raise InputError(f"not YAML: {' '.join(str(error).split())}", file=file, remedy=_FORM) from None
    if not isinstance(fields, dict):
        raise InputError("its head is no table of fields", file=file, remedy=_FORM)
    for taken in ("id", "text"):
        if taken in fields:
            raise InputError(f"the {taken} does not stand in the head", file=file, field=taken, remedy=_FORM)
    try:
        return Hint.model_validate({**fields, "id": id, "text": body.strip()})
    except ValidationError as error:
        raise refused(error, file=file) from None
