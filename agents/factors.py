"""Factors: each is one named switch of a scaffold that changes one thing, and says which surfaces that may touch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal, TypeAlias

from agentctl.base.values import Frozen
from agentctl.prompts.hints import Hint, all_hints

from .plugins import packaged
from .prompting import VARIABLES
from .scaffold import CheckName, ContextName, FaultName, Scaffold
from .spec import Limits
from .toolbox import MAKERS, make_tools

ASKING = ("vision", "autogpt/read_webpage")  # tools that ask a helper's model
FINISH_TOOLS = VARIABLES["finish"]  # an agent must be able to say that it is done: no factor

Surface: TypeAlias = Literal["system", "task", "tools", "history", "finish", "helpers", "end"]
"""Where an attempt can differ: the system message, the task's message, the list of tools beside the messages, the other
messages of a request, what comes of saying that the work is done, which calls of helpers' models are made and how, and
when the attempt ends and what is then collected."""

Kind: TypeAlias = Literal["hint", "hints", "role", "tool", "check", "context", "notes", "fault", "value"]


class Factor(Frozen):
    """One switch. `changes` are the surfaces that it may touch; what is not in it stays the same to the byte."""

    name: str
    kind: Kind
    what: str  # in one line
    changes: frozenset[Surface]


def _factor(name: str, kind: Kind, what: str, *changes: Surface) -> Factor:
    return Factor(name=name, kind=kind, what=what, changes=frozenset(changes))


# In the order in which they are asked. The report check says of keys what the key check says, so behind it that one
# would never have a word.
CHECKS: dict[CheckName, Factor] = {
    "keys": _factor("key-check", "check", "at finish, the report's keys must be the questions", "finish"),
    "report": _factor("report-check", "check", "at finish, the report's form is looked at", "finish"),
    "giving-up": _factor(
        "giving-up-check", "check", "at finish, the fast model is asked whether the agent gives up", "finish", "helpers"
    ),
}
CONTEXT: dict[ContextName, Factor] = {
    "clock": _factor("clock", "context", "every request tells the date and the time", "history"),
    "open-files": _factor("open-files", "context", "every request shows files and folders that are open", "history"),
}
FAULTS: dict[FaultName, Factor] = {
    "overshoot": _factor("overshoot", "fault", "a budget that is looked at only after each command", "end"),
    "delete-report": _factor("delete-report", "fault", "the key check deletes a report that it refuses", "finish"),
    "report-in-capsule": _factor(
        "report-in-capsule", "fault", "the key check looks for the report in the capsule's folder", "finish", "end"
    ),
    "unparsable-ends": _factor(
        "unparsable-ends", "fault", "the third reply in a row that can't be read ends the attempt", "end"
    ),
}
ROLE = _factor("role", "role", "the agent is told what it is; another one: --set role=NAME", "system")
BUDGET_NOTES = _factor(
    "budget-notes", "notes", "what is left is told at marks, and enough is kept for the report", "history", "helpers"
)
VALUES: dict[str, Factor] = {
    factor.name: factor
    for factor in (
        _factor("protocol", "value", "how tools are told and called", "system", "tools", "history"),
        _factor("history", "value", "what of the past is sent", "history", "helpers"),
        _factor("system", "value", "the template of the system message", "system"),
        _factor("role", "value", ROLE.what, "system"),
        _factor("task", "value", "the template around the task; none for the task as it is", "task"),
        _factor("budget_usd", "value", "the budget of the fault overshoot", "end"),
        _factor("idle_replies", "value", "replies in a row without a usable call that end the attempt", "end"),
        _factor("repeat_notice", "value", "the same call and answer this often: the model is told", "history"),
        _factor("repeat_end", "value", "the same call and answer this often: the attempt ends", "end"),
        *(
            _factor(f"roles.{role}.{parameter}", "value", f"{words} of the {role} model", "helpers")
            for role in ("fast", "vision")
            for parameter, words in (("temperature", "temperature"), ("output_limit", "most tokens of a reply"))
        ),
    )
}


def group_factor(group: str) -> Factor:
    """The factor of all hints of a group at once."""
    return _factor(f"{group}-hints", "hints", f"all hints of the group {group}", "system")


def hint_factor(hint: Hint) -> Factor:
    """The factor of one hint."""
    return _factor(hint.id, "hint", hint.what, "system")


def tool_factor(id: str, scaffold: Scaffold) -> Factor:
    """The factor of one tool in `scaffold`. Notes of the harness name the tools, and results of it are told."""
    asks: tuple[Surface, ...] = ("helpers",) if id in ASKING else ()
    return _factor(id, "tool", _about(id, scaffold), _told_in(scaffold), "history", *asks)


def _told_in(scaffold: Scaffold) -> Surface:
    """Where the model is told of the tools."""
    return "tools" if scaffold.protocol == "native" else "system"


def _about(id: str, scaffold: Scaffold) -> str:
    """The first sentence that is told of a tool. One of a plug-in is not run to be asked."""
    if id not in MAKERS:
        return "a tool of a plug-in"
    (tool,) = make_tools(scaffold.model_copy(update={"tools": (id,)}), Limits()).values()
    return tool.description.partition(". ")[0].rstrip(".")


@cache
def shipped_hints() -> dict[str, Hint]:
    """The hints that come with agentctl, by id, in the order of prompts."""
    return {hint.id: hint for hint in all_hints()}


def known_hints(scaffold: Scaffold) -> dict[str, Hint]:
    """All hints that `scaffold` has or could have by name. Its own stand for shipped ones of the same id."""
    return shipped_hints() | {hint.id: hint for hint in scaffold.hints}


def tools_known(scaffold: Scaffold) -> list[str]:
    """Ids of the tools that `scaffold` has or could have by name, but for those to finish with."""
    return [id for id in dict.fromkeys((*MAKERS, *packaged("tools"), *scaffold.tools)) if id not in FINISH_TOOLS]


def switches_of(scaffold: Scaffold) -> Iterator[Factor]:
    """The factors that can be switched on or off in `scaffold`: what it has, and what it could have by name."""
    hints = known_hints(scaffold)
    yield from (group_factor(group) for group in dict.fromkeys(hint.group for hint in hints.values()))
    yield from map(hint_factor, hints.values())
    yield ROLE
    yield from (tool_factor(id, scaffold) for id in tools_known(scaffold))
    yield from CHECKS.values()
    yield from CONTEXT.values()
    yield BUDGET_NOTES
    yield from FAULTS.values()
