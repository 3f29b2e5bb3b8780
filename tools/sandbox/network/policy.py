"""Which hosts a sandbox may reach.

`registries`: package registries alone, as `hosts.yaml` lists them. `open`: every public host. Under both what
`hosts.yaml` denies is refused, and the user may allow more. A host is public where the address that its name resolves
to is (`addresses.py`); one that the user allowed by name may be anywhere, so that a registry of one's own works.

What no proxy can see: a server that hands out, on a connection to an allowed name, what belongs to another of its
names; and copies of a denied page that an allowed host keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from ipaddress import IPv6Address
from typing import Literal

from agentctl.base.errors import InputError

from .names import Address, is_part_of, parse_authority

PORTS = frozenset((80, 443))


class NotAllowed(Exception):
    """A request that the policy refuses. Its text says why, beginning with the host."""

    def __init__(self, host: str, port: int, why: str) -> None:
        self.host = host
        self.port = port
        super().__init__(why)


@dataclass(frozen=True)
class Destination:
    """A host and port that may be reached. `listed` where an entry names it, `anywhere` where that is the user's own:
    then its address need not be a public one."""

    host: str | Address
    port: int
    listed: bool = False
    anywhere: bool = False

    @property
    def authority(self) -> str:
        return f"{shown(self.host)}:{self.port}"


@dataclass(frozen=True)
class _Rule:
    """One entry: an address, or a name with all that are below it."""

    host: str | Address
    ports: frozenset[int]

    def matches(self, host: str | Address, port: int) -> bool:
        return port in self.ports and self.covers(host)

    def covers(self, host: str | Address) -> bool:
        return is_part_of(host, self.host)


class Policy:
    """The policy `name`, with the hosts that the user allows besides (`host` or `host:port`).

    InputError for an entry that is no host, or one that is denied under every policy.
    """

    def __init__(self, name: Literal["registries", "open"], allow_hosts: Iterable[str] = ()) -> None:
        self.name = name
        self._denied = _known("denied")
        self._registries = _known("registries")
        self._users = tuple(_users_rule(text) for text in allow_hosts)
        for rule in self._users:
            if any(denied.covers(rule.host) for denied in self._denied):
                raise InputError(f"{shown(rule.host)} is refused under every network policy", field="allow_hosts")

    def admit(self, authority: str, *, default_port: int | None = None) -> Destination:
        """Where a request for `authority` (`host:port`) may go. NotAllowed where it may not, or is no host at all."""
        try:
            host, port = parse_authority(authority)
            port = port or default_port
            if port is None:
                raise ValueError("a port is missing")
        except ValueError as error:
            raise NotAllowed(printable(authority), default_port or 0, f"{printable(authority)}: {error}") from None
        if any(rule.covers(host) for rule in self._denied):
            raise NotAllowed(shown(host), port, f"{shown(host)} is refused under every policy")
        by_user = any(rule.matches(host, port) for rule in self._users)
        listed = by_user or any(rule.matches(host, port) for rule in self._registries)
        if not listed and (why := self._refusal(host, port)):
            raise NotAllowed(shown(host), port, f"{shown(host)} {why}")
        return Destination(host, port, listed=listed, anywhere=by_user)

    def _refusal(self, host: str | Address, port: int) -> str:
        """Why a host that no entry lists may not be reached. Empty where it may."""
        if not isinstance(host, str):
            return "is an address, and hosts are allowed by name"
        if self.name == "registries" and not any(rule.covers(host) for rule in self._registries):
            return "is not a package registry"
        return "" if self.name == "open" and port in PORTS else f"may not be reached on port {port}"


def shown(host: str | Address) -> str:
    """`host` as it stands before a port."""
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)


def printable(text: str) -> str:
    """What a client sent in place of a host, fit to be shown."""
    return ascii(text)[1:-1][:100]


def _users_rule(text: str) -> _Rule:
    try:
        return _rule(text.encode("idna").decode("ascii"))
    except ValueError as error:  # what idna raises is one too
        remedy = "write it as pypi.example.org, or with a port as pypi.example.org:8080"
        raise InputError(f"{text!r}: {error}", field="allow_hosts", remedy=remedy) from None


def _rule(text: str) -> _Rule:
    host, port = parse_authority(text)
    return _Rule(host, frozenset((port,)) if port else PORTS)


@cache
def _known(part: str) -> tuple[_Rule, ...]:
    """The entries of one part of `hosts.yaml`, of all its groups."""
    import yaml

    groups = yaml.safe_load(files(__package__).joinpath("hosts.yaml").read_text(encoding="utf-8"))[part]
    return tuple(_rule(entry) for group in groups.values() for entry in group)
