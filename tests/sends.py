"""What tests of the clients share: a request, and what one send of it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from loopback import Hang, Loopback, Step

from agentctl.agents.models.body import request_body
from agentctl.agents.models.direct import DirectClient
from agentctl.agents.models.litellm_client import LitellmClient
from agentctl.agents.models.protocol import ModelClient, ModelSpec, ProviderError, RawReply, WireRequest
from agentctl.agents.models.wire import encode, encode_tool
from agentctl.base.cancel import Cancel
from agentctl.base.messages import Message, Role, Text, ToolSpec

KEY = "sk-test-0123456789abcdef"
TOOL = encode_tool(ToolSpec(name="bash", description="Runs it.", parameters={"type": "object", "properties": {}}))
CHAT = "openai/gpt-4o"
CLAUDE = "anthropic/claude-sonnet-4-5"
DIRECT, CHAT_BY_LITELLM, CLAUDE_BY_LITELLM = WAYS = (("direct", CHAT), ("litellm", CHAT), ("litellm", CLAUDE))
"""The ways to a provider: which client, and the model, whose route says in which form it speaks."""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def a_request(
    name: str = CHAT,
    base: str | None = None,
    *,
    text: str = "hi",
    messages: Sequence[Message] = (),
    timeout: float = 5.0,
    marked: tuple[int, ...] = (),
    **model: Any,
) -> WireRequest:
    spec = ModelSpec.model_validate({"name": name, "api_base": base, "client": "litellm"} | model)
    said = messages or (Message(role=Role.USER, parts=(Text(text=text),)),)
    encoded = [encode(message, n, images=lambda ref: b"") for n, message in enumerate(said, 1)]
    body = request_body(spec, encoded, [TOOL], spec.output_limit)
    return WireRequest("main", spec, encoded, [TOOL], spec.output_limit, body, timeout, marked)


def send_directly(url: str, request: WireRequest | None = None, cancel: Cancel | None = None) -> RawReply:
    """The reply from the endpoint at `url`."""
    client = DirectClient(url, key=KEY)
    try:
        return client.send(request or a_request(), cancel or Cancel())
    finally:
        client.close()


@contextmanager
def provider(way: tuple[str, str], steps: Sequence[Step]) -> Iterator[tuple[Loopback, ModelClient, str]]:
    """A provider on this machine, a client for it, and its address as the way wants it."""
    client, name = way
    with Loopback(steps) as server:
        base = server.url if name == CHAT else server.url.removesuffix("/v1")
        sender: ModelClient = DirectClient(server.url, key=KEY) if client == "direct" else LitellmClient(key=KEY)
        try:
            yield server, sender, base
        finally:
            sender.close()


def outcome(way: tuple[str, str], step: Step, **more: Any) -> RawReply | ProviderError:
    """What one send makes of one step. Whatever it is, one request was sent, and no key told."""
    with provider(way, [step] * 3) as (server, client, base):
        try:
            return client.send(a_request(way[1], base, **more), Cancel())
        except ProviderError as error:
            assert KEY not in repr(error) + str(error) + error.words
            return error
        finally:
            assert len(server.received) == 1


def replied(way: tuple[str, str], step: Step, **more: Any) -> RawReply:
    found = outcome(way, step, **more)
    assert isinstance(found, RawReply), repr(found)
    return found


def failed(way: tuple[str, str], step: Step, **more: Any) -> ProviderError:
    found = outcome(way, step, **more)
    assert isinstance(found, ProviderError), repr(found)
    return found


def patience(step: Step) -> float:
    """Seconds to wait for what comes of a step: few where nothing will come."""
    return 0.4 if isinstance(step, Hang) else 10.0
