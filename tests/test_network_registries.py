"""Real installs from real registries, from inside a sandbox. They need a network: where a registry gives no answer at
all to this machine itself, a test is skipped and says so."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from sandboxes import opened, sh, text

from agentctl.tools.sandbox.protocol import Refusal, Sandbox

Make = Callable[[str], Sandbox]
# apt with its state in the home, whatever system it finds; Debian's own source alone.
APT = """
mkdir -p ~/apt/lists/partial ~/apt/archives/partial && cd ~/apt
echo 'deb [trusted=yes] http://deb.debian.org/debian bookworm main' >sources.list
apt() {
    apt-get -q -o Dir::State=$HOME/apt -o Dir::State::lists=$HOME/apt/lists -o Dir::Cache=$HOME/apt \
        -o Dir::State::status=/var/lib/dpkg/status -o Dir::Etc::sourcelist=$HOME/apt/sources.list \
        -o Dir::Etc::sourceparts=- -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=0 "$@"
}
"""


@cache
def answers(url: str) -> str:
    """Why `url` gives no answer to this machine. Empty where it does."""
    try:
        urllib.request.urlopen(url, timeout=20).close()
    except urllib.request.HTTPError:
        return ""
    except OSError as error:
        return f"{url} does not answer here: {error}"
    return ""


def needs(url: str, program: str = "sh") -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    if why := answers(url):
        pytest.skip(why)


@pytest.fixture
def open_box(tmp_path: Path) -> Iterator[Make]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    boxes: list[Sandbox] = []

    def make(network: str) -> Sandbox:
        (tmp_path / network).mkdir()
        boxes.append(opened("bubblewrap", tmp_path / network, network=network))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()


@pytest.mark.parametrize("network", ["registries", "open"])
def test_pip_installs_from_pypi(open_box: Make, network: str) -> None:
    needs("https://pypi.org/simple/six/")
    box = open_box(network)
    install = "python3 -m pip install --no-cache-dir --no-deps --target lib -i https://pypi.org/simple six==1.16.0"
    text(box, install, timeout=180)
    assert text(box, "PYTHONPATH=lib python3 -c 'import six; print(six.__version__, six.__file__)'") == (
        "1.16.0 /workspace/lib/six.py"
    )


def test_pip_is_refused_with_the_reason(open_box: Make) -> None:
    get = "python3 -m pip download --no-cache-dir --no-deps --retries 1 -i https://codeocean.com/simple six 2>&1"
    for network in ("registries", "open"):
        said = sh(open_box(network), get, timeout=60)
        assert said.exit_code != 0
        assert f"Refused by the network policy '{network}': codeocean.com is refused".encode() in said.stdout
    said = sh(open_box("none"), get.replace("codeocean.com", "pypi.org"), timeout=60)
    assert said.exit_code != 0
    assert b"six-1" not in said.stdout


def test_apt_fetches_from_debian(open_box: Make) -> None:
    needs("http://deb.debian.org/debian/dists/bookworm/InRelease", "apt-get")
    box = open_box("registries")
    said = text(box, f"{APT} apt update 2>&1 && apt download hostname 2>&1 && dpkg-deb -I hostname_*.deb", timeout=180)
    assert "Package: hostname" in said


def test_apt_is_refused_with_the_reason(open_box: Make) -> None:
    needs("http://deb.debian.org/debian/dists/bookworm/InRelease", "apt-get")
    box = open_box("registries")
    said = text(box, f"{APT} sed -i s/deb.debian.org/deb.example.com/ sources.list; apt update 2>&1; true", timeout=60)
    assert "Refused by the network policy 'registries': deb.example.com is not a package registry" in said
    said = text(open_box("none"), f"{APT} apt update 2>&1; ls lists", timeout=60)
    assert "InRelease" not in said.splitlines()[-1]


def test_npm_looks_up_a_package(open_box: Make) -> None:
    needs("https://registry.npmjs.org/is-odd", "npm")
    assert text(open_box("registries"), "npm view is-odd@3.0.1 version", timeout=120) == "3.0.1"


def test_tls_of_one_host_to_another(open_box: Make) -> None:
    """CONNECT to a registry, and TLS that asks its server for another name."""
    needs("https://pypi.org/simple/six/", "openssl")
    box = open_box("open")
    heard: list[Refusal] = []
    box.on_refusal(heard.append)
    client = "openssl s_client -proxy 127.0.0.1:3128 -connect pypi.org:443 -brief"
    assert "CONNECTION ESTABLISHED" in text(box, f"{client} -servername pypi.org </dev/null 2>&1", timeout=30)
    for name in ("-servername codeocean.com", "-noservername"):
        done = sh(box, f"{client} {name} </dev/null 2>&1", timeout=30)
        assert done.exit_code != 0
        assert b"access denied" in done.stdout
    assert [refusal.why for refusal in heard] == [
        "TLS through the tunnel to pypi.org asks for codeocean.com",
        "TLS through the tunnel to pypi.org names no server",
    ]
