"""The key check of AutoGPT-CORE: the set of keys is looked at, and nothing else of the report."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass

from agentctl.base.messages import Status
from agentctl.base.text import clean, head

from ..sandbox.protocol import FileKind, PathRefused
from ..tool import ToolContext
from .check import Refused, expected_at

_NAMED = 100  # entries of the folder that are named
_NAME = 200  # characters of each


@dataclass(frozen=True)
class KeySet:
    """Whether the report's keys are the questions. As in the original, a refusal is an ordinary, successful result.

    `delete` and `in_material` bring back faults of the original: it deletes a report with other keys, and looks for the
    report in the folder of the capsule, whatever place the prompt names.
    """

    delete: bool = False
    in_material: bool = False

    def refusal(self, context: ToolContext) -> Refused | None:
        path = expected_at(context, in_material=self.in_material)
        if not _is_there(context, path):
            return Refused(words=_absent(context, path), status=Status.OK)
        asked = context.deliverable.names()
        given = context.deliverable.given(path)
        if given is not None and set(given) == set(asked):
            return None
        fault = "does not hold one JSON object" if given is None else "has other keys than it should"
        keys = "\n".join(json.dumps(name, ensure_ascii=False) for name in asked)
        return Refused(
            words=f"Not finished yet: {path} {fault}. Its keys must be these, all of them and no others:\n{keys}",
            status=Status.OK,
            deletes=path if self.delete else None,
        )


def _is_there(context: ToolContext, path: str) -> bool:
    try:
        return context.sandbox.stat(path).kind is not FileKind.FOLDER
    except FileNotFoundError:
        return False
    except (OSError, PathRefused):
        return True  # something that can't be read is in its place


def _absent(context: ToolContext, path: str) -> str:
    folder, name = posixpath.split(path)
    try:
        entries = context.sandbox.list(folder, limit=_NAMED + 1)
    except (OSError, PathRefused):
        entries = []
    names = [
        head(clean(posixpath.basename(entry.path)), _NAME) + ("/" if entry.kind is FileKind.FOLDER else "")
        for entry in entries[:_NAMED]
    ]
    more = ", and more" if len(entries) > _NAMED else ""
    return (
        f"Not finished yet: there is no {name} in {folder}, where it belongs. "
        f"That folder holds: {', '.join(names) or 'nothing'}{more}."
    )
