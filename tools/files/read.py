"""The read_file tool: a page of a text, a notebook as text, and for anything else its kind and how to look inside."""

from __future__ import annotations

from pydantic import Field

from ..sandbox.protocol import FileInfo
from ..tool import Arguments, ToolContext, ToolResult
from .encodings import NAMES, mark_of, wide_encoding
from .formats import HEAD, recognise
from .notebook import NotANotebook, notebook_text
from .pages import COUNTED, SECONDS, Page, read_page, utf8_blocks
from .paths import FAILURES, failure, shell_word, shown, size_text, stat_file

_SPARSE = 64 << 20  # bytes from which a file that is mostly holes is refused
_NOTEBOOK = 64 << 20  # bytes up to which a notebook is shown as cells


class ReadArguments(Arguments):
    path: str = Field(min_length=1, description="The file; a relative path is taken from the workspace.")
    offset: int = Field(default=1, ge=1, description="Number of the first line to show, from 1.")
    limit: int = Field(default=2000, ge=1, description="Largest number of lines to show.")


class ReadFile:
    """Shows part of a file. Text comes as it stands; notes, where there are any, follow in square brackets."""

    name = "read_file"
    description = (
        "Show a text file, or some of its lines. Long files come in pages: go on with the offset that the note at the"
        " end names. A notebook is shown as its cells and text outputs. For a binary file its kind is told, and a"
        " command that looks inside."
    )
    arguments = ReadArguments

    def run(self, arguments: ReadArguments, context: ToolContext) -> ToolResult:
        try:
            return _read(arguments, context)
        except FAILURES as error:
            return failure(context.sandbox, arguments.path, error)

    def close(self) -> None:
        pass


def _read(arguments: ReadArguments, context: ToolContext) -> ToolResult:
    path = arguments.path
    info = stat_file(context.sandbox, path)
    start = context.sandbox.read(path, limit=HEAD)
    if not start:
        return ToolResult.of(f"The file is empty: {shown(path)} has 0 bytes.")
    if refusal := _not_text(path, info, start):
        return ToolResult.error(refusal)
    notes = [f"{NAMES[wide]} in the file"] if (wide := wide_encoding(start)) else []
    if mark_of(start) and not wide:
        notes.append("a byte order mark comes before line 1")
    if path.lower().endswith(".ipynb"):
        if info.size <= _NOTEBOOK:
            try:
                return _show_notebook(notebook_text(context.sandbox.read(path)), arguments, context)
            except NotANotebook as error:
                notes.append(f"shown as plain text, as it is not a notebook: {error}")
        else:
            notes.append("shown as plain text, as it is too large for cells")

    def rest(offset: int, limit: int) -> bytes:
        return context.sandbox.read(path, offset=offset, limit=limit)

    page = read_page(
        utf8_blocks(rest, start, info.size, wide),
        offset=arguments.offset,
        limit=arguments.limit,
        count=info.size <= COUNTED,
        check=context.cancel.check,
    )
    return _show(page, path, size_text(info.size), notes)


def _not_text(path: str, info: FileInfo, start: bytes) -> str | None:
    """Why the file is not shown, and how to look inside; None for a text."""
    if (kind := recognise(start, path)) is not None:
        command = kind.command.replace("{}", shell_word(path))
        return f"{shown(path)} is {kind.name}, {size_text(info.size)}: not text. To look inside: {command}"
    if info.size > _SPARSE and info.blocks < info.size // 2:
        sizes = f"{size_text(info.size)}, of which {size_text(info.blocks)} are on disk (the rest are holes)"
        return f"{shown(path)} is too big to be shown: {sizes}. To see its beginning: head -c 3000 {shell_word(path)}"
    return None


def _show_notebook(text: str, arguments: ReadArguments, context: ToolContext) -> ToolResult:
    page = read_page(
        iter([text.encode()]),
        offset=arguments.offset,
        limit=arguments.limit,
        count=True,
        check=context.cancel.check,
    )
    return _show(page, arguments.path, "shown as cells", [])


def _show(page: Page, path: str, size: str, notes: list[str]) -> ToolResult:
    """The page as a result: its text alone where that is all of the file and nothing need be said."""
    last = page.first + page.shown - 1
    if page.gave_up and not page.shown:
        command = f"sed -n '{page.first},{page.first + 20}p' {shell_word(path)} | cut -c 1-2000"
        return ToolResult.error(
            f"Line {page.first} of {shown(path)} ({size}) was not reached in {SECONDS:g} s: {command}"
        )
    if not page.shown:
        lines = "1 line" if page.total == 1 else f"{page.total:,} lines"
        return ToolResult.error(f"Line {page.first} is beyond the end: {shown(path)} has {lines}.")
    notes = [*notes, *page.notes]
    if page.first > 1 or not page.finished:
        total = "" if page.total is None else f" of {page.total:,}"
        place = f"lines {page.first}-{last}{total}, {size}"
        notes.insert(0, place if page.finished else f"{place}; go on with offset={last + 1}")
    text = page.text if page.text.strip() else f"({page.shown} blank lines)" if page.shown > 1 else "(one blank line)"
    return ToolResult.of("\n".join([text, f"[{'; '.join(notes)}]"]) if notes else text)
