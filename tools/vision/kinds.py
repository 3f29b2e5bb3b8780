"""What a file is that is no image to be sent, and what to do about it."""

from __future__ import annotations

import re

from agentctl.base.text import clean, head

from ..files.formats import HEAD, recognise
from ..files.paths import shell_word, shown

_SVG = re.compile(rb"<svg[\s>]")
_SHOWN = 60  # characters of a text


class NotUsable(Exception):
    """A file that can't be shown to a model: what it is, and what to do, in words that name it."""


def what_it_is(data: bytes, path: str) -> str:
    """In words that name the file: what `data` is, by its content, and how an image is made of it, where one can be."""
    name, word = shown(path), shell_word(path)
    png = shell_word(f"{path.rpartition('.')[0] or path}.png")
    start = data[:HEAD]
    if not data:
        return f"{name} is empty: it has 0 bytes"
    if start.startswith(b"%PDF-"):
        pages = shell_word(path.rpartition(".")[0] or f"{path}-page")
        return f"{name} is a PDF document. Make images of its pages, and ask about those: pdftoppm -png {word} {pages}"
    if start.startswith((b"%!PS", b"\xc5\xd0\xd3\xc6")):
        command = f"gs -q -dSAFER -dBATCH -dNOPAUSE -dEPSCrop -sDEVICE=png16m -r150 -o {png} {word}"
        return f"{name} is a PostScript drawing. Make an image of it, and ask about that: {command}"
    kind = recognise(start, path)
    if kind is None and _SVG.search(start):
        command = f"rsvg-convert -w 1600 -o {png} {word}"
        return f"{name} is an SVG drawing. Make an image of it, and ask about that: {command}"
    if kind is not None:
        return f"{name} is {kind.name}, no image that can be shown"
    said = " ".join(clean(start.decode("utf-8", "replace")).split())
    return f"{name} is a text, no image; it begins: {head(said, _SHOWN)!r}"
