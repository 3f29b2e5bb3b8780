"""What nobody inside may see, though the system around it is shown: gold answers, and the owner's kernel keys."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.benchmarks.corebench.locate import locate
from agentctl.benchmarks.tasks import load_task
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, SandboxSpec, Workspace

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")

FOLDER = Path("/usr/share/common-licenses")
FILE = Path("/usr/share/base-files/profile")
LOOK = "ls -A $1; cat $2; { cat $1/*; umount $1; touch $1/new; rm -f $2; } 2>/dev/null; ls -A $1"


def test_hidden_files_and_folders_are_covered(tmp_path: Path) -> None:
    assert any(FOLDER.iterdir()) and FILE.stat().st_size
    (tmp_path / "work").mkdir()
    (tmp_path / "scratch").mkdir()
    mounts = (Mount(inside="/workspace", host=tmp_path / "work"),)
    workspace = Workspace(mounts=mounts, scratch=tmp_path / "scratch", hidden=(FOLDER, FILE, tmp_path / "not there"))
    sandbox = open_sandbox(SandboxSpec(), workspace, owner_env={"PATH": "/usr/bin:/bin"})
    try:
        told = sandbox.exec(["sh", "-c", LOOK, "sh", str(FOLDER), str(FILE)], timeout=20)
        beside = sandbox.exec(["ls", str(FOLDER.parent)], timeout=20)
    finally:
        sandbox.close()
    assert told.stdout == b""
    assert b"base-files" in beside.stdout


def test_a_task_hides_its_dataset_its_capsule_and_the_shipped_recordings(tmp_path: Path) -> None:
    located = locate("capsule-4810297", "hard")
    hidden = load_task(located.ref).stage(tmp_path, "bubblewrap").hidden
    names = {path.name for path in hidden}
    assert {"dataset.json", "capsule-4810297", "examples"} <= names
    assert all(path.exists() for path in hidden)


KEYRING = """
import ctypes, os, sys
from pathlib import Path
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, SandboxSpec, Workspace
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(250, 1, b"owners") > 0
assert libc.syscall(248, b"user", b"owners-key", b"CANARY", 6, -3) > 0
assert libc.syscall(249, b"user", b"owners-key", None, 0) > 0
base = Path(sys.argv[1])
workspace = Workspace(mounts=(Mount(inside="/workspace", host=base / "work"),), scratch=base / "scratch")
sandbox = open_sandbox(SandboxSpec(), workspace, owner_env=dict(os.environ))
search = "ctypes.CDLL(None).syscall(249, b'user', b'owners-key', None, 0)"
told = sandbox.exec(["python3", "-c", f"import ctypes; print({search})"], timeout=20)
named = sandbox.exec(["cat", "/proc/keys"], timeout=20)
sandbox.close()
print((told.stdout + named.stdout).decode())
"""


@pytest.mark.skipif(not Path("/proc/keys").exists(), reason="the kernel has no keyrings")
def test_the_owners_keyring_stays_outside(tmp_path: Path) -> None:
    if not Path("/lib64/ld-linux-x86-64.so.2").exists():
        pytest.skip("numbers of system calls are those of x86-64")
    (tmp_path / "work").mkdir()
    (tmp_path / "scratch").mkdir()
    done = subprocess.run([sys.executable, "-c", KEYRING, str(tmp_path)], capture_output=True, text=True)
    if "libc.syscall(250" in done.stderr or "libc.syscall(248" in done.stderr:
        pytest.skip("keys can't be made here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("-1")
    assert "owners-key" not in done.stdout
