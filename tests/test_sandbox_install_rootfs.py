"""A given system in place of the host's: it alone is seen, it is never changed, and it needs no Python of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attempts import CAPSULE, FINISH, Provider, agentctl, bash, report, spec
from sandboxes import opened, sh, text

from agentctl.agents.reading import RecordReader
from agentctl.base.errors import InputError
from agentctl.benchmarks.replay import play_again
from agentctl.benchmarks.resume import resumed
from agentctl.benchmarks.runner import run
from agentctl.benchmarks.trust import Trust
from agentctl.tools.sandbox.protocol import Sandbox, SandboxSpec, SandboxUnavailable
from agentctl.tools.sandbox.system import dpkg_status, system_digest

PROGRAMS = ("bash", "sh", "cat", "ls", "rm", "touch", "mkdir", "id", "find", "true", "test", "env", "head", "stat")
STATUS = "Package: base\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n"
PASSWD = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:d:/:/bin/false\nalice:x:1000:1000::/home/alice:/bin/sh\n"


def tiny_system(folder: Path, programs: tuple[str, ...] = PROGRAMS) -> Path:
    """A system of a few programs and the libraries that they need, laid out as Debian's are."""
    for name in ("usr/bin", "usr/lib", "usr/lib64", "usr/share", "etc", "var/lib/dpkg", "home/alice", "data"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name in programs:
        program = shutil.which(name)
        assert program
        shutil.copy(program, folder / "usr/bin" / name)
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+)", libraries):
            place = folder / "usr" / Path(library).relative_to("/usr" if library.startswith("/usr/") else "/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "usr/share/of-the-system").write_text("here\n")
    (folder / "var/lib/dpkg/status").write_text(STATUS)
    return folder


def listing(folder: Path) -> list[tuple[str, int, int, int]]:
    return [
        (str(path), status.st_mode, status.st_size, status.st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if (status := path.lstat())
    ]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_system(tmp_path_factory.mktemp("rootfs") / "a,b:c")  # characters that mean something in options


@pytest.fixture
def box(system: Path, tmp_path: Path) -> Iterator[Sandbox]:
    places = {"/data": True, "/code/inner": False}
    made = opened("bubblewrap", tmp_path, rootfs=system, places=places)
    yield made
    made.close()


def test_only_the_given_system_is_seen(box: Sandbox, system: Path) -> None:
    assert text(box, "cat /usr/share/of-the-system; echo $HOME; pwd").split() == ["here", "/home/agent", "/workspace"]
    assert text(box, "ls /home /usr/share").split() == ["/home:", "agent", "alice", "/usr/share:", "of-the-system"]
    assert sh(box, "command -v python3 || command -v perl || ls /usr/include").exit_code != 0
    names = [line.split(":")[0] for line in text(box, "cat /etc/passwd").splitlines()]
    assert sorted(names) == sorted({"root", "nobody", "daemon", text(box, "id -un")})
    assert text(box, "touch /data/new /tmp/x /var/tmp/y ~/z && ls /data /code/inner").split("\n")[0] == "/code/inner:"
    assert sh(box, "touch /code/inner/x").exit_code != 0


def test_the_given_folder_is_never_changed(box: Sandbox, system: Path) -> None:
    before = listing(system)
    done = sh(box, "echo x >/usr/share/of-the-system; rm -r /var/lib/dpkg; touch /new /etc/new /usr/bin/new; id")
    assert (b"Read-only" in done.stderr) == (not box.system_writable)
    box.close()
    assert listing(system) == before


def test_what_is_installed_there(box: Sandbox, system: Path) -> None:
    lock = box.environment()
    assert lock.system.packages == ("base:all=1",)
    assert lock.python == {}


def test_the_fingerprint_is_that_of_the_system(box: Sandbox, tmp_path: Path) -> None:
    assert box.fingerprint().system != system_digest(Path("/"))
    assert box.fingerprint().apt is False  # it has no apt-get
    one = tiny_system(tmp_path / "one", ("true",))
    (one / "var/lib/dpkg/status").unlink()
    (tmp_path / "two").mkdir()
    two = shutil.copytree(one, tmp_path / "two/copy", symlinks=True)
    assert system_digest(one) == system_digest(two) != box.fingerprint().system
    (two / "usr/bin/more").touch()
    system_digest.cache_clear()
    assert system_digest(one) != system_digest(two)
    assert dpkg_status(one).packages == ()


def test_links_of_a_given_system_lead_to_no_file_of_the_host(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret:x:77:77::/:/bin/sh\n")
    system = tiny_system(tmp_path / "system")
    (system / "etc/passwd").unlink()
    (system / "etc/passwd").symlink_to(secret)
    (system / "usr/share/link").symlink_to(secret)
    box = opened("bubblewrap", tmp_path, rootfs=system)
    try:
        assert b"secret" not in sh(box, "cat /etc/passwd /usr/share/link").stdout
    finally:
        box.close()


@pytest.mark.parametrize(("lacks", "said"), [("sh", "sh: No such file"), ("bash", "bash is missing")])
def test_a_system_that_lacks_what_we_need_is_refused(lacks: str, said: str, tmp_path: Path) -> None:
    system = tiny_system(tmp_path / "system", tuple(name for name in PROGRAMS if name != lacks))
    with pytest.raises(SandboxUnavailable, match=said) as caught:
        opened("bubblewrap", tmp_path, rootfs=system)
    assert "\n" not in str(caught.value)


Refuse = Callable[[Path], dict[str, Any]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (lambda base: {"rootfs": Path("/")}, "host's own root"),
        (lambda base: {"rootfs": base / "not-there"}, "has no /usr"),
        (lambda base: {"rootfs": (base / "link")}, "host's own root"),
        (lambda base: {"rootfs": base / "around"}, "lies in it"),
        (lambda base: {"rootfs": base / "around", "kind": "local"}, "local"),
    ],
)
def test_folders_that_are_no_system(options: Refuse, said: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    base = tmp_path / "around/base"
    base.mkdir(parents=True)
    (tmp_path / "around/usr").mkdir()
    given = options(tmp_path)
    with pytest.raises(InputError, match=said):
        opened(given.pop("kind", "bubblewrap"), base, **given)


def test_an_attempt_in_a_given_system_and_its_replay(system: Path, tmp_path: Path) -> None:
    """A record may be a stranger's: only who plays it says which folder is shown."""
    with Provider([bash("pwd; cat /usr/share/of-the-system"), report(), FINISH]) as provider:
        attempt = spec(tmp_path / "r", provider.url)
        attempt = attempt.model_copy(update={"sandbox": SandboxSpec(rootfs=system)})
        record = run(attempt, environment=dict(os.environ)).record
    assert "/workspace\\nhere" in str(RecordReader(record).results)
    with pytest.raises(InputError, match="--rootfs"):
        play_again(record, tmp_path / "again", environment=dict(os.environ))
    with pytest.raises(InputError, match="--rootfs"):
        resumed(record, tmp_path / "on")
    assert not (tmp_path / "again").exists()
    played = play_again(record, tmp_path / "again", environment=dict(os.environ), trust=Trust(rootfs=system))
    assert played.differences == ()


def test_a_wrong_folder_is_one_line_on_the_command_line(tmp_path: Path) -> None:
    done = agentctl("solve", CAPSULE, "--rootfs", tmp_path, "--record", tmp_path / "r")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].count(str(tmp_path)) == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap")
def test_apt_in_a_system_made_by_debootstrap(tmp_path: Path) -> None:
    system = tmp_path / "system"
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", "stable", str(system)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"needs Debian's archive: {made.stdout[-300:]}")
    before = listing(system)
    box = opened("bubblewrap", tmp_path, rootfs=system, network="registries")
    try:
        assert box.fingerprint().apt is box.system_writable is True
        text(box, "apt-get update && apt-get install --no-install-recommends python3 && python3 -V", timeout=300)
        assert any(line.startswith("python3:") for line in box.environment().system.added)
    finally:
        box.close()
    assert listing(system) == before
