"""The command line, whole: what it prints where, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from attempts import (
    ANSWERS,
    CAPSULE,
    FINISH,
    PRICE_LINE,
    Provider,
    Turn,
    bash,
    check_solved,
    report,
    running_with,
    spec,
    wait_for,
)
from sandboxes import mark

from agentctl.agents.manifest import read_result
from agentctl.agents.reading import RecordReader
from agentctl.agents.scaffold import load_scaffold
from agentctl.base.jsonio import digest
from agentctl.base.messages import Message, Role
from agentctl.benchmarks.corebench.locate import examples
from agentctl.benchmarks.runner import run
from agentctl.cli.main import main

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
WITHOUT_KEYS = {name: "" for name in os.environ if name.endswith("_API_KEY") or name == "AGENTCTL_MODEL"}
QUICK: list[Turn] = [bash("echo hello"), report(), FINISH]


def script(path: Path, turns: list[Turn] = QUICK) -> str:
    path.write_text(json.dumps([{"calls": [{"name": name, "arguments": given}]} for name, given in turns]))
    return f"script:{path}"


@dataclass(frozen=True)
class Told:
    """How the command line ended, and what it printed where."""

    status: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on standard error."""
        (line,) = self.err.splitlines()
        assert line.startswith("agentctl: ")
        return line


Cli = Callable[..., Told]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs the command line in this process, in the test's folder and without any key."""
    for name, value in WITHOUT_KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments: object) -> Told:
        status = 0
        try:
            main([str(each) for each in arguments])
        except SystemExit as leaving:
            status = int(leaving.code or 0)
        captured = capsys.readouterr()
        return Told(status, captured.out, captured.err)

    return run_it


# How it ends, and what it prints where


def test_a_solved_task(tmp_path: Path, cli: Cli) -> None:
    told = cli("solve", "capsule-48", "--model", script(tmp_path / "s.json"), "--record", "r", "--require-correct")
    assert told.status == 0
    assert "3 of 3 questions right, solved" in told.out
    assert "record   r\n" in told.out
    assert "✓ bash         echo hello" in told.err
    check_solved(tmp_path / "r")


def test_json_is_one_document_and_all_of_standard_output(tmp_path: Path, cli: Cli) -> None:
    wrong = script(tmp_path / "s.json", [report({**ANSWERS, next(iter(ANSWERS)): "ünknown"}), FINISH, FINISH])
    done = cli("solve", CAPSULE, "--model", wrong, "--record", "r", "--json")
    assert done.status == 0  # it ran: right or wrong is another question
    told = json.loads(done.out)
    assert (told["record"], told["result"]["end"]) == ("r", "finished")
    assert told["scores"][0]["solved"] is False
    assert "ünknown" in told["report"].values()
    for command in ("show", "score"):
        again = cli(command, "r", "--json")
        assert (again.status, again.err) == (0, "")
        assert json.loads(again.out)


def test_require_correct(tmp_path: Path, cli: Cli) -> None:
    wrong = script(tmp_path / "s.json", [bash("true"), *[FINISH] * 3])
    assert cli("solve", CAPSULE, "--model", wrong, "--record", "r", "--require-correct", "--steps", 3).status == 1
    result = read_result(tmp_path / "r")
    assert result is not None
    assert (result.end, result.infrastructure) == ("steps", False)


@pytest.mark.parametrize(("replies", "right"), [([bash("true")], 0), ([report(ANSWERS)], len(ANSWERS))])
def test_what_stands_when_a_script_is_over_is_scored(tmp_path: Path, cli: Cli, replies: list[Any], right: int) -> None:
    told = cli("solve", CAPSULE, "--model", script(tmp_path / "s.json", replies), "--record", "r")
    assert told.status == 0
    assert f"{right} of {len(ANSWERS)} questions right" in told.out
    assert "ended script: " in (words := " ".join(told.out.split()))
    assert "s.json has no reply 2 of the main model (script)" in words
    result = read_result(tmp_path / "r")
    assert result is not None
    assert (result.end, result.kind, result.infrastructure) == ("script", "script", False)


def test_an_end_that_was_not_the_agents_is_status_1(tmp_path: Path, cli: Cli) -> None:
    nobody = ["--model", "m", "--api-base", "http://127.0.0.1:9/v1", "--price", "m=free"]
    told = cli("solve", CAPSULE, *nobody, "--record", "r")
    assert told.status == 1
    last = told.err.splitlines()[-1]
    assert last.startswith("agentctl: r: ended by provider, ")
    assert "no server listens at http://127.0.0.1:9: start it, or correct the address" in last
    assert last.endswith("agentctl solve --resume r)")
    assert "Not scored" in told.out
    again = cli("score", "r")
    assert again.status == 2
    assert "nothing to score" in again.line


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGHUP))],
)
def test_a_signal_cancels(tmp_path: Path, number: int) -> None:
    sleep = mark()
    model = script(tmp_path / "s.json", [bash(f"setsid sleep {sleep} & sleep {sleep}"), *QUICK])
    words = [sys.executable, "-m", "agentctl", "solve", CAPSULE, "--model", model, "--record", tmp_path / "r", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attempt:
        wait_for(lambda: running_with([f"sleep\0{sleep}"]), seconds=30)
        attempt.send_signal(number)
        told, said = attempt.communicate(timeout=20)
    assert attempt.returncode == 1, said
    assert json.loads(told)["result"]["end"] == "cancelled"
    reader = RecordReader(tmp_path / "r")
    assert reader.results["c1.1"].status == "cancelled"
    assert not running_with([sleep])
    assert not (tmp_path / ".r.work").exists()


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    sleep = mark()
    model = script(tmp_path / "s.json", [bash(f"sleep {sleep}")])
    words = [sys.executable, "-m", "agentctl", "solve", CAPSULE, "--model", model, "--record", tmp_path / "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attempt:
        wait_for(lambda: running_with([f"sleep\0{sleep}"]), seconds=30)
        attempt.send_signal(signal.SIGINT)
        time.sleep(0.01)
        attempt.send_signal(signal.SIGINT)
        said = attempt.communicate(timeout=20)[1]
    assert attempt.returncode == 1
    assert "Traceback" not in said
    wait_for(lambda: not running_with([sleep]), seconds=5)


def live(provider: Provider) -> list[object]:
    return ["--model", "loop", "--api-base", provider.url, "--price", PRICE_LINE]


# What it refuses: exit status 2, one line that names what and what to do, and nothing left behind

REFUSED: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "no task": (["solve"], ("TASK", "agentctl solve capsule-4810297")),
    "unknown command": (["sovle"], ("sovle", "--help")),
    "unknown option": (["solve", CAPSULE, "--capp", "4"], ("--capp", "--help")),
    "unknown task": (["solve", "capsule-99"], ("capsule-99", CAPSULE)),
    "unknown level": (["solve", CAPSULE, "--level", "harder"], ("--level", "medium")),
    "no model": (["solve", CAPSULE, "--capsules", "CAPSULES"], ("--model", "export OPENAI_API_KEY=")),
    "no key": (["solve", CAPSULE, "--model", "openai/gpt-5"], ("OPENAI_API_KEY", "export")),
    "no price": (["solve", CAPSULE, "--model", "loop", "--api-base", "http://127.0.0.1:9"], ("loop", "--price 'loop=")),
    "cap below 0": (["solve", CAPSULE, "--cap", "-1"], ("--cap", "-1")),
    "no number": (["solve", CAPSULE, "--cap", "four"], ("--cap", "four")),
    "a cap that pays for no call": (
        [
            "solve",
            CAPSULE,
            "--model",
            "loop",
            "--api-base",
            "http://127.0.0.1:9",
            "--price",
            PRICE_LINE,
            "--cap",
            "0.01",
        ],
        ("cap", "at least $"),
    ),
    "no script": (["solve", CAPSULE, "--model", "script:none.json"], ("none.json",)),
    "no recording": (["solve", CAPSULE, "--model", "replay:none"], ("none", "no such record")),
    "no scaffold": (["solve", CAPSULE, "--model", "SCRIPT", "--scaffold", "none"], ("--scaffold", "plain")),
    "no dataset": (["solve", CAPSULE, "--dataset", "none.json"], ("none.json", "--dataset")),
    "no capsule": (["solve", CAPSULE, "--capsules", "."], ("--capsules", "unpack")),
    "a record that is there": (["solve", CAPSULE, "--model", "SCRIPT", "--record", "."], ("record", "another folder")),
    "show nothing": (["show", "none"], ("none", "no such record")),
    "show a folder": (["show", "."], ("manifest.json",)),
    "replay nothing": (["replay", "none"], ("none", "no such record")),
    "score nothing": (["score", "none"], ("none", "no such record")),
    "validate nothing": (["validate", "none", "--task", CAPSULE], ("none", "no such report")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_one_line(tmp_path: Path, name: str, cli: Cli) -> None:
    arguments, words = REFUSED[name]
    places = {"SCRIPT": script(tmp_path / "s.json"), "CAPSULES": str(examples() / "capsules")}
    before = sorted(tmp_path.rglob("*"))
    told = cli(*(places.get(each, each) for each in arguments))
    assert (told.status, told.out) == (2, "")
    assert all(word in told.line for word in words), told.line
    assert sorted(tmp_path.rglob("*")) == before


def test_an_ambiguous_beginning_names_the_tasks(tmp_path: Path, cli: Cli) -> None:
    entries = json.loads((examples() / "dataset.json").read_text(encoding="utf-8"))
    entry = next(each for each in entries if each["capsule_id"] == CAPSULE)
    other = {**entry, "capsule_id": "capsule-4899999"}
    (tmp_path / "two.json").write_text(json.dumps([entry, other]))
    told = cli("solve", "capsule-48", "--dataset", "two.json")
    assert told.status == 2
    assert CAPSULE in told.line
    assert "capsule-4899999" in told.line


def fake_bwrap(folder: Path, said: str) -> str:
    """A PATH on which bwrap comes first that says `said` and fails."""
    fake = folder / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho 'bwrap: {said}' >&2\nexit 1\n")
    fake.chmod(0o755)
    return f"{fake.parent}:{os.environ['PATH']}"


def said_by_bwrap(case: dict[str, Any]) -> str:
    """What the case lets bwrap say, if that is its kind."""
    return str(case["input"].get("precondition", "")).partition("'")[2].rpartition("'")[0]


@pytest.mark.cases("environment", only=said_by_bwrap)
def test_a_sandbox_that_cannot_be_is_refused(
    case: dict[str, Any], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = said_by_bwrap(case)
    monkeypatch.setenv("PATH", fake_bwrap(tmp_path, said))
    with Provider(QUICK) as provider:
        told = cli("solve", CAPSULE, *live(provider), "--record", "r")
        assert len(provider.received) == case["expect"]["exact"]["model_calls"]
    assert told.status == 2 != case["expect"]["exact"]["exit_code_not"]
    assert any(word in told.line for word in case["expect"]["exact"]["message_contains_any"])
    assert said in told.line
    assert "--sandbox local" in told.line
    assert not (tmp_path / "r").exists()


def test_without_bwrap_it_says_what_to_install(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    told = cli("solve", CAPSULE, "--model", script(tmp_path / "s.json"))
    assert told.status == 2
    assert "install the package bubblewrap" in told.line
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_output_that_nobody_takes_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "agentctl", "solve", CAPSULE, "--model", script(tmp_path / "s.json"), "--json"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "agentctl: No space left on device"


# Records, read back

ODD = 'é e\u0301 \u202e \u2028 \x00\x1b[31m \ud83d 👩🏽‍🔬 \\u0041 "quoted" </s> \t ￿ 𝒳'


@pytest.mark.parametrize("scaffold", ["plain", "plain-text"])
def test_requests_are_shown_as_they_were_sent(tmp_path: Path, scaffold: str, capfdbinary: Any) -> None:
    said = ODD.replace("\ud83d", "").replace("\x00", "")
    turns = [bash(f"printf '%s' '{said}'; printf '\\377\\xed\\xa0\\x80'"), ("bash", {"cmd": ODD}), report(), FINISH]
    with Provider(turns, plain=scaffold == "plain-text") as provider:
        attempt = spec(tmp_path / "r", provider.url).model_copy(update={"scaffold": load_scaffold(scaffold)})
        assert run(attempt, environment=os.environ).result.end == "finished"
        sent = [received.body for received in provider.received]
    reader = RecordReader(tmp_path / "r")
    assert len(sent) == len(reader.requests) == 4
    for n, body in enumerate(sent, start=1):
        assert reader.rebuild(n).body == body
        assert digest(body) == reader.requests[n].digest
    capfdbinary.readouterr()
    main(["show", str(tmp_path / "r"), "--request", "4"])
    assert capfdbinary.readouterr().out == sent[3]
    main(["show", str(tmp_path / "r"), "--full"])


def test_a_changed_record_is_not_passed_off_as_sent(tmp_path: Path, cli: Cli) -> None:
    with Provider(QUICK) as provider:
        run(spec(tmp_path / "r", provider.url), environment=os.environ)
    events = tmp_path / "r" / "events.jsonl"
    events.write_text(events.read_text(encoding="utf-8").replace("hello", "hallo"), encoding="utf-8")
    told = cli("show", "r", "--request", 3)
    assert told.status == 1
    assert "differs from what was sent" in told.line


def test_scores_are_written_again_the_same(tmp_path: Path, cli: Cli) -> None:
    cli("solve", CAPSULE, "--model", script(tmp_path / "s.json"), "--record", "r")
    scores = tmp_path / "r" / "scores" / "corebench.json"
    before = scores.read_bytes()
    shutil.rmtree(scores.parent)
    assert cli("score", "r").status == 0
    assert scores.read_bytes() == before
    assert [path.name for path in scores.parent.iterdir()] == ["corebench.json"]


@pytest.mark.parametrize(
    ("answers", "status", "words"), [(ANSWERS, 0, ": valid, 0 errors"), ({}, 1, "not valid"), ("{", 1, "not valid")]
)
def test_validate(tmp_path: Path, answers: object, status: int, words: str, cli: Cli) -> None:
    (tmp_path / "report.json").write_text(answers if isinstance(answers, str) else json.dumps(answers))
    told = cli("validate", "report.json", "--task", "capsule-48")
    assert told.status == status
    assert words in told.out


# Gold


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_no_gold_can_be_seen_inside(tmp_path: Path, level: str, cli: Cli) -> None:
    """Whatever an agent may read, it finds no dataset, and only at level easy, in the shipped results, an answer."""
    gold = "46.4506209312750[9]"  # of the three answers the one that stands nowhere by chance; not found in itself
    places = "/workspace /code /data /results /home /tmp /var /run /dev/shm /opt /etc /root /srv /mnt /media /usr/local"
    look = bash(
        f"grep -rlsaE '{gold}|capsule_do[i]' {places}; echo looked; "
        "find / -xdev \\( -name 'dataset*.json' -o -name 'core_t*.json*' \\) -not -path '/proc/*' 2>/dev/null; "
        f"ls -d {examples()} {examples().resolve()} {Path.cwd()} 2>/dev/null; echo done"
    )
    model = script(tmp_path / "s.json", [look])
    cli("solve", CAPSULE, "--level", level, "--model", model, "--record", "r")
    reader = RecordReader(tmp_path / "r")
    assert re.search(gold, (examples() / "dataset.json").read_text(encoding="utf-8"))
    assert not any(re.search(gold, reader.messages[n].text()) for n in (1, 2))
    result = Message(role=Role.TOOL, parts=(*reader.results["c1.1"].parts,)).text()
    found, _, named = result.partition("looked\n")
    assert named.strip().startswith("done")
    results = {f"{root}/results/{name}" for root in ("", f"/workspace/{CAPSULE}") for name in ("slopes.csv", "output")}
    assert set(found.split()) == (results if level == "easy" else set())
