"""The figures that CORE-Bench writes over several capsules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agentctl.base.values import Frozen


class Counts(Protocol):
    """What a summary needs of one capsule. `CoreScore` has it."""

    @property
    def correct_written(self) -> int: ...
    @property
    def correct_vision(self) -> int: ...
    @property
    def total_written(self) -> int: ...
    @property
    def total_vision(self) -> int: ...


class Summary(Frozen):
    """The benchmark's twelve figures, under its own names.

    A task is correct when all its questions are, and so is one without any counted question. A written (vision) task
    has at least one written (vision) question, and is correct when all of those are.
    """

    correct_tasks: int
    total_tasks: int
    correct_questions: int
    total_questions: int
    correct_written_tasks: int
    total_written_tasks: int
    correct_vision_tasks: int
    total_vision_tasks: int
    correct_written_questions: int
    total_written_questions: int
    correct_vision_questions: int
    total_vision_questions: int


def summarise(capsules: Iterable[Counts]) -> Summary:
    """The summary of scored capsules. One that is given twice is counted twice."""
    counts = list(capsules)
    written = [(one.correct_written, one.total_written) for one in counts]
    vision = [(one.correct_vision, one.total_vision) for one in counts]
    right_written, all_written = (sum(column) for column in _columns(written))
    right_vision, all_vision = (sum(column) for column in _columns(vision))
    return Summary(
        correct_tasks=sum(w[0] == w[1] and v[0] == v[1] for w, v in zip(written, vision, strict=True)),
        total_tasks=len(counts),
        correct_questions=right_written + right_vision,
        total_questions=all_written + all_vision,
        correct_written_tasks=sum(right == total > 0 for right, total in written),
        total_written_tasks=sum(total > 0 for _, total in written),
        correct_vision_tasks=sum(right == total > 0 for right, total in vision),
        total_vision_tasks=sum(total > 0 for _, total in vision),
        correct_written_questions=right_written,
        total_written_questions=all_written,
        correct_vision_questions=right_vision,
        total_vision_questions=all_vision,
    )


def _columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [right for right, _ in pairs], [total for _, total in pairs]
