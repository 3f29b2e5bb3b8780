"""The first message of a TLS client, read as far as the name of the server it asks for (RFC 8446 4.1.2, RFC 6066 3)."""

from __future__ import annotations

from dataclasses import dataclass

HELLO_LIMIT = 1 << 16  # bytes; those of real clients have a few hundred, with post-quantum keys two thousand
ACCESS_DENIED = bytes((21, 3, 1, 0, 2, 2, 49))  # the alert that tells a client why it is left

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_RECORD_LIMIT = 1 << 14
_SERVER_NAME, _HOST_NAME = 0, 0
_ENCRYPTED = (0xFE0D, 0xFFCE)  # Encrypted ClientHello, and its forerunner: the true name is hidden


class NotTls(Exception):
    """Bytes that no TLS client begins with."""


@dataclass(frozen=True)
class Hello:
    """What a client says openly. `server_name` is as it was sent, None where it sent none."""

    server_name: str | None
    encrypted: bool  # holds a second, encrypted message that may ask for another server


def read_hello(data: bytes) -> Hello | None:
    """The client's first message out of the bytes it has sent so far. None: more are needed.

    NotTls for anything that a strict reader would not take, so that no server can read another name in it.
    """
    message = _handshake(data)
    return None if message is None else _hello(_Reader(message))


def _handshake(data: bytes) -> bytes | None:
    """The body of the first handshake message, which may be spread over several records."""
    reader = _Reader(data)
    message = b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        if len(message) > HELLO_LIMIT or (message and message[0] != _CLIENT_HELLO):
            raise NotTls("the first message is no ClientHello")
        if reader.left < 5:
            if reader.left and reader.number(1) != _HANDSHAKE:
                raise NotTls("this is not TLS")
            return None
        kind, major, _, size = reader.number(1), reader.number(1), reader.number(1), reader.number(2)
        if kind != _HANDSHAKE or major != 3 or not 0 < size <= _RECORD_LIMIT:
            raise NotTls("this is not TLS")
        if reader.left < size:
            return None
        message += reader.take(size)
    if message[0] != _CLIENT_HELLO or len(message) != 4 + int.from_bytes(message[1:4]):
        raise NotTls("the first message is no ClientHello")
    return message[4:]


def _hello(reader: _Reader) -> Hello:
    reader.take(2 + 32)  # version, random
    reader.vector(1)  # session
    reader.vector(2)  # ciphers
    reader.vector(1)  # compression
    name, encrypted, seen = None, False, set()
    extensions = _Reader(reader.vector(2)) if reader.left else reader
    reader.end()
    while extensions.left:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise NotTls("an extension is there twice")
        seen.add(kind)
        encrypted = encrypted or kind in _ENCRYPTED
        if kind == _SERVER_NAME:
            name = _server_name(_Reader(body))
    return Hello(name, encrypted)


def _server_name(reader: _Reader) -> str:
    names = _Reader(reader.vector(2))
    reader.end()
    kind, name = names.number(1), names.vector(2)
    names.end()  # RFC 6066 allows one name of a kind, and only one kind was ever defined
    if kind != _HOST_NAME or not name.isascii():
        raise NotTls("the server's name can't be read")
    return name.decode("ascii")


class _Reader:
    """Reads from the front of some bytes. NotTls where they are too few."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise NotTls("the first message is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> bytes:
        """Bytes after their own length, which has `size` bytes."""
        return self.take(self.number(size))

    def end(self) -> None:
        if self.left:
            raise NotTls("there is more than belongs there")
