"""What the inside of a bubblewrap sandbox looks like: the arguments that lay it out."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from .environment import CERTIFICATES, SYSTEM_PATH, has_credentials
from .protocol import Mount, SandboxSpec, Workspace

HOME = "/home/agent"
CONTROL = "/run/agentctl"
INIT = "/run/agentctl-init"

# Writable places and the folders of the scratch folder behind them: on disk, so that they take no memory.
CPUS = "/sys/devices/system/cpu"
PRIVATE = {"/tmp": "tmp", "/var/tmp": "var-tmp", "/run": "run", HOME: "home", "/dev/shm": "shm"}
SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # where programs expect that everyone may write
PERMISSIONS = (0, 5, 0)  # releases of bubblewrap that brought an option
SIZED_TMPFS = (0, 7, 0)
NO_MORE_NAMESPACES = (0, 8, 0)

SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr on most systems
# Whole distributions that are commonly put into /opt. The rest of /opt may be anything, secrets included.
DISTRIBUTIONS = ("R", "*conda*", "*forge*", "julia*", "quarto*", "texlive*")
# Of /etc what programs and package managers need. Not here: anything that is, or may name, a secret of the host.
ETC = (
    *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "pki/tls/certs", "pki/ca-trust"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "host.conf", "gai.conf"),
    *("protocols", "services", "rpc", "localtime", "timezone", "locale.alias", "locale.conf", "terminfo", "inputrc"),
    *("os-release", "debian_version", "lsb-release", "redhat-release", "dpkg", "login.defs", "shells", "mime.types"),
    *("magic", "fonts", "R", "java-*-openjdk", "java", "perl", "python3*", "texmf", "ImageMagick-*", "OpenCL"),
    *("matplotlibrc", "papersize", "manpath.config", "man_db.conf", "groff", "dictionaries-common", "X11/rgb.txt"),
    *("ghostscript", "sgml", "xml", "maven/m2.conf", "maven/logging"),
)
SEEN = ("/usr", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust")
# Settings of package managers, which may hold a name and password in a URL: then they stay outside.
SOURCES = (
    "pip.conf",
    "apt/sources.list",
    "apt/sources.list.d/*",
    "apt/apt.conf.d/*",
    "apt/trusted.gpg.d",
    "apt/keyrings",
)
STATE = ("/var/lib/dpkg", "/var/lib/texmf", "/var/cache/fontconfig", "/var/lib/R", "/nix/store")  # read by programs


def inside_path() -> tuple[str, ...]:
    """The folders of PATH inside. Our own Python's goes first where /usr has none that can install packages."""
    own = () if _system_python() else (f"{sys.base_prefix}/bin",)
    distributions = tuple(f"{folder}/bin" for folder in _distributions() if (folder / "bin").is_dir())
    return (*own, *SYSTEM_PATH, *distributions)


def user_name() -> str:
    """Who commands run as: the number stays the owner's, so that files in the workspace belong to them outside too."""
    return "root" if os.getuid() == 0 else "agent"


def init_python() -> str:
    """The interpreter for the first process inside: any that is there."""
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else f"{sys.base_prefix}/bin/python3"


def _system_python() -> bool:
    """Whether /usr holds a Python that can install packages."""
    packages = (
        *Path("/usr").glob("lib/python3*/*-packages/pip"),
        *Path("/usr").glob("local/lib/python3*/*-packages/pip"),
    )
    return bool(packages) and any(Path(folder, "python3").exists() for folder in ("/usr/bin", "/usr/local/bin"))


def _distributions() -> list[Path]:
    return sorted(path for name in DISTRIBUTIONS for path in Path("/opt").glob(name) if path.is_dir())


def layout(spec: SandboxSpec, workspace: Workspace, control: Mount, env: Mapping[str, str], bwrap: Path) -> list[str]:
    """bwrap's arguments, program left out. Makes the folders below `workspace.scratch` that they name.

    `env` is the environment of commands: what it names on disk (certificates, folders of packages) is shown too.
    """
    scratch = workspace.scratch
    release = bwrap_release(bwrap)
    arguments = [*_user_namespace(bwrap, release), "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    arguments += ["--unshare-cgroup-try", *([] if spec.network == "open" else ["--unshare-net"])]
    arguments += ["--cap-drop", "ALL", "--hostname", "sandbox", "--as-pid-1", "--new-session"]
    for folder in ("/etc", "/home", "/opt", "/var", "/var/lib", "/var/cache") if release >= PERMISSIONS else ():
        arguments += ["--perms", "0755", "--dir", folder]
    arguments += ["--dev", "/dev", "--proc", "/proc"]
    arguments += ["--ro-bind-try", CPUS, CPUS]  # libraries count the processors there, and complain where they can't
    for inside, folder in PRIVATE.items():
        arguments += ["--bind", str(_folder(scratch / folder)), inside]
        if inside in SHARED:
            (scratch / folder).chmod(0o1777)
    if release >= SIZED_TMPFS:
        size = spec.memory_mb * (1 << 20) // 2
        arguments += ["--perms", "1777", "--size", str(size), "--tmpfs", "/dev/shm"]
    arguments += _system()
    arguments += _etc(spec, scratch)
    arguments += _named(env)
    arguments += ["--symlink", "/run", "/var/run", "--ro-bind", str(scratch / "init.py"), INIT]
    for mount in sorted((*workspace.mounts, control), key=lambda mount: mount.inside):  # outer before inner
        arguments += ["--bind" if mount.writable else "--ro-bind", str(mount.host), mount.inside]
    # What is left of the root and of /dev is memory that nothing counts: no writing there. In /proc the kernel lets
    # real root change settings of the whole machine, whatever capabilities it lacks.
    sealed = ("/dev", "/", *(("/proc",) if os.getuid() == 0 else ()))
    return [*arguments, *(part for path in sealed for part in ("--remount-ro", path)), "--chdir", "/"]


def bwrap_release(bwrap: Path) -> tuple[int, ...]:
    """Its version, as (0, 8, 0). Zeros where it does not say: starting it will tell why."""
    done = subprocess.run([bwrap, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0, 0, 0)


def _user_namespace(bwrap: Path, release: tuple[int, ...]) -> list[str]:
    """A user namespace, in which no further one can be made: most holes of the kernel are reached through those."""
    if bwrap.stat().st_mode & stat.S_ISUID:  # installed so where an ordinary user may make none
        return ["--unshare-user-try"]
    return ["--unshare-user", *(["--disable-userns"] if release >= NO_MORE_NAMESPACES else [])]


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _read_only(path: Path | str) -> list[str]:
    return ["--ro-bind", str(path), str(path)]


def _system() -> list[str]:
    arguments = _read_only("/usr")
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += _read_only(path)
    for path in (*_distributions(), *(Path(name) for name in STATE)):
        arguments += _read_only(path) if path.is_dir() else []
    for prefix in {init_python().removesuffix("/bin/python3"), "/usr" if _system_python() else sys.base_prefix}:
        arguments += [] if Path(prefix).is_relative_to("/usr") else _read_only(prefix)
    return arguments


def _etc(spec: SandboxSpec, scratch: Path) -> list[str]:
    arguments = []
    for path in _matching(ETC):
        arguments += _read_only(path)
    for path in _matching(SOURCES):
        if path.is_dir() or not has_credentials(path.read_text(encoding="utf-8", errors="replace")):
            arguments += _read_only(path)
    user, group = os.getuid(), os.getgid()
    name = user_name()
    texts = {
        "passwd": f"{name}:x:{user}:{group}:{name}:{HOME}:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
        "group": f"{name}:x:{group}:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    }
    if spec.network == "open":
        arguments += _read_only(Path("/etc/resolv.conf")) if Path("/etc/resolv.conf").exists() else []
        texts["hosts"] += Path("/etc/hosts").read_text(encoding="utf-8") if Path("/etc/hosts").exists() else ""
    for file, text in texts.items():
        (_folder(scratch / "etc") / file).write_text(text, encoding="utf-8")
        arguments += ["--ro-bind", str(scratch / "etc" / file), f"/etc/{file}"]
    return [*arguments, "--symlink", "/proc/mounts", "/etc/mtab"]


def _matching(patterns: Iterable[str]) -> list[Path]:
    found = (path for pattern in patterns for path in sorted(Path("/etc").glob(pattern)))
    return [path for path in found if path.exists() and os.access(path, os.R_OK)]


def _named(env: Mapping[str, str]) -> list[str]:
    """Files and folders that the environment names, where they are not in sight already."""
    arguments: list[str] = []
    names = (*CERTIFICATES, "PIP_FIND_LINKS")
    for value in {part for name in names for part in re.split(r"[:\s]", env.get(name, "")) if part.startswith("/")}:
        path = Path(value)
        seen = any(path.is_relative_to(known) for known in SEEN)
        arguments += _read_only(path) if os.access(path, os.R_OK) and not seen else []
    return arguments
