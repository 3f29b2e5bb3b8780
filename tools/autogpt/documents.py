"""What a file says, as text: plain text in any encoding, and what PDF, Word and HTML files hold."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import PurePosixPath
from xml.etree import ElementTree

from agentctl.base.text import cut, decode, head, head_bytes, tail, tail_bytes

from ..files.encodings import encoding_of, mark_of
from ..files.formats import HEAD, recognise
from ..files.paths import shell_word, shown, size_text, stat_file
from ..sandbox.protocol import FileInfo, Sandbox
from .html import page_text, parsed

PDF_SECONDS = 60.0
_LARGEST = 32 << 20  # bytes of a document, or of what is packed in it
_PAGE = 4 << 20  # bytes of an HTML file that are looked at: pictures can be in it
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ALIGNED = 4  # bytes: the widest unit of an encoding


class Unreadable(Exception):
    """A file that no text can be taken from. Said to the agent."""


def document_text(sandbox: Sandbox, path: str, *, limit: int) -> str:
    """The text of the file at the absolute `path`, at most `limit` characters and a line: of more, both ends.

    Unreadable for what holds no text; the sandbox's errors (`files.paths.FAILURES`) for what is no file.
    """
    info = stat_file(sandbox, path)
    start = sandbox.read(path, limit=HEAD)
    suffix = PurePosixPath(path).suffix.lower()
    kind = recognise(start, path)
    if kind is None:
        if suffix in (".html", ".htm", ".xhtml"):
            page = parsed(sandbox.read(path, limit=_PAGE), cut=info.size > _PAGE)
            return cut(page_text(page), limit)
        return _plain(sandbox, path, info, limit)
    if start.startswith(b"%PDF-"):
        return cut(_pdf(sandbox, path), limit)
    if "docx" in kind.name:
        return cut(_docx(sandbox, path), limit)
    command = kind.command.replace("{}", shell_word(path))
    raise Unreadable(f"{shown(path)} is {kind.name}, {size_text(info.size)}: not text. To look inside: {command}")


def _plain(sandbox: Sandbox, path: str, info: FileInfo, limit: int) -> str:
    """Of a large file only the ends are read, as it may have any size."""
    ends = 4 * limit
    first = sandbox.read(path, limit=2 * ends)
    codec = encoding_of(first if len(first) < 2 * ends else head_bytes(first, ends))
    if info.size <= len(first):
        return cut(first[len(mark_of(first)) :].decode(codec, "replace"), limit)
    last = sandbox.read(path, offset=(info.size - ends) // _ALIGNED * _ALIGNED)
    one_byte = codec in ("utf-8", "cp1252", "latin-1")
    last = tail_bytes(last, ends) if one_byte else last
    before = head(first[len(mark_of(first)) :].decode(codec, "replace"), limit // 2)
    after = tail(last.decode(codec, "replace"), limit // 2)
    return f"{before}\n[... the middle of {info.size:,} bytes left out ...]\n{after}"


def _pdf(sandbox: Sandbox, path: str) -> str:
    done = sandbox.exec(["pdftotext", "-q", "-layout", path, "-"], timeout=PDF_SECONDS, limit=_LARGEST)
    if done.exit_code == 127:
        raise Unreadable(f"{shown(path)} is a PDF document, and there is no pdftotext here (package poppler-utils).")
    text = decode(done.stdout)
    if not text.strip():
        why = decode(done.stderr).strip().partition("\n")[0]
        why = why or ("it holds pictures alone" if done.exit_code == 0 else "pdftotext can't read it")
        raise Unreadable(f"No text can be taken from the PDF document {shown(path)}: {why}.")
    return text


_NO_DOCUMENT = (
    *(zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, NotImplementedError),
    *(ElementTree.ParseError, ValueError, OverflowError),
)  # what reading a file that claims to be one comes to


def _docx(sandbox: Sandbox, path: str) -> str:
    """The paragraphs of a Word document, those in tables too."""
    try:
        packed = zipfile.ZipFile(io.BytesIO(sandbox.read(path, limit=_LARGEST)))
        with packed, packed.open("word/document.xml") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise Unreadable(f"The text of {shown(path)} has more than {size_text(_LARGEST)}.")
        tree = ElementTree.fromstring(data)
    except _NO_DOCUMENT as error:
        raise Unreadable(f"{shown(path)} is no Word document that can be read: {error}") from error
    marks = {f"{_WORD}p": "\n", f"{_WORD}br": "\n", f"{_WORD}tab": "\t"}
    pieces = (node.text or "" if node.tag == f"{_WORD}t" else marks.get(node.tag, "") for node in tree.iter())
    return "".join(pieces).strip("\n")
