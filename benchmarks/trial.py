"""A sandbox for a moment, opened as an attempt would, to see what works in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace

from .scratch import record_of, work_folder
from .sweep import DOCTOR

SandboxKind: TypeAlias = Literal["bubblewrap", "local"]


@contextmanager
def trial_sandbox(kind: SandboxKind) -> Iterator[Sandbox]:
    """A sandbox of this kind over an empty workspace, gone at the end. SandboxUnavailable where it can't work here."""
    folder = Path(tempfile.mkdtemp(prefix=f".{DOCTOR}-", suffix=".work"))  # a work folder, by a name none can guess
    with work_folder(record_of(folder)) as root:
        for name in ("workspace", "scratch", "outputs"):
            (root / name).mkdir()
        inside = "/workspace" if kind == "bubblewrap" else str(root / "workspace")
        workspace = Workspace(mounts=(Mount(inside=inside, host=root / "workspace"),), scratch=root / "scratch")
        sandbox = open_sandbox(SandboxSpec(kind=kind), workspace, owner_env=os.environ)
        try:
            yield sandbox
        finally:
            sandbox.close()
