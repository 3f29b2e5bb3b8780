"""The linter: no text of a prompt holds an answer of the task set."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl import solve
from agentctl.agents.scaffold import load_scaffold, shipped_scaffolds
from agentctl.base.errors import InputError
from agentctl.base.paths import resolve
from agentctl.benchmarks.corebench.dataset import Capsule, Dataset, load_dataset
from agentctl.benchmarks.corebench.leaks import leaks, refuse_leaks, texts_of
from agentctl.prompts.hints import all_hints

HERE = Path(__file__).parent
DATASETS = (resolve("agentctl:examples/dataset.json"), HERE / "data/corebench/dataset.json")


def dataset(*answers: Any, runs: int = 1) -> Dataset:
    capsules = (
        Capsule(
            field="Computer Science",
            language="Python",
            capsule_title="A title",
            capsule_id=f"capsule-{n:07}",
            capsule_doi="10.1/1",
            task_prompt="Run it.",
            results=tuple({"Report it.": answer} for _ in range(runs)),
        )
        for n, answer in enumerate(answers)
    )
    return Dataset(path=Path("mine.json"), digest="0" * 64, capsules=tuple(capsules))


def holds(text: str, answer: Any) -> bool:
    return bool(leaks({"hint x": text}, dataset(answer)))


@pytest.mark.parametrize("path", DATASETS, ids=lambda path: path.parent.name)
def test_no_shipped_text_holds_an_answer_of_a_shipped_task(path: Path) -> None:
    found = load_dataset(path)
    texts = {f"hint {hint.id}": hint.text for hint in all_hints()}
    for name in shipped_scaffolds():
        texts |= texts_of(load_scaffold(name))
    prompts = files("agentctl.prompts")
    for folder in ("roles", "system"):
        texts |= {entry.name: entry.read_text("utf-8") for entry in prompts.joinpath(folder).iterdir()}
    assert len(texts) > 30
    assert leaks(texts, found) == []


@pytest.mark.parametrize("capsule", load_dataset(DATASETS[0]).capsules, ids=lambda capsule: capsule.capsule_id)
def test_planted_answers_of_the_examples_are_found(capsule: Capsule) -> None:
    examples = load_dataset(DATASETS[0])
    for question, answer in capsule.results[0].items():
        if len(str(answer)) > 6:
            found = leaks({"hint mine": f"As a rule the result is {answer}."}, examples)
            assert [(leak.text, leak.task, leak.question) for leak in found] == [
                ("hint mine", capsule.capsule_id, question)
            ]


@pytest.mark.parametrize(
    "text",
    [
        "0.78325", "0.783", ".783", "0,783", "78.3%", "78.3 percent", "-0.783", "−0.7832", "7.83e-1", "7.83 × 10^-1",
        "7.83 x 10⁻¹", "７８.３", "see 0.783247.", "(0.7832)", "$0.783", "=0.783;", "7.8325E-01",
    ],
)  # fmt: skip
def test_a_fraction_is_found_in_its_usual_forms(text: str) -> None:
    assert holds(f"The error is {text} or so", 0.783247)


@pytest.mark.parametrize(
    "text",
    [
        "1234567", "1,234,567", "1 234 567", "1\u202f234\u202f567", "1'234'567", "1.234.567", "1_234_567",
        "1.23 million", "1.2346e6", "1235 thousand", "1,234,567.0", "1.234.567,00", "1230000",
    ],
)  # fmt: skip
def test_a_large_number_is_found_in_its_usual_forms(text: str) -> None:
    assert holds(f"there are {text} of them", 1234567)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("five files, 5 steps, 50 %", 5),
        ("about 0.78 or 0.8", 0.783247),
        ("0.784, 0.7833, 7.83", 0.783247),
        ("yes, there is no such thing", "yes"),
        ("an increase", "increase"),
        ("100 or 1000 lines", 1000),
        ("the results that 0.5 gives", 0.5),
        ("wait 120 s", 0.0),
        ("a linear aggression", "linear regression"),
        ("version v1.234 and file_1234", 1234),
        ("True, 1.00 and false", True),
        ("use 12 or 13", [1, 2]),
        ("12.3456", 1234.56),
    ],
)
def test_what_anybody_may_write_is_no_leak(text: str, answer: Any) -> None:
    assert not holds(text, answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("it is Linear   REGRESSION.", "linear regression"),
        ("use random-forest", "random_forest"),
        ("the state of VERMONT", "Vermont"),
        ("XGBoost wins", "xgBoost"),
        ("they are C, B and D, A, E", ["C", "B and", "D", "A", "E"]),
        ("one is Adelie", ["Adelie", "x"]),
        ("one is 12.34", [1, 12.34]),
        ("just 12.34 %", "12.34%"),
        ("just 1234", "1,234"),
        ("0.1234 it is", 12.34),
        ("an autoregression", "autoregression"),
    ],
)
def test_texts_and_lists_are_found(text: str, answer: Any) -> None:
    assert holds(text, answer)


@given(st.integers(min_value=101, max_value=10**12).filter(lambda n: len(str(n).rstrip("0")) >= 3))
def test_any_whole_number_is_found_with_and_without_separators(number: int) -> None:
    for form in (f"{number}", f"{number:,}", f"{number:_}", f"{number:,}".replace(",", "\u00a0"), f"{number:.6e}"):
        assert holds(f"so {form} it is", number)


@given(st.floats(min_value=1e-8, max_value=1e8), st.integers(min_value=3, max_value=9))
def test_any_number_is_found_however_it_is_rounded(number: float, digits: int) -> None:
    if len(f"{number:.15e}".partition("e")[0].replace(".", "").strip("0")) < 3:
        return
    form = f"{number:.{digits - 1}e}"
    if len(form.partition("e")[0].replace(".", "").rstrip("0")) >= 3:
        assert holds(f"so {form} it is", number)
        assert holds(f"so {float(form):.12g} it is", number)
        if number < 1:
            assert holds(f"so {100 * number:.9f}% it is", number) or number < 1e-7
    other = float(f"{number:.3g}") * 1.02
    assert not holds(f"so {other:.9e} it is", number)


def test_the_error_names_text_and_task_and_not_the_answer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^hint x: holds an answer of capsule-0000001 and of 1 more:") as caught:
        refuse_leaks({"role y": "fine", "hint x": "it is 12.345"}, dataset("no", 12.345, 12.3451))
    assert "12.3" not in str(caught.value)
    refuse_leaks({"role y": "fine"}, dataset(12.345))


def test_ones_own_hint_with_an_answer_is_refused_before_an_attempt(tmp_path: Path) -> None:
    shipped = load_dataset(DATASETS[0]).capsules[1]
    answer = next(iter(shipped.results[0].values()))
    (tmp_path / "mine.md").write_text(f"---\nkind: best-practice\nwhat: x\n---\nExpect {answer}.\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nsystem: plain\nhints: [mine.md]\ntools: [bash, finish]\n")
    assert set(texts_of(load_scaffold(str(tmp_path / "mine.yaml")))) == {"system text plain", "hint mine"}
    with pytest.raises(InputError, match=f"hint mine: holds an answer of {shipped.capsule_id}"):
        solve(
            shipped.capsule_id,
            model="script:none.json",
            scaffold=str(tmp_path / "mine.yaml"),
            record=tmp_path / "record",
        )
