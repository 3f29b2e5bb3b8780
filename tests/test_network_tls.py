"""The server's name in the first message of a TLS client: found however it is cut up, and nothing else taken for it."""

from __future__ import annotations

import contextlib

import pytest
from client_hello import made_hello, real_hello, records, server_name, sized
from hypothesis import given
from hypothesis import strategies as st

from agentctl.tools.sandbox.network.tls import HELLO_LIMIT, Hello, NotTls, read_hello

PYPI = server_name(b"pypi.org")


@pytest.mark.parametrize("name", ["pypi.org", "files.pythonhosted.org", "a" * 63 + ".example.org", None])
def test_a_real_client(name: str | None) -> None:
    assert read_hello(real_hello(name)) == Hello(name, encrypted=False)


def test_an_address_is_named_by_no_client() -> None:
    assert read_hello(real_hello("127.0.0.2")) == Hello(None, encrypted=False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 16384])
def test_in_any_number_of_records(size: int) -> None:
    message = real_hello("pypi.org")[5:]
    data = records(message, size)
    assert read_hello(data) == Hello("pypi.org", encrypted=False)
    assert read_hello(data + b"\x14\x03\x03\0\1\1 what follows") == Hello("pypi.org", encrypted=False)


def test_in_any_number_of_pieces() -> None:
    data = records(real_hello("pypi.org")[5:], 50)
    assert all(read_hello(data[:end]) is None for end in range(len(data)))


def test_an_encrypted_hello_is_seen() -> None:
    for extension in ((0xFE0D, b"\0" * 40), (0xFFCE, b"\0" * 40)):
        assert read_hello(records(made_hello(PYPI, extension))) == Hello("pypi.org", encrypted=True)


def test_without_extensions_there_is_no_name() -> None:
    bare = made_hello()[:-2]
    assert read_hello(records(b"\x01" + sized(bare[4:], 3))) == Hello(None, encrypted=False)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="ssh"),
        pytest.param(b"\x80\x2e\x01\x00\x02", id="SSL 2"),
        pytest.param(b"\x17\x03\x03\x00\x05hello", id="data without a handshake"),
        pytest.param(b"\x16\x02\x01\x00\x05", id="another version"),
        pytest.param(b"\x16\x03\x01\x00\x00", id="an empty record"),
        pytest.param(b"\x16\x03\x01\xff\xff", id="a record too large"),
        pytest.param(records(b"\x01" + sized(b"\x03\x03" + bytes(32) + b"\xff", 3)), id="a session longer than all"),
        pytest.param(records(made_hello(PYPI)[:30]) + b"\x17\x03\x01\0\2ab", id="another record between"),
        pytest.param(records(made_hello(PYPI, kind=2)), id="another message"),
        pytest.param(records(made_hello(PYPI) + made_hello(PYPI)), id="two messages in one record"),
        pytest.param(records(made_hello(PYPI, PYPI)), id="two names"),
        pytest.param(records(made_hello(PYPI, server_name(b"codeocean.com"))), id="two different names"),
        pytest.param(records(made_hello(server_name(b"pypi.org", after=b"\0" + sized(b"b", 2)))), id="a list of names"),
        pytest.param(records(made_hello(server_name(b"pypi.org", kind=1))), id="another kind of name"),
        pytest.param(records(made_hello(server_name(b"pypi.org\xff"))), id="not ASCII"),
        pytest.param(records(made_hello((0, b"\0\1\0"))), id="no name in it"),
        pytest.param(records(made_hello((0, b""))), id="an empty extension"),
        pytest.param(records(made_hello(PYPI, tail=b"x")), id="more behind the extensions"),
        pytest.param(records(made_hello((0, sized(b"\0" + sized(b"pypi.org", 2), 2) + b"x"))), id="more behind a name"),
        pytest.param(records(b"\x01" + (HELLO_LIMIT * 2).to_bytes(3) + bytes(HELLO_LIMIT + 5000)), id="no end"),
    ],
)
def test_what_is_no_clients_first_message(data: bytes) -> None:
    with pytest.raises(NotTls):
        read_hello(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for start in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x00\x50\x01\x00\x00\x4c\x03\x03"):
        with contextlib.suppress(NotTls):
            read_hello(start + data)
