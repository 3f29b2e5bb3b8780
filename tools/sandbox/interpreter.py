"""The Python that runs our own processes inside: the system's, or, in a given system, one that is brought along.

A given system may have no Python, and another libc than ours. So ours comes with the libraries that it has loaded, and
is started by its own loader: nothing of the system inside takes part.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from .protocol import SandboxUnavailable

PLACE = "/run/agentctl-python"
# What `init.py` and `inventory.py` import, and the files that are mapped then: libraries, and the loader among them.
LOADED = """
import array, contextlib, ctypes, errno, fcntl, hashlib, json, os, resource, select, signal, socket, termios
for line in open("/proc/self/maps"):
    print(line.split(None, 5)[5].strip() if line.count("/") else "")
"""


@dataclass(frozen=True)
class Interpreter:
    """How it is called inside, and bwrap's arguments that bring it there."""

    argv: tuple[str, ...]
    arguments: tuple[str, ...] = ()


def system_interpreter() -> Interpreter:
    """The one that is there because the host's system is: /usr's, or our own where that has none."""
    return Interpreter(("/usr/bin/python3" if Path("/usr/bin/python3").exists() else f"{sys.base_prefix}/bin/python3",))


def own_interpreter() -> Interpreter:
    """Our own, brought along. SandboxUnavailable where its parts can't be told."""
    program = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    command = [str(program), "-I", "-S", "-c", LOADED]
    told = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False).stdout
    library = Path(sysconfig.get_path("stdlib"))
    mapped = {Path(name) for name in told.split("\n") if name.startswith("/") and ".so" in Path(name).name}
    shared = sorted(path for path in mapped if not path.is_relative_to(library))
    loader = next((path for path in shared if path.name.startswith(("ld-", "ld."))), None)
    if loader is None:
        raise SandboxUnavailable(
            f"the loader of {program} can't be told, so it can't run in a given system", remedy="leave --rootfs out"
        )
    inside = f"{PLACE}/bin/python3"
    folders = {str(program): inside, str(library): f"{PLACE}/{sys.platlibdir}/{library.name}"}
    binds = [*folders.items(), *((str(path), f"{PLACE}/shared/{name}") for path in shared for name in _names(path))]
    return Interpreter(
        (f"{PLACE}/shared/{loader.name}", "--library-path", f"{PLACE}/shared", inside),
        tuple(word for source, place in binds for word in ("--ro-bind", source, place)),
    )


def _names(library: Path) -> list[str]:
    """What a library is asked for by: its file's name (libz.so.1.2), and those of links beside it (libz.so.1)."""
    beside = (path for path in library.parent.iterdir() if path.is_symlink())
    return [library.name, *sorted(path.name for path in beside if path.readlink().name == library.name)]
