"""What an exception out of litellm means: it wraps the provider's, which wraps the HTTP library's, and all are read."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any

from . import faults
from .near import causes, nobody_at
from .protocol import Fault, ProviderError

_FAULT_OF_CLASS = {
    "ContextWindowExceededError": Fault.CONTEXT,
    "ContentPolicyViolationError": Fault.REFUSED,
}


def failure(error: BaseException, secret: str = "") -> ProviderError:
    """The failure that `error` means, told without `secret`."""
    chain = list(causes(error))
    words = faults.shown(faults.without(_words(chain), secret))
    if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain):
        return ProviderError(Fault.REJECTED, f"no connection: {words}")
    if any(_is(link, "httpx", "ConnectError", "ConnectTimeout", "PoolTimeout") for link in chain):
        nobody = next((said for link in chain if (said := nobody_at(_url(link), link))), "")
        told = f"no connection: {words}" + (f" ({nobody})" if nobody else "")
        return ProviderError(Fault.TRANSIENT, told, absent=bool(nobody))
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
    for link in chain:
        body = getattr(link, "body", None)
        if isinstance(body, dict):  # OpenAI's class for an error inside a stream
            return faults.of_reply(200, _tree(faults.without(json.dumps({"error": body}), secret)))
    return ProviderError(Fault.REJECTED, f"{type(error).__name__}: {words}", lost=True)


def _as_named(chain: list[BaseException], error: ProviderError) -> ProviderError:
    """`error` with the fault that litellm's own class tells, where it knows a provider's words better than we do."""
    for link in chain:
        fault = _FAULT_OF_CLASS.get(type(link).__name__)
        if fault is not None:
            return ProviderError(fault, error.words, status=error.status)
    return error


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


def _url(link: BaseException) -> str:
    """Where httpx's errors say the request went; empty where this one does not."""
    request = getattr(link, "_request", None)  # `request` itself raises where there is none
    return str(getattr(request, "url", ""))


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
