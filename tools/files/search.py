"""The search_files tool: grep, run inside the sandbox, bounded in time and in what it gives back."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import Field

from agentctl.base.text import clean, head

from ..sandbox.protocol import FileKind, PathRefused
from ..tool import Arguments, ToolContext, ToolResult
from .paths import FAILURES, failure, shown, stat_file

_SECONDS = 20.0
_OUTPUT = 1 << 20  # bytes of grep's output that are looked at
_MATCHES = 200  # lines shown
_PER_FILE = 100  # matching lines of one file
_LINE = 300  # characters of a line that are shown
_PIECE = 8_000  # bytes of an output line of grep that are looked at: the path, the number and enough of the text
_CHARACTERS = 18_000  # shown in all


class SearchArguments(Arguments):
    pattern: str = Field(
        min_length=1, description="A regular expression in Perl's syntax, matched within lines; (?i) ignores case."
    )
    path: str = Field(default=".", min_length=1, description="The folder or file to search; without it, the workspace.")
    glob: str | None = Field(
        default=None,
        min_length=1,
        description="Only files with such a name (*.py) or path below the folder (src/**/*.R).",
    )


@dataclass(frozen=True)
class _Match:
    path: str  # below the folder that was searched
    line: int
    text: str  # the line, or the beginning of a long one


class SearchFiles:
    """Lines of text files that match a pattern.

    grep matches bytes, so that a file in Latin-1 is searched, too: a dot stands for one byte. Only where the pattern
    itself has other letters than ASCII are characters matched. Binary files, .git folders and links are left out.
    """

    name = "search_files"
    description = (
        "Find lines of text files, below a folder, that match a regular expression. Shown as path:line: text."
        " Binary files are left out; so are links, and .git folders."
    )
    arguments = SearchArguments

    def run(self, arguments: SearchArguments, context: ToolContext) -> ToolResult:
        if "\n" in arguments.pattern or "\0" in arguments.pattern:
            return ToolResult.error(
                "The pattern is matched within lines: it can't hold a line feed or a zero character."
            )
        try:
            root = context.sandbox.stat(arguments.path) if "\0" not in arguments.path else None
            if root is None or root.kind is FileKind.OTHER:
                stat_file(context.sandbox, arguments.path)  # raises, naming what is wrong
                raise PathRefused(f"{shown(arguments.path)} can't be searched")
        except FAILURES as error:
            return failure(context.sandbox, arguments.path, error)
        limit = max(1.0, min(_SECONDS, context.seconds_left()))
        done = context.sandbox.exec(_command(arguments, root.path), timeout=limit, limit=_OUTPUT + 4096)
        matches = _matches(done.stdout, root.path, arguments.glob)
        complaint = clean(done.stderr.decode("utf-8", "replace")).strip()
        notes = [f"stopped after {limit:g} s: not all files were searched"] if done.timed_out else []
        if complaint:
            if not matches:
                return ToolResult.error(f"grep: {head(complaint.removeprefix('grep: '), 500)}")
            notes.append(head(complaint, 300))
        if len(done.stdout) >= _OUTPUT:
            notes.append("too much was found to look at all of it: make the pattern or the folder narrower")
        return _show(matches, arguments, notes)

    def close(self) -> None:
        pass


def _command(arguments: SearchArguments, root: str) -> list[str]:
    """grep with each line and the whole cut, so that no file's one long line hides what other files hold.

    A pattern with letters beyond ASCII needs a UTF-8 locale to match a letter as one.
    """
    locale = "C" if arguments.pattern.isascii() else "C.UTF-8"
    options = ["-r", "-n", "-I", "-H", "-s", "-P", "--null", f"--max-count={_PER_FILE}"]
    skipped = ["--devices=skip", "--exclude-dir=.git"]
    if arguments.glob is not None:
        skipped.append(f"--include={PurePosixPath(arguments.glob).name}")
    grep = ["grep", *options, *skipped, "-e", clean(arguments.pattern), "--", root]
    return ["env", f"LC_ALL={locale}", "sh", "-c", f'"$@" | cut -b 1-{_PIECE} | head -c {_OUTPUT}', "sh", *grep]


def _matches(output: bytes, root: str, glob: str | None) -> list[_Match]:
    """grep's lines `path NUL number : text`; a last one cut by the cap is dropped."""
    wanted = re.compile(_glob_pattern(glob)) if glob is not None and "/" in glob else None
    matches, place = list[_Match](), 0
    while (zero := output.find(b"\0", place)) >= 0 and (end := output.find(b"\n", zero)) >= 0:
        number, _, text = output[zero + 1 : end].partition(b":")
        below = os.fsdecode(output[place:zero]).removeprefix(root.rstrip("/") + "/")
        if wanted is None or wanted.fullmatch(below):
            matches.append(_Match(below, int(number), text[: 4 * _LINE].decode("utf-8", "replace").removesuffix("\r")))
        place = end + 1
    return sorted(matches, key=lambda match: (match.path, match.line))  # grep goes through folders in the disk's order


def _glob_pattern(glob: str) -> str:
    """A path pattern as a regular expression: `**/` is any number of folders, `*` and `?` stay within a name."""
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob.removeprefix("./"))
    return "(?s)" + "".join(pieces.get(part) or re.escape(part) for part in parts)


def _show(matches: list[_Match], arguments: SearchArguments, notes: list[str]) -> ToolResult:
    lines: list[str] = []
    room = _CHARACTERS
    for match in matches[:_MATCHES]:
        more = "…" if len(match.text) > _LINE else ""
        line = f"{shown(match.path)}:{match.line}: {head(match.text, _LINE)}{more}".replace("\0", "\\0")
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    if len(lines) < len(matches):
        notes.insert(0, f"the first {len(lines):,} of {len(matches):,} or more matching lines")
    within = f" in files named {arguments.glob}" if arguments.glob is not None else ""
    text = "\n".join(lines) or f"Nothing in {shown(arguments.path)}{within} matches {arguments.pattern}"
    return ToolResult.of(f"{text}\n[{'; '.join(notes)}]" if notes else text)
