"""What the system inside is, as far as results may depend on it."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import lru_cache
from pathlib import Path

from .protocol import Fingerprint, SandboxSpec

DPKG_STATUS = Path("/var/lib/dpkg/status")
OS_RELEASE = Path("/etc/os-release")


def fingerprint(spec: SandboxSpec) -> Fingerprint:
    """The fingerprint of a sandbox that shows the host's own system."""
    return Fingerprint(
        kind=spec.kind,
        system=_system_digest(),
        apt=False,
        network=spec.network,
        memory_mb=spec.memory_mb,
        processes=spec.processes,
        cpus=len(os.sched_getaffinity(0)),
    )


@lru_cache(maxsize=1)
def _system_digest() -> str:
    """SHA-256 of the installed packages and their versions; without dpkg, of the system's name and Python's version."""
    if DPKG_STATUS.exists():
        text = "\n".join(installed_packages(DPKG_STATUS.read_text(encoding="utf-8", errors="replace")))
    else:
        release = OS_RELEASE.read_text(encoding="utf-8") if OS_RELEASE.exists() else platform.platform()
        text = f"{release}\n{platform.python_version()}"
    return hashlib.sha256(text.encode()).hexdigest()


def installed_packages(status: str) -> list[str]:
    """`name:architecture=version` of each installed package in the text of dpkg's status file, sorted."""
    found = []
    for paragraph in status.split("\n\n"):
        lines = (line.partition(": ") for line in paragraph.splitlines() if not line.startswith(" "))
        fields = {name: value for name, _, value in lines}
        if fields.get("Status", "").endswith(" installed"):
            found.append(f"{fields['Package']}:{fields.get('Architecture', '')}={fields.get('Version', '')}")
    return sorted(found)
