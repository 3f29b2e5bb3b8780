"""The proxy over plain HTTP: each request is checked, and means the same to the server as it did to the check."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from networks import Network, Server, received

from agentctl.tools.sandbox.network import forward

pytest_plugins = ("network_fixtures",)

Make = Callable[..., Any]


@pytest.fixture
def mirror(serve: Make, names: dict[str, str]) -> Server:
    names["mirror.test"] = "127.0.0.1"
    server: Server = serve()
    return server


@pytest.fixture
def net(network: Make, mirror: Server) -> Network:
    made: Network = network("registries", f"mirror.test:{mirror.port}")
    return made


def get(mirror: Server, path: str, *more: str, method: str = "GET", version: str = "1.1") -> bytes:
    host = f"mirror.test:{mirror.port}"
    lines = [f"{method} http://{host}{path} HTTP/{version}", f"Host: {host}", *more, "", ""]
    return "\r\n".join(lines).encode()


def opener(net: Network) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({"http": net.url, "https": net.url}))


def test_a_request_and_its_answer(net: Network, mirror: Server) -> None:
    url = f"http://mirror.test:{mirror.port}/simple/?x=1#here"
    with opener(net).open(url) as answer:
        assert answer.status == 200
        text = answer.read().decode()
    assert text.startswith(f"GET /simple/?x=1 host=mirror.test:{mirror.port} body= ")
    assert net.refused == []


def test_a_body_goes_through(net: Network, mirror: Server) -> None:
    with opener(net).open(f"http://mirror.test:{mirror.port}/a", data=b"x" * 300_000) as answer:
        assert b"body=" + b"x" * 300_000 + b" " in answer.read()
    chunked = (
        get(mirror, "/b", "Transfer-Encoding: chunked", method="POST") + b"3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"
    )
    assert b"body=abcde " in net.say(chunked)
    assert b"x" not in net.say(get(mirror, "/c", method="HEAD")).split(b"\r\n\r\n")[1]


def test_one_who_waits_to_be_told_to_go_on(net: Network, mirror: Server) -> None:
    with net.connect() as connection:
        connection.sendall(get(mirror, "/a", "Expect: 100-continue", "Content-Length: 2", method="POST"))
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(b"ok")
        connection.shutdown(socket.SHUT_WR)
        assert b"body=ok headers=connection content-length host\n" in received(connection)


def test_what_is_about_the_connection_stays_here(net: Network, mirror: Server) -> None:
    own = ["Connection: keep-alive, X-Mine, Content-Length, Host", "X-Mine: 1", "Keep-Alive: 3", "TE: trailers"]
    own += ["Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eA==", "Upgrade: h2c", "X-Other: 2"]
    answer = net.say(get(mirror, "/a", *own, "Content-Length: 2", method="POST") + b"ok")
    assert b"body=ok headers=connection content-length host x-other\n" in answer
    assert b"keep-alive" not in answer.lower()


def test_requests_on_one_connection_are_each_checked(net: Network, mirror: Server) -> None:
    """Also when they come at once, as apt sends them."""
    other = b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"
    posted = get(mirror, "/2", "Content-Length: 2", method="POST") + b"ok"
    answer = net.say(get(mirror, "/1") + other + posted + other + get(mirror, "/3"))
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.count(b"HTTP/1.1 403 Refused by the network policy 'registries': example.com is not a package") == 2
    assert mirror.seen == ["GET /1", "POST /2", "GET /3"]
    assert net.whys() == ["example.com is not a package registry"]


def test_a_redirect_is_checked_like_any_request(net: Network, mirror: Server) -> None:
    for url, why in (
        ("http://codeocean.com/x", "codeocean.com is refused under every policy"),
        (f"http://127.0.0.1:{mirror.port}/", "127.0.0.1 is an address, and hosts are allowed by name"),
    ):
        with pytest.raises(urllib.request.HTTPError) as caught:
            opener(net).open(f"http://mirror.test:{mirror.port}/to/{url}")
        assert caught.value.status == 403
        assert caught.value.reason == f"Refused by the network policy 'registries': {why}"
        assert caught.value.read().decode() == f"{caught.value.reason}\n"
        assert net.whys()[-1] == why


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 400, b"this is a proxy"),
        (b"GET / HTTP/1.0\r\n\r\n", 400, b"this is a proxy"),
        (b"OPTIONS * HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 400, b"this is a proxy"),
        (b"GET https://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 403, b"https by CONNECT"),
        (b"GET ftp://ftp.debian.org/ HTTP/1.1\r\nHost: ftp.debian.org\r\n\r\n", 403, b"https by CONNECT"),
        (b"PUT http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 403, b"PUT to pypi.org is not allowed"),
        (b"PATCH http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 403, b"PATCH to pypi.org is not allowed"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost: codeocean.com\r\n\r\n", 403, b"another Host header"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org:81\r\n\r\n", 403, b"another Host header"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost: a b\r\n\r\n", 403, b"another Host header"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nHost: codeocean.com\r\n\r\n", 400, b"not HTTP"),
        (b"GET http://pypi.org/ HTTP/1.1\r\n\r\n", 400, b"not HTTP"),
        (b"GET http://pypi.org@codeocean.com/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 403, b"a user's name"),
        (b"GET http://pypi.org\\@codeocean.com/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 403, b"a user's name"),
        (b"GET http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", 403, b"[::1] is an address"),
        (b"GET http://0x7f.1/ HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", 403, b"not an address in its usual form"),
        (b"GET http://pypi.org:81/ HTTP/1.1\r\nHost: pypi.org:81\r\n\r\n", 403, b"may not be reached on port 81"),
        (b"GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n", 403, b"not the name of a host"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", 431, b"not HTTP"),
        (
            b"POST http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400,
            b"",
        ),
        (b"POST http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nContent-Length: -1\r\n\r\nab", 400, b""),
        (b"POST http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nTransfer-Encoding: gzip\r\n\r\nab", 501, b""),
        (
            b"POST http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n"
            b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            b"one length",
        ),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nA: b\r\n c\r\n X : y\r\n\r\n", 502, b"can't be resolved"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nHost : pypi.org\r\n\r\n", 400, b"not HTTP"),
        (b"GET  http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 400, b"not HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, b"not HTTP"),
        (b"\r\n\r\nnonsense\r\n\r\n", 400, b"not HTTP"),
    ],
)
def test_requests_that_are_not_carried_out(net: Network, request_: bytes, status: int, why: bytes) -> None:
    answer = net.say(request_)
    first, _, rest = answer.partition(b"\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status), answer
    assert why in first
    assert why in rest  # the body has it too
    assert bool(net.refused) == (status == 403)


def test_a_host_that_does_not_answer(network: Make, names: dict[str, str], mirror: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    net = network("registries", f"mirror.test:{port}")
    lines = f"GET http://mirror.test:{port}/ HTTP/1.1\r\nHost: mirror.test:{port}\r\n\r\n".encode()
    assert net.say(lines).startswith(f"HTTP/1.1 502 mirror.test:{port} can't be reached: ".encode())
    del names["mirror.test"]
    assert net.say(lines).startswith(b"HTTP/1.1 502 mirror.test can't be resolved")
    assert net.refused == []  # no fault of the agent's


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_a_server_that_makes_no_sense(network: Make, names: dict[str, str], answer: bytes) -> None:
    names["mirror.test"] = "127.0.0.1"
    with server_saying(answer) as port:
        said = network("open", f"mirror.test:{port}").say(
            f"GET http://mirror.test:{port}/ HTTP/1.1\r\nHost: mirror.test:{port}\r\n\r\n".encode()
        )
    assert said.startswith(b"HTTP/1.1 502 mirror.test")


def test_an_answer_that_breaks_off_is_seen_to(network: Make, names: dict[str, str]) -> None:
    names["mirror.test"] = "127.0.0.1"
    for head in (b"Content-Length: 100", b"Transfer-Encoding: chunked"):
        with server_saying(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n9\r\nabc" % head) as port:
            net = network("open", f"mirror.test:{port}")
            with (
                pytest.raises((OSError, urllib.request.HTTPError, Exception)) as caught,
                opener(net).open(f"http://mirror.test:{port}/") as answer,
            ):
                answer.read()
            assert type(caught.value).__name__ in ("IncompleteRead", "ConnectionResetError")


def server_saying(answer: bytes) -> Any:
    """A server that gives this answer to one connection. As a context: its port."""
    import contextlib

    @contextlib.contextmanager
    def serving() -> Any:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            yield server.getsockname()[1]
            thread.join(5)

    return serving()


def test_a_name_at_an_address_of_this_machine(network: Make, mirror: Server, names: dict[str, str]) -> None:
    """Whatever a name is said to be: under `open` anyone's, with an address of anyone's choice."""
    net = network("open")
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "10.0.0.1 192.168.1.1"):
        names["rebound.test"] = address
        answer = net.say(b"GET http://rebound.test/ HTTP/1.1\r\nHost: rebound.test\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"rebound.test is not at a public address" in answer
        assert address.encode() not in answer  # what the owner's network looks like is nobody's business
    assert net.whys() == ["rebound.test is not at a public address"]  # and at the 10th time again
    assert mirror.seen == []


def test_one_address_is_looked_up_and_that_one_connected_to(network: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of names that answers first so, then otherwise, is asked once."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def first_public(host: Any, *more: Any, **named: Any) -> Any:
        if host != "rebound.test":
            return real(host, *more, **named)
        asked.append(host)
        address = "192.0.2.1" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    connected: list[str] = []

    async def connect(host: str, port: int, **_: Any) -> Any:
        connected.append(host)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.getaddrinfo", first_public)
    monkeypatch.setattr("asyncio.open_connection", connect)
    net = network("open")
    assert b" 502 " in net.say(b"GET http://rebound.test/ HTTP/1.1\r\nHost: rebound.test\r\n\r\n")
    assert asked == ["rebound.test"]
    assert connected == ["192.0.2.1"]


def test_a_public_address_of_this_machine_itself(
    network: Make, mirror: Server, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loopback address stands for it: what tells it is that the connection ends where it began."""
    monkeypatch.setattr("agentctl.tools.sandbox.network.outward.is_outside", lambda address: True)
    monkeypatch.setattr("agentctl.tools.sandbox.network.policy.PORTS", frozenset((80, mirror.port)))
    names["us.test"] = "127.0.0.1"
    net = network("open")
    host = f"us.test:{mirror.port}"
    answer = net.say(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert b"us.test is not at a public address" in answer
    assert mirror.seen == []


def test_connections_are_bounded(net: Network, mirror: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.tools.sandbox.network.proxy.CONNECTIONS", 3)
    held = [net.connect() for _ in range(3)]
    time.sleep(0.1)
    assert net.say(get(mirror, "/")).startswith(b"HTTP/1.1 503 more than 3 connections")
    more = [net.connect() for _ in range(10)]  # many at once, that don't even read: not one is kept
    time.sleep(0.1)
    assert sum(received(connection) == b"" for connection in more) >= 6
    held.pop().close()
    time.sleep(1.2)  # as long as one who is told to go may take to go
    assert net.say(get(mirror, "/")).startswith(b"HTTP/1.1 200")
    for connection in held:
        connection.close()


def test_who_says_nothing_is_not_waited_for(net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.tools.sandbox.network.proxy.IDLE_SECONDS", 0.2)
    for start in (b"", b"GET http://pypi.org/ HT"):
        with net.connect() as connection:
            connection.sendall(start)
            began = time.monotonic()
            assert connection.recv(100) == b""
            assert time.monotonic() - began < 2


def test_a_server_that_says_nothing_is_not_waited_for(
    network: Make, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "ANSWER_SECONDS", 0.2)
    names["mirror.test"] = "127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"mirror.test:{server.getsockname()[1]}"
        net = network("registries", host)
        assert b" 502 mirror.test" in net.say(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


def test_the_end_cuts_what_is_open(net: Network, mirror: Server) -> None:
    with net.connect() as idle, net.connect() as half:
        half.sendall(get(mirror, "/")[:20])
        time.sleep(0.1)
        began = time.monotonic()
        net.close()
        assert time.monotonic() - began < 1
        for connection in (idle, half):
            assert received(connection) == b""
        with pytest.raises(OSError):
            net.connect()
    net.close()
    assert not any(thread.name == "network proxy" and thread.is_alive() for thread in threading.enumerate())
