"""A text of a prompt, with the name of the file that it is from."""

from __future__ import annotations

from agentctl.base.values import Frozen


class Part(Frozen):
    """One text, whole: a scaffold holds its parts, so that its hash covers what they say."""

    name: str  # of the file
    text: str
