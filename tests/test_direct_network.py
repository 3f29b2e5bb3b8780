"""The direct client through proxies and TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback import Half, Hang, Loopback, Trickle, completion
from sends import KEY, a_request, no_proxy
from sends import send_directly as send

from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.protocol import Fault, ProviderError
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled, SetupError
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


def test_a_proxy_of_another_kind_is_refused_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(SetupError, match="socks5"):
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
