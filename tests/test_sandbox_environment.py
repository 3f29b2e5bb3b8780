"""What commands find set, what they must not find, and a sandbox that can't be had."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case_fields import fields_of, several, skip_without
from sandboxes import KINDS, opened, sh, text, workspace

from agentctl.base.errors import InputError
from agentctl.tools.sandbox import bubblewrap, layout, open_sandbox
from agentctl.tools.sandbox.environment import PROXIES, command_environment, has_credentials, inherited
from agentctl.tools.sandbox.interpreter import Interpreter
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, SandboxUnavailable, Workspace

LATER = dict.fromkeys(("EN-06", "OWN-EN-06"), "a prompt says it, not a sandbox")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.cases("environment", later=LATER)
def test_environment_case(case: dict[str, Any], kind: str, tmp_path: Path) -> None:
    given, exact = fields_of(case)
    skip_without(given.get("needs", []))
    if "precondition" in given:
        error = unavailable(given["precondition"], tmp_path)
        assert given.get("action", "start one task") == "start one task"
        assert exact.get("model_calls", 0) == 0  # a sandbox is opened before any model is asked
        assert error.exit_status == 2 != exact.get("exit_code_not", 0)
        words = [word.lower() for word in exact.get("message_contains_any", [""])]
        assert any(word in str(error).lower() for word in words)
        assert error.remedy
    else:
        box = opened(kind, tmp_path, owner_env={**os.environ, "DISPLAY": ":0", **given.get("host_env", {})})
        try:
            for name, content in given.get("files", {}).items():
                box.write(name, content.encode())
            check_steps(box, given["steps"], exact["steps"])
        finally:
            box.close()
    given.done()
    exact.done()


def check_steps(box: Sandbox, steps: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Run the steps as one session. A line of the mark, the status and the time follows each."""
    assert len(steps) == len(expected)
    mark = secrets.token_hex(8)
    tell = f"printf '\\n%s %d %s\\n' {mark} $? $EPOCHREALTIME"
    session = ["exec 2>&1; export W=$PWD; unset BASH_EXECUTION_STRING", tell]  # the variable holds all that is here
    for step in steps:
        session += [f"eval {shlex.quote(step['cmd'])}", tell]
    timeout = sum(step.get("timeout_s", 30) for step in steps)
    result = box.exec(["bash", "-c", "\n".join(session)], timeout=timeout)
    _, *parts = re.split(rf"\n{mark} (\d+) ([\d.]+)\n", result.stdout.decode())
    statuses, times, outputs = parts[0::3], parts[1::3], parts[2::3]
    assert len(statuses) == len(steps) + 1, f"not every step came to its end: {result}"
    for n, wanted in enumerate(expected):
        check_step(outputs[n].strip(), int(statuses[n + 1]), float(times[n + 1]) - float(times[n]), wanted)


def check_step(shown: str, status: int, seconds: float, expected: dict[str, Any]) -> None:
    checks: dict[str, Callable[[Any], bool]] = {
        "output": lambda value: shown == value,
        "exit_code": lambda value: status == value,
        "exit_code_not": lambda value: status != value,
        "first_line": lambda value: shown.split("\n")[0] == value,
        "last_line": lambda value: shown.split("\n")[-1] == value,
        "line_count": lambda value: len(shown.split("\n")) == value,
        "output_contains": lambda value: all(part in shown for part in several(value)),
        "output_contains_all": lambda value: all(part in shown for part in value),
        "output_contains_any": lambda value: any(part in shown for part in value),
        "not_contains": lambda value: not any(part in shown for part in several(value)),
        "no_bytes": lambda value: not any(part in shown for part in several(value)),
        "min_wall_s": lambda value: seconds >= value,
        "max_wall_s": lambda value: seconds <= value,
    }
    for name, value in expected.items():
        assert name in checks, f"no way known to check {name}"
        assert checks[name](value), f"{name}: {value!r} expected, shown was {shown!r}"


def unavailable(precondition: str, base: Path) -> SandboxUnavailable:
    """What opening a sandbox says where bwrap is missing, or ends with a code and a message, as the words have it."""
    message, path = "bwrap", str(base / "bin")
    (base / "bin").mkdir()
    if found := re.search(r"bwrap exists but exits (\d+) with '(.*)'", precondition):
        fake, message = base / "bin/bwrap", found[2]
        fake.write_text(f"#!/bin/sh\necho {shlex.quote(f'bwrap: {message}')} >&2\nexit {found[1]}\n")
        fake.chmod(0o755)
        path += ":/usr/bin:/bin"
    elif not re.search(r"bwrap (is missing|is not installed|is not there|does not exist)", precondition):
        pytest.fail(f"no way known to bring about: {precondition}")
    with pytest.raises(SandboxUnavailable) as caught:
        opened("bubblewrap", base, owner_env={"PATH": path})
    assert message in str(caught.value)
    return caught.value


def test_no_bwrap_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"bwrap.*not on PATH.*install"):
        opened("bubblewrap", tmp_path, owner_env={"PATH": str(tmp_path)})


@pytest.mark.parametrize("behaviour", ["exec sleep 60", "kill -9 $$", "exec true", "exit 0"])
def test_a_bwrap_that_never_gets_there(behaviour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.tools.sandbox.remote.START_SECONDS", 0.5)
    fake = tmp_path / "bin/bwrap"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap 0.8.0" && exit\n{behaviour}\n')
    fake.chmod(0o755)
    with pytest.raises(SandboxUnavailable):
        opened("bubblewrap", tmp_path, owner_env={"PATH": f"{fake.parent}:/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("--ro-bind {base} {base}", "a file of the host can be seen"),
        ("--share-net", "there is a network interface"),
        pytest.param(
            *("--bind /usr /usr", "/usr can be written"),
            marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root: others may not write there anyway"),
        ),
        ("--ro-bind /tmp /workspace", "/workspace can't be written"),
    ],
)
def test_self_test_finds_a_leaky_sandbox(damage: str, said: str, tmp_path: Path) -> None:
    """The real bwrap, but with holes: each must be found before the sandbox is handed out."""
    real = shutil.which("bwrap")
    if real is None:
        pytest.skip("needs bwrap")
    fake = tmp_path / "bin/bwrap"
    fake.parent.mkdir()
    if damage == "--share-net":
        edit = 'for a; do shift; [ "$a" = --unshare-net ] || set -- "$@" "$a"; done'
    else:
        more = damage.format(base=tmp_path)
        once = f'[ "$a" = --remount-ro ] && [ -z "$done" ] && set -- "$@" {more} && done=1'
        edit = f'for a; do shift; {once}; set -- "$@" "$a"; done'
    fake.write_text(f'#!/bin/sh\n{edit}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=said):
        opened("bubblewrap", tmp_path, owner_env={"PATH": f"{fake.parent}:/usr/bin:/bin"})


# --- workspaces that no sandbox can hold ---


def test_our_own_folder_may_not_be_in_sight(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    laid = Workspace(mounts=(Mount(inside="/workspace", host=tmp_path),), scratch=tmp_path / "scratch")
    with pytest.raises(InputError, match="scratch"):
        open_sandbox(SandboxSpec(), laid, owner_env=os.environ)


@pytest.mark.parametrize("inside", ["/usr/x", "/etc", "/", "relative", "/a/../b", "/a/", "/run/x"])
def test_places_that_are_the_systems(inside: str, tmp_path: Path) -> None:
    laid = workspace("bubblewrap", tmp_path)
    moved = laid.model_copy(update={"mounts": (Mount(inside=inside, host=laid.mounts[0].host),)})
    with pytest.raises(InputError):
        open_sandbox(SandboxSpec(), moved, owner_env=os.environ)


def test_missing_and_double_folders(tmp_path: Path) -> None:
    laid = workspace("bubblewrap", tmp_path)
    for mounts in ((), (*laid.mounts, *laid.mounts), (Mount(inside="/w", host=tmp_path / "not-there"),)):
        with pytest.raises(InputError):
            open_sandbox(SandboxSpec(), laid.model_copy(update={"mounts": mounts}), owner_env=os.environ)


# --- the variables themselves ---


@pytest.mark.parametrize("kind", KINDS)
def test_editor_refuses_at_once(kind: str, tmp_path: Path) -> None:
    box = opened(kind, tmp_path)
    try:
        for name in ("EDITOR", "VISUAL", "GIT_EDITOR"):
            result = sh(box, f'"${name}" file', timeout=5)
            assert result.exit_code not in (0, None)
            assert b"-m" in result.stderr
        if shutil.which("git"):
            made = "git init -q . && git config user.email a@b && git config user.name a"
            result = sh(box, f"{made} && git commit --allow-empty", timeout=10)
            assert result.exit_code not in (0, None)
            assert b"no editor" in result.stderr
    finally:
        box.close()


@pytest.mark.parametrize("kind", KINDS)
def test_python_with_pip_and_text_beyond_ascii(kind: str, tmp_path: Path) -> None:
    box = opened(kind, tmp_path)
    try:
        assert text(box, "python3 -m pip --version").startswith("pip ")
        code = "import locale, sys; print(sys.stdout.encoding, locale.getpreferredencoding(), 'é')"
        assert box.exec(["python3", "-c", code], timeout=10).stdout.decode() == "utf-8 UTF-8 é\n"
    finally:
        box.close()


def test_our_own_python_where_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_system_python", lambda: False)
    own = Interpreter((f"{sys.base_prefix}/bin/python3",))
    monkeypatch.setattr(layout, "system_interpreter", lambda: own)
    monkeypatch.setattr(bubblewrap, "system_interpreter", lambda: own)
    box = opened("bubblewrap", tmp_path)
    try:
        assert text(box, "command -v python3") == f"{sys.base_prefix}/bin/python3"
        assert text(box, "python3 -m pip --version").startswith("pip ")
        assert sh(box, 'touch "$1"', f"{sys.base_prefix}/lib/x").exit_code != 0
    finally:
        box.close()


def test_only_a_few_names_are_taken_from_the_host() -> None:
    host = {
        "TZ": "Europe/Berlin",
        "SSL_CERT_FILE": "/etc/ssl/certs/ca.crt",
        "PIP_INDEX_URL": "https://pypi.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://token@pypi.example/simple",
        "UV_INDEX_URL": "https://pypi.example/simple?key=abc",
        "LC_ALL": "de_DE.UTF-8",
        "LANG": "de_DE.UTF-8",
        "PYTHONPATH": "/home/me/secret",
        "LD_PRELOAD": "/x.so",
        "AWS_SECRET_ACCESS_KEY": "k",
        "DISPLAY": ":0",
        "WAYLAND_DISPLAY": "w",
        "EDITOR": "vim",
        "https_proxy": "http://proxy:3128",
    }
    env = command_environment(host, home="/home/agent", user="agent")
    taken = {name for name in host if env.get(name) == host[name]}
    assert taken == {"TZ", "SSL_CERT_FILE", "PIP_INDEX_URL"}
    assert set(host) - set(env) >= {"LC_ALL", "DISPLAY", "WAYLAND_DISPLAY", "PYTHONPATH", "LD_PRELOAD"}
    assert inherited({**host, "http_proxy": "http://me:pw@proxy"}, PROXIES) == {"https_proxy": "http://proxy:3128"}
    assert not any(re.search("key|secret|token|password|credential", name, re.IGNORECASE) for name in env)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("https://user:pw@host/simple", True),
        ("https://token@host/simple", True),
        ("http://a http://b:c@d", True),
        ("https://host/simple?sig=abc", True),
        ("https://host/simple", False),
        ("https://host/@scope/pkg", False),
        ("/opt/wheels", False),
        ("me@example.org", False),
    ],
)
def test_has_credentials(value: str, holds: bool) -> None:
    assert has_credentials(value) == holds
