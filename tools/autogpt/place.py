"""Where AutoGPT's commands work: in the folder of the task's material, which relative paths are taken from."""

from __future__ import annotations

from ..sandbox.protocol import Sandbox


def root(sandbox: Sandbox) -> str:
    """The folder, as seen inside."""
    return sandbox.workspace.material or sandbox.workspace.start


def placed(sandbox: Sandbox, path: str) -> str:
    """`path` as an absolute one. It is not looked at: that is the sandbox's, which refuses what leads outside."""
    return path if path.startswith("/") else f"{root(sandbox)}/{path}"
