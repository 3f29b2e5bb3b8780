"""Attempts killed at random moments: the record reads, its books hold, nothing is left running, a resume ends right."""

from __future__ import annotations

import random
import shutil
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from attempts import Provider, Worker, agentctl, check_books, check_solved, kill, running_with, solving, spec, wait_for
from sandboxes import mark

from agentctl.agents.manifest import read_result
from agentctl.agents.spec import AttemptSpec
from agentctl.benchmarks.resume import resumed
from agentctl.tools.sandbox.procs import read_entry, same

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")

SOON = 8.0  # seconds for nothing to be left


@dataclass
class Killing:
    """One attempt, killed and resumed until it ends by itself. `longest` seconds is what it takes, about."""

    folder: Path
    seed: int
    by_parent: bool
    looks: int = 4
    longest: float = 3.0
    rng: random.Random = field(init=False)
    sleep: str = field(default_factory=mark)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.folder.mkdir()

    def run(self, kills: int = 1) -> None:
        with ExitStack() as stack:
            provider = stack.enter_context(Provider(solving(self.sleep, looks=self.looks), delay=0.1, seed=self.seed))
            attempt = spec(self.folder / "r0", provider.url)
            for n in range(1, kills + 1):
                worker = stack.enter_context(Worker())
                billed = provider.billed
                self._killed(worker, attempt)
                wait_for(lambda: not running_with([self.sleep, str(self.folder)]), seconds=SOON)
                if not attempt.record.exists():
                    assert provider.billed == billed  # it had not begun: start it again, under the same name
                    continue
                check_books(attempt.record, provider)
                if (result := read_result(attempt.record)) and not result.infrastructure:
                    if (self.folder / f".{attempt.record.name}.work").exists():  # killed after its last word
                        assert agentctl("solve", "--resume", attempt.record).returncode == 2
                    break
                attempt = resumed(attempt.record, self.folder / f"r{n}")
            else:
                worker = stack.enter_context(Worker()) if self.by_parent else worker
                worker.start(attempt)
                assert worker.told() == {"record": str(attempt.record), "exit": 0}
            check_books(attempt.record, provider)
            check_solved(attempt.record)
        assert not running_with([self.sleep, str(self.folder)])
        assert [path.name for path in self.folder.iterdir() if path.name.startswith(".")] == []

    def _killed(self, worker: Worker, attempt: AttemptSpec) -> None:
        """Start the attempt and kill it at some moment, if it has not ended by then."""
        child = worker.start(attempt)
        began = read_entry(child)
        time.sleep(self.rng.random() * self.longest)
        if self.by_parent:
            kill(worker.process.pid)
            wait_for(lambda: began is None or not same(began), seconds=SOON)  # it ends itself, in order
        else:
            kill(child if child in worker.children() else 0)
            told = worker.told()
            assert told["exit"] in (-signal.SIGKILL, 0), told


@pytest.mark.parametrize(("seed", "by_parent"), [(1, False), (2, False), (3, True)])
def test_a_killed_attempt_is_whole_and_goes_on(tmp_path: Path, seed: int, by_parent: bool) -> None:
    Killing(tmp_path / "k", seed, by_parent).run()


def test_two_kills_never_pass_the_cap(tmp_path: Path) -> None:
    Killing(tmp_path / "k", 4, by_parent=False).run(kills=2)


@pytest.mark.stress
@pytest.mark.parametrize("by_parent", [False, True], ids=["attempt", "parent"])
@pytest.mark.parametrize("seed", range(100, 150))
def test_kills_at_random_moments(tmp_path: Path, seed: int, by_parent: bool) -> None:
    Killing(tmp_path / "k", seed, by_parent, looks=10, longest=4.5).run(kills=1 + seed % 3)
