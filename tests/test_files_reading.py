"""What read_file shows of texts, of notebooks and of everything else."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from file_place import Place, rise_in_memory
from file_samples import MADE, SAMPLES, sample

from agentctl.base.errors import Cancelled
from agentctl.tools.files.formats import HEAD, recognise
from agentctl.tools.files.notebook import NotANotebook, notebook_text
from agentctl.tools.files.pages import LINE

pytest_plugins = ("file_fixtures",)


def test_a_small_text_is_shown_to_the_letter(place: Place) -> None:
    (place.folder / "a.txt").write_text("one\n\ttwo  \n\nπ\n", encoding="utf-8")
    assert place.ok("read_file", path="a.txt") == "one\n\ttwo  \n\nπ"
    assert place.ok("read_file", path=f"{place.sandbox.workspace.start}/a.txt") == "one\n\ttwo  \n\nπ"


def test_pages_join_to_the_whole(place: Place) -> None:
    lines = [f"line {n} {'x' * (n % 97)}" for n in range(1, 3001)]
    (place.folder / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    got: list[str] = []
    while len(got) < len(lines):
        text = place.ok("read_file", path="a.txt", offset=len(got) + 1)
        assert len(text) <= 20_500
        page, _, note = text.rpartition("\n[")
        got += page.split("\n")
        assert ("go on with offset=" in note) == (len(got) < len(lines))
        assert "of 3,000" in note
    assert got == lines


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_blocks_may_end_anywhere(block: int) -> None:
    from agentctl.tools.files.pages import read_page

    data = b"a\n\nbb\r\n\xc3\xa9\nlast"
    for offset in range(1, 8):
        blocks = (data[at : at + block] for at in range(0, len(data), block))
        page = read_page(blocks, offset=offset, limit=2, count=True, check=lambda: None)
        expected = ["a", "", "bb", "é", "last"][offset - 1 : offset + 1]
        assert (page.text, page.shown, page.total) == ("\n".join(expected), len(expected), 5)
        assert page.finished == (offset >= 4)


@pytest.mark.parametrize(
    ("data", "shown", "note"),
    [
        ("naïve → π\n".encode("utf-8-sig"), "naïve → π", "byte order mark"),
        ("naïve π\r\nx\r\n".encode("utf-16"), "naïve π\nx", "UTF-16"),
        ("plain words\nmore\n".encode("utf-16-le"), "plain words\nmore", "UTF-16"),
        ("plain words\nmore\n".encode("utf-16-be"), "plain words\nmore", "UTF-16"),
        ("naïve π\n".encode("utf-32"), "naïve π", "UTF-32"),
        (b"r\xe9sum\xe9\n", "résumé", "Latin-1"),
        (b"\x93quoted\x94 \x80 5\n", "“quoted” € 5", "Windows-1252"),
        (b"a\r\nb\r\n", "a\nb", "lines end in CR LF"),
        (b"a\r\nb\n", "a\nb", "some lines end in CR LF"),
        (b"x" * 70_000 + b"\nr\xe9sum\xe9\n", "x" * LINE + "\nrésumé", "Latin-1"),
    ],
)
def test_encodings_are_told(place: Place, data: bytes, shown: str, note: str) -> None:
    (place.folder / "a.txt").write_bytes(data)
    text, _, notes = place.ok("read_file", path="a.txt").rpartition("\n[")
    assert text == shown
    assert note in notes


def test_one_endless_line_is_cut_in_bounded_memory(place: Place) -> None:
    with (place.folder / "long.json").open("wb") as file:
        file.write(b"[" + b"1234567," * (8 << 20))  # 64 MiB
        file.write(b"]\nend\n")
    texts: list[str] = []
    assert rise_in_memory(lambda: texts.append(place.ok("read_file", path="long.json"))) < 40
    assert len(texts[0]) < LINE + 300
    assert "line 1 has 67,108,866 bytes" in texts[0]
    assert "\nend\n" in texts[0]


def test_holes_are_not_read(place: Place) -> None:
    with (place.folder / "holes.txt").open("wb") as file:
        file.write(b"text\n" * 20_000)
        file.truncate(10 << 30)
    began = time.monotonic()
    assert "holes" in place.error("read_file", path="holes.txt", offset=50_000)
    assert time.monotonic() - began < 2


def test_what_is_not_there_is_told_with_what_is(place: Place) -> None:
    (place.folder / "data").mkdir()
    (place.folder / "data" / "penguins.csv").write_text("x", encoding="utf-8")
    (place.folder / "two.txt").write_text("1\n2\n", encoding="utf-8")
    assert "data/penguin.csv" in (text := place.error("read_file", path="data/penguin.csv")) and "penguins.csv" in text
    assert "two.txt" in place.error("read_file", path="zzz")
    assert "Nor is there a folder nowhere" in place.error("read_file", path="nowhere/x")
    assert "list_dir" in place.error("read_file", path="data")
    assert "has 2 lines" in place.error("read_file", path="two.txt", offset=3)
    assert place.error("read_file", path="two.txt/x")


def test_blank_text_is_told_in_words(place: Place) -> None:
    (place.folder / "blank.txt").write_text("\n\n\n", encoding="utf-8")
    assert "3 blank lines" in place.ok("read_file", path="blank.txt")


def test_reading_stops_when_the_owner_says_so(place: Place) -> None:
    (place.folder / "a.txt").write_text("x\n" * 9, encoding="utf-8")
    place.cancel.set("enough")
    with pytest.raises(Cancelled):
        place.run("read_file", path="a.txt")


def test_more_special_files(place: Place) -> None:
    import socket

    before = Path.cwd()
    os.chdir(place.folder)  # a socket's whole path may be too long
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("sock")
    finally:
        os.chdir(before)
    os.mkfifo(place.folder / "fifo")
    (place.folder / "loop").symlink_to("loop")
    (place.folder / "to_fifo").symlink_to("fifo")
    began = time.monotonic()
    for name in ("sock", "fifo", "loop", "to_fifo"):
        place.error("read_file", path=name)
        place.error("edit_file", path=name, old="a", new="b")
        place.error("search_files", pattern="a", path=name)
    for name in ("sock", "fifo", "loop", "to_fifo"):
        place.error("write_file", path=name, content="x")
    assert time.monotonic() - began < 5
    assert "FIFO" in place.error("read_file", path="fifo")


@pytest.mark.parametrize("name", [*(f"t.{suffix}" for suffix in MADE), *(path.name for path in SAMPLES.iterdir())])
def test_binary_kinds_are_recognised_by_content(name: str, tmp_path: Path) -> None:
    data = sample(name) if name.rsplit(".", 1)[-1] in MADE else (SAMPLES / name).read_bytes()
    kind = recognise(data[:HEAD], name)
    assert kind is not None
    if not name.endswith((".bin", ".dta")):
        renamed = recognise(data[:HEAD], "renamed.txt")
        assert renamed is not None and renamed.name == kind.name, "the name alone decided"


@pytest.mark.parametrize(
    ("name", "words"),
    [("gz.RData", "RData"), ("t.rds", "RDS"), ("t.xlsx", "Excel"), ("t.parquet", "Parquet"), ("t.h5", "HDF5")],
)
def test_packed_kinds_are_told_apart(name: str, words: str) -> None:
    kind = recognise((SAMPLES / name).read_bytes()[:HEAD], "x")
    assert kind is not None and words in kind.name


@pytest.mark.parametrize(
    "text", ["BMI,age\n21,40\n", "PK,x\n", "MZ 1\n", "ID3\n", "PAR1 = 2\n", "ORC\n", "\x1b[31mred\x1b[0m\n", "OTTO"]
)
def test_texts_that_begin_like_binary_kinds_are_texts(text: str) -> None:
    assert recognise(text.encode(), "a.csv") is None


def test_the_command_that_looks_inside_runs(place: Place) -> None:
    """The path is quoted, a leading dash included, and the commands of kinds that need nothing more really work."""
    for name in ("-it's a.zip", "-x y.npy", "-a.tgz", "b $(x).sqlite", "-c.gz"):
        (place.folder / name).write_bytes(sample(name))
        text = place.error("read_file", path=name)
        command = text.partition("To look inside: ")[2]
        done = subprocess.run(["bash", "-c", command], cwd=place.folder, capture_output=True, text=True, timeout=60)
        if "numpy" in command and "No module" in done.stderr:
            continue
        if "not found" not in done.stderr:
            assert done.returncode == 0 and done.stdout.strip(), (command, done.stderr)


# --- notebooks ---


def test_a_notebook_is_shown_as_cells(place: Place) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "execution_count": 7,
            "source": "fit()",
            "outputs": [
                {"output_type": "stream", "name": "stderr", "text": "careful\n"},
                {
                    "output_type": "execute_result",
                    "data": {"text/html": ["<table><tr><td>1</td><td>2</td></tr></table>"], "image/svg+xml": "<svg/>"},
                },
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m: v"]},
            ],
        },
        "not a cell",
        {"cell_type": "code", "source": None, "outputs": "none"},
    ]
    notebook = {"cells": cells, "metadata": {"kernelspec": {"name": "ir", "display_name": "R"}}}
    (place.folder / "a.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    text = place.ok("read_file", path="a.ipynb")
    for piece in (
        "kernel ir = R",
        "# Title\ntext",
        "In [7]",
        "fit()",
        "stderr\ncareful",
        "1 2",
        "image/svg+xml, 6 bytes",
    ):
        assert piece in text
    assert "--- error\nE: v" in text
    page = place.ok("read_file", path="a.ipynb", offset=2, limit=3)
    assert "# Title" in page and "go on with offset=5" in page


def test_an_old_notebook_is_shown_as_cells() -> None:
    output = {"output_type": "pyout", "text": ["3"], "png": "QUFB" * 100}
    cell = {"cell_type": "code", "input": "1+2", "prompt_number": 4, "outputs": [output]}
    text = notebook_text(json.dumps({"worksheets": [{"cells": [cell]}]}).encode())
    assert "1+2" in text and "In [4]" in text and "\n3\n" in text and "image/png, 300 bytes" in text


@pytest.mark.parametrize("data", [b"{", b"[]", b"null", b'{"cells": 3}', b"\xff", b"[" * 100_000, b'{"metadata": []}'])
def test_what_is_not_a_notebook_is_shown_as_text(data: bytes, place: Place) -> None:
    with pytest.raises(NotANotebook):
        notebook_text(data)
    (place.folder / "a.ipynb").write_bytes(data)
    assert "not a notebook" in place.ok("read_file", path="a.ipynb")
