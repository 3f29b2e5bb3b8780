"""Puts a prompt together. Pure: the same parts and task give the same bytes and hash, everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from string import Template

from agentctl.base.errors import InputError
from agentctl.base.jsonio import canonical, digest
from agentctl.base.values import Frozen


class TaskText(Frozen):
    """What a task contributes to its prompt: which level text, and the values that fill it."""

    benchmark: str  # folder below prompts/levels
    level: str  # file in it, without .md
    variables: dict[str, str]


class Prompt(Frozen):
    """A composed prompt: the system message, and the task as the first user message."""

    system: str
    task: str

    @property
    def digest(self) -> str:
        """SHA-256 over both texts."""
        return digest(canonical([self.system, self.task]))


@cache
def read_part(name: str) -> str:
    """The text of the data file `name` below prompts/, without its final line feed."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputError("a prompt part is named by its place below prompts/", file=name)
    try:
        return files(__package__).joinpath(name).read_text(encoding="utf-8").rstrip("\n")
    except (FileNotFoundError, IsADirectoryError):
        raise InputError("no such prompt part", file=f"prompts/{name}") from None


def fill(template: str, variables: Mapping[str, str], *, name: str) -> str:
    """`template` with each `${variable}` replaced, in one pass: what a value holds is never filled again."""
    try:
        return Template(template).substitute(variables)
    except (KeyError, ValueError) as error:
        raise InputError(f"prompt part can't be filled: {error}", file=f"prompts/{name}") from None


def compose(
    system_part: str,
    task: TaskText,
    *,
    network: str,
    apt: bool = False,
    tools_text: str = "",
    system_text: str = "",
) -> Prompt:
    """The prompt of `task` under the system text `system_part` (a file below prompts/), or `system_text` instead.

    The agent is told of the sandbox: `network` is its policy, `apt` whether packages of the system can be installed
    where there is a network. `tools_text` describes the tools where a protocol tells of them in words.
    """
    level = f"levels/{task.benchmark}/{task.level}.md"
    installs = "" if network == "none" else read_part("installs/apt.md" if apt else "installs/home.md")
    system = (system_text or read_part(system_part), installs, read_part(f"network/{network}.md"), tools_text)
    return Prompt(
        system="\n\n".join(filter(None, system)),
        task=fill(read_part(level), task.variables, name=level),
    )
