"""Runs inside the sandbox: gets one web page, through whatever way out the sandbox has.

Started as `fetch.py URL BYTES`. Prints a line of JSON: `{"error": WHY}`, or `url` (after redirects), `status` with its
`reason`, `type` and `charset` (null where not told); then the page, at most BYTES of it and one more. Standard library
alone: it is given to whatever Python (3.8 or later) is found inside.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from typing import IO, Any

SECONDS = 30  # of silence
UNTOUCHED = "%/:=&?~#+!$,;'@()*[]"  # in an address; blanks and what is not ASCII are escaped
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; agentctl)", "Accept-Encoding": "identity"}


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web pages alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise urllib.error.URLError("it leads on to " + newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def get(url: str, limit: int) -> tuple[dict[str, object], bytes]:
    request = urllib.request.Request(urllib.parse.quote(url, safe=UNTOUCHED), headers=HEADERS)
    try:
        response = urllib.request.build_opener(Redirects).open(request, timeout=SECONDS)
    except urllib.error.HTTPError as error:  # an answer too: its page says why
        response = error
    with response:
        try:
            data = response.read(limit + 1)
        except http.client.IncompleteRead as error:
            data = error.partial
        headers: Message = response.headers
        media_type = headers.get_content_type() if "Content-Type" in headers else "text/html"
        told = {"url": response.geturl(), "status": response.status, "reason": response.reason, "type": media_type}
        return {**told, "charset": headers.get_content_charset()}, data


def main() -> None:
    try:
        head, data = get(sys.argv[1], int(sys.argv[2]))
    except (OSError, ValueError, http.client.HTTPException) as error:
        head, data = {"error": str(getattr(error, "reason", error)) or type(error).__name__}, b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + data)


if __name__ == "__main__":
    main()
