"""Opens a sandbox and proves that it works before anything is paid for."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from agentctl.base.errors import InputError

from .bubblewrap import BubblewrapSandbox
from .local import LocalSandbox
from .protocol import Guarantee, Sandbox, SandboxError, SandboxSpec, SandboxUnavailable, Workspace

# Taken by the system inside: a mount there would hide it.
RESERVED = (
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "var",
)

# Tried inside by one shell, with the host's canary as $0, then the writable folders. It says what it finds wrong.
SELF_TEST = """
say() { echo "$1"; exit 1; }
for folder; do test -w "$folder" || say "$folder can't be written"; done
test -w "$HOME" || say "the home can't be written"
command -v bash >/dev/null || say "bash is missing inside"
"""
HIDDEN_TEST = """
test -e "$0" && say "a file of the host can be seen"
"""
# The system is read-only, or what is written to it must not arrive: we look for it outside.
FIXED_TEST = """
test -w /usr && say "/usr can be written"
"""
LAYER_TEST = """
echo >"/usr/${0##*/}" || say "/usr can't be written"
"""
NO_NETWORK_TEST = """
while read -r name rest; do
  case "$name" in Inter-*|face|lo:*) ;; *) say "there is a network interface, $name";; esac
done </proc/net/dev
"""


def open_sandbox(spec: SandboxSpec, workspace: Workspace, *, owner_env: Mapping[str, str]) -> Sandbox:
    """A sandbox of the kind `spec` names, ready for commands. The caller closes it.

    `owner_env` is the environment of whoever runs us: PATH finds bwrap, and a few names are passed on (see
    `environment.inherited`). Raises InputError for a workspace that no sandbox can hold, and SandboxUnavailable where
    the kind can't work here or does not hold what it promises; there is no falling back to a lesser kind.
    """
    _check(workspace)
    if spec.rootfs is not None:
        spec = spec.model_copy(update={"rootfs": _checked_rootfs(spec, workspace)})
    sandbox: BubblewrapSandbox | LocalSandbox
    if spec.kind == "bubblewrap":
        _check_places(workspace)
        sandbox = BubblewrapSandbox(spec, workspace, owner_env)
        sandbox.start()
    else:
        sandbox = LocalSandbox(spec, workspace, owner_env)
    try:
        _self_test(sandbox)
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def _self_test(sandbox: Sandbox) -> None:
    script = SELF_TEST
    if Guarantee.HOST_FILES_HIDDEN in sandbox.holds:
        script += HIDDEN_TEST + (LAYER_TEST if sandbox.system_writable else FIXED_TEST)
    if Guarantee.NETWORK_POLICY in sandbox.holds:
        script += NO_NETWORK_TEST
    canary = sandbox.workspace.scratch / f".agentctl-canary-{secrets.token_hex(8)}"
    canary.touch()
    arrived = Path(sandbox.spec.rootfs or "/", "usr", canary.name)
    folders = [mount.inside for mount in (*sandbox.workspace.mounts, sandbox.control) if mount.writable]
    try:
        result = sandbox.exec(["sh", "-c", f"{script}\nexit 0", str(canary), *folders], timeout=20)
    except SandboxError as error:
        raise SandboxUnavailable(f"the {sandbox.spec.kind} sandbox failed its self-test: {error}") from error
    leaked = arrived.exists()
    if leaked:  # where the system is mounted read-only, removing even a file that is not there fails
        with contextlib.suppress(OSError):
            arrived.unlink()
    if result.exit_code != 0 or leaked:
        said = (result.stdout + result.stderr).decode(errors="replace").strip() or "it gave no answer"
        said = f"{arrived.parent} can be written from inside" if leaked else said
        raise SandboxUnavailable(
            f"the {sandbox.spec.kind} sandbox failed its self-test: {said}",
            remedy="see `agentctl doctor`, or choose another kind with --sandbox",
        )
    if sandbox.system_writable:
        sandbox.exec(["rm", f"/usr/{canary.name}"], timeout=20)


def _check(workspace: Workspace) -> None:
    if not workspace.mounts:
        raise InputError("a workspace needs at least one folder")
    for folder in (*(mount.host for mount in workspace.mounts), workspace.scratch):
        if not folder.is_dir():
            raise InputError("no such folder", file=folder)
    for mount in workspace.mounts:
        if _within(mount.host, workspace.scratch):
            raise InputError(
                f"the folder for our own files, {workspace.scratch}, lies inside a folder that the agent sees",
                file=mount.host,
            )


def _checked_rootfs(spec: SandboxSpec, workspace: Workspace) -> Path:
    """The given system's folder, its path without links. InputError where it can't be one."""
    assert spec.rootfs is not None
    if spec.kind == "local":
        raise InputError("the local sandbox runs on the host's own system", field="rootfs", remedy="leave it out")
    rootfs = spec.rootfs.resolve()
    if not (rootfs / "usr").is_dir():
        raise InputError("no folder with a system: it has no /usr", file=spec.rootfs, field="rootfs")
    if rootfs == Path("/"):
        raise InputError("the host's own root would show all that is on it", field="rootfs", remedy="leave it out")
    for folder in (*(mount.host for mount in workspace.mounts), workspace.scratch):
        if _within(rootfs, folder):
            raise InputError(f"the attempt's own folder {folder} lies in it", file=spec.rootfs, field="rootfs")
    return rootfs


def _check_places(workspace: Workspace) -> None:
    seen = set()
    for mount in workspace.mounts:
        place = PurePosixPath(mount.inside)
        if not place.is_absolute() or ".." in place.parts or len(place.parts) < 2 or str(place) != mount.inside:
            raise InputError(f"{mount.inside!r} is no place inside a sandbox: it must be an absolute, plain path")
        if place.parts[1] in RESERVED:
            raise InputError(f"{mount.inside} is the system's own inside a sandbox", file=mount.host)
        if place in seen:
            raise InputError(f"two folders are to stand at {mount.inside}", file=mount.host)
        seen.add(place)


def _within(outer: Path, inner: Path) -> bool:
    return inner.resolve().is_relative_to(outer.resolve())
