"""The proxies that the owner's environment names, for the sandbox and for the models alike."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from agentctl.base.errors import InputError

from .names import Address, is_part_of, parse_authority


@dataclass(frozen=True)
class OwnersProxy:
    """A proxy that the owner's environment names: on many networks the only way out."""

    host: str
    port: int
    tls: bool
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)  # the password that it wants


def owners_proxy(owner_env: Mapping[str, str], scheme: str) -> OwnersProxy | None:
    """The proxy of `owner_env` for `http` or `https`. InputError for one of a kind that can't be used."""
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    name, value = next(((name, owner_env[name]) for name in names if owner_env.get(name)), ("", ""))
    if not value:
        return None
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        raise InputError("that is not the URL of a proxy", field=name) from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InputError(
            f"a proxy of the kind {url.scheme} can't be used",
            field=name,
            remedy="name an http:// proxy, or list the host in no_proxy",
        )
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if url.username is not None:
        password = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        headers = ((b"proxy-authorization", b"Basic " + b64encode(password)),)
    return OwnersProxy(url.hostname, port, url.scheme == "https", headers)


class DirectHosts:
    """The hosts that `no_proxy` of the owner's environment excepts: as `.example.org, host:8080, *`."""

    def __init__(self, owner_env: Mapping[str, str]) -> None:
        self._all = tuple(_entries(owner_env.get("no_proxy") or owner_env.get("NO_PROXY") or ""))

    def holds(self, host: str | Address, port: int) -> bool:
        """Whether `host` is to be reached without a proxy."""
        return any(whole == "*" or (only in (None, port) and is_part_of(host, whole)) for whole, only in self._all)


def _entries(no_proxy: str) -> Iterator[tuple[str | Address, int | None]]:
    """As far as they are names or addresses."""
    for entry in no_proxy.replace(",", " ").split():
        if entry == "*":
            yield entry, None
        with contextlib.suppress(ValueError):
            yield parse_authority(entry.removeprefix("*").removeprefix("."))
