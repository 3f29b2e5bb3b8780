"""What a web page says, as plain text, and where it links to."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from agentctl.base.text import head_bytes

from ..files.encodings import encoding_of, mark_of
from ..shell.capture import WIDEST

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_UNSEEN = ("head", "script", "style", "template", "noscript")
_CELLS = ("td", "th")
_BLOCKS = (
    *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figcaption", "figure", "footer"),
    *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre"),
    *("section", "table", "tr", "ul"),
)
_DECLARED = re.compile(rb"""<(?:meta|\?xml)\b[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?([\w.:-]{1,40})""", re.I)
_HEAD = 4096  # bytes of a page in which it may say its encoding


def parsed(data: bytes, charset: str | None = None, *, cut: bool = False) -> HtmlElement:
    """The page in `data`, however broken. `charset` is what its server says of it; `cut`: there is more of it.

    By libxml2: a parser that takes any page in time that grows with its length alone.
    """
    from lxml import etree, html  # takes 50 ms, and few attempts read pages

    declared = _DECLARED.search(data[:_HEAD])
    text = decoded(data, charset or (declared[1].decode() if declared else None), cut=cut)
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text.encode(), parser=parser)
    except etree.ParserError:  # nothing in it
        return html.document_fromstring("<p>", parser=parser)


def decoded(data: bytes, charset: str | None, *, cut: bool = False) -> str:
    """`data` in the encoding that it is said to be in, as browsers take it; in the likeliest where nothing is said."""
    if charset:
        with contextlib.suppress(LookupError):  # no such encoding
            return data.decode(charset, "replace")
    whole = head_bytes(data, max(0, len(data) - WIDEST)) if cut else data  # it may end in half a letter
    return data[len(mark_of(data)) :].decode(encoding_of(whole), "replace")


def page_text(page: HtmlElement) -> str:
    """What a reader sees of it, without blank lines. Changes the page."""
    from lxml import etree

    etree.strip_elements(page, *_UNSEEN, with_tail=False)
    for block in page.iter(*_BLOCKS):  # in source without line ends its text would run into that around it
        block.text, block.tail = f"\n{block.text or ''}", f"\n{block.tail or ''}"
    for cell in page.iter(*_CELLS):
        cell.tail = f" {cell.tail or ''}"
    lines = (" ".join(line.split()) for line in "".join(page.itertext()).splitlines())
    return "\n".join(filter(None, lines))


def page_links(page: HtmlElement, url: str, limit: int) -> list[tuple[str, str]]:
    """The text and address of its first `limit` links to other web pages, each address once."""
    found: dict[str, str] = {}
    for link in page.iter("a"):
        if len(found) == limit:
            break
        try:
            address = urljoin(url, link.get("href", "").strip())
            usable = urlsplit(address).scheme in ("http", "https")
        except ValueError:  # no address at all
            continue
        if usable and link.get("href"):
            found.setdefault(address, " ".join(link.text_content().split()))
    return [(text, address) for address, text in found.items()]
