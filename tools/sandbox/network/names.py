"""Names of hosts, in one spelling: what a rule says and what a client asks for must be the same text to be the same.

A client may spell a host in many ways (`PyPI.org.`, `user@pypi.org`, `0x7f.1`, `[::1]`). Whatever is not a plain name,
or an address in its usual form, is no host here: programs don't agree on what such a spelling means.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # as the last label it makes an address of the whole, by inet_aton's rules
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")


def parse_host(text: str) -> str | Address:
    """The host that `text` spells: a name in lower case without its final dot, or an address.

    An IPv6 address stands in brackets. Names beyond ASCII are taken in their encoded form alone (`xn--...`), as they
    travel. ValueError, with the reason in words, for anything else.
    """
    if text.startswith("["):
        return _address(text[1:].removesuffix("]"), 6)
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _address(name, 4)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("that is not the name of a host")
    return name


def parse_authority(text: str) -> tuple[str | Address, int | None]:
    """Host and port of `host:port`, or of `host` alone. ValueError as `parse_host`."""
    if "@" in text:
        raise ValueError("a user's name before the host is not allowed")
    found = _AUTHORITY.fullmatch(text)
    port = int(found[2]) if found and found[2] else None
    if found is None or port == 0 or (port or 0) > 65535:
        raise ValueError("that is not a host and a port")
    return parse_host(found[1]), port


def is_part_of(host: str | Address, whole: str | Address) -> bool:
    """Whether `host` is `whole`, or a name below that."""
    if isinstance(host, str) and isinstance(whole, str):
        return f".{host}".endswith(f".{whole}")
    return host == whole


def _address(text: str, version: int) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError("that is not an address in its usual form") from None
    if address.version != version or getattr(address, "scope_id", None):
        raise ValueError("that is not an address in its usual form")
    return address
