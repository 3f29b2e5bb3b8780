"""A provider on this machine: an HTTP server that answers each request by a script's next step.

It speaks OpenAI's chat completions and Anthropic's messages. Where a request asks for a stream, an answer that holds a
whole reply is sent as one.
"""

from __future__ import annotations

import json
import re
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, TypeAlias

from sse import chat_events, message_events

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer. `body` is sent as it is when bytes, else as JSON, `delay` seconds after the request.

    With `hang_up` the connection is closed after it without a word. `whole`: it is never sent as a stream.
    """

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False
    whole: bool = False

    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def as_asked(self, request: Any) -> Answer:
        """The answer to `request`, the JSON of its body: with its events as body where it asks for a stream."""
        streams = isinstance(request, dict) and request.get("stream") is True
        if not streams or self.whole or self.status != 200 or not isinstance(self.body, dict):
            return self
        if isinstance(self.body.get("choices"), list):
            wants = (request.get("stream_options") or {}).get("include_usage") is True
            events = chat_events(self.body, usage=wants)
        elif self.body.get("type") == "message":
            events = message_events(self.body)
        else:
            return self
        return replace(self, body=b"".join(events), headers=EVENT_STREAM | self.headers)


EVENT_STREAM = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True)
class Stream:
    """Events one by one, a number being a pause in seconds; then the stream ends, is reset, or says nothing more."""

    events: Sequence[bytes | float]
    end: Literal["close", "reset", "hang"] = "close"


@dataclass(frozen=True)
class Reset:
    """The connection is reset after the request was read."""


@dataclass(frozen=True)
class Hang:
    """Nothing is ever answered."""


@dataclass(frozen=True)
class Half:
    """The first half of an answer's body, then a reset."""

    answer: Answer


@dataclass(frozen=True)
class Trickle:
    """A blank line every 0.05 s for `seconds`, as some providers send while a model thinks, then the answer's body."""

    answer: Answer
    seconds: float


Step: TypeAlias = Answer | Reset | Hang | Half | Trickle | Stream


def completion(
    text: str | None = None,
    *,
    calls: Sequence[tuple[str, dict[str, Any]]] = (),
    finish: str | None = None,
    usage: dict[str, Any] | None = USAGE,
    **message: Any,
) -> Answer:
    """A chat completion that says `text` and makes `calls` (name, arguments). `message` adds members to its message."""
    whole: dict[str, Any] = {"role": "assistant", "content": text} | message
    if calls:
        whole["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(calls, 1)
        ]
    choice = {"index": 0, "message": whole, "finish_reason": finish or ("tool_calls" if calls else "stop")}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test-model", "choices": [choice]}
    return Answer(body=body if usage is None else body | {"usage": usage})


def failure(status: int, message: str, *, kind: str = "error", headers: dict[str, str] | None = None) -> Answer:
    """An error answer in OpenAI's form."""
    return Answer(status, {"error": {"message": message, "type": kind, "code": None}}, headers or {})


_STATUS_OF_CLASS = {
    "BadRequestError": 400,
    "ContextWindowExceededError": 400,
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "Timeout": 408,
    "RateLimitError": 429,
    "InternalServerError": 500,
    "APIError": 500,
    "ServiceUnavailableError": 503,
}


def step_of(entry: object) -> Step:
    """The step that one entry of a case's `script` describes. ValueError for a form that is not known."""
    if isinstance(entry, dict):
        return _scripted_reply(entry)
    if not isinstance(entry, str):
        raise ValueError(f"unknown script entry: {entry!r}")
    if entry == "ok":
        return completion("done")
    if entry == "connection reset":
        return Reset()
    if entry == "read timeout":
        return Hang()
    if found := re.fullmatch(r"(\d{3}) with body (\{.*\})(?: and no status)?", entry):
        return Answer(int(found[1]), json.loads(found[2]))
    if found := re.fullmatch(r"(\d{3}) retry-after: (\S.*)", entry):
        return failure(int(found[1]), "slow down", headers={"Retry-After": found[2]})
    if found := re.fullmatch(r"([45]\d\d)(?:\s+(.+))?", entry, re.DOTALL):
        words = found[2] or ""
        kind = re.match(r"\w+_error\b", words)
        return failure(int(found[1]), words, kind=kind[0] if kind else "error")
    if (found := re.fullmatch(r"(\w+):?\s+(.+)", entry, re.DOTALL)) and found[1] in _STATUS_OF_CLASS:
        return failure(_STATUS_OF_CLASS[found[1]], found[2])
    raise ValueError(f"unknown script entry: {entry!r}")


def _scripted_reply(entry: dict[str, Any]) -> Step:
    known = {"content", "tool_calls", "finish_reason", "usage", "message"}
    if entry.keys() - known:
        raise ValueError(f"unknown script entry: {entry!r}")
    message = {"content": entry.get("content", "hi")} | entry.get("message", {})
    if "tool_calls" in entry:
        message["tool_calls"] = entry["tool_calls"]
    finish = entry.get("finish_reason") or ("tool_calls" if message.get("tool_calls") else "stop")
    return completion(message.pop("content"), finish=finish, usage=entry.get("usage"), **message)


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the base asks a name server for its own name, which takes a while

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are no news."""


class Loopback:
    """The server. `with Loopback(steps) as server:` answers at `server.url`; `server.received` are the requests so far.

    A request past the script's end is answered with status 400.
    """

    def __init__(self, steps: Iterable[Step] = (), *, tls: ssl.SSLContext | None = None) -> None:
        self.steps = list(steps)
        self.received: list[Received] = []
        self.connections = 0
        self.left = threading.Event()  # set when a client went away from a step that never ends
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, received: Received) -> Step:
        with self._lock:
            self.received.append(received)
            n = len(self.received)
            return self.steps[n - 1] if n <= len(self.steps) else failure(400, f"no step for request {n}")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                loopback.connections += 1

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received = Received(self.path, headers, body)
                step = loopback._take(received)
                loopback._closing.wait(getattr(step, "delay", 0.0))
                match step:
                    case Answer():
                        answer = step.as_asked(received.tree)
                        self._begin(answer, {"Content-Length": str(len(answer.data()))})
                        self.wfile.write(answer.data())
                        self.close_connection = self.close_connection or step.hang_up
                    case Reset():
                        self._reset()
                    case Hang():
                        self._wait_for_leave()
                    case Half(whole):
                        answer = whole.as_asked(received.tree)
                        data = answer.data()
                        self._begin(answer, {"Content-Length": str(len(data))})
                        self.wfile.write(data[: len(data) // 2])
                        self.wfile.flush()
                        self._reset()
                    case Trickle(answer, seconds):
                        self._trickle(answer.as_asked(received.tree), seconds)
                    case Stream(events, end):
                        self._stream(events, end)

            def _begin(self, answer: Answer, more: dict[str, str]) -> None:
                self.send_response(answer.status)
                for name, value in ({"Content-Type": "application/json"} | more | answer.headers).items():
                    self.send_header(name, value)
                self.end_headers()

            def _reset(self) -> None:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True

            def _wait_for_leave(self) -> None:
                self.connection.settimeout(0.05)
                while not loopback._closing.is_set():
                    try:
                        gone = not self.connection.recv(1)
                    except TimeoutError:
                        continue
                    except OSError:
                        gone = True
                    if gone:
                        loopback.left.set()
                        break
                self.close_connection = True

            def _trickle(self, answer: Answer, seconds: float) -> None:
                self._begin(answer, {"Transfer-Encoding": "chunked"})
                try:
                    for _ in range(int(seconds / 0.05)):
                        self._chunk(b"\n")
                        if loopback._closing.wait(0.05):
                            return
                    self._chunk(answer.data())
                    self._chunk(b"")
                except OSError:
                    loopback.left.set()
                    self.close_connection = True

            def _stream(self, events: Sequence[bytes | float], end: str) -> None:
                self._begin(Answer(headers=EVENT_STREAM), {"Transfer-Encoding": "chunked"})
                try:
                    for event in events:
                        if isinstance(event, bytes):
                            self._chunk(event)
                        elif loopback._closing.wait(event):
                            return
                    if end == "close":
                        self._chunk(b"")
                except OSError:
                    loopback.left.set()
                    self.close_connection = True
                    return
                if end == "reset":
                    self._reset()
                elif end == "hang":
                    self._wait_for_leave()

            def _chunk(self, data: bytes) -> None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

        return Handler
