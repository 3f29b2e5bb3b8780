"""The network policy from inside a sandbox: what works through the proxy, and that nothing works without it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from networks import Server
from sandboxes import opened, sh, spawn, text

from agentctl.base.errors import InputError
from agentctl.tools.sandbox.network.gate import PORT
from agentctl.tools.sandbox.protocol import Refusal, Sandbox, SandboxSpec, SandboxUnavailable

pytest_plugins = ("network_fixtures",)

Make = Callable[..., Any]
SOMEWHERE = "127.0.0.2"  # a server of the host's; programs inside take it for one that is reached by the proxy
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.fixture
def open_box(tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    with contextlib.ExitStack() as stack:

        def make(network: str, *allow: str, **options: Any) -> Sandbox:
            base = tmp_path / str(len(list(tmp_path.iterdir())))
            base.mkdir()
            box = opened("bubblewrap", base, network=network, allow_hosts=allow, **options)
            stack.callback(box.close)
            return box

        yield make


@pytest.fixture
def mirror(serve: Make) -> Server:
    server: Server = serve(None, SOMEWHERE)
    return server


@pytest.fixture(params=["registries", "open"])
def box(request: pytest.FixtureRequest, open_box: Make, mirror: Server) -> Sandbox:
    made: Sandbox = open_box(request.param, f"{SOMEWHERE}:{mirror.port}")
    return made


def python(box: Sandbox, code: str, *arguments: str) -> str:
    """What `code` prints, its last line alone: a traceback's is the error."""
    done = box.exec(["python3", "-c", code, *arguments], timeout=20)
    return (done.stdout + done.stderr).decode().strip().split("\n")[-1]


FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except OSError as error:
    print(getattr(error, "reason", error))
"""


def test_what_is_allowed_works(box: Sandbox, mirror: Server) -> None:
    url = f"http://{SOMEWHERE}:{mirror.port}/x"
    assert python(box, FETCH, url).startswith("GET /x ")
    for program in ("curl -sS", "wget -q -O-"):
        if shutil.which(program.split()[0]):
            assert text(box, f"{program} {url}").startswith("GET /x ")
    assert mirror.seen[0] == "GET /x"


def test_the_reason_of_a_refusal_is_told(box: Sandbox, mirror: Server) -> None:
    heard: list[Refusal] = []
    box.on_refusal(heard.append)
    line = f"Refused by the network policy '{box.spec.network}': codeocean.com is refused under every policy"
    assert python(box, FETCH, "https://codeocean.com/capsule/1") == f"Tunnel connection failed: 403 {line}"
    assert python(box, FETCH, "http://codeocean.com/capsule/1") == line
    assert python(box, FETCH, f"http://{SOMEWHERE}:{mirror.port}/to/https://www.codeocean.com").endswith(
        "www.codeocean.com is refused under every policy"
    )
    if shutil.which("curl"):
        assert text(box, "curl -sS http://codeocean.com/") == line
        assert f"403 {line}" in text(box, "curl -sSv https://codeocean.com/ 2>&1; true")
    assert [refusal.host for refusal in heard] == ["codeocean.com", "codeocean.com", "www.codeocean.com"]
    assert [refusal.port for refusal in heard] == [443, 80, 443]


def test_refusals_before_anybody_listens_are_kept(open_box: Make) -> None:
    box = open_box("registries")
    python(box, FETCH, "https://example.com/")
    heard: list[Refusal] = []
    box.on_refusal(heard.append)
    assert [refusal.words for refusal in heard] == ["refused: example.com is not a package registry"]


@pytest.mark.parametrize("network", ["none", "registries", "open"])
def test_there_is_no_way_but_the_proxy(open_box: Make, serve: Make, network: str) -> None:
    """Names, sockets of every kind, servers of the host: none of them, and none of it takes long to fail."""
    local = serve()
    box = open_box(network, f"127.0.0.1:{local.port}")
    began = time.monotonic()
    for code in (
        "import socket; print(socket.getaddrinfo('pypi.org', 443))",
        "import socket; print(socket.getaddrinfo('deb.debian.org', 80, socket.AF_INET6))",
        "import socket; print(socket.create_connection(('192.0.2.1', 443), 5))",
        "import socket; print(socket.create_connection(('2001:db8::1', 443), 5))",
        f"import socket; print(socket.create_connection(('127.0.0.1', {local.port}), 5))",
        f"import socket; print(socket.create_connection(('{SOMEWHERE}', {local.port}), 5))",
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(s.sendto(b'x', ('192.0.2.1', 53)))",
        "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b'', ('2001:db8::1', 53))",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'x', ('192.0.2.1', 0)); print(1)",
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW).bind(('eth0', 0)); print(1)",
    ):
        assert "rror" in python(box, code), code
    assert time.monotonic() - began < 10
    known = text(box, "cat /etc/resolv.conf 2>/dev/null; cat /etc/hosts")
    assert known == "127.0.0.1 localhost sandbox\n::1 localhost"
    assert local.seen == []


def test_a_server_of_the_agents_own_is_reached_directly(box: Sandbox) -> None:
    code = """
import http.server, threading, urllib.request
http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for host in ("127.0.0.1", "localhost"):
    answer = urllib.request.urlopen(f"http://{host}:{server.server_port}/")
print(answer.status)
"""
    assert python(box, code) == "200"


def test_abstract_sockets_of_the_host_are_not_reached(open_box: Make) -> None:
    name = f"\0agentctl-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]); print('connected')"
        for network in ("none", "open"):
            assert "ConnectionRefusedError" in python(open_box(network), code, name[1:])


def test_the_environment_names_the_proxy(box: Sandbox, open_box: Make) -> None:
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    assert {box.env[name] for name in names} == {f"http://127.0.0.1:{PORT}"}
    assert box.env["no_proxy"] == box.env["NO_PROXY"] == "localhost,127.0.0.1"
    none = open_box("none", owner_env={**os.environ, "https_proxy": "http://proxy.corp:3128"})
    assert not any("proxy" in name.lower() for name in none.env)
    refused = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 5)"
    assert "ConnectionRefusedError" in python(none, refused)


def test_the_owners_proxy_and_its_password_stay_outside(open_box: Make) -> None:
    """They are used (test_network_tunnel.py), not shown."""
    env = {
        **os.environ,
        "https_proxy": "http://me:CANARY@proxy.corp:3128",
        "ALL_PROXY": "http://me:CANARY@proxy.corp:1",
    }
    box = open_box("registries", owner_env=env)
    assert "CANARY" not in text(box, "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    assert box.env["https_proxy"] == f"http://127.0.0.1:{PORT}"
    with pytest.raises(InputError, match="https_proxy"):
        open_box("registries", owner_env={**os.environ, "https_proxy": "socks5://proxy.corp:1080"})


def test_nothing_inside_can_end_or_replace_the_door(box: Sandbox, mirror: Server) -> None:
    code = f"import socket; s = socket.socket(); s.setsockopt(1, 15, 1); s.bind(('127.0.0.1', {PORT})); s.listen()"
    assert "OSError" in python(box, code)
    sh(box, "kill -9 -1")
    sh(box, "kill -9 1")
    assert python(box, FETCH, f"http://{SOMEWHERE}:{mirror.port}/y").startswith("GET /y ")
    # A refused and a broken request, and a hundred that nobody ends, later.
    code = f"""
import socket, time
held = [socket.create_connection(("127.0.0.1", {PORT})) for _ in range(100)]
for connection in held[:50]:
    connection.sendall(b"GET http://")
print(len(held))
"""
    assert python(box, code) == "100"
    assert python(box, FETCH, f"http://{SOMEWHERE}:{mirror.port}/z").startswith("GET /z ")


@needs_curl
def test_tricks_with_the_address(box: Sandbox, mirror: Server) -> None:
    for url in (
        f"http://{SOMEWHERE}:1/",
        "https://203.0.113.7/",
        "https://[2001:db8::1]/",
        "http://2130706433/",
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost.:80/",
        "https://pypi.org:8443/",
        "ftp://ftp.debian.org/debian/",
    ):
        code = text(box, f"curl -s -g -o /dev/null -w '%{{http_code}} %{{http_connect}}' --noproxy '' '{url}'; true")
        assert "403" in code, (url, code)
    told = text(box, f"curl -sS -H 'Host: codeocean.com' http://{SOMEWHERE}:{mirror.port}/")
    assert "has another Host header" in told
    told = text(box, f"curl -sS -X PUT -d x http://{SOMEWHERE}:{mirror.port}/")
    assert "is not allowed over plain http" in told
    assert mirror.seen == []
    own = "curl -sS -o /dev/null --resolve codeocean.com:443:127.0.0.1 https://codeocean.com/ 2>&1; true"
    assert "403" in text(box, own)


HOLD = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("held", flush=True)
time.sleep(60)
"""


def test_close_ends_what_is_open(box: Sandbox) -> None:
    child = spawn(box, ["python3", "-c", HOLD, str(PORT)])
    child.expect("held")
    box.close()
    box.close()
    assert not any(thread.name == "network proxy" for thread in threading.enumerate() if thread.is_alive())
    child.close(force=True)


@pytest.mark.parametrize("host", ["codeocean.com", "no host", "https://pypi.corp/simple"])
def test_hosts_that_can_not_be_allowed(open_box: Make, host: str) -> None:
    with pytest.raises(InputError, match="allow_hosts"):
        open_box("registries", host)


def test_the_local_sandbox_holds_no_policy(tmp_path: Path) -> None:
    assert SandboxSpec(kind="local").network == "open"
    for options in ({"network": "none"}, {"network": "registries"}, {"allow_hosts": ("pypi.corp",)}):
        with pytest.raises(SandboxUnavailable, match="can hold no network policy"):
            opened("local", tmp_path, **options)
