"""The adapter for everything that litellm reaches: the providers' own code paths, one request, no retry, no print."""

from __future__ import annotations

import gc
import json
import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled

from . import faults
from .attend import TimeLimit, attend
from .protocol import Fault, Kind, ProviderError, RawReply, WireRequest
from .reply import decode_reply

IMPORT_SECONDS = 180.0  # three to five on a quiet machine
GRACE_SECONDS = 5.0  # past the request's own limit, which litellm keeps; then the call is abandoned
_FOR_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download of a price table
    "LITELLM_MODE": "PRODUCTION",  # no reading of a .env file into the environment
}
_FAULT_OF_CLASS = {
    "ContextWindowExceededError": Fault.CONTEXT,
    "ContentPolicyViolationError": Fault.REFUSED,
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
        _litellm = litellm
        return cast(ModuleType, litellm)


class LitellmClient:
    """Sends through litellm, to the provider that the model's name starts with.

    `key` is the provider's key; None leaves it to litellm, which finds the keys of many clouds in the environment.
    Parameters that a model does not take are refused by litellm, never dropped: an arm would not be what it says.
    A call that is cancelled, or past its time, is abandoned: its thread ends with litellm's own limit, and it may be
    billed.
    """

    def __init__(self, *, key: str | None = None) -> None:
        self._key = key

    @property
    def kind(self) -> Kind:
        return "live"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """The reply, or ProviderError, or Cancelled within half a second of the wish."""
        litellm = _litellm or attend(load, cancel, seconds=IMPORT_SECONDS)
        work = partial(litellm.completion, **self._arguments(request))
        try:
            response = attend(work, cancel, seconds=request.timeout + GRACE_SECONDS)
        except TimeLimit:
            words = f"no answer within {request.timeout:g} s"
            raise ProviderError(Fault.TRANSIENT, words, lost=True) from None
        except Cancelled:
            raise
        except Exception as error:  # litellm lets errors of every kind through
            raise failure(error, self._key or "") from None
        return decode_reply(response.model_dump(), provider=request.model.name.partition("/")[0])

    def close(self) -> None:
        """litellm keeps its connections for the process: there is nothing to close."""

    def _arguments(self, request: WireRequest) -> dict[str, Any]:
        # litellm may change what it is given, so it gets a copy: reading the recorded bytes again is the fastest copy,
        # a third of `deepcopy`, and what is sent then is what the record says.
        arguments: dict[str, Any] = json.loads(request.body)
        arguments.pop("max_completion_tokens", None)
        arguments |= {
            "model": request.model.name,
            "max_tokens": request.output_limit,  # litellm knows which models want it under another name
            "timeout": request.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
        }
        if request.model.api_base is not None:
            arguments["api_base"] = request.model.api_base
        if self._key:
            arguments["api_key"] = self._key
        return arguments


def failure(error: BaseException, secret: str = "") -> ProviderError:
    """What an exception out of litellm means, told without `secret`.

    It wraps the provider's exception, which wraps the HTTP library's: all of them are read.
    """
    chain = list(_chain(error))
    words = faults.shown(faults.without(_words(chain), secret))
    if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain):
        return ProviderError(Fault.REJECTED, f"no connection: {words}")
    if any(_is(link, "httpx", "ConnectError", "ConnectTimeout", "PoolTimeout") for link in chain):
        return ProviderError(Fault.TRANSIENT, f"no connection: {words}")
    wait = next((found for link in chain if (found := _header(link, "retry-after"))), None)
    for link in chain:
        if _is(link, "httpx", "HTTPStatusError"):
            status, text = _answer(link)
            text = faults.without(text, secret)
            return _as_named(chain, faults.of_reply(status, _tree(text), text, retry_after=wait))
    if any(_is(link, "httpx", "TransportError") or isinstance(link, ConnectionError | TimeoutError) for link in chain):
        return ProviderError(Fault.TRANSIENT, f"no answer: {words}", lost=True)
    if any(isinstance(link, json.JSONDecodeError) for link in chain):
        return ProviderError(Fault.TRANSIENT, f"the reply can't be read: {words}", lost=True)
    if any(_is(link, "openai", "APIConnectionError") for link in chain):  # litellm's class for all that it can't tell
        return ProviderError(Fault.TRANSIENT, f"no answer: {words}", lost=True)
    status = next((status for link in reversed(chain) if (status := _status(link)) >= 400), 0)
    if status:
        return _as_named(chain, faults.of_reply(status, None, words, retry_after=wait))
    return ProviderError(Fault.REJECTED, f"{type(error).__name__}: {words}", lost=True)


def _as_named(chain: list[BaseException], error: ProviderError) -> ProviderError:
    """`error` with the fault that litellm's own class tells, where it knows a provider's words better than we do."""
    for link in chain:
        fault = _FAULT_OF_CLASS.get(type(link).__name__)
        if fault is not None:
            return ProviderError(fault, error.words, status=error.status)
    return error


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _is(link: BaseException, module: str, *names: str) -> bool:
    """Whether `link` is of one of these classes. They are told by name, so that nothing is imported for it."""
    return any(base.__module__.partition(".")[0] == module and base.__name__ in names for base in type(link).__mro__)


def _words(chain: list[BaseException]) -> str:
    """What the innermost error says, for each wrapper adds words of its own. Less than a word is nothing said."""
    for link in reversed(chain):
        words = str(getattr(link, "message", None) or link).strip()
        if len(words) > 3:
            return words
    return type(chain[0]).__name__


def _answer(link: BaseException) -> tuple[int, str]:
    response: Any = getattr(link, "response", None)
    try:
        return int(response.status_code), str(response.text)
    except RuntimeError:  # httpx's, where the body was not read
        return int(response.status_code), ""


def _header(link: BaseException, name: str) -> str | None:
    for headers in (getattr(link, "headers", None), getattr(getattr(link, "response", None), "headers", None)):
        if isinstance(headers, Mapping) and headers.get(name):
            return str(headers[name])
    return None


def _status(link: BaseException) -> int:
    status = getattr(link, "status_code", None)
    return int(status) if isinstance(status, int) or (isinstance(status, str) and status.isdecimal()) else 0


def _tree(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
