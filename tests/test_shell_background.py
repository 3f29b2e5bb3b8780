"""Processes that outlive a call: background jobs of the shell, and the tool `job`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from shell_bench import KINDS, SLOWER_KINDS, Bench, bench, notice, output

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Status
from agentctl.tools.shell import Job
from agentctl.tools.shell.job import JobArguments
from agentctl.tools.tool import ToolResult


@dataclass
class Jobs:
    """The tool `job` beside a shell."""

    bench: Bench
    tool: Job

    def __call__(self, action: str, job: int | None = None, **more: Any) -> ToolResult:
        arguments = JobArguments.model_validate({"action": action, "job": job, "wait": 10.0, **more})
        return self.tool.run(arguments, self.bench.context)


@pytest.fixture(params=SLOWER_KINDS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path, request.param) as opened:
        yield opened


@pytest.fixture(scope="module", params=SLOWER_KINDS)
def shared_shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("jobs"), request.param) as opened:
        yield opened


@pytest.fixture
def jobs(shared_shell: Bench) -> Iterator[Jobs]:
    shared_shell.context = replace(shared_shell.context, cancel=Cancel())
    made = Jobs(shared_shell, Job(shared_shell.shell))
    yield made
    made.tool.close()
    assert not [command for command in shared_shell.processes() if not command.startswith("bash ")]


# --- background jobs of the shell ---


def test_late_output_is_labelled_and_never_a_later_result(shell: Bench) -> None:
    shell.run("(sleep 0.2; echo LATE; sleep 0.2; echo LATER) & echo one")
    time.sleep(0.3)
    second = shell.run("echo two")
    assert output(second) == "two"
    assert "background processes of call 1" in notice(second)
    assert "LATE\n" in notice(second)
    time.sleep(0.3)
    assert "LATER" in notice(shell.run("true"))
    assert "background" not in notice(shell.run("true"))


def test_a_talking_job_never_mixes_with_a_command(shell: Bench) -> None:
    shell.run("(while :; do echo NOISE; done) & echo $!")
    for number in range(30):
        result = shell.run(f"echo {number}; sleep 0.01; echo end")
        assert output(result) == f"{number}\nend"
    assert len(notice(result)) < 2000
    shell.run("kill %1")


def test_a_job_that_nobody_reads_does_not_block(shell: Bench) -> None:
    shell.run("(seq 1 400000; echo whole > done.txt) & :")
    assert shell.out("until [ -s done.txt ]; do sleep 0.05; done; cat done.txt", 15) == "whole"


def test_a_daemon_holds_nothing_up(shell: Bench) -> None:
    began = time.monotonic()
    result = shell.run("setsid sh -c 'sleep 30; echo never' & nohup sleep 31 2>/dev/null & disown; echo on", 15)
    assert output(result) == "on"
    assert time.monotonic() - began < 10


def test_a_job_that_ended_between_calls_gives_up_its_number(shell: Bench) -> None:
    for _ in range(3):
        shell.run("sleep 0.1 & sleep 0.11 &")
        while [command for command in shell.processes() if command.startswith("sleep")]:
            time.sleep(0.01)
    shell.run("sleep 30 &")
    assert shell.out("kill %1 && wait; jobs", 5) == ""
    assert not [command for command in shell.processes() if command.startswith("sleep")]


@pytest.mark.parametrize(
    "daemon",
    [
        "(setsid sleep 32 &) &",
        *(
            pytest.param(d, marks=pytest.mark.slow)
            for d in ("sleep 32 &", "setsid sleep 32 &", "nohup sleep 32 & disown;")
        ),
    ],
)
def test_a_limit_kills_the_command_and_no_earlier_job(daemon: str, shell: Bench) -> None:
    shell.run("(while :; do sleep 0.05; echo a >> ticks; done) & sleep 33 &")
    assert shell.run(f"{daemon} sleep 34", 0.3).status is Status.TIMEOUT
    assert "Killed" not in notice(shell.run("sleep 0.2"))
    assert {command for command in shell.processes() if command > "sleep 3"} == {"sleep 33"}
    before = int(shell.out("wc -l < ticks"))
    assert int(shell.out("sleep 0.3; wc -l < ticks")) > before


def test_a_process_without_environment_dies_too(shell: Bench) -> None:
    assert shell.run("env -i sleep 35; touch later.txt", 0.3).status is Status.TIMEOUT
    assert shell.out("pgrep -fc 'sleep 3[5]'; ls later.txt 2>/dev/null") == "0"


def test_close_leaves_nothing(tmp_path: Path) -> None:
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        with bench(folder, kind) as opened:
            opened.run("setsid sleep 36 & nohup sleep 36 & (trap '' TERM; sleep 36) & echo on")
            opened.shell.close()
            assert opened.processes() == []
            opened.shell.close()


# --- jobs ---


def test_a_job_asks_and_is_answered(jobs: Jobs) -> None:
    jobs.bench.run("export GREETING=hi; mkdir -p sub; cd sub")
    asked = jobs("start", command="basename $PWD; read -p 'Name? ' n </dev/tty; echo $GREETING $n", until="Name?")
    assert output(asked) == "sub\nName?"
    assert notice(asked).startswith("[job 1 runs")
    answered = jobs("send", 1, text="Ada")
    assert output(answered) == "hi Ada"
    assert answered.exit_code == 0
    assert "ended" in notice(answered)
    assert output(jobs("read", 1)) == ""


def test_a_prompt_in_a_prompt(jobs: Jobs) -> None:
    jobs("start", command="bash -c 'read -sp \"Password: \" x; echo; python3 -qi'", until="Password:")
    assert output(jobs("send", 1, text="secret", until=">>>")) == ">>>"
    assert output(jobs("send", 1, text="6 * 7", until="42\n>>> ")).startswith("42")
    ended = jobs("send", 1, text="\u0004", enter=False)
    assert ended.exit_code == 0


def test_interrupt_and_kill(jobs: Jobs) -> None:
    jobs("start", command="python3 -c 'import time; print(1, flush=True); time.sleep(40)'", until="1")
    interrupted = jobs("interrupt", 1)
    assert "KeyboardInterrupt" in output(interrupted)
    assert interrupted.exit_code == 130
    jobs("start", command="trap '' INT TERM; echo on; sleep 41 & sleep 41; sleep 41", until="on")
    assert "runs" in notice(jobs("interrupt", 2, wait=0.3))
    assert jobs("kill", 2).exit_code == 137
    assert not [command for command in jobs.bench.processes() if command.startswith("sleep")]


def test_a_limit_of_the_shell_leaves_jobs_alone(jobs: Jobs) -> None:
    jobs("start", command="while :; do sleep 0.05; done", wait=0.1)
    jobs("start", command="sleep 42", wait=0.0)
    assert jobs.bench.run("sleep 43", 0.3).status is Status.TIMEOUT
    assert "runs" in notice(jobs("read", 1, wait=0.2))
    assert "runs" in notice(jobs("read", 2, wait=0.0))


def test_output_of_a_job_is_bounded_and_kept(jobs: Jobs) -> None:
    result = jobs("start", command="seq 1 300000; exit 3")
    assert result.exit_code == 3
    assert output(result).endswith("\n300000")
    assert len(result.text()) < 21_000
    assert result.saved_as is not None
    assert (jobs.bench.context.outputs / result.saved_as).read_text().count("\n") == 300_000


def test_wait_ends_with_the_text_or_the_job(jobs: Jobs) -> None:
    began = time.monotonic()
    assert output(jobs("start", command="sleep 0.3; echo ready; sleep 44", until="ready")) == "ready"
    assert jobs("start", command="sleep 0.3; exit 4").exit_code == 4
    assert time.monotonic() - began < 10
    jobs.bench.context.cancel.set("enough")
    assert jobs("read", 1).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("read", 9), "no such job"),
        (("kill",), "Jobs: none"),
        (("start",), "`command`"),
        (("start", None, "echo \0"), "NUL"),
    ],
)
def test_wrong_calls_are_told(call: tuple[Any, ...], said: str, jobs: Jobs) -> None:
    result = jobs(*call[:2], command=call[2] if len(call) > 2 else None)
    assert result.status is Status.ERROR
    assert said in result.text()


def test_sending_to_an_ended_job_is_told(jobs: Jobs) -> None:
    jobs("start", command="true")
    assert jobs("send", 1, text="x").status is Status.ERROR
    assert jobs("send", 1).status is Status.ERROR


def test_a_job_finds_the_signals_of_a_fresh_program(tmp_path: Path) -> None:
    with bench(tmp_path, "local") as opened:
        jobs = Jobs(opened, Job())
        assert output(jobs("start", command="yes | head -1; echo ${PIPESTATUS[0]}")) == "y\n141"
        jobs.tool.close()


def test_a_shell_that_was_replaced_for_a_job_is_told_of(jobs: Jobs) -> None:
    jobs.bench.run("export KEPT=6; (sleep 0.1; kill -9 $$) & :")
    time.sleep(0.4)
    assert output(jobs("start", command="echo $KEPT")) == "6"
    assert "new shell" in notice(jobs.bench.run("true"))
    assert "new shell" not in notice(jobs.bench.run("true"))


def test_jobs_hold_no_descriptor_when_they_are_closed(jobs: Jobs) -> None:
    jobs.bench.run("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for command in ("true", "sleep 46", "sleep 46 & exit 2"):
        jobs("start", command=command, wait=0.3)
    jobs.tool.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.slow
def test_a_job_that_does_not_read_takes_no_more_than_fits(jobs: Jobs) -> None:
    jobs("start", command="sleep 47", wait=0.0)
    assert "does not take" in jobs("send", 1, text="x\n" * 100_000).text()
    jobs("interrupt", 1, wait=0.0)
    assert jobs("kill", 1).exit_code == 137
