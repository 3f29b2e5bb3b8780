"""What a person sees while an attempt runs: a line a call, and what is spent against the cap."""

from __future__ import annotations

import os
import re
import shutil
import sys
from decimal import Decimal
from typing import TextIO

import click

from agentctl.agents.events import (
    Carried,
    Condensed,
    Ended,
    Event,
    Failed,
    MessageAdded,
    NetworkRefused,
    Note,
    Ran,
    Replied,
)
from agentctl.agents.state import calls_of
from agentctl.base.messages import Call, Message, Role, Status

from .words import dollars, fitted, harmless, padded, seconds, wrapped

_MARKS = {Status.OK: "✓", Status.ERROR: "✗", Status.TIMEOUT: "⏱", Status.CANCELLED: "■", Status.NOT_RUN: "-"}
_GONE_TO = re.compile(r"^cd \S+ (&&|;) ")  # where a command runs tells less than what it is
_COLOURS = {"✓": "green", "✗": "red", "⏱": "yellow"}


class Live:
    """Listens to a record and writes lines of the terminal's width, `header` before the first of them."""

    def __init__(self, out: TextIO, *, header: str, width: int, colour: bool) -> None:
        self._out = out
        self._header = header
        self._width = width
        self._colour = colour
        self._spent = Decimal(0)
        self._step = 0
        self._calls: dict[str, Call] = {}

    def __call__(self, event: Event) -> None:
        if self._header:
            for line in wrapped(self._header, self._width - 1, indent="  "):
                self._write(line)
            self._header = ""
        match event:
            case MessageAdded(message=Message(role=Role.ASSISTANT)):
                self._said(event.message)
            case Replied():
                self._spent += event.came.cost or 0
            case Carried():
                self._spent += event.spent + event.uncertain
            case Ran():
                self._ran(event)
            case Failed():
                self._spent += event.failed.cost or 0
                pause = f", next try in {seconds(event.failed.pause)}" if event.failed.pause is not None else ""
                self._line(f"    ! {event.failed.fault}: {event.failed.words}{pause}")
            case NetworkRefused():
                self._line(f"    ! network: {event.refusal.words}")
            case Condensed():
                self._line(f"    ~ {event.words}")
            case Note():
                self._line(f"    ! {event.kind}: {event.text.strip().splitlines()[-1] if event.text else ''}")
            case Ended():
                detail = " ".join(harmless(event.detail).split())
                self._write(click.style(f"    = {event.end}{': ' + detail if detail else ''}", dim=True))  # never cut
            case _:
                pass

    def _said(self, message: Message) -> None:
        self._step += 1
        for call in calls_of(message):
            self._calls[call.id] = call
        text = " ".join(message.text().split())
        if text:
            self._line(f"{self._step:>3} {text}")

    def _ran(self, event: Ran) -> None:
        call = self._calls.get(event.call)
        mark = _MARKS[event.status]
        if event.status is Status.OK and event.exit_code not in (None, 0):
            mark = "✗"
        right = f" {seconds(event.seconds):>7} {dollars(self._spent):>8}"
        name = f"{fitted(event.name, 24):<12}"
        room = max(20, self._width - len(right) - len(name) - 8)
        what = padded(shown_arguments(call) if call else "", room)
        line = f"{self._step:>3} {click.style(mark, fg=_COLOURS.get(mark))} {name} {what}"
        self._write(line + click.style(right, dim=True))

    def _line(self, text: str) -> None:
        indent = " " * (len(text) - len(text.lstrip()))
        self._write(click.style(indent + fitted(text, self._width - 1 - len(indent)), dim=True))

    def _write(self, line: str) -> None:
        click.echo(line, file=self._out, color=self._colour)


def shown_arguments(call: Call) -> str:
    """The telling part of a call's arguments, on one line."""
    if call.arguments is None:
        return f"({call.error})"
    for name in ("command", "path", "pattern", "summary"):
        value = call.arguments.get(name)
        if isinstance(value, str):
            return _GONE_TO.sub("", " ".join(value.split()))
    return " ".join(f"{name}={value}" for name, value in call.arguments.items())


def terminal(out: TextIO | None = None) -> tuple[int, bool]:
    """The width to write for on `out` (standard error), and whether colour is wanted."""
    out = out or sys.stderr
    colour = out.isatty() and not os.environ.get("NO_COLOR")
    return shutil.get_terminal_size((80, 24)).columns if out.isatty() else 100, colour
