"""The adapter for everything that litellm reaches: the providers' own code paths, one request, no retry, no print."""

from __future__ import annotations

import gc
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import signature
from types import ModuleType
from typing import Any, cast

from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError

from .attend import Patience, TimeLimit, attend
from .body import parameters
from .cuttable import shut
from .litellm_faults import failure
from .protocol import Fault, Kind, ModelSpec, ProviderError, RawReply, WireRequest
from .reply import decode_reply
from .stream import receive

IMPORT_SECONDS = 180.0  # three to five on a quiet machine
GRACE_SECONDS = 5.0  # past the request's own limit, which litellm keeps; then the call is abandoned
_FOR_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download of a price table
    "LITELLM_MODE": "PRODUCTION",  # no reading of a .env file into the environment
}
_lock = threading.Lock()
_litellm: Any = None  # the module, once it is whole


def load() -> ModuleType:
    """litellm, imported at the first call, which takes seconds: call it early, from a thread, to have it ready.

    The environment is the same after the import as before. The garbage collector rests meanwhile, which saves a third.
    """
    global _litellm
    with _lock:
        if _litellm is not None:
            return cast(ModuleType, _litellm)
        added = {name: value for name, value in _FOR_IMPORT.items() if name not in os.environ}
        collecting = gc.isenabled()
        gc.disable()
        os.environ.update(added)
        try:
            litellm: Any = import_module("litellm")
        finally:
            for name in added:
                os.environ.pop(name, None)
            if collecting:
                gc.enable()
        litellm.suppress_debug_info = True  # it prints advice on every error otherwise
        litellm.telemetry = False
        if "LITELLM_LOG" not in os.environ:  # its warnings would stand between the lines of a run
            logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
        _litellm = litellm
        return cast(ModuleType, litellm)


def check_parameters(model: ModelSpec) -> None:
    """Let litellm look at what `model` asks for beyond its defaults. InputError where the provider does not take it."""
    given = parameters(model, model.output_limit)
    if not (given.keys() - {"max_tokens", "max_completion_tokens", "stream", "stream_options"}):
        return
    litellm: Any = load()
    try:
        name, provider, _, _ = litellm.get_llm_provider(model=model.name, api_base=model.api_base)
        litellm.utils.get_optional_params(
            model=name, custom_llm_provider=provider, drop_params=False, **given | {"max_tokens": model.output_limit}
        )
    except Exception as error:  # of many classes
        words = str(getattr(error, "message", None) or error).partition(": ")[2].partition("To drop")[0].strip()
        remedy = 'leave it out; or insist: --set model.extra.allowed_openai_params=["NAME"]'
        raise InputError(words or type(error).__name__, field="model", remedy=remedy) from None


class LitellmClient:
    """Sends through litellm, to the provider that the model's name starts with.

    `key` is the provider's key; None leaves it to litellm, which finds the keys of many clouds in the environment.
    Parameters that a model does not take are refused by litellm, never dropped: an arm would not be what it says.
    A call that is cancelled, or past its time, may be billed.
    """

    def __init__(self, *, key: str | None = None) -> None:
        self._key = key

    @property
    def kind(self) -> Kind:
        return "live"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """The reply, or ProviderError, or Cancelled within half a second of the wish."""
        litellm = _litellm or attend(load, cancel, Patience(IMPORT_SECONDS))
        patience = Patience(request.timeout + GRACE_SECONDS)
        exchange = _Exchange(litellm, self._arguments(request), request, self._key or "", cancel, patience)
        try:
            return attend(exchange.run, cancel, patience, leave=exchange.leave)
        except TimeLimit as limit:
            lost = ProviderError(Fault.TRANSIENT, f"no answer: {limit}", lost=True)
            lost.usage = getattr(limit.__cause__, "usage", None)
            raise lost from None

    def close(self) -> None:
        """litellm keeps its connections for the process: there is nothing to close."""

    def _arguments(self, request: WireRequest) -> dict[str, Any]:
        messages = [copied(message.tree) for message in request.messages]  # litellm may change what it is given
        for place in request.marked:
            mark(messages[place], request.model)
        arguments = parameters(request.model, request.output_limit)
        arguments.pop("max_completion_tokens", None)
        arguments |= {
            "model": request.model.name,
            "messages": messages,
            "max_tokens": request.output_limit,  # litellm knows which models want it under another name
            "timeout": request.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
        }
        if request.tools:
            arguments["tools"] = [copied(tool.tree) for tool in request.tools]
        if request.model.api_base is not None:
            arguments["api_base"] = request.model.api_base
        if self._key:
            arguments["api_key"] = self._key
        return arguments


def streams_as_known(litellm: Any) -> bool:
    """Whether litellm's wrapper of a stream lets its source be had: no part of what litellm promises.

    There is nothing to fall back to, as its own iterator ends a reply that broke off as if it were whole.
    """
    wrapper: Any = getattr(litellm, "CustomStreamWrapper", None)
    return hasattr(wrapper, "fetch_sync_stream") and "completion_stream" in signature(wrapper).parameters


def mark(message: dict[str, Any], model: ModelSpec) -> None:
    """Have the provider keep the prompt up to `message`. litellm gives the marker each provider's own form."""
    marker = {"type": "ephemeral"} | ({"ttl": "1h"} if model.cache == "1h" else {})
    content = message.get("content")
    (content[-1] if isinstance(content, list) and content else message)["cache_control"] = marker


def copied(tree: Any) -> Any:
    """A JSON tree anew, but for its texts: the longer they are, the less it costs beside reading its bytes again."""
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return [copied(item) for item in tree] if isinstance(tree, list) else tree


class _Exchange:
    """One request and its reply, in a thread of its own."""

    def __init__(
        self,
        litellm: Any,
        arguments: dict[str, Any],
        request: WireRequest,
        secret: str,
        cancel: Cancel,
        patience: Patience,
    ) -> None:
        self._litellm = litellm
        self._send = partial(litellm.completion, **arguments)
        self._streams = request.model.stream
        self._provider = request.model.name.partition("/")[0]
        self._secret = secret
        self._cancel = cancel
        self._patience = patience
        self._left = False
        self._source: Any = None  # the provider's stream, while one is read

    def run(self) -> RawReply:
        """The reply, or ProviderError."""
        if self._streams and not streams_as_known(self._litellm):
            words = (
                "this litellm streams in a form that agentctl does not know: use another, or --set model.stream=false"
            )
            raise ProviderError(Fault.REJECTED, words)
        try:
            response = self._send()
            if self._streams and response.completion_stream is None:
                response.fetch_sync_stream()
        except Exception as error:  # litellm lets errors of every kind through
            raise failure(error, self._secret) from None
        if not self._streams:
            return decode_reply(response.model_dump(), provider=self._provider)
        # The chunks are taken where litellm's wrapper takes them. The wrapper would cost three times as much as all the
        # rest of the call, end a reply that broke off with the word "stop", and count itself what no provider counted.
        self._source = response.completion_stream
        try:
            if self._left:
                self.leave()
            return self._read()
        finally:
            with suppress(Exception):  # the reply is there, or an error that says more
                response.close()

    def leave(self) -> None:
        """Nobody waits any more: end the connection, so that the provider sees it. Safe to call from any thread."""
        self._left = True
        stream = _answer_of(self._source)
        network = stream.extensions.get("network_stream") if stream is not None else None
        shut(network.get_extra_info("socket") if network is not None else None)

    def _read(self) -> RawReply:
        def failed(error: Exception) -> ProviderError:
            return failure(error, self._secret)

        answer = _answer_of(self._source)
        if answer is not None and "json" in answer.headers.get("content-type", ""):
            try:
                tree = json.loads(answer.read())
            except Exception as error:
                raise failed(error) from None
            return decode_reply(tree, provider=self._provider)
        return receive(self._heard(), self._cancel, provider=self._provider, failure=failed)

    def _heard(self) -> Iterator[object]:
        for tree in _trees(self._source):
            self._patience.heard()
            yield tree


def _answer_of(source: Any) -> Any:
    """The HTTP answer behind a stream of litellm's or OpenAI's, where it shows it; else None."""
    for name in ("response", "_response", "http_response"):
        answer = getattr(source, name, None)
        if hasattr(answer, "extensions"):
            return answer
    return None


def _trees(chunks: Any) -> Iterator[object]:
    """Chunks as JSON trees in chat form. Most come so; litellm's older adapters have a flat form of their own."""
    for chunk in chunks:
        if hasattr(chunk, "model_dump"):
            yield chunk.model_dump()
        elif isinstance(chunk, dict) and "text" in chunk:
            delta = {"content": chunk["text"], "tool_calls": chunk.get("tool_use")}
            finish = chunk.get("finish_reason") if chunk.get("is_finished") else None
            yield {"choices": [{"delta": delta, "finish_reason": finish}], "usage": _tree(chunk.get("usage"))}
        elif isinstance(chunk, dict):
            yield chunk
        else:
            words = "litellm can't stream this model in a form that we can read: switch streaming off"
            raise ProviderError(Fault.REJECTED, words, lost=True)  # what it began to answer is billed


def _tree(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value
