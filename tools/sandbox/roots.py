"""The system that stands inside: the host's or a given one, as it is or with a layer on top that takes all changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from . import places
from .accounts import User, group_text, passwd_text
from .credentials import withheld

CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
# Shown as overlays where the system can be changed: each takes a millisecond to mount, a thousand files a tenth of a
# second to copy.
LARGE = ("/usr", "/var/lib/dpkg", "/var/lib/texmf", "/etc/alternatives", "/etc/ssl/certs")
# Folders that programs of the system expect.
FOLDERS = (
    *("etc/apt/preferences.d", "home", "media", "mnt", "opt", "srv", "sys/devices/system/cpu", "var/log/apt"),
    *("var/cache/apt/archives/partial", "var/cache/debconf", "var/lib/apt/lists/partial", "var/lib/misc"),
    *("var/mail", "var/opt", "var/spool"),
)
# Installing never asks, waits for no disk (all is thrown away), starts no service, and draws no bars.
SETTINGS = {
    # A proxy of the host's can't be reached: what the environment names counts. Read after all others of its folder.
    "etc/apt/apt.conf.d/zz-agentctl": 'APT::Get::Assume-Yes "true";\nDpkg::Use-Pty "0";\nquiet "1";\n'
    "#clear Acquire::http::Proxy;\n#clear Acquire::https::Proxy;\n#clear Acquire::http::Proxy-Auto-Detect;\n",
    "etc/dpkg/dpkg.cfg.d/agentctl": "force-confdef\nforce-confold\nforce-unsafe-io\n",
    "usr/sbin/policy-rc.d": "#!/bin/sh\nexit 101\n",
}


class Overlay(NamedTuple):
    """What is shown at `place` (in `Root.folder`), with a layer on top that takes what is written: the folder `lower`
    of the host, or copies of some of the host's files and folders."""

    place: str
    lower: Path | None
    copies: tuple[Path, ...] = ()


@dataclass
class Root:
    """How the system inside is shown: bwrap's arguments, and the overlays to be mounted before, in `folder`."""

    folder: Path
    arguments: list[str] = field(default_factory=list)
    overlays: list[Overlay] = field(default_factory=list)

    @property
    def writable(self) -> bool:
        return bool(self.overlays)

    def over(self, place: str, lower: Path | None, copies: tuple[Path, ...] = ()) -> Path:
        """Add an `Overlay`. Gives back its upper layer, in which files may be put before it is mounted."""
        number = len(self.overlays)
        for name in ("upper", "work", "lower"):
            made(self.folder, f"{name}/{number}")
        # The first is at the root itself; the others are in what it shows.
        made(self.folder / "upper/0" if number else self.folder, place.removeprefix("root/"))
        self.overlays.append(Overlay(place, lower, copies))
        return self.folder / f"upper/{number}"


def made(base: Path, inner: str, mode: int = 0o755) -> Path:
    """The folder `inner` below `base`, made so that every user inside may pass, whatever the owner's umask."""
    path = base
    for name in Path(inner).parts:
        path /= name
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            path.chmod(0o755)
    if mode != 0o755:
        path.chmod(mode)
    return path


def put(base: Path, inner: str, text: str, mode: int = 0o644) -> Path:
    """Write a file below `base`, for everyone to read."""
    path = made(base, str(Path(inner).parent)) / Path(inner).name
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def read_only(path: Path | str) -> list[str]:
    return ["--ro-bind", str(path), str(path)]


# --- the host's own system ---


def host_as_it_is(folder: Path, user: User, extra: Iterable[Path]) -> Root:
    """The host's system, read-only. `extra` are folders to be shown besides."""
    root = Root(folder)
    for path in _top():
        root.arguments += ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else read_only(path)
    state = (path for name in places.STATE if (path := Path(name)).is_dir())
    shown = [*places.distributions(), *extra, *places.etc((*places.ETC, *places.SOURCES))]
    for path in (*state, *shown):
        root.arguments += read_only(path)
    _withhold(root, [*(path for path in _top() if not path.is_symlink()), *shown], {})
    for name, text in {"passwd": passwd_text(user), "group": group_text(user), "hosts": HOSTS}.items():
        root.arguments += ["--ro-bind", str(put(folder, f"etc/{name}", text)), f"/etc/{name}"]
    root.arguments += ["--symlink", "/proc/mounts", "/etc/mtab", "--symlink", "/run", "/var/run"]
    return root


def host_with_a_layer(folder: Path, user: User, extra: Iterable[Path]) -> Root:
    """The host's system, to be changed at will: nothing of it reaches the host."""
    top = _top()
    store = [path for path in (Path("/nix/store"),) if path.is_dir()]
    state = (path for name in places.STATE if (path := Path(name)).is_dir())
    scripts = (path for name in places.SCRIPTS_STATE if (path := Path("/var/lib", name)).is_dir())
    settings = places.etc((*places.ETC, *places.INSTALLING, *places.SOURCES))
    large = [path for name in LARGE if (path := Path(name)).is_dir()]
    large += [*(path for path in top if not path.is_symlink() and path not in large), *places.distributions()]
    copies = [path for path in (*state, *scripts, *settings) if path not in (*large, *store)]
    root = Root(folder)
    upper = root.over("root", None, tuple(copies))
    for name in FOLDERS:
        made(upper, name)
    for path in top:
        if path.is_symlink():
            (upper / path.name).symlink_to(path.readlink())
    uppers = {path: root.over(f"root{path}", path) for path in large}
    _own_files(upper, uppers[Path("/usr")], Path("/"), user)
    root.arguments = ["--bind", str(folder / "root"), "/"]
    extra = list(extra)
    for path in (*store, *extra):
        root.arguments += read_only(path)
    layers = {path: (upper, Path("/")) for path in settings} | {path: (over, path) for path, over in uppers.items()}
    _withhold(root, [*layers, *extra], layers)
    return root


def _withhold(root: Root, shown: Iterable[Path], layers: Mapping[Path, tuple[Path, Path]]) -> None:
    """Show nothing in the place of settings with credentials, and of folders of one user, in what is `shown`.

    `layers` tell of what is shown which upper layer is above it, and its place: there the agent may put its own.
    """
    for path in withheld(shown):
        layer, place = next((layers[each] for each in (path, *path.parents) if each in layers), (None, path))
        if path.is_dir():
            root.arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]
            continue
        nothing = "{}\n" if path.read_bytes().lstrip().startswith(b"{") else ""  # else JSON's readers would fail
        if layer is None:
            root.arguments += ["--ro-bind", str(put(root.folder, f"withheld{path}", nothing)), str(path)]
        else:
            put(layer, str(path.relative_to(place)), nothing)


def _top() -> list[Path]:
    return [path for name in ("usr", *places.SYSTEM) if (path := Path("/", name)).is_dir()]


def _own_files(top: Path, usr: Path, system: Path, user: User) -> None:
    """Files of ours below `top`, and below `usr` what belongs into /usr, where `system` has a folder for them."""
    for name, text in _accounts(system, user).items():
        put(top, name, text)
    for name, text in SETTINGS.items():
        if not _is_folder(system, str(Path(name).parent)):
            continue
        if name.startswith("usr/"):
            put(usr, name.removeprefix("usr/"), text, 0o755)
        else:
            put(top, name, text)
    for name, target in (("etc/mtab", "/proc/mounts"), ("var/run", "/run"), ("var/lock", "/run/lock")):
        (made(top, str(Path(name).parent)) / Path(name).name).symlink_to(target)


def _accounts(system: Path, user: User) -> dict[str, str]:
    """Files of /etc that say who and where one is, made from those of `system`."""
    return {
        "etc/passwd": passwd_text(user, _text(system, "etc/passwd")),
        "etc/group": group_text(user, _text(system, "etc/group")),
        "etc/hosts": HOSTS,
    }


def _text(system: Path, name: str) -> str:
    """The text of a file of `system`, no links followed: they would lead to the host's files."""
    file = system / name
    regular = _is_folder(system, str(Path(name).parent)) and file.is_file() and not file.is_symlink()
    return file.read_text(encoding="utf-8", errors="replace") if regular else ""


def _is_folder(system: Path, name: str) -> bool:
    """Whether `name` is a folder of `system`, with no link on the way: made in a layer, it would hide a link."""
    return (system / name).is_dir() and (system / name).resolve() == system.resolve() / name


# --- a given system ---


def given_with_a_layer(folder: Path, system: Path, user: User) -> Root:
    """The system in the folder `system`, to be changed at will: nothing of it reaches that folder."""
    root = Root(folder)
    upper = root.over("root", system)
    for name in ("home", "opt", "sys/devices/system/cpu"):  # else bwrap makes them, for the owner alone
        if not os.path.lexists(system / Path(name).parts[0]):
            made(upper, name)
    _own_files(upper, made(upper, "usr"), system, user)
    if not os.path.lexists(system / CERTIFICATES) and Path("/", CERTIFICATES).exists():  # else nothing can be fetched
        put(upper, CERTIFICATES, Path("/", CERTIFICATES).read_text(encoding="utf-8"))
    root.arguments = ["--bind", str(folder / "root"), "/"]
    return root


def given_as_it_is(folder: Path, system: Path, user: User, points: Iterable[str]) -> Root:
    """The system in the folder `system`, read-only. `points` are the places inside at which something else will stand:
    bwrap would make them where they are missing, and nothing may be made in `system`."""
    root = Root(folder)
    files = {f"/{name}": put(folder, name, text) for name, text in _accounts(system, user).items()}
    root.arguments += _around(system, "/", {*points, *files, "/dev", "/proc", "/sys"})
    for inside, file in files.items():
        root.arguments += ["--ro-bind", str(file), inside]
    return root


def _around(system: Path, folder: str, taken: set[str]) -> Iterator[str]:
    """Arguments that show what is in `folder` of `system`, but for what is `taken`."""
    for entry in sorted((system / folder[1:]).iterdir()):
        inside = f"{folder.rstrip('/')}/{entry.name}"
        if inside in taken:
            continue
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), inside)
        elif entry.is_dir() and any(point.startswith(f"{inside}/") for point in taken):
            yield from ("--dir", inside)
            yield from _around(system, inside, taken)
        elif entry.is_dir() or entry.is_file():
            yield from ("--ro-bind", str(entry), inside)
