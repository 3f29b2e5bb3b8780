"""From a scaffold to the prompt that a task gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctl.prompts.compose import Place, Prompt, PromptParts, TaskText, compose
from agentctl.tools.tool import Tool, spec_of

from .protocols import PROTOCOLS
from .scaffold import Scaffold

VARIABLES: dict[str, tuple[str, ...]] = {
    "shell": ("bash", "autogpt/execute_shell"),
    "vision": ("vision",),
    "python_file": ("autogpt/execute_python_file",),
    "open_folder": ("autogpt/open_folder",),
    "finish": ("finish", "autogpt/finish"),
}
"""What hints call a tool by, and the ids of the tools that may be meant."""


def tool_variables(scaffold: Scaffold, tools: Mapping[str, Tool[Any]]) -> dict[str, str]:
    """For each variable that hints may use, the name of the scaffold's tool; left out where it has none."""
    names = dict(zip(scaffold.tools, tools, strict=True))
    found = ((variable, next((names[id] for id in ids if id in names), None)) for variable, ids in VARIABLES.items())
    return {variable: name for variable, name in found if name is not None}


def prompt_of(scaffold: Scaffold, tools: Mapping[str, Tool[Any]], task: TaskText, place: Place) -> Prompt:
    """The prompt of `task` under `scaffold`, whose tools are `tools`. InputError where a text can't be filled."""
    protocol = PROTOCOLS[scaffold.protocol]
    parts = PromptParts(
        system=scaffold.system,
        role=scaffold.role,
        hints=scaffold.hints,
        task=scaffold.task,
        tools_text=protocol.tools_text([spec_of(tool) for tool in tools.values()]),
        format_text=protocol.format_text(),
        tool_names=tool_variables(scaffold, tools),
    )
    return compose(parts, task, place)
