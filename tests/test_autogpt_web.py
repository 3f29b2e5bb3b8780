"""AutoGPT's commands for the web, against a server of our own that is reached from inside a sandbox."""

from __future__ import annotations

import importlib.resources
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from autogpt_place import Desk, open_desk

from agentctl.base.errors import Cancelled
from agentctl.tools.autogpt.html import page_text, parsed
from agentctl.tools.autogpt.web import LINKS, PAGE_BYTES, RAW_CHARACTERS, Fetched, WebSearch, text_of
from agentctl.tools.sandbox.protocol import Refusal

SOMEWHERE = "127.0.0.2"  # of the host's: what is inside a sandbox reaches it through the proxy alone
HTML = "text/html; charset=utf-8"
RESULT = """<div class="result results_links {kind}"><h2><a class="result__a" href="{href}">Title <b>{n}</b></a></h2>
<a class="result__snippet">Excerpt &amp; more {n}</a></div>"""


class Web:
    """A server of pages by path: each is its type and its bytes, or an address it redirects to, or a status."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes] | str | int] = {}
        self.seen: list[str] = []
        self.stuck = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen.append(self.path)
                match web.pages.get(self.path.partition("?")[0], 404):
                    case str(address):
                        self.send_response(302)
                        self.send_header("Location", address)
                        self.end_headers()
                    case int(status):
                        self.send_response(status)
                        self.end_headers()
                        self.wfile.write(b"<h1>No such page</h1>")
                    case (media_type, body):
                        self.send_response(200)
                        if media_type:
                            self.send_header("Content-Type", media_type)
                        self.end_headers()
                        self.wfile.write(body)
                        if self.path == "/stuck":
                            web.stuck.wait(30)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer((SOMEWHERE, 0), Handler)
        self._http.daemon_threads = True
        self.address = f"{SOMEWHERE}:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def put(self, path: str, page: str | bytes, media_type: str = HTML) -> str:
        """Put a page there. Its address."""
        self.pages[path] = (media_type, page.encode() if isinstance(page, str) else page)
        return f"http://{self.address}{path}"

    def close(self) -> None:
        self.stuck.set()
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture(scope="module")
def one_web() -> Iterator[Web]:
    web = Web()
    yield web
    web.close()


@pytest.fixture(params=["local", "bubblewrap"], scope="module")
def one_desk(request: pytest.FixtureRequest, one_web: Web, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    allowed = {"allow_hosts": (one_web.address,)} if request.param == "bubblewrap" else {}
    desk = open_desk(tmp_path_factory.mktemp("web"), request.param, network="open", **allowed)
    yield desk
    desk.close()


@pytest.fixture
def web(one_web: Web) -> Web:
    one_web.pages.clear()
    one_web.seen.clear()
    return one_web


@pytest.fixture
def desk(one_desk: Desk) -> Desk:
    one_desk.asked.clear()
    return one_desk


def test_a_short_page_is_told_as_it_is_with_its_links(desk: Desk, web: Web) -> None:
    page = """<title>no part of it</title><script>var hidden</script><h1>Results</h1><p>AUC of <b>0.9</b>3 &lt;é&gt;
    <table><tr><td>1</td><td>2</td></tr><tr><th>3</th></tr></table><!-- nor this -->
    <a href="/next">Next <i>page</i></a> <a href="http://other.test/x?a=1&amp;b=2">Other</a> <a href="/next">again</a>
    <a href="mailto:x@y">mail</a> <a href="#part">here</a> <a name="x">no link</a> <a href="http://[broken">bad</a>"""
    told = desk.ok("read_webpage", url=web.put("/page", page), get_raw_content=True)
    assert told.startswith("Results\nAUC of 0.93 <é>\n1 2\n3\nNext page Other again\nmail here no link bad\n\nLinks:\n")
    assert told.splitlines()[-3:] == [
        f"- Next page: http://{web.address}/next",
        "- Other: http://other.test/x?a=1&b=2",
        f"- here: http://{web.address}/page#part",
    ]
    assert desk.asked == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"question": "How large is the AUC?"}, "How large is the AUC?"),
        ({"topics_of_interest": ["AUC", "data sets"]}, "AUC; data sets"),
        ({}, "Sum up"),
    ],
)
def test_the_fast_model_reads_a_page(desk: Desk, web: Web, arguments: dict[str, object], wanted: str) -> None:
    url = web.put("/page", "<p>AUC 0.93</p><a href='/a'>a</a>")
    assert desk.ok("read_webpage", url=url, **arguments) == (
        f"what the fast model says\n\nLinks:\n- a: http://{web.address}/a"
    )
    [(role, asked, limit)] = desk.asked
    assert role == "fast" and limit <= 1000
    assert wanted in asked and '"""\nAUC 0.93\na\n"""' in asked


def test_a_long_page_is_not_told_as_it_is(desk: Desk, web: Web) -> None:
    url = web.put("/long", "<p>" + "word " * RAW_CHARACTERS)
    assert "5.0 times as long" in desk.error("read_webpage", url=url, get_raw_content=True)
    many = web.put("/links", "".join(f"<a href='/{n}'>{n}</a>" for n in range(100)))
    assert desk.ok("read_webpage", url=many, get_raw_content=True).count("\n- ") == LINKS


def test_a_huge_page_is_read_to_its_bound(desk: Desk, web: Web) -> None:
    url = web.put("/huge", "<p>" + "<tr><td>12.3</td></tr>" * 200_000)
    began = time.monotonic()
    assert f"[only the first {PAGE_BYTES:,} bytes" in desk.ok("read_webpage", url=url, question="?")
    assert time.monotonic() - began < 15
    [(_, asked, _)] = desk.asked
    assert len(asked) < 61_000


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ("café".encode("latin-1"), "text/html; charset=latin-1"),
        ("café".encode("latin-1"), "text/html"),
        ("café".encode("latin-1"), "text/html; charset=no-such"),
        ("<meta charset=koi8-r><p>café".encode()[:-2] + b"\xe9", "text/html; charset=cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">café'.encode("latin-1"), "text/html"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><p>café'.encode("latin-1"), "application/xhtml+xml"),
        ("café".encode("utf-16"), "text/html; charset=utf-16"),
        ("café".encode(), "text/plain"),
        ("café".encode("latin-1"), "text/plain; charset=latin-1"),
    ],
)
def test_a_page_is_read_whatever_its_encoding(data: bytes, media_type: str) -> None:
    kind, _, charset = media_type.partition("; charset=")
    assert text_of(Fetched("http://x/", kind, charset or None, data, cut=False)) == "café"


def test_a_page_cut_within_a_letter_keeps_its_encoding() -> None:
    data = "<p>éé".encode()[:-1]
    assert page_text(parsed(data, cut=True)) == "é\ufffd"


def test_a_page_that_breaks_its_own_encoding_is_read(desk: Desk, web: Web) -> None:
    url = web.put("/broken", "<p>naïve \udce9 <b>x".encode("utf-8", "surrogateescape"))
    assert desk.ok("read_webpage", url=url, get_raw_content=True) == "naïve \ufffd x"
    assert desk.ok("read_webpage", url=web.put("/none", "<br>"), get_raw_content=True) == "The page holds no text."
    assert desk.ok("read_webpage", url=web.put("/none", b""), question="?") == "The page holds no text."


def test_redirects_are_followed_to_pages_alone(desk: Desk, web: Web) -> None:
    end = web.put("/end/page", "<p>there</p><a href='more'>m</a>")
    web.pages |= {
        "/a": "/b",
        "/b": end,
        "/loop": "/loop",
        "/file": "file:///etc/passwd",
        "/ftp": f"ftp://{web.address}/x",
    }
    start = f"http://{web.address}"
    told = desk.ok("read_webpage", url=f"{start}/a", get_raw_content=True)
    assert told == f"there\nm\n\nLinks:\n- m: {start}/end/more"
    for path, why in {"/loop": "infinite loop", "/file": "file:", "/ftp": "it leads on to ftp:"}.items():
        assert why in desk.error("read_webpage", url=f"{start}{path}", get_raw_content=True)


def test_what_is_no_page_is_said(desk: Desk, web: Web) -> None:
    start = f"http://{web.address}"
    assert "status 404: No such page" in desk.error("read_webpage", url=f"{start}/none", question="?")
    image = web.put("/plot.png", b"\x89PNG", "image/png")
    assert "image/png: download it" in desk.error("read_webpage", url=image, question="?")
    for url in ("file:///etc/passwd", "/etc/passwd", "ftp://x/y", "javascript:1"):
        assert "http://" in desk.error("read_webpage", url=url, question="?")
    for url in ("http://", "http://[x/", "http://a b/", "http://127.0.0.1:1/", "http://127.0.0.1:x/"):
        assert desk.error("read_webpage", url=url, question="?").startswith(url.strip())
    odd = web.put("/d%20%C3%A9", "x").replace("%20%C3%A9", " é")
    assert desk.ok("read_webpage", url=f"{odd}?q=a b", get_raw_content=True) == "x"
    assert desk.asked == []


def test_cancelling_ends_the_wait_for_a_page(desk: Desk, web: Web) -> None:
    url = web.put("/stuck", "<p>begun")
    cancel = desk.cancel
    threading.Timer(0.7, lambda: cancel.set("enough")).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        desk.run("read_webpage", url=url, question="?")
    assert time.monotonic() - began < 10
    desk.cancel = type(cancel)()
    desk.seconds_left = 1.0
    assert "did not come within 1 s" in desk.error("read_webpage", url=url, question="?")
    desk.seconds_left = 600.0


def searching(desk: Desk, web: Web, name: str = "web_search") -> WebSearch:
    tool = desk.tools["autogpt/web_search"]
    assert isinstance(tool, WebSearch)
    return WebSearch(tool.commands, name, endpoint=f"http://{web.address}/html/")


def test_a_search_tells_titles_addresses_and_excerpts(desk: Desk, web: Web) -> None:
    wrapped = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fpaper.test%2F1%3Fa%3Db&amp;rut=x"
    links = [(0, "y", "result--ad"), (1, wrapped, ""), *((n, f"https://paper.test/{n}", "") for n in range(2, 12))]
    web.put("/html/", "".join(RESULT.format(n=n, href=href, kind=kind) for n, href, kind in links))
    tool = searching(desk, web)
    told = tool.run(tool.arguments(query="a & b+é", num_results=3), desk.context()).text()
    assert told.split("\n\n") == [
        "Title 1\nhttps://paper.test/1?a=b\nExcerpt & more 1",
        "Title 2\nhttps://paper.test/2\nExcerpt & more 2",
        "Title 3\nhttps://paper.test/3\nExcerpt & more 3",
    ]
    assert web.seen == ["/html/?q=a+%26+b%2B%C3%A9"]
    assert tool.run(tool.arguments(query="x"), desk.context()).text().count("Excerpt") == 8


def test_a_search_is_tried_three_times(desk: Desk, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.tools.autogpt.web.PAUSE", 0.01)
    tool = searching(desk, web)
    result = tool.run(tool.arguments(query="x"), desk.context())
    assert "status 404" in result.text() and len(web.seen) == 3
    web.put("/html/", "<p>No results")
    assert tool.run(tool.arguments(query="x"), desk.context()).text() == "Nothing was found."
    assert len(web.seen) == 6


def test_codeocean_is_refused_and_that_is_recorded(tmp_path: Path, web: Web) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    desk = open_desk(tmp_path, "bubblewrap", network="open", allow_hosts=(web.address,))
    try:
        heard: list[Refusal] = []
        desk.sandbox.on_refusal(heard.append)
        web.pages["/to"] = "http://www.codeocean.com/capsule/1"
        for url in ("http://codeocean.com/", "https://codeocean.com/capsule/1", f"http://{web.address}/to"):
            assert "codeocean.com is refused under every policy" in desk.error("read_webpage", url=url, question="?")
        assert [refusal.host for refusal in heard] == ["codeocean.com", "codeocean.com", "www.codeocean.com"]
    finally:
        desk.close()


@pytest.mark.parametrize("network", ["none", "registries"])
def test_without_an_open_network_there_is_no_web(tmp_path: Path, web: Web, network: str) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    desk = open_desk(tmp_path, "bubblewrap", network=network)
    try:
        for name, arguments in {
            "web_search": {"query": "x"},
            "search": {"query": "x"},
            "read_webpage": {"url": f"http://{web.address}/", "question": "?"},
        }.items():
            assert f"its network policy is `{network}`" in desk.error(name, **arguments)
        assert web.seen == []
    finally:
        desk.close()


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000,
        "<b><p>" * 3_000,
        "<!--" * 100_000,
        "<a href='" * 100_000,
        "<![CDATA[" * 100_000,
        "\0" * 100_000,
    ],
)
def test_no_page_takes_long_to_read(page: str) -> None:
    began = time.monotonic()
    page_text(parsed(page.encode()))
    assert time.monotonic() - began < 3


def test_the_program_inside_needs_nothing_of_ours() -> None:
    program = importlib.resources.files("agentctl.tools.autogpt").joinpath("fetch.py").read_text(encoding="utf-8")
    argv = ["python3", "-I", "-S", "-c", program, "http://127.0.0.1:1/", "10"]
    done = subprocess.run(argv, capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert "error" in json.loads(done.stdout)
