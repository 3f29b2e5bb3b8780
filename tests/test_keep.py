"""What of a workspace is kept in the record, what is not, and that keeping never costs a result."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from attempts import ANSWERS, CAPSULE, FINISH, agentctl, bash, check_solved, report
from sandboxes import await_marked, mark

from agentctl.agents.reading import RecordReader
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import Keep
from agentctl.benchmarks import keeping
from agentctl.benchmarks.keeping import AtStart, FileEntry, WorkspaceManifest, keep_workspace
from agentctl.tools.sandbox.protocol import Sandbox

pytest_plugins = ("sandbox_fixtures",)

Open = Callable[..., Sandbox]


def secrets_cut(told: WorkspaceManifest, secrets: Secrets) -> WorkspaceManifest:
    return WorkspaceManifest.model_validate_json(secrets.cut_line(told.model_dump_json().encode()))


class Place:
    """A workspace as it was at the start: `given/same.csv`, `given/other.csv`; then what a test does to it."""

    def __init__(self, sandbox: Sandbox, record: Path) -> None:
        self.sandbox, self.record = sandbox, record
        self.root = sandbox.workspace.mounts[0].host
        record.mkdir()
        self.put("given/same.csv", b"1\n")
        self.put("given/other.csv", b"1\n")
        self.at_start = AtStart.of(sandbox)

    def put(self, path: str, data: bytes = b"x") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def keep(self, keep: Keep = "changes", **options: Any) -> dict[str, FileEntry]:
        options = {"deliverable": f"{self.sandbox.workspace.start}/report.json", "secrets": Secrets({})} | options
        over = options.pop("over", lambda: False)
        told = keep_workspace(self.sandbox, self.record, keep, self.at_start, over=over, **options)
        written = WorkspaceManifest.model_validate_json((self.record / "workspace.json").read_bytes())
        assert secrets_cut(told, options["secrets"]) == written
        self.told = told
        kept = [entry for entry in told.files if entry.kept]
        assert self.kept() == sorted(entry.path for entry in kept)
        assert (told.kept_files, told.kept_bytes) == (len(kept), sum(entry.size for entry in kept))
        for entry in kept:
            assert entry.sha256 == sha256((self.record / "workspace" / entry.path).read_bytes()).hexdigest()
        return {entry.path: entry for entry in told.files}

    def kept(self) -> list[str]:
        top = self.record / "workspace"
        return sorted(str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir())


@pytest.fixture
def place(open_kind: Open, tmp_path: Path) -> Place:
    return Place(open_kind(), tmp_path / "record")


def test_changes_are_kept_and_the_rest_is_listed(place: Place) -> None:
    place.put("made/deep/table.csv", b"2\n")
    place.put("given/other.csv", b"22\n")
    place.put("report.json", b"{}")
    place.put("venv/lib/x.py")
    place.put("a/node_modules/x.js")
    entries = place.keep()
    assert place.kept() == ["given/other.csv", "made/deep/table.csv"]
    assert {path: entry.state for path, entry in entries.items()} == {
        "given/same.csv": "given",
        "given/other.csv": "changed",
        "made/deep/table.csv": "made",
        "report.json": "made",
        "venv/lib/x.py": "made",
        "a/node_modules/x.js": "made",
    }
    assert "deliverable" in entries["report.json"].why
    assert "installed" in entries["venv/lib/x.py"].why == entries["a/node_modules/x.js"].why


def test_all_and_answers(open_kind: Open, tmp_path: Path) -> None:
    for keep, kept in (("all", ["given/other.csv", "given/same.csv", "venv/x"]), ("answers", [])):
        place = Place(open_kind(), tmp_path / keep)
        place.put("venv/x")
        place.put("report.json")
        place.keep(keep)  # type: ignore[arg-type]
        assert place.kept() == kept


def test_a_file_of_the_same_size_that_was_written_anew_is_changed(place: Place) -> None:
    place.put("given/other.csv", b"2\n")
    assert place.keep()["given/other.csv"].state == "changed"


def test_what_was_removed_is_told(place: Place) -> None:
    (place.root / "given/other.csv").unlink()
    entry = place.keep()["given/other.csv"]
    assert (entry.state, entry.size, entry.kept) == ("removed", 2, False)


@pytest.mark.parametrize(
    ("most", "complete"),
    [
        ({}, True),
        ({"LISTED": 8}, True),  # three folders and five files
        ({"LISTED": 7}, False),
        ({"DEPTH": 3}, True),
        ({"DEPTH": 2}, False),
    ],
)
def test_a_list_that_was_cut_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch, most: dict[str, int], complete: bool
) -> None:
    """And what was not looked at is not taken for removed."""
    for name in ("a/b/deep", "x", "y"):
        place.put(name)
    for name, value in most.items():
        monkeypatch.setattr(keeping, name, value)
    entries = place.keep()
    assert place.told.complete is complete
    assert (len(entries) == 5) is complete
    assert not [entry for entry in entries.values() if entry.state == "removed"]


def test_the_deepest_that_is_looked_at(place: Place) -> None:
    place.put("d/" * (keeping.DEPTH - 1) + "deepest")
    assert len(place.keep()) == 3
    assert place.told.complete
    place.put("d/" * keeping.DEPTH + "deeper")
    shutil.rmtree(place.record / "workspace")
    assert len(place.keep()) == 3
    assert not place.told.complete


@pytest.mark.parametrize("cut", ["LISTED", "DEPTH"])
def test_what_a_cut_start_did_not_see_is_not_taken_for_made(
    place: Place, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    place.put("zz/given", b"1234567890")
    with monkeypatch.context() as patched:
        patched.setattr(keeping, cut, 2 if cut == "LISTED" else 1)
        place.at_start = AtStart.of(place.sandbox)
    place.put("made", b"12345678901234567890")
    monkeypatch.setattr(keeping, "BUDGET", 30)
    entries = place.keep()
    assert not place.told.complete
    assert entries["zz/given"].state == "unknown"
    states = {entry.state for entry in entries.values()}
    assert "made" not in states
    assert "removed" not in states


def test_nothing_but_regular_files_is_read(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("of the host")
    (place.root / "link.txt").symlink_to(outside)
    (place.root / "folder").symlink_to(tmp_path)
    (place.root / "dangling").symlink_to("/nowhere")
    os.mkfifo(place.root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(place.root)  # a socket's path may not be long
        made.bind("socket")
        entries = place.keep()
    assert place.kept() == []
    assert {entry.why for path, entry in entries.items() if "given" not in path} == {
        "a link",
        "a device, pipe or socket",
    }


def test_what_matters_comes_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "BUDGET", 1000)
    for n in range(50):
        place.put(f"tiles/{n}.bin", b"x" * 100)
    place.put("code/fit.R", b"x" * 300)
    place.put("results/model.bin", b"x" * 350)
    place.put("notes.md", b"x" * 200)
    place.put("results/huge.csv", b"x" * 5000)
    entries = place.keep()
    assert place.kept() == ["code/fit.R", "notes.md", "results/model.bin", "tiles/0.bin"]
    assert entries["results/huge.csv"].why == entries["tiles/1.bin"].why == "over the 0 MB that are kept"


def test_a_sparse_giant_is_left(place: Place) -> None:
    with (place.root / "giant.csv").open("wb") as giant:
        giant.truncate(1 << 43)
    with (place.root / "holes.csv").open("wb") as holes:
        holes.truncate(40 << 20)
    began = time.monotonic()
    entries = place.keep("all")
    assert time.monotonic() - began < 5
    assert "hole" in entries["giant.csv"].why
    assert "hole" in entries["holes.csv"].why


def test_odd_names(place: Place) -> None:
    names = [b"\xff\xfe.csv", "ü 漢.csv".encode(), b"new\nline.csv", b'"quote".csv', b"-rf", b"n" * 251 + b".csv"]
    for name in names:
        Path(os.fsdecode(os.fsencode(place.root) + b"/" + name)).write_bytes(b"1")
    deep = place.root / "/".join(["d" * 50] * 60)
    deep.mkdir(parents=True)
    (deep / "x.csv").write_bytes(b"1")
    told = keep_workspace(
        place.sandbox, place.record, "changes", place.at_start, deliverable="", secrets=Secrets({}), over=lambda: False
    )
    listed = {entry.path: entry for entry in told.files}
    assert listed[r"\xff\xfe.csv"].kept
    assert listed["new\nline.csv"].kept
    assert sum(entry.kept for entry in told.files) == 7
    assert sorted(os.fsencode(path.name) for path in (place.record / "workspace").glob("*.csv")) == sorted(
        name for name in names if name.endswith(b".csv")
    )


def test_secrets_are_cut_also_where_pieces_meet(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_PIECE", 10)
    key = "sk-test-0123456789"
    place.put("log.txt", b"a" * 7 + key.encode() + b"b" * 30 + key.encode() * 2)
    place.put(f"{key}.txt")
    place.put("fine.txt", b"a" * 99)
    entries = place.keep(secrets=Secrets({"OPENAI_API_KEY": key}))
    assert (place.record / "workspace/log.txt").read_bytes() == (
        b"a" * 7 + b"[OPENAI_API_KEY cut]" + b"b" * 30 + b"[OPENAI_API_KEY cut]" * 2
    )
    assert (entries["log.txt"].cut, entries["fine.txt"].cut) == (True, False)
    assert key not in (place.record / "workspace.json").read_text()
    assert place.kept() == ["fine.txt", "log.txt"]


def test_time_ends_copying(place: Place) -> None:
    for n in range(9):
        place.put(f"{n}.csv")
    looks = iter(range(99))
    entries = place.keep(over=lambda: next(looks) >= 3)
    assert len(place.kept()) == 3
    assert entries["8.csv"].why == "no time was left"


def test_a_full_disk_leaves_no_half_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Secrets.cut_pieces

    def full(self: Secrets, pieces: Any) -> Any:
        for piece in real(self, pieces):
            if piece.startswith(b"y"):
                raise OSError(errno.ENOSPC, "No space left on device")
            yield piece

    monkeypatch.setattr(Secrets, "cut_pieces", full)
    place.put("a.csv", b"x" * 10)
    place.put("b.csv", b"y" * 20)
    place.put("c.csv", b"x" * 30)
    entries = place.keep()
    assert place.kept() == ["a.csv"]
    assert entries["b.csv"].why == "No space left on device"
    assert entries["c.csv"].why == "the disk was full"
    assert sorted(path.name for path in place.record.iterdir()) == ["workspace", "workspace.json"]


def test_a_disk_with_little_room_is_left_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1 << 20))  # type: ignore[attr-defined]
    place.put("a.csv")
    assert place.keep()["a.csv"].why == "no room on the disk"


def test_a_file_that_shrinks_meanwhile_is_not_taken_for_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    file = place.put("a.csv", b"x" * 100)
    real = keeping._Copying.entry

    def shrink(self: Any, *arguments: Any) -> FileEntry:
        file.write_bytes(b"x")
        return real(self, *arguments)

    monkeypatch.setattr(keeping._Copying, "entry", shrink)
    assert place.keep()["a.csv"].why == "it changed while it was copied"


@pytest.mark.slow
def test_many_files_take_little_time(open_kind: Open, tmp_path: Path) -> None:
    sandbox = open_kind()
    root = sandbox.workspace.mounts[0].host
    for folder in range(100):
        (root / f"data/{folder}").mkdir(parents=True)
        for n in range(1000):
            (root / f"data/{folder}/{n}.csv").touch()
    began = time.monotonic()
    place = Place(sandbox, tmp_path / "record")
    place.put("made.csv")
    place.keep()
    assert time.monotonic() - began < 20
    assert place.kept() == ["made.csv"]


# In a whole attempt

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")


def solve(folder: Path, turns: list[Any], *options: object) -> Path:
    script = folder / "s.json"
    script.write_text(json.dumps([{"calls": [{"name": name, "arguments": given}]} for name, given in turns]))
    done = agentctl("solve", CAPSULE, "--model", f"script:{script}", "--record", folder / "r", *options)
    assert done.returncode == 0, done.stderr
    return folder / "r"


@needs_bwrap
def test_an_attempt_keeps_what_was_made(tmp_path: Path) -> None:
    number = mark()
    turns = [bash(f"echo 3 > /results/x.csv; (while true; do echo >> /results/y; sleep 0.01; done) & sleep {number} &")]
    record = solve(tmp_path, [*turns, report(), FINISH])
    check_solved(record)
    told = json.loads((record / "workspace.json").read_text())
    kept = [each["path"] for each in told["files"] if each.get("kept")]
    assert kept == [f"{CAPSULE}/results/x.csv", f"{CAPSULE}/results/y"]
    assert told["schema_version"] == 1
    assert await_marked(number, present=False)


@needs_bwrap
def test_what_hinders_keeping_costs_no_result(tmp_path: Path) -> None:
    """A name that nothing can list, as a stand-in for what we did not think of."""
    turns = [bash("mkdir -p /workspace/a; mkfifo /workspace/a/p; chmod 0 /workspace/a"), report(), FINISH]
    check_solved(solve(tmp_path, turns))


@needs_bwrap
def test_a_fault_of_keeping_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import agentctl.benchmarks.attempt as attempt
    from agentctl.benchmarks.solving import solve as solve_here

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(attempt, "keep_workspace", fail)
    monkeypatch.chdir(tmp_path)
    outcome = solve_here(CAPSULE, record="r")
    assert outcome.scores[0].solved
    (note,) = (event for event in RecordReader(outcome.record).events if event.t == "note")
    assert (note.kind, "the disk is broken" in note.text) == ("keeping", True)


@needs_bwrap
def test_no_gold_is_kept(tmp_path: Path) -> None:
    record = solve(tmp_path, [bash("true"), report(dict.fromkeys(ANSWERS, 0)), FINISH, FINISH], "--keep", "all")
    texts = [path.read_text(errors="replace") for path in (record / "workspace").rglob("*") if path.is_file()]
    assert len(texts) > 4
    assert not any("46.4506209" in text or "capsule_doi" in text for text in texts)
