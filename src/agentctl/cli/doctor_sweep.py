"""`agentctl doctor --sweep`: what killed runs left, removed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from agentctl.benchmarks.config import read_config
from agentctl.benchmarks.sweep import Found, sweep

from .live import terminal
from .words import harmless, wrapped

_MARKS = {"removed": "✓", "left": "·", "in use": "-", "stays": "✗"}


def find_left(folders: tuple[Path, ...], *, remove: bool) -> list[Found]:
    """What is left in `folders` and below; without any, in the folder of records and in the working folder itself."""
    if folders:
        return sweep(folders, remove=remove)
    return sweep([read_config(environment=os.environ).settings.records.folder], [Path()], remove=remove)


def show_sweep(found: list[Found], *, json_out: bool) -> None:
    """Tell what was found. Ends with exit status 1 where something could not be removed."""
    if json_out:
        click.echo(json.dumps([each.model_dump() for each in found], ensure_ascii=False, indent=1))
    else:
        width = terminal(sys.stdout)[0]
        for each in found:
            why = f": {each.why}" if each.why else ""
            lines = wrapped(f"{each.what} {harmless(each.name)}{why}", width - 12)
            click.echo(f"{_MARKS[each.state]} {each.state:<8} " + f"\n{' ' * 11}".join(lines))
        numbers = [
            f"{sum(each.state == state for each in found)} {state}"
            for state in _MARKS
            if any(each.state == state for each in found)
        ]
        click.echo(", ".join(numbers) if found else "nothing is left of killed runs")
    sys.exit(1 if any(each.state == "stays" for each in found) else 0)
