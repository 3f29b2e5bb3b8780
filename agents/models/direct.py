"""The adapter for OpenAI-compatible endpoints: one HTTP request, without any provider's library."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from agentctl import __version__
from agentctl.base.cancel import Cancel
from agentctl.base.errors import SetupError

from . import faults
from .endpoint import Endpoint, HttpAnswer, NoReply, NotSent
from .protocol import Fault, Kind, ProviderError, RawReply, WireRequest
from .reply import decode_reply
from .sse import events
from .stream import DONE, receive


class DirectClient:
    """Sends to `api_base` (as `https://HOST/v1`), with `key` as the bearer, or without one.

    `variable` names where the key came from, for messages; the key itself is in none. The proxy is the one that
    `environment` names. Redirects are refused, not
    followed, so the key reaches no other host. A send that is cancelled is ended at once, and may have been billed.
    """

    def __init__(
        self,
        api_base: str,
        *,
        key: str | None = None,
        variable: str = "the key",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._endpoint = Endpoint(_chat_url(api_base), environment)
        self._provider = urlsplit(api_base).hostname or ""
        self._key = key.strip() if key else ""
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            raise SetupError("holds characters that no key has", field=variable, remedy="set it to the key alone")
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": f"agentctl/{__version__}",
        }
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"

    @property
    def kind(self) -> Kind:
        return "live"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """The reply, or ProviderError, or Cancelled within half a second of the wish."""
        try:
            return self._endpoint.post(
                request.body, self._headers, cancel, lambda answer: self._read(answer, cancel), seconds=request.timeout
            )
        except NotSent as error:
            fault = Fault.REJECTED if error.certificate else Fault.TRANSIENT
            raise ProviderError(fault, f"no connection: {error}", absent=error.absent) from None
        except NoReply as error:
            lost = _broken(error)
            lost.usage = getattr(error.__cause__, "usage", None)
            raise lost from None

    def close(self) -> None:
        self._endpoint.close()

    def _read(self, answer: HttpAnswer, cancel: Cancel) -> RawReply:
        if 300 <= answer.status < 400:
            words = (
                f"the endpoint redirects to {_host(answer)}, which is not followed: name the right address as api_base"
            )
            raise ProviderError(Fault.REJECTED, words, status=answer.status)
        if answer.status < 300 and "event-stream" in answer.headers.get("Content-Type", ""):
            return receive(self._chunks(answer), cancel, provider=self._provider, failure=_broken)
        text = faults.without(answer.body().decode("utf-8", "replace"), self._key)
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            tree = None
        if answer.status >= 300:
            raise faults.of_reply(answer.status, tree, text, retry_after=_wait(answer))
        return decode_reply(tree, provider=self._provider)

    def _chunks(self, answer: HttpAnswer) -> Iterator[object]:
        for name, data in events(answer.pieces()):
            if data.strip() == "[DONE]":
                yield DONE
                return
            tree = json.loads(faults.without(data, self._key))
            yield {"error": tree} if name == "error" and faults.error_in(tree) is None else tree


def _broken(error: Exception) -> ProviderError:
    """What an exception means that came while an answer was read."""
    if isinstance(error, NoReply):
        return ProviderError(Fault.TRANSIENT, f"no answer: {error}", lost=True)
    return ProviderError(Fault.TRANSIENT, f"the reply can't be read: {type(error).__name__}", lost=True)


def _chat_url(api_base: str) -> str:
    base, mark, query = api_base.partition("?")
    base = base.rstrip("/").removesuffix("/chat/completions")
    return f"{base}/chat/completions{mark}{query}"


def _host(answer: HttpAnswer) -> str:
    """Where a redirect leads to. No more of it is shown: it may hold a secret."""
    try:
        return urlsplit(answer.headers.get("Location") or "").hostname or "another address"
    except ValueError:
        return "another address"


def _wait(answer: HttpAnswer) -> str | None:
    """What the answer says of the pause to make, in seconds or as a date."""
    milliseconds = answer.headers.get("retry-after-ms") or ""
    if milliseconds.isascii() and milliseconds.isdigit():
        return str(int(milliseconds) / 1000)
    return answer.headers.get("Retry-After")
