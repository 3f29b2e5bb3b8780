"""CONNECT: a tunnel for TLS to the host that was asked for, and for nothing else. With real TLS on both ends."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from client_hello import made_hello, real_hello, records, server_name
from networks import Network, Server, received

from agentctl.tools.sandbox.network import tunnel

pytest_plugins = ("network_fixtures",)

Make = Callable[..., Any]
ALERT = b"\x15\x03\x01\x00\x02\x02\x31"  # fatal: access denied


@pytest.fixture
def mirror(serve: Make, names: dict[str, str], certificate: Path) -> Server:
    names["mirror.test"] = "127.0.0.1"
    names["other.test"] = "127.0.0.1"
    server: Server = serve(certificate)
    return server


@pytest.fixture
def net(network: Make, mirror: Server) -> Network:
    made: Network = network("registries", f"mirror.test:{mirror.port}")
    return made


def asked(net: Network, target: str, *first: bytes) -> socket.socket:
    """A connection that asked for a tunnel; `first` follows without waiting for the answer."""
    connection = net.connect()
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode() + b"".join(first))
    return connection


def answer(connection: socket.socket) -> bytes:
    """The head of the proxy's answer."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        head += byte
    return head


def request_over_tls(connection: socket.socket, certificate: Path, name: str, body: bytes = b"") -> bytes:
    context = ssl.create_default_context(cafile=str(certificate))
    with context.wrap_socket(connection, server_hostname=name) as secure:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        method = "POST" if body else "GET"
        secure.sendall(f"{method} /x HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n{length}\r\n".encode() + body)
        return received(secure)


def test_tls_to_an_allowed_host(net: Network, mirror: Server, certificate: Path) -> None:
    connection = asked(net, f"mirror.test:{mirror.port}")
    assert answer(connection) == b"HTTP/1.1 200 Connection established\r\n\r\n"
    body = b"x" * 1_000_000
    assert b"body=" + body + b" " in request_over_tls(connection, certificate, "mirror.test", body)
    assert net.refused == []


@pytest.mark.parametrize("spelling", ["MIRROR.test", "mirror.test."])
def test_the_same_name_in_other_letters(net: Network, mirror: Server, certificate: Path, spelling: str) -> None:
    connection = asked(net, f"{spelling}:{mirror.port}")
    assert b" 200 " in answer(connection)
    assert b"GET /x" in request_over_tls(connection, certificate, "mirror.test")


def test_a_client_that_does_not_wait_for_the_answer(net: Network, mirror: Server) -> None:
    for data in (real_hello("mirror.test"), records(real_hello("mirror.test")[5:], 100)):
        with asked(net, f"mirror.test:{mirror.port}", data[:50]) as connection:
            assert b" 200 " in answer(connection)
            for at in range(50, len(data), 70):
                connection.sendall(data[at : at + 70])
            assert connection.recv(3) == b"\x16\x03\x03"  # the server's own hello


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (real_hello("other.test"), "asks for other.test"),
        (real_hello("codeocean.com"), "asks for codeocean.com"),
        (real_hello("test"), "asks for test"),
        (real_hello("www.mirror.test"), "asks for www.mirror.test"),
        (real_hello(None), "names no server"),
        (records(made_hello(server_name(b""))), "asks for "),
        (records(made_hello(server_name(b"mirror.test\0.codeocean.com"))), "asks for mirror.test\\x00.codeocean.com"),
        (records(made_hello(server_name(b"mirror.test"), (0xFE0D, b"\0" * 9))), "hides the name of its server"),
        (records(made_hello(server_name(b"mirror.test"), server_name(b"codeocean.com"))), "is not TLS"),
        (b"GET / HTTP/1.1\r\nHost: codeocean.com\r\n\r\n", "is not TLS"),
        (b"SSH-2.0-OpenSSH_9\r\n", "is not TLS"),
    ],
)
def test_what_does_not_agree_is_cut(net: Network, mirror: Server, data: bytes, why: str) -> None:
    with asked(net, f"mirror.test:{mirror.port}") as connection:
        assert b" 200 " in answer(connection)
        connection.sendall(data)
        assert received(connection) == ALERT
    assert [why in refusal.why and "mirror.test" in refusal.why for refusal in net.refused] == [True]
    assert net.refused[0].port == mirror.port
    assert mirror.seen == []


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("codeocean.com:443", "codeocean.com is refused under every policy"),
        ("example.com:443", "example.com is not a package registry"),
        ("127.0.0.1:443", "127.0.0.1 is an address, and hosts are allowed by name"),
        ("[::1]:443", "[::1] is an address, and hosts are allowed by name"),
        ("[2a04:4e42::223]:443", "[2a04:4e42::223] is an address, and hosts are allowed by name"),
        ("3232235777:443", "3232235777:443: that is not an address in its usual form"),
        ("pypi.org@codeocean.com:443", "pypi.org@codeocean.com:443: a user's name before the host is not allowed"),
        ("pypi.org:22", "pypi.org may not be reached on port 22"),
        ("mirror.test:443", "mirror.test is not a package registry"),
        ("pypi.org", "pypi.org: a port is missing"),
        ("http://pypi.org/", "http://pypi.org/: that is not a host and a port"),
    ],
)
def test_tunnels_that_are_refused(net: Network, target: str, why: str) -> None:
    with asked(net, target) as connection:
        connection.shutdown(socket.SHUT_WR)
        said = received(connection)
    line = f"Refused by the network policy 'registries': {why}"
    assert said.startswith(f"HTTP/1.1 403 {line}\r\n".encode())
    assert said.endswith(f"\r\n\r\n{line}\n".encode())
    assert net.whys() == [why]


def test_after_a_refused_tunnel_the_connection_goes_on(net: Network, mirror: Server, certificate: Path) -> None:
    connection = asked(net, "example.com:443")
    head = answer(connection)
    assert b" 403 " in head
    connection.recv(1000)
    target = f"mirror.test:{mirror.port}"
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert b" 200 " in answer(connection)
    assert b"GET /x" in request_over_tls(connection, certificate, "mirror.test")


def test_an_address_that_the_user_allows(network: Make, serve: Make, certificate: Path) -> None:
    server = serve(certificate, "127.0.0.2")
    net = network("registries", f"127.0.0.2:{server.port}")
    connection = asked(net, f"127.0.0.2:{server.port}")
    assert b" 200 " in answer(connection)
    assert b"GET /x" in request_over_tls(connection, certificate, "127.0.0.2")
    with asked(net, f"127.0.0.2:{server.port}", real_hello("other.test")) as connection:
        assert b" 200 " in answer(connection)
        assert received(connection) == ALERT
    assert net.whys() == ["TLS through the tunnel to 127.0.0.2 asks for other.test"]


def test_a_client_that_says_nothing_or_leaves(net: Network, mirror: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "HELLO_SECONDS", 0.2)
    for first in (b"", b"\x16\x03", real_hello("mirror.test")[:100]):
        with asked(net, f"mirror.test:{mirror.port}", first) as connection:
            assert b" 200 " in answer(connection)
            assert received(connection) == b""
        with asked(net, f"mirror.test:{mirror.port}", first) as connection:
            connection.shutdown(socket.SHUT_WR)
            assert b" 200 " in answer(connection)
            assert received(connection) == b""


def test_an_end_of_one_side_leaves_the_other(network: Make, names: dict[str, str]) -> None:
    """A client may be done with sending long before the server is."""
    names["mirror.test"] = "127.0.0.1"
    hello = real_hello("mirror.test")
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = f"mirror.test:{server.getsockname()[1]}"
        with asked(network("registries", target), target, hello) as connection:
            theirs, _ = server.accept()
            with theirs:
                assert b" 200 " in answer(connection)
                connection.shutdown(socket.SHUT_WR)
                assert received(theirs) == hello
                theirs.sendall(b"late")
            assert received(connection) == b"late"


# --- through the owner's proxy ---


@contextlib.contextmanager
def owners_proxy(status: bytes = b"200 OK", *, certificate: Path | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy as companies have them, at 127.0.0.2: port, and the heads of requests. A tunnel leads to the port that it
    is asked for."""
    heads: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate:
        context.load_cert_chain(certificate)

    def serve(raw: socket.socket) -> None:
        with context.wrap_socket(raw, server_side=True) if certificate else raw as client:
            head = answer(client)
            heads.append(head)
            client.sendall(b"HTTP/1.1 %s\r\n\r\n" % status if head.startswith(b"CONNECT") else plain)
            if status.startswith(b"200") and head.startswith(b"CONNECT"):
                port = int(head.split()[1].rpartition(b":")[2])
                with socket.create_connection(("127.0.0.1", port)) as there:
                    back = threading.Thread(target=carry, args=(there, client), daemon=True)
                    back.start()
                    carry(client, there)
                    back.join()

    def carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nthrough"
    with socket.create_server(("127.0.0.2", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], heads
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", ["http", "https"])
def test_through_the_owners_proxy(
    network: Make,
    mirror: Server,
    certificate: Path,
    names: dict[str, str],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names.clear()  # on such networks names of the outside may not resolve
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with owners_proxy(certificate=certificate if kind == "https" else None) as (port, heads):
        env = {f"{scheme}_proxy": f"{kind}://me:secret@127.0.0.2:{port}" for scheme in ("http", "https")}
        net = network("registries", f"mirror.test:{mirror.port}", owner_env=env)
        connection = asked(net, f"mirror.test:{mirror.port}")
        assert b" 200 " in answer(connection)
        assert b"GET /x" in request_over_tls(connection, certificate, "mirror.test")
        assert heads[0].startswith(f"CONNECT mirror.test:{mirror.port} HTTP/1.1\r\n".encode())
        said = net.say(b"GET http://deb.debian.org/a?b HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n")
        assert said.endswith(b"through")
        assert heads[1].startswith(b"GET http://deb.debian.org/a?b HTTP/1.1\r\nhost: deb.debian.org\r\n")
        assert all(b"\r\nproxy-authorization: Basic bWU6c2VjcmV0\r\n" in head for head in heads)
        assert b" 403 " in net.say(b"CONNECT codeocean.com:443 HTTP/1.1\r\nHost: codeocean.com\r\n\r\n")
        assert len(heads) == 2


def test_the_owners_proxy_is_no_way_into_their_network(network: Make, names: dict[str, str]) -> None:
    names["intranet.test"] = "10.0.0.1"
    with owners_proxy() as (port, heads):
        net = network("open", owner_env={"all_proxy": f"127.0.0.2:{port}"})
        said = net.say(b"GET http://intranet.test/ HTTP/1.1\r\nHost: intranet.test\r\n\r\n")
    assert b"intranet.test is not at a public address" in said
    assert heads == []


def test_an_owners_proxy_that_refuses(network: Make, names: dict[str, str]) -> None:
    with owners_proxy(b"407 Password") as (port, _):
        net = network("registries", owner_env={"https_proxy": f"127.0.0.2:{port}"})
        said = net.say(b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 502 the proxy 127.0.0.2 does not connect to pypi.org:443: it answers 407")
    said = net.say(b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 502 the proxy 127.0.0.2 can't be reached")
    assert net.refused == []
