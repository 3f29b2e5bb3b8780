"""Everything around the model, as a value with a hash. Scaffolds are YAML files, shipped or given by path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, TypeVar

import yaml
from pydantic import Field, ValidationError, model_validator

from agentctl.base.errors import InputError, refused
from agentctl.base.jsonio import canonical, digest
from agentctl.base.paths import is_file, means_file
from agentctl.base.values import Frozen, Usd
from agentctl.prompts.compose import read_part
from agentctl.prompts.hints import HINT_FILES, Hint, all_hints, load_hint
from agentctl.prompts.parts import Part

from .plugins import Code, code_at, code_of, names_code, packaged, packaged_path
from .toolbox import MAKERS

SCAFFOLD_FILES = frozenset({".yaml", ".yml"})
_PARTS = {"system": "system/{}.md", "role": "roles/{}.md", "task": "tasks/{}.md"}  # texts, and where such are shipped

ContextName: TypeAlias = Literal["clock", "open-files"]
CheckName: TypeAlias = Literal["report", "keys", "giving-up"]
FaultName: TypeAlias = Literal["overshoot", "delete-report", "report-in-capsule", "unparsable-ends"]
_WRITTEN = "{name: ..., text: ...}"  # a text that stands in the scaffold's file itself
ATTEMPTS = 3  # at one reply: with the fault `unparsable-ends` the run is over then
R = TypeVar("R", Part, Hint)
HelperRole: TypeAlias = Literal["fast", "vision"]


class RoleParameters(Frozen):
    """Parameters of a helper's model, where the user did not set them."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    output_limit: int | None = Field(default=None, ge=1)  # tokens of each reply


class Scaffold(Frozen):
    """One scaffold, whole: its texts are in it. Two that differ in any field are two scaffolds.

    `faults` are faults of the original agents, brought back: see docs/fidelity.md.
    """

    name: str
    description: str = ""  # in one line, for people
    protocol: Literal["native", "plain", "thoughts"] = "native"
    system: Part  # template of the system message
    role: Part | None = None  # what the agent is told that it is
    task: Part | None = None  # template around the task's text
    hints: tuple[Hint, ...] = ()  # in the order of the prompt
    tools: tuple[str, ...]
    history: Literal["full", "condense", "autogpt"] = "full"
    context: tuple[ContextName, ...] = ()  # what every request tells anew
    checks: tuple[CheckName, ...] = ("report",)  # of the deliverable when the agent says that it is done, in order
    budget_notes: bool = False  # it is told what is left, and enough is kept for the report
    roles: dict[HelperRole, RoleParameters] = Field(default_factory=dict)
    faults: tuple[FaultName, ...] = ()
    budget_usd: Usd | None = Field(default=None, gt=0)  # with the fault `overshoot`: tested after each command
    idle_replies: int = Field(default=3, ge=1)  # replies in a row without a usable call before the attempt ends
    repeat_notice: int = Field(default=4, ge=2)  # same call, same answer, this often in a row: the model is told
    repeat_end: int = Field(default=12, ge=3)  # ... this often: the attempt ends as stuck
    code: dict[str, Code] = Field(default_factory=dict)  # of the tools that are not ours
    changes: tuple[str, ...] = ()  # factors switched since it was loaded, as "-pdf-tools" or "history=condense"

    @model_validator(mode="before")
    @classmethod
    def _as_it_was_then(cls, data: Any) -> Any:
        """A record of an earlier release names the system text and says of the one check there was whether it is on."""
        match data:
            case {"system": str(name), **rest}:
                text = rest.pop("system_text", "") or read_part(name)
                checks = {"checks": ("report",) if rest.pop("finish_check", True) else ()}
                return {"system": Part(name=PurePosixPath(name).stem, text=text), **checks, **rest}
            case _:
                return data

    @property
    def digest(self) -> str:
        dump = self.model_dump(mode="json", exclude={"description"})
        dump["code"] = {name: code.digest for name, code in self.code.items()}  # wherever it lies
        return digest(canonical(dump))

    @property
    def label(self) -> str:
        """Its name with what was switched, as `core-agent -pdf-tools`."""
        return " ".join((self.name, *self.changes))


def load_scaffold(name: str) -> Scaffold:
    """The scaffold shipped as `name`, or the one in the YAML file of that path. InputError names file and field.

    What a file names (system text, role, hints) is looked for beside it first, then among what is shipped. It may name
    no file outside its folder: a scaffold may be anybody's, and its texts are sent.
    """
    shipped = files(__package__).joinpath("scaffolds")
    path = Path(name)
    if path.suffix in SCAFFOLD_FILES:
        if not is_file(path):
            raise InputError("no such scaffold file", file=name)
        return _loaded(_text(path), name, path.parent)
    if name not in shipped_scaffolds():
        if entry := packaged("scaffolds").get(name):
            return load_scaffold(str(packaged_path(entry)))
        raise InputError(
            f"no scaffold is named {name!r}",
            field="--scaffold",
            remedy=f"one of: {', '.join(shipped_scaffolds())}; or the path of a .yaml file",
        )
    return _loaded(shipped.joinpath(f"{name}.yaml").read_text(encoding="utf-8"), name, None)


def load_part(field: str, name: str) -> Part:
    """The text for the field `system` or `role`: a file of that path, or a shipped one. InputError where it is none."""

    def load() -> Part:
        own = Path(name)
        return _part(name, _PARTS[field], own if own.is_file() else None)

    return _named(None, f"--set {field}", load)


def shipped_scaffolds() -> list[str]:
    """Names of the scaffolds that come with agentctl."""
    entries = files(__package__).joinpath("scaffolds").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def _loaded(text: str, name: str, folder: Path | None) -> Scaffold:
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that there is not
        raise InputError(f"not YAML: {' '.join(str(error).split())}", file=name) from None
    if not isinstance(data, dict):
        raise InputError("a scaffold is a table of fields", file=name, remedy="see docs/scaffolds.md")
    for field, shipped in _PARTS.items():
        if isinstance(data.get(field), str):
            data[field] = _named(name, field, partial(_own_part, data[field], shipped, folder))
    if isinstance(data.get("hints"), list):
        data["hints"] = [
            _named(name, f"hints.{n}", partial(_hint, each, folder)) if isinstance(each, str) else each
            for n, each in enumerate(data["hints"])
        ]
    try:
        scaffold = Scaffold.model_validate(data)
        return scaffold.model_copy(update={"code": code_of_tools(scaffold.tools, folder or Path())})
    except ValidationError as error:
        raise refused(error, file=name) from None


def code_of_tools(tools: Iterable[str], folder: Path) -> dict[str, Code]:
    """The code of those of `tools` that are not ours: of `FILE.py:NAME`, looked for from `folder`, or of a package."""
    found: dict[str, Code] = {}
    for tool in tools:
        if names_code(tool):
            found[tool] = code_at(tool, folder, field="tools")
        elif tool not in MAKERS and (entry := packaged("tools").get(tool)):
            found[tool] = code_of(entry)
    return found


def _own_part(name: str, shipped: str, folder: Path | None) -> Part:
    """The text that a scaffold's file in `folder` names."""
    return _part(name, shipped, _beside(name, folder))


def _part(name: str, shipped: str, own: Path | None) -> Part:
    """The text named `name`: of the file `own`, else a shipped one."""
    if own is not None:
        return Part(name=name, text=_text(own).rstrip("\n"))
    return Part(name=name, text=read_part(shipped.format(name.removesuffix(".md").rpartition("/")[2])))


def _beside(name: str, folder: Path | None) -> Path | None:
    """The file `name` of a scaffold's folder, if there is one. InputError where it lies elsewhere, also by a link."""
    if folder is None or not (own := folder / name).is_file():
        return None
    if not own.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name} lies outside the scaffold's folder", remedy="copy it to beside the scaffold's file")
    return own


def _named(file: str | None, field: str, load: Callable[[], R]) -> R:
    """What `load` gives; where it fails, the error names the scaffold's file and field."""
    try:
        return load()
    except InputError as error:
        inner = f"{error.file}: " if error.file else ""
        raise InputError(f"{inner}{error.problem}", file=file, field=field, remedy=error.remedy) from None
    except (OSError, ValueError):  # what no path can be: too long, or with a zero byte
        written = "{id: ..., kind: ..., what: ..., text: ...}" if field.startswith("hints") else _WRITTEN
        raise InputError(
            "is no name of a text", file=file, field=field, remedy=f"write it as {written} in a scaffold's file"
        ) from None


def _hint(name: str, folder: Path | None) -> Hint:
    if own := _beside(name, folder):
        return load_hint(str(own))
    if folder is not None and means_file(name, HINT_FILES):
        raise InputError(f"no such hint file: {name}", remedy="it is looked for beside the scaffold's file")
    entry = None if name in {hint.id for hint in all_hints()} else packaged("hints").get(name)
    return load_hint(str(packaged_path(entry)) if entry else name)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read as UTF-8 text: {error}", file=path) from None
