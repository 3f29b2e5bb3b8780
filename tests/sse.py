"""Replies as server-sent events, in OpenAI's and in Anthropic's form: what a provider sends when asked to stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a chat completion. Without a delta it has no choice, as the one that brings the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test-model"}
    return b"data: " + json.dumps(head | {"choices": choices} | more).encode() + b"\n\n"


def event(name: str, **data: Any) -> bytes:
    """One event of Anthropic's form."""
    return f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode()


def chat_events(completion: dict[str, Any], *, usage: bool = True) -> list[bytes]:
    """A chat completion in events, cut as a provider might: texts and arguments in pieces, calls side by side."""
    model = {"model": completion.get("model", "test-model")}
    events: list[bytes] = []
    for choice in completion["choices"]:
        events += [chunk(delta, **model) for delta in _deltas(choice.get("message") or {})]
        rest = {key: value for key, value in choice.items() if key != "message"}
        events.append(chunk(**model, choices=[{"delta": {}, **rest}]))
    if usage and completion.get("usage"):
        events.append(chunk(usage=completion["usage"], **model))
    return [*events, DONE]


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    calls = message.get("tool_calls") or []
    for name, value in message.items():
        match value:
            case _ if name in ("role", "tool_calls"):
                pass
            case str():
                yield from ({name: piece} for piece in pieces(value))
            case None:
                pass
            case _:
                yield {name: value}
    for n, call in enumerate(calls):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": n, "function": {**function, "arguments": ""}}]}
    rests = [list(pieces(call["function"].get("arguments") or "")) for call in calls]
    for turn in range(max(map(len, rests), default=0)):
        for n, rest in enumerate(rests):
            if turn < len(rest):
                yield {"tool_calls": [{"index": n, "function": {"arguments": rest[turn]}}]}


def message_events(message: dict[str, Any]) -> list[bytes]:
    """An Anthropic message in events. The output's count stands at 1 at first, and is told at the end."""
    usage = message.get("usage") or {}
    begun = {**message, "content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    events = [event("message_start", message=begun), event("ping")]
    for n, block in enumerate(message["content"]):
        empty, deltas = _of_block(block)
        events.append(event("content_block_start", index=n, content_block=empty))
        events += [event("content_block_delta", index=n, delta=delta) for delta in deltas]
        events.append(event("content_block_stop", index=n))
    told = {"output_tokens": usage.get("output_tokens", 1)}
    events.append(event("message_delta", delta={"stop_reason": message.get("stop_reason")}, usage=told))
    return [*events, event("message_stop")]


def _of_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it is begun, and what is added to it then."""
    match block:
        case {"type": "text", "text": text}:
            return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(text)]
        case {"type": "thinking", "thinking": text}:
            added = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(text)]
            signed = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*added, signed]
        case {"type": "tool_use", "input": value}:
            added = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(json.dumps(value))]]
            return block | {"input": {}}, added
        case _:
            return block, []


def pieces(text: str, count: int = 3) -> Iterator[str]:
    """`text` in about `count` parts."""
    size = max(1, -(-len(text) // count))
    yield from (text[at : at + size] for at in range(0, len(text), size))
