"""What was installed inside at the end of an attempt: `environment.lock` of its record."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from agentctl.base.errors import refused
from agentctl.base.values import Frozen

from .protocol import EnvironmentLock, ExecResult, SandboxError, SystemPackages
from .system import HOST, dpkg_status

SECONDS = 10.0  # for the answer, on a loaded machine
MOST = 8 << 20  # bytes of the answer


class _Told(Frozen):
    """What `inventory.py` says."""

    dpkg: tuple[str, ...] | None
    python: dict[str, tuple[str, ...]]
    conda: dict[str, tuple[str, ...]]
    r: dict[str, tuple[str, ...]]
    incomplete: tuple[str, ...]


def environment_lock(
    run: Callable[[Sequence[str], float, int], ExecResult],
    python: Sequence[str],
    folders: Sequence[str],
    system: Path | None,
) -> EnvironmentLock:
    """The lock of a sandbox. `run` runs a command in it, within seconds and bytes of output; `python` calls an
    interpreter there; `folders` are searched; `system` is the given system, if it is not the host's.

    SandboxError where it can't be told, for whatever reason.
    """
    start = dpkg_status(system or HOST)
    config = {"folders": list(folders), "size": start.size, "modified": start.modified_ns}
    script = importlib.resources.files(__package__ or "").joinpath("inventory.py").read_text(encoding="utf-8")
    done = run([*python, "-I", "-S", "-c", script, json.dumps(config)], SECONDS, MOST)
    if done.exit_code != 0 or done.truncated:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SandboxError(f"what is installed can't be told: {said[-1] if said else 'no answer'}")
    try:
        told = _Told.model_validate_json(done.stdout)
    except ValidationError as error:
        raise SandboxError(f"what is installed can't be told: {refused(error)}") from None
    return EnvironmentLock(
        system=_compared(start.packages, start.packages if told.dpkg is None else told.dpkg),
        python=told.python,
        conda=told.conda,
        r=told.r,
        incomplete=told.incomplete,
    )


def _compared(before: tuple[str, ...], after: tuple[str, ...]) -> SystemPackages:
    was, now = (dict(line.partition("=")[::2] for line in lines) for lines in (before, after))
    return SystemPackages(
        packages=after,
        added=tuple(f"{name}={version}" for name, version in now.items() if name not in was),
        changed=tuple(f"{name}={was[name]} -> {now[name]}" for name in now if was.get(name, now[name]) != now[name]),
        removed=tuple(f"{name}={version}" for name, version in was.items() if name not in now),
    )
