"""A mirror of capsules on the loopback, with the faults that real servers have."""

from __future__ import annotations

import io
import ssl
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass
class Fault:
    """What goes wrong with one request."""

    status: int | None = None  # answered in place of the file
    headers: Mapping[str, str] = field(default_factory=dict)
    drop_after: int | None = None  # bytes of the body, then the connection breaks
    no_ranges: bool = False  # the whole file, whatever was asked for
    wrong_range: bool = False  # another part than the one asked for
    at_most: int | None = None  # bytes of a part, though more was asked for
    length: int | None = None  # told in place of the true one
    no_length: bool = False


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # whoever asked is gone


@dataclass
class Mirror:
    """Serves `files` by name. Each request takes the next fault; without one all goes well."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    validator: str | None = "ETag"  # or Last-Modified, or none at all
    pause: float = 0.0  # seconds before each 4 KiB
    tls: ssl.SSLContext | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __enter__(self) -> Mirror:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._server.server_port}"

    def ranges(self) -> list[str]:
        """The `Range` of each request so far."""
        return [headers.get("range", "") for _, headers in self.asked]


def _handler(mirror: Mirror) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            mirror.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            fault = mirror.faults.pop(0) if mirror.faults else Fault()
            data = mirror.files.get(self.path.lstrip("/"))
            if fault.status is not None or data is None:
                self._answer(fault.status or 404, dict(fault.headers) | {"Content-Length": "0"})
                return
            self._send_file(data, fault)

        def _send_file(self, data: bytes, fault: Fault) -> None:
            tag = f'"{md5(data).hexdigest()}"'
            stamp = {"ETag": tag, "Last-Modified": f"Sat, 01 Jan 2022 00:00:{len(data) % 60:02d} GMT"}
            headers = {mirror.validator: stamp[mirror.validator]} if mirror.validator else {}
            start = 0
            span = self.headers.get("Range", "")
            fresh = self.headers.get("If-Range") in headers.values()
            if span and fresh and not fault.no_ranges:
                start = int(span.removeprefix("bytes=").rstrip("-"))
                if start >= len(data):
                    self._answer(416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"})
                    return
                start += fault.wrong_range
                end = len(data) if fault.at_most is None else start + fault.at_most
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
                data = data[:end]
            body = data[start:]
            if not fault.no_length:
                headers["Content-Length"] = str(len(body) if fault.length is None else fault.length)
            self._answer(206 if "Content-Range" in headers else 200, headers)
            self._send(body if fault.drop_after is None else body[: fault.drop_after])
            self.close_connection = True

        def _answer(self, status: int, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def _send(self, body: bytes) -> None:
            for at in range(0, len(body), 4096):
                time.sleep(mirror.pause)
                self.wfile.write(body[at : at + 4096])

    return Handler


def packed(fill: Callable[[tarfile.TarFile], None], mode: str = "w:gz") -> bytes:
    """An archive with what `fill` puts into it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        fill(tar)
    return out.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **changed: Any) -> None:
    """A file, or with a `type` something else, at the end of `tar`."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mtime = 1_600_000_000
    for key, value in changed.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(content))


def capsule_archive(capsule_id: str, *, filler: int = 0, zeros: int = 0) -> bytes:
    """The archive of a small capsule of the benchmark's layout; `filler` bytes don't compress, `zeros` do."""
    noise = b"".join(md5(str(n).encode()).digest() for n in range(filler // 16))

    def fill(tar: tarfile.TarFile) -> None:
        for folder in ("", "/code", "/data", "/results"):
            add(tar, f"{capsule_id}{folder}", type=tarfile.DIRTYPE, mode=0o755)
        add(tar, f"{capsule_id}/code/run", b"#!/bin/bash\npython main.py\n", mode=0o755)
        add(tar, f"{capsule_id}/code/main.py", b"print(42)\n")
        add(tar, f"{capsule_id}/code/input", type=tarfile.SYMTYPE, linkname="/data")
        add(tar, f"{capsule_id}/data/noise.bin", noise + bytes(zeros))
        add(tar, f"{capsule_id}/results/output", b"42\n")
        add(tar, f"{capsule_id}/REPRODUCING.md", b"`registry.codeocean.com/published/x:v1`\n")

    return packed(fill)
