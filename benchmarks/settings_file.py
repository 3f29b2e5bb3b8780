"""`agentctl.toml`: found, read, and asked for the line of a setting."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentctl.agents.plugins import names_code
from agentctl.agents.scaffold import SCAFFOLD_FILES
from agentctl.agents.secrets import says_secret
from agentctl.base.errors import InputError
from agentctl.base.paths import means_file
from agentctl.tools.sandbox.environment import has_credentials

from .corebench.dataset import DATASET_FILES
from .settings import Key

NAME = "agentctl.toml"
_LARGEST = 1 << 20  # bytes
_MODELS = [(section, "name") for section in ("model", "fast", "vision")]
_PATHS = re.compile(r"(script|replay):(?!agentctl:)(?P<path>.+)")  # of a model's name
_NAME_OR_FILE: Mapping[Key, Collection[str]] = {
    ("scaffold",): SCAFFOLD_FILES,
    ("data", "dataset"): DATASET_FILES,
}
# How providers' keys begin, and a long run of letters and digits, as keys of those that have no such beginning are.
_KEY = re.compile(
    r"(sk-|sk_|rk-|gsk_|hf_|xai-|AIza|gh[pous]_|github_pat_|glpat-|AKIA|r8_|pplx-|csk-|nvapi-|eyJ)[\w.-]{12,}"
    r"|(?=\S*\d)(?=\S*[A-Za-z])[A-Za-z0-9]{32,}"
)


@dataclass(frozen=True)
class SettingsFile:
    """One such file, read."""

    path: Path
    text: str
    tree: Mapping[str, Any]

    def where(self, key: Key) -> str:
        """The file, and the line in which the value of `key` begins."""
        line = self._lines.get(key)
        return f"{shown(self.path)}:{line}" if line else shown(self.path)

    @cached_property
    def _lines(self) -> Mapping[Key, int]:
        """The line in which each key is first set, of tables as well as of what is in them."""
        lines: dict[Key, int] = {}
        table: Key = ()
        for number, text, tree in _statements(self.text):
            if text.lstrip().startswith("["):
                table = _only_path(tree)
                lines.setdefault(table, number)
                continue
            for path in _paths(tree):
                lines.setdefault((*table, *path), number)
        return lines

    def anchored(self, key: Key, value: Any) -> Any:
        """`value` with a path in it made relative to the file's folder, instead of to whoever reads it."""
        folder = self.path.parent
        if isinstance(value, Path):
            return folder / value.expanduser()
        if key in _NAME_OR_FILE and means_file(value, _NAME_OR_FILE[key]):
            return str(folder / Path(value).expanduser())
        if key == ("with",):
            return tuple(str(folder / each) if each.endswith(".md") or names_code(each) else each for each in value)
        if key in _MODELS and (named := _PATHS.fullmatch(value)):
            return f"{named[1]}:{folder / Path(named['path']).expanduser()}"
        return value


def project_file(folder: Path, environment: Mapping[str, str]) -> SettingsFile | None:
    """The first in `folder` or above, up to the repository's root or the home folder.

    InputError where it belongs neither to this user nor to root nor to the owner of `folder`: it can name an address
    that keys are sent to, and anybody may put a file into a shared folder.
    """
    home = environment.get("HOME")
    for place in (folder, *folder.parents):
        path = place / NAME
        if _there(path):
            if path.stat().st_uid not in (os.getuid(), 0, folder.stat().st_uid):
                raise InputError("belongs to another user, so it is not read", file=path, remedy="copy it, or move it")
            return _read(path)
        if _there(place / ".git") or str(place) == home:
            break
    return None


def user_file(environment: Mapping[str, str]) -> SettingsFile | None:
    """The user's own file, if there is one."""
    named = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME') or Path.home()}/.config"
    path = Path(named) / "agentctl" / NAME
    return _read(path) if _there(path) else None


def is_secret(name: str, value: object) -> bool:
    """Whether this looks like a key or a password: by its name, by itself, or by something in it."""
    if isinstance(value, dict):
        return any(is_secret(str(inner), each) for inner, each in value.items())
    if isinstance(value, list):
        return any(is_secret(name, each) for each in value)
    return says_secret(name) or (
        isinstance(value, str) and (_KEY.fullmatch(value) is not None or has_credentials(value))
    )


def shown(path: Path) -> str:
    """`path` as a person would name it: relative, where it is in the working folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that may not be looked into
        return False


def _read(path: Path) -> SettingsFile:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            raise InputError("no file of settings", file=path)
        text = path.read_text(encoding="utf-8-sig")
        return SettingsFile(path, text, tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", file=shown(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", file=path) from None


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The statements of a file of settings: the line in which each begins, its text, and what it says by itself.

    A statement is the fewest lines that are TOML for themselves.
    """
    lines = text.split("\n")
    begins = 0
    for end in range(1, len(lines) + 1):
        statement = "\n".join(lines[begins:end]) + "\n"
        try:
            tree = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:  # in the middle of a value of several lines
            continue
        yield begins + 1, statement, tree
        begins = end


def _only_path(tree: Mapping[str, Any]) -> Key:
    """The key of the table that a line [a.b] or [[a.b]] begins."""
    for name, inner in tree.items():
        return (name, *(_only_path(inner) if isinstance(inner, dict) else ()))
    return ()


def _paths(tree: Mapping[str, Any]) -> Iterator[Key]:
    for name, inner in tree.items():
        yield (name,)
        if isinstance(inner, dict):
            yield from ((name, *path) for path in _paths(inner))
