"""`agentctl tool`: look at a tool of one's own before an agent gets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from agentctl.base.errors import InputError
from agentctl.benchmarks.tool_check import Looked, check_tool

from .live import terminal
from .words import folded

MARKS = {"ok": "✓", "wrong": "✗", "note": "·"}
_NAME = 16  # columns


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Tools of one's own: a class in a file, named in a scaffold as FILE.py:NAME."""


@command.command()
@click.argument("tool", metavar="FILE.py:NAME")
@click.option("--arguments", metavar="JSON", help="Run it with these, in every sandbox that works here.")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def check(tool: str, arguments: str | None, json_out: bool) -> None:
    """Look at a tool: what the model is told of it, and what it does in each sandbox.

    The file is run with your rights, as it will be by every attempt that uses it. Exit status 1 when it is not right.
    """
    looked: list[Looked] = []
    width = terminal(sys.stdout)[0]
    for each in check_tool(tool, _arguments(arguments), Path()):
        looked.append(each)
        if not json_out:
            indent = " " * (_NAME + 3)
            lines = folded(each.told, width - len(indent))
            click.echo(f"{MARKS[each.state]} {each.name:<{_NAME}} " + f"\n{indent}".join(lines))
    if json_out:
        click.echo(json.dumps([each.model_dump() for each in looked], ensure_ascii=False, indent=1))
    sys.exit(1 if any(each.state == "wrong" for each in looked) else 0)


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"not JSON: {error}", field="--arguments", remedy="""as '{"path": "a.csv"}'""") from None
    if not isinstance(value, dict):
        raise InputError("not a JSON object", field="--arguments", remedy="""as '{"path": "a.csv"}'""")
    return value
