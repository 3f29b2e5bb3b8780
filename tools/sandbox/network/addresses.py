"""Addresses that the outside never is: this machine, its network, and what a cloud serves to its machines.

The ranges are named here one by one. Python's own `is_private` and `is_global` follow a registry that changes between
its versions, and count ranges as private in which a public host may well be answered for (documentation, benchmarks).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from .names import Address

_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this host" (RFC 1122): Linux connects to itself there
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # shared by a carrier's customers (RFC 6598); some clouds' metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's services to its machines
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments (RFC 6890); Oracle's metadata
        "192.168.0.0/16",  # private
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_V6 = tuple(
    IPv6Network(text)
    for text in (
        "::/128",  # unspecified
        "::1/128",  # loopback
        "64:ff9b:1::/48",  # translation to a local network's IPv4 (RFC 8215)
        "fc00::/7",  # unique local (RFC 4193); AWS's metadata
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, as long as someone honours it
        "ff00::/8",  # multicast
    )
)
# IPv6 addresses that stand for one of IPv4: (range, bits to the right of it).
_EMBEDDED = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)


def is_outside(address: Address) -> bool:
    """Whether `address` may be a host of the public network."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _V4)
    if any(address in network for network in _V6):
        return False
    return all(is_outside(_embedded(address, bits)) for network, bits in _EMBEDDED if address in network)


def _embedded(address: IPv6Address, bits: int) -> IPv4Address:
    return IPv4Address((int(address) >> bits) & 0xFFFFFFFF)
