"""Runs on the host in place of bwrap, as real root: makes a system that can be changed and thrown away, then is bwrap.

Started as `stage.py FOLDER OVERLAYS BWRAP ARGUMENT…`, OVERLAYS being JSON: a list of [place, lower, copies]. The n-th
shows at `place` the host folder `lower`, or, where that is null, copies of the host's files and folders `copies`, with
`upper/n` to take what is written; `place`, `lower/n`, `upper/n` and `work/n` are in FOLDER. The mounts are in a
namespace of this process and its children alone: nobody else sees them, and they end with it.

Then it moves into a user namespace in which the numbers of users and groups are the host's, and from which no further
one can be made. Who is root there may change the owner of a file or become another user, as package managers must, but
has no power over anything outside of the namespace. Standard library alone: it must start fast, and is run by path.
"""

# pathlib takes as long to import as all the rest
# ruff: noqa: PTH102, PTH103, PTH114, PTH115, PTH120, PTH123, PTH208, PTH211

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import stat
import sys

NO_OVERLAY = 97  # exit status where this machine does not allow it: then a system that can't be changed is shown
IDS = 65536  # users and groups: as many as a system's own accounts may use

DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero")  # that bwrap shows

NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """A call of the system; OSError where it fails."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str, place: str, kind: str = "none", flags: int = 0, options: str = "") -> None:
    call("mount", *(os.fsencode(text) for text in (source, place, kind)), ctypes.c_ulong(flags), options.encode())


def mount_points() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as file:
        names = [line.split()[4] for line in file]
    return [os.fsdecode(name.decode("unicode_escape").encode("latin-1")) for name in names]


def copied(source: str, place: str) -> None:
    """Copy a file, a folder or a link, and nothing else. A link that stands by itself is followed, unless into /usr."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.islink(source) and not os.path.realpath(source).startswith("/usr/"):
        source = os.path.realpath(source)
    waiting = [(source, place)]
    while waiting:
        source, place = waiting.pop()
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), place)
        elif stat.S_ISDIR(mode):
            os.mkdir(place, stat.S_IMODE(mode))
            waiting += [(f"{source}/{name}", f"{place}/{name}") for name in os.listdir(source)]
        elif stat.S_ISREG(mode):
            with open(source, "rb") as file:
                data = file.read()
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o777), "wb") as file:
                file.write(data)


def overlay(number: int, place: str, lower: str, copies: list[str], points: list[str]) -> None:
    """Mount one, from inside its folder: options of an overlay can't hold every path. `points` are where the host has
    mounts."""
    if lower:
        mount(lower, f"lower/{number}", flags=BIND)
    else:  # in memory: fifty times faster than on a disk, and the agent can't write to it
        mount("tmpfs", f"lower/{number}", "tmpfs", options="mode=0755")
        for source in copies:
            with contextlib.suppress(OSError):  # gone meanwhile, or there twice
                copied(source, f"lower/{number}{source}")
    folders = f"lowerdir=lower/{number},upperdir=upper/{number},workdir=work/{number}"
    try:
        mount("overlay", place, "overlay", options=f"{folders},volatile")  # thrown away: need not be brought to disk
    except OSError:  # a kernel before 5.10
        mount("overlay", place, "overlay", options=folders)
    if lower:
        show_mounts(lower, place, points)


def show_mounts(lower: str, place: str, points: list[str]) -> None:
    """Show what is mounted below `lower` (drivers, in a container with a GPU) at `place` too, read-only: an overlay
    does not hold it. Not the kernel's own of a given system, which stay the host's."""
    for point in points:
        inner = point[len(lower) :]
        if point.startswith(f"{lower}/") and not inner.startswith(("/proc", "/sys", "/dev")):
            mount(point, place + inner, flags=BIND)
            mount("none", place + inner, flags=BIND | REMOUNT | READ_ONLY)


def enter_user_namespace() -> None:
    """Only a process outside may write the map of more than one user: a child that stays there."""
    ready, done = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.read(ready, 1)
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{parent}/{name}", "w") as file:
                    file.write(f"0 0 {IDS}")
            status = 0
        finally:
            os._exit(status)
    try:
        call("unshare", NEW_USERS)
    finally:
        os.write(done, b"x")
        _, status = os.waitpid(child, 0)
    if status != 0:
        raise OSError("the numbers of users can't be mapped")
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def main() -> None:
    folder, overlays, *command = sys.argv[1:]
    try:
        points = mount_points()
        call("unshare", NEW_MOUNTS)
        mount("none", "/", flags=RECURSIVE | PRIVATE)
        os.chdir(folder)
        for device in filter(os.path.exists, DEVICES):  # can be written as ever, but their owner and rights stay
            mount(device, device, flags=BIND)
            mount("none", device, flags=BIND | REMOUNT | READ_ONLY)
        umask = os.umask(0o022)
        for number, (place, lower, copies) in enumerate(json.loads(overlays)):
            overlay(number, place, lower, copies, points)
        os.umask(umask)
        enter_user_namespace()
    except OSError as error:
        os.write(2, f"no overlay: {error.strerror or error}\n".encode())
        sys.exit(NO_OVERLAY)
    os.chdir("/")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
