"""`agentctl doctor`: what this machine can do, and what it lacks."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import click

from agentctl.agents.models.keys import KEY_VARIABLES
from agentctl.base.errors import AgentctlError
from agentctl.base.values import Frozen
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Guarantee, Mount, SandboxSpec, Workspace

from .live import terminal

State: TypeAlias = Literal["ok", "missing", "note"]


class Check(Frozen):
    """One thing looked at."""

    name: str
    state: State
    told: str


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(json_out: bool) -> None:
    """Look at this machine. Exit status 1 when an attempt could not be run on it."""
    checks = list(_checks())
    width = max(60, terminal(sys.stdout)[0])
    if json_out:
        click.echo(json.dumps([check.model_dump() for check in checks], ensure_ascii=False, indent=1))
    else:
        for check in checks:
            mark = {"ok": "✓", "missing": "✗", "note": "·"}[check.state]
            first, *rest = textwrap.wrap(check.told, width - 25)
            click.echo("\n".join([f"{mark} {check.name:<22} {first}", *(" " * 25 + line for line in rest)]))
    sys.exit(1 if any(check.state == "missing" for check in checks) else 0)


def _checks() -> Iterator[Check]:
    yield Check(name="agentctl's Python", state="ok", told=f"{platform.python_version()} in {sys.prefix}")
    for program, why in (("bwrap", "the default sandbox; apt-get install bubblewrap"), ("bash", "the shell tool")):
        path = shutil.which(program)
        yield Check(name=program, state="ok" if path else "missing", told=path or f"not found: {why}")
    yield from _sandbox("bubblewrap")
    yield from _sandbox("local")
    yield from _keys()


def _sandbox(kind: Literal["bubblewrap", "local"]) -> Iterator[Check]:
    """Open one, as `solve` would, and see what works inside."""
    with tempfile.TemporaryDirectory(prefix="agentctl-doctor-") as name:
        root = Path(name).resolve()
        (root / "workspace").mkdir()
        (root / "scratch").mkdir()
        inside = "/workspace" if kind == "bubblewrap" else str(root / "workspace")
        workspace = Workspace(mounts=(Mount(inside=inside, host=root / "workspace"),), scratch=root / "scratch")
        began = time.monotonic()
        try:
            sandbox = open_sandbox(SandboxSpec(kind=kind), workspace, owner_env=os.environ)
        except AgentctlError as error:
            yield Check(name=f"sandbox {kind}", state="missing" if kind == "bubblewrap" else "note", told=str(error))
            return
        try:
            took = time.monotonic() - began
            lacks = [guarantee.value for guarantee in Guarantee if guarantee not in sandbox.holds]
            told = f"works, opened in {took:.2f} s" + (f"; does not hold: {'; '.join(lacks)}" if lacks else "")
            yield Check(name=f"sandbox {kind}", state="ok", told=told)
            if kind == "bubblewrap":
                done = sandbox.exec(["python3", "-m", "pip", "--version"], timeout=30)
                ok = done.exit_code == 0
                found = done.stdout.decode(errors="replace").strip()
                yield Check(
                    name="Python inside",
                    state="ok" if ok else "note",
                    told=found if ok else "no python3 with pip inside: apt-get install python3-pip",
                )
        finally:
            sandbox.close()


def _keys() -> Iterator[Check]:
    present = sorted(name for name in KEY_VARIABLES if os.environ.get(name))
    told = f"present: {', '.join(present)}" if present else "none; only recorded runs, scripts and keyless servers"
    yield Check(name="provider keys", state="ok" if present else "note", told=told)
    model = os.environ.get("AGENTCTL_MODEL")
    yield Check(name="default model", state="ok" if model else "note", told=model or "none: set AGENTCTL_MODEL")
