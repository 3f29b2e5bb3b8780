"""The direct client against a provider on this machine: one request each, every failure told apart, no secret told."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from case_fields import fields_of
from loopback import Answer, Half, Hang, Loopback, Reset, Step, Trickle, completion, failure, step_of

from agentctl.agents.models import endpoint
from agentctl.agents.models.body import request_body
from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.protocol import Fault, FinishReason, ModelSpec, ProviderError, RawReply, WireRequest
from agentctl.agents.models.wire import encode
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled, InputError, SetupError
from agentctl.base.messages import Message, Role, Text

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def a_request(text: str = "hi", *, timeout: float = 5.0) -> WireRequest:
    model = ModelSpec(name="openai/some-model")
    messages = [encode(Message(role=Role.USER, parts=(Text(text=text),)), 1, images=lambda ref: b"")]
    body = request_body(model, messages, [], 100)
    return WireRequest("main", model, messages, [], 100, body, timeout)


def send(url: str, request: WireRequest | None = None, cancel: Cancel | None = None) -> RawReply:
    client = DirectClient(url, key=KEY)
    try:
        return client.send(request or a_request(), cancel or Cancel())
    finally:
        client.close()


def outcome(step: Step, *, timeout: float = 5.0) -> RawReply | ProviderError:
    """What one send makes of one step. Whatever it is, one request was sent."""
    with Loopback([step]) as server:
        try:
            return send(server.url, a_request(timeout=timeout))
        except ProviderError as error:
            assert KEY not in repr(error) + str(error) + error.words
            return error
        finally:
            assert len(server.received) == 1


def failed(step: Step, **more: Any) -> ProviderError:
    found = outcome(step, **more)
    assert isinstance(found, ProviderError)
    return found


# Cases that broke others. What a whole run makes of them is tested with the gateway and the loop.

NOT_STREAMED = dict.fromkeys(("PR-10", "OWN-PR-11"), "replies are not streamed yet")


def sends(case: dict[str, Any]) -> bool:
    """Whether a case is about what is sent, and not about what a history holds."""
    return case["kind"] != "mixed-roles"


@pytest.mark.cases("provider", later=NOT_STREAMED, only=sends)
def test_provider_case(case: dict[str, Any]) -> None:
    script = case["input"].get("script")
    assert script, f"{case['id']}: no script to send against"
    steps = [step_of(entry) for entry in script]
    check_outcomes(case, {n: outcome(step, timeout=patience(step)) for n, step in enumerate(steps)})


def patience(step: Step) -> float:
    """Seconds to wait for what comes of a step: few where nothing will come."""
    return 0.4 if isinstance(step, Hang) else 10.0


def check_outcomes(case: dict[str, Any], outcomes: dict[int, RawReply | ProviderError]) -> None:
    """Whether each send ended as the case's kind wants it, so that what decides on retries can do as it expects.

    `outcomes` by the place of what was sent against in the case's script.
    """
    given, exact = fields_of(case)
    if case["kind"] not in ("retry-which", "context-overflow-recognised", "refusal", "usage-missing"):
        pytest.fail(f"this test can't map the kind {case['kind']}")
    for n, found in outcomes.items():
        entry = given["script"][n]
        if entry == "ok":
            assert isinstance(found, RawReply) and found.finish is FinishReason.STOP
            continue
        match case["kind"]:
            case "retry-which":
                assert isinstance(found, ProviderError)
                if n + 1 < exact["calls"]:
                    assert found.fault is Fault.TRANSIENT, found.words
                elif n + 1 == exact["calls"] and n != given.get("max_retries"):  # else the retries were used up
                    assert found.fault is not Fault.TRANSIENT, found.words
                if exact.get("run_aborted"):
                    assert found.fault is Fault.AUTH
                assert found.words
                if seconds := exact.get(f"pause_before_call_{n + 2}_min_s"):
                    assert found.retry_after is not None and found.retry_after >= seconds
                assert found.lost is isinstance(step_of(entry), Reset | Hang)
            case "context-overflow-recognised":
                assert isinstance(found, ProviderError)
                assert found.fault is Fault.CONTEXT
            case "refusal" if isinstance(found, ProviderError):
                assert found.fault is Fault.REFUSED
            case "refusal":
                assert found.finish is FinishReason.REFUSED
                assert (entry.get("usage") or {}).items() <= (found.usage or {}).items()
            case "usage-missing":
                assert isinstance(found, RawReply)
                assert (found.usage or None) == (entry.get("usage") or None)


# The request


def test_the_request_goes_out_to_the_byte() -> None:
    with Loopback([completion("hello")]) as server:
        request = a_request("grüße \U0001f378")
        reply = send(server.url, request)
    (received,) = server.received
    assert received.body == request.body
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["content-type"] == "application/json"
    assert reply.parts == (Text(text="hello"),)
    assert reply.model == "test-model"


@pytest.mark.parametrize("tail", ["", "/", "/chat/completions", "?api-version=1"])
def test_an_address_may_be_written_in_several_ways(tail: str) -> None:
    with Loopback([completion("hello")]) as server:
        send(server.url + tail)
    assert server.received[0].path == "/v1/chat/completions" + ("?api-version=1" if "?" in tail else "")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.com/v1",
        "ftp://example.com",
        "http://",
        "http://a:b/",
        "https://u:secret@h/v1",
        "http://h/ü",
        "http://h/a b",
    ],
)
def test_a_bad_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InputError) as caught:
        DirectClient(address)
    assert "secret" not in str(caught.value)
    assert caught.value.remedy


def test_without_a_key_no_header_is_sent() -> None:
    with Loopback([completion("hello")]) as server:
        DirectClient(server.url).send(a_request(), Cancel())
    assert "authorization" not in server.received[0].headers


def test_a_connection_serves_many_requests() -> None:
    with Loopback([completion("hello")] * 20 + [failure(503, "busy"), completion("hello")]) as server:
        client = DirectClient(server.url, key=KEY)
        for _ in range(20):
            client.send(a_request(), Cancel())
        with pytest.raises(ProviderError):
            client.send(a_request(), Cancel())
        client.send(a_request(), Cancel())
        client.close()
        assert server.connections == 1


@pytest.mark.parametrize("last", [Answer(hang_up=True), Answer(headers={"Connection": "close"})])
def test_a_connection_that_was_closed_meanwhile_is_replaced(last: Answer) -> None:
    ending = Answer(body=completion("one").body, headers=last.headers, hang_up=last.hang_up)
    with Loopback([ending, completion("two")]) as server:
        client = DirectClient(server.url, key=KEY)
        client.send(a_request(), Cancel())
        time.sleep(0.1)
        assert client.send(a_request(), Cancel()).parts == (Text(text="two"),)
        assert len(server.received) == server.connections == 2


def test_a_connection_that_rested_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "IDLE_SECONDS", 0.1)
    with Loopback([completion("hello")] * 3) as server:
        client = DirectClient(server.url, key=KEY)
        for pause in (0.0, 0.0, 0.2):
            time.sleep(pause)
            client.send(a_request(), Cancel())
        assert server.connections == 2


def test_two_threads_send_at_once() -> None:
    slow = Answer(body=completion("hello").body, delay=0.3)
    with Loopback([slow] * 4) as server, ThreadPoolExecutor(4) as pool:
        client = DirectClient(server.url, key=KEY)
        began = time.monotonic()
        replies = [pool.submit(client.send, a_request(), Cancel()) for _ in range(4)]
        assert all(reply.result().parts == (Text(text="hello"),) for reply in replies)
        assert time.monotonic() - began < 1.0


# Failures


def test_nothing_is_lost_where_nothing_was_sent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    with pytest.raises(ProviderError) as caught:
        send(url)
    assert (caught.value.fault, caught.value.lost) == (Fault.TRANSIENT, False)


@pytest.mark.parametrize(
    "step",
    [
        Reset(),
        Hang(),
        Half(completion("x" * 5000)),
        Trickle(completion("late"), 5.0),
        Answer(body=b"<html>hello</html>"),
        Answer(body=b'{"choices": ['),
        Answer(body=b""),
        Answer(body=b"[" * 100_000),
        Answer(body={"id": "no choices"}),
    ],
)
def test_an_answer_that_never_arrived_may_have_been_billed(step: Step) -> None:
    began = time.monotonic()
    error = failed(step, timeout=0.4)
    assert (error.fault, error.lost) == (Fault.TRANSIENT, True)
    assert time.monotonic() - began < 1.0


def test_an_error_answer_is_not_billed() -> None:
    for status in (400, 401, 404, 429, 500, 503, 529):
        assert not failed(failure(status, "no")).lost


def test_blanks_before_the_answer_are_waited_for() -> None:
    found = outcome(Trickle(completion("late"), 0.3))
    assert isinstance(found, RawReply)
    assert found.parts == (Text(text="late"),)


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": formatdate(4e9, usegmt=True)}, 1e9, 4e9),  # a date in 2096: more than thirty years off
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5, 1.5),
    ],
)
def test_the_pause_asked_for_is_told(headers: dict[str, str], least: float, most: float) -> None:
    error = failed(failure(429, "slow down", headers=headers))
    assert error.retry_after is not None
    assert least <= error.retry_after <= most


def test_a_request_refused_before_it_was_read_is_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            body = json.dumps({"error": {"message": "too large"}}).encode()
            connection.sendall(
                b"HTTP/1.1 413 No\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)
            )
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass
            connection.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(ProviderError) as caught:
            send(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", a_request("x" * 5_000_000))
        thread.join(5)
    assert (caught.value.fault, caught.value.status) == (Fault.CONTEXT, 413)


# Secrets


def test_a_key_that_the_provider_repeats_is_cut() -> None:
    for body in (
        {"error": {"message": f"Incorrect API key provided: {KEY}"}},
        {"error": {"message": "x" * 990 + KEY + "y" * 5000}},
        f"<title>{KEY}</title>".encode(),
    ):
        error = failed(Answer(401, body))
        assert KEY not in error.words and KEY[:12] not in error.words
    error = failed(Answer(200, {"choices": [{"error": {"message": f"bad key {KEY}", "code": 401}}]}))
    assert error.words == "bad key [key]"


def test_a_redirect_is_not_followed() -> None:
    with Loopback([completion("stolen")] * 2) as other:
        for status in (301, 302, 307, 308):
            error = failed(Answer(status, b"", {"Location": other.url.replace("127.0.0.1", "localhost")}))
            assert error.fault is Fault.REJECTED
            assert "localhost" in error.words
        assert other.received == []
    assert failed(Answer(302, b"", {"Location": "http://[bad"})).fault is Fault.REJECTED


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Other: 1", f"{KEY} {KEY}", "schlüssel-0123", f"{KEY}\x00"])
def test_a_malformed_key_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(SetupError) as caught:
        DirectClient("http://127.0.0.1:1/v1", key=key, variable="OPENAI_API_KEY")
    assert "OPENAI_API_KEY" in str(caught.value)
    assert KEY not in str(caught.value) and "schlüssel" not in str(caught.value)


def test_blanks_around_a_key_do_not_matter() -> None:
    with Loopback([completion("hello")]) as server:
        DirectClient(server.url, key=f" {KEY}\n").send(a_request(), Cancel())
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


# Stopping


@pytest.mark.parametrize("step", [Hang(), Trickle(completion("late"), 5.0)])
def test_a_stop_is_honoured_while_waiting(step: Step) -> None:
    cancel = Cancel()
    with Loopback([step]) as server:
        timer = threading.Timer(0.2, cancel.set, ["enough"])
        timer.start()
        began = time.monotonic()
        with pytest.raises(Cancelled, match="enough"):
            send(server.url, cancel=cancel)
        assert time.monotonic() - began < 0.7


def test_a_stop_is_honoured_while_a_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: time.sleep(2.0) or [])
    cancel = Cancel()
    threading.Timer(0.2, cancel.set, ["enough"]).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        send("http://slow-name-server.test/v1", cancel=cancel)
    assert time.monotonic() - began < 0.7


def test_nothing_is_sent_after_a_stop() -> None:
    cancel = Cancel()
    cancel.set("enough")
    with Loopback([completion("hello")]) as server:
        with pytest.raises(Cancelled):
            send(server.url, cancel=cancel)
        assert server.connections == 0


def test_a_stopped_or_lost_request_leaves_the_client_usable() -> None:
    cancel = Cancel()
    with Loopback([Hang(), Reset(), Hang(), completion("hello")]) as server:
        client = DirectClient(server.url, key=KEY)
        threading.Timer(0.1, cancel.set, ["enough"]).start()
        with pytest.raises(Cancelled):
            client.send(a_request(), cancel)
        for _ in range(2):
            with pytest.raises(ProviderError):
                client.send(a_request(timeout=0.2), Cancel())
        assert client.send(a_request(), Cancel()).parts == (Text(text="hello"),)


# Proxies and TLS


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
        assert client.send(a_request("y" * 3_000_000), Cancel()).parts == (Text(text="x" * 3_000_000),)
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
