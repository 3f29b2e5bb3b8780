"""The tool `bash`: the published cases, and inputs of the same kinds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell_bench import SLOWER_KINDS, Bench, bench, kinds, notice, output, run_case

from agentctl.base.messages import Status, Text
from agentctl.tools.shell.capture import KEPT_BYTES, Capture
from agentctl.tools.shell.screen import LONGEST_LINE, Screen
from agentctl.tools.shell.tool import NO_OUTPUT


@pytest.mark.cases("shell")
@pytest.mark.parametrize("kind", SLOWER_KINDS)
def test_shell_case(case: dict[str, Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind not in kinds(case):
        pytest.skip(f"only inside a {case['input']['only_inside']}")
    run_case(case, kind, tmp_path, monkeypatch)


# what is not about a session is tested with the sandboxes
@pytest.mark.cases("environment", only=lambda case: "steps" in case["input"])
@pytest.mark.parametrize("kind", SLOWER_KINDS)
def test_environment_case(case: dict[str, Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(case, kind, tmp_path, monkeypatch)


@pytest.fixture(scope="module", params=SLOWER_KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One shell for many quick tests: each leaves it usable, which is half of what they test."""
    with bench(tmp_path_factory.mktemp("shell"), request.param) as opened:
        yield opened


@pytest.fixture
def shell(made: Bench) -> Iterator[Bench]:
    yield made
    assert made.out('echo usable; cd "$HOME"') == "usable"


# One row for each thing that a command may do to the shell, to its terminal or to our own lines:
# commands in order, and the output of the last one.
SHELL_TRICKS = {
    "trace stays on": (["set -x", "echo a 2>/dev/null", "set +x; echo c"], "++ set +x\nc"),
    "alias persists": (["alias hi='echo aliased'", "hi"], "aliased"),
    "output sent to a file by exec": (["exec >f1; echo to file", "cat f1; rm f1"], "to file"),
    "output closed by exec": (["exec 1>&- 2>&-", "echo back"], "back"),
    "input replaced by exec": (["exec </etc/passwd", "cat; echo none"], "none"),
    "terminal made raw": (["stty raw -echo <&1; reset", "printf 'a\\nb\\n'"], "a\nb"),
    "few descriptors": (["(ulimit -n 20; echo 20)", "echo ok"], "ok"),
    "input read twice": (["cat; cat; echo two"], "two"),
    "wait": (["sleep 0.1 & wait; echo waited $?"], "waited 0"),
    "coproc": (["coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l; kill $!; wait $!"], "hi"),
    "job control": (["sleep 30 &", "jobs -r | grep -c sleep; kill %1; wait 2>/dev/null"], "1"),
    "prompt command": (["PROMPT_COMMAND='echo PC; false'", "echo y", "unset PROMPT_COMMAND; echo $?"], "0"),
    "debug trap": (["set -T; trap 'echo D' DEBUG", "trap - DEBUG; set +T; echo z"], "D\nz"),
    "error trap": (["trap 'echo E' ERR", "(exit 3)", "trap - ERR; echo z"], "z"),
    "return at top level": (["return 7; echo no", "echo $?"], "7"),
    "status of the last command": (["(exit 44)", "echo $?"], "44"),
    "break at top level": (["break 2>/dev/null; echo on"], "on"),
    "functions named like builtins": (
        ["printf() { :; }; export() { :; }; pwd() { :; }; echo a", "echo b; unset -f printf export pwd"],
        "b",
    ),
    "aliases named like builtins": (["alias builtin=false printf=false", "unalias -a; echo b"], "b"),
    "readonly variables": (["readonly status=1 token=1 result=1 REPLY=1", "echo b"], "b"),
    "field separator": (["IFS=0123456789", "unset IFS; echo b"], "b"),
    "positional parameters": (["set -- a b c", "echo $# $3"], "3 c"),
    "no clobber": (["set -C; echo a >f2", "set +C; rm f2; echo b"], "b"),
    "posix mode": (["set -o posix", "echo p; set +o posix"], "p"),
    "extended debugging": (["shopt -s extdebug", "shopt -u extdebug; echo e"], "e"),
    "verbose": (["set -v", "set +v; echo v"], "set +v; echo v\nv"),
    "inner interactive bash": (["bash -ic 'echo inner' 2>/dev/null"], "inner"),
    "here-string": (["while read l; do echo got $l; done <<< q"], "got q"),
    "unclosed quote": (['echo "unclosed', "echo b"], "b"),
    "division by zero": (["echo $((1/0)); echo after", "echo b"], "b"),
    "unset variable under -u": (["set -u", "echo $NOWHERE; echo after", "set +u; echo b"], "b"),
    "the shell interrupts itself": (["kill -INT $$; echo after", "echo $?"], "130"),
    "interrupts ignored": (["trap '' INT TERM HUP QUIT", "trap - INT TERM HUP QUIT; echo b"], "b"),
    "no escape to /dev/tty": (["read x </dev/tty; echo $?"], "bash: /dev/tty: No such device or address\n1"),
    "CRLF line ends": (["echo a\r\necho b\r\n"], "a\nb"),
    "a carriage return that is meant": (["printf '%s' $'x\\ry' | od -An -c"], "x  \\r   y"),
    "Unicode line separators": (["printf 'a\\u2028b\\u2029c\\u0085d\\n'"], "a\u2028b\u2029c\x85d"),
    "lone surrogate": (["echo a\ud800b"], "a\ufffdb"),
    "cyclic exec of fd 3": (["exec 3>&1; echo one >&3", "exec 3>&-; echo two"], "two"),
    "stopped child": (["sh -c 'kill -STOP $$' & sleep 0.1; kill -KILL $!; wait $!; echo k"], "k"),
    "control file read-only": (["umask 777; echo a", "umask 022; echo b"], "b"),
    "extended globs": (["shopt -s extglob", "case abc in !(x)) echo m;; esac"], "m"),
}


@pytest.mark.parametrize("name", SHELL_TRICKS)
def test_tricks_leave_the_shell_exact(name: str, shell: Bench) -> None:
    commands, expected = SHELL_TRICKS[name]
    for command in commands:
        result = shell.run(command, 5)
        assert result.status is Status.OK
        assert "new shell" not in notice(result)
    assert output(result) == expected


ENDINGS = {
    "exit 3": 3,
    "exit 256": 0,
    "exec true": 0,
    "exec bash": 0,
    "set -e; false; echo after": 1,
    "kill -9 $$": 137,
    "kill -SEGV $$": 139,
    "builtin exit 9": 9,
    "eval 'exit 11'": 11,
    "f() { g() { exit 12; }; g; }; f": 12,
    "trap 'echo bye' EXIT; exit 5": 5,
    "trap 'exit 6' USR1; kill -USR1 $$; sleep 5": 6,
    "set -t": 0,
}


ENDINGS_LIKE = ("exit 256", "exec bash", "kill -SEGV $$", "builtin exit 9")


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=pytest.mark.slow if command in ENDINGS_LIKE else ()) for command in ENDINGS]
)
def test_end_of_the_shell_is_told_at_once(command: str, shell: Bench) -> None:
    shell.run('export KEPT=\'a\n"b"\'; mkdir -p "$HOME/it\'s"; cd "$HOME/it\'s"; plain=1; echo x >~/once')
    began = time.monotonic()
    result = shell.run(f"echo y >> ~/once; echo shown; {command}", 20)
    assert time.monotonic() - began < 5
    assert result.exit_code == ENDINGS[command]
    assert output(result).split("\n")[0] == "shown"
    assert "a new shell was started: still in" in notice(result)
    assert shell.out('echo "$KEPT"; basename "$PWD"; echo [$plain]; cat ~/once') == 'a\n"b"\nit\'s\n[]\nx\ny'


def test_state_is_kept_in_posix_mode_too(shell: Bench) -> None:
    shell.run("set -o posix; export KEPT=5; mkdir -p posix; cd posix")
    assert shell.run("exit 1").exit_code == 1
    assert shell.out("echo $KEPT; basename $PWD") == "5\nposix"


def test_a_shell_that_ends_between_commands_is_replaced(shell: Bench) -> None:
    shell.run("export KEPT=2; (sleep 0.2; kill -9 $$) & :")
    time.sleep(0.6)
    result = shell.run("echo $KEPT")
    assert output(result) == "2"
    assert "new shell" in notice(result)


# Each makes later.txt in a line after the one that is running at the limit.
LATER_LINES = {
    "plain": "sleep 30\ntouch later.txt",
    "interrupt ignored": "trap '' INT TERM; sleep 30; touch later.txt",
    "interrupt trapped": "trap 'touch later.txt' INT EXIT; sleep 30; touch later.txt",
    "program catches the interrupt": (
        "python3 -c 'import signal, time; signal.signal(2, lambda *_: exit(0)); time.sleep(30)'\ntouch later.txt"
    ),
    "program ignores the interrupt": (
        "python3 -c 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(30)'\ntouch later.txt"
    ),
    "loop without a program": "while :; do :; done; touch later.txt",
    "function": "f() { g; touch later.txt; }; g() { sleep 30; touch later.txt; }; f; touch later.txt",
    "command substitution": "x=$(sleep 30; touch later.txt); touch later.txt",
    "pipeline": "sleep 30 | cat; touch later.txt",
    "or-list": "sleep 30 || touch later.txt",
    "wait": "sleep 30 & wait; touch later.txt",
    "read": "mkfifo p; read x <> p; touch later.txt",
    "opening a pipe": "mkfifo q; echo x > q; touch later.txt",
    "inner script": "printf 'sleep 30\\ntouch later.txt\\n' > s.sh; bash s.sh; touch later.txt",
    "inner script that traps": "printf 'trap : INT\\nsleep 30\\ntouch later.txt\\n' > t.sh; bash t.sh; touch later.txt",
    "shell halted": "kill -STOP $$; touch later.txt",
    "shell replaced": "exec sleep 30",
    "expansion": "echo {1..1000000} >/dev/null; sleep 30; touch later.txt",
}
# Others come to the same by a like way.
LATER_LIKE = (
    *("interrupt ignored", "program ignores the interrupt", "function", "pipeline", "or-list", "wait"),
    *("opening a pipe", "inner script that traps"),
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LATER_LIKE else ()) for name in LATER_LINES]
)
def test_no_later_line_runs_after_the_limit(name: str, shell: Bench) -> None:
    shell.run("rm -rf work; mkdir work; cd work; export KEPT=3")
    result = shell.run(LATER_LINES[name], 0.3)
    assert result.status is Status.TIMEOUT
    assert result.exit_code is None
    assert "the limit of 0.3 s was reached" in notice(result)
    assert shell.out("sleep 0.2; ls later.txt 2>/dev/null; echo $KEPT; basename $PWD") == "3\nwork"
    assert not [command for command in shell.processes() if command.startswith(("sleep", "python3", "cat"))]


def test_variables_and_functions_survive_a_limit(shell: Bench) -> None:
    shell.run("plain=4; f() { echo f$plain; }")
    assert shell.run("sleep 30", 0.2).status is Status.TIMEOUT
    assert shell.out("f") == "f4"


def test_a_limit_shows_where_python_was(shell: Bench) -> None:
    began = time.monotonic()
    shell.run("python3 -c 'import time'")
    start = time.monotonic() - began  # as long as Python takes on this machine now
    result = shell.run("python3 -c 'import time; print(1); time.sleep(30)'", 0.5 + 5 * start)
    assert output(result).startswith("1\nTraceback")
    assert output(result).endswith("KeyboardInterrupt")


@pytest.mark.parametrize("command", ["exec 59>&-", pytest.param("builtin() { :; }", marks=pytest.mark.slow)])
def test_a_broken_report_channel_is_mended(command: str, shell: Bench) -> None:
    assert "new shell" in notice(shell.run(command, 0.3))


def test_an_idle_shell_outlives_its_own_timeout_variable(shell: Bench) -> None:
    shell.run("export TMOUT=1")
    time.sleep(1.3)
    assert shell.out("echo alive") == "alive"
    shell.run("unset TMOUT")


def test_cancel_ends_the_command_at_once(tmp_path: Path) -> None:
    with bench(tmp_path) as opened:
        opened.run("true")
        threading.Timer(0.3, opened.context.cancel.set, ["enough"]).start()
        began = time.monotonic()
        result = opened.run("trap '' INT; sleep 30; touch later.txt")
        assert time.monotonic() - began < 10  # a loaded machine's; some 50 ms after the cancel on a quiet one
        assert result.status is Status.CANCELLED
        assert not [command for command in opened.processes() if command.startswith("sleep")]


def test_a_limit_is_bounded_by_the_longest(tmp_path: Path) -> None:
    with bench(tmp_path, longest=0.3) as opened:
        assert "0.3" in opened.shell.description
        assert opened.run("sleep 5").status is Status.TIMEOUT
        assert opened.run("sleep 5", 4).status is Status.TIMEOUT


# A command may write in the control folder; the harness, perhaps as root, must follow nothing that it finds there.
@pytest.mark.parametrize("trick", ["true", "ln -s STRANGER {}", "mkfifo {}", "ln CONTROL/own {}", "mkdir {}"])
def test_control_files_replaced(trick: str, shell: Bench, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.write_text("mine")
    control = shell.sandbox.control.inside
    trick = trick.replace("STRANGER", str(stranger)).replace("CONTROL", control)
    tricks = "; ".join(trick.format(f"{control}/{name}") for name in ("command", "status", "restore"))
    shell.run(f"rm -rf {control}/*; echo own > {control}/own; {tricks}; false")
    assert "new shell" in notice(shell.run("exit 9"))
    assert stranger.read_text() == "mine"
    assert shell.out("false; echo still") == "still"
    assert shell.run("(exit 5)").exit_code == 5
    assert shell.out("echo $?") == "5"


def test_nothing_of_ours_is_in_sight(shell: Bench) -> None:
    assert "agentctl" not in shell.out("env; declare -F; alias; history").lower().replace("agentctl_sandbox", "")
    assert shell.out("echo $-") == "hiBs"


def test_silence_is_said_in_words(shell: Bench) -> None:
    result = shell.run("false")
    assert result.parts[0] == Text(text=NO_OUTPUT)
    assert "exit status 1" in notice(result)
    assert len(shell.run("echo a").parts) == 1  # nothing to say beyond the output


def test_fast_output_is_whole(shell: Bench) -> None:
    for count in (1, 100, 3000):
        assert shell.out(f"for i in {{1..{count}}}; do echo $i; done").split("\n")[-1] == str(count)
    assert [shell.out(f"echo {number}") for number in range(200)] == [str(number) for number in range(200)]


def test_long_output_is_kept_whole_in_a_file(shell: Bench) -> None:
    result = shell.run("seq 1 100000")
    assert result.saved_as is not None
    kept = (shell.context.outputs / result.saved_as).read_text().split()
    assert kept == [str(number) for number in range(1, 100001)]
    assert output(result).startswith("1\n2\n")
    assert output(result).endswith("\n100000")
    assert len(output(result)) < 20_200
    assert "of 588,895 bytes left out" in output(result)


@pytest.mark.parametrize("flood", ["cat /dev/urandom", "yes", "cat /dev/zero", "yes $'\\r\\e[2K\\b'", "yes $'\\e]'"])
def test_a_flood_ends_at_its_limit(flood: str, shell: Bench) -> None:
    began = time.monotonic()
    result = shell.run(f"{flood} | head -c 3000000; echo; echo END", 10)
    assert time.monotonic() - began < 12
    assert result.exit_code == 0
    assert output(result).endswith("END")
    for file in shell.context.outputs.glob("bash-*"):
        file.unlink()


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "outputs"
    blocked.write_text("a file where the folder should be")
    capture = Capture(blocked, "x.txt", limit=100)
    capture.feed(b"line\n" * 1000)
    shown = capture.show()
    assert "could not be kept" in shown.notice
    assert shown.saved_as is None
    assert shown.text.endswith("line\n")


def test_files_of_outputs_are_never_written_over(tmp_path: Path) -> None:
    for number in range(3):
        capture = Capture(tmp_path, "x.txt", limit=10)
        capture.feed(b"%d" % number * 100)
        assert capture.show().saved_as == ("x.txt" if number == 0 else f"x-{number + 1}.txt")
    assert KEPT_BYTES == 128 << 20


SCREENS = {
    b"\x1b[31mred\x1b[0m\n": b"red\n",
    b"\x1b]0;title\x07text\n": b"text\n",
    b"\x1b]never ends\nnext\n": b"never ends\nnext\n",
    b"\x1b[?2004ha\x1b[?2004l\n": b"a\n",
    b"10%\r50%\r100%\n": b"100%\n",
    b"10%\r100%\r\n": b"100%\n",
    b"a\r\r\nb\n": b"a\nb\n",
    b"dos\r\nlines\r\n": b"dos\nlines\n",
    b"|\b/\b-\bok\n": b"ok\n",
    b"a\x00b\x07c\x7fd\te\n": b"abcd\te\n",
    b"no end": b"no end",
    b"\x1b[2K\rdone": b"done",
    "caf\u00e9 \u2028 \U0001f600\n".encode(): "caf\u00e9 \u2028 \U0001f600\n".encode(),
}


@pytest.mark.parametrize("raw", SCREENS)
@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_screen(raw: bytes, piece: int) -> None:
    screen = Screen()
    shown = b"".join(screen.feed(raw[at : at + piece]) for at in range(0, len(raw), piece)) + screen.flush()
    assert shown == SCREENS[raw]


def test_screen_holds_little_of_an_endless_line() -> None:
    screen = Screen()
    redrawn = b"".join(screen.feed(b"\rstep %d of many" % number) for number in range(100_000))
    assert redrawn + screen.flush() == b"step 99999 of many"
    plain = b"".join(screen.feed(b"x" * 4096) for _ in range(100)) + screen.flush()
    assert plain == b"x" * 409_600
    assert LONGEST_LINE < 1 << 20
