"""Plug-ins: tools, scaffolds, hints and models that are not ours, by the path of a file or by a package's entry point.

A package names what it brings in the groups `agentctl.tools` (a class or function that makes a Tool, called without
arguments), `agentctl.scaffolds` (the path of a scaffold's YAML file), `agentctl.hints` (the path of a hint's file) and
`agentctl.models` (a function from ModelSpec and environment to a ModelClient, asked for models named `NAME/...`). A
path given as an entry point is a `pathlib.Path`, or a function that returns one.

Nothing is imported before it is asked for by name.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from agentctl.base.errors import InputError
from agentctl.base.jsonio import digest
from agentctl.base.values import Frozen

Group: TypeAlias = Literal["tools", "scaffolds", "hints", "models"]


class Code(Frozen):
    """Code of somebody's that a scaffold runs: which, and exactly which."""

    source: str  # path of the file, or the package
    digest: str  # SHA-256 of the file; of the package its version

    @property
    def is_file(self) -> bool:
        """Whether it is a file, not an installed package."""
        return self.source.endswith(".py")


def code_at(name: str, folder: Path, *, field: str) -> Code:
    """The code that `name`, as `FILE.py:NAME`, means; FILE is looked for from `folder`. InputError where it is not."""
    file = folder / name.rpartition(":")[0]
    try:
        return Code(source=str(file.resolve()), digest=digest(file.read_bytes()))
    except (OSError, ValueError) as error:  # ValueError: what no path can be
        problem = (isinstance(error, OSError) and error.strerror) or error
        raise InputError(f"can't be read: {problem}", file=file, field=field) from None


def code_named(file: Path) -> Code:
    """The code in `file`. InputError where it can't be read."""
    return code_at(f"{file.name}:", file.parent, field="--trust-code")


def names_code(name: str) -> bool:
    """Whether `name` is of the form `FILE.py:NAME`."""
    file, colon, _ = name.rpartition(":")
    return bool(colon) and file.endswith(".py")


def object_at(code: Code, name: str) -> Any:
    """The object `name` of the file `code`, which is run. InputError where the file is another by now, or fails."""
    file = Path(code.source)
    if not code.is_file:
        raise InputError("not a Python file", file=file)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", file=file) from None
    if digest(data) != code.digest:
        raise InputError("it is no longer the file that was named", file=file, remedy="start anew")
    module = _module(file, code.digest)
    try:
        return getattr(module, name)
    except AttributeError:
        raise InputError(f"it defines no {name!r}", file=file) from None


@cache
def _module(file: Path, sha256: str) -> ModuleType:
    """The file as a module. Known by its content: a changed file is another module."""
    name = f"agentctl_plugin_{file.stem}_{sha256[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError("not a Python file", file=file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of classes in it are looked up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"can't be loaded: {type(error).__name__}: {error}", file=file) from None
    return module


def packaged(group: Group) -> dict[str, EntryPoint]:
    """What installed packages bring of a group, by name. InputError where two bring the same name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"agentctl.{group}"):
        if entry.name in found:
            raise InputError(
                f"two packages bring {entry.name!r}: {_package(found[entry.name])} and {_package(entry)}",
                field=f"agentctl.{group}",
                remedy="uninstall one",
            )
        found[entry.name] = entry
    return found


def brought(group: Group) -> list[tuple[str, str]]:
    """Name and package of all that installed packages bring of a group, sorted. Nothing is imported, nor refused."""
    return sorted((entry.name, _package(entry)) for entry in entry_points(group=f"agentctl.{group}"))


def packaged_object(entry: EntryPoint) -> Any:
    """What an entry point stands for; its package is imported. InputError where that fails."""
    try:
        return entry.load()
    except Exception as error:
        raise InputError(
            f"{entry.name!r} of {_package(entry)} can't be loaded: {type(error).__name__}: {error}", field=entry.group
        ) from None


def packaged_path(entry: EntryPoint) -> Path:
    """The path of the file that an entry point stands for."""
    value = packaged_object(entry)
    path = value() if callable(value) else value
    if not isinstance(path, Path):
        raise InputError(f"{entry.name!r} of {_package(entry)} is no path", field=entry.group)
    return path


def code_of(entry: EntryPoint) -> Code:
    """The package that an entry point is of, as code that a scaffold runs."""
    return Code(source=_package(entry), digest=entry.dist.version if entry.dist else "")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
