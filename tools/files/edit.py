"""The edit_file tool: one piece of a text replaced, every other byte left as it is."""

from __future__ import annotations

from pydantic import Field

from agentctl.base.text import clean, cut

from ..tool import Arguments, ToolContext, ToolResult
from .encodings import NAMES
from .formats import HEAD, recognise
from .paths import FAILURES, failure, shell_word, shown, size_text, stat_file
from .replace import NotReplaced, replace_once

_LARGEST = 32 << 20  # bytes of a file that is edited
_SHOWN = 3_000  # characters of the changed lines that are shown


class EditArguments(Arguments):
    path: str = Field(min_length=1, description="The file to change.")
    old: str = Field(
        min_length=1,
        description="The text to replace, exactly as it stands in the file, blanks included. It must occur once:"
        " take in lines around it until it does.",
    )
    new: str = Field(description="The text to put in its place.")


class EditFile:
    """Replaces one piece of a text file.

    The file's encoding, its line endings and whatever the edit doesn't touch stay to the byte. A line feed in `old`
    matches CR LF too; then the line feeds of `new` become CR LF. Where `old` is within one line, those of `new` become
    what that line ends with.
    """

    name = "edit_file"
    description = (
        "Replace a piece of a text file that occurs exactly once. Every other byte stays as it is, encoding and line"
        " endings included; in a file whose lines end in CR LF, write old and new with plain line feeds."
    )
    arguments = EditArguments

    def run(self, arguments: EditArguments, context: ToolContext) -> ToolResult:
        path, sandbox = arguments.path, context.sandbox
        try:
            info = stat_file(sandbox, path)
            if info.size > _LARGEST:
                return ToolResult.error(
                    f"{shown(path)} has {size_text(info.size)}, edit_file takes up to {size_text(_LARGEST)}:"
                    f" use a command, as sed -i … {shell_word(path)}"
                )
            before = sandbox.read(path)
            if (kind := recognise(before[:HEAD], path)) is not None:
                return ToolResult.error(f"{shown(path)} is {kind.name}, not text: edit_file can't change it.")
            edit = replace_once(before, clean(arguments.old), clean(arguments.new))
            sandbox.write(path, edit.data)
        except NotReplaced as error:
            return ToolResult.error(f"{shown(path)} is unchanged. {error}")
        except FAILURES as error:
            return failure(sandbox, path, error)
        encoding = "" if edit.codec == "utf-8" else f" ({NAMES[edit.codec]})"
        return ToolResult.of(f"Edited {shown(path)}{encoding} at line {edit.line}:\n{cut(edit.context, _SHOWN)}")

    def close(self) -> None:
        pass
