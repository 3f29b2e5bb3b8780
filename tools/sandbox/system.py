"""What the system inside is, as far as results may depend on it."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .inventory import installed
from .protocol import Fingerprint, SandboxSpec

DPKG_STATUS = "var/lib/dpkg/status"
OS_RELEASE = "etc/os-release"
HOST = Path("/")


def fingerprint(spec: SandboxSpec, *, writable: bool = False) -> Fingerprint:
    """The fingerprint of a sandbox. `writable`: whether the system in it can be changed."""
    root = spec.rootfs or HOST
    return Fingerprint(
        kind=spec.kind,
        system=system_digest(root),
        apt=writable and (root / "usr/bin/apt-get").exists(),
        network=spec.network,
        memory_mb=spec.memory_mb,
        processes=spec.processes,
        cpus=len(os.sched_getaffinity(0)),
    )


class DpkgStatus(NamedTuple):
    """dpkg's list of packages, as `name:architecture=version`, and what tells whether its file has changed."""

    packages: tuple[str, ...] = ()
    size: int = -1  # bytes
    modified_ns: int = -1


@lru_cache(maxsize=4)
def dpkg_status(root: Path) -> DpkgStatus:
    """The packages of the system at `root` when it was first looked at; empty where dpkg does not know them."""
    file = root / DPKG_STATUS
    if not file.is_file():
        return DpkgStatus()
    status = file.stat()
    packages = installed(file.read_text(encoding="utf-8", errors="replace"))
    return DpkgStatus(tuple(packages), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def system_digest(root: Path) -> str:
    """SHA-256 of the packages installed in the system at `root`, and their versions; where dpkg does not know them, of
    the host's name and Python's version, or of all that a given system's folder holds."""
    if packages := dpkg_status(root).packages:
        text = "\n".join(packages)
    elif root == HOST:
        release = root / OS_RELEASE
        system = release.read_text(encoding="utf-8") if release.exists() else platform.platform()
        text = f"{system}\n{platform.python_version()}"
    else:
        text = "\n".join(_listing(root))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _listing(root: Path) -> Iterator[str]:
    """Every file and folder below `root`: name, kind and rights, size, where it leads."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            status = path.lstat()
            link = path.readlink() if path.is_symlink() else ""
            size = 0 if path.is_dir() else status.st_size
            yield f"{path.relative_to(root)} {status.st_mode:o} {size} {link}"
