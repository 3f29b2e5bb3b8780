"""Playing a record again: a good one passes, and whatever came out otherwise is shown where it did."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attempts import ANSWERS, CAPSULE, FINISH, Provider, Turn, agentctl, bash, report, spec, wait_for
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.manifest import read_result
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.reading import RecordReader
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import AttemptSpec, Limits
from agentctl.base.errors import InputError
from agentctl.benchmarks.corebench.locate import examples, locate
from agentctl.benchmarks.replay import Played, play_again
from agentctl.benchmarks.runner import run
from agentctl.benchmarks.trust import Trust
from agentctl.benchmarks.volatile import VOLATILE, Moment, settled
from agentctl.tools.sandbox.protocol import SandboxSpec

BEGAN = datetime(2026, 3, 4, 10, 15, 20, tzinfo=UTC)
MOMENT = Moment(BEGAN, 30.0)
LATER = Moment(BEGAN + timedelta(days=40, hours=5, minutes=3), 45.0)


# What is volatile


# One text, as two runs print it. Each pair comes out the same.
SAME = {
    "sum of blocks in a listing": (
        "total 12\n-rw-r--r-- 1 a b 7 Mar  4 10:15 x",
        "total 24\n-rw-r--r-- 1 a b 7 Apr 13 15:18 x",
    ),
    "size, owner and time of a folder in a listing": (
        "drwxr-xr-x 2 root root 4096 Mar  4 10:15 out",
        "drwxr-xr-x 4 me users 60 2026-04-13 15:18 out",
    ),
    "owner and time of a file in a listing": (
        "-rw-r--r-- 1 root root 5516 Dec  1  2024 run.py",
        "-rw-r--r--. 2 me users 5516 Apr 13 15:18 run.py",
    ),
    "date and time": ("began 2026-03-04T10:15:30.123+00:00", "began 2026-04-13T15:18:40.5+00:00"),
    "date and time in a file's name": ("run_20260304-101530.log", "run_20260413-151840.log"),
    "as `date` prints it": ("Wed Mar  4 11:15:30 CET 2026", "Mon Apr 13 15:18:40 UTC 2026"),
    "as mail has it, and tables of models": ("Date: Wed, 04 Mar 2026  R", "Date: Mon, 13 Apr 2026  R"),
    "date": ("made 2026-03-04", "made 2026-04-13"),
    "time of day": ("Time:      10:15:33   AIC", "Time:      15:18:50   AIC"),
    "seconds since 1970": (f"t={BEGAN.timestamp() + 9:.3f}", f"t={LATER.began.timestamp() + 20:.3f}"),
    "a command that did well": ("(no output)\n[exit status 0, 11.0 s]", "(no output)\n[exit status 0, 9.3 s]"),
    "a command's time": ("[exit status 2, 1.0 s]", "[exit status 2, 9.3 s]"),
    "a job's time": ("[job 1 ended after 3 s, exit status 0]", "[job 1 ended after 5 s, exit status 0]"),
    "what `time` prints": ("real\t0m0.812s\nuser\t0m0.700s", "real\t1m4.010s\nuser\t0m0.500s"),
    "what IPython's %time prints": (
        "CPU times: user 12 ms, sys: 3 ms\nWall time: 16 ms",
        "CPU times: user 9 ms, sys: 1 s\nWall time: 1.6 s",
    ),
    "what R's system.time prints": (
        "   user  system elapsed \n  0.012   0.000   0.013 ",
        "   user  system elapsed \n  0.110   0.020   0.130 ",
    ),
    "clock of the debugger in IPython's kernel": (
        "0.00s - Debugger warning: It seems\n0.00s - make the debugger miss breakpoints.",
        "0.02s - Debugger warning: It seems\n0.01s - make the debugger miss breakpoints.",
    ),
    "measured duration": ("3 passed in 0.52s\nElapsed time: 1.2 s", "3 passed in 1.08s\nElapsed time: 20.9 s"),
    "bar of tqdm": ("50%|█| 5/10 [00:03<00:03, 14.9it/s]", "50%|█| 5/10 [00:05<?, 1.39s/it, loss=1]"),
    "bar of Keras": ("5/5 - 3s 12ms/step - loss: 0.3", "5/5 - 1s 9ms/step - loss: 0.3"),
    "where pip looks": ("Looking in links: /opt/w, vendor\nDone a.whl", "Looking in links: vendor\nDone a.whl"),
    "bar of pip": ("━━ 1.2/1.2 MB 35.1 MB/s eta 0:00:00", "━━ 1.2/1.2 MB 9.0 MB/s eta 0:00:01"),
    "rate of dd": ("10240 bytes copied, 0.0004 s, 25.7 MB/s", "10240 bytes copied, 1.2e-05 s, 1.1 GB/s"),
    "rate of wget": ("(3.1 MB/s) - ‘x’ saved [10/10]", "(901 KB/s) - ‘x’ saved [10/10]"),
    "rate of git": ("1.20 MiB | 3.40 MiB/s, done.", "1.20 MiB | 901.00 KiB/s, done."),
    "address of a Python object": ("<object object at 0x7fabdddfc190>", "<object object at 0x55a0dddfc1f0>"),
    "address of an R object": ("<environment: 0x55d0c8b3a0b8>", "<environment: 0x5600c8b3a0b8>"),
    "folder of an attempt in the sandbox local": ("/home/me/runs/.a.work/workspace/x", "/tmp/.b-2.work/workspace/x"),
    "temporary name": ("in /tmp/tmp.jBwoAV8a8e/x, /tmp/tmpn_3kssb2", "in /tmp/tmp.1BwoAV8a8f/x, /tmp/tmp0_3kssb2"),
}

# Near misses: what looks like one and may be an answer. Each pair stays different.
DIFFERENT = {
    "sum of blocks in a listing": ("total 12\nmean 3", "total 13\nmean 3"),
    "size, owner and time of a folder in a listing": (
        "drwxr-xr-x 2 root root 4096 Mar  4 10:15 out",
        "drwxr-xr-x 2 root root 4096 Mar  4 10:15 outs",
    ),
    "owner and time of a file in a listing": (
        "-rw-r--r-- 1 root root 5516 Mar  4 10:15 slopes.csv",
        "-rw-r--r-- 1 root root 5517 Mar  4 10:15 slopes.csv",
    ),
    "date and time": ("peak at 2013-07-01 05:00:00", "peak at 2013-07-01 06:00:00"),
    "date and time in a file's name": ("id 20130701050000", "id 20130701060000"),
    "as `date` prints it": ("Mon Jul  1 05:00:00 UTC 2013", "Mon Jul  1 06:00:00 UTC 2013"),
    "as mail has it, and tables of models": ("seen Mon, 01 Jul 2013", "seen Tue, 02 Jul 2013"),
    "date": ("2026-03-04 is the best day", "2025-03-04 is the best day"),
    "time of day": ("Time: 02:03:11 of the winner", "Time: 02:05:59 of the winner"),
    "seconds since 1970": ("population 1412000000", "population 1411000000"),
    "a command that did well": ("[exit status 0, 1.0 s]", "[exit status 1, 1.0 s]"),
    "a command's time": ("[exit status 2, 1.0 s]", "[exit status 3, 1.0 s]"),
    "a job's time": ("[job 1 ended after 3 s, exit status 0]", "[job 1 ended after 3 s, exit status 1]"),
    "what `time` prints": ("real 12.5", "real 12.6"),
    "what IPython's %time prints": ("Wall time of the maze: 16 ms", "Wall time of the maze: 17 ms"),
    "what R's system.time prints": ("   user  system elapsed \n  a 1 2", "   user  system elapsed \n  a 1 3"),
    "clock of the debugger in IPython's kernel": ("0.01s - Debugger off: slowest", "0.02s - Debugger off: slowest"),
    "measured duration": ("the reaction took 35 min", "the reaction took 36 min"),
    "bar of tqdm": ("interval [00:03, 14.9]", "interval [00:05, 14.9]"),
    "bar of Keras": ("loss: 0.31", "loss: 0.32"),
    "where pip looks": ("Looking in links: 3 of 4 are dead", "We are Looking in links: 4 of 4 are dead"),
    "bar of pip": ("throughput 35.1 MB/s", "throughput 35.2 MB/s"),
    "rate of dd": ("copied in 0.0004 s, 25.7 MB/s", "copied in 0.0004 s, 25.8 MB/s"),
    "rate of wget": ("link (3.1 MB/s)", "link (3.2 MB/s)"),
    "rate of git": ("speed 3.40 MiB/s", "speed 3.50 MiB/s"),
    "address of a Python object": ("checksum 0x7fabdddfc190", "checksum 0x7fabdddfc191"),
    "address of an R object": ("<key: 0x55d0c8b3a0b8>", "<key: 0x55d0c8b3a0b9>"),
    "folder of an attempt in the sandbox local": ("/home/me/a.work/workspace", "/home/me/b.work/workspace"),
    "temporary name": ("/tmp/results_v1.csv", "/tmp/results_v2.csv"),
}

# Results in words that nothing may hide.
RESULTS = (
    ("total 12", "total 13"),
    ("[1] 342", "[1] 343"),
    ("pid 17 recovered", "pid 18 recovered"),
    ("reaction time: 350 ms", "reaction time: 360 ms"),
    ("half-life 5 s", "half-life 6 s"),
    ("5 min after the dose", "6 min after the dose"),
    ("latency 12 ms, throughput 3 MB/s", "latency 13 ms, throughput 3 MB/s"),
    ("Mar 14 2019  first case", "Mar 15 2019  first case"),
    ("Apr 13 15:18", "Apr 13 15:19"),
    ("0xdeadbeef", "0xdeadbeee"),
    ("hash at 0xdeadbeef", "hash at 0xdeadbeee"),
    ("saved /tmp/slopes.csv", "saved /tmp/slope.csv"),
    ("saved /tmp/tmpresults.csv", "saved /tmp/tmpresult.csv"),
    ("13 errors", "14 errors"),
    ("46.45062093127509", "46.45062093127508"),
    ("elapsed 3 days", "elapsed 4 days"),
    ("done in 1900", "done in 1901"),
)


def together(then: str, now: str) -> tuple[str, str]:
    return settled(then, MOMENT), settled(now, LATER)


def test_each_entry_has_its_pairs() -> None:
    names = [entry.name for entry in VOLATILE]
    assert names == list(SAME) == list(DIFFERENT)


@pytest.mark.parametrize("name", SAME)
def test_what_is_volatile_comes_out_the_same(name: str) -> None:
    then, now = together(*SAME[name])
    assert then == now
    assert then != SAME[name][0]


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_near_miss_stays_different(name: str) -> None:
    then, now = together(*DIFFERENT[name])
    assert then != now


@pytest.mark.parametrize(("then", "now"), RESULTS)
def test_no_result_is_hidden(then: str, now: str) -> None:
    assert settled(then, MOMENT) == then
    assert settled(then, MOMENT) != settled(now, LATER)


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{}", "mean: {}", "[1] {}", "{},{}", "p = {}"])
)
def test_numbers_are_left_alone(number: float, form: str) -> None:
    text = form.format(number, number)
    assert settled(text, MOMENT) == text


@given(st.text(max_size=200))
def test_any_text_can_be_settled(text: str) -> None:
    once = settled(text, MOMENT)
    assert settled(once, MOMENT) == once


# Records played again


pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
NAMES = list(ANSWERS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its dataset, as a user has capsules."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(examples() / "capsules" / CAPSULE, folder / "capsules" / CAPSULE)
    shutil.copy(examples() / "dataset.json", folder)
    return folder


ANALYSE = "cd /code && PYTHONPATH=$(echo vendor/*.whl)"  # a wheel is a zip, which Python imports from
TURNS: tuple[Turn, ...] = (
    bash("date; ls -la /code /workspace; mktemp -d; python3 -c 'print(object())'; time true; sleep 0.2; false"),
    bash(f"{ANALYSE} python3 analyse.py"),
    bash("cat /results/slopes.csv; head -3 /results/classification.csv"),
    report(),
    FINISH,
)


def calls(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    return [{"calls": [{"name": name, "arguments": given}]} for name, given in turns]


def solve(place: Path, record: Path, replies: Sequence[object] = tuple(calls(TURNS)), **changes: Any) -> None:
    """Let a script make `record` out of the capsule in `place`."""
    script = record.with_name(f"{record.name}.json")
    script.write_text(json.dumps(replies))
    attempt = AttemptSpec(
        task=locate(CAPSULE, "hard", dataset=place / "dataset.json").ref,
        scaffold=load_scaffold("plain"),
        model=ModelSpec(name=f"script:{script}"),
        record=record,
    )
    run(attempt.model_copy(update=changes), environment=os.environ)


@pytest.fixture(scope="module")
def record(place: Path) -> Path:
    solve(place, place / "good")
    return place / "good"


def again(record: Path, into: Path, *, local: bool = False, **environment: str) -> Played:
    trust = Trust(kind="local" if local else None)
    return play_again(record, into, environment={**os.environ, **environment}, trust=trust)


@pytest.fixture
def changed(place: Path, tmp_path: Path) -> Path:
    """The capsule's folder, which the test may change; afterwards it is as it was."""
    capsule = place / "capsules" / CAPSULE
    shutil.copytree(capsule, tmp_path / "before")
    yield capsule
    shutil.rmtree(capsule)
    shutil.copytree(tmp_path / "before", capsule)


def wheres(played: Played) -> dict[str, str]:
    return {each.where: f"{each.what}\n{each.recorded}\n{each.now}" for each in played.differences}


def test_a_good_record_plays_again(record: Path) -> None:
    done = agentctl("replay", record)
    assert done.returncode == 0, done.stdout
    assert done.stdout == f"{record}: the same (5 tool results compared)\n"
    result = read_result(record.with_name("good.replay"))
    assert result is not None
    assert result.kind == "replay"


def test_a_replay_that_is_stopped_says_so(place: Path, tmp_path: Path) -> None:
    solve(place, tmp_path / "r", calls([bash("sleep 2")]))
    (tmp_path / "r.replay").mkdir()  # of an earlier replay: another name is found
    words = [sys.executable, "-m", "agentctl", "replay", tmp_path / "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as playing:
        wait_for(lambda: (tmp_path / "r.replay-2" / "events.jsonl").exists(), seconds=20)
        playing.send_signal(signal.SIGINT)
        told, said = playing.communicate(timeout=20)
    assert (playing.returncode, told) == (1, "")
    assert said.splitlines()[-1].startswith(f"agentctl: {tmp_path}/r: stopped by SIGINT")


def test_a_plain_text_record_plays_again(place: Path, tmp_path: Path) -> None:
    turns = [bash("ls /code; date"), report(), FINISH]
    replies = [{"text": f"```json\n{json.dumps({'name': name, 'arguments': given})}\n```"} for name, given in turns]
    solve(place, tmp_path / "r", replies, scaffold=load_scaffold("plain-text"))
    played = again(tmp_path / "r", tmp_path / "again")
    assert (played.compared, wheres(played)) == (3, {})


def test_a_changed_data_file_is_told_where_it_shows(record: Path, changed: Path, tmp_path: Path) -> None:
    data = changed / "data" / "penguins.csv"
    data.write_text(data.read_text().replace("Adelie,Torgersen,39.1", "Adelie,Torgersen,59.1", 1))
    done = agentctl("replay", record, "--into", tmp_path / "again", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["same"] is False
    where = [each["where"] for each in told["differences"]]
    assert where[:2] == [f"task {CAPSULE}", "bash (c2.1)"]
    assert f"answer to {NAMES[1]!r}" in where


def test_a_changed_answer_is_told_by_its_question(record: Path, changed: Path, tmp_path: Path) -> None:
    code = changed / "code" / "analyse.py"
    code.write_text(code.read_text().replace("SEED = 20140305", "SEED = 20140306"))
    told = wheres(again(record, tmp_path / "again"))
    assert "and now is stated" in told[f"answer to {NAMES[0]!r}"]
    assert f"answer to {NAMES[1]!r}" not in told
    assert "46.45062093127509" in told["bash (c2.1)"]


def test_a_renamed_result_is_told(record: Path, changed: Path, tmp_path: Path) -> None:
    code = changed / "code" / "analyse.py"
    code.write_text(code.read_text().replace('"slopes.csv"', '"slopes2.csv"'))
    told = wheres(again(record, tmp_path / "again"))
    assert "No such file" in told["bash (c3.1)"]
    assert "results/slopes.csv, and now is produced in" in told[f"answer to {NAMES[0]!r}"]


def test_a_missing_wheel_is_told(record: Path, changed: Path, tmp_path: Path) -> None:
    shutil.rmtree(changed / "code" / "vendor")
    told = wheres(again(record, tmp_path / "again"))
    assert "No module named 'plainfig'" in told["bash (c2.1)"]
    assert f"answer to {NAMES[0]!r}" in told


def test_a_broken_program_is_told(place: Path, tmp_path: Path) -> None:
    """A python3 earlier on PATH that adds wrongly. Only the local sandbox lets a user's PATH in."""
    turns = [bash("python3 -c 'print(40 + 2)'; pwd"), bash(f"echo '{json.dumps(ANSWERS)}' >report.json"), FINISH]
    solve(place, tmp_path / "local", calls(turns), sandbox=SandboxSpec(kind="local"))
    assert again(tmp_path / "local", tmp_path / "same", local=True).differences == ()
    shim = tmp_path / "bin" / "python3"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 41\n")
    shim.chmod(0o755)
    path = f"{shim.parent}:{os.environ['PATH']}"
    told = wheres(again(tmp_path / "local", tmp_path / "again", local=True, PATH=path))
    assert told == {"bash (c1.1)": "gave another result\n42\n41"}


def test_a_record_can_not_by_itself_leave_the_sandbox(place: Path, tmp_path: Path) -> None:
    solve(place, tmp_path / "r", calls([bash("echo hi"), FINISH]), sandbox=SandboxSpec(kind="local"))
    with pytest.raises(InputError, match="--sandbox local"):
        again(tmp_path / "r", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_report_made_by_a_program_is_compared(place: Path, tmp_path: Path) -> None:
    made = bash(f"echo '{json.dumps(ANSWERS)}' | sed s/13/$(shuf -i 100-999999 -n 1)/ >report.json")
    solve(place, tmp_path / "r", calls([made, FINISH]))
    assert list(wheres(again(tmp_path / "r", tmp_path / "again"))) == ["report.json"]


def test_an_end_that_the_replies_did_not_cause_is_the_end_of_the_replies(place: Path, tmp_path: Path) -> None:
    solve(place, tmp_path / "steps", calls([bash(f"echo {n}") for n in range(3)]), limits=Limits(steps=2))
    assert again(tmp_path / "steps", tmp_path / "steps2").differences == ()
    solve(place, tmp_path / "out", calls([bash("echo a")]))
    played = again(tmp_path / "out", tmp_path / "out2")
    assert (played.compared, played.differences) == (1, ())
    with Provider([bash(f"echo {n}") for n in range(9)]) as provider:
        paid = spec(tmp_path / "cost", provider.url, cap="0.2", output_limit=2000)
        assert run(paid, environment=os.environ).result.end == "cost"
    assert again(tmp_path / "cost", tmp_path / "cost2").differences == ()


def test_a_record_without_a_reply_is_refused(record: Path, tmp_path: Path) -> None:
    shutil.copytree(record, tmp_path / "empty")
    (tmp_path / "empty" / "events.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match="no reply"):
        again(tmp_path / "empty", tmp_path / "again")


def test_a_silent_reply_is_played_again(place: Path, tmp_path: Path) -> None:
    solve(place, tmp_path / "r", [{"text": ""}, *calls([bash("echo a")])])
    played = again(tmp_path / "r", tmp_path / "again")
    assert played.differences == ()
    assert list(RecordReader(tmp_path / "again").calls) == ["c2.1"]
