"""CORE-Bench's scoring: the benchmark's own answers to the letter, and a reason for each."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.agents.task import Score
from agentctl.base.jsonio import dumps
from agentctl.benchmarks.corebench import CoreScore, score_report
from agentctl.benchmarks.corebench.scoring import prediction_interval, report_after
from agentctl.benchmarks.corebench.summary import Summary, summarise

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # others use the machine, too
COUNTS = {
    "correct_written_answers": "correct_written",
    "correct_vision_answers": "correct_vision",
    "total_written_questions": "total_written",
    "total_vision_questions": "total_vision",
}


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values with NaN equal to itself, and 1 apart from true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def mismatches(case: dict[str, Any]) -> list[str]:
    """What our score of one conformance case has other than the benchmark's."""
    expected = case["expected"]["corebench"]
    report = copy.deepcopy(case["report"])
    if "raises" in expected:
        with pytest.raises(Exception) as caught:  # the type is compared below
            score_report(case["ground_truth"], report)
        return [] if caught.type.__name__ == expected["raises"] else [f"raises {caught.type.__name__}"]
    score = score_report(case["ground_truth"], report)
    summary = summarise([score])
    got: dict[str, Any] = {
        **{theirs: getattr(score, ours) for theirs, ours in COUNTS.items()},
        "task_correct": score.solved,
        "written_task_correct": summary.correct_written_tasks == 1,
        "vision_task_correct": summary.correct_vision_tasks == 1,
        "report_after": report_after(report),
    }
    assert not expected.keys() - got.keys(), f"expected values that this test can't map: {expected.keys() - got.keys()}"
    wrong = [f"{name}: {got[name]!r}, not {value!r}" for name, value in expected.items() if not same(got[name], value)]
    if "report_after" not in expected and report_after(report) != case["report"]:
        wrong.append("the report after scoring differs, and should not")
    if not same(report, case["report"]):
        wrong.append("the caller's report was changed")
    return wrong


def test_the_benchmarks_own_answers(conformance: Callable[[str], Any]) -> None:
    entries = conformance("corebench_scoring/cases.json")
    wrong = {entry["id"]: found for entry in entries if (found := mismatches(entry))}
    assert entries and not wrong


def test_the_benchmarks_own_summaries(conformance: Callable[[str], Any]) -> None:
    for entry in conformance("corebench_scoring/summary_cases.json"):
        counts = [
            score_of(**{ours: one[theirs] for theirs, ours in COUNTS.items()}) for one in entry["capsule_results"]
        ]
        expected = entry["expected"]["corebench_summary"]
        assert set(expected) == set(Summary.model_fields)
        assert summarise(counts).model_dump() == expected, entry["id"]


def score_of(**counts: int) -> CoreScore:
    return CoreScore(scorer="corebench", value=0, solved=False, **counts)


def reasons(score: Score) -> list[str]:
    return [part.reason for part in score.parts]


def runs(**answers: Any) -> list[dict[str, Any]]:
    """Three equal runs."""
    return [answers] * 3


def test_every_answer_has_a_reason() -> None:
    truth = [
        {"auc": 0.9375, "n": 12, "fig label": "Red", "steps": [1, 2]},
        {"auc": 0.9372, "n": 12},
        {"auc": 0.9319, "n": 12},
    ]
    score = score_report(truth, {"fig label": "blue", "auc": 0.95, "n": 12.0, "extra": 1})
    assert [(part.name, part.group, part.correct) for part in score.parts] == [
        ("auc", "written", True),
        ("n", "written", True),
        ("fig label", "vision", False),
        ("steps", "written", False),
    ]
    assert score.parts[0].expected.startswith("0.919") and ".." in score.parts[0].expected
    assert [part.expected for part in score.parts[1:]] == ["12", '"Red"', "[1, 2]"]
    assert [part.given for part in score.parts] == ["0.95", "12.0", '"blue"', ""]
    assert reasons(score)[1:] == ["equals the number", "differs from the text", "not in the report"]
    assert "inside the 95% prediction interval" in reasons(score)[0]
    assert (score.value, score.solved) == (0.5, False)


@pytest.mark.parametrize("bad", ["n/a", None, {}, {"value": 1}, [1.0, 1.0], ["1"], [None], "1,0"])
def test_a_bad_value_ends_the_scoring_and_the_reason_says_so(bad: Any) -> None:
    score = score_report(runs(a=1.0, b=2.0, c="x"), {"a": 1.0, "b": bad, "c": "x"})
    assert [part.correct for part in score.parts] == [True, False, False]
    assert "stops here" in reasons(score)[1] and reasons(score)[2] == "not reached: scoring stopped at 'b'"


@pytest.mark.parametrize("harmless", [math.nan, math.inf, [], [[]], 10**400, -(10**400), True, "nan", [[2.5]], 2**64])
def test_a_wrong_number_ends_nothing(harmless: Any) -> None:
    score = score_report(runs(b=2.0, c="x"), {"b": harmless, "c": "x"})
    assert [part.correct for part in score.parts] == [False, True]


def test_an_integer_is_compared_as_the_float_it_is_nearest_to() -> None:
    assert score_report(runs(n=2**53 + 1), {"n": 2**53 + 1}).solved


@pytest.mark.parametrize(
    ("truth", "given", "word"),
    [
        (0.925, 92.5, "100 times"),
        (92.5, 0.925, "a hundredth"),
        (-0.77, 0.77, "the sign"),
        (0.91234, 0.91, "rounded"),
        (0.91234, 0.92, ""),
        (12.4, 12, "rounded"),
    ],
)
def test_a_wrong_number_is_told_its_likely_slip(truth: float, given: float, word: str) -> None:
    [reason] = reasons(score_report(runs(q=truth), {"q": given}))
    assert reason.startswith("outside the 95% prediction interval")
    assert (word in reason) if word else ";" not in reason


def test_a_capsule_whose_runs_do_not_fit_gives_nothing() -> None:
    for truth in ([{"a": 1, "b": "x"}, {"b": "x"}], [{"a": 1, "b": "x"}, {"a": "1", "b": "x"}]):
        score = score_report(truth, {"b": "x", "a": 1})
        assert score.value == 0 and all("nothing of this capsule counts" in reason for reason in reasons(score))


def test_a_single_run_says_that_no_number_can_be_right() -> None:
    score = score_report([{"a": 1, "b": "x"}], {"a": 1, "b": "X"})
    assert [part.correct for part in score.parts] == [False, True] and "no prediction interval" in reasons(score)[0]


def test_no_runs_and_unknown_rules_are_refused() -> None:
    with pytest.raises(IndexError):
        score_report([], {})
    with pytest.raises(ValueError, match="there are: corebench"):
        score_report(runs(a=1), {}, rules="guess")


@pytest.mark.parametrize("report", [None, [], [{"a": 1}], "text", 3, True])
def test_a_report_that_is_no_object_gets_nothing_and_keeps_its_totals(report: Any) -> None:
    score = score_report(runs(a=1), report)
    assert (score.value, score.solved, score.total_written) == (0, False, 1) and "not an object" in reasons(score)[0]
    assert report_after(report) == report


def test_nothing_to_score_counts_as_solved() -> None:
    score = score_report(runs(a=None, b={"x": 1}), {})
    assert (score.value, score.solved, score.parts) == (1, True, ())


def test_the_interval_is_students() -> None:
    low, high = prediction_interval([10, 12, 11])
    assert (low + high) / 2 == pytest.approx(11) and (high - low) / 2 == pytest.approx(4.3026527 * math.sqrt(4 / 3))
    many = [float(n % 3) for n in range(30)]
    from statistics import mean, stdev

    low, high = prediction_interval(many)
    assert high - mean(many) == pytest.approx(2.0452296 * stdev(many) * math.sqrt(31 / 30))


def test_half_widths_for_two_to_twelve_runs_agree_with_scipy() -> None:
    from scipy.stats import t

    for count in range(2, 13):
        low, high = prediction_interval([0.0] * (count - 1) + [1.0])
        deviation = math.sqrt(1 / count)  # of one 1 among zeros: n * p * (1 - p) / (n - 1) with p = 1 / n
        assert (high - low) / 2 == pytest.approx(
            t.ppf(0.975, count - 1) * deviation * math.sqrt(1 + 1 / count), rel=1e-9
        )


def test_a_score_survives_json_whatever_was_reported() -> None:
    report = {"a": math.nan, "b": "\ud800", "c": [math.inf] * 1000, "d": 10**5000}
    score = score_report(runs(a=1.5, b="x", c=[1], d=2), report)
    assert CoreScore.model_validate_json(dumps(score.model_dump(mode="json"))) == score
    assert len(score.parts[2].given) <= 300
    assert isinstance(score, Score)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("5%"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)
KEYS = st.sampled_from(["a", "b", "fig c", "d"])
RUNS = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=4)


@calm
@given(RUNS, st.dictionaries(KEYS, VALUES) | VALUES)
def test_any_report_against_any_truth(truth: list[dict[str, Any]], report: Any) -> None:
    before = json.dumps(report)
    score = score_report(truth, report)
    assert json.dumps(report) == before
    assert 0 <= score.correct_written <= score.total_written and 0 <= score.correct_vision <= score.total_vision
    assert score.solved == (score.value == 1)
    assert sum(part.correct for part in score.parts) == score.correct_written + score.correct_vision
    assert CoreScore.model_validate_json(dumps(score.model_dump(mode="json"))) == score


# squares of numbers below 1e-150 underflow, and the interval misses its own runs: the benchmark's fault, and ours
NUMBERS = st.floats(-1e9, -1e-100) | st.floats(1e-100, 1e9) | st.integers(-(10**9), 10**9)


@calm
@given(st.dictionaries(st.text(max_size=5), NUMBERS, min_size=1, max_size=4))
def test_the_recorded_answer_is_always_right(answers: dict[str, float]) -> None:
    assert score_report([answers] * 3, answers).solved
