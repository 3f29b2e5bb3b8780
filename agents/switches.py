"""How each factor is switched: whether it is on in a scaffold, and that scaffold with it on or off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from agentctl.base.errors import InputError
from agentctl.prompts.hints import Hint

from .factors import CHECKS, CONTEXT, FAULTS, FINISH_TOOLS, Factor, known_hints, shipped_hints, tools_known
from .scaffold import ContextName, FaultName, Scaffold, code_of_tools

T = TypeVar("T")


@dataclass(frozen=True)
class Switch:
    """How a factor is switched."""

    factor: Factor
    state: Callable[[Scaffold], bool | None]
    put: Callable[[Scaffold, bool], Scaffold]


def switch_of(scaffold: Scaffold, factor: Factor) -> Switch:
    """How `factor` is switched in `scaffold`."""
    match factor.kind:
        case "hint":
            return hint_switch(factor, [known_hints(scaffold)[factor.name]])
        case "hints":
            group = factor.name.removesuffix("-hints")
            return hint_switch(factor, [hint for hint in known_hints(scaffold).values() if hint.group == group])
        case "tool":
            return _tool(factor, tools_known(scaffold))
        case "check":
            return _listed(factor, "checks", _key(CHECKS, factor), list(CHECKS))
        case "context":
            return _listed(factor, "context", _key(CONTEXT, factor), get_args(ContextName))
        case "fault":
            return _listed(factor, "faults", _key(FAULTS, factor), get_args(FaultName))
        case "notes":
            return Switch(
                factor,
                lambda scaffold: scaffold.budget_notes,
                lambda scaffold, wanted: scaffold.model_copy(update={"budget_notes": wanted}),
            )
        case _:
            return Switch(factor, lambda scaffold: scaffold.role is not None, _put_role)


def is_on(scaffold: Scaffold, factor: Factor) -> bool | None:
    """Whether a switch is on in `scaffold`; None for a group of hints of which some are there."""
    return switch_of(scaffold, factor).state(scaffold)


def _listed(factor: Factor, field: str, item: str, order: Sequence[str]) -> Switch:
    """A switch of one item in a tuple of names. `order` is that of all there are; one that is not in it stands last."""
    ranks = {each: rank for rank, each in enumerate(order)}

    def rank(each: str) -> int:
        return ranks.get(each, len(ranks))

    def put(scaffold: Scaffold, wanted: bool) -> Scaffold:
        rest = [each for each in getattr(scaffold, field) if each != item]
        return scaffold.model_copy(update={field: _placed(rest, item, rank) if wanted else tuple(rest)})

    return Switch(factor, lambda scaffold: item in getattr(scaffold, field), put)


def _tool(factor: Factor, order: Sequence[str]) -> Switch:
    """A switch of one tool, with the code of one that is not ours. The tool to finish with stays last."""
    how = _listed(factor, "tools", factor.name, order)

    def put(scaffold: Scaffold, wanted: bool) -> Scaffold:
        made = how.put(scaffold, wanted)
        last = [each for each in made.tools if each in FINISH_TOOLS]
        made = made.model_copy(update={"tools": (*(each for each in made.tools if each not in last), *last)})
        code = code_of_tools([factor.name], Path()) if wanted else {}
        rest = {name: each for name, each in scaffold.code.items() if name in made.tools}
        return made.model_copy(update={"code": rest | code})

    return Switch(factor, how.state, put)


def hint_switch(factor: Factor, hints: Sequence[Hint]) -> Switch:
    """A switch of hints. One that is put in stands where it stands among all that are shipped, else after its group."""
    ids = {hint.id for hint in hints}
    ranks = {id: rank for rank, id in enumerate(shipped_hints())}
    groups = {hint.group: rank for rank, hint in enumerate(shipped_hints().values())}

    def rank(hint: Hint) -> int:
        return ranks.get(hint.id, groups.get(hint.group, len(ranks)))

    def state(scaffold: Scaffold) -> bool | None:
        there = [hint.id in {each.id for each in scaffold.hints} for hint in hints]
        return None if any(there) and not all(there) else all(there)

    def put(scaffold: Scaffold, wanted: bool) -> Scaffold:
        if not wanted:
            left = tuple(hint for hint in scaffold.hints if hint.id not in ids)
            return scaffold.model_copy(update={"hints": left})
        placed = scaffold.hints
        for hint in hints:
            if hint.id not in {each.id for each in placed}:
                placed = _placed(placed, hint, rank)
        return scaffold.model_copy(update={"hints": placed})

    return Switch(factor, state, put)


def _placed(items: Iterable[T], item: T, rank: Callable[[T], int]) -> tuple[T, ...]:
    """`items` with `item` before the first of a higher rank."""
    listed = list(items)
    at = next((n for n, each in enumerate(listed) if rank(each) > rank(item)), len(listed))
    return (*listed[:at], item, *listed[at:])


def _put_role(scaffold: Scaffold, wanted: bool) -> Scaffold:
    if wanted:
        raise InputError("which role?", field="--with role", remedy="name it: --set role=core-agent")
    return scaffold.model_copy(update={"role": None})


def _key(factors: Mapping[Any, Factor], factor: Factor) -> str:
    return next(str(key) for key, each in factors.items() if each == factor)
