"""The direct client against a provider on this machine: what it sends, what it takes, no secret told."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest
import sends
from loopback import Answer, Half, Hang, Loopback, Reset, Step, Trickle, completion, failure
from sends import DIRECT, KEY, a_request, no_proxy
from sends import send_directly as send

from agentctl.agents.models import endpoint
from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.protocol import Fault, ProviderError
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled, InputError, SetupError
from agentctl.base.messages import Text

__all__ = ["no_proxy"]


def failed(step: Step, **more: Any) -> ProviderError:
    return sends.failed(DIRECT, step, **more)


# The request


def test_the_request_goes_out_to_the_byte() -> None:
    with Loopback([completion("hello")]) as server:
        request = a_request(text="grüße \U0001f378")
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
    for whole in (True, False):
        reply = sends.replied(DIRECT, Trickle(completion("late"), 0.3), stream=not whole)
        assert reply.parts == (Text(text="late"),)


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
            send(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", a_request(text="x" * 5_000_000))
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
def test_a_stop_is_honoured_while_waiting_and_the_provider_sees_it(step: Step) -> None:
    cancel = Cancel()
    with Loopback([step]) as server:
        timer = threading.Timer(0.2, cancel.set, ["enough"])
        timer.start()
        began = time.monotonic()
        with pytest.raises(Cancelled, match="enough"):
            send(server.url, cancel=cancel)
        assert time.monotonic() - began < 0.7
        assert server.left.wait(2.0)


def test_nobody_waits_any_longer_than_asked_and_the_provider_sees_it() -> None:
    with Loopback([Hang()]) as server:
        with pytest.raises(ProviderError, match=r"none within 0\.3 s"):
            send(server.url, a_request(timeout=0.3))
        assert server.left.wait(2.0)


def test_what_was_stopped_while_it_connected_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: time.sleep(0.6) or real(*args, **more))
    cancel = Cancel()
    with Loopback([completion("hello")]) as server:
        threading.Timer(0.2, cancel.set, ["enough"]).start()
        with pytest.raises(Cancelled):
            send(server.url, cancel=cancel)
        time.sleep(0.8)
        assert server.received == []


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
