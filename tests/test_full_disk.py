"""A disk that fills while an attempt is at work, or that was full before: said in one line, nothing half is whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attempts import CAPSULE, FINISH, PRICE_LINE, Provider, check_books, check_solved, running_with, solving
from sandboxes import mark

from agentctl.agents.manifest import read_result
from agentctl.agents.reading import RecordReader

MEGABYTE = 1 << 20


class SmallDisk:
    """A disk of its own for commands that are run by `command`: mounted at `path` for them alone, seen at `seen`."""

    def __init__(self, path: Path, size: int = 6 * MEGABYTE) -> None:
        self.path = path
        self._user = ["-U", "-r"] if os.getuid() else []
        mount = f'mount -t tmpfs -o size={size} tmpfs "$0" && echo ready && exec sleep 1000'
        argv = ["unshare", *self._user, "-m", "sh", "-c", mount, str(path)]
        self._anchor = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._anchor.stdout is not None
        if self._anchor.stdout.readline() != "ready\n":
            pytest.skip(f"needs mount namespaces: {self._anchor.communicate()[1]}")
        self.seen = Path(f"/proc/{self._anchor.pid}/root{path}")
        self._ballast = self.seen / "ballast"

    def close(self) -> None:
        self._anchor.kill()
        self._anchor.communicate()

    def command(self, *arguments: object, before: str = "") -> list[str]:
        """The words that run agentctl with this disk; `before` it, shell commands."""
        enter = [
            "nsenter",
            "-t",
            str(self._anchor.pid),
            "-m",
            *(["-U", "--preserve-credentials"] if self._user else []),
        ]
        return [
            *enter,
            "sh",
            "-c",
            f'{before}\nexec "$@"',
            "sh",
            sys.executable,
            "-m",
            "agentctl",
            *map(str, arguments),
        ]

    def fill(self) -> None:
        """Take the last byte."""
        with self._ballast.open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            for size in (MEGABYTE // 4, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(b"\0" * size)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if not shutil.which("unshare") or not shutil.which("nsenter") or not shutil.which("bwrap"):
        pytest.skip("needs unshare, nsenter and bwrap")
    place = tmp_path / "disk"
    place.mkdir()
    disk = SmallDisk(place)
    yield disk
    disk.close()


def live(record: Path, url: str) -> list[object]:
    return ["solve", CAPSULE, "--model", "loop", "--api-base", url, "--price", PRICE_LINE, "--record", record]


def whole(folder: Path) -> None:
    """Nothing in the record is half: what is there under its own name reads."""
    for path in [folder / "manifest.json", folder / "result.json", *folder.glob("scores/*"), folder / "report.json"]:
        if path.exists():
            json.loads(path.read_text(encoding="utf-8"))
    reader = RecordReader(folder)
    for ran in reader.calls.values():
        assert ran.saved_as is None or (folder / "outputs" / ran.saved_as).exists()
    for n in reader.requests:
        assert reader.rebuild(n).same


def one_line(said: str, *words: str) -> None:
    lines = said.splitlines()
    assert len(lines) == 1, said
    assert lines[0].startswith("agentctl: ")
    assert all(word in lines[0] for word in words), said


class Filling:
    """One attempt on a small disk that fills `after` seconds; for good, until it is freed, where it `stays`."""

    def __init__(self, disk: SmallDisk, seed: int, *, stays: bool = False) -> None:
        self.disk = disk
        self.stays = stays
        self.rng = random.Random(seed)
        self.provider = Provider([*solving(mark(), looks=4), *[FINISH] * 9], delay=0.1, seed=seed)

    def run(self) -> None:
        with self.provider:
            status, said = self._fill_and_wait()
            record = self.disk.seen / "r"
            again: list[object] = live(self.disk.path / "r", self.provider.url)
            assert "Traceback" not in said, said
            if status == 2:
                one_line(said, str(self.disk.path))
                assert not record.exists()
                assert not self.provider.received
            else:
                whole(record)
                check_books(record, self.provider)
                result = read_result(record)
                if status == 0:
                    return check_solved(record)
                assert status == 1
                assert result is None or result.infrastructure or not (record / "scores").exists()
                told = [line for line in said.splitlines() if "the disk is full" in line or "o space left" in line]
                assert told, said
                again = ["solve", "--resume", self.disk.path / "r", "--record", self.disk.path / "r2"]
            assert not running_with([str(self.disk.path)])
            self.disk.free()
            last = self.disk.seen / again[-1].name  # type: ignore[attr-defined]
            done = subprocess.run(self.disk.command(*again), capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            check_books(last, self.provider)
            check_solved(last)
        return None

    def _fill_and_wait(self) -> tuple[int, str]:
        words = self.disk.command(*live(self.disk.path / "r", self.provider.url))
        attempt = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.8 + 2.5 * self.rng.random())
        self.disk.fill()
        while self.stays and attempt.poll() is None:
            self.disk.fill()
            time.sleep(0.005)
        said = attempt.communicate(timeout=60)[1]
        return attempt.returncode, said


@pytest.mark.parametrize(("seed", "stays"), [(1, False), (2, True)])
def test_a_disk_that_fills_meanwhile(disk: SmallDisk, seed: int, stays: bool) -> None:
    Filling(disk, seed, stays=stays).run()


@pytest.mark.stress
@pytest.mark.parametrize("stays", [False, True], ids=["once", "stays"])
@pytest.mark.parametrize("seed", range(200, 225))
def test_a_disk_that_fills_at_random_moments(disk: SmallDisk, seed: int, stays: bool) -> None:
    Filling(disk, seed, stays=stays).run()


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_a_disk_that_was_full_before(disk: SmallDisk) -> None:
    disk.fill()
    done = run(disk.command(*live(disk.path / "runs" / "r", "http://127.0.0.1:9/v1")))
    assert (done.returncode, done.stdout) == (2, "")
    one_line(done.stderr, str(disk.path / "runs"), "MB are free")
    assert [path.name for path in disk.seen.iterdir()] == ["ballast"]


def test_a_folder_that_cannot_be_written(disk: SmallDisk) -> None:
    done = run(disk.command(*live(disk.path / "r", "http://127.0.0.1:9/v1"), before=f"mount -o remount,ro {disk.path}"))
    assert (done.returncode, done.stdout) == (2, "")
    one_line(done.stderr, str(disk.path), os.strerror(errno.EROFS))


def test_files_that_may_not_be_long_enough_to_begin(disk: SmallDisk) -> None:
    done = run(disk.command(*live(disk.path / "r", "http://127.0.0.1:9/v1"), before="ulimit -f 128"))  # 64 KB
    assert (done.returncode, done.stdout) == (2, "")
    one_line(done.stderr, str(disk.path / "r"), os.strerror(errno.EFBIG))
    assert list(disk.seen.iterdir()) == []


def test_a_record_that_may_not_grow(disk: SmallDisk, tmp_path: Path) -> None:
    script = tmp_path / "talk.json"
    script.write_text(
        json.dumps([{"text": "word " * 40_000, "calls": [{"name": "bash", "arguments": {"command": "ls"}}]}] * 9)
    )
    options = ["solve", CAPSULE, "--model", f"script:{script}", "--record", disk.path / "r"]
    done = run(disk.command(*options, before="ulimit -f 2200"))  # 1.1 MB
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"agentctl: {disk.path}/r: ended by crash, ")
    assert last.endswith(f": {os.strerror(errno.EFBIG)} (go on with: agentctl solve --resume {disk.path}/r)")
    whole(disk.seen / "r")
    result = read_result(disk.seen / "r")
    assert result is not None
    assert result.end == "crash"


def test_scores_that_cannot_be_written(disk: SmallDisk, tmp_path: Path) -> None:
    script = tmp_path / "s.json"
    script.write_text('[{"calls": [{"name": "bash", "arguments": {"command": "true"}}]}]')
    options = ["solve", CAPSULE, "--model", f"script:{script}", "--record", disk.path / "r", "--steps", 1]
    assert run(disk.command(*options)).returncode == 0
    shutil.rmtree(disk.seen / "r" / "scores")
    disk.fill()
    done = run(disk.command("score", disk.path / "r"))
    assert (done.returncode, done.stdout) == (1, "")
    one_line(done.stderr, "scores", os.strerror(errno.ENOSPC))
