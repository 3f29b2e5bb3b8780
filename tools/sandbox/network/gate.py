"""The gate of a sandbox that may reach something: a door inside, which is a socket, and the proxy behind it outside."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..protocol import SandboxError, SandboxSpec
from .policy import Policy
from .refusals import Refusals

if TYPE_CHECKING:
    from .proxy import Proxy

PORT = 3128  # of the door, at the loopback address inside
OPEN_SECONDS = 20.0
_URL = f"http://127.0.0.1:{PORT}"
_DIRECT = "localhost,127.0.0.1"  # servers that the agent starts itself. No ::1: older httpx fails at the sight of it


def proxy_variables() -> dict[str, str]:
    """What tells the programs inside of the door. Both cases: some read the one, some the other."""
    names = {"http_proxy": _URL, "https_proxy": _URL, "all_proxy": _URL, "no_proxy": _DIRECT}
    return names | {name.upper(): value for name, value in names.items()}


class Gate:
    """Made before the sandbox, opened once its first process has handed out the door, closed with the sandbox.

    InputError for a host in `spec.allow_hosts` that can't be allowed.
    """

    def __init__(self, spec: SandboxSpec, owner_env: Mapping[str, str], refusals: Refusals) -> None:
        assert spec.network != "none"
        from .outward import Outward
        from .proxy import Proxy

        self._proxy: Proxy = Proxy(Policy(spec.network, spec.allow_hosts), Outward(owner_env), refusals)
        self._ours, self.theirs = socket.socketpair()

    def open(self) -> None:
        """Take the door and serve it. SandboxError where it is not handed out."""
        self.theirs.close()
        self._ours.settimeout(OPEN_SECONDS)
        try:
            _, doors, _, _ = socket.recv_fds(self._ours, 16, 1)
        except OSError as error:
            raise SandboxError(f"the sandbox gave no door to its network: {error}") from error
        if not doors:
            raise SandboxError("the sandbox gave no door to its network")
        self._proxy.start(socket.socket(fileno=doors[0]))

    def close(self) -> None:
        """Nothing gets out any more. Safe to call twice."""
        self._proxy.close()
        self.theirs.close()
        self._ours.close()
