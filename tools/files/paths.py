"""Paths in words: how a failed path is told to an agent, and how a name is written where it could be misread."""

from __future__ import annotations

import json
import shlex
from difflib import get_close_matches
from pathlib import PurePosixPath

from agentctl.base.text import clean

from ..sandbox.protocol import FileInfo, FileKind, PathRefused, Sandbox
from ..tool import ToolResult

FAILURES = (OSError, PathRefused, ValueError)
"""What a sandbox's file methods raise for a path that an agent can put right."""


def shown(name: str) -> str:
    """`name` as it stands, or as a JSON string where blanks at its ends or unprintable characters would be lost."""
    if (
        name and name.isprintable() and name == name.strip()
    ):  # a surrogate, for a byte that is not UTF-8, isn't printable
        return name
    return json.dumps(name, ensure_ascii=clean(name) != name)


def shell_word(path: str) -> str:
    """`path` as one word of a shell command, never taken for an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def size_text(size: int) -> str:
    """`size` bytes as a person says it: `512 bytes`, `3.1 MB`."""
    if size < 1000:
        return "1 byte" if size == 1 else f"{size} bytes"
    value, unit = float(size), ""
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007 - the last unit is used after the loop
        value /= 1000
        if value < 999.95:
            break
    return f"{value:.1f} {unit}"


def stat_file(sandbox: Sandbox, path: str) -> FileInfo:
    """The regular file `path`. Raises one of FAILURES, with a text that names the kind, for anything else."""
    info = sandbox.stat(_checked(path))
    if info.kind is FileKind.FOLDER:
        raise IsADirectoryError(f"{shown(path)} is a folder: list it with list_dir")
    if info.kind is FileKind.OTHER:
        raise PathRefused(f"{shown(path)} is a device, FIFO or socket, not a regular file")
    return info


def stat_folder(sandbox: Sandbox, path: str) -> FileInfo:
    """The folder `path`. Raises one of FAILURES for anything else."""
    info = sandbox.stat(_checked(path))
    if info.kind is not FileKind.FOLDER:
        raise NotADirectoryError(f"{shown(path)} is not a folder")
    return info


def _checked(path: str) -> str:
    if "\0" in path:
        raise ValueError(f"{shown(path)} holds a zero character, which no path can")
    return path


def failure(sandbox: Sandbox, path: str, error: Exception) -> ToolResult:
    """`error`, raised for `path`, as a result: what is wrong, and for a missing file the names that come near."""
    if isinstance(error, FileNotFoundError):
        return ToolResult.error(f"There is no {shown(path)}.{_near(sandbox, path)}")
    if isinstance(error, PermissionError) and error.errno is not None:
        return ToolResult.error(f"{shown(path)}: permission denied")
    if isinstance(error, OSError) and error.strerror:
        return ToolResult.error(f"{shown(path)}: {error.strerror}")
    return ToolResult.error(clean(str(error)) or f"{shown(path)}: {type(error).__name__}")


def _near(sandbox: Sandbox, path: str) -> str:
    """A sentence on what is there instead of the missing `path`."""
    folder = str(PurePosixPath(path).parent)
    try:
        names = [PurePosixPath(info.path).name for info in sandbox.list(folder, limit=2000)]
    except FAILURES:
        return f" Nor is there a folder {shown(folder)}." if folder != "." else ""
    close = get_close_matches(PurePosixPath(path).name, names, n=3, cutoff=0.6)
    where = "" if folder == "." else f" in {shown(folder)}"
    if close:
        return f" Near it{where}: {', '.join(shown(name) for name in close)}."
    if not names:
        return f" The folder {shown(folder)} is empty."
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f" What is there{where}: {', '.join(shown(name) for name in names[:10])}{more}."
