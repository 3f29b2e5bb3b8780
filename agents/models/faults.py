"""What a failed send means: one classification, by status, error body and the provider's words.

Words count beside the status, because providers tell the same trouble under different numbers: an overload comes as
429, 503, 529, as an error body under 200, or under a library's own class; a request that is too long as 400, 413 or
500. An account without money (`insufficient_quota`, often sent as 429) is AUTH: waiting does not refill it, and every
other attempt with the same key would fail too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus

from agentctl.base.text import clean, cut

from .protocol import Fault, ProviderError
from .unanswered import may_be_billed

WORDS_LIMIT = 2000  # characters kept of a provider's words
SECRET_LENGTH = 8  # characters; a shorter key is a stand-in for none, and its letters are in innocent words


class _Phrases:
    """Phrases, any of which tells. Compiled at the first failure: most attempts see none."""

    def __init__(self, *patterns: str) -> None:
        self._patterns = patterns

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return re.compile("|".join(self._patterns), re.IGNORECASE)

    def in_(self, words: str) -> bool:
        return bool(self._any.search(words))


_TOO_LONG = _Phrases(
    r"context[ _-]?(length|window|limit|size)",
    r"maximum (context|prompt|input)",
    r"max(imum)?[ _](input|prompt|model|sequence)[ _]?(tokens?|len(gth)?)",
    r"(prompt|input|request|messages?)\b.{0,40}\b(?<!took )too (long|large)",  # what took too long is a time-out
    r"(input|prompt)[ _]?tokens?\b.{0,60}\bexceed",
    r"exceeds?\b.{0,60}\b(input|prompt|context|token)s?\b.{0,30}\b(limit|length|window|maximum|allowed)",
    r"tokens? (count )?.{0,40}exceeds? the (maximum|limit|model)",
    r"too many (input |prompt )?tokens",
    r"reduce the length of the (messages|prompt|input)",
    r"request_too_large|exceed_context",
    r"range of input length|max(imum)? length\b.{0,20}\b(exceed|token)|exceeds max length",
    r"inputs`? (tokens|must have less than)",
    r"token limit: ?\d",
)
_OUTPUT_LIMIT = _Phrases(  # the asked output is more than the model can give: a shorter prompt does not help
    r"maximum (allowed )?(value|number) (for|of) (`?max_|(output|completion) )",
    r"supports at most \d+ (output|completion) tokens",
    r"output token limit",
    r"max_(completion_|output_|new_)?tokens\b[^.]{0,40}\b(too large|exceeds? the (maximum|model|limit))(?!.*context)",
)
_NO_MONEY = _Phrases(
    r"insufficient[ _-]?(quota|balance|credits?|funds)",
    r"billing[ _](hard[ _]limit|not[ _]active)",
    r"credit balance is too low",
    r"payment required|out of credits",
)
_DECLINED = _Phrases(
    r"content[ _-]?(filter|policy|management policy)",
    r"usage polic(y|ies)",
    r"responsible[ _]?ai",
    r"flagged|moderation|safety (system|filter)",
    r"prohibited[ _]content",
)
_NO_ENTRY = _Phrases(
    r"authentication_?error|permission_?(denied_)?error|unauthenticated|unauthorized",
    r"(invalid|incorrect|missing|no) (x-)?api[ _-]?key|invalid_api_key|api key not valid",
)
_BUSY = _Phrases(
    r"overload",
    r"rate[ _-]?limit",
    r"too[ _]many[ _]requests",
    r"(server|model|service|engine)s? (is|are) (currently )?(too )?busy",
    r"(at|over|exceeded|no|insufficient) capacity|capacity exceeded",
    r"temporar(il)?y? unavailable|service[ _]unavailable|unavailable_error",
    r"resource[ _]?exhausted",
    r"(try|retry) (your request |it )?again (later|in )",
)
_BROKEN = _Phrases(
    r"internal[ _](server[ _])?error",
    r"server_error|\bapi_error",
    r"bad gateway|gateway time-?out|upstream (error|connect|request)",
    r"timed? ?out|timeout|deadline[ _]exceeded|took too long",
    r"connection (error|reset|aborted|closed)",
)
_BAD_REQUEST = _Phrases(
    r"invalid_?request", r"bad_?request", r"invalid_?argument", r"validation_?error", r"unprocessable"
)

_NO_TOOLS = _Phrases(
    r"(does not|doesn't|not) support(ed)? (for )?(tools?|tool use|tool[ _-]call(s|ing)|function[ _-]calling)",
    r"no endpoints found that support tool use",
)
_NO_STREAM = _Phrases(r"stream(ing|_options)?\b.{0,60}\b(not (supported|permitted|allowed)|unknown|unrecogni[sz]ed)")

_WAIT = re.compile(r'"?retry[_ -]?(?:delay|after)"?\s*[:=]?\s*"?(\d+(?:\.\d+)?)\s*s?\b', re.IGNORECASE)
_WAIT_WORDS = re.compile(r"again in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s))?", re.IGNORECASE)


def classify(status: int | None, words: str, kind: str = "") -> Fault:
    """The fault that `status` (None where there is none), the error's `kind` (type, code) and its `words` tell of."""
    told = f"{kind} {words}"
    limited = status == HTTPStatus.TOO_MANY_REQUESTS
    if _NO_MONEY.in_(told) or status == HTTPStatus.PAYMENT_REQUIRED:
        return Fault.AUTH
    if status == HTTPStatus.UNAUTHORIZED or (status == HTTPStatus.FORBIDDEN and not _DECLINED.in_(told)):
        return Fault.AUTH
    too_long = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _TOO_LONG.in_(told)
    if too_long and not limited and not _OUTPUT_LIMIT.in_(told):
        return Fault.CONTEXT
    if status is not None and (status in (408, 409, 425, 429, 499) or status >= 500):
        return Fault.TRANSIENT
    if _DECLINED.in_(told):
        return Fault.REFUSED
    if _BAD_REQUEST.in_(kind):
        return Fault.REJECTED
    if _BUSY.in_(told):
        return Fault.TRANSIENT
    if status is None or status < 300:
        if _NO_ENTRY.in_(told):
            return Fault.AUTH
        if _BROKEN.in_(told):
            return Fault.TRANSIENT
    return Fault.REJECTED


@dataclass(frozen=True)
class ToldError:
    """An error as a provider's JSON tells it. `kind` is its type, code and status as words."""

    message: str
    kind: str
    status: int | None = None


def error_in(tree: object) -> ToldError | None:
    """The error that a reply's JSON tells of, or None where it tells of none.

    Read are the forms of OpenAI, Anthropic, Gemini (a list of one), Mistral and vLLM (`object: error`), Ollama and TGI
    (`error` is a text).
    """
    if isinstance(tree, list):
        return error_in(tree[0]) if tree and isinstance(tree[0], dict) else None
    if not isinstance(tree, dict):
        return None
    inner = tree.get("error")
    if not inner and "error" in (tree.get("object"), tree.get("type")):
        inner = {key: value for key, value in tree.items() if key not in ("object", "error")}
    if not inner or (isinstance(inner, dict) and not any(inner.values())):
        return None
    if not isinstance(inner, dict):
        return ToldError(_plain(inner), _plain(tree.get("error_type") or ""))
    told = inner.get("message") or inner.get("detail") or inner.get("details") or inner.get("error") or ""
    kinds = [_plain(inner[key]) for key in ("type", "code", "status") if inner.get(key)]
    numbers = [number for key in ("code", "status", "status_code") if (number := _status(inner.get(key))) is not None]
    return ToldError(_plain(told), " ".join(kinds), numbers[0] if numbers else None)


def of_reply(status: int, tree: object, text: str = "", *, retry_after: str | None = None) -> ProviderError:
    """The failure that an error reply means. `tree` is its JSON (None where it is none), `text` the body as it came.

    `retry_after` is the header's value.
    """
    error = error_in(tree)
    message, kind = (_bare_words(tree, text), "") if error is None else (error.message, error.kind)
    if error is not None and error.status is not None and status < 300:
        status = error.status
    words = shown(message) or _phrase(status)
    wait = seconds_to_wait(retry_after)
    if wait is None:
        wait = _wait_in_words(text or words)
    told = None if status < 300 else status  # an error under 200 has no status of its own
    fault = classify(told, words, kind)
    lost = fault is Fault.TRANSIENT and may_be_billed(told, f"{kind} {words}")
    if fault is Fault.REJECTED:
        words += _remedy(words)
    return ProviderError(fault, words, status=told, retry_after=wait, lost=lost)


def _remedy(words: str) -> str:
    """What a person can do about a request that was rejected, where that is known."""
    if _NO_TOOLS.in_(words):
        return " (a scaffold that needs no native calls: --scaffold plain-text)"
    return " (replies that are not streamed: --no-stream)" if _NO_STREAM.in_(words) else ""


def of_words(words: str) -> ProviderError | None:
    """The failure that words alone tell of, or None where they tell of none that is known."""
    fault = classify(None, words)
    if fault is Fault.REJECTED:
        return None
    lost = fault is Fault.TRANSIENT and may_be_billed(None, words)
    return ProviderError(fault, shown(words), retry_after=_wait_in_words(words), lost=lost)


def without(text: str, secret: str) -> str:
    """`text` with `secret` cut out. To be done before anything else is cut, or half of the secret may be left."""
    return text.replace(secret, "[key]") if len(secret) >= SECRET_LENGTH else text


def shown(words: str) -> str:
    """`words` fit to show: valid Unicode, at most WORDS_LIMIT characters."""
    return cut(clean(words).strip(), WORDS_LIMIT)


def seconds_to_wait(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or an HTTP date less `now`. None where it says neither."""
    if header is None:
        return None
    header = header.strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", header):
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def _wait_in_words(text: str) -> float | None:
    if found := _WAIT.search(text):
        return float(found[1])
    found = _WAIT_WORDS.search(text)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, amount, unit = found.groups()
    seconds = float(amount or 0) * (0.001 if (unit or "").lower() == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds


def _bare_words(tree: object, text: str) -> str:
    if isinstance(tree, dict):
        for key in ("message", "detail", "errors", "msg"):
            if tree.get(key):
                return _plain(tree[key])
    title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return title[1] if title else text


def _plain(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _status(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[1-5]\d\d", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None


def _phrase(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
