"""Staging: each level shows what it should, the copy is faithful, and nothing leads out of it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl.base.errors import InputError, SetupError
from agentctl.benchmarks.corebench.dataset import Capsule, Level, load_dataset
from agentctl.benchmarks.corebench.staging import Staged, stage, task_digest
from agentctl.tools.sandbox import open_sandbox
from agentctl.tools.sandbox.protocol import SandboxSpec

OWN = Path(__file__).parent / "data" / "corebench" / "dataset.json"
ID = "capsule-0000101"
FILES = {
    "REPRODUCING.md": "docker run registry.example/published/1:v1",
    "README.md": "Counting sheep.",
    "environment/Dockerfile": "FROM python",
    "environment/post/install.sh": "pip install sheep",
    "code/run": "python count.py",
    "code/run.sh": "sh run",
    "code/count.py": "print('sheep')",
    "code/lib/run": "not the run script",
    "code/lib/environment/keep.txt": "not the environment",
    "data/sheep.csv": "n,period\n1,2.5\n",
    "data/results/old.txt": "not the results",
    "metadata/metadata.yml": "name: sheep",
    "results/output": "412 sheep",
    "results/figures/bar.png": "png",
}
BUILD = {name for name in FILES if name.startswith(("REPRODUCING", "environment/", "code/run"))}
RESULTS = {name for name in FILES if name.startswith("results/")}
SHOWN = {
    Level.EASY: FILES.keys() - BUILD,
    Level.MEDIUM: FILES.keys() - RESULTS,
    Level.HARD: FILES.keys() - BUILD - RESULTS,
}


@pytest.fixture
def capsule(tmp_path: Path) -> Path:
    """A capsule of our own, in a folder that is not named after its id."""
    source = tmp_path / "store" / "unpacked"
    for name, text in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (source / "data" / "empty").mkdir()
    (source / "code" / "count.py").chmod(0o555)
    os.utime(source / "data" / "sheep.csv", ns=(10**18, 10**18 + 5))
    return source


Stage = Callable[..., Staged]


@pytest.fixture
def staged(capsule: Path, tmp_path: Path) -> Stage:
    def run(level: Level = Level.HARD, kind: str = "bubblewrap", gold: Path = OWN, name: str = "attempt") -> Staged:
        return stage(ID, capsule, level, tmp_path / name, kind, gold=gold)

    return run


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("level", list(Level))
def test_a_level_shows_exactly_its_files(staged: Stage, tmp_path: Path, level: Level) -> None:
    copy = tmp_path / "attempt" / "workspace" / ID
    manifest = staged(level).manifest
    assert contents(copy) == {name: FILES[name] for name in SHOWN[level]}
    assert manifest.files.keys() == SHOWN[level]
    assert (copy / "results").is_dir() and (copy / "data" / "empty").is_dir()
    assert (copy / "environment").exists() == (level is Level.MEDIUM)
    assert list((tmp_path / "attempt" / "workspace").iterdir()) == [copy]


def test_the_copy_keeps_times_and_modes_and_can_be_written(staged: Stage, capsule: Path, tmp_path: Path) -> None:
    staged()
    copy = tmp_path / "attempt" / "workspace" / ID
    assert (copy / "data/sheep.csv").stat().st_mtime_ns == 10**18 + 5
    assert stat.S_IMODE((copy / "code/count.py").stat().st_mode) == 0o755
    (copy / "data/sheep.csv").write_text("changed")
    (copy / "results/output").write_text("new")
    assert contents(capsule) == FILES


def test_the_mounts_of_a_sandbox_with_its_own_root(staged: Stage, tmp_path: Path) -> None:
    workspace = staged().workspace
    work = tmp_path / "attempt" / "workspace"
    assert [(mount.inside, mount.host) for mount in workspace.mounts] == [
        ("/workspace", work),
        ("/code", work / ID / "code"),
        ("/data", work / ID / "data"),
        ("/results", work / ID / "results"),
    ]
    assert workspace.start == "/workspace" and all(mount.writable for mount in workspace.mounts)
    assert workspace.scratch.is_dir() and work not in workspace.scratch.parents


def test_a_local_sandbox_sees_the_hosts_paths(staged: Stage, tmp_path: Path) -> None:
    [mount] = staged(kind="local").workspace.mounts
    assert mount.inside == str(mount.host) == str(tmp_path / "attempt" / "workspace")


@pytest.mark.parametrize("level", [Level.EASY, Level.HARD])
def test_a_capsule_that_lacks_what_a_level_takes_away_is_staged(tmp_path: Path, level: Level) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "main.py").write_text("1")
    workspace = stage(ID, tmp_path / "bare", level, tmp_path / "attempt", "bubblewrap", gold=OWN).workspace
    assert contents(workspace.mounts[0].host / ID) == {"main.py": "1"}
    assert [mount.inside for mount in workspace.mounts] == ["/workspace", "/results"]


def test_medium_needs_what_it_is_about(staged: Stage, capsule: Path) -> None:
    (capsule / "REPRODUCING.md").unlink()
    with pytest.raises(InputError, match=r"has no REPRODUCING.md"):
        staged(Level.MEDIUM)


def test_no_folder_and_a_used_place_are_refused(staged: Stage, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such capsule folder"):
        stage(ID, tmp_path / "none", Level.HARD, tmp_path / "attempt", "local", gold=OWN)
    staged()
    with pytest.raises(InputError, match="staged here before"):
        staged()


# --- gold ---


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("kind", ["bubblewrap", "local"])
def test_no_gold_answer_can_be_read_in_the_workspace(staged: Stage, tmp_path: Path, level: Level, kind: str) -> None:
    gold = tmp_path / "store" / "dataset.json"  # a neighbour of the capsule, as in most set-ups
    gold.write_bytes(OWN.read_bytes())
    workspace = staged(level, kind, gold=gold).workspace
    truths = ["1.4187", "1.4201", "1.4172", "Counting sheep with a pendulum"]
    for mount in workspace.mounts:
        assert not mount.host.is_symlink() and tmp_path / "attempt" / "workspace" in (mount.host, *mount.host.parents)
        for path in mount.host.rglob("*"):
            assert mount.host.resolve() in path.resolve().parents
            assert path.is_dir() or path.stat().st_nlink == 1
            assert path.is_dir() or not any(truth in path.read_text() for truth in truths), path


@pytest.mark.parametrize("how", ["move", "copy", "hard link", "deep copy"])
def test_gold_in_the_capsule_is_refused(staged: Stage, capsule: Path, tmp_path: Path, how: str) -> None:
    outside, inside = tmp_path / "gold.json", capsule / "data" / "core_test.json"
    if how == "deep copy":
        inside = capsule / "code" / "lib" / "x.bin"
    outside.write_bytes(OWN.read_bytes())
    if how == "hard link":
        inside.hardlink_to(outside)
    else:
        inside.write_bytes(OWN.read_bytes())
    with pytest.raises(InputError, match="gold"):
        staged(gold=inside if how == "move" else outside)


# --- links and odd files ---


def test_links_that_stay_inside_are_kept(staged: Stage, capsule: Path, tmp_path: Path) -> None:
    links = {
        "code/results": "../results",
        "code/sheep.csv": "../data/sheep.csv",
        "code/absolute.csv": "/data/sheep.csv",
        "code/out": "/results",
        "code/lib/own.csv": str(capsule / "data" / "sheep.csv"),
        "code/lib/there_and_back.csv": "../../../unpacked/data/sheep.csv",
        "code/dangling": "nowhere.txt",
        "code/old_output": "../results/output",
        "whole": ".",
        "code/up": "..",
    }
    for name, target in links.items():
        (capsule / name).symlink_to(target)
    (capsule / "code/loop").symlink_to("loop")
    files = staged().manifest.files
    copy = tmp_path / "attempt" / "workspace" / ID
    for name in links:
        assert not (copy / name).readlink().is_absolute() and name not in files
        assert copy in ((copy / name).resolve(), *(copy / name).resolve().parents)
    for name in ("code/sheep.csv", "code/absolute.csv", "code/lib/own.csv", "code/lib/there_and_back.csv"):
        assert (copy / name).read_text() == FILES["data/sheep.csv"]
    assert (copy / "code/out").resolve() == (copy / "code/results").resolve() == copy / "results"
    assert not (copy / "code/old_output").exists()
    assert str((copy / "code/loop").readlink()) == "loop"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../gold.json", "../data/door/gold.json", "/nowhere/at/all", "/"]
)
def test_links_that_lead_out_are_refused(staged: Stage, capsule: Path, target: str) -> None:
    if "door" in target:
        (capsule / "data/door").symlink_to("../..")
    (capsule / "code/link").symlink_to(target)
    with pytest.raises(InputError, match="leads out of the capsule") as caught:
        staged()
    assert "link" in str(caught.value.file) or "door" in str(caught.value.file)


@pytest.mark.parametrize("level", list(Level))
def test_results_must_be_a_real_folder(staged: Stage, capsule: Path, level: Level) -> None:
    """A link would leave the finished results readable where it leads to."""
    (capsule / "results").rename(capsule / "data" / "finished")
    (capsule / "results").symlink_to("data/finished")
    with pytest.raises(InputError, match="must be a real folder"):
        staged(level)


def test_a_linked_data_folder_is_mounted_where_it_leads_to(staged: Stage, capsule: Path, tmp_path: Path) -> None:
    (capsule / "data").rename(capsule / "data_v2")
    (capsule / "data").symlink_to("data_v2")
    mounts = {mount.inside: mount.host for mount in staged().workspace.mounts}
    assert mounts["/data"] == tmp_path / "attempt" / "workspace" / ID / "data_v2"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_file_is_refused_and_never_waited_for(staged: Stage, capsule: Path, kind: str) -> None:
    place = capsule / "data" / "odd"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        here = Path.cwd()
        os.chdir(place.parent)  # the names of sockets are short
        try:
            socket.socket(socket.AF_UNIX).bind("odd")
        finally:
            os.chdir(here)
    with pytest.raises(InputError, match="can't be staged"):
        staged()


def test_odd_names_are_copied(staged: Stage, capsule: Path, tmp_path: Path) -> None:
    names = [b"two\nlines", b"\xff\xfe", b" blank ", "ä€😀".encode(), b"-rf", b"'\"$(x)"]
    for name in names:
        Path(os.fsdecode(os.fsencode(capsule / "data") + b"/" + name)).write_text("x")
    manifest = staged().manifest
    found = {os.fsencode(path.name) for path in (tmp_path / "attempt" / "workspace" / ID / "data").iterdir()}
    assert set(names) <= found
    assert json.loads(manifest.model_dump_json())["files"]["data/\\xff\\xfe"]["size"] == 1


def test_a_deep_tree_is_copied(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    descriptor = os.open(deep, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    stage(ID, deep, Level.HARD, tmp_path / "attempt", "local", gold=OWN)
    assert (tmp_path / "attempt" / "workspace" / ID).joinpath(*["d"] * 300).is_dir()


def test_a_sparse_giant_stays_sparse(staged: Stage, capsule: Path, tmp_path: Path) -> None:
    with (capsule / "data/giant.bin").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"middle" * 1000)
    began = time.monotonic()
    staged()
    copy = tmp_path / "attempt" / "workspace" / ID / "data" / "giant.bin"
    assert time.monotonic() - began < 5
    assert copy.stat().st_size == 1 << 40 and copy.stat().st_blocks * 512 < 1 << 20
    with copy.open("rb") as file:
        file.seek(1 << 39)
        assert file.read(12) == b"middlemiddle"


def test_a_full_disk_is_told_before_anything_is_copied(
    staged: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: os.terminal_size((0, 0)) and type("U", (), {"free": 100})())
    with pytest.raises(SetupError, match="free"):
        staged()
    assert not (tmp_path / "attempt").exists()


def test_copying_by_hand_gives_the_same(staged: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "copy_file_range", refused)
    staged()
    assert contents(tmp_path / "attempt" / "workspace" / ID) == {name: FILES[name] for name in SHOWN[Level.HARD]}


def test_thousands_of_files_are_fast(tmp_path: Path) -> None:
    for number in range(3000):
        folder = tmp_path / "many" / "data" / str(number % 30)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text("x" * 500)
    began = time.monotonic()
    stage(ID, tmp_path / "many", Level.HARD, tmp_path / "attempt", "bubblewrap", gold=OWN)
    assert time.monotonic() - began < 10  # 0.4 s on an idle machine


# --- the digest ---


@pytest.fixture
def entry() -> Capsule:
    return load_dataset(OWN).capsules[0]


def test_the_digest_is_of_what_is_given(capsule: Path, entry: Capsule, tmp_path: Path) -> None:
    hard = task_digest(entry, "hard", capsule)
    (capsule / "results/output").write_text("other")
    (capsule / "REPRODUCING.md").write_text("other")
    (capsule / "data/empty").rmdir()
    os.utime(capsule / "data/sheep.csv")
    assert task_digest(entry, "hard", capsule) == hard
    assert task_digest(entry, "medium", capsule) != hard
    assert task_digest(entry.model_copy(update={"task_prompt": "Run it."}), "hard", capsule) != hard
    (capsule / "data/sheep.csv").write_text("n,period\n1,2.6\n")
    assert task_digest(entry, "hard", capsule) != hard
    with pytest.raises(InputError):
        task_digest(entry, "Hard", capsule)


def test_a_large_file_counts_by_size_and_ends(capsule: Path, entry: Capsule) -> None:
    big = capsule / "data/big.bin"
    big.write_bytes(bytes(3 << 20))
    before = task_digest(entry, "hard", capsule)
    with big.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    changed = task_digest(entry, "hard", capsule)
    with big.open("ab") as file:
        file.write(b"x")
    assert len({before, changed, task_digest(entry, "hard", capsule)}) == 3


# --- what was shipped ---


def test_the_manifest_tells_what_was_touched(staged: Stage, tmp_path: Path) -> None:
    manifest = staged().manifest
    copy = tmp_path / "attempt" / "workspace" / ID
    path = copy / "data/sheep.csv"
    assert manifest.untouched("data/sheep.csv", path.stat())
    times = path.stat().st_mtime_ns
    time.sleep(0.02)  # the clock of the file system ticks in hundredths of a second
    path.write_text("n,period\n9,9.9\n")  # same size, and then the same time
    os.utime(path, ns=(times, times))
    assert not manifest.untouched("data/sheep.csv", path.stat())
    assert not manifest.holds_copy_of(path.read_bytes())
    (copy / "data/again.csv").write_text(FILES["data/sheep.csv"])
    assert not manifest.untouched("data/again.csv", (copy / "data/again.csv").stat())
    assert manifest.holds_copy_of((copy / "data/again.csv").read_bytes())


def test_the_sandbox_shows_the_capsule_at_the_root_and_no_gold(staged: Stage, tmp_path: Path, capsule: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    gold = tmp_path / "store" / "dataset.json"
    gold.write_bytes(OWN.read_bytes())
    workspace = staged(gold=gold).workspace
    sandbox = open_sandbox(SandboxSpec(kind="bubblewrap"), workspace, owner_env={"PATH": os.environ["PATH"]})
    try:
        for name in ("code", "data", "results"):
            sandbox.exec(["sh", "-c", f"echo here > /{name}/mark"], timeout=10)
            assert sandbox.read(f"{ID}/{name}/mark") == b"here\n"
        found = sandbox.exec(["grep", "-rl", "1.4187", "/workspace", "/code", "/data", "/results"], timeout=10)
        assert (found.exit_code, found.stdout) == (1, b"")
        for secret in (gold, OWN, capsule / "results" / "output"):
            assert sandbox.exec(["cat", str(secret)], timeout=10).exit_code != 0
    finally:
        sandbox.close()
