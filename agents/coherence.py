"""Whether the parts of a scaffold can work together. What can't is refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

from agentctl.base.errors import InputError

from .prompting import VARIABLES
from .scaffold import ATTEMPTS, Scaffold
from .spec import Limits
from .toolbox import make_tools

OPENING = ("autogpt/open_file", "autogpt/open_folder")  # tools that act through the context item `open-files`
_KEY_CHECK_FAULTS = ("delete-report", "report-in-capsule")


def check_coherent(scaffold: Scaffold) -> None:
    """InputError, with what to do, for a combination of parts that can't work, or for one that is of no effect.

    Its tools are made, so those of plug-ins are loaded.
    """
    for tool in make_tools(scaffold, Limits()).values():
        tool.close()
    for problem, remedy in (
        *_of_finish(scaffold),
        *_of_hints(scaffold),
        *_of_faults(scaffold),
        *_of_context(scaffold),
        *_of_roles(scaffold),
    ):
        raise InputError(problem, file=f"scaffold {scaffold.label}", remedy=remedy)


def _of_finish(scaffold: Scaffold) -> Iterator[tuple[str, str]]:
    if not set(VARIABLES["finish"]) & set(scaffold.tools):
        yield "it has no tool to finish with", f"add one of {', '.join(VARIABLES['finish'])} to its tools"


def _of_hints(scaffold: Scaffold) -> Iterator[tuple[str, str]]:
    for variable, ids in VARIABLES.items():
        naming = [hint.id for hint in scaffold.hints if variable in hint.variables]
        if naming and not set(ids) & set(scaffold.tools):
            yield (
                f"{' and '.join(naming)} {'names' if len(naming) == 1 else 'name'} a tool that it has not",
                f"{' or '.join(f'--with {id}' for id in ids)}; or {_without(naming)}",
            )


def _without(names: list[str]) -> str:
    return " ".join(f"--without {name}" for name in names)


def _of_faults(scaffold: Scaffold) -> Iterator[tuple[str, str]]:
    for fault in _KEY_CHECK_FAULTS:
        if fault in scaffold.faults and "keys" not in scaffold.checks:
            yield f"the fault {fault} is one of the key check, which it has not", "--with key-check"
    if "unparsable-ends" in scaffold.faults and scaffold.idle_replies <= ATTEMPTS:
        yield (
            f"{scaffold.idle_replies} idle replies end it anyway, so the fault unparsable-ends changes nothing",
            "--set idle_replies=10",
        )
    if "overshoot" in scaffold.faults and scaffold.budget_usd is None:
        yield "the fault overshoot is one of its own budget, which it has not", "--set budget_usd=4"
    if scaffold.budget_usd is not None and "overshoot" not in scaffold.faults:
        yield "its own budget is looked at only by the fault overshoot", "--with overshoot, or the attempt's --cap"


def _of_context(scaffold: Scaffold) -> Iterator[tuple[str, str]]:
    opening = [id for id in OPENING if id in scaffold.tools]
    if opening and "open-files" not in scaffold.context:
        yield (
            f"nothing shows what {opening[0]} opens",
            f"--with open-files; or {_without(opening)}",
        )
    if "open-files" in scaffold.context and not opening:
        yield (
            "it has no tool that opens files",
            f"--without open-files; or --with {OPENING[0]}",
        )


def _of_roles(scaffold: Scaffold) -> Iterator[tuple[str, str]]:
    asks = {
        "fast": scaffold.history == "autogpt"
        or "giving-up" in scaffold.checks
        or "autogpt/read_webpage" in scaffold.tools,
        "vision": "vision" in scaffold.tools,
    }
    for role in scaffold.roles:
        if not asks[role]:
            yield f"nothing in it asks the {role} model", f"leave roles.{role} out"
