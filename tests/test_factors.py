"""Each factor of each shipped scaffold, played both ways: what differs lies within what the factor declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from arms import CALLS, FREE, NARROW, PRICE, RIGHT, WIDE, Turn, finish, look, play, touched, turns

from agentctl.agents.coherence import OPENING
from agentctl.agents.factors import VALUES, Factor, Surface, known_hints, switches_of
from agentctl.agents.prompting import VARIABLES
from agentctl.agents.scaffold import Scaffold, load_scaffold, shipped_scaffolds
from agentctl.agents.switches import is_on
from agentctl.agents.switching import switch, value_of
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace

load = cache(load_scaffold)

OTHER: dict[str, tuple[object, ...]] = {  # values to set: the first that is not the scaffold's own
    "protocol": ("native", "plain"),
    "history": ("full", "condense"),
    "system": ("minimal", "plain"),
    "role": ("autogpt", "core-agent"),
    "task": ("quoted", "none"),
    "budget_usd": ("0.05",),
    "idle_replies": (2,),
    "repeat_notice": (3,),
    "repeat_end": (5,),
    "roles.fast.temperature": (0.1,),
    "roles.fast.output_limit": (100,),
    "roles.vision.temperature": (0.1,),
    "roles.vision.output_limit": (100,),
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    folder = tmp_path_factory.mktemp("arms")
    work, scratch = folder / "workspace", folder / "scratch"
    (work / "capsule-0000001").mkdir(parents=True)
    scratch.mkdir()
    mounts = (Mount(inside=str(work), host=work),)
    workspace = Workspace(mounts=mounts, scratch=scratch, material=str(work / "capsule-0000001"))
    opened = open_sandbox(SandboxSpec(kind="local"), workspace, owner_env={})
    yield opened
    opened.close()


@dataclass(frozen=True)
class Pair:
    """Two arms that differ in one factor, or in one and what it can't do without."""

    base: Scaffold
    switched: Scaffold
    declared: frozenset[Surface]


def pair(scaffold: Scaffold, factor: Factor) -> Pair:
    """The two arms of a factor. What it needs or rules out is brought about in both, or told by `declared`."""
    if factor.kind == "value":
        base = with_what_it_needs(scaffold, factor.name)
        value = next(each for each in OTHER[factor.name] if str(value_of(base, factor)) != str(each))
        return Pair(base, again(base, set_={factor.name: value}), factor.changes)
    off: list[str] = []
    on: list[str] = []
    values: dict[str, object] = {}
    match factor.kind:
        case "tool":
            return of_tool(scaffold, factor)
        case "role" if scaffold.role is None:
            return Pair(scaffold, switch(scaffold, set_={"role": "core-agent"}), factor.changes)
        case "hints":
            return of_group(scaffold, factor)
    base = with_what_it_needs(scaffold, factor.name)
    if is_on(base, factor):
        off.append(factor.name)
    else:
        on.append(factor.name)
    declared = factor.changes
    if factor.name == "overshoot":
        values["budget_usd"] = "0.05"
    if factor.name == "open-files":  # and the tools that open, which are of no use without
        hints = naming(base, "open_folder")
        base = again(base, without=hints) if hints else base
        there = [id for id in OPENING if id in base.tools]
        (off if there else on).extend(there or OPENING)
        declared = declared | {"system", "tools"}
    if factor.kind == "hint":
        base = with_tools_of(base, factor.name)
    return Pair(base, again(base, with_=on, without=off, set_=values), declared)


def again(scaffold: Scaffold, **switches: Any) -> Scaffold:
    """Switched, also where it was before."""
    return switch(scaffold.model_copy(update={"changes": ()}), **switches)


def naming(scaffold: Scaffold, variable: str) -> list[str]:
    return [hint.id for hint in scaffold.hints if variable in hint.variables]


def with_tools_of(scaffold: Scaffold, hint: str) -> Scaffold:
    """With the tools that a hint names."""
    needed = [VARIABLES[name] for name in known_hints(scaffold)[hint].variables if name in VARIABLES]
    wanted = [ids[-1] for ids in needed if not set(ids) & set(scaffold.tools)]
    more = ["open-files"] if set(wanted) & set(OPENING) else []
    return again(scaffold, with_=[*wanted, *more]) if wanted else scaffold


def of_group(scaffold: Scaffold, factor: Factor) -> Pair:
    group = factor.name.removesuffix("-hints")
    base = scaffold
    for hint in known_hints(scaffold).values():
        base = with_tools_of(base, hint.id) if hint.group == group else base
    on = is_on(base, factor)
    return Pair(base, again(base, **({"without": [factor.name]} if on else {"with_": [factor.name]})), factor.changes)


def of_tool(scaffold: Scaffold, factor: Factor) -> Pair:
    id = factor.name
    twin = next(
        (each for each in scaffold.tools if each != id and each.rpartition("/")[2] == id.rpartition("/")[2]), None
    )
    base = again(scaffold, without=[twin]) if twin else scaffold
    for variable, ids in VARIABLES.items():
        if id in ids and (hints := naming(base, variable)):
            base = again(base, without=hints)
    declared = factor.changes
    more: list[str] = []
    if id in OPENING:
        left = [each for each in base.tools if each in OPENING and each != id]
        if not left:
            more, declared = ["open-files"], declared | {"history"}
    switches = {"without": [id]} if id in base.tools else {"with_": [id, *more]}
    return Pair(base, again(base, **switches), declared)


def with_what_it_needs(scaffold: Scaffold, name: str) -> Scaffold:
    match name:
        case "delete-report" | "report-in-capsule" if "keys" not in scaffold.checks:
            return switch(scaffold, with_=["key-check"])
        case "unparsable-ends" if scaffold.idle_replies <= 3:
            return switch(scaffold, set_={"idle_replies": 10})
        case "budget_usd":
            return switch(scaffold, with_=["overshoot"], set_={"budget_usd": 90})
        case "roles.fast.temperature" | "roles.fast.output_limit" if scaffold.history != "autogpt":
            return switch(scaffold, with_=["giving-up-check"])
        case "roles.vision.temperature" | "roles.vision.output_limit" if "vision" not in scaffold.tools:
            return switch(scaffold, with_=["vision"])
        case _:
            return scaffold


def factors_of(name: str) -> list[Factor]:
    return [*switches_of(load(name)), *VALUES.values()]


def is_quick(name: str, factor: Factor) -> bool:
    """Each factor is tried quickly in one scaffold that has it, those of the loop's own in two; the rest is slow."""
    match factor.kind:
        case "hint" | "hints" | "role":
            return name == "core-agent"
        case "tool":
            return name == ("core-agent" if factor.name in load("core-agent").tools else "core-agent-native")
        case _:
            return name in ("core-agent", "core-agent-native")


def all_of_all() -> list[Any]:
    return [
        pytest.param(
            name,
            factor,
            id=f"{name}:{factor.kind}:{factor.name}",
            marks=[] if is_quick(name, factor) else [pytest.mark.slow],
        )
        for name in shipped_scaffolds()
        for factor in factors_of(name)
    ]


@pytest.mark.parametrize(("name", "factor"), all_of_all())
def test_what_differs_is_what_the_factor_declares(name: str, factor: Factor, sandbox: Sandbox, tmp_path: Path) -> None:
    arms = pair(load(name), factor)
    script = script_of(factor, arms.base)
    window = NARROW if factor.name == "history" else WIDE
    price = PRICE if factor.name in ("overshoot", "budget_usd") else FREE
    one, other = (
        play(arm, script, sandbox, tmp_path / each, level=level_of(factor), window=window, price=price)
        for each, arm in (("one", arms.base), ("other", arms.switched))
    )
    differs = touched(one, other)
    assert differs <= arms.declared, f"{sorted(differs)} differ, declared are {sorted(arms.declared)}"
    assert differs, "nothing differs"


def script_of(factor: Factor, base: Scaffold) -> list[Turn]:
    """Replies that bring the factor into play. A tool is called once at most: calling what is not there has an end."""
    finishing = [finish(base, RIGHT)] * 3
    match factor.kind:
        case "hint" | "hints" | "role":
            return [look(base), *finishing]
        case "tool":
            return [*([Turn(CALLS[factor.name])] if factor.name in CALLS else []), *finishing]
        case _:
            return turns(base)


def level_of(factor: Factor) -> str:
    """A level at which a hint is told."""
    return next(iter(known_hints(load("plain"))[factor.name].levels), "hard") if factor.kind == "hint" else "hard"
