"""The texts below prompts/: read by their place, and filled once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from agentctl.base.errors import InputError

VARIABLE = re.compile(r"\$?\$\{(\w+)\}")
"""A variable in a text. `$${name}` stands for `${name}` itself; a dollar sign elsewhere is a dollar sign."""


@cache
def read_part(name: str) -> str:
    """The text of the data file `name` below prompts/, without its final line feed."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputError("a prompt part is named by its place below prompts/", file=name)
    try:
        return files(__package__).joinpath(name).read_text(encoding="utf-8").rstrip("\n")
    except (FileNotFoundError, IsADirectoryError):
        raise InputError("no such prompt part", file=f"prompts/{name}") from None


def variables_in(text: str) -> tuple[str, ...]:
    """The names of the variables of `text`, each once, in their order."""
    return tuple(dict.fromkeys(found[1] for found in VARIABLE.finditer(text) if not found[0].startswith("$$")))


def fill(template: str, variables: Mapping[str, str], *, name: str) -> str:
    """`template` with each `${variable}` replaced, in one pass: what a value holds is never filled again."""
    for variable in variables_in(template):
        if variable not in variables:
            raise InputError(
                f"prompt part can't be filled: there is no {variable!r}",
                file=f"prompts/{name}",
                remedy=f"there are: {', '.join(variables) or 'none'}; $${{{variable}}} stands for itself",
            )
    return VARIABLE.sub(lambda found: found[0][1:] if found[0].startswith("$$") else variables[found[1]], template)
