"""`agentctl doctor --sweep`: what killed runs left goes, what lives or is not ours stays."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import pytest
from attempts import Provider, Worker, agentctl, bash, kill, running_with, solving, spec, wait_for
from sandboxes import end_marked, mark, marked

from agentctl.agents.spec import AttemptSpec
from agentctl.benchmarks.scratch import MARKER, work_folder
from agentctl.benchmarks.sweep import Found, sweep
from agentctl.tools.sandbox import label, limits, procs
from agentctl.tools.sandbox.protocol import SandboxSpec

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")

Kind = Literal["bubblewrap", "local"]


@pytest.fixture(autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One such test at a time: what one of them kills, another's sweep would remove from the whole machine."""
    with (tmp_path_factory.getbasetemp().parent / "sweep.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def attempt(record: Path, url: str, kind: Kind) -> AttemptSpec:
    return spec(record, url).model_copy(update={"sandbox": SandboxSpec(kind=kind)})


def left(folder: Path) -> list[Found]:
    return [found for found in sweep([folder], remove=False) if concerns(found, folder)]


def concerns(found: Found, folder: Path) -> bool:
    """Whether it is of this test: others run beside it, with leftovers of their own."""
    return str(folder) in found.name or (found.what == "process" and f"scratch={folder}" in found.name)


@contextmanager
def sleeping(seconds: str, **environment: str) -> Iterator[int]:
    """A process outside of all sandboxes that sleeps so long. Ended at the end, if it still runs."""
    process = subprocess.Popen(["sleep", seconds], env={**os.environ, **environment}, start_new_session=True)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def dead_label() -> str:
    """The label of a sandbox whose owner has ended."""
    code = "from agentctl.tools.sandbox.label import new_label; print(new_label())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# Processes


def test_a_killed_owners_daemons_are_ended(tmp_path: Path) -> None:
    """Without a sandbox nothing else ends them."""
    number, other = mark(), mark()
    turns = [bash(f"setsid sleep {number} >/dev/null 2>&1 & sleep 60")]
    with Provider(turns) as provider, Worker() as worker, Worker() as living:
        living.start(attempt(tmp_path / "b", provider.url, "local"))
        child = worker.start(attempt(tmp_path / "a", provider.url, "local"))
        wait_for(lambda: len(marked(number)) == 2, seconds=20)
        ours = {entry.pid for entry in marked(number) if str(tmp_path / ".a.work") in cwd(entry.pid)}
        kill(child)
        worker.told()
        with sleeping(other):
            told = agentctl("doctor", "--sweep", "--dry-run", tmp_path)
            shown = " ".join(told.stdout.split())
            assert f"· left work folder {tmp_path}/.a.work" in shown
            assert f"- in use work folder {tmp_path}/.b.work: an attempt is at work in it" in shown
            assert {entry.pid for entry in marked(number)} > ours
            told = agentctl("doctor", "--sweep", tmp_path)
            assert told.returncode == 0, told.stdout
            assert "✓ removed  process " in told.stdout
            assert len(marked(number)) == 1
            assert len(marked(other)) == 1
        assert not (tmp_path / ".a.work").exists()
        assert (tmp_path / ".b.work" / "workspace").is_dir()
        assert procs.same(next(iter(marked(number))))
        living.process.send_signal(signal.SIGTERM)
        living.process.wait(20)
    assert not marked(number)


def cwd(pid: int) -> str:
    return str(Path(f"/proc/{pid}/cwd").readlink())


def stopped(attempt: int) -> list[procs.Entry]:
    """Stop the sandbox of an attempt, so that it does not end with it. Its processes."""
    first = next(entry for entry in procs.descendants(attempt, procs.table()) if label.label_of(entry.pid))
    inside = [first, *procs.descendants(first.pid, procs.table())]
    for entry in inside:
        os.kill(entry.pid, signal.SIGSTOP)
    return inside


def test_a_sandbox_that_can_not_end_itself_is_ended(tmp_path: Path) -> None:
    number = mark()
    with Provider([bash(f"sleep {number}")]) as provider, Worker() as worker:
        child = worker.start(attempt(tmp_path / "a", provider.url, "bubblewrap"))
        wait_for(lambda: marked(number), seconds=20)
        inside = stopped(child)
        kill(child)
        worker.told()
        time.sleep(0.3)
        assert marked(number)
        done = agentctl("doctor", "--sweep", tmp_path)
        assert done.returncode == 0, done.stdout
        assert not any(procs.same(entry) for entry in inside)
    assert list(tmp_path.glob(".*")) == []
    assert not [group for group in limits.abandoned() if f"-{child}-" in group.name]


TRACE = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print(libc.ptrace(0x4206, int(sys.argv[1]), 0, 0), flush=True)  # PTRACE_SEIZE
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def held_back(pid: int, seconds: float) -> Iterator[None]:
    """Within the block and for so long, `pid` is not gone when it has been killed, nor is who waits for it."""
    words = [sys.executable, "-c", TRACE, str(pid), str(seconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout
        if tracer.stdout.readline().strip() != "0":
            pytest.skip("needs the right to trace")
        yield


def test_what_takes_long_to_end_is_waited_for(tmp_path: Path) -> None:
    """As on a loaded machine. The first process of a sandbox is there, without its words, until the others are gone."""
    number = mark()
    with Provider([bash(f"sleep {number}")]) as provider, Worker() as worker:
        child = worker.start(attempt(tmp_path / "a", provider.url, "bubblewrap"))
        wait_for(lambda: marked(number), seconds=20)
        inside = stopped(child)
        with held_back(marked(number)[0].pid, seconds=2):
            kill(child)
            worker.told()
            assert not [each for each in sweep([tmp_path], remove=True) if each.state == "stays"]
            assert not any(procs.same(entry) for entry in inside)
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("told", "goes"),
    [
        ("{dead}", True),
        ("{alive}", False),
        ("{elsewhere}", False),  # of another namespace, where numbers mean other processes
        ("0123456789abcdef", False),
        ("", False),
        ("x{dead}", False),
    ],
)
def test_only_labels_of_owners_that_are_gone_count(tmp_path: Path, told: str, goes: bool) -> None:
    number = mark()
    dead = dead_label()
    names = {"dead": dead, "alive": label.new_label(), "elsewhere": f"1{dead}"}
    with sleeping(number, AGENTCTL_SANDBOX=told.format(**names)):
        found = [each for each in sweep([tmp_path], remove=True) if number in each.name]
        assert [each.state for each in found] == (["removed"] if goes else [])
        assert bool(marked(number)) is not goes


def test_a_sweep_from_within_does_not_end_itself(tmp_path: Path) -> None:
    done = agentctl("doctor", "--sweep", tmp_path, env={"AGENTCTL_SANDBOX": dead_label()})
    assert done.returncode == 0


def test_words_on_a_command_line_are_no_label(tmp_path: Path) -> None:
    """Nor does it matter what a stranger calls itself, as long as it is not started as a sandbox is."""
    config = json.dumps({"label": dead_label()})
    words = ["sh", "-c", f"sleep {mark()}; : /run/agentctl-init '{config}'"]
    with subprocess.Popen(words, start_new_session=True) as stranger:
        sweep([tmp_path], remove=True)
        assert stranger.poll() is None
        os.killpg(stranger.pid, signal.SIGKILL)


# Folders


def test_work_folders_are_told_from_others(tmp_path: Path) -> None:
    made = {
        "ours": {MARKER: socket.gethostname(), "workspace": None},
        "empty": {},
        "strange": {"workspace": None, "scratch": None},
        "elsewhere": {MARKER: "another-machine"},
    }
    for name, content in made.items():
        (tmp_path / f"runs/.{name}.work").mkdir(parents=True)
        for inner, text in content.items():
            path = tmp_path / f"runs/.{name}.work/{inner}"
            path.mkdir() if text is None else path.write_text(f"{text}\n")
    (tmp_path / "runs/.file.work").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / MARKER).write_text(f"{socket.gethostname()}\n")
    (tmp_path / "runs/.link.work").symlink_to(tmp_path / "outside")
    with work_folder(tmp_path / "runs/living"):
        found = {
            Path(each.name).name: each.state for each in sweep([tmp_path], remove=True) if concerns(each, tmp_path)
        }
        assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
            ".elsewhere.work", ".file.work", ".link.work", ".living.work", ".strange.work",
        ]  # fmt: skip
    assert found == {
        ".ours.work": "removed", ".empty.work": "removed", ".elsewhere.work": "in use", ".living.work": "in use",
    }  # fmt: skip
    assert (tmp_path / "outside" / MARKER).exists()


def test_half_made_records_go(tmp_path: Path) -> None:
    for name in ("a", "b", "mine"):
        (tmp_path / f".{name}.new/outputs").mkdir(parents=True)
        (tmp_path / f".{name}.new/.aside").write_bytes(b"x")
    (tmp_path / ".mine.new/thesis.tex").touch()
    (tmp_path / ".other.new").mkdir()
    with work_folder(tmp_path / "b"):
        assert [each.state for each in sweep([tmp_path], remove=False) if "half" in each.what] == ["left", "in use"]
        sweep([tmp_path], remove=True)
        assert sorted(path.name for path in tmp_path.glob(".*.new")) == [".b.new", ".mine.new", ".other.new"]
    sweep([tmp_path], remove=True)
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".mine.new", ".other.new"]


def test_what_a_kill_left_in_a_record_goes(tmp_path: Path) -> None:
    number = mark()
    with Provider([bash(f"sleep {number}")]) as provider, Worker() as worker:
        child = worker.start(attempt(tmp_path / "a", provider.url, "bubblewrap"))
        wait_for(lambda: marked(number), seconds=20)
        (tmp_path / "a/.result.json.99.part").touch()
        (tmp_path / "a/.mine").touch()
        sweep([tmp_path], remove=True)
        assert (tmp_path / "a/.aside").exists()
        kill(child)
        worker.told()
    before = (tmp_path / "a/events.jsonl").read_bytes()
    assert [each.state for each in left(tmp_path) if each.what == "rest in a record"] == ["left", "left"]
    sweep([tmp_path], remove=True)
    assert [path.name for path in (tmp_path / "a").glob(".*")] == [".mine"]
    assert (tmp_path / "a/events.jsonl").read_bytes() == before


def test_what_is_mounted_in_a_work_folder_is_not_emptied(tmp_path: Path) -> None:
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs root, and mount namespaces")
    work = tmp_path / "runs/.a.work"
    (work / "workspace/data set").mkdir(parents=True)
    (work / MARKER).write_text(f"{socket.gethostname()}\n")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    words = ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path / "precious"), str(work / "workspace/data set")]
    done = subprocess.run(
        [*words, sys.executable, "-m", "agentctl", "doctor", "--sweep", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not work.exists()
    assert (tmp_path / "precious/file").exists()


def test_records_are_not_looked_into(tmp_path: Path) -> None:
    record = tmp_path / "r"
    (record / "workspace/.x.work").mkdir(parents=True)
    for name in ("manifest.json", "events.jsonl"):
        (record / name).touch()
    sweep([tmp_path], [record.parent], remove=True)
    assert (record / "workspace/.x.work").exists()


def test_without_folders_records_and_the_working_folder_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "there/deep/.a.work").mkdir(parents=True)
    (tmp_path / ".b.work").mkdir()
    (tmp_path / "not/.c.work").mkdir(parents=True)
    (tmp_path / "agentctl.toml").write_text('[records]\nfolder = "there"\n')
    done = agentctl("doctor", "--sweep", "--json", cwd=tmp_path)
    names = {each["name"] for each in json.loads(done.stdout) if each["what"] == "work folder"}
    assert {Path(name).name for name in names if ".work" in name} >= {".a.work", ".b.work"}
    assert [path.name for path in tmp_path.rglob("*.work")] == [".c.work"]


# Kills at any moment


def kill_and_sweep(folder: Path, seed: int, kind: Kind, *, parent_too: bool) -> None:
    """Kill the attempt, or its parent with it, then sweep: nothing of it is left, its record apart."""
    rng = random.Random(seed)
    number = mark()
    with ExitStack() as stack:
        provider = stack.enter_context(Provider(solving(number, looks=9), delay=0.05, seed=seed))
        worker = stack.enter_context(Worker())
        child = worker.start(attempt(folder / "a", provider.url, kind))
        time.sleep(rng.random() * 2.5)
        if parent_too:
            kill(worker.process.pid)
        kill(child)
        worker.stdin.close()
        wait_for(lambda: (entry := procs.read_entry(child)) is None or entry.zombie, seconds=10)
        # A process that was just being started has no label yet, and holds the lock until it becomes its program.
        wait_for(lambda: sweep([folder], remove=True) is not None and not left(folder), seconds=5)
        assert [path.name for path in folder.iterdir()] in ([], ["a"])
        wait_for(lambda: not running_with([number, str(folder)]), seconds=5)
    end_marked(number)


@pytest.mark.parametrize(("seed", "kind", "parent_too"), [(1, "local", True), (2, "bubblewrap", False)])
def test_nothing_is_left_after_a_kill(tmp_path: Path, seed: int, kind: Kind, parent_too: bool) -> None:
    kill_and_sweep(tmp_path, seed, kind, parent_too=parent_too)


@pytest.mark.stress
@pytest.mark.parametrize("parent_too", [False, True], ids=["attempt", "parent"])
@pytest.mark.parametrize("kind", ["local", "bubblewrap"])
@pytest.mark.parametrize("seed", range(300, 325))
def test_nothing_is_left_after_kills_at_random(tmp_path: Path, seed: int, kind: Kind, parent_too: bool) -> None:
    kill_and_sweep(tmp_path, seed, kind, parent_too=parent_too)
