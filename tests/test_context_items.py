"""What is told anew in every request: the clock, and what is kept open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from agent import Stage
from thoughts_fixtures import FINISH, Fast, scaffold, uses

from agentctl.agents.context import Clock, OpenFiles, make_context
from agentctl.agents.spec import Limits
from agentctl.agents.toolbox import make_tools
from agentctl.tools.autogpt.open_items import OpenItems

NOW = "The current date and time is"


@pytest.mark.parametrize("history", ["full", "autogpt"])
def test_what_is_open_is_told_as_it_is_by_then(history: str, tmp_path: Path) -> None:
    arms = scaffold(history=history, tools=("autogpt/open_file", "bash", "finish"), context=("clock", "open-files"))
    turns = [
        uses("bash", {"command": "echo before > a.txt"}),
        uses("open_file", {"file_path": "a.txt"}),
        uses("bash", {"command": "echo after > a.txt"}),
        FINISH,
    ]
    done = Stage(tmp_path, scaffold=arms, helpers={"fast": Fast().route()}).play(turns)
    told = [[str(m["content"]) for m in request if "keep open" in str(m["content"])] for request in done.model.requests]
    assert told[:2] == [[], []]
    assert ["before" in text for text in told[2]] == [True]
    assert ["after" in text for text in told[3]] == [True]
    if history == "full":
        last = done.model.requests[3][-1]
        assert last["role"] == "user"
        assert last["content"].startswith(NOW)
        assert "file" in last["content"]
        assert sum(NOW in str(message["content"]) for message in done.model.requests[3]) == 1


def test_context_is_what_the_scaffold_names(tmp_path: Path) -> None:
    arms = scaffold(tools=("autogpt/open_folder", "finish"))
    tools = make_tools(arms, Limits())
    for names, kinds in [((), []), (("open-files", "clock"), [OpenFiles, Clock]), (("clock",), [Clock])]:
        items = make_context(arms.model_copy(update={"context": names}), tools, sandbox=None)  # type: ignore[arg-type]
        assert [type(item) for item in items] == kinds
        assert [item.name for item in items] == list(names)
    assert OpenFiles(OpenItems(), sandbox=None).contribute() == ""  # type: ignore[arg-type]


def test_the_clock_is_told_in_utc() -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    for now in (datetime(2026, 3, 1, 2, 15, 20, tzinfo=there), datetime(2026, 2, 28, 20, 45, 20, tzinfo=UTC)):
        assert Clock(lambda now=now: now).contribute() == f"{NOW} 2026-02-28 20:45:20 UTC."
    assert Clock().contribute().startswith(f"{NOW} 20")
