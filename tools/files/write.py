"""The write_file tool."""

from __future__ import annotations

from pydantic import Field

from agentctl.base.text import clean

from ..tool import Arguments, ToolContext, ToolResult
from .paths import FAILURES, failure, shown, size_text, stat_file


class WriteArguments(Arguments):
    path: str = Field(min_length=1, description="The file; folders on the way are made. An existing file is replaced.")
    content: str = Field(description="All that the file shall hold, written as UTF-8, to the letter.")


class WriteFile:
    """Makes or replaces a file. It is afterwards whole or as it was."""

    name = "write_file"
    description = "Write a text file as a whole. To change a part of an existing file, use edit_file."
    arguments = WriteArguments

    def run(self, arguments: WriteArguments, context: ToolContext) -> ToolResult:
        path, content = arguments.path, clean(arguments.content)
        try:
            try:
                before = f", in place of the {size_text(stat_file(context.sandbox, path).size)} that were there"
            except FileNotFoundError:
                before = ""
            data = content.encode()
            context.sandbox.write(path, data)
        except FAILURES as error:
            return failure(context.sandbox, path, error)
        halves = "" if content == arguments.content else " Halves of characters (surrogates) were made whole or U+FFFD."
        return ToolResult.of(f"Wrote {size_text(len(data))} to {shown(path)}{before}.{halves}")

    def close(self) -> None:
        pass
