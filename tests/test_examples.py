"""The example capsules: each can be reproduced offline, in a bare system, and gives what came with it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from example_solutions import HARD, LIGHT, MISHAPS, solution, varying

import agentctl
from agentctl.agents.events import MessageAdded
from agentctl.agents.reading import RecordReader, read_events
from agentctl.base.errors import InputError, SetupError
from agentctl.base.messages import Call
from agentctl.benchmarks import recording_programs
from agentctl.benchmarks.corebench.dataset import Level, load_dataset
from agentctl.benchmarks.corebench.scoring import prediction_interval, score_report
from agentctl.benchmarks.corebench.staging import shown, stage
from agentctl.benchmarks.replay import play_again, shown_results
from agentctl.benchmarks.runner import Outcome
from agentctl.examples.rerun import answers
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import SandboxSpec

EXAMPLES = Path(__file__).parents[1] / "examples"
DATASET = EXAMPLES / "dataset.json"
CAPSULES = {capsule.capsule_id: capsule for capsule in load_dataset(DATASET).capsules}
RECORDINGS = sorted(
    path.parent.relative_to(EXAMPLES / "recordings").as_posix() for path in EXAMPLES.glob("recordings/*/*/events.jsonl")
)
PENGUINS = "capsule-4810297"

each_capsule = pytest.mark.parametrize("name", CAPSULES)
needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")


def folder(name: str) -> Path:
    return EXAMPLES / "capsules" / name


def skip_without_programs(recording: str) -> None:
    for program in recording_programs.programs().get(recording.rpartition("/")[2], {}):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


# The entries, and what came with the capsules


@each_capsule
def test_an_entry_has_three_runs_and_a_capsule(name: str) -> None:
    capsule = CAPSULES[name]
    assert len(capsule.results) == 3
    for part in ("code/run", "data/README.md", "environment/Dockerfile", "metadata/metadata.yml", "REPRODUCING.md"):
        assert (folder(name) / part).is_file(), part
    groups = {part.group for part in score_report(capsule.results, {}).parts}
    assert groups == {"written", "vision"}


def test_each_capsule_has_an_entry() -> None:
    assert {path.name for path in (EXAMPLES / "capsules").glob("capsule-*")} == set(CAPSULES)


@each_capsule
def test_the_results_are_those_of_the_first_run(name: str) -> None:
    assert answers(name, folder(name) / "results") == CAPSULES[name].results[0]
    assert (folder(name) / "results" / "output").is_file()


@each_capsule
@pytest.mark.parametrize("level", [Level.MEDIUM, Level.HARD])
def test_no_answer_is_shown(name: str, level: Level) -> None:
    entries = [folder(name) / entry.path for entry in shown(folder(name), level)]
    data = b"\n".join(path.read_bytes() for path in entries if path.is_file())
    told = {str(answer) for run in CAPSULES[name].results for answer in run.values() if isinstance(answer, float)}
    assert told
    assert not [each for each in told if each.encode() in data]


@each_capsule
def test_a_wrong_answer_costs_its_question_alone(name: str) -> None:
    runs = CAPSULES[name].results
    for question, truth in runs[0].items():
        wrong = "another" if isinstance(truth, str) else float(str(truth)) * 1.1
        score = score_report(runs, {**runs[0], question: wrong})
        assert [part.name for part in score.parts if not part.correct] == [question]
        assert not score.solved


def test_one_number_varies_and_another_test_is_not_taken_for_it() -> None:
    runs = CAPSULES[LIGHT].results
    (question,) = varying(CAPSULES[LIGHT])
    low, high = prediction_interval([run[question] for run in runs])
    # The p value is a count of 9,999 permutations, so the deviation of a run is known. Some three runs in a million are
    # farther than 4.7 of them from the true value, which 500 runs put at 0.331.
    deviation = (0.331 * (1 - 0.331) / 9999) ** 0.5
    assert low < 0.331 - 4.7 * deviation < 0.331 + 4.7 * deviation < high
    table = (folder(LIGHT) / "results" / "tests.csv").read_text(encoding="utf-8")
    other = float(re.findall(r"^all five,9999,(.*)$", table, re.MULTILINE)[0])
    assert not score_report(runs, {**runs[0], question: other}).solved
    assert all(not varying(capsule) for each, capsule in CAPSULES.items() if each != LIGHT)


@pytest.mark.parametrize(
    "wheel", sorted(EXAMPLES.glob("capsules/*/code/vendor/*.whl")), ids=lambda path: path.parts[-4]
)
def test_a_wheel_is_what_its_source_builds(wheel: Path, tmp_path: Path) -> None:
    build = runpy.run_path(str(EXAMPLES / "wheel_src" / "build.py"))["build"]
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


# Solved in the sandbox, without a network


@needs_sandbox
def test_the_penguins_come_out_the_same(tmp_path: Path) -> None:
    staged = stage(PENGUINS, folder(PENGUINS), Level.HARD, tmp_path / "attempt", "bubblewrap", gold=DATASET)
    readme = (folder(PENGUINS) / "code" / "README.md").read_text(encoding="utf-8")
    commands = readme.partition("```shell\n")[2].partition("```")[0]
    sandbox = open_sandbox(SandboxSpec(network="none"), staged.workspace, owner_env=dict(os.environ))
    try:
        missing = sandbox.exec(["sh", "-c", "cd /code && python3 analyse.py"], timeout=60)
        assert b"No module named 'plainfig'" in missing.stderr
        done = sandbox.exec(["sh", "-ec", f"cd {PENGUINS}/code\n{commands}"], timeout=120)
        assert done.exit_code == 0, done.stderr
        for shipped in (folder(PENGUINS) / "results").iterdir():
            if shipped.name != "output":
                assert sandbox.read(f"{PENGUINS}/results/{shipped.name}") == shipped.read_bytes()
        output = (folder(PENGUINS) / "results" / "output").read_bytes()
        assert done.stdout.endswith(output[output.index(b"342 birds") :])
    finally:
        sandbox.close()


def solved(name: str, level: str, place: Path) -> Outcome:
    """The outcome of an attempt by the capsule's scripted solution."""
    script = place / "script.json"
    script.write_text(json.dumps(solution(CAPSULES[name], level)), encoding="utf-8")
    none = SandboxSpec(network="none")
    return agentctl.solve(name, level=level, model=f"script:{script}", sandbox=none, record=place / "record")


def found(outcome: Outcome) -> dict[str, str]:
    return {each.name: each.kind for each in outcome.result.provenance}


@needs_sandbox
@pytest.mark.parametrize("name", HARD)
def test_easy_is_solved_by_reading(name: str, tmp_path: Path) -> None:
    outcome = solved(name, "easy", tmp_path)
    assert [score.solved for score in outcome.scores] == [True]
    assert set(found(outcome).values()) == {"read"}


@needs_sandbox
@pytest.mark.parametrize("name", HARD)
def test_hard_is_solved_past_its_mishaps(name: str, tmp_path: Path) -> None:
    skip_without_programs(f"{name}-hard")
    outcome = solved(name, "hard", tmp_path)
    assert [score.solved for score in outcome.scores] == [True]
    assert [kind for question, kind in found(outcome).items() if not question.startswith("fig")] == ["produced"] * 3
    told = "\n".join(each.text for each in shown_results(RecordReader(outcome.record)).values())
    assert [each for each in MISHAPS[name] if each not in told] == []


# Recordings


@needs_sandbox
@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_recording_plays_again(recording: str, tmp_path: Path) -> None:
    skip_without_programs(recording)
    name, _, level = recording.rpartition("/")[2].rpartition("-")
    played = play_again(EXAMPLES / "recordings" / recording, tmp_path / "again", environment=os.environ)
    assert [score.solved for score in played.outcome.scores] == [True]
    may_vary = varying(CAPSULES[name]) if level != "easy" else []
    if not may_vary:
        assert played.differences == ()
    for each in played.differences:  # only what shows the number that varies, and what was reported of it
        assert each.what in ("gave another result", "is another") or any(
            question in each.where for question in may_vary
        )


@pytest.mark.parametrize("recording", RECORDINGS)
def test_what_a_recording_runs_is_declared(recording: str) -> None:
    events = read_events(EXAMPLES / "recordings" / recording)
    parts = [part for event in events if isinstance(event, MessageAdded) for part in event.message.parts]
    ran = [part.written() for part in parts if isinstance(part, Call) and part.name in ("bash", "job")]
    used = {program for program in ("Rscript", "jupyter") if any(f"{program} " in each for each in ran)}
    assert used <= set(recording_programs.programs().get(recording.rpartition("/")[2], {}))


def test_programs_are_declared_of_attempts_that_there_are() -> None:
    for recording in recording_programs.programs():
        name, _, level = recording.rpartition("-")
        assert name in CAPSULES
        assert level in tuple(Level)


@needs_sandbox
def test_a_recording_without_its_programs_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = EXAMPLES / "recordings" / "plain" / f"{PENGUINS}-easy"
    monkeypatch.setattr(
        recording_programs, "programs", lambda: {record.name: {"sh": "dash", "no-such-R": "some-r-base"}}
    )
    starts: list[Callable[[], object]] = [
        lambda: agentctl.solve(PENGUINS, level="easy", record=tmp_path / "again"),
        lambda: play_again(record, tmp_path / "again", environment=os.environ),
    ]
    for start in starts:
        with pytest.raises(SetupError) as told:
            start()
        assert str(told.value) == (
            f"the recording {record.name} runs no-such-R, which is not there "
            "(apt-get install --no-install-recommends some-r-base)"
        )
        assert list(tmp_path.iterdir()) == []


@each_capsule
def test_a_level_without_a_recording_says_what_to_do(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no model is given.*agentctl solve {name} --model"):
        agentctl.solve(name, level="medium", record=tmp_path / "record", environment={})
