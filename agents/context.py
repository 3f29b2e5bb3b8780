"""Context items: what is told anew in every request, and never kept in the conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from agentctl.base.messages import Message, Role, Text
from agentctl.tools.autogpt.open_items import OpenFile, OpenFolder, OpenItems
from agentctl.tools.sandbox.protocol import Sandbox
from agentctl.tools.tool import Tool

from .scaffold import Scaffold

CLOCK = "clock"
OPEN_FILES = "open-files"


class ContextItem(Protocol):
    """A section of every request, as things stand when it is made."""

    @property
    def name(self) -> str: ...

    def contribute(self) -> str:
        """What to tell now; empty for nothing."""
        ...


def told_now(items: Sequence[ContextItem]) -> tuple[Message, ...]:
    """One message of the user's with what all items tell now. None where they tell nothing."""
    sections = [section for item in items if (section := item.contribute())]
    return (Message(role=Role.USER, parts=(Text(text="\n\n".join(sections)),)),) if sections else ()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Clock:
    """Tells date and time, by the clock `now`."""

    name = CLOCK

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now

    def contribute(self) -> str:
        return f"The current date and time is {self._now().astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC."


class OpenFiles:
    """Tells what is in the files and folders that are kept open."""

    name = OPEN_FILES

    def __init__(self, items: OpenItems, sandbox: Sandbox) -> None:
        self._items = items
        self._sandbox = sandbox

    def contribute(self) -> str:
        shown = [f"{item.number}. {item.title}:\n{item.text}" for item in self._items.contents(self._sandbox)]
        return "\n\n".join(["What you keep open, as it is now:", *shown]) if shown else ""


def make_context(
    scaffold: Scaffold,
    tools: Mapping[str, Tool[Any]],
    sandbox: Sandbox,
    *,
    now: Callable[[], datetime] = _utc_now,
) -> list[ContextItem]:
    """What `scaffold` says is told anew in every request, in its order. `tools` are the attempt's."""
    items = next((tool.items for tool in tools.values() if isinstance(tool, OpenFile | OpenFolder)), None)
    found: list[ContextItem] = []
    for name in scaffold.context:
        if name == CLOCK:
            found.append(Clock(now))
        elif items is not None:
            found.append(OpenFiles(items, sandbox))
    return found
