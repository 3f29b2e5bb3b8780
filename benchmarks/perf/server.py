"""A model server without a delay, on loopback, that times its client.

For each request it notes when it was complete; for each reply, the moment just before it is written. The gap between a
reply and the next request is all that the client did in between: its loop, its tools, its bookkeeping.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Timings:
    """What the server saw of one client. Seconds."""

    requests: list[float] = field(default_factory=list)  # when each was complete
    replies: list[float] = field(default_factory=list)  # just before each was written
    prompt_bytes: list[int] = field(default_factory=list)
    cpu_at_first: float | None = None  # of the client and its ended children, at its first request

    @property
    def gaps(self) -> list[float]:
        return [after - before for before, after in zip(self.replies, self.requests[1:], strict=False)]


class ModelServer:
    """Serves /v1/chat/completions: `steps` calls of the shell tool, then a finish."""

    def __init__(self, steps: int, command: str) -> None:
        self.timings = Timings()
        self.client_pid: int | None = None
        self._steps = steps
        self._command = command
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as stream:
            while True:
                length = _length_of_next(stream)
                if length is None:
                    return
                body = stream.read(length)
                self.timings.requests.append(time.perf_counter())
                if self.timings.cpu_at_first is None and self.client_pid is not None:
                    self.timings.cpu_at_first = cpu_seconds(self.client_pid)
                self.timings.prompt_bytes.append(length)
                streamed = b'"stream":true' in body.replace(b'": ', b'":')
                tree = self._reply(len(self.timings.requests), length)
                reply = _events(tree) if streamed else json.dumps(tree).encode()
                kind = "text/event-stream" if streamed else "application/json"
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(reply)}\r\n\r\n"
                data = head.encode() + reply
                del body
                self.timings.replies.append(time.perf_counter())
                connection.sendall(data)

    def _reply(self, number: int, length: int) -> dict[str, Any]:
        name, arguments = ("bash", {"command": self._command}) if number <= self._steps else ("finish", {})
        call = {"id": f"call_{number}", "type": "function"}
        function = {"name": name, "arguments": json.dumps(arguments)}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]}
        usage = {"prompt_tokens": length // 4, "completion_tokens": 20, "total_tokens": length // 4 + 20}
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "timed",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": usage,
        }


def _events(tree: dict[str, Any]) -> bytes:
    """A reply as a stream: its head, its call's arguments in two pieces, its end, its usage."""
    call = tree["choices"][0]["message"]["tool_calls"][0]
    arguments = call["function"]["arguments"]
    half = len(arguments) // 2
    begun = {"index": 0, **call, "function": {**call["function"], "arguments": arguments[:half]}}
    rest = {"index": 0, "function": {"arguments": arguments[half:]}}
    steps: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": None}, None),
        ({"tool_calls": [begun]}, None),
        ({"tool_calls": [rest]}, None),
        ({}, "tool_calls"),
    ]
    head = {key: tree[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    chunks = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in steps]
    chunks.append(head | {"choices": [], "usage": tree["usage"]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def _length_of_next(stream: Any) -> int | None:
    """The body's length of the next request on `stream`; None where the client hung up."""
    length = 0
    first = True
    while True:
        line = stream.readline()
        if not line:
            return None
        if line in (b"\r\n", b"\n"):
            if first:
                continue
            return length
        first = False
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)


def cpu_seconds(pid: int) -> float | None:
    """CPU time of a process and of its ended children."""
    import os

    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(int(value) for value in fields[11:15]) / os.sysconf("SC_CLK_TCK")
