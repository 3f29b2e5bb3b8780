"""The folder that an attempt works in: nobody else's is taken, and nothing outside of it is touched."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentctl.base.errors import SetupError
from agentctl.base.jsonio import written_for
from agentctl.benchmarks import trial
from agentctl.benchmarks.scratch import work_folder
from agentctl.benchmarks.solving import new_record
from agentctl.benchmarks.sweep import Found, sweep
from agentctl.cli import doctor as command_module
from agentctl.tools.sandbox.protocol import SandboxSpec, Workspace


def test_what_a_killed_attempt_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".r.work/workspace/deep").mkdir(parents=True)
    with work_folder(tmp_path / "r") as folder:
        assert folder == tmp_path / ".r.work"
        assert [path.name for path in folder.iterdir()] == [".agentctl"]
    assert list(tmp_path.iterdir()) == []


def linked(folder: Path, elsewhere: Path) -> None:
    folder.symlink_to(elsewhere)


def given_away(folder: Path, elsewhere: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to give folders away")
    folder.mkdir(0o700)
    os.chown(folder, 4711, 4711)


def opened(mode: int) -> Callable[[Path, Path], None]:
    def made(folder: Path, elsewhere: Path) -> None:
        folder.mkdir()
        folder.chmod(mode)

    return made


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (linked, "is no folder"),
        (lambda folder, elsewhere: folder.touch(), "is no folder"),
        (given_away, "belongs to another user"),
        (opened(0o777), "can be written by others"),
        (opened(0o1707), "can be written by others"),
        (opened(0o770), "can be written by others"),
    ],
)
def test_what_others_may_have_put_there_is_not_taken(
    tmp_path: Path, plant: Callable[[Path, Path], None], told: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    folder = tmp_path / ".r.work"
    plant(folder, elsewhere)
    if folder.is_dir():
        (folder / "theirs").touch()
    with pytest.raises(SetupError, match=told), work_folder(tmp_path / "r"):
        pytest.fail("it was taken")
    assert (elsewhere / "precious").exists()
    assert os.path.lexists(folder)
    assert not folder.is_dir() or [path.name for path in folder.iterdir()] in (["theirs"], ["precious", "theirs"])


def test_a_mask_that_lets_others_write_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with work_folder(tmp_path / "new/r") as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_attempts_of_the_same_second_get_records_of_their_own(tmp_path: Path) -> None:
    """Neither sees the other: each has asked for a name before the other has made anything."""
    names = [new_record(tmp_path / "runs", "capsule-1", "hard").name for _ in range(20)]
    assert len(set(names)) == 20
    assert all(re.fullmatch(r"capsule-1-hard-\d{8}-\d{6}-[0-9a-f]{6}", name) for name in names)


def test_what_a_write_that_was_killed_left_is_known_by_its_name() -> None:
    assert written_for(".result.json.99.part") == "result.json"
    assert written_for(".a.part.7.part") == "a.part"
    for name in ("result.json", ".result.json.part", "result.json.9.part", ".result.json.x.part", ".9.part"):
        assert written_for(name) is None


# agentctl doctor


def doctor(monkeypatch: pytest.MonkeyPatch, look: Callable[[Workspace], None]) -> dict[str, str]:
    """What it tells of each check, where opening a sandbox is `look`."""

    def open_it(spec: SandboxSpec, workspace: Workspace, **options: object) -> None:
        look(workspace)
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/usr/x")

    monkeypatch.setattr(trial, "open_sandbox", open_it)
    done = CliRunner().invoke(command_module.command, ["--json"])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    return {check["name"]: check["told"] for check in json.loads(done.stdout)}


def test_doctor_works_in_a_folder_that_none_can_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[Path] = []
    told = doctor(monkeypatch, lambda workspace: seen.append(workspace.scratch.parent))
    assert len(seen) == 2
    for folder in seen:
        assert folder.parent == tmp_path
        assert str(os.getpid()) not in folder.name
    assert list(tmp_path.iterdir()) == []
    assert "Read-only file system" in told["sandbox bubblewrap"]
    assert "Read-only file system" in told["sandbox local"]


def test_doctor_finds_what_a_killed_doctor_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found: list[Found] = []
    doctor(monkeypatch, lambda workspace: found.extend(sweep([], remove=False)))
    named = [each for each in found if each.name.startswith(str(tmp_path))]
    assert [each.state for each in named] == ["in use", "in use"]


def test_a_sandbox_opens_where_the_system_is_mounted_read_only(tmp_path: Path) -> None:
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs root, and mount namespaces")
    script = 'mount --bind /usr /usr && mount -o remount,bind,ro /usr && exec "$0" -m agentctl doctor --json'
    words = ["unshare", "-m", "sh", "-c", script, sys.executable]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert told["sandbox bubblewrap"]["state"] == "ok", told
    assert told["sandbox local"]["state"] == "ok", told
