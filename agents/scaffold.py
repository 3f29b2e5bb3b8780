"""Everything around the model, as a value with a hash. Scaffolds are YAML files, shipped or given by path."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError

from agentctl.base.errors import InputError
from agentctl.base.jsonio import canonical, digest
from agentctl.base.values import Frozen

SCAFFOLD_FILES = frozenset({".yaml", ".yml"})


class Scaffold(Frozen):
    """One scaffold. Two that differ in any field are two scaffolds."""

    name: str
    protocol: Literal["native", "plain"] = "native"
    system: str  # file below prompts/ that holds the system message, or one beside the scaffold's own file
    system_text: str = ""  # what that file says, where it is the scaffold's own
    tools: tuple[str, ...]
    history: Literal["full"] = "full"
    finish_check: bool = True  # the deliverable is checked when the agent says that it is done
    idle_replies: int = Field(default=3, ge=1)  # replies in a row without a usable call before the attempt ends
    repeat_notice: int = Field(default=4, ge=2)  # same call, same answer, this often in a row: the model is told
    repeat_end: int = Field(default=12, ge=3)  # ... this often: the attempt ends as stuck

    @property
    def digest(self) -> str:
        return digest(canonical(self.model_dump(mode="json")))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read as UTF-8 text: {error}", file=path) from None


def load_scaffold(name: str) -> Scaffold:
    """The scaffold shipped as `name`, or the one in the YAML file of that path. InputError names file and field."""
    shipped = files(__package__).joinpath("scaffolds")
    path = Path(name)
    if path.suffix in SCAFFOLD_FILES:
        if not path.is_file():
            raise InputError("no such scaffold file", file=name)
        text = _text(path)
    else:
        known = sorted(entry.name.removesuffix(".yaml") for entry in shipped.iterdir() if entry.name.endswith(".yaml"))
        if name not in known:
            raise InputError(
                f"no scaffold is named {name!r}",
                field="--scaffold",
                remedy=f"one of: {', '.join(known)}; or the path of a .yaml file",
            )
        text = shipped.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    try:
        scaffold = Scaffold.model_validate(yaml.safe_load(text))
        own = path.parent / scaffold.system
        if path.is_file() and own.is_file():
            scaffold = scaffold.model_copy(update={"system_text": _text(own).rstrip("\n")})
        return scaffold
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {error}", file=name) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(first["msg"], file=name, field=".".join(map(str, first["loc"]))) from None
