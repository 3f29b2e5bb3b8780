"""Files and folders that are kept open: every request of the model shows what is in them by then."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import AliasChoices, Field

from agentctl.base.text import clean

from ..files.paths import FAILURES, failure, shown
from ..sandbox.protocol import Sandbox
from ..tool import Arguments, ToolContext, ToolResult
from .documents import Unreadable, document_text
from .files import folder_text, is_folder
from .place import placed

ITEM_LIMIT = 20_000  # characters shown of each item, in every request


class OpenItem(NamedTuple):
    """What is to be shown of one open item."""

    number: int  # from 1; the numbers after a closed item's move up
    title: str
    text: str


class OpenItems:
    """The open items of one attempt: the tools below change them, the prompt shows them."""

    def __init__(self, limit: int = ITEM_LIMIT) -> None:
        self._limit = limit
        self._paths: list[str] = []

    def __len__(self) -> int:
        return len(self._paths)

    def open(self, path: str) -> bool:
        """Keep the absolute `path` open. False where it is open already."""
        if path in self._paths:
            return False
        self._paths.append(path)
        return True

    def close(self, number: int) -> str | None:
        """Close an item. Its path, or None where there is no such number."""
        return self._paths.pop(number - 1) if 1 <= number <= len(self._paths) else None

    def contents(self, sandbox: Sandbox) -> list[OpenItem]:
        """All items as they are now, in the order they were opened. Never fails: an item may say why it can't be shown.

        SandboxError alone passes through.
        """
        return [OpenItem(number, *self._look(sandbox, path)) for number, path in enumerate(self._paths, 1)]

    def _look(self, sandbox: Sandbox, path: str) -> tuple[str, str]:
        """Title and text of the item `path`, which may be gone, or something else than it was."""
        name = shown(path)
        try:
            if is_folder(sandbox, path):
                return f"folder {name}", folder_text(sandbox, path, limit=self._limit)
            return f"file {name}", document_text(sandbox, path, limit=self._limit) or "(the file is empty)"
        except FileNotFoundError:
            return name, "(it is not there any more)"
        except Unreadable as error:
            return f"file {name}", f"({error})"
        except FAILURES as error:
            return name, f"(it can't be shown: {clean(str(error)) or type(error).__name__})"


class OpenFileArguments(Arguments):
    file_path: str = Field(
        min_length=1,
        validation_alias=AliasChoices("file_path", "path"),
        description="The path of the file to open.",
    )


class OpenFile:
    """Keeps a file open; makes it where it is not there."""

    name = "open_file"
    description = (
        "Open a file to keep seeing what it holds while you work on it; one that is not there is made. To look at a "
        "file or to write it once, use read_file or write_file."
    )
    arguments = OpenFileArguments

    def __init__(self, items: OpenItems) -> None:
        self.items = items

    def run(self, arguments: OpenFileArguments, context: ToolContext) -> ToolResult:
        sandbox, path = context.sandbox, placed(context.sandbox, arguments.file_path)
        made = ""
        try:
            try:
                if is_folder(sandbox, path):
                    return ToolResult.error(f"{shown(path)} is a folder: open it with open_folder.")
            except FileNotFoundError:
                sandbox.write(path, b"")
                made = "made and "
            path = sandbox.stat(path).path
        except FAILURES as error:
            return failure(sandbox, path, error)
        return _opened(self.items, path, f"The file {shown(path)} was {made}opened")

    def close(self) -> None:
        pass


class OpenFolderArguments(Arguments):
    path: str = Field(min_length=1, description="The path of the folder to open.")


class OpenFolder:
    """Keeps a folder open. It changes no working folder, whatever its name suggests."""

    name = "open_folder"
    description = "Open a folder to keep seeing what is in it."
    arguments = OpenFolderArguments

    def __init__(self, items: OpenItems) -> None:
        self.items = items

    def run(self, arguments: OpenFolderArguments, context: ToolContext) -> ToolResult:
        sandbox, path = context.sandbox, placed(context.sandbox, arguments.path)
        try:
            if not is_folder(sandbox, path):
                return ToolResult.error(f"{shown(path)} is a file: open it with open_file.")
            path = sandbox.stat(path).path
        except FAILURES as error:
            return failure(sandbox, path, error)
        return _opened(self.items, path, f"The folder {shown(path)} was opened")

    def close(self) -> None:
        pass


def _opened(items: OpenItems, path: str, done: str) -> ToolResult:
    if not items.open(path):
        return ToolResult.of(f"{shown(path)} is open already.")
    return ToolResult.of(f"{done}, as item {len(items)}. What is in it is told with every step until you close it.")


class CloseArguments(Arguments):
    number: int = Field(description="The number of the item in the list of what is open.")


class CloseContextItem:
    """Closes an open item."""

    name = "close_context_item"
    description = "Close an open file or folder, so that it is no longer told with every step."
    arguments = CloseArguments

    def __init__(self, items: OpenItems) -> None:
        self.items = items

    def run(self, arguments: CloseArguments, context: ToolContext) -> ToolResult:
        path = self.items.close(arguments.number)
        if path is None:
            count = len(self.items)
            there = f"the numbers are 1 to {count}" if count > 1 else "only item 1 is" if count else "nothing is open"
            return ToolResult.error(f"There is no open item {arguments.number}: {there}.")
        return ToolResult.of(f"Closed {shown(path)}.")

    def close(self) -> None:
        pass
