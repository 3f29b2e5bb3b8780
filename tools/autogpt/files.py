"""The commands `read_file`, `write_file` (also `create_file`) and `list_folder`."""

from __future__ import annotations

from pydantic import Field

from ..files.listing import ENTRIES, listing
from ..files.paths import FAILURES, failure, shown, stat_folder
from ..files.write import WriteArguments
from ..files.write import WriteFile as Writer
from ..sandbox.protocol import FileKind, Sandbox
from ..shell.tool import LIMIT
from ..tool import Arguments, ToolContext, ToolResult
from .documents import Unreadable, document_text
from .place import placed

DEPTH = 100  # levels of folders
_REST = "list a folder below"


class ReadArguments(Arguments):
    filename: str = Field(min_length=1, description="The path of the file to read.")


class ReadFile:
    """Gives the text of a file, also of a PDF, Word or HTML document."""

    name = "read_file"
    description = "Read a file and get its text. Takes text in any encoding, PDF, Word and HTML documents."
    arguments = ReadArguments

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit

    def run(self, arguments: ReadArguments, context: ToolContext) -> ToolResult:
        path = placed(context.sandbox, arguments.filename)
        try:
            if is_folder(context.sandbox, path):
                return ToolResult.error(f"{shown(path)} is a folder: list it with list_folder.")
            return ToolResult.of(document_text(context.sandbox, path, limit=self._limit) or "(the file is empty)")
        except Unreadable as error:
            return ToolResult.error(str(error))
        except FAILURES as error:
            return failure(context.sandbox, path, error)

    def close(self) -> None:
        pass


class WriteFileArguments(Arguments):
    filename: str = Field(min_length=1, description="The path of the file to write.")
    contents: str = Field(description="All that the file shall hold.")


class WriteFile:
    """Makes or replaces a file, under either of the command's names."""

    description = "Write a file, and the folders it needs. A file that is there already is overwritten."
    arguments = WriteFileArguments

    def __init__(self, name: str = "write_file") -> None:
        self.name = name

    def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolResult:
        path = placed(context.sandbox, arguments.filename)
        try:
            if is_folder(context.sandbox, path):
                return ToolResult.error(f"{shown(path)} is a folder, and no file can be written in its place.")
        except FileNotFoundError:
            pass
        except FAILURES as error:
            return failure(context.sandbox, path, error)
        return Writer().run(WriteArguments(path=path, content=arguments.contents), context)

    def close(self) -> None:
        pass


class ListArguments(Arguments):
    folder: str = Field(description="The folder to list.")


class ListFolder:
    """Names all that is in a folder and in the folders below it."""

    name = "list_folder"
    description = "List all files in a folder and in the folders below it, with their sizes."
    arguments = ListArguments

    def run(self, arguments: ListArguments, context: ToolContext) -> ToolResult:
        path = placed(context.sandbox, arguments.folder)
        try:
            return ToolResult.of(folder_text(context.sandbox, path, limit=LIMIT))
        except FAILURES as error:
            return failure(context.sandbox, path, error)

    def close(self) -> None:
        pass


def is_folder(sandbox: Sandbox, path: str) -> bool:
    """Whether `path` is a folder. Raises one of FAILURES where it is nothing, or neither folder nor regular file."""
    return sandbox.stat(path).kind is FileKind.FOLDER


def folder_text(sandbox: Sandbox, path: str, *, limit: int) -> str:
    """All that is below a folder, one entry a line, at most `limit` characters and a line."""
    folder = stat_folder(sandbox, path)
    entries = sandbox.list(path, depth=DEPTH, limit=ENTRIES)
    return listing(entries, folder.path, limit=limit, rest=_REST) if entries else "(the folder is empty)"
