"""`agentctl doctor`: what this machine can do, and what it lacks."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click

from agentctl.agents.models.keys import present_keys
from agentctl.base.errors import AgentctlError
from agentctl.base.values import Frozen
from agentctl.benchmarks.config import read_config
from agentctl.benchmarks.recording_programs import missing, programs
from agentctl.benchmarks.trial import SandboxKind, trial_sandbox
from agentctl.tools.sandbox.protocol import Guarantee, Sandbox

from .doctor_config import show_config
from .doctor_sweep import find_left, show_sweep
from .live import terminal
from .options import given, setting_options
from .words import count

State: TypeAlias = Literal["ok", "missing", "note"]


class Check(Frozen):
    """One thing looked at."""

    name: str
    state: State
    told: str


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folders", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="[FOLDER...]"
)
@click.option("--config", "config", is_flag=True, help="All settings, and where each comes from; solve's flags count.")
@click.option("--sweep", "sweep", is_flag=True, help="Remove what killed runs left: processes, work folders, groups.")
@click.option("--dry-run", is_flag=True, help="With --sweep: only tell what would be removed.")
@setting_options(hidden=True)
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(
    folders: tuple[Path, ...],
    config: bool,
    sweep: bool,
    dry_run: bool,
    json_out: bool,
    set_values: tuple[str, ...],
    **settings: Any,
) -> None:
    """Look at this machine. Exit status 1 when an attempt could not be run on it.

    --sweep looks in the FOLDERs and below; without any, where records are made (runs/), and in the working folder.
    Nothing that a living attempt uses is touched.
    """
    flags = given(settings, set_values)
    if (folders or dry_run) and not sweep:
        raise click.UsageError("a FOLDER and --dry-run go with --sweep")
    if flags.values and not config:
        raise click.UsageError("flags of settings go with --config")
    if config:
        return show_config(read_config(flags, environment=os.environ), json_out=json_out)
    if sweep:
        return show_sweep(find_left(folders, remove=not dry_run), json_out=json_out)
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
    yield from _settings()


def _sandbox(kind: SandboxKind) -> Iterator[Check]:
    """Open one, as `solve` would, and see what works inside."""
    try:
        yield from _opened(kind)
    except (AgentctlError, OSError) as error:
        yield Check(name=f"sandbox {kind}", state="missing" if kind == "bubblewrap" else "note", told=str(error))


def _opened(kind: SandboxKind) -> Iterator[Check]:
    began = time.monotonic()
    with trial_sandbox(kind) as sandbox:
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
            yield _apt(sandbox)
            yield from _recorded(sandbox)


def _apt(sandbox: Sandbox) -> Check:
    """Whether an agent can install packages of the system."""
    if sandbox.fingerprint().apt:
        return Check(name="apt inside", state="ok", told="works, on a layer that is thrown away")
    why = "needs root" if os.getuid() != 0 else "there is none here" if sandbox.system_writable else "no overlay here"
    told = f"not available ({why}); pip, venv, conda and R install into the agent's home"
    return Check(name="apt inside", state="note", told=told)


def _recorded(sandbox: Sandbox) -> Iterator[Check]:
    """What the shipped recordings run."""
    for recording, wanted in programs().items():
        for program in wanted:
            absent = missing({program: wanted[program]}, sandbox)
            told = f"not found inside; the recording {recording} runs it: apt-get install {wanted[program]}"
            yield Check(name=program, state="note" if absent else "ok", told=told if absent else "found inside")


def _keys() -> Iterator[Check]:
    present = present_keys(os.environ)
    shown = [f"{key.variable} ({', '.join(key.routes)})" for key in present]
    told = f"present: {', '.join(shown)}" if shown else "none; only recorded runs, scripts and keyless servers"
    yield Check(name="provider keys", state="ok" if present else "note", told=told)


def _settings() -> Iterator[Check]:
    try:
        config = read_config(environment=os.environ)
        left = [each for each in find_left((), remove=False) if each.state != "in use"]
    except (AgentctlError, OSError) as error:
        yield Check(name="settings", state="missing", told=str(error))
        return
    model = config.settings.model.name
    told = f"{model} (from {config.origin(('model', 'name'))})" if model else "none: set AGENTCTL_MODEL"
    yield Check(name="default model", state="ok" if model else "note", told=told)
    told = f"{count(len(left), 'thing')}: agentctl doctor --sweep" if left else "nothing"
    yield Check(name="left by killed runs", state="note" if left else "ok", told=told)
