"""AutoGPT's commands that run programs: execute_shell, execute_shell_popen and the two for Python."""

from __future__ import annotations

import os
import threading
import time

import pytest
from autogpt_place import CAPSULE, Desk, open_desk, streams
from sandboxes import await_marked, end_marked, mark, marked

from agentctl.base.messages import Status, Text
from agentctl.tools.autogpt.command import NOTHING
from agentctl.tools.sandbox.protocol import SandboxError
from agentctl.tools.shell.tool import LIMIT
from agentctl.tools.tool import ToolResult

pytest_plugins = ("autogpt_fixtures",)


def notes(result: ToolResult) -> str:
    """What is told beside the streams."""
    return "\n".join(part.text for part in result.parts[2:] if isinstance(part, Text))


def test_both_streams_are_told_apart_and_output_comes_first(desk: Desk) -> None:
    result = desk.run("execute_shell", command_line="echo wrong >&2; echo right")
    assert streams(result) == ("right\n", "wrong\n")
    assert result.exit_code == 0 and notes(result) == ""


def test_every_command_starts_anew_in_the_capsules_folder(desk: Desk) -> None:
    assert desk.shell("cd /; x=1; export y=2; pwd")[0] == "/\n"
    assert desk.shell("pwd; echo $x$y")[0] == f"{desk.inside}\n\n"
    assert desk.inside.endswith(CAPSULE)


@pytest.mark.parametrize(
    ("command", "out", "err"),
    [
        ("true", NOTHING, NOTHING),
        ("cat; echo end", "end\n", NOTHING),  # stdin is at its end
        ("read -r answer; echo $?", "1\n", NOTHING),
        ("cat <<'E'\n$x 'quoted' \"twice\" \\\nE", "$x 'quoted' \"twice\" \\\n", NOTHING),
        ("# nothing but a comment", NOTHING, NOTHING),
        ("echo a; # b\n\necho c", "a\nc\n", NOTHING),
        ("printf 'caf\\351 \\377\\n'", "caf\ufffd \ufffd\n", NOTHING),
        ("printf '\\033[31mred\\033[0m 10%%\\r100%%\\n' >&2", NOTHING, "100%\n"),
        ("echo -- -n", "-- -n\n", NOTHING),
        ("test -t 0 || test -t 1 || test -t 2 || echo no terminal", "no terminal\n", NOTHING),
        ("exit 0; echo never", NOTHING, NOTHING),
    ],
)
def test_what_a_command_prints(desk: Desk, command: str, out: str, err: str) -> None:
    assert desk.shell(command) == (out, err)


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 3", 3), ("no-such-program", 127), ("kill -9 $$", 137), ("false | true", 0), ("if then", 2)],
)
def test_the_exit_status_is_told_where_it_is_not_0(desk: Desk, command: str, status: int) -> None:
    result = desk.run("execute_shell", command_line=command)
    assert (result.status, result.exit_code) == (Status.OK, status)
    assert notes(result) == (f"[exit status {status}]" if status else "")


def test_a_huge_output_is_kept_whole_and_shown_as_its_ends(desk: Desk) -> None:
    command = "seq 400000; echo last; seq 300000 | sed s/^/e/ >&2"
    result = desk.run("execute_shell", command_line=command)
    out, err = streams(result)
    assert out.startswith("1\n2\n") and out.endswith("400000\nlast\n") and "left out" in out
    assert err.startswith("e1\n") and err.endswith("e300000\n")
    assert len(out) < LIMIT + 200 and len(err) < LIMIT + 200
    assert "standard output: output cut" in notes(result) and "standard error: output cut" in notes(result)
    assert result.saved_as is not None
    kept = (desk.base / "outputs" / result.saved_as).read_text().splitlines()
    assert len(kept) == 400_001
    [(kind, told)] = desk.notes
    assert kind == "output" and (desk.base / "outputs" / told.split()[-1]).read_text().endswith("e300000\n")


def test_a_command_that_no_shell_takes_is_not_run(desk: Desk) -> None:
    for name in ("execute_shell", "execute_shell_popen"):
        assert "NUL" in desk.error(name, command_line="echo a\0b")
        assert "write_file" in desk.error(name, command_line="echo " + "x" * (1 << 17))
    assert desk.shell("echo \U0001f600")[0] == "\U0001f600\n"


def test_at_the_limit_all_that_it_started_is_killed(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    desk = open_desk(tmp_path_factory.mktemp("limit"), kind, seconds=1.0)
    try:
        number = mark()
        assert "process id" in desk.ok("execute_shell_popen", command_line=f"sleep {number}")
        assert await_marked(number, present=True)
        left = mark()
        daemon = f"setsid sh -c 'trap \"\" INT TERM; sleep {left}' & (sleep {left} &)"
        result = desk.run("execute_shell", command_line=f"{daemon}; echo begun; sleep {left}; echo never")
        assert (result.status, result.exit_code) == (Status.TIMEOUT, None)
        assert streams(result)[0] == "begun\n" and "the limit of 1 s was reached" in notes(result)
        assert await_marked(left, present=False), "a command's processes end with it"
        assert marked(number), "an earlier background command goes on"
        desk.seconds_left = 0.5
        assert "the attempt's time is over" in notes(desk.run("execute_shell", command_line="sleep 30"))
        assert desk.run("execute_python_code", code="import time; time.sleep(9)").status is Status.TIMEOUT
        assert not list(desk.folder.iterdir()), "the code's file is gone also then"
    finally:
        desk.close()
    assert await_marked(number, present=False), "and ends with the attempt"


def test_cancelling_ends_a_command_in_its_middle(desk: Desk) -> None:
    number = mark()
    threading.Timer(0.5, lambda: desk.cancel.set("enough")).start()
    began = time.monotonic()
    result = desk.run("execute_shell", command_line=f"echo begun; sleep {number} & sleep {number}")
    assert result.status is Status.CANCELLED and time.monotonic() - began < 5
    assert streams(result)[0] == "begun\n" and "cancelled" in notes(result)
    assert await_marked(number, present=False)


def test_a_command_that_leaves_a_daemon_is_not_waited_for(desk: Desk) -> None:
    began = time.monotonic()
    number = mark()
    lines = "i=0; while [ $i -lt 30000 ]; do echo line $i || exit; i=$((i+1)); done"
    talker = f"({lines}; echo all >said; exec sleep {number}) &"
    assert desk.shell(f"{talker} echo left")[0].startswith(("left\n", "line "))
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + 20
    while not (desk.folder / "said").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (desk.folder / "said").exists(), "it was stopped by a stream that nobody reads"
    assert await_marked(number, present=True)
    end_marked(number)


def test_a_background_command_is_told_by_its_process_id_inside(desk: Desk) -> None:
    told = desk.ok("execute_shell_popen", command_line="pwd >here; echo heard; cat; exec sleep 60")
    pid = told.split()[-1].rstrip(".")
    assert "heard" not in told
    deadline = time.monotonic() + 5
    while desk.shell(f"cat /proc/{pid}/comm")[0] != "sleep\n" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert desk.shell(f"cat /proc/{pid}/comm; kill {pid}")[0] == "sleep\n"
    assert (desk.folder / "here").read_text() == f"{desk.inside}\n"


def test_a_capsules_folder_that_is_gone_is_said(desk: Desk) -> None:
    desk.shell("rm -rf ../capsule*")
    result = desk.run("execute_shell", command_line="echo on")
    assert result.exit_code == 126 and desk.inside in streams(result)[1]
    assert "There is no" in desk.error("execute_python_file", filename="x.py")


def test_a_sandbox_that_has_ended_is_infrastructure(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    desk = open_desk(tmp_path_factory.mktemp("ended"), kind)
    desk.sandbox.close()
    with pytest.raises(SandboxError):
        desk.run("execute_shell", command_line="exit 1")
    desk.close()


def test_python_code_sees_the_capsules_modules_and_leaves_nothing(desk: Desk) -> None:
    (desk.folder / "temp_1.py").write_text("theirs")
    (desk.folder / "temp_2.py").symlink_to("nowhere")
    (desk.folder / "of_the_capsule.py").write_text("value = 42")
    code = "import os, sys, of_the_capsule as m\nprint(m.value, os.getcwd(), __file__)\nprint('é', file=sys.stderr)"
    result = desk.run("execute_python_code", code=code)
    assert streams(result) == (f"42 {desk.inside} {desk.inside}/temp_3.py\n", "é\n")
    assert sorted(path.name for path in desk.folder.iterdir()) == ["of_the_capsule.py", "temp_1.py", "temp_2.py"]


def test_code_that_fails_is_an_error_with_both_streams(desk: Desk) -> None:
    result = desk.run("execute_python_code", code="print('so far', flush=True)\n1 / 0")
    out, err = streams(result)
    assert (result.status, result.exit_code) == (Status.ERROR, 1)
    assert out == "so far\n" and "ZeroDivisionError" in err and "temp_1.py" in err


@pytest.mark.parametrize("args", [["a b", "-n", "*"], "'a b' -n '*'"])
@pytest.mark.parametrize("name", ["with blanks.py", "-dash.py", "sub/deep.py", "./plain.py"])
def test_a_python_file_gets_its_arguments(desk: Desk, name: str, args: list[str] | str) -> None:
    file = desk.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("import os, sys; print(sys.argv[1:], os.getcwd())")
    result = desk.run("execute_python_file", filename=name, args=args)
    assert streams(result)[0] == f"['a b', '-n', '*'] {desk.inside}\n"


def test_what_is_no_python_file_is_not_run(desk: Desk) -> None:
    (desk.folder / "run.sh").write_text("echo hi")
    (desk.folder / "folder.py").mkdir()
    os.mkfifo(desk.folder / "fifo.py")
    (desk.folder / "out.py").symlink_to("/etc/passwd")
    for name, why in {
        "run.sh": ".py",
        "folder.py": "folder",
        "fifo.py": "FIFO",
        "out.py": "outside",
        "none.py": "There is no",
        "/etc/x.py": "outside",
    }.items():
        assert why in desk.error("execute_python_file", filename=name), name
    (desk.folder / "x.py").write_text("")
    assert "quot" in desk.error("execute_python_file", filename="x.py", args="'open").lower()
