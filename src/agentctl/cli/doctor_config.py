"""`agentctl doctor --config`: every setting, its value, and where that comes from."""

from __future__ import annotations

import json
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from agentctl.agents.secrets import Secrets
from agentctl.base.values import plain_decimal
from agentctl.benchmarks.config import Config
from agentctl.benchmarks.settings_file import NAME, is_secret, shown

from .live import terminal
from .words import padded

_NAME, _ORIGIN = 25, 28  # columns


def show_config(config: Config, *, json_out: bool) -> None:
    """Write all settings to standard output. What may be a key or a password is left out."""
    secrets = Secrets(os.environ)
    rows = [(name, _value(name, value, secrets), origin) for name, value, origin in config.rows()]
    if json_out:
        settings = [
            {"name": name, "value": value, "from": origin.place, "where": origin.name} for name, value, origin in rows
        ]
        tree = {"files": [str(file.path) for file in config.files], "settings": settings}
        click.echo(json.dumps(tree, ensure_ascii=False, indent=1))
        return
    width, colour = terminal(sys.stdout)
    room = width - 1 - _NAME - _ORIGIN - 2
    for name, value, origin in rows:
        place = str(origin) if len(str(origin)) <= _ORIGIN else "…" + str(origin)[1 - _ORIGIN :]  # its end says most
        line = f"{padded(name, _NAME)} {padded(_text(value), room)} {place}"
        click.echo(click.style(line, dim=True) if origin.place == "default" else line, color=colour)
    files = ", ".join(shown(file.path) for file in config.files)
    click.echo(f"\nread: {files}" if files else f"\nno {NAME} here or above, nor one of the user's own")


def _value(name: str, value: Any, secrets: Secrets) -> Any:
    """`value` as JSON has it, with nothing secret in it."""
    if is_secret(name.rpartition(".")[2], value):
        return "(not shown)"
    if isinstance(value, Decimal):
        return plain_decimal(value)
    if isinstance(value, Path):
        return secrets.cut(str(value))
    if isinstance(value, tuple):
        return [_value(name, each, secrets) for each in value]
    return secrets.cut(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    if value in (None, "", []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else " ".join(value) if isinstance(value, list) else json.dumps(value)
