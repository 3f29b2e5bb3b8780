"""What a person sees while an attempt runs: a line a call, and what is spent against the cap."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import nullcontext
from decimal import Decimal
from typing import TextIO

import click

from agentctl.agents.ends import End
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
    Requested,
)
from agentctl.agents.models.journal import SendFailed
from agentctl.agents.models.protocol import Fault, FinishReason, RawReply
from agentctl.agents.protocols import Protocol
from agentctl.agents.protocols.arguments import loads_repaired
from agentctl.agents.state import calls_of
from agentctl.base.messages import Call, Message, Role, Status

from .moving import MovingLine
from .words import dollars, fitted, harmless, padded, seconds, wrapped

_MARKS = {Status.OK: "✓", Status.ERROR: "✗", Status.TIMEOUT: "⏱", Status.CANCELLED: "■", Status.NOT_RUN: "-"}
_GONE_TO = re.compile(r"^cd \S+ (&&|;) ")  # where a command runs tells less than what it is
_TELLING = (  # names of the argument that says most
    *("command", "command_line", "code", "pattern", "query", "path", "filename", "file_path", "folder", "url"),
    *("prompt", "summary", "reason"),
)
_RIGHT = " " * 17  # what stands right of a call: its time, and what is spent
_COLOURS = {"✓": "green", "✗": "red", "⏱": "yellow", "↺": "yellow"}
FINISH = "finish"  # the name of the tools that end an attempt


class Live:
    """Listens to a record and writes lines of the terminal's width, `header` before the first of them.

    `protocol` tells what of a reply is said beside its calls. `moving`: what goes on is shown too, in a last line that
    is rewritten each second; for a terminal on which nobody else writes. As a context it takes that line away.
    """

    def __init__(
        self, out: TextIO, *, header: str, width: int, colour: bool, protocol: Protocol, moving: bool = False
    ) -> None:
        self._out = out
        self._header = header
        self._width = width
        self._colour = colour
        self._protocol = protocol
        self._spent = Decimal(0)
        self._step = 0
        self._calls: dict[str, Call] = {}
        self._waiting: list[Call] = []  # those that are still to be run, the one that runs first
        self._finish: Ran | None = None  # a call that was let through, or put off: what follows tells
        self._again = False  # what another record holds is being done again
        self._moving = MovingLine(out) if moving else None

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        if self._moving:
            self._moving.hide()

    def __call__(self, event: Event) -> None:
        if self._header:
            for line in wrapped(self._header, self._width - 1, indent="  "):
                self._write(line)
            self._header = ""
        if self._finish and isinstance(event, Ran | Requested | Ended):
            done = isinstance(event, Ended) and event.end is End.FINISHED
            self._row(self._finish, *(("✓", "") if done else ("↺", "put off: ")))
            self._finish = None
        match event:
            case MessageAdded(message=Message(role=Role.ASSISTANT)):
                self._said(event.message)
            case Requested():
                self._asked(event.sent.role)
            case Replied():
                self._spent += event.came.cost or 0
            case Carried():
                self._spent += event.spent + event.uncertain
                self._again = True
                self._line(f"    > what {event.record} ran is run again, to come to where it stopped")
            case Ran():
                self._ran(event)
            case Failed(failed=SendFailed(fault=Fault.OVER)):
                pass  # the end says it
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
                self._waiting = []
                self._goes_on("    … keeping what is there")
            case _:
                pass

    def _asked(self, role: str) -> None:
        if role == "main":
            self._waiting = []
        if self._again:
            self._line("    > from here on the model is asked")
            self._again = False
        self._goes_on(f"    … {role} model")

    def _said(self, message: Message) -> None:
        self._step += 1
        self._waiting = list(calls_of(message)) or self._written(message)
        self._calls |= {call.id: call for call in self._waiting}
        text = " ".join(self._protocol.thought(message).split())
        if text:
            self._line(f"{self._step:>3} {text}")
        self._goes_on()

    def _written(self, message: Message) -> list[Call]:
        """Calls in the text of a reply. Which tools there are is not known here, so their arguments are as written."""
        reply = RawReply(parts=message.parts, finish=FinishReason.STOP)
        return [_as_written(call) for call in self._protocol.decode(reply, self._step, {}).calls]

    def _ran(self, event: Ran) -> None:
        self._waiting = [call for call in self._waiting if call.id != event.call]
        if event.name == FINISH and event.status is Status.OK:
            self._finish = event
        else:
            failed = event.status is Status.OK and event.exit_code not in (None, 0)
            self._row(event, "✗" if failed else _MARKS[event.status])
        self._goes_on()

    def _row(self, event: Ran, mark: str, words: str = "") -> None:
        right = f" {seconds(event.seconds):>7} {dollars(self._spent):>8}"
        what = self._what(event.name, self._calls.get(event.call), right, words)
        line = f"{self._step:>3} {click.style(mark, fg=_COLOURS.get(mark))} {what}"
        self._write(line + click.style(right, dim=True))

    def _what(self, name: str, call: Call | None, right: str, words: str = "") -> str:
        """A call on what is left of a line beside its step, its mark and what stands `right`."""
        name = f"{fitted(name, 24):<12}"
        room = max(20, self._width - len(right) - len(name) - 8)
        return f"{name} {padded(words + shown_arguments(call) if call else words, room)}"

    def _goes_on(self, otherwise: str = "") -> None:
        """Show the call that runs now; where none does, `otherwise`, or nothing."""
        if self._moving is None:
            return
        if self._waiting:
            call, place = self._waiting[0], f"{self._step:>3} … "
            self._moving.show(lambda passed: place + self._what(call.name, call, _RIGHT) + f" {seconds(passed):>7}")
        elif otherwise:
            self._moving.show(lambda passed: f"{otherwise}, {seconds(passed)}")
        else:
            self._moving.hide()

    def _line(self, text: str) -> None:
        indent = " " * (len(text) - len(text.lstrip()))
        self._write(click.style(indent + fitted(text, self._width - 1 - len(indent)), dim=True))

    def _write(self, line: str) -> None:
        with self._moving.aside() if self._moving else nullcontext():
            click.echo(line, file=self._out, color=self._colour)


def _as_written(call: Call) -> Call:
    try:
        arguments = loads_repaired(call.raw)
    except ValueError:
        arguments = None
    return call.model_copy(update={"arguments": arguments} if isinstance(arguments, dict) else {"error": call.raw})


def shown_arguments(call: Call) -> str:
    """The telling part of a call's arguments, on one line."""
    if call.arguments is None:
        return f"({call.error})"
    for name in _TELLING:
        value = call.arguments.get(name)
        if isinstance(value, str):
            return _GONE_TO.sub("", " ".join(value.split()))
    return " ".join(f"{name}={value}" for name, value in call.arguments.items())


def terminal(out: TextIO | None = None) -> tuple[int, bool]:
    """The width to write for on `out` (standard error), and whether colour is wanted."""
    out = out or sys.stderr
    colour = out.isatty() and not os.environ.get("NO_COLOR")
    return shutil.get_terminal_size((80, 24)).columns if out.isatty() else 100, colour
