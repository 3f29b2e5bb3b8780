"""The adapter for OpenAI-compatible endpoints: one HTTP request, without any provider's library."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from agentctl import __version__
from agentctl.base.cancel import Cancel
from agentctl.base.errors import SetupError

from . import faults
from .endpoint import Endpoint, HttpReply, NoReply, NotSent
from .protocol import Fault, Kind, ProviderError, RawReply, WireRequest
from .reply import decode_reply


class DirectClient:
    """Sends to `api_base` (as `https://HOST/v1`), with `key` as the bearer, or without one.

    `variable` names where the key came from, for messages; the key itself is in none. Redirects are refused, not
    followed, so the key reaches no other host. A send that is cancelled may have been billed.
    """

    def __init__(self, api_base: str, *, key: str | None = None, variable: str = "the key") -> None:
        self._endpoint = Endpoint(_chat_url(api_base))
        self._provider = urlsplit(api_base).hostname or ""
        self._key = key.strip() if key else ""
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            raise SetupError("holds characters that no key has", field=variable, remedy="set it to the key alone")
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"agentctl/{__version__}",
        }
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"

    @property
    def kind(self) -> Kind:
        return "live"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """The reply, or ProviderError, or Cancelled within half a second of the wish."""
        return self._read(self._ask(request, cancel))

    def close(self) -> None:
        self._endpoint.close()

    def _ask(self, request: WireRequest, cancel: Cancel) -> HttpReply:
        try:
            return self._endpoint.post(request.body, self._headers, cancel, seconds=request.timeout)
        except NotSent as error:
            fault = Fault.REJECTED if error.certificate else Fault.TRANSIENT
            raise ProviderError(fault, f"no connection: {error}") from None
        except NoReply as error:
            raise ProviderError(Fault.TRANSIENT, f"no answer: {error}", lost=True) from None

    def _read(self, reply: HttpReply) -> RawReply:
        if 300 <= reply.status < 400:
            words = (
                f"the endpoint redirects to {_host(reply)}, which is not followed: name the right address as api_base"
            )
            raise ProviderError(Fault.REJECTED, words, status=reply.status)
        text = faults.without(reply.body.decode("utf-8", "replace"), self._key)
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            tree = None
        if reply.status >= 300:
            raise faults.of_reply(reply.status, tree, text, retry_after=_wait(reply))
        return decode_reply(tree, provider=self._provider)


def _chat_url(api_base: str) -> str:
    base, mark, query = api_base.partition("?")
    base = base.rstrip("/").removesuffix("/chat/completions")
    return f"{base}/chat/completions{mark}{query}"


def _host(reply: HttpReply) -> str:
    """Where a redirect leads to. No more of it is shown: it may hold a secret."""
    try:
        return urlsplit(reply.headers.get("Location") or "").hostname or "another address"
    except ValueError:
        return "another address"


def _wait(reply: HttpReply) -> str | None:
    """What the answer says of the pause to make, in seconds or as a date."""
    milliseconds = reply.headers.get("retry-after-ms") or ""
    if milliseconds.isascii() and milliseconds.isdigit():
        return str(int(milliseconds) / 1000)
    return reply.headers.get("Retry-After")
