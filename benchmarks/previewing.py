"""The prompt that a task would get under a scaffold, without laying the task out or opening a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

from agentctl.agents.prompting import prompt_of
from agentctl.agents.scaffold import Scaffold
from agentctl.agents.spec import Limits
from agentctl.agents.task import TaskRef
from agentctl.agents.toolbox import make_tools
from agentctl.base.paths import resolve
from agentctl.prompts.compose import Place, Prompt
from agentctl.tools.sandbox.protocol import Mount, Workspace

from .corebench.staging import ROOTS
from .tasks import load_task


def preview(scaffold: Scaffold, ref: TaskRef, place: Place) -> Prompt:
    """The prompt of the task `ref` under `scaffold`, in a bubblewrap sandbox at `place`. InputError if it has none."""
    source = resolve(ref.source)
    roots = (Mount(inside=f"/{name}", host=source / name) for name in ROOTS if (source / name).is_dir())
    workspace = Workspace(mounts=(Mount(inside="/workspace", host=source), *roots), scratch=source)
    tools = make_tools(scaffold, Limits())
    try:
        return prompt_of(scaffold, tools, load_task(ref).text(workspace), place)
    finally:
        for tool in tools.values():
            tool.close()


def place_here(network: str) -> Place:
    """What a sandbox of this machine is told to be: as root there are packages of the system to install."""
    return Place(network=network, apt=os.getuid() == 0 and Path("/usr/bin/apt-get").exists())
