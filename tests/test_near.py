"""A server near by that is not there: told soon, with what to do, for none comes back by itself."""

from __future__ import annotations

import errno
import socket

import pytest
from gateway_bench import bench, overloaded, reply
from sends import DIRECT, KEY, WAYS, a_request, no_proxy

from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.gateway import ModelFailed
from agentctl.agents.models.litellm_client import LitellmClient
from agentctl.agents.models.near import is_near, nobody_at
from agentctl.agents.models.protocol import Fault, ModelClient, ProviderError
from agentctl.base.cancel import Cancel

__all__ = ["no_proxy"]  # for every test here

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
AWAY = OSError(errno.EHOSTUNREACH, "No route to host")
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
SLOW = TimeoutError("timed out")
BUSY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("http://localhost:8000/v1", REFUSED, "http://localhost:8000"),
        ("http://[::1]:8000/v1", REFUSED, "http://[::1]:8000"),
        ("http://me:secret@10.1.2.3:8000/v1", AWAY, "http://10.1.2.3:8000"),
        ("http://gpu1:8000/v1", UNKNOWN, "http://gpu1:8000"),
        ("http://gpu1:8000/v1", BUSY, ""),
        ("http://localhost:8000/v1", SLOW, ""),
        ("https://api.openai.com/v1", REFUSED, ""),
        ("https://api.openai.com/v1", UNKNOWN, ""),
        ("", REFUSED, ""),
    ],
)
def test_which_failures_say_that_nobody_is_there(url: str, error: OSError, told: str) -> None:
    wrapped = RuntimeError("no connection")
    wrapped.__cause__ = error
    assert nobody_at(url, wrapped) == (f"no server listens at {told}: start it, or correct the address" if told else "")


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("http://localhost/v1", True),
        ("http://127.0.0.1:1/v1", True),
        ("http://192.168.1.9/v1", True),
        ("http://gpu1.local/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_what_is_near(address: str, near: bool) -> None:
    assert is_near(address) is near


@pytest.mark.parametrize("way", WAYS)
def test_each_client_tells_a_server_that_is_not_there(way: tuple[str, str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    client: ModelClient = DirectClient(f"{address}/v1", key=KEY) if way == DIRECT else LitellmClient(key=KEY)
    with pytest.raises(ProviderError) as caught:
        client.send(a_request(way[1], f"{address}/v1"), Cancel())
    error = caught.value
    assert (error.fault, error.lost, error.absent) == (Fault.TRANSIENT, False, True)
    assert f"no server listens at {address}: start it" in error.words


def test_a_proxy_that_is_not_there_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://localhost:9")
    with pytest.raises(ProviderError, match=r"no server listens at http://localhost:9: start it") as caught:
        DirectClient("http://api.example.com/v1", key=KEY).send(a_request(), Cancel())
    assert caught.value.absent


def test_nobody_waits_long_for_a_server_that_is_not_there() -> None:
    made = bench(*[overloaded(absent=True)] * 9)
    with pytest.raises(ModelFailed):
        made.ask()
    assert made.time.pauses == [1.25, 2.5]


def test_a_server_that_comes_soon_is_waited_for() -> None:
    made = bench(overloaded(absent=True), overloaded(), overloaded(), overloaded(), reply())
    assert made.ask().sends == 5
