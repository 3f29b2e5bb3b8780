"""What every kind of sandbox holds, proved by attack; and what it says it can't hold, proved the same way."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import AS_NOBODY, NOBODY, await_marked, end_marked, mark, python_for_all, sh, spawn, text, workspace

from agentctl.tools.sandbox import layout, open_sandbox
from agentctl.tools.sandbox.protocol import (
    Guarantee,
    Mount,
    PathRefused,
    Sandbox,
    SandboxSpec,
    SandboxUnavailable,
)

pytest_plugins = ("sandbox_fixtures",)

Open = Callable[..., Sandbox]
AGAIN = "AGENTCTL_TESTS_AS_NOBODY"


# --- the host's files ---


@pytest.fixture
def secrets_of_host(tmp_path: Path) -> Iterator[list[Path]]:
    """Files with a secret where people keep such: temporary folder, home, work folder, beside the workspace."""
    name = f".secret-{secrets.token_hex(6)}"
    planted = []
    for folder in {Path("/tmp"), Path.home(), Path.cwd(), tmp_path}:
        with contextlib.suppress(OSError):
            (folder / name).write_text("SECRET-OF-HOST")
            planted.append(folder / name)
    assert planted
    yield planted
    for path in planted:
        path.unlink()


def test_host_files_are_hidden(box: Sandbox, secrets_of_host: list[Path]) -> None:
    script = (
        """
    for path; do cat "$path" "/proc/1/root$path" "/proc/self/root$path"; done
    find / -path /usr -prune -o -name "$(basename "$1")" -exec cat {} +
    """
        if Guarantee.HOST_FILES_HIDDEN in box.holds
        else 'cat "$@"'
    )
    found = sh(box, f"({script}) 2>/dev/null; exit 0", *map(str, secrets_of_host)).stdout
    assert (b"SECRET-OF-HOST" in found) == (Guarantee.HOST_FILES_HIDDEN not in box.holds)


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/ssl/private", "/root", "/sys/kernel", "/var/log", "/var/mail"])
def test_places_of_the_host_are_hidden(box: Sandbox, path: str) -> None:
    if Guarantee.HOST_FILES_HIDDEN in box.holds:  # a system that can be changed has a place for logs of its own
        assert text(box, 'test ! -d "$1" || find "$1" ! -type d; test -d "$1" || test ! -e "$1"', path) == ""


def test_host_files_are_safe(box: Sandbox, secrets_of_host: list[Path]) -> None:
    victim = secrets_of_host[0]
    if Guarantee.HOST_FILES_SAFE not in box.holds:
        sh(box, 'echo changed >"$1"', str(victim))
        assert victim.read_text() == "changed\n"
        return
    sh(box, 'for path; do echo changed >"$path"; rm -f "$path"; done', *map(str, secrets_of_host))
    assert all(path.read_text() == "SECRET-OF-HOST" for path in secrets_of_host)
    name = f"agentctl-test-{secrets.token_hex(6)}"
    system = ("/", "/usr", "/usr/bin", "/etc", "/etc/alternatives", "/opt", "/var/lib/dpkg")
    for folder in (*system, "/dev", "/proc/sys"):
        written = sh(box, 'echo x >"$1"', f"{folder}/{name}").exit_code == 0
        assert written == (box.system_writable and folder in system), folder
        assert not Path(folder, name).exists()
    for tool in ("mount -o remount,rw /usr", "umount /usr", "umount -l /etc/passwd", "mount -t tmpfs none /mnt"):
        assert sh(box, tool).exit_code != 0, tool


def test_user_inside_holds_no_power(box: Sandbox) -> None:
    if Guarantee.HOST_FILES_SAFE not in box.holds:
        return
    status = dict(line.split(":\t", 1) for line in text(box, "cat /proc/self/status").splitlines())
    assert status["NoNewPrivs"] == "1"  # what is not in CapPrm can't be had
    if box.system_writable:  # no power but over the users of a namespace of its own
        assert int(status["CapPrm"], 16) == sum(1 << CAPABILITIES[name] for name in layout.INSTALLERS)
        assert text(box, "readlink /proc/self/ns/user") != str(Path("/proc/self/ns/user").readlink())
        with_power = "import os; os.setxattr('file', 'security.capability', bytes.fromhex('01000002' + '00' * 16))"
        assert sh(box, f'touch file && python3 -c "{with_power}"').exit_code != 0
    else:
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    before = Path("/proc/sys/kernel/hostname").read_text()
    for path in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness"):
        old = Path(path).read_text()
        assert sh(box, 'printf %s "$2" >"$1"', path, old).exit_code != 0, path  # the same value: harmless if it works
    assert Path("/proc/sys/kernel/hostname").read_text() == before
    for attempt in ("mknod /tmp/disk b 8 0", "chroot / true", "unshare -m true", "unshare -U true"):
        assert sh(box, attempt).exit_code != 0, attempt


def test_devices_of_the_host_keep_their_rights(box: Sandbox) -> None:
    assert text(box, "echo x >/dev/null; (head -c 1 /dev/zero; head -c 2 /dev/urandom) | wc -c") == "3"
    if box.system_writable or (os.getuid() != 0 and Guarantee.HOST_FILES_SAFE in box.holds):
        for name in ("null", "zero", "full", "random", "urandom", "tty"):  # the same rights: harmless if it works
            assert sh(box, 'chmod 666 "/dev/$1" || chown 0:0 "/dev/$1"', name).exit_code != 0, name
        # Nor through what the owner gave it.
        assert os.getuid() != 0 or b"Read-only" in sh(box, "chmod 666 /proc/self/fd/0").stderr
        launch = box.launch(["sh", "-c", "cat <&0; chmod 666 /proc/self/fd/1"])
        nothing = subprocess.DEVNULL
        assert subprocess.run(launch.argv, env=launch.env, stdin=nothing, stdout=nothing, check=False).returncode == 1


def test_first_process_inside_is_closed_to_the_others(box: Sandbox) -> None:
    if Guarantee.HOST_FILES_SAFE in box.holds:
        for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/fd/0", "/proc/1/root/etc"):
            assert sh(box, 'head -c 1 "$1" || ls "$1/"', path).exit_code != 0, path


def test_nothing_of_ours_is_open_in_a_command(box: Sandbox) -> None:
    assert text(box, "ls /proc/self/fd").split() == ["0", "1", "2", "3"]  # 3 is ls's own


# As the kernel numbers them.
CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "NET_BIND_SERVICE": 10,
}

# --- secrets ---

OWNER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from sandboxes import opened, sh
box = opened(sys.argv[2], Path(sys.argv[3]), owner_env=os.environ)
print(sh(box, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\\\0' '\\\\n' | grep -c CANARY").stdout.decode().strip())
print(sh(box, "env | grep -ciE 'api_key|secret|token|password|credential|canary'").stdout.decode().strip())
box.close()
"""


def owner(script: str, kind: str, base: Path, **more: Any) -> subprocess.Popen[str]:
    """A process of its own that runs `script` with the tests' folder, the kind and `base` as arguments."""
    words = [sys.executable, "-c", script, str(Path(__file__).parent), kind, str(base)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **more)


def test_keys_of_the_host_are_in_no_environment(kind: str, tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-CANARY", "ANTHROPIC_API_KEY": "CANARY", "HF_TOKEN": "CANARY", "DISPLAY": ":0"}
    keys |= {"PIP_INDEX_URL": "https://me:CANARY@index.example/simple", "https_proxy": "http://me:CANARY@proxy:3128"}
    process = owner(OWNER, kind, tmp_path, env={**os.environ, **keys})
    answers, _ = process.communicate(timeout=30)
    everywhere, own = answers.split()
    assert own == "0"
    if kind == "bubblewrap":
        assert everywhere == "0"
    else:  # the owner's own memory is a file of the host that is not hidden
        assert int(everywhere) > 0


# --- nothing is left ---

LOSE = 'env -i PATH="$PATH" setsid sh -c "sleep $1 & exec sleep $1" >/dev/null 2>&1 </dev/null &'
KEEP = 'setsid sh -c "setsid sleep $1 & exec sleep $1" >/dev/null 2>&1 </dev/null &'


@pytest.mark.parametrize("keeps_label", [True, False])
def test_no_daemon_outlives_close(box: Sandbox, keeps_label: bool) -> None:
    number = mark()
    try:
        sh(box, KEEP if keeps_label else LOSE, number)
        assert await_marked(number, present=True)
        box.close()
        gone = await_marked(number, present=False, seconds=0.5)
        assert gone == (keeps_label or Guarantee.NOTHING_LEFT in box.holds)
    finally:
        end_marked(number)


def test_a_program_launched_on_a_terminal_ends_with_close(box: Sandbox) -> None:
    number = mark()
    child = spawn(box, ["sh", "-c", f"trap '' HUP; sleep {number}; sleep {number}"])
    assert await_marked(number, present=True)
    box.close()
    assert await_marked(number, present=False, seconds=2)
    child.close(force=True)


DYING = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import pexpect
from sandboxes import opened, sh, KEEP
box = opened(sys.argv[2], Path(sys.argv[3]))
sh(box, '{keep}', '{number}')
launch = box.launch(["sh", "-c", "trap '' HUP; sleep {number}"])
child = pexpect.spawn(launch.argv[0], list(launch.argv[1:]), env=launch.env, cwd=launch.cwd)
print("ready", flush=True)
time.sleep(60)
"""


def test_nothing_outlives_a_killed_owner(kind: str, tmp_path: Path) -> None:
    number = mark()
    script = DYING.replace(", KEEP", "").replace("{keep}", KEEP).replace("{number}", number)
    process = owner(script, kind, tmp_path)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert await_marked(number, present=True)
        process.kill()
        process.wait()
        holds = kind == "bubblewrap"
        assert await_marked(number, present=False, seconds=2 if holds else 0.5) == holds
    finally:
        end_marked(number)


def test_it_outlives_the_thread_that_opened_it(open_kind: Open) -> None:
    found: list[Sandbox] = []
    thread = threading.Thread(target=lambda: found.append(open_kind()))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert found[0].alive()


# --- limits ---

HOG = "import sys; blocks = [bytearray(b'x' * (1 << 20)) for _ in range(int(sys.argv[1]))]; print(len(blocks))"


def test_memory_limit(open_kind: Open) -> None:
    box = open_kind(memory_mb=256)
    fits = box.exec(["python3", "-c", HOG, "100"], timeout=20)
    too_much = box.exec(["python3", "-c", HOG, "1000"], timeout=20)
    assert fits.stdout == b"100\n"
    assert (too_much.stdout == b"") == (Guarantee.MEMORY_LIMIT in box.holds)
    assert box.alive()


FORK = """
import os, sys, time
started = 0
try:
    while started < 200:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        started += 1
except OSError:
    pass
print(started, flush=True)
time.sleep(30)
"""


def test_process_limit(open_kind: Open) -> None:
    box = open_kind(processes=50)
    launch = box.launch(["python3", "-c", FORK])
    storm = subprocess.Popen(launch.argv, env=launch.env, cwd=launch.cwd, stdout=subprocess.PIPE, text=True)
    try:
        assert storm.stdout is not None
        started = int(storm.stdout.readline())
        if Guarantee.PROCESS_LIMIT in box.holds:
            assert 20 < started <= 50
            assert text(box, "echo alive") == "alive"  # there is room left to mend it
        else:
            assert started == 200
        assert len(box.processes()) >= started
        box.kill(box.processes())
        deadline = time.monotonic() + 5
        while sh(box, "ls >/dev/null && echo alive").stdout != b"alive\n":  # the killed count until they are reaped
            assert time.monotonic() < deadline
    finally:
        box.close()
        storm.kill()
        storm.communicate()


def test_file_limit(open_kind: Open) -> None:
    box = open_kind(file_mb=1)
    assert sh(box, "head -c 900000 /dev/zero >fits").exit_code == 0
    assert sh(box, "head -c 3000000 /dev/zero >large").exit_code != 0
    assert box.stat("large").size <= 1 << 20


# --- places ---

PLACES = {"/code": True, "/data": False, "/results": True}


def test_root_paths(kind: str, open_kind: Open, tmp_path: Path) -> None:
    if kind == "local":
        laid = workspace("local", tmp_path)
        moved = laid.model_copy(update={"mounts": (Mount(inside="/code", host=laid.mounts[0].host),)})
        with pytest.raises(SandboxUnavailable, match="/code"):
            open_sandbox(SandboxSpec(kind="local"), moved, owner_env=os.environ)
        return
    box = open_kind(places=PLACES)
    assert Guarantee.ROOT_PATHS in box.holds
    hosts = {mount.inside: mount.host for mount in box.workspace.mounts}
    (hosts["/data"] / "input.csv").write_text("1,2\n")
    assert text(box, "cat /data/input.csv && cp /data/input.csv /results/out.csv && ls /code") == "1,2"
    assert (hosts["/results"] / "out.csv").read_text() == "1,2\n"
    assert sh(box, "echo x >/data/new").exit_code != 0
    with pytest.raises(PathRefused, match="read-only"):
        box.write("/data/new", b"x")
    assert not (hosts["/data"] / "new").exists()


def test_start_home_and_temporary_folder(box: Sandbox) -> None:
    assert text(box, "pwd") == box.workspace.start
    assert text(box, 'echo 1 >"$HOME/a" && echo 1 >"${TMPDIR:-/tmp}/b" && echo ~') == box.env["HOME"]
    assert box.list(box.workspace.start) == []  # nothing of ours is in the workspace
    assert text(box, "ls -A") == ""


def test_control_folder_is_shared(box: Sandbox) -> None:
    (box.control.host / "command").write_text("echo from the harness")
    assert (
        text(box, f". {box.control.inside}/command && echo answer >{box.control.inside}/answer") == "from the harness"
    )
    assert (box.control.host / "answer").read_text() == "answer\n"


def test_two_sandboxes_do_not_see_each_other(open_kind: Open) -> None:
    one, two = open_kind(), open_kind()
    number = mark()
    sh(one, f"echo private >of-one; echo private >/tmp/{number}; sleep {number} >/dev/null 2>&1 &")
    assert await_marked(number, present=True)
    look = f"cat of-one /tmp/{number}; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'slee[p] {number}'"
    seen = sh(two, look).stdout
    if Guarantee.HOST_FILES_HIDDEN in one.holds:
        assert seen == b""
    else:
        assert b"private" in seen
        assert f"sleep {number}".encode() in seen
        Path(f"/tmp/{number}").unlink()


# --- network ---

CALL = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2).recv(9).decode())"


@pytest.mark.parametrize("network", ["none", "registries", "open"])
def test_network_policy(kind: str, open_kind: Open, network: str) -> None:
    """No host is reached directly under any policy, this one least; what a policy allows is in test_network_*.py."""
    if kind == "local" and network != "open":
        with pytest.raises(SandboxUnavailable, match="can hold no network policy"):
            open_kind(network=network)
        return
    box = open_kind(network=network)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            with contextlib.suppress(OSError):
                server.accept()[0].sendall(b"from-host")

        threading.Thread(target=greet, daemon=True).start()
        result = box.exec(["python3", "-c", CALL, str(port)], timeout=10)
    held = Guarantee.NETWORK_POLICY in box.holds
    assert (result.stdout == b"from-host\n") == (not held)
    interfaces = text(box, "tail -n +3 /proc/net/dev | cut -d: -f1").split()
    assert set(interfaces) == ({"lo"} if held else {name for _, name in socket.if_nameindex()})


# --- the whole ---


def test_fingerprint(box: Sandbox) -> None:
    first, second = box.fingerprint(), box.fingerprint()
    assert first == second
    assert (first.kind, first.network, first.processes) == (box.spec.kind, box.spec.network, box.spec.processes)
    assert first.cpus == len(os.sched_getaffinity(0))
    assert len(first.system) == 64


@pytest.mark.slow
def test_an_ordinary_user_gets_the_same() -> None:
    """These tests again without root: other limits, other namespaces, the same promises."""
    if os.getuid() != 0 or AGAIN in os.environ:
        pytest.skip("runs once, from root")
    python = python_for_all()
    if python is None:
        pytest.skip("needs setpriv and a Python that every user may run")
    paths = [*(path for path in sys.path if path.endswith("site-packages")), str(Path(__file__).parents[1] / "src")]
    # Not pytest's own folder: every run of pytest takes that away from other users.
    with tempfile.TemporaryDirectory(prefix="agentctl-nobody-") as home:
        os.chown(home, NOBODY, NOBODY)
        variables = {**os.environ, "HOME": home, "PYTHONPATH": ":".join(paths), AGAIN: "1"}
        also = [str(path) for path in Path(__file__).parent.glob("test_*sandbox_*.py") if path != Path(__file__)]
        also.append(str(Path(__file__).parent / "test_network_sandbox.py"))
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", f"{home}/t", "-k", "not local", __file__, *also]
        command = [*AS_NOBODY, python, "-m", "pytest", *options]
        done = subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout
