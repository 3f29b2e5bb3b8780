"""Scoring a record again, and what is said of a deliverable that is not the one that the run left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from attempts import ANSWERS, CAPSULE
from click.testing import CliRunner, Result

from agentctl.agents.usage import Usage
from agentctl.benchmarks.corebench.locate import recordings
from agentctl.cli.outcome import spent_text, tokens_text
from agentctl.cli.score import command

SHIPPED = recordings() / "plain" / f"{CAPSULE}-hard"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "r"))


def score(record: Path, *options: str) -> Result:
    return CliRunner().invoke(command, [str(record), *options])


def test_what_the_run_left_is_scored_and_written(record: Path) -> None:
    done = score(record, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["deliverable_change"], told["written"]) == (0, None, True)
    assert told["scores"][0]["solved"] is True
    assert json.loads((record / "scores/corebench.json").read_bytes()) == told["scores"][0]


def other_answers(record: Path) -> None:
    (record / "report.json").write_text(json.dumps(dict.fromkeys(ANSWERS, 1)))


def a_blank_more(record: Path) -> None:
    (record / "report.json").write_bytes((record / "report.json").read_bytes() + b"\n")


def nothing(record: Path) -> None:
    (record / "report.json").unlink()


@pytest.mark.parametrize("change", [other_answers, a_blank_more, nothing])
def test_a_change_after_the_run_is_said_and_never_written(record: Path, change: Callable[[Path], None]) -> None:
    assert score(record).exit_code == 0
    before = (record / "scores/corebench.json").read_bytes()
    change(record)
    done = score(record)
    assert done.stdout.startswith("Not the score of the run")
    problem = str(done.exception)
    assert "report.json is gone" in problem if change is nothing else "not the one that the run left" in problem
    told = json.loads(score(record, "--json").stdout)
    assert (told["deliverable_change"] in problem, told["written"]) == (True, False)
    assert told["scores"]
    assert (record / "scores/corebench.json").read_bytes() == before


def test_the_exit_status_is_1(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentctl.cli.main import main

    other_answers(record)
    monkeypatch.setattr("sys.argv", ["agentctl", "score", str(record)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1


def test_show_tells_the_score_and_a_change_after_it(record: Path) -> None:
    from agentctl.cli.show import command as show

    def lines() -> list[str]:
        return CliRunner().invoke(show, [str(record)]).output.splitlines()

    assert lines()[-1] == "not scored yet"
    score(record)
    assert lines()[-1] == "corebench: 3 of 3 questions right, solved"
    nothing(record)
    assert lines()[-1] == "changed since: report.json is gone"
    told = json.loads(CliRunner().invoke(show, [str(record), "--json"]).output)
    assert told["scores"][0]["correct_written"] == 2
    assert told["deliverable_change"] == "report.json is gone"


@pytest.mark.parametrize(
    ("usage", "spent", "tokens"),
    [
        (Usage(input_tokens=1000, output_tokens=234), "$0.01", "1,234 tokens"),
        (Usage(input_tokens=1000, output_tokens=234, estimated_output_tokens=1), "about $0.01", "about 1,234 tokens"),
    ],
)
def test_figures_that_no_provider_reported_are_marked(usage: Usage, spent: str, tokens: str) -> None:
    assert (spent_text(Decimal("0.01"), usage), tokens_text(usage)) == (spent.replace("0.01", "0.0100"), tokens)
    assert spent_text(Decimal(0), usage) == "$0"
