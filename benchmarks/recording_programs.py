"""The shipped recordings, and the programs that a machine must have to play them again.

A recording runs its commands for real. Where a program is missing, each later result would differ; so that is told
before the start, in one line.
"""

from __future__ import annotations

import json

from agentctl.agents.models.protocol import ModelSpec
from agentctl.base.errors import SetupError
from agentctl.base.paths import resolve
from agentctl.tools.sandbox.protocol import Sandbox

from .corebench.locate import recordings

_FIND = 'for program; do command -v "$program" >/dev/null || echo "$program"; done'


def programs() -> dict[str, dict[str, str]]:
    """By a recording's task and level: programs that it runs and not every machine has, with Debian's packages."""
    read: dict[str, dict[str, str]] = json.loads(recordings().joinpath("programs.json").read_text(encoding="utf-8"))
    return read


def missing(wanted: dict[str, str], sandbox: Sandbox) -> list[str]:
    """The programs of `wanted` that are not on the PATH inside."""
    return sandbox.exec(["sh", "-c", _FIND, "sh", *wanted], timeout=30).stdout.decode().split() if wanted else []


def check_programs(model: ModelSpec, sandbox: Sandbox) -> None:
    """SetupError where `model` is a shipped recording that runs a program which is not there in `sandbox`."""
    if not model.name.startswith("replay:"):
        return
    record = resolve(model.name.removeprefix("replay:")).expanduser().resolve()
    if record.parent.parent != recordings().resolve():
        return
    wanted = programs().get(record.name, {})
    absent = missing(wanted, sandbox)
    if absent:
        raise SetupError(
            f"the recording {record.name} runs {' and '.join(absent)}, which is not there",
            remedy=f"apt-get install --no-install-recommends {' '.join(wanted[each] for each in absent)}",
        )
