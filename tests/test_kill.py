"""Attempts killed at random moments: the record reads, its books hold, nothing is left running, a resume ends right."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from attempts import PRICE_LINE, Provider, Worker, check_books, check_solved, kill, running_with, solving, spec, wait_for
from sandboxes import mark

from agentctl.agents.manifest import read_result
from agentctl.agents.reading import RecordReader
from agentctl.benchmarks.resume import resumed

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")

LONGEST = 4.5  # seconds that an attempt of these takes, about: kills fall anywhere in it
SOON = 8.0  # seconds for nothing to be left


@dataclass
class Killing:
    """One attempt, killed and resumed until it ends by itself."""

    folder: Path
    seed: int
    by_parent: bool
    rng: random.Random = field(init=False)
    sleep: str = field(default_factory=mark)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.folder.mkdir()

    def run(self, kills: int = 1) -> None:
        with Provider(solving(self.sleep), delay=0.15, seed=self.seed) as provider:
            record = self.folder / "r0"
            attempt = spec(record, provider.url)
            for n in range(1, kills + 1):
                self._killed(attempt.record, attempt)
                self._nothing_runs()
                if not attempt.record.exists():
                    assert provider.billed == 0  # it had not begun: start it again, under the same name
                    continue
                check_books(attempt.record, provider)
                if (result := read_result(attempt.record)) and not result.infrastructure:
                    break
                attempt = resumed(attempt.record, self.folder / f"r{n}")
            else:
                with Worker() as worker:
                    worker.start(attempt)
                    assert worker.told() == {"record": str(attempt.record), "exit": 0}
            check_books(attempt.record, provider)
            check_solved(attempt.record)
        self._nothing_runs()
        left = [path.name for path in self.folder.iterdir() if path.name.startswith(".")]
        assert all(name == f".{attempt.record.name}.work" for name in left), left

    def _killed(self, record: Path, attempt: object) -> None:
        with Worker() as worker:
            child = worker.start(attempt)  # type: ignore[arg-type]
            moment = self.rng.random() * LONGEST
            try:
                worker.process.wait(moment)
            except subprocess.TimeoutExpired:
                kill(worker.process.pid if self.by_parent else child if child in worker.children() else 0)
            if not self.by_parent:
                told = worker.told()
                assert told["exit"] in (-signal.SIGKILL, 0), told

    def _nothing_runs(self) -> None:
        wait_for(lambda: not running_with([self.sleep, str(self.folder)]), seconds=SOON)


@pytest.mark.parametrize("by_parent", [False, True], ids=["attempt", "parent"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_attempt_is_whole_and_goes_on(tmp_path: Path, seed: int, by_parent: bool) -> None:
    Killing(tmp_path / "k", seed, by_parent).run()


def test_two_kills_never_pass_the_cap(tmp_path: Path) -> None:
    Killing(tmp_path / "k", 3, by_parent=False).run(kills=2)


@pytest.mark.stress
@pytest.mark.parametrize("by_parent", [False, True], ids=["attempt", "parent"])
@pytest.mark.parametrize("seed", range(100, 150))
def test_kills_at_random_moments(tmp_path: Path, seed: int, by_parent: bool) -> None:
    Killing(tmp_path / "k", seed, by_parent).run(kills=1 + seed % 3)
