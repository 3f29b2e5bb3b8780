"""A whole request in OpenAI chat form, made of the bytes that its messages and tools were encoded to."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agentctl.base.jsonio import dumps

from .protocol import EncodedMessage, EncodedTool, ModelSpec
from .wire import sent_name

_REASONING_NAMES = re.compile(r"(o[1-9]|gpt-[5-9])\b")  # OpenAI's that refuse `max_tokens`, and any temperature
_END = b"]}"


def fixes_temperature(model: ModelSpec) -> bool:
    """Whether no temperature but the provider's own is taken: OpenAI's reasoning models, whoever thinks by budget."""
    return model.thinking_budget is not None or bool(_REASONING_NAMES.match(sent_name(model).rpartition("/")[2]))


@dataclass(frozen=True)
class Body:
    """The bytes of a request, and their SHA-256 in hex."""

    data: bytes
    digest: str


def request_body(
    model: ModelSpec, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool], output_limit: int
) -> bytes:
    """The whole request. What was encoded is joined as it is; `output_limit` is in tokens."""
    return _whole(_head(model, tools, output_limit), messages)


def _whole(head: bytes, messages: Sequence[EncodedMessage]) -> bytes:
    return b"".join((head, b",".join([message.body for message in messages]), _END))


def _head(model: ModelSpec, tools: Sequence[EncodedTool], output_limit: int) -> bytes:
    """All that stands before the first message."""
    offered = b',"tools":[' + b",".join([tool.body for tool in tools]) + b"]" if tools else b""
    rest = dumps(parameters(model, output_limit))[1:-1]
    return dumps({"model": sent_name(model)})[:-1] + offered + b"," + rest + b',"messages":['


def parameters(model: ModelSpec, output_limit: int) -> dict[str, Any]:
    """All of a request but the model's name, its tools and messages."""
    new = _REASONING_NAMES.match(sent_name(model).rpartition("/")[2])
    given: dict[str, Any] = {
        "max_completion_tokens" if new else "max_tokens": output_limit,
        "temperature": model.temperature,
        "top_p": model.top_p,
        "seed": model.seed,
        "reasoning_effort": model.effort,
        "service_tier": None if model.service == "standard" else model.service,
        "thinking": model.thinking_budget and {"type": "enabled", "budget_tokens": model.thinking_budget},
        "stream": model.stream or None,
        "stream_options": {"include_usage": True} if model.stream else None,
    }
    return {name: value for name, value in given.items() if value is not None} | model.extra


class BodyMaker:
    """Makes the requests of one role, one after another. May be used from several threads.

    A history grows at its end, so what the last request began with is hashed once: else each step of a long attempt
    would cost more than the one before.
    """

    def __init__(self, model: ModelSpec) -> None:
        self._model = model
        self._head = b""
        self._hashed: tuple[EncodedMessage, ...] = ()
        self._hash = sha256()
        self._lock = threading.Lock()

    def make(self, messages: tuple[EncodedMessage, ...], tools: Sequence[EncodedTool], output_limit: int) -> Body:
        """The request of `messages` and `tools` that allows a reply of `output_limit` tokens."""
        head = _head(self._model, tools, output_limit)
        with self._lock:
            known = len(self._hashed)
            if head != self._head or messages[:known] != self._hashed:
                self._head, self._hash, known = head, sha256(head), 0
            for n, message in enumerate(messages[known:], start=known):
                self._hash.update(b"," + message.body if n else message.body)
            self._hashed = messages
            whole = self._hash.copy()
        whole.update(_END)
        return Body(_whole(head, messages), whole.hexdigest())
