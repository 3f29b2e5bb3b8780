"""Paths that stay true on another machine: what is shipped in the package is named `agentctl:examples/...`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_SCHEME = "agentctl:"
_PACKAGE = Path(__file__).parents[1]


def resolve(name: str) -> Path:
    """The path that `name` stands for: one in the package after `agentctl:`, else itself."""
    if name.startswith(_SCHEME):
        return _PACKAGE / name.removeprefix(_SCHEME)
    return Path(name)


def means_file(text: str, endings: Collection[str]) -> bool:
    """Whether `text`, a name or a path, is a path: it has one of the `endings` (".json"), or a folder in it.

    A dot alone makes no path: "v1.1" is a name.
    """
    return Path(text).suffix in endings or "/" in text


def is_file(path: Path) -> bool:
    """Whether `path` is a file: what can't be a path, as one too long, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def portable(path: Path) -> str:
    """`path` as a name that `resolve` turns back: by its place in the package where it is in there, else absolute."""
    whole = path.absolute()
    shipped = (_PACKAGE / "examples").resolve()
    if whole.resolve().is_relative_to(shipped):
        return f"{_SCHEME}examples/{whole.resolve().relative_to(shipped).as_posix()}"
    if whole.is_relative_to(_PACKAGE):
        return _SCHEME + whole.relative_to(_PACKAGE).as_posix()
    return str(whole)
