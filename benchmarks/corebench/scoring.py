"""CORE-Bench's scoring of one report, with a reason for every answer.

The rules named `corebench` give what the benchmark's own scorer gives, oddities included: an answer that can't be
compared with a number ends the scoring of the whole report, numbers have no tolerance beyond the prediction interval
of the recorded runs, and a capsule with nothing to score counts as solved. `tests` hold it to recorded answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from agentctl.agents.task import Score, ScorePart
from agentctl.base.text import clean, head
from agentctl.tools.report_answers import as_scored
from agentctl.tools.report_json import name_of

GroundTruth = Sequence[Mapping[str, Any]]
"""The recorded runs of a capsule: each maps question to answer. The first one tells the type of an answer."""

VISION_MARK = "fig"  # lower case, anywhere in the question

# Quantiles t(0.975, n-1) for n = 2..10 runs as SciPy 1.13 computes them, as the benchmark pins it. Later versions
# differ from the eleventh digit on, enough to move an answer that lies on the edge of its interval.
_T_975 = (
    12.706204736432095,
    4.302652729696142,
    3.182446305284263,
    2.7764451051977987,
    2.570581835636314,
    2.4469118511449692,
    2.3646242515927844,
    2.306004135204166,
    2.2621571628540993,
)

_SHOWN = 300  # characters of an answer that a score keeps


class Kind(StrEnum):
    """What sort of answer a question has, by the first run."""

    NUMBER = "number"
    TEXT = "text"
    LIST = "list"


class CoreScore(Score):
    """A report's score: right and counted questions, apart for those that need text and those that need a figure."""

    correct_written: int
    correct_vision: int
    total_written: int
    total_vision: int


class Verdict(NamedTuple):
    """Whether one answer is right, and why."""

    correct: bool
    reason: str


class Unscorable(Exception):
    """The recorded runs of a question can't be averaged. The benchmark then gives nothing for the whole capsule."""


class Incomparable(Exception):
    """An answer that can't be compared with its truth. The benchmark then stops scoring the report."""


def kind_of(truth: object) -> Kind | None:
    """The kind of a question with this first answer; None (null, an object) for one that is never counted."""
    if isinstance(truth, int | float):
        return Kind.NUMBER
    if isinstance(truth, str):
        return Kind.TEXT
    return Kind.LIST if isinstance(truth, list) else None


def is_vision(question: str) -> bool:
    """Whether the benchmark counts the question among those that need a figure."""
    return VISION_MARK in question


def score_report(ground_truth: GroundTruth, report: object, rules: str = "corebench") -> CoreScore:
    """Score one report (parsed JSON; it is not changed) against the recorded runs of its capsule.

    IndexError for a ground truth without runs, as in the benchmark; ValueError for unknown `rules`.
    `value` is the share of counted questions that are right, and 1 where none is counted.
    """
    if rules not in _JUDGES:
        raise ValueError(f"no scoring rules {rules!r} (there are: {', '.join(_JUDGES)})")
    if not ground_truth:
        raise IndexError("a ground truth without runs can't be scored")
    kinds = {question: kind for question, truth in ground_truth[0].items() if (kind := kind_of(truth)) is not None}
    verdicts = _JUDGES[rules](kinds, ground_truth, report)
    parts = tuple(_part(question, kinds[question], ground_truth, report, verdicts[question]) for question in kinds)
    right = [part.group for part in parts if part.correct]
    total = [part.group for part in parts]
    return CoreScore(
        scorer=rules,
        value=len(right) / len(total) if total else 1.0,
        solved=len(right) == len(total),
        parts=parts,
        correct_written=right.count("written"),
        correct_vision=right.count("vision"),
        total_written=total.count("written"),
        total_vision=total.count("vision"),
    )


def report_after(report: object) -> object:
    """The report as the benchmark's results file holds it: no percent signs, and numbers for texts that are numbers."""
    return {key: as_scored(value) for key, value in report.items()} if isinstance(report, dict) else report


def prediction_interval(values: Sequence[Any]) -> tuple[float, float]:
    """Bounds (inclusive) that hold the next run's number with 95 %, from the numbers of the recorded runs.

    NaN for a single run. Unscorable where a value is no number.
    """
    import numpy

    runs = len(values)
    if not all(isinstance(value, int | float) for value in values):
        raise Unscorable("the recorded runs are not all numbers")
    if runs == 1:
        return math.nan, math.nan
    try:
        with numpy.errstate(all="ignore"):
            mean, deviation = float(numpy.mean(values)), float(numpy.std(values, ddof=1))
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise Unscorable(f"the recorded runs can't be averaged: {error}") from None
    half = _t_975(runs - 1) * deviation * math.sqrt(1 + 1 / runs)
    return mean - half, mean + half


def _t_975(freedom: int) -> float:
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def _judge_corebench(kinds: Mapping[str, Kind], runs: GroundTruth, report: object) -> dict[str, Verdict]:
    """A verdict for each counted question, by the benchmark's rules."""
    if not isinstance(report, dict):
        return dict.fromkeys(kinds, Verdict(False, f"the report is {name_of(report)}, not an object"))
    try:
        intervals = {question: _interval(runs, question) for question, kind in kinds.items() if kind is Kind.NUMBER}
    except Unscorable as problem:
        return dict.fromkeys(kinds, Verdict(False, f"nothing of this capsule counts: {problem}"))
    verdicts = dict.fromkeys(kinds, Verdict(False, "not in the report"))
    stopped_at: str | None = None
    for question, value in report.items():
        if question not in kinds:
            continue
        if stopped_at is not None:
            verdicts[question] = Verdict(False, f"not reached: scoring stopped at {clean(stopped_at)!r}")
            continue
        try:
            verdicts[question] = _compare(kinds[question], runs[0][question], intervals.get(question), as_scored(value))
        except Incomparable as problem:
            verdicts[question] = Verdict(False, f"{problem}; scoring of the report stops here")
            stopped_at = question
    return verdicts


_JUDGES: dict[str, Callable[[Mapping[str, Kind], GroundTruth, object], dict[str, Verdict]]] = {
    "corebench": _judge_corebench,
}


def _interval(runs: GroundTruth, question: str) -> tuple[float, float]:
    try:
        values = [run[question] for run in runs]
    except (KeyError, TypeError):
        raise Unscorable(f"a recorded run lacks {question!r}") from None
    return prediction_interval(values)


def _compare(kind: Kind, truth: Any, interval: tuple[float, float] | None, given: Any) -> Verdict:
    if interval is not None:
        return _compare_number(truth, interval, given)
    if kind is Kind.LIST:
        same = given == truth
        return Verdict(same, "equals the list" if same else "differs from the list (order, types and digits count)")
    try:
        same = str(given).lower() == truth.lower()
    except (ValueError, RecursionError):
        raise Incomparable("has no text form") from None
    return Verdict(same, "equals the text, case aside" if same else "differs from the text")


def _compare_number(truth: Any, interval: tuple[float, float], given: Any) -> Verdict:
    low, high = interval
    number = _single_number(given)
    if number is None:
        return Verdict(False, "an empty list is no number")
    if math.isnan(low):
        return Verdict(False, "no number can be right: the recorded runs give no prediction interval")
    name = f"the 95% prediction interval {low!r}..{high!r}"
    if low <= number <= high:
        return Verdict(True, f"inside {name}" if low < high else "equals the number")
    return Verdict(False, f"outside {name}{_likely_slip(truth, interval, number)}")


def _single_number(given: Any) -> int | float | None:
    """The number in an answer to a numeric question, as NumPy 1.26's comparison of a float with it takes it.

    A list of one number counts as that number; None for a list without any, which is wrong but stops nothing.
    Integers in the range of 64 bits are compared as floats, larger ones exactly.
    """
    while isinstance(given, list):
        if all(item == [] for item in given):
            return None
        if len(given) > 1:
            raise Incomparable("a list of several values is no number")
        given = given[0]
    if isinstance(given, float):
        return given
    if isinstance(given, int):
        return float(given) if -(2**63) <= given < 2**64 else given
    raise Incomparable(f"{name_of(given)} is no number")


def _likely_slip(truth: Any, interval: tuple[float, float], number: int | float) -> str:
    """What probably went wrong with a number outside its interval, as a clause; empty where there is no guess."""
    low, high = interval
    if abs(number) >= 2**1000 or not math.isfinite(number) or not math.isfinite(float(truth)):
        return ""
    if number and low <= number / 100 <= high:
        return "; 100 times as large: per cent where a fraction is asked?"
    if number and low <= number * 100 <= high:
        return "; a hundredth of it: a fraction where per cent is asked?"
    if low <= -number <= high:
        return "; the sign is wrong"
    decimals = len(repr(float(number)).partition(".")[2])
    if "e" not in repr(float(number)) and number in (round(float(truth), decimals), round(float(truth))):
        return "; it is the recorded number rounded, and the benchmark does not round"
    return ""


def _part(question: str, kind: Kind, runs: GroundTruth, report: object, verdict: Verdict) -> ScorePart:
    given = shown(report[question]) if isinstance(report, dict) and question in report else ""
    return ScorePart(
        name=clean(question),
        group="vision" if is_vision(question) else "written",
        correct=verdict.correct,
        given=given,
        expected=_expected(question, kind, runs),
        reason=clean(verdict.reason),
    )


def _expected(question: str, kind: Kind, runs: GroundTruth) -> str:
    truth = runs[0][question]
    if kind is not Kind.NUMBER:
        return shown(truth)
    try:
        low, high = _interval(runs, question)
    except Unscorable:
        return shown(truth)
    only_float_noise = low <= truth <= high and high - low <= 1e-12 * abs(high)
    return shown(truth) if math.isnan(low) or only_float_noise else f"{low!r}..{high!r}"


def shown(value: object) -> str:
    """An answer as text for people: its JSON, cut where it is long."""
    try:
        return head(clean(json.dumps(value, ensure_ascii=False)), _SHOWN)
    except (TypeError, ValueError, RecursionError):
        return f"({name_of(value)} that has no JSON form)"
