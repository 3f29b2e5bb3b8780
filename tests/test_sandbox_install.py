"""Installing inside: what it changes is there for the agent, never for the host, and gone afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import AS_NOBODY, NOBODY, opened, python_for_all, sh, text

from agentctl.benchmarks.scratch import work_folder
from agentctl.tools.sandbox.accounts import User, group_text, passwd_text
from agentctl.tools.sandbox.protocol import Sandbox

DEBIAN = "http://deb.debian.org/debian/dists/stable/InRelease"

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root: only root may show a system that can be changed")
may_mount = pytest.mark.skipif(
    subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0, reason="needs mounts"
)
with_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get")


@pytest.fixture
def open_box(tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    """Opens sandboxes whose system can be changed; closes them all at the end."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Sandbox:
            base = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
            base.mkdir()
            box = opened("bubblewrap", base, **options)
            stack.callback(box.close)
            if os.getuid() == 0 and not box.system_writable:
                pytest.skip("this machine allows no overlay here")
            return box

        yield make


@pytest.fixture
def box(open_box: Callable[..., Sandbox]) -> Sandbox:
    return open_box()


def host_state() -> dict[str, object]:
    """What an install would change on the host."""
    status = Path("/var/lib/dpkg/status")
    files = (status, Path("/etc/passwd"), Path("/etc/ld.so.cache"))
    digests = {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()}
    folders = ("/usr", "/usr/bin", "/usr/local/bin", "/usr/share", "/etc", "/etc/alternatives", "/var/lib", "/var/log")
    names = {
        folder: sorted(path.name for path in Path(folder).iterdir()) for folder in folders if Path(folder).is_dir()
    }
    return {**digests, **names, "mounts": sorted(Path("/proc/self/mountinfo").read_text().splitlines())}


# --- packages of the system ---


@as_root
@with_apt
def test_apt_from_the_archive(open_box: Callable[..., Sandbox]) -> None:
    try:
        urllib.request.urlopen(DEBIAN, timeout=20).close()
    except OSError as error:
        pytest.skip(f"needs Debian's archive, which does not answer: {error}")
    before = host_state()
    box = open_box(network="registries")
    assert box.fingerprint().apt
    done = sh(box, "apt-get update && apt-get install --no-install-recommends hello && hello", timeout=300)
    assert done.exit_code == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert done.stdout.decode().endswith("Hello, world!\n")
    assert b"W:" not in done.stderr, done.stderr  # nothing that apt wants is missing
    lock = box.environment()
    assert [line.partition(":")[0] for line in lock.system.added] == ["hello"]
    assert set(lock.system.added) <= set(lock.system.packages)
    box.close()
    assert host_state() == before


POSTINST = """#!/bin/sh -e
adduser --quiet --system --group --home /var/lib/made made
mkdir -p /var/lib/made && chown made:made /var/lib/made
runuser -u made -- touch /var/lib/made/by-itself
chmod 4755 /usr/bin/made-tool
update-alternatives --quiet --install /usr/bin/made made /usr/bin/made-tool 10
invoke-rc.d made start
ldconfig
"""
CONTROL = "Package: agentctl-made\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: made by a test\n"


@as_root
@pytest.mark.skipif(shutil.which("dpkg-deb") is None or shutil.which("adduser") is None, reason="needs dpkg, adduser")
def test_a_package_whose_script_makes_a_user(box: Sandbox) -> None:
    """As those of databases and servers do: other users, setuid programs, a service that must not start."""
    before = host_state()
    box.write("d/DEBIAN/control", CONTROL.encode())
    box.write("d/DEBIAN/postinst", POSTINST.encode())
    box.write("d/usr/bin/made-tool", b"#!/bin/sh\necho made\n")
    box.write("d/etc/init.d/made", b"#!/bin/sh\ntouch /var/lib/made/started\n")
    box.write("d/etc/made.conf", b"a=1\n")
    box.write("d/DEBIAN/conffiles", b"/etc/made.conf\n")
    assert "Setting up agentctl-made" in text(
        box, "chmod 755 d/DEBIAN/postinst d/usr/bin/made-tool d/etc/init.d/made; dpkg-deb -b d p.deb; dpkg -i p.deb"
    )
    assert text(box, "stat -c '%U %G' /var/lib/made /var/lib/made/by-itself").split() == ["made"] * 4
    assert text(box, "made; ls /var/lib/made; stat -c %a /usr/bin/made-tool").split() == ["made", "by-itself", "4755"]
    # A newer one with another setting: what was changed by hand stays, and nobody is asked.
    box.write("d/etc/made.conf", b"a=2\n")
    text(box, "echo a=3 >/etc/made.conf; sed -i s/1.0/1.1/ d/DEBIAN/control; dpkg-deb -b d p.deb; dpkg -i p.deb")
    assert text(box, "cat /etc/made.conf") == "a=3"
    assert box.environment().system.added == ("agentctl-made:all=1.1",)
    box.close()
    assert host_state() == before


@as_root
def test_another_sandbox_sees_nothing_of_it(open_box: Callable[..., Sandbox]) -> None:
    before = host_state()
    one, other = open_box(), open_box()
    change = "echo x >/usr/share/made; rm -r /usr/share/zoneinfo; echo y >>/etc/services; mkdir /opt/made /made"
    text(one, f"{change}; echo z >/var/lib/made; mv /usr/bin/env /usr/bin/vne")
    look = "ls /usr/share/made /opt/made /made /var/lib/made; test -e /usr/bin/env && ls -d /usr/share/zoneinfo"
    assert sh(other, look).stdout == b"/usr/share/zoneinfo\n"
    assert text(other, "tail -n1 /etc/services") != "y"
    one.close()
    assert host_state() == before


@as_root
@with_apt
def test_settings_of_the_host_for_apt(box: Sandbox) -> None:
    """Its proxy, which can't be reached from inside, is not asked for; no question is."""
    named = 'Acquire::http::Proxy "http://proxy.example:3128"; APT::Get::Assume-Yes "false";'
    set_up = 'printf %s "$1" >/etc/apt/apt.conf.d/proxy.conf; http_proxy=http://127.0.0.1:9 apt-get update 2>&1; true'
    if not list(Path("/etc/apt").glob("sources.list*")):
        pytest.skip("needs a source of packages")
    said = text(box, set_up, named, timeout=60)
    assert "proxy.example" not in said
    assert "127.0.0.1" in said
    assert 'Assume-Yes "true"' in text(box, "apt-config dump")


# --- Python and R ---


WHEEL = "made_mod-1.0-py3-none-any.whl"


def wheel(name: str) -> bytes:
    """A wheel with one module."""
    data = io.BytesIO()
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{name}.py", "print(__file__)\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return data.getvalue()


def test_pip_installs_without_asking_for_anything(box: Sandbox) -> None:
    box.write(WHEEL, wheel("made_mod"))
    text(box, f"python3 -m pip install -q --no-index {WHEEL}")
    place = Path(text(box, "python3 -m made_mod")).parent
    assert place.is_relative_to("/usr/local" if box.system_writable else box.env["HOME"])
    assert f"made_mod==1.0 @ file:///workspace/{WHEEL}" in box.environment().python[str(place)]


def test_a_virtual_environment(box: Sandbox) -> None:
    if sh(box, "python3 -c 'import ensurepip, venv'").exit_code != 0:
        pytest.skip("needs python3-venv")
    box.write(WHEEL, wheel("made_mod"))
    script = f"python3 -m venv v && v/bin/pip install -q --no-index {WHEEL} && v/bin/python -m made_mod"
    place = Path(text(box, script, timeout=60)).parent
    assert place.is_relative_to("/workspace/v")
    assert f"made_mod==1.0 @ file:///workspace/{WHEEL}" in box.environment().python[str(place)]


R_INSTALL = """
repos <- getOption("repos")
stopifnot(grepl("^https?://", repos[["CRAN"]]))
install.packages("madepkg", repos = NULL, type = "source", quiet = TRUE)
cat(find.package("madepkg"), madepkg::two(), fill = TRUE)
"""


@pytest.mark.parametrize("own_profile", [False, True])
def test_r_installs_into_a_library_that_is_there(box: Sandbox, own_profile: bool) -> None:
    """Also where a capsule brings a profile of its own, which R reads besides ours."""
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript")
    box.write("madepkg/DESCRIPTION", b"Package: madepkg\nVersion: 0.1\nTitle: T\nDescription: D.\nLicense: MIT\n")
    box.write("madepkg/NAMESPACE", b"export(two)\n")
    box.write("madepkg/R/two.R", b"two <- function() 2\n")
    box.write("install.R", R_INSTALL.encode())
    if own_profile:
        box.write(".Rprofile", b'options(digits = 3); cat("own", "")\n')
    place, two = text(box, "Rscript install.R", timeout=60).removeprefix("own ").split()
    library = f"{box.env['HOME']}/R/library"
    assert (place, two) == (f"{library}/madepkg", "2")
    assert box.environment().r[library] == ("madepkg 0.1",)


# --- nothing is left ---

DYING = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from sandboxes import opened, sh
box = opened("bubblewrap", Path(sys.argv[2]))
sh(box, "mkdir -m 0 /usr/share/closed; rm -r /usr/share/zoneinfo; touch /usr/bin/made; chmod 0 /etc")
print(box.system_writable, flush=True)
time.sleep(60)
"""


@as_root
def test_a_killed_owner_leaves_no_mount_and_nothing_that_stays(tmp_path: Path) -> None:
    before = host_state()
    record = tmp_path / "record"
    folder = tmp_path / ".record.work"
    folder.mkdir()
    words = [sys.executable, "-c", DYING, str(Path(__file__).parent), str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    writable = process.stdout.readline().strip()
    process.send_signal(signal.SIGKILL)
    process.wait()
    if writable != "True":
        pytest.skip("this machine allows no overlay here")
    deadline = time.monotonic() + 5
    while mounted_below(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert mounted_below(folder) == []
    assert host_state() == before
    layers = next((folder / "scratch").glob("system-*"))
    assert (layers / "upper/0/etc").stat().st_mode & 0o777 == 0
    with work_folder(record) as emptied:
        assert not (emptied / "scratch").exists()
    assert not folder.exists()


def mounted_below(folder: Path) -> list[str]:
    """Mounts below `folder` in the namespace of any process that can be seen."""
    found = []
    for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
        with contextlib.suppress(OSError):
            found += [line for line in mounts.read_text().splitlines() if str(folder) in line]
    return found


# --- machines that allow less ---

OPENED = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from sandboxes import opened, sh
box = opened("bubblewrap", Path(sys.argv[2]))
made = sh(box, "echo x >/usr/x; cat /usr/local/lib/agentctl-driver; python3 -m pip --version >/dev/null && echo pip")
print(json.dumps([box.system_writable, box.fingerprint().apt, made.stdout.decode()]))
box.close()
"""


def opened_elsewhere(base: Path, *prefix: str, python: str = sys.executable, **more: Any) -> list[Any]:
    """Open a sandbox in another process, started by `prefix`: can it be changed, with apt, and what does it show?"""
    words = [*prefix, python, "-c", OPENED, str(Path(__file__).parent), str(base)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, **more)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


@as_root
@may_mount
def test_where_no_overlay_can_be_the_system_is_read_only(tmp_path: Path) -> None:
    """As in most containers, whose own root is an overlay: none can stand on it."""
    for name in ("lower", "upper", "work", "top"):
        (tmp_path / name).mkdir()
    script = 'cd "$0" && mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work top && exec "$@"'
    found = opened_elsewhere(tmp_path / "top", "unshare", "-m", "sh", "-c", script, str(tmp_path))
    assert found == [False, False, "pip\n"]


@as_root
@may_mount
def test_what_is_mounted_below_usr_is_seen(tmp_path: Path) -> None:
    """As drivers are, in containers with a GPU."""
    (tmp_path / "driver").write_text("driver\n")
    (tmp_path / "base").mkdir()
    mount = 'mount -t tmpfs t /usr/local/lib && cp "$0" /usr/local/lib/agentctl-driver && exec "$@"'
    found = opened_elsewhere(tmp_path / "base", "unshare", "-m", "sh", "-c", mount, str(tmp_path / "driver"))
    assert found[2].startswith("driver\n")


@as_root
def test_an_ordinary_user_has_a_fixed_system() -> None:
    python = python_for_all()
    if python is None:
        pytest.skip("needs setpriv and a Python that every user may run")
    paths = [*(path for path in sys.path if path.endswith("site-packages")), str(Path(__file__).parents[1] / "src")]
    with tempfile.TemporaryDirectory(prefix="agentctl-nobody-") as home:
        os.chown(home, NOBODY, NOBODY)
        env = {**os.environ, "HOME": home, "PYTHONPATH": ":".join(paths)}
        assert opened_elsewhere(Path(home), *AS_NOBODY, python=python, env=env) == [False, False, "pip\n"]


# --- who is who ---


def test_no_people_but_accounts_of_the_system() -> None:
    passwd = "root:x:0:0:root:/root:/bin/zsh\n_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
    passwd += "alice:x:1000:1000:Alice A.:/home/alice:/bin/sh\nbroken\nagent:x:99:99::/:/bin/sh\n"
    group = "root:x:0:\nstaff:x:50:alice,bob\nalice:x:1000:\nx\n"
    root, agent = User("root", 0, 0, "/home/agent"), User("agent", 1000, 1000, "/home/agent")
    assert passwd_text(root, passwd).splitlines() == [
        "root:x:0:0:root:/home/agent:/bin/bash",
        "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin",
        "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin",
        "agent:x:99:99::/:/bin/sh",
    ]
    assert [line.split(":")[0] for line in passwd_text(agent, passwd).splitlines()] == [
        "agent",
        "nobody",
        "root",
        "_apt",
    ]
    assert group_text(root, group).splitlines() == ["root:x:0:", "nogroup:x:65534:", "staff:x:50:"]
    assert passwd_text(agent).count("\n") == group_text(agent).count("\n") == 2
