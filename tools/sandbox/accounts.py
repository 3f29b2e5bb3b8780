"""Who is who inside: whoever commands run as, and the accounts that programs of the system run as; no other people."""

from __future__ import annotations

from dataclasses import dataclass

PEOPLE = 1000  # numbers of people's accounts begin here
NOBODY = 65534


@dataclass(frozen=True)
class User:
    """Whom commands run as, by the numbers that they have outside."""

    name: str
    number: int
    group: int
    home: str


def passwd_text(user: User, system: str = "") -> str:
    """/etc/passwd with `user`, and of the text `system` of another such file the system's own accounts."""
    own = f"{user.name}:x:{user.number}:{user.group}:{user.name}:{user.home}:/bin/bash"
    others = {user.number: own, NOBODY: f"nobody:x:{NOBODY}:{NOBODY}:nobody:/:/usr/sbin/nologin"}
    return _text(others, system, taken=user.name)


def group_text(user: User, system: str = "") -> str:
    """The same for /etc/group. Nobody is named as a member."""
    others = {user.group: f"{user.name}:x:{user.group}:", NOBODY: f"nogroup:x:{NOBODY}:"}
    return _text(others, system, taken=user.name)


def _text(lines: dict[int, str], system: str, *, taken: str) -> str:
    """`lines` by their numbers, and those of `system` whose numbers and names are free."""
    for line in system.splitlines():
        fields = line.split(":")
        if len(fields) < 4 or not fields[2].isdigit() or fields[0] == taken:
            continue
        if len(fields) == 4:
            fields[3] = ""
        if int(fields[2]) < PEOPLE:
            lines.setdefault(int(fields[2]), ":".join((fields[0], "x", *fields[2:])))
    return "".join(f"{line}\n" for line in lines.values())
