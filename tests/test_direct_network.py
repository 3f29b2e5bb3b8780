"""The direct client through proxies and TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from loopback import Half, Hang, Loopback, Trickle, completion
from sends import KEY, a_request, no_proxy
from sends import send_directly as send

from agentctl.agents.models import endpoint
from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.make import make_client
from agentctl.agents.models.protocol import Fault, ModelSpec, ProviderError
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled, InputError
from agentctl.base.messages import Text

__all__ = ["no_proxy"]


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback([completion("hello")] * 2) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{proxy.port}")
        send("http://models.invalid/v1")
        assert proxy.received[0].path == "http://models.invalid/v1/chat/completions"
        assert proxy.received[0].headers["host"] == "models.invalid"
        assert proxy.received[0].headers["proxy-authorization"] == "Basic dXNlcjpwQHNz"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        send(proxy.url)
        assert proxy.received[1].path == "/v1/chat/completions"
        assert "proxy-authorization" not in proxy.received[1].headers


def test_keys_and_the_proxy_come_from_the_same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Loopback([completion("hello")] * 3) as proxy:
        ours = {"OPENAI_API_KEY": KEY, "HTTP_PROXY": f"127.0.0.1:{proxy.port}", "no_proxy": ".corp, 127.0.0.1:80"}
        for base in ("http://models.invalid/v1", proxy.url):
            client = make_client(ModelSpec(name="m", api_base=base), ours)
            client.send(a_request(), Cancel())
            assert proxy.received[-1].path == f"{base}/chat/completions"
            assert proxy.received[-1].headers["authorization"] == f"Bearer {KEY}"
        make_client(ModelSpec(name="m", api_base=proxy.url), {"OPENAI_API_KEY": KEY}).send(a_request(), Cancel())
        assert proxy.received[-1].path == "/v1/chat/completions"


def test_a_proxy_of_another_kind_is_refused_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(InputError, match="socks5"):
        DirectClient("https://models.invalid/v1")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *command.split(), "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem"


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    return context


def test_over_tls_all_is_the_same(monkeypatch: pytest.MonkeyPatch, certificate: Path, tls: ssl.SSLContext) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    big = completion("x" * 3_000_000)
    with Loopback(
        [completion("one"), big, Trickle(completion("late"), 0.3), Hang(), Half(big), Hang()], tls=tls
    ) as server:
        client = DirectClient(server.url, key=KEY)
        assert client.send(a_request(), Cancel()).parts == (Text(text="one"),)
        assert client.send(a_request(text="y" * 3_000_000), Cancel()).parts == (Text(text="x" * 3_000_000),)
        assert client.send(a_request(), Cancel()).parts == (Text(text="late"),)
        assert server.connections == 1
        for _ in range(2):
            with pytest.raises(ProviderError) as caught:
                client.send(a_request(timeout=0.3), Cancel())
            assert caught.value.lost
        cancel = Cancel()
        threading.Timer(0.2, cancel.set, ["enough"]).start()
        with pytest.raises(Cancelled):
            client.send(a_request(), cancel)


def test_a_certificate_that_is_not_trusted_ends_it(tls: ssl.SSLContext) -> None:
    with Loopback([completion("hello")], tls=tls) as server:
        with pytest.raises(ProviderError) as caught:
            send(server.url)
        assert (caught.value.fault, caught.value.lost) == (Fault.REJECTED, False)
        assert server.received == []


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where `serve` gets each connection; closed at the end."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    serve(connection)

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def read_request(connection: socket.socket) -> None:
    """Read one request, to the end of its body."""
    with connection.makefile("rb") as file:
        length = 0
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        file.read(length)


@pytest.mark.parametrize("record", [b"\x17\x03\x03\x00\x20" + bytes(32), b"no TLS at all"])
def test_what_breaks_in_tls_after_the_request_was_sent_is_lost(
    record: bytes, monkeypatch: pytest.MonkeyPatch, certificate: Path, tls: ssl.SSLContext
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    def serve(connection: socket.socket) -> None:
        secure = tls.wrap_socket(connection, server_side=True)
        read_request(secure)
        with socket.socket(fileno=secure.detach()) as bare:
            bare.sendall(record)

    with serving(serve) as port, pytest.raises(ProviderError) as caught:
        send(f"https://127.0.0.1:{port}/v1")
    assert (caught.value.fault, caught.value.lost) == (Fault.TRANSIENT, True)


def test_what_breaks_before_it_is_sent_is_not_lost() -> None:
    with serving(lambda connection: connection.sendall(b"no TLS at all")) as port, pytest.raises(ProviderError) as told:
        send(f"https://127.0.0.1:{port}/v1")
    assert (told.value.fault, told.value.lost) == (Fault.TRANSIENT, False)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ProviderError) as told:
        send(f"https://127.0.0.1:{silent.getsockname()[1]}/v1", a_request(timeout=0.3))
    assert (told.value.fault, told.value.lost) == (Fault.TRANSIENT, False)


def test_a_long_request_may_take_longer_than_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "CONNECT_SECONDS", 0.3)
    answer = completion("hello").data()

    def serve(connection: socket.socket) -> None:
        time.sleep(1.0)
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))

    with serving(serve) as port:
        reply = send(f"http://127.0.0.1:{port}/v1", a_request(text="y" * 30_000_000, timeout=20.0, stream=False))
    assert reply.parts == (Text(text="hello"),)


def test_a_body_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LARGEST_BODY", 1000)
    with Loopback([completion("x" * 2000)]) as server, pytest.raises(ProviderError, match="1,000 bytes") as caught:
        send(server.url, a_request(stream=False))
    assert caught.value.lost


@pytest.fixture
def tunnel() -> Iterator[Callable[[], tuple[int, list[bytes]]]]:
    """A proxy that answers CONNECT: starts it and gives its port and the heads of the requests it got."""
    listener = socket.create_server(("127.0.0.1", 0))
    heads: list[bytes] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(1 << 16):
            sink.sendall(data)

    def serve() -> None:
        connection, _ = listener.accept()
        heads.append(connection.recv(1 << 16))
        host, port = heads[0].split()[1].decode().split(":")
        upstream = socket.create_connection((host, int(port)))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=pump, args=(upstream, connection), daemon=True).start()
        pump(connection, upstream)

    def start() -> tuple[int, list[bytes]]:
        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1], heads

    yield start
    listener.close()


def test_tls_goes_through_a_proxy_as_a_tunnel(
    monkeypatch: pytest.MonkeyPatch,
    certificate: Path,
    tls: ssl.SSLContext,
    tunnel: Callable[[], tuple[int, list[bytes]]],
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    port, heads = tunnel()
    with Loopback([completion("hello")], tls=tls) as server:
        monkeypatch.setenv("https_proxy", f"http://user:pass@127.0.0.1:{port}")
        assert send(server.url).parts == (Text(text="hello"),)
        assert server.received[0].path == "/v1/chat/completions"
        assert "proxy-authorization" not in server.received[0].headers
    assert heads[0].startswith(b"CONNECT 127.0.0.1:")
    assert b"proxy-authorization: basic " in heads[0].lower()
    assert KEY.encode() not in heads[0]


def test_a_proxy_that_refuses_the_tunnel_means_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback() as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(ProviderError) as caught:
            send("https://models.invalid/v1")
    assert not caught.value.lost
