"""How commands run in every kind of sandbox: streams, limits of time, what they leave, terminals."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pexpect
import pytest
from sandboxes import await_marked, end_marked, mark, marked, sh, spawn

from agentctl.tools.sandbox import procs
from agentctl.tools.sandbox.protocol import Guarantee, Process, Sandbox, SandboxError

pytest_plugins = ("sandbox_fixtures",)

Open = Callable[..., Sandbox]


def test_streams_and_exit_codes(box: Sandbox) -> None:
    result = box.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=5)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert not result.timed_out
    assert not result.truncated
    assert box.exec(["sh", "-c", "kill -9 $$"], timeout=5).exit_code == 137
    assert box.exec(["no-such-program"], timeout=5).exit_code == 127
    assert box.exec(["/etc/passwd"], timeout=5).exit_code == 126
    assert box.exec(["pwd"], timeout=5, cwd="/usr").stdout == b"/usr\n"
    assert box.exec(["pwd"], timeout=5, cwd="/no/such/folder").exit_code == 126


@pytest.mark.parametrize("words", [["echo", "a\0b"], ["echo", "\ud800"], ["echo", "x" * (1 << 18)]])
def test_words_that_no_program_can_be_given(box: Sandbox, words: list[str]) -> None:
    result = box.exec(words, timeout=5)
    assert result.exit_code == 126
    assert result.stderr


@pytest.mark.parametrize("word", ["", "ünï¢ode", "-n", "a b'\"$`\\", "line\nline", os.fsdecode(b"\xff\xfe")])
def test_words_pass_untouched(box: Sandbox, word: str) -> None:
    result = box.exec(["printf", "%s", "x", word, "y"], timeout=5)
    assert result.stdout == b"x" + os.fsencode(word) + b"y"


def test_stdin(box: Sandbox) -> None:
    assert box.exec(["cat"], timeout=5).stdout == b""
    data = os.urandom(3 << 20)
    assert box.exec(["cat"], timeout=10, stdin=data, limit=4 << 20).stdout == data
    assert box.exec(["head", "-c", "3"], timeout=10, stdin=data).stdout == data[:3]  # the rest is not wanted
    assert box.exec(["true"], timeout=10, stdin=data).exit_code == 0


def test_output_past_the_limit_is_drained(box: Sandbox) -> None:
    result = sh(box, "head -c 5000000 /dev/zero; echo end >&2", limit=1000)
    assert (result.exit_code, len(result.stdout), result.stderr, result.truncated) == (0, 1000, b"end\n", True)
    exact = sh(box, "printf 1234567890", limit=10)
    assert (exact.stdout, exact.truncated) == (b"1234567890", False)


def test_timeout_kills_children_and_keeps_output(box: Sandbox) -> None:
    number = mark()
    began = time.monotonic()
    script = f"echo before; sleep {number} & setsid sleep {number} & setsid setsid sleep {number} & sleep {number}"
    result = sh(box, script, timeout=0.7)
    assert time.monotonic() - began < 4
    assert (result.exit_code, result.timed_out, result.stdout) == (None, True, b"before\n")
    assert not marked(number)
    assert box.alive()


def test_something_left_in_the_background_does_not_hold_up_the_result(box: Sandbox) -> None:
    number = mark()
    began = time.monotonic()
    assert sh(box, f"sleep {number} & yes & echo done").exit_code == 0
    assert time.monotonic() - began < 3
    assert marked(number)  # a server that was started is meant to go on
    box.close()
    end_marked(number)


def test_closed_means_closed(box: Sandbox) -> None:
    box.close()
    box.close()
    assert not box.alive()
    with pytest.raises(SandboxError):
        box.exec(["true"], timeout=5)


def test_what_kills_all_inside_does_not_end_the_sandbox_unnoticed(kind: str, open_kind: Open) -> None:
    if kind == "local":
        pytest.skip("needs processes of its own: it would kill the tests")
    box = open_kind()
    sh(box, "kill -9 -1; kill -9 1", timeout=5)
    assert box.alive()
    sh(box, "kill -9 $(ls /proc | grep '^[0-9]')", timeout=5)
    assert box.alive()


def test_a_dead_sandbox_is_recognised(kind: str, open_kind: Open) -> None:
    if kind == "local":
        pytest.skip("needs a first process of its own")
    box = open_kind()
    first = box._init  # type: ignore[attr-defined]
    os.kill(first.pid, signal.SIGKILL)
    began = time.monotonic()
    assert not box.alive()
    with pytest.raises(SandboxError):
        box.exec(["true"], timeout=5)
    assert time.monotonic() - began < 2
    assert box.processes() == []


def test_death_during_a_command_is_recognised(kind: str, open_kind: Open) -> None:
    if kind == "local":
        pytest.skip("needs a first process of its own")
    box = open_kind()
    first = box._init  # type: ignore[attr-defined]
    threading.Timer(0.3, lambda: os.kill(first.pid, signal.SIGKILL)).start()
    with pytest.raises(SandboxError):
        box.exec(["sleep", "20"], timeout=20)


# --- processes and terminals ---


def test_processes_and_kill(box: Sandbox) -> None:
    number = mark()
    sh(box, f"setsid sleep {number} >/dev/null 2>&1 &")
    assert await_marked(number, present=True)
    found = [process for process in box.processes() if procs.command_of(process.pid) == f"sleep {number}"]
    assert [process.pid for process in found] == [entry.pid for entry in marked(number)]
    stranger = Process(pid=found[0].pid, started=found[0].started - 1)
    box.kill([stranger])  # the number now belongs to another
    assert marked(number)
    box.kill(found)
    assert await_marked(number, present=False)
    box.kill(found)  # gone: no error
    assert [process for process in box.processes() if number in procs.command_of(process.pid)] == []


def test_terminal(box: Sandbox) -> None:
    child = spawn(box, ["bash", "--norc", "--noprofile"])
    child.sendline(
        "PS1='<$?>'; echo lead=$(($(ps -o sid= -p $$) == $$)); pwd; echo $HOME; stty size; test -t 0 && echo tty"
    )
    for expected in ("lead=1", box.workspace.start, box.env["HOME"], "24 80", "tty", "<0>"):
        child.expect_exact(expected)
    child.setwinsize(30, 100)
    child.sendline("stty size; cat </dev/tty")
    child.expect_exact("30 100")
    child.sendline("once")
    child.expect_exact("once")  # cat answers, so it has the terminal
    child.sendintr()
    child.expect_exact("<130>")
    child.sendline("exit 7")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 7


def test_killing_the_starter_kills_the_program(box: Sandbox) -> None:
    number = mark()
    child = spawn(box, ["sh", "-c", f"trap '' HUP; sleep {number}; :"], cwd="/tmp")
    assert await_marked(number, present=True)
    child.kill(signal.SIGKILL)
    child.close(force=True)
    gone = await_marked(number, present=False, seconds=2 if Guarantee.NOTHING_LEFT in box.holds else 0.3)
    assert gone or Guarantee.NOTHING_LEFT not in box.holds
    end_marked(number)
