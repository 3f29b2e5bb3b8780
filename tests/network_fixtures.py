"""Fixtures for tests of the network policy. Used by `pytest_plugins = ("network_fixtures",)`."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from networks import Network, Server

from agentctl.tools.sandbox.network import outward
from agentctl.tools.sandbox.network.names import Address
from agentctl.tools.sandbox.network.outward import Unreachable
from agentctl.tools.sandbox.network.policy import Policy


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names that the proxy resolves, to addresses (several with blanks between). Others can't be resolved."""
    known: dict[str, str] = {}

    async def resolve(name: str) -> list[Address]:
        if name not in known:
            raise Unreachable(f"{name} can't be resolved")
        return [ip_address(address) for address in known[name].split()]

    monkeypatch.setattr(outward, "resolve", resolve)
    return known


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with contextlib.ExitStack() as stack:

        def make(*arguments: object, **more: object) -> Server:
            server = Server(*arguments, **more)  # type: ignore[arg-type]
            stack.callback(server.close)
            return server

        yield make


@pytest.fixture
def network() -> Iterator[Callable[..., Network]]:
    """`network("registries", "mirror.test:8080")`: a proxy with that policy and these hosts besides."""
    with contextlib.ExitStack() as stack:

        def make(name: str, *allow: str, owner_env: dict[str, str] | None = None) -> Network:
            made = Network(Policy(name, allow), owner_env or {})  # type: ignore[arg-type]
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for *.test with its key, in one file, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("certificate")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    made += ["-addext", "subjectAltName=DNS:mirror.test,DNS:other.test,IP:127.0.0.2"]
    made += ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    subprocess.run(made, check=True, capture_output=True)
    whole = folder / "whole.pem"
    whole.write_text((folder / "certificate").read_text() + (folder / "key").read_text())
    return whole
