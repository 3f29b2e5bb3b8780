"""A network in the small: servers on the loopback address, and a proxy before them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agentctl.tools.sandbox.network.outward import Outward
from agentctl.tools.sandbox.network.policy import Policy
from agentctl.tools.sandbox.network.proxy import Proxy
from agentctl.tools.sandbox.network.refusals import Refusals
from agentctl.tools.sandbox.protocol import Refusal


class Handler(BaseHTTPRequestHandler):
    """Tells what it was asked. A path /to/URL redirects to that URL."""

    protocol_version = "HTTP/1.1"
    seen: list[str]

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.seen.append(f"{self.command} {self.path}")
        names = " ".join(sorted(name.lower() for name in self.headers))
        text = f"{self.command} {self.path} host={self.headers['Host']} body={body.decode()} headers={names}\n".encode()
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            text = b""
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Keep-Alive", "timeout=5")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server:
    """An HTTP server at `address`, over TLS where there is a certificate. `seen` are the requests it got."""

    def __init__(self, certificate: Path | None = None, address: str = "127.0.0.1") -> None:
        self.seen: list[str] = []
        handler = type("Seeing", (Handler,), {"seen": self.seen})
        self._http = ThreadingHTTPServer((address, 0), handler)
        self._http.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = int(self._http.server_address[1])
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class Network:
    """A proxy at `port`, and what it refused."""

    def __init__(self, policy: Policy, owner_env: dict[str, str]) -> None:
        self.refused: list[Refusal] = []
        refusals = Refusals()
        refusals.listen(self.refused.append)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._proxy = Proxy(policy, Outward(owner_env), refusals)
        self._proxy.start(listener)
        self.close = self._proxy.close

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def say(self, *parts: bytes) -> bytes:
        """All that comes back for these bytes, after which nothing more is sent."""
        with self.connect() as connection:
            with contextlib.suppress(OSError):  # refused before all was said
                for part in parts:
                    connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
            return received(connection)

    def whys(self) -> list[str]:
        return [refusal.why for refusal in self.refused]


def received(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while more := connection.recv(1 << 16):
            data += more
    return data
