"""Programs that start others without end: a limit, a cancel and the end of the attempt stop them within seconds."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from attempts import Provider, Worker, bash, running_with, spec, wait_for
from sandboxes import KINDS, mark, opened
from shell_bench import bench

from agentctl.base.messages import Status
from agentctl.tools.sandbox.protocol import Guarantee, SandboxSpec

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")

SOON = 15.0  # seconds for a bomb to be gone, on a loaded machine: four where nothing else runs
PROCESSES = 256

# Bounded by the limit on processes alone. They go on trying when they meet it.
BOMBS = {
    "forks": "import os\nwhile True:\n try: os.fork()\n except OSError: pass",
    "sessions": "import os\nwhile True:\n try: os.fork() or os.setsid()\n except OSError: pass",
    "relays": "import os\nfor _ in range(5): os.fork()\n"
    "while True:\n try:\n  if os.fork(): os._exit(0)\n except OSError: pass",
}
# Bounded by itself: 64 that start one after another.
BREEDERS = "import os\nfor _ in range(6): os.fork()\nwhile True:\n os.fork() or os._exit(0)\n os.wait()"
PARAMETERS = [pytest.param(bomb, marks=pytest.mark.slow if bomb == "forks" else ()) for bomb in BOMBS]
SCRIPT = 'python3 -c "$0"; sleep 60'  # there is something to end also where the first of them has ended by itself


def skip_without_limit(holds: frozenset[Guarantee]) -> None:
    if Guarantee.PROCESS_LIMIT not in holds:
        pytest.skip("this machine lets the sandbox set no process limit")


@pytest.mark.parametrize("bomb", PARAMETERS)
def test_a_bomb_ends_at_the_limit_of_its_command(bomb: str, tmp_path: Path) -> None:
    box = opened("bubblewrap", tmp_path, processes=PROCESSES)
    try:
        skip_without_limit(box.holds)
        began = time.monotonic()
        assert box.exec(["bash", "-c", SCRIPT, BOMBS[bomb]], timeout=0.7).timed_out
        assert box.processes() == []
        assert box.alive()
        assert time.monotonic() - began < SOON
    finally:
        box.close()


@pytest.mark.parametrize("bomb", PARAMETERS)
def test_a_bomb_in_the_shell_ends_when_the_call_is_cancelled(bomb: str, tmp_path: Path) -> None:
    with bench(tmp_path, sandbox={"processes": PROCESSES}) as shell:
        skip_without_limit(shell.sandbox.holds)
        shell.run("sleep 50 &")
        threading.Timer(0.7, lambda: shell.context.cancel.set("enough")).start()
        began = time.monotonic()
        assert shell.run(f"bash -c '{SCRIPT}' '{BOMBS[bomb]}'", 60).status is Status.CANCELLED
        assert [command for command in shell.processes() if "bash" not in command] == ["sleep 50"]
        assert time.monotonic() - began < SOON


@pytest.mark.parametrize("kind", KINDS)
def test_what_multiplies_ends_where_nothing_bounds_it(kind: str, tmp_path: Path) -> None:
    box = opened(kind, tmp_path)
    try:
        began = time.monotonic()
        assert box.exec(["bash", "-c", SCRIPT, BREEDERS], timeout=0.7).timed_out
        assert box.processes() == []
        assert time.monotonic() - began < SOON
    finally:
        box.close()


def test_closing_ends_a_bomb(tmp_path: Path) -> None:
    box = opened("bubblewrap", tmp_path, processes=PROCESSES)
    try:
        skip_without_limit(box.holds)
        box.exec(["sh", "-c", 'setsid python3 -c "$0" & sleep 0.5', BOMBS["forks"]], timeout=20)
        assert box.processes()
        began = time.monotonic()
    finally:
        box.close()
    assert time.monotonic() - began < SOON


def test_a_cancelled_attempt_with_a_bomb_ends_soon(tmp_path: Path) -> None:
    number = mark()
    with (
        Provider([bash(f"sleep {number} & touch begun; python3 -c '{BOMBS['sessions']}'")]) as provider,
        Worker() as worker,
    ):
        limits = SandboxSpec(processes=PROCESSES)
        worker.start(spec(tmp_path / "a", provider.url).model_copy(update={"sandbox": limits}))
        # Not for the mark: a look at the command line of a bomb may take a second.
        wait_for(lambda: list(tmp_path.glob(".a.work/*/begun")), seconds=20)
        time.sleep(0.5)
        worker.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        worker.process.wait(60)
        assert time.monotonic() - began < SOON
    assert not running_with([number])
    assert '"end": "cancelled"' in (tmp_path / "a" / "result.json").read_text()


def test_who_is_halted_goes_on_afterwards(tmp_path: Path) -> None:
    """Also when the owner of the halt is gone: it holds as long as its connection."""
    box = opened("bubblewrap", tmp_path)
    try:
        box.exec(["sh", "-c", "while :; do echo >>/workspace/ticks; sleep 0.01; done >/dev/null 2>&1 &"], timeout=20)

        def ticks() -> int:
            return box.stat("ticks").size

        wait_for(lambda: (tmp_path / "host/workspace/ticks").exists(), seconds=10)
        with box.halted() as outer:
            with box.halted() as inner:
                assert (outer, inner) == (True, True)
            time.sleep(0.1)
            before = ticks()
            time.sleep(0.2)
            assert ticks() == before
        wait_for(lambda: ticks() > before, seconds=10)
    finally:
        box.close()
    with box.halted() as halted:
        assert not halted
