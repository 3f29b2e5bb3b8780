"""Provenance of answers, and the task that collects them: produced, read, stated, or not to be told."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.agents.task import Provenance, TaskRef
from agentctl.base.deliverable import Severity
from agentctl.base.errors import InputError
from agentctl.benchmarks.corebench import CoreScore
from agentctl.benchmarks.corebench.dataset import Level
from agentctl.benchmarks.corebench.matching import finder, printed_at
from agentctl.benchmarks.corebench.provenance import FILE_LIMIT, trace
from agentctl.benchmarks.corebench.staging import Staged, stage
from agentctl.benchmarks.corebench.task import CapsuleTask, read_leniently, task_digest
from agentctl.prompts.compose import Place, PromptParts, compose
from agentctl.prompts.parts import Part
from agentctl.tools.sandbox import open_sandbox
from agentctl.tools.sandbox.protocol import Sandbox, SandboxSpec

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # others use the machine, too
OWN = Path(__file__).parent / "data" / "corebench" / "dataset.json"
ID = "capsule-0000101"
PERIOD, COUNT, LABEL = (
    "Report the mean period in seconds.",
    "Report how many sheep are counted.",
    "fig Report the label of the highest bar.",
)


def holds(answer: Any, text: str) -> bool | None:
    """Whether `text` holds `answer`; None where that would tell nothing."""
    found = finder(answer)
    return None if found is None else found(text)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (0.9432, "auc 0.9432"),
        (0.9432, "auc=0.9432;"),
        (0.9432, "(0.9432)"),
        (0.9432, "a,0.9432,b"),
        (0.9432, "0.94320000"),
        (0.9432, "9.432e-01"),
        (0.9432, "+.9432"),
        (0.9432, "0.94319999"),
        (0.9432, "0.94324999"),
        (0.9432, "94.32%"),
        (0.9432, "94.3187"),
        (94.32, "0.943188"),
        ("94.32%", "94.32"),
        ("94.32", "x 94.32 y"),
        (-0.773, "r = -0.773"),
        (-0.773, "r = −0.7731"),
        (-0.773, "[-0.773, 1]"),
        (0.35, "0.35-0.71"),
        (0.71, "0.35-0.71"),
        (412, "n = 412."),
        (412, "412 sheep"),
        (412, "412.0"),
        (412.0, "n\t412\n"),
        (412, "411.6"),
        (200, "199.7"),
        (1250, "1,250 sheep"),
        (1250, "1250"),
        (1250, "1.25e3"),
        (1234567.5, "1,234,567.5"),
        (13, "bill depth   13   0.96"),
        (13, "13,14"),
        (0.62, "0.62"),
        (0.62, "0.620"),
        (2.3839041562222194e-30, "2.3839041562222194e-30"),
        (0.000123, "0.000123"),
        (46.45062093127509, "40.7   46.45062093127509\n"),
        (100.0, "100.0"),
        ("Gas Resistance", "y: gas resistance (ohm)"),
        ("Gas Resistance", "Gas\n  Resistance"),
        ("C++ (fast)", "in C++ (fast)!"),
        ("Überlänge", "ÜBERLÄNGE"),
        (["red", "beige", "blue"], "beige, blue"),
        ([0.8123, 0.4123], "0.4123 0.8123"),
    ],
)
def test_a_text_holds_an_answer(answer: Any, text: str) -> None:
    assert holds(answer, text) is True


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (0.9432, "0.943"),
        (0.9432, "0.94326"),
        (0.9432, "0.94313"),
        (0.9432, "-0.9432"),
        (-0.773, "0.773"),
        (0.9432, "v0.9432"),
        (0.9432, "0.9432.1"),
        (0.9432, "9.432"),
        (412, "4120"),
        (412, "1412"),
        (412, "a412"),
        (412, "412b"),
        (412, "0.4124"),
        (412, "2024-05-412"),
        (13, "2024-05-13 10:13:13"),
        (13, "12.9"),
        (13, "0.13"),
        (13, "13/05/2024"),
        (0.62, "0.6183"),
        (1250, "1,2500"),
        (1250, "11,250"),
        (13, "13 " + "x" * 70_000),
        ("Gas Resistance", "Gas Resistances"),
        ("LASSO", "LASSOO"),
        ("Gas Resistance", "Gas, Resistance"),
        (["beige", "blue"], "beige"),
        (0.9432, ""),
    ],
)
def test_a_text_does_not_hold_an_answer(answer: Any, text: str) -> None:
    assert holds(answer, text) is False


@pytest.mark.parametrize(
    "answer",
    [
        *(0, 1, 7, 0.5, 3.0, -2, True, False, None, "yes", "A", "", "  ", "0", "5%", [], [1, 2], ["a", None]),
        *({"value": 412.5}, math.nan, math.inf, "nan", 1e300, 1e-300),
        pytest.param(10**5000, id="ten to the 5000th"),
    ],
)
def test_some_values_tell_nothing(answer: Any) -> None:
    assert finder(answer) is None


NUMBERS = st.floats(1e-6, 1e9) | st.integers(10, 10**12)


@calm
@given(NUMBERS, st.sampled_from(["{}", "x={};", "[{}]", "a\t{}\tb", "{}\n", "({})"]))
def test_a_printed_number_is_found_again(value: float, frame: str) -> None:
    assert holds(value, frame.format(repr(value))) in (True, None)
    assert holds(value, frame.format(format(value, ".17g"))) in (True, None)


@calm
@given(st.integers(100, 999_999), st.integers(0, 5), st.integers(0, 499), st.booleans())
def test_a_longer_number_that_rounds_to_it_is_found(digits: int, places: int, rest: int, above: bool) -> None:
    value = Decimal(digits).scaleb(-places)
    printed = value + (1 if above else -1) * Decimal(rest).scaleb(-places - 3)
    answer = float(value)
    if len(repr(answer).replace(".", "").strip("0")) >= 3:
        assert holds(answer, f"got {printed:f} here")


@calm
@given(st.text(alphabet="0123456789.,-+e:/ a", max_size=40), st.integers(0, 39))
def test_any_text_can_be_looked_at(text: str, at: int) -> None:
    if at < len(text):
        printed_at(text, at)
    for answer in (412, 0.9432, -13.5):
        assert holds(answer, text) in (True, False)


def test_long_digits_and_large_texts_are_fast() -> None:
    began = time.monotonic()
    for text in ("9432" * 500_000, "0.9431 " * 300_000, "1," * 500_000, "9" * 2_000_000, "." * 2_000_000):
        assert holds(0.943217, text) is False
    assert time.monotonic() - began < 8


# --- of a run ---


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    source = tmp_path / "source"
    files = {
        "README.md": "We found a period of 1.4201 and the label White.",
        "code/count.py": "print(412)",
        "data/sheep.csv": "n,period\n1,2.5517\n",
    }
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    result = stage(ID, source, Level.HARD, tmp_path / "attempt", "bubblewrap", gold=OWN)
    time.sleep(0.02)  # the file system's clock ticks in hundredths of a second: what follows is later
    return result


@pytest.fixture
def home(staged: Staged) -> Path:
    """The capsule's folder as staged, on the host."""
    return staged.workspace.mounts[0].host / ID


@pytest.fixture
def traced(staged: Staged, home: Path) -> Callable[..., list[tuple[str, str | None]]]:
    def run(*answers: Any) -> list[tuple[str, str | None]]:
        questions = [f"Report number {number} of all." for number in range(len(answers))]
        report = dict(zip(questions, answers, strict=True))
        (home.parent / "report.json").write_text(json.dumps(report))
        found = trace(report, questions, home.parent, "/workspace", staged.manifest)
        assert [each.name for each in found] == questions
        return [(each.kind, each.where) for each in found]

    return run


Traced = Callable[..., list[tuple[str, str | None]]]


def test_the_four_kinds(traced: Traced, home: Path) -> None:
    (home / "results" / "output").write_text("period 1.41867\n412 sheep\n")
    assert traced(1.4187, 412, 1.4201, "White", 0.77123, 1) == [
        ("produced", f"/workspace/{ID}/results/output"),
        ("produced", f"/workspace/{ID}/results/output"),
        ("read", f"/workspace/{ID}/README.md"),
        ("read", f"/workspace/{ID}/README.md"),
        ("stated", None),
        ("unknown", None),
    ]


def test_the_report_and_its_drafts_are_no_source(traced: Traced, home: Path) -> None:
    draft = json.dumps({"Report number 0 of all.": 0.77123})
    (home / "report.json").write_text("0.77123")
    (home / "results" / "Report.JSON").write_text("0.77123")
    (home / "results" / "draft.txt").write_text(draft)
    (home.parent / "write_report").write_text(f"cat > report.json <<END\n{draft}\nEND\n")
    (home.parent / "answers.py").write_text("accuracy = 0.77123")
    (home / "code" / "count.py").write_text("print(0.77123)")
    assert traced(0.77123) == [("stated", None)]


def test_installed_packages_are_no_source(traced: Traced, home: Path) -> None:
    for folder in ("venv/lib", "lib/site-packages/sheep", ".git", "code/__pycache__"):
        (home / folder).mkdir(parents=True)
        (home / folder / "data.txt").write_text("0.77123")
    assert traced(0.77123) == [("stated", None)]


def test_a_copy_of_what_came_is_read_not_produced(traced: Traced, home: Path) -> None:
    shutil.copy(home / "README.md", home / "results" / "output")
    (home / "data" / "moved.txt").write_text((home / "README.md").read_text())
    (home / "README.md").rename(home / "OTHER.md")
    assert traced(1.4201) == [("read", f"/workspace/{ID}/README.md")]


def test_a_changed_file_counts_for_what_is_new_in_it(traced: Traced, home: Path) -> None:
    with (home / "README.md").open("a") as file:
        file.write("and an accuracy of 0.77123\n")
    assert traced(0.77123, 1.4201) == [
        ("produced", f"/workspace/{ID}/README.md"),
        ("read", f"/workspace/{ID}/README.md"),
    ]


def test_what_is_gone_was_there(traced: Traced, home: Path) -> None:
    (home / "README.md").unlink()
    assert traced(1.4201) == [("read", f"/workspace/{ID}/README.md")]


def test_results_come_first_and_any_place_in_the_workspace_counts(traced: Traced, home: Path) -> None:
    (home.parent / "a_log.txt").write_text("0.77123 and 0.88123")
    (home / "results" / "z.txt").write_text("0.77123")
    assert traced(0.77123, 0.88123) == [
        ("produced", f"/workspace/{ID}/results/z.txt"),
        ("produced", "/workspace/a_log.txt"),
    ]


def test_figures_archives_and_giants_leave_it_open(traced: Traced, home: Path) -> None:
    for name, content in (
        ("bar.png", b"\x89PNG\0"),
        ("paper.pdf", b"%PDF-1.7"),
        ("giant.txt", b"x" * (FILE_LIMIT + 1)),
    ):
        (home / "results" / name).write_bytes(content)
        assert traced("Black face") == [("unknown", None)]
        (home / "results" / name).unlink()
    assert traced("Black face") == [("stated", None)]


def test_of_what_came_the_results_come_first(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("README.md", "data/a.csv", "results/z.csv"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("the label White")
    staged = stage(ID, source, Level.EASY, tmp_path / "attempt", "bubblewrap", gold=OWN)
    work = staged.workspace.mounts[0].host
    (found,) = trace({"Report the label.": "White"}, ["Report the label."], work, "/workspace", staged.manifest)
    assert (found.kind, found.where) == ("read", f"/workspace/{ID}/results/z.csv")


def test_a_document_of_the_capsule_leaves_it_open(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights.bin").write_bytes(b"\0" * 100)
    staged = stage(ID, source, Level.HARD, tmp_path / "a", "local", gold=OWN)
    assert trace({"q": 0.77123}, ["q"], tmp_path / "a" / "workspace", "/w", staged.manifest)[0].kind == "stated"
    (source / "manuscript.pdf").write_bytes(b"%PDF-1.7")
    staged = stage(ID, source, Level.HARD, tmp_path / "b", "local", gold=OWN)
    assert trace({"q": 0.77123}, ["q"], tmp_path / "b" / "workspace", "/w", staged.manifest)[0].kind == "unknown"


def test_of_a_notebook_the_outputs_count(traced: Traced, home: Path) -> None:
    cell = {
        "source": ["x = 0.88123"],
        "outputs": [{"text": ["mean\n", "0.77123\n"]}, {"data": {"text/html": "<b>0.66123</b>"}}],
    }
    (home / "results" / "run.ipynb").write_text(json.dumps({"cells": [cell, {"source": "no outputs"}]}))
    assert [kind for kind, _ in traced(0.77123, 0.66123, 0.88123)] == ["produced", "produced", "stated"]
    (home / "results" / "run.ipynb").write_text("not a notebook: 0.88123")
    assert [kind for kind, _ in traced(0.88123)] == ["produced"]


def test_links_pipes_and_locked_files_are_left_alone(traced: Traced, home: Path, tmp_path: Path) -> None:
    (tmp_path / "host_secret.txt").write_text("0.77123")
    (home / "results" / "link.txt").symlink_to(tmp_path / "host_secret.txt")
    (home / "results" / "door").symlink_to(tmp_path)
    os.mkfifo(home / "results" / "pipe.txt")
    assert traced(0.77123) == [("stated", None)]


def test_a_report_that_is_no_object_has_no_provenance(staged: Staged, home: Path) -> None:
    for report in (None, [], "x", {}):
        assert trace(report, ["q"], home.parent, "/workspace", staged.manifest) == ()


def test_odd_names_and_lone_surrogates_do_no_harm(staged: Staged, home: Path) -> None:
    Path(os.fsdecode(os.fsencode(home / "results") + b"/\xff.txt")).write_text("0.77123")
    [found] = trace({"q\ud800": 0.77123}, ["q\ud800"], home.parent, "/workspace", staged.manifest)
    assert (found.kind, found.where) == ("produced", f"/workspace/{ID}/results/\\xff.txt")
    assert Provenance.model_validate_json(found.model_dump_json()) == found


# --- the task ---


@pytest.fixture
def ref(tmp_path: Path) -> TaskRef:
    source = tmp_path / "capsules" / ID
    (source / "code").mkdir(parents=True)
    (source / "code" / "count.py").write_text("print(412)")
    (source / "results").mkdir()
    (source / "results" / "output").write_text("412 sheep, 1.4187 s")
    from agentctl.benchmarks.corebench.dataset import load_dataset

    digest = task_digest(load_dataset(OWN).find(ID), "hard", source)
    return TaskRef(benchmark="corebench", id=ID, level="hard", dataset=str(OWN), source=str(source), digest=digest)


@pytest.fixture
def task(ref: TaskRef) -> CapsuleTask:
    return CapsuleTask.load(ref)


@pytest.fixture
def sandbox(task: CapsuleTask, tmp_path: Path) -> Iterator[Sandbox]:
    workspace = task.stage(tmp_path / "attempt", "local")
    sandbox = open_sandbox(SandboxSpec(kind="local"), workspace, owner_env={"PATH": os.environ["PATH"]})
    yield sandbox
    sandbox.close()


def test_a_task_that_changed_is_not_loaded(ref: TaskRef) -> None:
    (Path(ref.source) / "code" / "count.py").write_text("print(413)")
    with pytest.raises(InputError, match="has changed"):
        CapsuleTask.load(ref)
    assert CapsuleTask.current(ref).ref.digest != ref.digest
    with pytest.raises(InputError, match="no longer in it"):
        CapsuleTask.load(ref.model_copy(update={"id": "capsule-0000"}))
    with pytest.raises(InputError, match="no level"):
        CapsuleTask.load(ref.model_copy(update={"level": "impossible"}))


@pytest.mark.parametrize("level", list(Level))
def test_the_prompt_tells_the_questions_to_the_letter_and_no_answer(ref: TaskRef, tmp_path: Path, level: Level) -> None:
    (Path(ref.source) / "REPRODUCING.md").write_text("docker run")
    task = CapsuleTask.current(ref.model_copy(update={"level": str(level)}))
    plain = PromptParts(system=Part(name="plain", text="You are careful."))
    text = compose(plain, task.text(task.stage(tmp_path / "attempt", "bubblewrap")), Place(network="none")).task
    for question in (PERIOD, COUNT, LABEL):
        assert json.dumps(question) in text
    assert "/workspace/report.json" in text and f"/workspace/{ID}" in text
    assert "Black" not in text and "1.41" not in text and "412" not in text


def test_the_deliverable_is_checked_through_the_sandbox(task: CapsuleTask, sandbox: Sandbox) -> None:
    deliverable = task.deliverable(sandbox)
    assert deliverable.path == f"{sandbox.workspace.start}/report.json"
    assert deliverable.still_missing() == [PERIOD, COUNT, LABEL]
    assert [finding.message for finding in deliverable.check()] == ["There is no report yet."]
    sandbox.write(f"{ID}/results/report.json", b"{}")
    assert any(f"{ID}/results/report.json" in finding.message for finding in deliverable.check())
    sandbox.write("report.json", json.dumps({PERIOD: 1.41874, COUNT: 412}).encode())
    assert deliverable.still_missing() == [LABEL]
    sandbox.write("report.json", json.dumps({PERIOD: 1.41874, COUNT: 412, LABEL: "Black"}).encode())
    assert not deliverable.check() and not deliverable.still_missing()


def test_a_report_is_collected_as_found_and_scored(task: CapsuleTask, sandbox: Sandbox, tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.mkdir()
    time.sleep(0.02)
    sandbox.write(f"{ID}/results/output", b"412 sheep\nmean period 1.41866\n")
    report = b'{"%s": "1.4187%%", "%s" : 412, "%s": NaN}\n\n' % (PERIOD.encode(), COUNT.encode(), LABEL.encode())
    sandbox.write("report.json", report)
    collected = task.collect(sandbox, record)
    assert collected.deliverable == record / "report.json" and collected.deliverable.read_bytes() == report
    assert collected.problem is None
    assert [each.kind for each in collected.provenance] == ["produced", "produced", "unknown"]
    assert collected.provenance[0].where == f"{sandbox.workspace.start}/{ID}/results/output"
    [score] = task.score(collected.deliverable)
    assert isinstance(score, CoreScore) and (score.scorer, score.value, score.solved) == ("corebench", 2 / 3, False)
    assert (score.correct_written, score.correct_vision, score.total_written, score.total_vision) == (2, 0, 2, 1)


def test_what_is_no_report_is_not_taken_and_scores_nothing(task: CapsuleTask, sandbox: Sandbox, tmp_path: Path) -> None:
    work = sandbox.workspace.mounts[0].host
    assert task.collect(sandbox, tmp_path).deliverable is None
    assert task.collect(sandbox, tmp_path).problem is None
    (work / "report.json").symlink_to(OWN)
    assert task.collect(sandbox, tmp_path).problem
    (work / "report.json").unlink()
    os.mkfifo(work / "report.json")
    assert task.collect(sandbox, tmp_path).problem
    (work / "report.json").unlink()
    (work / "report.json").mkdir()
    assert "folder" in str(task.collect(sandbox, tmp_path).problem)
    (work / "report.json").rmdir()
    with (work / "report.json").open("wb") as file:
        file.truncate(1 << 40)
    assert "bytes" in str(task.collect(sandbox, tmp_path).problem)
    assert task.deliverable(sandbox).check()[0].severity is Severity.ERROR
    assert not (tmp_path / "report.json").exists()
    [score] = task.score(None)
    assert score.value == 0 and [part.reason for part in score.parts] == ["not in the report"] * 3


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xef\xbb\xbf{}", b"{", b"[" * 100_000, b"1" * 5000])
def test_what_the_benchmark_cannot_read_is_an_empty_report(data: bytes) -> None:
    assert read_leniently(data) == {}


def test_the_benchmark_reads_leniently() -> None:
    assert read_leniently(b'{"a": 1, "a": Infinity}') == {"a": math.inf}
