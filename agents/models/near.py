"""Servers near by, on this machine or in a private network: one that is not there does not come back by itself."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

_NOBODY = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH)


def is_near(api_base: str) -> bool:
    """Whether the address is on this machine or in a private network."""
    host = urlsplit(api_base).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".localhost", ".local", ".internal"))


def nobody_at(url: str, error: BaseException) -> str:
    """What a person can do where `error`, or what caused it, says that no server is at the near address `url`.

    Empty where it says something else, or `url` is not near: others' servers come back, and trying again may help.
    """
    parts = urlsplit(url)
    if not parts.hostname or not is_near(url) or not any(map(_says_nobody, causes(error))):
        return ""
    return f"no server listens at {parts.scheme}://{parts.netloc.rpartition('@')[2]}: start it, or correct the address"


def _says_nobody(error: BaseException) -> bool:
    unknown = isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME
    return unknown or (isinstance(error, OSError) and error.errno in _NOBODY)


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, what caused it, what caused that, and so on."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
