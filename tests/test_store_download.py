"""Downloads over a line that breaks, from servers that are busy, odd, or have another file by now."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirror import Fault, Mirror

from agentctl.base.errors import AgentctlError, SetupError
from agentctl.benchmarks.corebench.store.download import download
from agentctl.benchmarks.corebench.store.place import about

DATA = bytes(range(256)) * 400  # 102,400 bytes
ODD_PLACES = ["file:///etc/passwd", "ftp://127.0.0.1/file", "https:///file", "http://[::1", "//127.0.0.1:99999/file"]


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror({"file": DATA}) as served:
        yield served


class Told:
    """Remembers what a watcher hears."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int | None]] = []
        self.notes: list[str] = []

    def moved(self, done: int, total: int | None) -> None:
        self.steps.append((done, total))

    def note(self, line: str) -> None:
        self.notes.append(line)


def brought(mirror: Mirror, part: Path, pauses: list[float] | None = None, **more: object) -> bytes:
    slept = pauses if pauses is not None else []
    download(f"{mirror.url}/file", part, sleep=slept.append, **more)  # type: ignore[arg-type]
    return part.read_bytes()


def test_a_file_arrives_whole_and_its_progress_is_told(mirror: Mirror, tmp_path: Path) -> None:
    told = Told()
    assert brought(mirror, tmp_path / "deep" / "part", watcher=told) == DATA
    assert told.steps[0] == (0, len(DATA)) and told.steps[-1] == (len(DATA), len(DATA))
    assert not told.notes and len(mirror.asked) == 1
    assert mirror.asked[0][1]["accept-encoding"] == "identity"


@pytest.mark.parametrize("validator", ["ETag", "Last-Modified"])
def test_a_broken_download_is_gone_on_with(mirror: Mirror, tmp_path: Path, validator: str) -> None:
    mirror.validator = validator
    mirror.faults = [Fault(drop_after=50_000), Fault(drop_after=10_000)]
    told = Told()
    assert brought(mirror, tmp_path / "part", watcher=told) == DATA
    assert mirror.ranges() == ["", "bytes=50000-", "bytes=60000-"]
    assert len(told.notes) == 2 and "trying again" in told.notes[0]


def test_so_is_one_that_a_killed_process_left(mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = [Fault(drop_after=50_000), Fault(status=404)]
    with pytest.raises(AgentctlError):
        brought(mirror, tmp_path / "part")
    assert brought(mirror, tmp_path / "part") == DATA
    assert mirror.ranges()[-1] == "bytes=50000-"
    before = len(mirror.asked)
    assert brought(mirror, tmp_path / "part") == DATA  # whole already: nothing is asked for
    assert len(mirror.asked) == before


BROKEN = Fault(drop_after=50_000)
ODDITIES = {
    "no ranges": [BROKEN, Fault(no_ranges=True)],
    "another range": [BROKEN, Fault(wrong_range=True)],
    "less than asked for": [BROKEN, Fault(at_most=10_000), Fault(at_most=1)],
    "range refused": [BROKEN, Fault(status=416)],
    "no length on resume": [BROKEN, Fault(no_length=True)],
    "no length": [Fault(no_length=True)],
    "too long a length": [Fault(length=len(DATA) + 10)],
}


@pytest.mark.parametrize("kind", ODDITIES)
def test_whatever_a_server_does_the_file_is_right(mirror: Mirror, tmp_path: Path, kind: str) -> None:
    mirror.faults = list(ODDITIES[kind])
    assert brought(mirror, tmp_path / "part") == DATA


def test_without_a_validator_it_begins_again(mirror: Mirror, tmp_path: Path) -> None:
    mirror.validator = None
    mirror.faults = [Fault(drop_after=50_000)]
    assert brought(mirror, tmp_path / "part") == DATA
    assert mirror.ranges() == ["", ""]


@pytest.mark.parametrize("validator", ["ETag", "Last-Modified"])
def test_a_file_that_changed_is_not_sewn_together(mirror: Mirror, tmp_path: Path, validator: str) -> None:
    mirror.validator = validator
    mirror.faults = [Fault(drop_after=50_000), Fault(status=404)]
    with pytest.raises(AgentctlError):
        brought(mirror, tmp_path / "part")
    mirror.files["file"] = DATA[::-1] + b"more"
    assert brought(mirror, tmp_path / "part") == DATA[::-1] + b"more"


def test_a_part_of_another_address_is_not_gone_on_with(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["other"] = DATA[::-1]
    mirror.faults = [Fault(drop_after=50_000), Fault(status=404)]
    with pytest.raises(AgentctlError):
        brought(mirror, tmp_path / "part")
    download(f"{mirror.url}/other", tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == DATA[::-1]


@pytest.mark.parametrize("junk", [b"{", b"[]", b'{"address": 1}', b""])
def test_a_spoiled_note_beside_a_part_costs_only_the_part(mirror: Mirror, tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "part").write_bytes(b"xxxx")
    about(tmp_path / "part").write_bytes(junk)
    assert brought(mirror, tmp_path / "part") == DATA


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(mirror: Mirror, tmp_path: Path, status: int) -> None:
    mirror.faults = [Fault(status=status, headers={"Retry-After": "77"}), Fault(status=status)]
    pauses: list[float] = []
    assert brought(mirror, tmp_path / "part", pauses) == DATA
    assert pauses[0] == 77 and 0 < pauses[1] < 30


@pytest.mark.parametrize(("header", "least"), [("2.5", 2.5), ("soon", 0), ("Fri, 31 Dec 2100 23:59:59 GMT", 60)])
def test_any_form_of_a_pause_is_understood(mirror: Mirror, tmp_path: Path, header: str, least: float) -> None:
    mirror.faults = [Fault(status=503, headers={"Retry-After": header})]
    pauses: list[float] = []
    assert brought(mirror, tmp_path / "part", pauses) == DATA
    assert pauses[0] >= least


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 501])
def test_a_no_is_told_at_once(mirror: Mirror, tmp_path: Path, status: int) -> None:
    mirror.faults = [Fault(status=status)]
    with pytest.raises(AgentctlError, match=f"{mirror.url}/file: the server answered {status}") as caught:
        brought(mirror, tmp_path / "part")
    assert caught.value.exit_status == 1 and len(mirror.asked) == 1


def test_it_gives_up_when_nothing_new_comes(mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = [Fault(status=503)] * 50
    with pytest.raises(AgentctlError, match=r"503.*try later"):
        brought(mirror, tmp_path / "part")
    assert len(mirror.asked) == 5
    with pytest.raises(AgentctlError, match="can't be downloaded"):
        download("http://127.0.0.1:9/file", tmp_path / "part", sleep=lambda pause: None)


def test_it_does_not_give_up_while_something_comes(mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = [Fault(drop_after=5_000)] * 20
    assert brought(mirror, tmp_path / "part") == DATA
    assert len(mirror.asked) == 21


def test_a_server_that_always_begins_anew_is_given_up(mirror: Mirror, tmp_path: Path) -> None:
    mirror.validator = None
    mirror.faults = [Fault(drop_after=5_000)] * 50
    with pytest.raises(AgentctlError, match="can't be downloaded"):
        brought(mirror, tmp_path / "part")
    assert len(mirror.asked) < 10


def test_redirects_are_followed_but_not_for_ever(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["far/file"] = DATA
    mirror.faults = [
        Fault(status=302, headers={"Location": "/far/file"}),
        Fault(status=301, headers={"Location": f"{mirror.url}/file"}),
    ]
    assert brought(mirror, tmp_path / "part") == DATA
    mirror.faults = [Fault(status=302, headers={"Location": "/file"})] * 20
    with pytest.raises(AgentctlError, match="leads on more than"):
        brought(mirror, tmp_path / "other")


@pytest.mark.parametrize("place", ODD_PLACES)
def test_a_redirect_to_something_else_is_refused(mirror: Mirror, tmp_path: Path, place: str) -> None:
    mirror.faults = [Fault(status=302, headers={"Location": place})]
    with pytest.raises(AgentctlError, match="no address of the web"):
        brought(mirror, tmp_path / "part")
    assert not (tmp_path / "part").exists()


def test_what_does_not_fit_is_refused_unread(mirror: Mirror, tmp_path: Path) -> None:
    def admit(total: int | None) -> None:
        raise SetupError(f"{total} are too many")

    with pytest.raises(SetupError, match="102400 are too many"):
        brought(mirror, tmp_path / "part", admit=admit)
    assert not (tmp_path / "part").exists()


def test_more_than_was_told_of_is_stopped(mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = [Fault(no_length=True)]
    with pytest.raises(SetupError, match="larger than the room"):
        brought(mirror, tmp_path / "part", most=10_000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    made = ["openssl", *command.split(), "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(made, check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture
def safe(certificate: Path) -> Iterator[Mirror]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with Mirror({"file": DATA}, tls=context) as served:
        yield served


def test_a_server_that_nobody_vouches_for_is_refused(safe: Mirror, tmp_path: Path) -> None:
    with pytest.raises(AgentctlError, match=r"no safe connection.*certificate"):
        brought(safe, tmp_path / "part")
    assert not safe.asked


def test_https_works_and_never_leads_to_http(
    safe: Mirror, mirror: Mirror, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    safe.faults = [Fault(drop_after=50_000)]
    assert brought(safe, tmp_path / "part") == DATA
    safe.faults = [Fault(status=302, headers={"Location": f"{mirror.url}/file"})]
    with pytest.raises(AgentctlError, match="not https"):
        brought(safe, tmp_path / "other")
    assert not mirror.asked
