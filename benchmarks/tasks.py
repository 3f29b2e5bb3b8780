"""Benchmarks by name: from the reference to a task to the task itself."""

from __future__ import annotations

from agentctl.agents.task import Task, TaskRef
from agentctl.base.errors import InputError


def load_task(ref: TaskRef) -> Task:
    """The task that `ref` names. InputError where it is gone, or no longer the same."""
    match ref.benchmark:
        case "corebench":
            from .corebench.task import CapsuleTask

            return CapsuleTask.load(ref)
        case _:
            raise InputError(f"no benchmark is named {ref.benchmark!r}", field="task.benchmark")


def current_ref(ref: TaskRef) -> TaskRef:
    """`ref` to the same task as it is now: with today's digest."""
    match ref.benchmark:
        case "corebench":
            from .corebench.task import CapsuleTask

            return CapsuleTask.current(ref).ref
        case _:
            raise InputError(f"no benchmark is named {ref.benchmark!r}", field="task.benchmark")
