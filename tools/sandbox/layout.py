"""What the inside of a bubblewrap sandbox looks like: the arguments that lay it out."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import places
from .accounts import User
from .environment import CERTIFICATES, SYSTEM_PATH
from .interpreter import Interpreter, system_interpreter
from .protocol import Mount, SandboxSpec, Workspace
from .roots import Root, given_as_it_is, given_with_a_layer, host_as_it_is, host_with_a_layer, made, read_only

HOME = "/home/agent"
CONTROL = "/run/agentctl"
INIT = "/run/agentctl-init"

CPUS = "/sys/devices/system/cpu"

# Writable places and the folders of the scratch folder behind them: on disk, so that they take no memory.
PRIVATE = {"/tmp": "tmp", "/var/tmp": "var-tmp", "/run": "run", HOME: "home", "/dev/shm": "shm"}
SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # where programs expect that everyone may write
PERMISSIONS = (0, 5, 0)  # releases of bubblewrap that brought an option
SIZED_TMPFS = (0, 7, 0)
NO_MORE_NAMESPACES = (0, 8, 0)

SEEN = ("/usr", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust")  # of the host's system, in any case
# Capabilities of the root of a user namespace that package managers use: they reach what belongs to its users alone.
# Not the one over capabilities of files (SETFCAP): a file in a workspace would keep them outside, too.
INSTALLERS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")


def inside_path(rootfs: Path | None = None) -> tuple[str, ...]:
    """The folders of PATH inside. Our own Python's goes first where the host's has none that can install packages."""
    own = () if rootfs or _system_python() else (f"{sys.base_prefix}/bin",)
    found = places.distributions(rootfs or Path("/"))
    return (*own, *SYSTEM_PATH, *(f"{folder}/bin" for folder in found))


def user() -> User:
    """Who commands run as: the number stays the owner's, so that files in the workspace belong to them outside too."""
    return User("root" if os.getuid() == 0 else "agent", os.getuid(), os.getgid(), HOME)


def _system_python() -> bool:
    """Whether /usr holds a Python that can install packages."""
    packages = (
        *Path("/usr").glob("lib/python3*/*-packages/pip"),
        *Path("/usr").glob("local/lib/python3*/*-packages/pip"),
    )
    return bool(packages) and any(Path(folder, "python3").exists() for folder in ("/usr/bin", "/usr/local/bin"))


def make_root(
    spec: SandboxSpec, workspace: Workspace, control: Mount, env: Mapping[str, str], *, writable: bool
) -> Root:
    """The system that stands inside, laid out in the scratch folder."""
    folder = Path(tempfile.mkdtemp(prefix="system-", dir=workspace.scratch))
    if spec.rootfs is None:
        pythons = {Path(system_interpreter().argv[0]).parents[1], Path("/usr" if _system_python() else sys.base_prefix)}
        shown = (Path("/usr"), *places.distributions())
        foreign = (prefix for prefix in sorted(pythons) if not any(prefix.is_relative_to(folder) for folder in shown))
        extra = [part for prefix in foreign for part in places.python(prefix)]
        return (host_with_a_layer if writable else host_as_it_is)(folder, user(), extra)
    if writable:
        return given_with_a_layer(folder, spec.rootfs, user())
    mounts = (mount.inside for mount in (*workspace.mounts, control))
    return given_as_it_is(folder, spec.rootfs, user(), (*mounts, *PRIVATE, CPUS, *map(str, _named(env, spec))))


def layout(
    spec: SandboxSpec,
    workspace: Workspace,
    control: Mount,
    env: Mapping[str, str],
    bwrap: Path,
    root: Root,
    interpreter: Interpreter,
) -> list[str]:
    """bwrap's arguments, program left out. Makes the folders below `workspace.scratch` that they name.

    `env` is the environment of commands: what it names on disk (certificates, folders of packages) is shown too.
    """
    scratch = workspace.scratch
    release = bwrap_release(bwrap)
    arguments = [*_privileges(bwrap, release, root), "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    arguments += ["--unshare-cgroup-try", "--unshare-net"]  # what the policy allows goes through the gate
    arguments += ["--hostname", "sandbox", "--as-pid-1", "--new-session"]
    if not root.writable and release >= PERMISSIONS:
        for folder in ("/etc", "/home", "/opt", "/var", "/var/lib", "/var/cache"):
            arguments += ["--perms", "0755", "--dir", folder]
    arguments += [*root.arguments, "--dev", "/dev", "--proc", "/proc"]
    if Path("/proc/keys").exists():  # names of the owner's keys in the kernel
        arguments += ["--ro-bind", "/dev/null", "/proc/keys"]
    arguments += ["--ro-bind-try", CPUS, CPUS]  # libraries count the processors there, and complain where they can't
    for inside, name in PRIVATE.items():
        arguments += ["--bind", str(made(scratch, name, 0o1777 if inside in SHARED else 0o755)), inside]
    made(scratch / PRIVATE["/run"], "lock", 0o1777)
    if release >= SIZED_TMPFS:
        size = spec.memory_mb * (1 << 20) // 2
        arguments += ["--perms", "1777", "--size", str(size), "--tmpfs", "/dev/shm"]
    for path in _named(env, spec):
        arguments += read_only(path)
    arguments += _masks(workspace.hidden, root, spec.rootfs)
    arguments += ["--ro-bind", str(scratch / "init.py"), INIT, *interpreter.arguments]
    for mount in sorted((*workspace.mounts, control), key=lambda mount: mount.inside):  # outer before inner
        arguments += ["--bind" if mount.writable else "--ro-bind", str(mount.host), mount.inside]
    # Memory that nothing counts, such as a root that is none on disk: no writing there. In /proc the kernel lets real
    # root change settings of the whole machine, whatever capabilities it lacks.
    sealed = ("/dev", *(() if root.writable else ("/",)), *(("/proc",) if os.getuid() == 0 else ()))
    return [*arguments, *(part for path in sealed for part in ("--remount-ro", path)), "--chdir", "/"]


def bwrap_release(bwrap: Path) -> tuple[int, ...]:
    """Its version, as (0, 8, 0). Zeros where it does not say: starting it will tell why."""
    done = subprocess.run([bwrap, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0, 0, 0)


def _privileges(bwrap: Path, release: tuple[int, ...], root: Root) -> list[str]:
    """A user namespace, in which no further one can be made: most holes of the kernel are reached through those."""
    if root.writable:  # `stage.py` has made one
        return ["--cap-drop", "ALL", *(word for name in INSTALLERS for word in ("--cap-add", f"CAP_{name}"))]
    if bwrap.stat().st_mode & stat.S_ISUID:  # installed so where an ordinary user may make none
        return ["--unshare-user-try", "--cap-drop", "ALL"]
    further = ["--disable-userns"] if release >= NO_MORE_NAMESPACES else []
    return ["--unshare-user", *further, "--cap-drop", "ALL"]


def _masks(hidden: Iterable[Path], root: Root, rootfs: Path | None) -> list[str]:
    """What covers `hidden` where the system inside shows it: an empty folder, or nothing in place of a file."""
    shown = [Path(part) for part in root.arguments if part.startswith("/") and part != "/"]
    shown += [overlay.lower for overlay in root.overlays if overlay.lower is not None]
    arguments: list[str] = []
    for path in sorted({each.resolve() for each in hidden if each.exists()}):
        if not any(path.is_relative_to(folder) for folder in ([rootfs] if rootfs else shown)):
            continue
        inside = f"/{path.relative_to(rootfs)}" if rootfs else str(path)
        arguments += (
            ["--tmpfs", inside, "--remount-ro", inside] if path.is_dir() else ["--ro-bind", "/dev/null", inside]
        )
    return arguments


def _named(env: Mapping[str, str], spec: SandboxSpec) -> list[Path]:
    """Files and folders that the environment names, where they are not in sight already."""
    names = (*CERTIFICATES, "PIP_FIND_LINKS")
    words = {part for name in names for part in re.split(r"[:\s]", env.get(name, "")) if part.startswith("/")}
    seen = SEEN if spec.rootfs is None else ()
    readable = (path for path in map(Path, sorted(words)) if os.access(path, os.R_OK))
    return [path for path in readable if not any(path.is_relative_to(known) for known in seen)]
