"""Sandboxes for tests: every kind over a throw-away workspace, and marks by which a test finds its processes again."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pexpect

from agentctl.tools.sandbox import open_sandbox, procs
from agentctl.tools.sandbox.protocol import ExecResult, Mount, Sandbox, SandboxSpec, Workspace

KINDS = ("bubblewrap", "local")
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def workspace(kind: str, base: Path, places: Mapping[str, bool] | None = None) -> Workspace:
    """A workspace below `base`, with more folders at `places` (inside path -> writable) where the kind can."""
    mounts = []
    for inside, writable in {"/workspace": True, **(places or {})}.items():
        host = base / f"host{inside}"
        host.mkdir(parents=True, exist_ok=True)
        mounts.append(Mount(inside=str(host) if kind == "local" else inside, host=host, writable=writable))
    scratch = base / "scratch"
    scratch.mkdir(exist_ok=True)
    return Workspace(mounts=tuple(mounts), scratch=scratch)


def opened(
    kind: str,
    base: Path,
    *,
    places: Mapping[str, bool] | None = None,
    owner_env: Mapping[str, str] | None = None,
    **limits: Any,
) -> Sandbox:
    spec = SandboxSpec(kind=kind, **limits)  # type: ignore[arg-type]
    return open_sandbox(spec, workspace(kind, base, places), owner_env=os.environ if owner_env is None else owner_env)


def sh(sandbox: Sandbox, script: str, *arguments: str, timeout: float = 20, **more: Any) -> ExecResult:
    return sandbox.exec(["sh", "-c", script, "sh", *arguments], timeout=timeout, **more)


def text(sandbox: Sandbox, script: str, *arguments: str, timeout: float = 20) -> str:
    """What `script` prints; it must end well."""
    result = sh(sandbox, script, *arguments, timeout=timeout)
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return result.stdout.decode().strip()


def mark() -> str:
    """A number of seconds to sleep that no other process sleeps: `sleep MARK` is found again by `marked`."""
    return f"{secrets.randbelow(10**6) + 10**6}.{secrets.randbelow(10**9):09d}"


def marked(number: str) -> list[procs.Entry]:
    """Processes of the host that run `sleep number`, zombies left out."""
    found = []
    for entry in procs.table().values():
        if not entry.zombie and procs.command_of(entry.pid) == f"sleep {number}":
            found.append(entry)
    return found


def await_marked(number: str, present: bool, seconds: float = 5) -> bool:
    """Wait until `sleep number` runs (or none does). False when the time is over first."""
    deadline = time.monotonic() + seconds
    while bool(marked(number)) != present:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_marked(number: str) -> None:
    for entry in marked(number):
        procs.kill(entry.pid, entry.started)


def spawn(box: Sandbox, argv: list[str], cwd: str | None = None) -> pexpect.spawn[str]:
    launch = box.launch(argv, cwd=cwd)
    child = pexpect.spawn(
        launch.argv[0], list(launch.argv[1:]), env=launch.env, cwd=launch.cwd, encoding="utf-8", timeout=10, echo=False
    )
    child.delaybeforesend = None
    return child


def python_for_all() -> str | None:
    """An interpreter of this version that a user without rights can start."""
    names = (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    for name in names:
        start_itself = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
        with contextlib.suppress(OSError):
            if subprocess.run([*AS_NOBODY, name, "-c", start_itself], capture_output=True, check=False).returncode == 0:
                return name
    return None
