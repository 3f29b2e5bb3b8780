"""Run inside at the end of an attempt: tells what is installed there, as JSON on standard output.

Reads names and small files alone and starts no program, so that nothing an agent left is run. It uses the standard
library, on whatever Python (3.8 or later) is there. Started as `inventory.py CONFIG`, CONFIG being JSON: `folders` to
be searched, and the `size` and `modified` time (ns) that dpkg's status file had at the start, if there was one.
"""

# pathlib takes as long to import as all the rest
# ruff: noqa: PTH116, PTH119, PTH120, PTH207, PTH208

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
import sys
import time

STATUS = "/var/lib/dpkg/status"
PLACES = (
    *("/usr/lib*/python3*/*-packages", "/usr/local/lib*/python3*/*-packages"),
    *("/usr/lib*/R/library", "/usr/lib*/R/site-library", "/usr/local/lib*/R/site-library", "/usr/local/lib/R/library"),
)
PACKAGES = ("site-packages", "dist-packages")
SKIPPED = {"node_modules", ".git", "__pycache__", "pkgs", "proc", "sys"}
SECONDS = 5.0  # for the search
ENTRIES = 400_000  # that it looks at
LARGEST = 1 << 16  # bytes of a file about one package
LARGEST_STATUS = 1 << 26


def text(path: str, limit: int = LARGEST) -> str:
    """The beginning of a regular file; nothing of anything else, which might never end or have an effect."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(fd, "rb") as file:
        return file.read(limit).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(fd).st_mode) else ""


def fields(paragraph: str) -> dict[str, str]:
    """Fields as Debian and R write them, without what follows a field's first line."""
    lines = (line.partition(":") for line in paragraph.splitlines() if line[:1] not in (" ", "\t"))
    return {name: value.strip() for name, _, value in lines}


def installed(status: str) -> list[str]:
    """`name:architecture=version` of each installed package in the text of dpkg's status file, sorted."""
    found = []
    for paragraph in status.split("\n\n"):
        about = fields(paragraph)
        if about.get("Status", "").endswith(" installed"):
            found.append(f"{about['Package']}:{about.get('Architecture', '')}={about.get('Version', '')}")
    return sorted(found)


def python_packages(folder: str) -> list[str]:
    """What pip would list of a folder of packages."""
    found = set()
    for name in os.listdir(folder):
        base, dot, kind = name.rpartition(".")
        if dot and kind in ("dist-info", "egg-info"):
            package, _, rest = base.partition("-")
            version = rest.partition("-py")[0]
            found.add(f"{package}=={version}{source(f'{folder}/{name}/direct_url.json')}")
    return sorted(found, key=str.lower)


def source(path: str) -> str:
    """Where a package came from that is of no index."""
    try:
        told = json.loads(text(path))
        commit = told.get("vcs_info", {}).get("commit_id", "")
        return f" @ {told['url']}{'@' if commit else ''}{commit}"
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return ""


def conda_packages(folder: str) -> list[str]:
    """`name=version=build` of each package of a conda environment, by its folder conda-meta."""
    names = (name[: -len(".json")].rsplit("-", 2) for name in os.listdir(folder) if name.endswith(".json"))
    return sorted("=".join(parts) for parts in names)


class Search:
    """Finds environments below folders, breadth first, within bounds."""

    def __init__(self) -> None:
        self.python: dict[str, list[str]] = {}
        self.conda: dict[str, list[str]] = {}
        self.r: dict[str, list[str]] = {}
        self.incomplete: list[str] = []
        self.seen: set[tuple[int, int]] = set()
        self.deadline = time.monotonic() + SECONDS
        self.left = ENTRIES

    def run(self, folders: list[str]) -> None:
        waiting = folders
        while waiting:
            further: list[str] = []
            for folder in waiting:
                if self.left <= 0 or time.monotonic() > self.deadline:
                    self.incomplete.append("not every folder was searched: there are too many")
                    return
                with contextlib.suppress(OSError):
                    further += self.look(folder)
            waiting = further

    def look(self, folder: str) -> list[str]:
        """Take what `folder` is. Gives back the folders in it that are to be searched."""
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in self.seen:
            return []
        self.seen.add((status.st_dev, status.st_ino))
        if os.path.basename(folder) in PACKAGES:
            self.python[folder] = python_packages(folder)
            return []
        with os.scandir(folder) as entries:
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        self.left -= len(kinds)
        if kinds.get("Meta") and kinds.get("DESCRIPTION") is False:
            about = fields(text(f"{folder}/DESCRIPTION"))
            package = f"{about.get('Package', os.path.basename(folder))} {about.get('Version', '')}"
            self.r.setdefault(os.path.dirname(folder), []).append(package)
            return []
        if kinds.get("conda-meta"):
            self.conda[folder] = conda_packages(f"{folder}/conda-meta")
        # Libraries of renv and of conda hold links to packages that stand elsewhere.
        inner = (name for name, is_folder in kinds.items() if is_folder and name not in SKIPPED)
        return [f"{folder.rstrip('/')}/{name}" for name in sorted(inner)]


def main() -> None:
    config = json.loads(sys.argv[1])
    search = Search()
    fixed = sorted({path for pattern in PLACES for path in glob.glob(pattern)})
    search.run([*fixed, *config["folders"]])
    packages = None
    with contextlib.suppress(OSError):
        status = os.stat(STATUS)
        if [status.st_size, status.st_mtime_ns] != [config["size"], config["modified"]]:
            packages = installed(text(STATUS, LARGEST_STATUS))
    for library in search.r.values():
        library.sort(key=str.lower)
    found = {"dpkg": packages, "python": search.python, "conda": search.conda, "r": search.r}
    whole = json.dumps({**found, "incomplete": search.incomplete}, ensure_ascii=False)
    sys.stdout.buffer.write(whole.encode("utf-8", "replace"))  # names need not be text


if __name__ == "__main__":
    main()
