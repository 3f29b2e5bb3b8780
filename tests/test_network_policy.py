"""Which hosts a policy admits: by what name, however it is spelled, on what port, at what address."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.base.errors import InputError
from agentctl.tools.sandbox.network.addresses import is_outside
from agentctl.tools.sandbox.network.names import parse_host
from agentctl.tools.sandbox.network.outward import Outward
from agentctl.tools.sandbox.network.owners import owners_proxy
from agentctl.tools.sandbox.network.policy import Destination, NotAllowed, Policy
from agentctl.tools.sandbox.network.refusals import DIFFERENT, Refusals
from agentctl.tools.sandbox.protocol import Refusal

BOTH = [Policy("registries"), Policy("open")]


def admitted(policy: Policy, authority: str) -> bool:
    try:
        policy.admit(authority)
    except NotAllowed:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        *("pypi.org", "files.pythonhosted.org", "conda.anaconda.org", "repo.anaconda.com", "cran.r-project.org"),
        *("cloud.r-project.org", "r-forge.r-project.org", "packagemanager.posit.co", "rspatial.r-universe.dev"),
        *("bioconductor.org", "mghp.bioconductor.org", "deb.debian.org", "ftp.de.debian.org", "snapshot.debian.org"),
        *("archive.ubuntu.com", "de.archive.ubuntu.com", "ppa.launchpadcontent.net", "registry.npmjs.org"),
        *("mirrors.tuna.tsinghua.edu.cn", "stat.ethz.ch", "PyPI.org", "pypi.org."),
    ],
)
def test_registries_can_be_reached(host: str) -> None:
    for policy in BOTH:
        assert policy.admit(f"{host}:443") == Destination(parse_host(host), 443, listed=True)
        assert policy.admit(host, default_port=80).port == 80


@pytest.mark.parametrize(
    "host",
    [
        *("example.com", "github.com", "raw.githubusercontent.com", "salsa.debian.org", "huggingface.co", "doi.org"),
        *("notpypi.org", "pypi.org.example.com", "pypi-org", "org", "xn--pypi-9d0a.org", "debian.org", "localhost"),
    ],
)
def test_other_hosts_are_for_open_alone(host: str) -> None:
    registries, open_ = BOTH
    with pytest.raises(NotAllowed, match=f"^{host} is not a package registry$"):
        registries.admit(f"{host}:443")
    assert open_.admit(f"{host}:443") == Destination(host, 443)


@pytest.mark.parametrize("policy", BOTH, ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    "host", ["codeocean.com", "www.codeocean.com", "CODEOCEAN.com.", "registry.codeocean.com", "a.b.codeocean.com"]
)
def test_what_is_denied_is_denied_under_every_policy(policy: Policy, host: str) -> None:
    for port in (80, 443, 8080):
        with pytest.raises(NotAllowed, match=r"codeocean\.com is refused under every policy"):
            policy.admit(f"{host}:{port}")
    with pytest.raises(InputError, match=r"codeocean\.com is refused"):
        Policy(policy.name, (host,))
    with pytest.raises(NotAllowed, match="under every policy"):
        Policy(policy.name, ("com",)).admit("codeocean.com:443")


@pytest.mark.parametrize("policy", BOTH, ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    "authority",
    [
        *("151.101.0.223:443", "[2a04:4e42::223]:443", "[::1]:443", "127.0.0.1:80", "[::ffff:127.0.0.1]:80"),
        *("2130706433:80", "0x7f000001:443", "0x7f.1:443", "0177.0.0.1:443", "127.1:80", "0:80", "1.2.3.4.5:80"),
        *("pypi.org@codeocean.com:443", "user:pw@pypi.org:443", "pypi.org%00.example.com:443", "pypi.org%2e:443"),
        *("pypi.org/x:443", "pypi.org:443/x", "pypi.org#:443", "pypi.org?:443", "pypi.org\\@a:443", "pypi..org:443"),
        *(".pypi.org:443", "pypi.org..:443", " pypi.org:443", "pypi.org :443", "pypi.org:443 ", "pypi.org\t:443"),
        *("pypi.org:0443x", "pypi.org:", "pypi.org", ":443", "", "[pypi.org]:443", "[::1", "::1:443", "fe80::1%eth0"),
        *("[fe80::1%25eth0]:443", "pypi.org:0", "pypi.org:65536", "pypi.org:99999999", "pypi.org:-1", "p.org:４４３"),
        *("pypı.org:443", "ｐｙｐｉ.org:443", "-pypi.org:443", f"{'a' * 64}.pypi.org:443", f"{'a.' * 130}pypi.org:443"),
        *("*.pypi.org:443", "pypi.org,example.com:443", "[::1]pypi.org:443", "pypi.org:443:443"),
    ],
)
def test_what_is_no_plain_name_is_refused(policy: Policy, authority: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        policy.admit(authority)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("port", [22, 25, 8080, 8443, 11371, 65535])
def test_other_ports_are_refused(port: int) -> None:
    for policy in BOTH:
        with pytest.raises(NotAllowed, match=f"^pypi.org may not be reached on port {port}$"):
            policy.admit(f"pypi.org:{port}")
        assert admitted(policy, f"keyserver.ubuntu.com:{port}") == (port == 11371)


def test_users_hosts() -> None:
    mine = Policy("registries", ("pypi.corp", "nexus.example.org:8081", "10.1.2.3:3141", "[fd00::1]", "bücher.example"))
    assert mine.admit("pypi.corp:443") == Destination("pypi.corp", 443, listed=True, anywhere=True)
    assert admitted(mine, "a.pypi.corp:80")
    assert not admitted(mine, "pypi.corp:8080")
    assert admitted(mine, "NEXUS.example.org.:8081")
    assert not admitted(mine, "nexus.example.org:443")
    assert mine.admit("10.1.2.3:3141").authority == "10.1.2.3:3141"
    assert not admitted(mine, "10.1.2.3:80")
    assert not admitted(mine, "10.1.2.30:3141")
    assert mine.admit("[fd00:0::1]:443").authority == "[fd00::1]:443"
    assert admitted(mine, "xn--bcher-kva.example:443")
    assert not mine.admit("pypi.org:443").anywhere
    assert not Policy("open", ("pypi.corp:8080",)).admit("pypi.corp:443").anywhere


@pytest.mark.parametrize(
    "entry", ["", "https://pypi.corp/simple", "a b", "*.corp", "corp:", "corp:0", "::1", "me@corp"]
)
def test_users_hosts_that_are_none(entry: str) -> None:
    with pytest.raises(InputError, match="allow_hosts"):
        Policy("registries", (entry,))


@given(st.text(max_size=40))
def test_no_text_gets_past_as_another_host(text: str) -> None:
    """Whatever is admitted is, to every reader, a registry's name as plain text."""
    try:
        to = BOTH[0].admit(f"{text}pypi.org:443")
    except NotAllowed:
        return
    assert to.host == f"{text}pypi.org".lower()
    assert text == "" or text.endswith(".")


# --- addresses ---

INSIDE = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.192 192.168.1.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 :: ::1 fe80::1 fec0::1 fc00::1
fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1
64:ff9b::a00:1 64:ff9b:1::1 2002:7f00:1:: 2002:a00:1::1 fe80::1%eth0
"""
OUTSIDE = """
1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 151.101.0.223 169.253.255.255
172.15.255.255 172.32.0.0 192.0.1.1 192.0.2.1 198.51.100.7 203.0.113.80 223.255.255.255 2a04:4e42::223 2001:db8::1
2606:4700::1 ::ffff:151.101.0.223 64:ff9b::9765:df 2002:9765:df::1
"""


@pytest.mark.parametrize("address", INSIDE.split())
def test_addresses_of_this_machine_and_its_network(address: str) -> None:
    assert not is_outside(ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE.split())
def test_addresses_of_the_public_network(address: str) -> None:
    assert is_outside(ip_address(address))


# --- the owner's proxy ---


def test_owners_proxy() -> None:
    found = owners_proxy({"HTTPS_PROXY": "http://me:p%40ss@proxy.corp:3128", "http_proxy": "other:80"}, "https")
    assert found is not None
    assert (found.host, found.port, found.tls) == ("proxy.corp", 3128, False)
    assert found.headers == ((b"proxy-authorization", b"Basic bWU6cEBzcw=="),)
    assert "bWU6cEBzcw" not in repr(found)
    bare = owners_proxy({"all_proxy": "proxy.corp:8080"}, "http")
    assert bare is not None
    assert (bare.host, bare.port, bare.headers) == ("proxy.corp", 8080, ())
    assert owners_proxy({"https_proxy": "", "http_proxy": "a"}, "https") is None
    for value in ("socks5://proxy:1080", "http://", "http://proxy:port"):
        with pytest.raises(InputError, match="https_proxy"):
            owners_proxy({"https_proxy": value}, "https")


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("", False),
        ("*", True),
        ("pypi.corp", True),
        ("localhost, .corp", True),
        ("*.corp", True),
        ("pypi.corp:443", True),
        ("pypi.corp:80", False),
        ("ypi.corp,10.0.0.0/8,[", False),
    ],
)
def test_no_proxy(no_proxy: str, direct: bool) -> None:
    outward = Outward({"https_proxy": "http://proxy:1", "NO_PROXY": no_proxy})
    assert (outward.proxy("https", Destination("pypi.corp", 443)) is None) == direct


# --- refusals ---


def test_refusals_wait_for_a_listener() -> None:
    refusals, heard = Refusals(), list[Refusal]()
    refusals.add("a", 443, "a is not")
    refusals.listen(heard.append)
    refusals.add("b", 80, "b is not")
    refusals.listen(None)
    refusals.add("c", 80, "c is not")
    assert [each.host for each in heard] == ["a", "b"]
    refusals.listen(heard.append)
    assert [each.host for each in heard] == ["a", "b", "c"]


def test_refusals_are_bounded() -> None:
    refusals, heard = Refusals(), list[Refusal]()
    refusals.listen(heard.append)
    for _ in range(2500):
        refusals.add("a", 443, "a is not")
    assert [each.times for each in heard] == [1, 10, 100, 1000]
    assert heard[-1].words == "refused: a is not (1000 times)"
    for n in range(5000):
        refusals.add(f"h{n}", 443, "is not")
    assert len(heard) < DIFFERENT + 10
    assert heard[-1].host == "other hosts"
