"""A Jupyter notebook as text: the cells' sources and text outputs; images and attachments by kind and size alone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from agentctl.base.text import clean, cut

from .paths import size_text

_OUTPUT = 6_000  # characters of one output that are shown
_NOTED = 20  # notes of one output
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_EMBEDDED = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[\w;=.+-]*;base64,([A-Za-z0-9+/=]{64,})")


class NotANotebook(Exception):
    """The bytes are not a notebook; the text says why."""


def notebook_text(data: bytes) -> str:
    """The notebook in `data` (format 3 or 4) as text. Raises NotANotebook; odd cells and outputs don't raise."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotANotebook(f"{error}" if isinstance(error, ValueError) else "nested too deeply") from None
    cells = _cells(notebook)
    kernel = _member(_member(notebook, "metadata"), "kernelspec")
    names = [name for key in ("name", "display_name") if isinstance(name := _member(kernel, key), str) and name]
    head = f"Notebook of {len(cells)} cells" + (f", kernel {' = '.join(names)}" if names else "")
    return clean("\n".join([head, *(line for number, cell in enumerate(cells, 1) for line in _cell(number, cell))]))


def _cells(notebook: Any) -> list[Any]:
    cells = _member(notebook, "cells")
    if cells is None and isinstance(sheets := _member(notebook, "worksheets"), list):  # format 3
        cells = [cell for sheet in sheets for cell in _list(_member(sheet, "cells"))]
    if not isinstance(cells, list):
        raise NotANotebook("it has no list of cells")
    return cells


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Notebook text, which is a string or a list of them."""
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _without_data(text: str) -> str:
    """`text` with embedded files replaced by their kind and size."""
    return _EMBEDDED.sub(lambda found: f"[{found[1] or 'data'}, {_decoded(found[2])}, left out]", text)


def _decoded(base64: str) -> str:
    return size_text(len(base64) * 3 // 4)


def _cell(number: int, cell: Any) -> list[str]:
    kind = _member(cell, "cell_type")
    count = _member(cell, "execution_count") or _member(cell, "prompt_number")
    run = f" In [{count}]" if isinstance(count, int) else ""
    source = _text(_member(cell, "source")) or _text(_member(cell, "input"))
    lines = ["", f"--- cell {number}: {kind if isinstance(kind, str) else 'of no known kind'}{run}"]
    if source:
        lines.append(_without_data(source).rstrip("\n"))
    attachments = _member(cell, "attachments")
    for name, kinds in attachments.items() if isinstance(attachments, dict) else ():
        lines.extend(f"[attachment {name}: {note}]" for note in _other_kinds(kinds))
    for output in _list(_member(cell, "outputs")):
        lines.extend(_output(output))
    return lines


def _output(output: Any) -> list[str]:
    kind = _member(output, "output_type")
    if kind in ("error", "pyerr"):
        trace = "\n".join(part for part in _list(_member(output, "traceback")) if isinstance(part, str))
        text = trace or f"{_text(_member(output, 'ename'))}: {_text(_member(output, 'evalue'))}"
        return ["--- error", _bounded(text)]
    if kind == "stream":
        name = _text(_member(output, "name") or _member(output, "stream")) or "stdout"
        return [f"--- {name}", _bounded(_text(_member(output, "text")))]
    data = _member(output, "data")  # format 3 has the kinds beside the output's own keys
    kinds = data if isinstance(data, dict) else _format_3_data(output)
    text = _text(kinds.get("text/plain"))
    if not text and "text/html" in kinds:
        text = _stripped(_text(kinds["text/html"]))
    elif not text:
        text = _text(kinds.get("text/markdown")) or _text(kinds.get("text/latex"))
    return ["--- output", *([_bounded(text)] if text else []), *(f"[{note}]" for note in _other_kinds(kinds))]


def _format_3_data(output: Any) -> dict[str, Any]:
    names = {
        "text": "text/plain",
        "html": "text/html",
        "png": "image/png",
        "jpeg": "image/jpeg",
        "svg": "image/svg+xml",
    }
    return {kind: output[key] for key, kind in names.items() if isinstance(output, dict) and key in output}


def _other_kinds(kinds: Any) -> list[str]:
    """Kind and size of each representation that is not shown as text."""
    notes = []
    for kind, value in kinds.items() if isinstance(kinds, dict) else ():
        if kind in ("text/plain", "text/html", "text/markdown", "text/latex"):
            continue
        text = _text(value) or json.dumps(value)
        is_base64 = not kind.startswith("text/") and "json" not in kind and "svg" not in kind
        notes.append(f"{kind}, {_decoded(text) if is_base64 else size_text(len(text.encode('utf-8', 'replace')))}")
    return notes[:_NOTED]


def _bounded(text: str) -> str:
    return cut(_COLOURS.sub("", _without_data(text)).rstrip("\n"), _OUTPUT)


class _Stripper(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")
        if tag in ("tr", "p", "br", "div", "li"):
            self.pieces.append("\n")
        elif tag in ("td", "th"):
            self.pieces.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style") and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(" ".join(data.split()))


def _stripped(html: str) -> str:
    """The words of `html`, a line for a table row or paragraph."""
    stripper = _Stripper()
    stripper.feed(html)
    lines = (" ".join(line.split()) for line in "".join(stripper.pieces).split("\n"))
    return "\n".join(line for line in lines if line)
