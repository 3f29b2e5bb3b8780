"""The list_dir tool."""

from __future__ import annotations

from pathlib import PurePosixPath

from pydantic import Field

from ..sandbox.protocol import FileInfo, FileKind
from ..tool import Arguments, ToolContext, ToolResult
from .paths import FAILURES, failure, shown, size_text, stat_folder

ENTRIES = 10_000  # looked at
_CHARACTERS = 18_000  # shown
REST = "list a folder below, or use search_files"
_MARKS = {FileKind.FOLDER: "/", FileKind.LINK: "  (link)", FileKind.OTHER: "  (device, FIFO or socket)"}


class ListArguments(Arguments):
    path: str = Field(default=".", min_length=1, description="The folder; without it, the workspace.")
    depth: int = Field(default=1, ge=1, le=20, description="How many levels of folders to go down.")


class ListDir:
    """Names what is in a folder, with sizes. Links are named, not followed."""

    name = "list_dir"
    description = (
        "List a folder: its files with their sizes, its folders with a slash. More depth shows what is in them."
    )
    arguments = ListArguments

    def run(self, arguments: ListArguments, context: ToolContext) -> ToolResult:
        try:
            folder = stat_folder(context.sandbox, arguments.path)
            entries = context.sandbox.list(arguments.path, depth=arguments.depth, limit=ENTRIES)
        except FAILURES as error:
            return failure(context.sandbox, arguments.path, error)
        if not entries:
            return ToolResult.of(f"The folder {shown(arguments.path)} is empty.")
        return ToolResult.of(listing(entries, folder.path))

    def close(self) -> None:
        pass


def listing(entries: list[FileInfo], folder: str, *, limit: int = _CHARACTERS, rest: str = REST) -> str:
    """The entries of `folder`, one a line, at most `limit` characters of them; `rest` says how to see the others."""
    lines: list[str] = []
    room = limit
    for entry in entries:
        line = _line(entry, folder)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    if len(lines) < len(entries) or len(entries) == ENTRIES:
        count = f"{len(entries):,}" if len(entries) < ENTRIES else f"{ENTRIES:,} or more"
        lines.append(f"[{len(lines):,} of {count} entries; for the rest {rest}]")
    return "\n".join(lines)


def _line(entry: FileInfo, folder: str) -> str:
    path = PurePosixPath(entry.path)
    name = str(path.relative_to(folder)) if path.is_relative_to(folder) else entry.path
    if entry.kind is FileKind.FILE:
        return f"{shown(name)}  {size_text(entry.size)}"
    return f"{shown(name)}{_MARKS[entry.kind]}"
