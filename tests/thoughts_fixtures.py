"""For tests: an agent that answers in JSON thoughts, and the fast model that sums up its steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentctl.agents.models.protocol import ModelSpec, RawReply, WireRequest
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.route import Route
from agentctl.agents.pricing import Free, Pricing
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.base.cancel import Cancel


def scaffold(**fields: Any) -> Scaffold:
    """The plain scaffold with AutoGPT's protocol and history, and with `fields`."""
    return load_scaffold("plain").model_copy(update={"protocol": "thoughts", "history": "autogpt", **fields})


def says(text: str, finish: str = "stop") -> dict[str, Any]:
    """A turn of words."""
    return {"message": {"role": "assistant", "content": text}, "finish_reason": finish}


def uses(name: str, arguments: dict[str, Any], thought: str = "go on") -> dict[str, Any]:
    """A turn with one command, as it should be."""
    thoughts = {"observations": "o", "text": thought, "reasoning": "r", "self_criticism": "c", "plan": ["p"]}
    return says(json.dumps({"thoughts": thoughts, "use_tool": {"name": name, "arguments": arguments}}))


FINISH = uses("finish", {})


class Fast:
    """A model whose answers are `answers` in order (the last for ever), and that keeps what it was asked."""

    kind = "script"

    def __init__(self, *answers: str | Exception) -> None:
        self._answers: Sequence[str | Exception] = answers or ("it was done",)
        self.requests: list[WireRequest] = []

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.requests.append(request)
        answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return decode_reply({"choices": [says(answer)]})

    def close(self) -> None:
        pass

    @property
    def asked(self) -> list[str]:
        return [str(message.tree["content"]) for request in self.requests for message in request.messages]

    def route(self, price: Pricing | None = None, window: int = 128_000) -> Route:
        return Route(ModelSpec(name="fast"), self, price or Free(name="fast"), context_window=window)
