"""First messages of TLS clients, real ones and made ones."""

from __future__ import annotations

import contextlib
import ssl

Extension = tuple[int, bytes]


def real_hello(server_name: str | None) -> bytes:
    """What Python's own TLS client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def sized(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size) + data


def server_name(name: bytes, *, kind: int = 0, after: bytes = b"") -> Extension:
    return 0, sized(bytes((kind,)) + sized(name, 2) + after, 2)


def made_hello(*extensions: Extension, kind: int = 1, tail: bytes = b"") -> bytes:
    """A handshake message with these extensions, without a record around it."""
    body = b"\x03\x03" + bytes(32) + sized(b"", 1) + sized(b"\x13\x01", 2) + sized(b"\0", 1)
    body += sized(b"".join(number.to_bytes(2) + sized(data, 2) for number, data in extensions), 2) + tail
    return bytes((kind,)) + sized(body, 3)


def records(message: bytes, size: int = 1 << 14) -> bytes:
    """`message` in handshake records of at most `size` bytes."""
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + sized(part, 2) for part in parts)
