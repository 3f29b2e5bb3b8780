"""Where settings come from, and which counts: each setting is taken from the first of these places that gives it.

1. flags, or arguments of `solve`
2. variables of the environment: AGENTCTL_MODEL, and AGENTCTL_SECTION_NAME of any other
3. the project's `agentctl.toml`: the first from the working folder up to the repository's root or the home folder
4. the user's `agentctl/agentctl.toml` below XDG_CONFIG_HOME (~/.config)
5. the default

Entries of a table (`prices.lines`, `model.extra`) are settings each for itself.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError

from agentctl.agents.models.keys import THIS_MACHINE
from agentctl.agents.scaffold import HelperRole
from agentctl.base.errors import InputError
from agentctl.tools.sandbox.environment import has_credentials

from .settings import Key, Settings, adapter, dotted, fields, holds_texts, is_list, is_table, setting_of
from .settings_file import SettingsFile, is_secret, project_file, user_file

Place: TypeAlias = Literal["flag", "environment", "file", "default"]

PREFIX = "AGENTCTL_"
# Variables that are no settings: the folder of fetched data sets, and labels of processes in a sandbox.
OTHER_VARIABLES = ("AGENTCTL_DATA", "AGENTCTL_SANDBOX", "AGENTCTL_EXEC")


@dataclass(frozen=True)
class Origin:
    """Where a setting's value comes from: the kind of place, and its name (a flag, a variable, file and line)."""

    place: Place
    told: str | SettingsFile = ""
    key: Key = ()

    @property
    def name(self) -> str:
        """Looked for in a file only when somebody asks."""
        return self.told if isinstance(self.told, str) else self.told.where(self.key)

    def __str__(self) -> str:
        return self.name or self.place


DEFAULT = Origin("default")


@dataclass(frozen=True)
class Config:
    """The settings that count, and where each comes from."""

    settings: Settings
    origins: Mapping[Key, Origin]  # of what is not a default
    files: tuple[SettingsFile, ...]  # that were read, the nearest first
    project: SettingsFile | None = None  # the one of them that came with the project

    def origin(self, key: Key) -> Origin:
        return self.origins.get(key, DEFAULT)

    def of_project(self, key: Key) -> bool:
        """Whether it is said by the project's file, which comes with whatever is cloned."""
        return self.project is not None and self.origin(key).told is self.project

    def said(self, *keys: Key) -> bool:
        """Whether any of `keys` was given for this command alone, by a flag."""
        return any(self.origin(key).place == "flag" for key in keys)

    def rows(self) -> Iterator[tuple[str, Any, Origin]]:
        """All settings with their values and origins; of a table each entry, of a helper's model what is said of it."""
        for key in fields():
            value = self.settings.value(key)
            if is_table(key):
                for name, entry in value.items():
                    yield dotted((*key, name)), entry, self.origin((*key, name))
            elif key in self.origins or key[0] not in get_args(HelperRole) or key[1] == "name":
                yield dotted(key), value, self.origin(key)


@dataclass
class Given:
    """Settings from one place, by name, and how the place names each."""

    place: Place
    values: dict[Key, Any] = field(default_factory=dict)
    names: dict[Key, str] = field(default_factory=dict)
    file: SettingsFile | None = None  # that tells the names itself

    def origin(self, key: Key) -> Origin:
        """Where the value of `key` is from."""
        return Origin(self.place, self.file or self.names[key], key)

    def put(self, key: Key, value: Any, name: str) -> None:
        """Take a value. A text is read as the setting's type, lists and tables from words between blanks."""
        if is_list(key) and isinstance(value, str):
            value = value.split()
        if is_table(key):
            for entry, inner in _entries(value, key).items():
                self.put((*key, entry), inner, name)
            return
        if key not in fields() and isinstance(value, str) and not holds_texts(key[:-1]):
            value = _json(value)
        self.values[key] = value
        self.names[key] = name


def read_config(given: Given | None = None, *, environment: Mapping[str, str], folder: Path | None = None) -> Config:
    """The settings that count for somebody who works in `folder` (by default the process's own) with `environment`.

    `given` are flags or arguments. InputError, in one line, for a name that is none (with the nearest that is one), a
    value of the wrong kind, a key or password in a file, or a file that somebody else put there.
    """
    found = (project_file(folder or Path.cwd(), environment), user_file(environment))
    files = tuple(file for file in found if file is not None)
    places = [*map(_of_file, reversed(files)), _of_environment(environment), given or Given("flag")]
    merged: dict[Key, Any] = {}
    origins: dict[Key, Origin] = {}
    for place in places:
        checked = _checked(place)
        merged |= checked
        origins |= {key: place.origin(key) for key in checked}
    try:
        settings = Settings.model_validate(_tree(merged))
    except ValidationError as error:  # one at odds with another
        first = error.errors()[0]
        key = tuple(map(str, first["loc"]))
        origin = f" (from {origins[key]})" if key in origins else ""
        raise InputError(f"{_words(first['msg'])}{origin}", field=dotted(key)) from None
    _refuse_reach(settings, origins, found[0])
    return Config(settings, origins, files, found[0])


def _refuse_reach(settings: Settings, origins: Mapping[Key, Origin], project: SettingsFile | None) -> None:
    """A project's file comes with whatever is cloned: only its reader can say that keys may leave, also to code that
    is a model, or do without a sandbox."""
    reaches: dict[Key, bool] = {("sandbox", "kind"): settings.sandbox.kind == "local"}
    for section in ("model", *get_args(HelperRole)):
        reaches[section, "name"] = settings.value((section, "name")).startswith("python:")
        base: str | None = settings.value((section, "api_base"))
        reaches[section, "api_base"] = base is not None and urlsplit(base).hostname not in THIS_MACHINE
    for key, reached in reaches.items():
        if reached and project is not None and origins.get(key, DEFAULT).told is project:
            raise InputError(
                f"a project's file may not say that it is {settings.value(key)}",
                file=project.where(key),
                field=dotted(key),
                remedy=f"say it by a flag, {variable(key)}, or ~/.config/agentctl/{project.path.name}",
            )


def find_setting(name: str) -> Key:
    """The key of the setting called `section.name`, or of a table's entry. InputError names the nearest there is."""
    key = tuple(name.split(".", 1 if is_table((name.partition(".")[0],)) else 2))
    known = setting_of(key)
    if known is None or (known == key and is_table(key)):
        raise InputError("no such setting", field=name, remedy=_meant(name))
    return key


def variable(key: Key) -> str:
    """The variable of the environment that gives a setting."""
    parts = key[:1] if key == ("model", "name") else key
    return PREFIX + "_".join(parts).upper()


def _of_environment(environment: Mapping[str, str]) -> Given:
    known = {variable(key): key for key in fields()}
    place = Given("environment")
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES or not value.strip():
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}?" if near else "see: agentctl doctor --config"
            raise InputError("the environment gives a setting that there is not", field=name, remedy=meant)
        place.put(known[name], value.strip(), name)
    return place


def _of_file(file: SettingsFile) -> Given:
    """A file's settings. What is wrong with them is said with the line."""
    place = Given("file", file=file)
    for key, value in _leaves(file.tree):
        if is_secret(key[-1], value):
            raise InputError(
                "looks like a key or password, which a file must not hold",
                file=file.where(key),
                field=dotted(key),
                remedy="give it by the environment: export OPENAI_API_KEY=...",
            )
        if setting_of(key) is None:
            raise InputError("no such setting", file=file.where(key), field=dotted(key), remedy=_meant(dotted(key)))
        place.values[key] = value
    strict = _checked(place, strict=True)
    return Given("file", {key: file.anchored(key, value) for key, value in strict.items()}, file=file)


def _leaves(tree: Mapping[str, Any], above: Key = ()) -> Iterator[tuple[Key, Any]]:
    """What a file sets, an entry of a table by itself."""
    for name, value in tree.items():
        key = (*above, name)
        if isinstance(value, dict) and (len(key) == 1 or (key in fields() and is_table(key))):
            yield from _leaves(value, key)
        else:
            yield key, value


def _tree(values: Mapping[Key, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        inner = tree
        for part in key[:-1]:
            inner = inner.setdefault(part, {})
        inner[key[-1]] = value
    return tree


def _checked(place: Given, *, strict: bool = False) -> dict[Key, Any]:
    """The values of a place, typed. `strict`: a text is no number; else it may stand for one."""
    checked: dict[Key, Any] = {}
    for key, value in place.values.items():
        try:
            checked[key] = (
                adapter(key).validate_json(json.dumps(value, default=str), strict=True)
                if strict
                else adapter(key).validate_python(value)
            )
        except ValidationError as error:
            raise _refused(key, value, error.errors()[0]["msg"], place) from None
    return checked


def _refused(key: Key, value: object, problem: str, place: Given) -> InputError:
    name = place.origin(key).name
    shown = f", not {value!r}" if len(str(value)) < 60 and not has_credentials(str(value)) else ""
    problem = f"{_words(problem)}{shown}"
    if key not in fields():  # an entry of a table, which not every place names
        problem = f"{key[-1]}: {problem}"
    if place.place == "file":
        return InputError(problem, file=name, field=dotted(key[:2]))
    return InputError(problem, field=name)


def _words(problem: str) -> str:
    return problem.removeprefix("Value error, ").replace("Input should", "should").partition(", unable to parse")[0]


def _entries(value: Any, key: Key) -> Mapping[str, Any]:
    """A table given as a mapping, as a text of JSON, or as words NAME=VALUE."""
    if isinstance(value, Mapping):
        return value
    read = _json(value) if isinstance(value, str) and value.startswith("{") else None
    if isinstance(read, dict):
        return read
    words = value.split() if isinstance(value, str) else list(value)
    pairs = [word.rpartition("=") for word in words]
    if wrong := [word for word, (name, _, _) in zip(words, pairs, strict=True) if not name]:
        raise InputError(f"{wrong[0]!r} is not of the form NAME=VALUE", field=dotted(key))
    return {name.strip(): entry.strip() for name, _, entry in pairs}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _meant(name: str) -> str:
    """What to do about a setting's name that is none."""
    if any(key[0] == name for key in fields() if len(key) > 1):
        return f"[{name}] is a section: write its settings below it"
    last = name.rpartition(".")[2]
    known = [dotted(key) for key in fields()]
    near = [each for each in known if each.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    near = near or [
        each for word in difflib.get_close_matches(last, [k[-1] for k in fields()], n=1) for each in known
        if each.rpartition(".")[2] == word
    ]  # fmt: skip
    return f"did you mean {near[0]}?" if near else "see: agentctl doctor --config"
