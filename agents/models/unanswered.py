"""Whether an error reply may hide an answer that was made, and billed, behind the gateway that sent the error.

Between us and a model there is mostly a gateway: a load balancer, a CDN, a provider that passes requests on to others.
It reads a request, sends it on, and when the answer does not come in time, or breaks off, it says so in an error of its
own. That is our own time-out, only seen from elsewhere: the model may have worked on it, and the bill counts it. So
such a send stays uncertain. An error by which a server declines (429, 503, 529) or says that it failed itself (500) is
not billed by any provider that documents it, and releases what was set aside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus

SENT_ON: Mapping[int, str] = {
    # RFC 9110 means a request that did not arrive whole; those who pass requests on (OpenRouter, Azure, Bedrock's
    # ModelTimeoutException) mean a model that took too long.
    408: "the model took too long",
    499: "a gateway in between hung up",  # nginx, and Google's CANCELLED
    # "An invalid response from an inbound server": AWS' balancers, nginx and OpenRouter say so of an answer that broke
    # off, too. Words that tell of no connection count more.
    502: "the answer behind the gateway was broken",
    504: "no answer in time behind the gateway",  # RFC 9110; Anthropic's timeout_error, Gemini's DEADLINE_EXCEEDED
    520: "an empty or broken answer behind Cloudflare",
    522: "a connection behind Cloudflare that timed out",  # before the request was sent, or after: it does not say
    524: "no answer in time behind Cloudflare",
    527: "a connection behind Cloudflare that was interrupted",
    598: "no answer in time behind the gateway",  # by custom, of some proxies
    599: "no answer in time behind the gateway",
}
"""Statuses by which a gateway says that it had sent the request on, or may have, and what that means.

Not here, though alike, since nothing was sent on: Cloudflare's 521 (connection refused), 523 (unreachable), 525 and 526
(no safe connection), 530 (no such host); 503 and 529 (declined); 425 (not taken yet).
"""

_DECLINED = (409, 425, 429, 503, 529, 521, 523, 525, 526, 530)
_BROKE_OFF = re.compile(  # Envoy's and nginx's words for a connection that ended after the request was sent
    r"reset reason: (connection termination|(remote|local) (connection )?reset|protocol error)"
    r"|prematurely closed|before response (headers )?(was|were) received|mid-?stream",
    re.IGNORECASE,
)
_TIMED_OUT = re.compile(r"timed[ _-]?out|time-?out|deadline[ _]exceeded|took too long", re.IGNORECASE)
_NOT_SENT = re.compile(
    r"connect(ion)? (time-?out|timed[ _-]?out|refused|failure)|connection establishment|(can't|could not|cannot|failed"
    r" to) (connect|be resolved|be reached|resolve)|no (healthy|live) upstreams?|name (resolution|or service)",
    re.IGNORECASE,
)


def may_be_billed(status: int | None, words: str) -> bool:
    """Whether an error with `status` (None where it has none of its own) and these `words` may hide a billed answer."""
    if status in SENT_ON and status != HTTPStatus.BAD_GATEWAY:
        return True
    if _NOT_SENT.search(words):
        return False
    if status == HTTPStatus.BAD_GATEWAY or _BROKE_OFF.search(words):
        return True
    return status not in _DECLINED and (status is None or status >= 500) and bool(_TIMED_OUT.search(words))
