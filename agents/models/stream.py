"""Streamed replies: chunks of a chat completion put together to the whole one that `reply` reads.

A reply counts as received when its end was told. Whatever broke off before is lost, however much of it is there:
half a call must never be run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic import JsonValue

from agentctl.agents.usage import as_count
from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled

from . import faults
from .protocol import Fault, ProviderError, RawReply
from .reply import decode_reply
from .wire import legal

DONE = object()
"""In place of a chunk: the provider says that this was all. Some say so and give no finish reason."""

_GROWING = ("content", "reasoning_content", "reasoning", "refusal", "text", "thinking", "summary", "arguments")
_OF_OUTPUT = (
    *("completion_tokens", "completion_tokens_details", "output_tokens", "output_tokens_details"),
    "total_tokens",
)
_NO_DELTA = ("role", "function_call", "tool_calls", "content", "provider_specific_fields")


class Assembly:
    """A chat completion that grows by chunks. Nothing of a chunk is trusted: odd members are left out."""

    def __init__(self) -> None:
        self.begun = False  # something of a reply came, or was counted
        self.usage: dict[str, Any] = {}  # as reported so far
        self._uncounted = False  # something came after the last report
        self._done = False
        self._model = ""
        self._finish: str | None = None
        self._message: dict[str, Any] = {}
        self._content: list[Any] = []  # texts and blocks
        self._calls: list[dict[str, Any]] = []
        self._of_number: dict[int, dict[str, Any]] = {}  # the call that pieces of a number go to

    @property
    def whole(self) -> bool:
        """Whether the end was told: by a finish reason, with nothing of the message after it, or as DONE."""
        return self._finish is not None or (self._done and self.begun)

    def add(self, chunk: object) -> None:
        """Take in one chunk. ProviderError where it tells of an error."""
        if chunk is DONE:
            self._done = True
            return
        choice = _choice(chunk)
        for tree in (chunk, choice):
            if faults.error_in(tree) is not None:
                raise faults.of_reply(200, tree)
        if not isinstance(chunk, Mapping):
            return
        counted = isinstance(usage := chunk.get("usage"), Mapping) and bool(usage)
        if counted:
            self.begun, self._uncounted = True, False
            self.usage = _counted(self.usage, usage)
        if isinstance(model := chunk.get("model"), str) and model:
            self._model = model
        delta = choice.get("delta")
        if isinstance(delta, Mapping) and any(value for key, value in delta.items() if key != "role"):
            self.begun, self._finish = True, None
            self._uncounted = not counted
            self._grow(delta)
        if isinstance(finish := choice.get("finish_reason"), str) and finish:
            self._finish = finish

    def completion(self) -> dict[str, Any]:
        """All that came, in the form of a completion that was not streamed."""
        message = dict(self._message)
        if self._content:
            texts = all(isinstance(piece, str) for piece in self._content)
            message["content"] = "".join(self._content) if texts else _blocks(self._content)
        if isinstance(blocks := message.get("thinking_blocks"), list):
            # litellm numbers them, which is no part of what the provider signed.
            message["thinking_blocks"] = [
                {key: block[key] for key in block if key != "index"} for block in blocks if isinstance(block, dict)
            ]
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"choices": [choice], "model": self._model, "usage": self._told() or None}

    def _told(self) -> dict[str, Any]:
        """The usage of the whole reply: counts of its output that were told before its end say nothing of that."""
        return {key: value for key, value in self.usage.items() if not (self._uncounted and key in _OF_OUTPUT)}

    def _grow(self, delta: Mapping[str, Any]) -> None:
        content = delta.get("content")
        self._content += content if isinstance(content, list) else [content] if content else []
        for call in _list(delta.get("tool_calls")):
            if isinstance(call, Mapping):
                self._grow_call(call)
        if isinstance(old := delta.get("function_call"), Mapping):
            _merge(self._message.setdefault("function_call", {}), old)
        for key, value in delta.items():
            if key not in _NO_DELTA:
                _merge(self._message, {key: value})
        match delta.get("provider_specific_fields"):
            case {"thought_signatures": list(signatures)}:
                kept = self._message.setdefault("provider_specific_fields", {"thought_signatures": []})
                kept["thought_signatures"] += signatures

    def _grow_call(self, piece: Mapping[str, Any]) -> None:
        """Add `piece` to the call of its number, or to the last one. An id that it does not have begins another."""
        number = piece.get("index")
        call = self._of_number.get(number) if isinstance(number, int) else next(iter(self._calls[-1:]), None)
        if call is None or (piece.get("id") and call.get("id") not in (None, "", piece["id"])):
            call = {}
            self._calls.append(call)
        if isinstance(number, int):
            self._of_number[number] = call
        function = piece.get("function")
        _merge(call, {key: value for key, value in piece.items() if key != "function"})
        if isinstance(function, Mapping):
            inner = call.setdefault("function", {})
            _merge(inner, {key: value for key, value in function.items() if key != "name"})
            if function.get("name"):
                inner["name"] = function["name"]


def _counted(before: Any, told: Any) -> Any:
    """What usage says that was told twice: of each count the largest, for some providers end with zeros."""
    if isinstance(told, Mapping):
        known = before if isinstance(before, Mapping) else {}
        return {**known, **{key: _counted(known.get(key), value) for key, value in told.items()}}
    earlier, later = as_count(before), as_count(told)
    if earlier is None:
        return before if told is None else told
    return before if later is None or later < earlier else told


def _merge(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add the members of `piece`: texts that grow are joined, lists go on, all else takes the last value told."""
    for key, value in piece.items():
        before = whole.get(key)
        if value is None or (value == "" and before):
            continue
        if key in _GROWING and isinstance(before, str) and isinstance(value, str):
            whole[key] = before + value
        elif isinstance(value, list):
            known = before if isinstance(before, list) else []
            for item in value:
                _add_block(known, item)
            whole[key] = known
        else:
            whole[key] = value


def _add_block(blocks: list[Any], item: Any) -> None:
    """Add a block, or what belongs to the last one: it has the same index, or the same type where none has one."""
    last = blocks[-1] if blocks else None
    if not isinstance(item, dict):
        blocks.append(item)
    elif isinstance(last, dict) and _same(last, item):
        _merge(last, item)
    else:
        blocks.append({key: list(value) if isinstance(value, list) else value for key, value in item.items()})


def _same(last: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    if last.get("type") != item.get("type"):
        return False
    if "index" in item and "index" in last:
        return bool(last["index"] == item["index"])
    return any(key in _GROWING for key in item) and not last.get("signature")


def _blocks(content: list[Any]) -> list[Any]:
    blocks: list[Any] = []
    for piece in content:
        _add_block(blocks, {"type": "text", "text": piece} if isinstance(piece, str) else piece)
    return blocks


def _choice(chunk: object) -> Mapping[str, Any]:
    choices = _list(chunk.get("choices")) if isinstance(chunk, Mapping) else []
    first = choices[0] if choices else None
    return first if isinstance(first, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def receive(
    chunks: Iterable[object], cancel: Cancel, *, provider: str, failure: Callable[[Exception], ProviderError]
) -> RawReply:
    """The reply in `chunks`, read to their end. `failure` says what an exception out of them means.

    ProviderError where no whole reply came; with `usage`, where the provider told some before. An error that comes in
    place of a reply was not billed; one that comes in the middle of it may have been.
    """
    assembly = Assembly()
    try:
        for chunk in chunks:
            cancel.check()
            assembly.add(chunk if chunk is DONE else legal(cast(JsonValue, chunk)))
    except Cancelled:
        raise
    except Exception as error:
        if not assembly.whole:  # else only what follows the reply is missing: at most its usage
            raise _lost(error if isinstance(error, ProviderError) else failure(error), assembly) from None
    if not assembly.whole:
        raise _lost(ProviderError(Fault.TRANSIENT, "the reply broke off", lost=True), assembly)
    return decode_reply(assembly.completion(), provider=provider)


def _lost(error: ProviderError, assembly: Assembly) -> ProviderError:
    error.lost = error.lost or assembly.begun
    error.usage = assembly.usage or None
    return error
