"""The person who plays the model with `--model human`, at this terminal."""

from __future__ import annotations

import select
import sys

import click

from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError

from .live import terminal
from .words import harmless

_POLL = 0.1  # seconds between looks at the cancel flag


class AtTerminal:
    """Shows on standard error, as standard output may be piped on, and reads lines from standard input."""

    def __init__(self) -> None:
        if not sys.stdin.isatty() or not sys.stderr.isatty():
            raise InputError(
                "a person plays the model at a terminal, and this is none",
                field="model",
                remedy="run it in one, or write the replies into a file: --model script:FILE",
            )
        self._width, self._colour = terminal()

    def show(self, title: str, text: str) -> None:
        bar = f"── {title} " + "─" * max(0, min(self._width, 100) - len(title) - 4)
        click.echo(click.style(bar, fg="cyan") if self._colour else bar, err=True)
        for line in text.splitlines():
            click.echo(harmless(line), err=True)

    def line(self, prompt: str, cancel: Cancel) -> str | None:
        click.echo(prompt, nl=False, err=True)
        # The terminal has a line ready when it is whole: until then the wish to stop is looked at.
        while not select.select([sys.stdin], [], [], _POLL)[0]:
            cancel.check()
        cancel.check()
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None
