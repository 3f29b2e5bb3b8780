"""Control groups: where they may be made, what they bound, and that none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxes import opened, workspace

from agentctl.tools.sandbox import label, limits, open_sandbox
from agentctl.tools.sandbox.protocol import Guarantee, SandboxSpec

MIB = 1 << 20


def groups_of_ours() -> list[Path]:
    texts = (Path(f"/proc/self/{name}").read_text() for name in ("mountinfo", "cgroup"))
    return [
        path for _, _, parent in limits.group_parents(*texts) for path in parent.glob(f"agentctl-*-{os.getpid()}-*")
    ]


def can_make_groups() -> bool:
    made = limits.make_limits(SandboxSpec())
    made.close()
    return bool(made.join)


# --- finding the place ---

V1 = """30 22 0:26 / {root}/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 22 0:27 / {root}/both rw,relatime shared:9 - cgroup cgroup rw,cpu,pids
32 22 0:28 / {root}/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_version_one(tmp_path: Path) -> None:
    found = limits.group_parents(V1.format(root=tmp_path), "4:memory:/x\n0::/\n")
    assert found == [(1, ("memory",), tmp_path / "memory"), (1, ("pids",), tmp_path / "both")]


@pytest.mark.parametrize(
    ("handed_down", "own", "expected"),
    [
        (
            {"": "memory pids cpu", "user.slice": "memory pids", "user.slice/session": ""},
            "/user.slice/session",
            "user.slice",
        ),
        ({"": "memory pids", "user.slice": "cpu", "user.slice/session": ""}, "/user.slice/session", ""),
        ({"": "cpu", "a": "pids"}, "/a", None),
        ({"": "memory pids"}, "/", ""),
        ({"": "memory pids"}, "/gone/elsewhere", ""),
        ({"": "memory pids"}, "/../beside-our-view", ""),
    ],
)
def test_version_two(handed_down: dict[str, str], own: str, expected: str | None, tmp_path: Path) -> None:
    for group, controllers in handed_down.items():
        (tmp_path / group).mkdir(exist_ok=True)
        (tmp_path / group / "cgroup.subtree_control").write_text(f"{controllers}\n")
    mounts = f"32 22 0:28 / {tmp_path} rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
    found = limits.group_parents(mounts, f"0::{own}\n")
    assert found == ([] if expected is None else [(2, ("memory", "pids"), tmp_path / expected)])


# --- using it ---


def test_a_group_bounds_all_together(tmp_path: Path) -> None:
    if not can_make_groups():
        pytest.skip("needs a control group that may be written")
    box = opened("bubblewrap", tmp_path, memory_mb=256)
    try:
        hold = "import time; held = b'x' * (100 << 20); time.sleep(1.5); print('survived', flush=True)"
        script = f'for i in 1 2 3; do python3 -c "{hold}" & done; wait'
        result = box.exec(["sh", "-c", script], timeout=20)
        assert result.stdout.count(b"survived") in (1, 2)
        assert box.alive()
    finally:
        box.close()


def test_no_group_is_left(tmp_path: Path) -> None:
    if not can_make_groups():
        pytest.skip("needs a control group that may be written")
    box = opened("bubblewrap", tmp_path)
    assert groups_of_ours()
    box.exec(["sh", "-c", "setsid sleep 50 & setsid sleep 50 &"], timeout=5)
    box.close()
    assert groups_of_ours() == []


def test_groups_of_the_killed_are_swept_up(tmp_path: Path) -> None:
    if not can_make_groups():
        pytest.skip("needs a control group that may be written")
    code = "import os; from agentctl.tools.sandbox import limits, protocol; SandboxSpec = protocol.SandboxSpec\n"
    code += "print(*limits.make_limits(SandboxSpec()).join, flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    left = [Path(name).parent for name in done.stdout.split()]
    assert left
    assert all(folder.is_dir() for folder in left)
    limits.make_limits(SandboxSpec()).close()
    assert not any(folder.exists() for folder in left)


def test_only_groups_of_owners_that_are_gone_are_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of another namespace, whose groups are in sight where its host's are, mean other processes."""
    code = "from agentctl.tools.sandbox.label import new_label; print(new_label())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    names = {
        "gone": f"agentctl-{dead}",
        "alive": f"agentctl-{label.new_label()}",
        "of another namespace": f"agentctl-1{dead}",
        "named without one": f"agentctl-{dead.partition('-')[2]}",
        "somebody's": "agentctl-own-1-2-3",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
    monkeypatch.setattr(limits, "group_parents", lambda *_: [(2, ("memory", "pids"), tmp_path)])
    gone = tmp_path / names.pop("gone")
    assert limits.abandoned() == [gone]
    limits.make_limits(SandboxSpec())
    assert not gone.exists()
    assert {path.name for path in tmp_path.iterdir()} >= set(names.values())


def test_a_group_seen_from_another_namespace_stays(tmp_path: Path) -> None:
    if not can_make_groups():
        pytest.skip("needs a control group that may be written")
    made = limits.make_limits(SandboxSpec())
    code = "from agentctl.tools.sandbox import limits, protocol; limits.make_limits(protocol.SandboxSpec()).close()"
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    left = [file.parent.is_dir() for file in made.join]
    made.close()
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip("needs the right to make namespaces")
    assert done.returncode == 0, done.stderr
    assert left
    assert all(left)


def test_without_groups_each_process_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where no group may be made."""
    monkeypatch.setattr(limits, "group_parents", lambda *_: [])
    made = limits.make_limits(SandboxSpec(memory_mb=256, processes=40))
    assert made.join == []
    assert made.rlimits["RLIMIT_DATA"] == 256 * MIB
    assert (Guarantee.PROCESS_LIMIT in made.holds) == (os.getuid() != 0)  # the kernel exempts real root
    box = open_sandbox(SandboxSpec(memory_mb=256), workspace("bubblewrap", tmp_path), owner_env=os.environ)
    try:
        hog = "held = bytearray(b'x' * (600 << 20)); print(len(held))"
        assert box.exec(["python3", "-c", hog], timeout=20).stdout == b""
        assert box.exec(["python3", "-c", "print(1)"], timeout=20).stdout == b"1\n"
    finally:
        box.close()


def test_what_can_be_set_is_not_above_the_hard_limit() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits.settable({"RLIMIT_NOFILE": hard * 10}) == {"RLIMIT_NOFILE": hard}
    assert limits.settable({"RLIMIT_NOFILE": 5}) == {"RLIMIT_NOFILE": 5}
