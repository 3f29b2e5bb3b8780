"""A picture of a command at work: `python docs/pictures/terminal.py OUT.svg COMMAND...`, on a terminal of 80 columns.

For the pictures of the README; a test holds them to what is printed today. Needs rich, which the development set-up
brings.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pexpect
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

COLUMNS = 80


def picture(command: list[str], folder: Path | None = None) -> str:
    """What `command`, run in `folder`, prints, as an SVG of a terminal. SystemExit where it fails."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    printed, status = pexpect.run(
        " ".join(command),
        dimensions=(24, COLUMNS),
        timeout=600,
        withexitstatus=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PATH": path},
    )
    if status:
        raise SystemExit(f"exit status {status}:\n{printed}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ " + " ".join(command), style="bold"))
    console.print(Text.from_ansi(printed.replace("\r\n", "\n").rstrip("\n")))
    return console.export_svg(title=" ".join(command[:2]), theme=SVG_EXPORT_THEME)


if __name__ == "__main__":
    out, *command = sys.argv[1:]
    Path(out).write_text(picture(command) + "\n", encoding="utf-8")
