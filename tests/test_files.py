"""The file tools, over each kind of sandbox."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import shutil
import sqlite3
import subprocess
import tarfile
import time
import unicodedata
import wave
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled
from agentctl.base.messages import Status
from agentctl.benchmarks.corebench.dataset import Level
from agentctl.benchmarks.corebench.staging import shown, stage
from agentctl.tools.files import EditFile, ListDir, ReadFile, SearchFiles, WriteFile
from agentctl.tools.files.formats import HEAD, recognise
from agentctl.tools.files.notebook import NotANotebook, notebook_text
from agentctl.tools.files.pages import LINE
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace
from agentctl.tools.tool import ToolContext, ToolResult

SAMPLES = Path(__file__).parent / "data" / "formats"
TOOLS = {tool.name: tool for tool in (ReadFile(), WriteFile(), EditFile(), ListDir(), SearchFiles())}


class NoDeliverable:
    path = "report.json"

    def check(self) -> list[Any]:
        return []

    def still_missing(self) -> list[str]:
        return []

    def finish_text(self) -> str:
        return ""


@dataclass
class Place:
    """A sandbox over a fresh workspace `folder` in `base`, and the tools to use in it."""

    base: Path
    folder: Path
    sandbox: Sandbox
    cancel: Cancel = field(default_factory=Cancel)

    def run(self, tool: str, **arguments: Any) -> ToolResult:
        def ask(role: str, parts: Any, limit: int) -> str:
            raise AssertionError("file tools ask no model")

        context = ToolContext(
            sandbox=self.sandbox,
            deliverable=NoDeliverable(),
            cancel=self.cancel,
            outputs=self.base / "outputs",
            ask=ask,
            emit=lambda kind, text: None,
            seconds_left=lambda: 600.0,
        )
        chosen = TOOLS[tool]
        return chosen.run(chosen.arguments(**arguments), context)  # type: ignore[arg-type]

    def ok(self, tool: str, **arguments: Any) -> str:
        result = self.run(tool, **arguments)
        assert result.status is Status.OK, result.text()
        return result.text()

    def error(self, tool: str, **arguments: Any) -> str:
        result = self.run(tool, **arguments)
        assert result.status is Status.ERROR, result.text()
        return result.text()


@pytest.fixture(params=["local", "bubblewrap"], scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    return str(request.param)


def open_place(top: Path, name: str, kind: str) -> Place:
    """A sandbox over a fresh workspace of that name. The caller closes it."""
    folder, scratch = top / "base" / name, top / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    inside = str(folder) if kind == "local" else "/workspace"
    workspace = Workspace(mounts=(Mount(inside=inside, host=folder),), scratch=scratch)
    sandbox = open_sandbox(SandboxSpec(kind=kind), workspace, owner_env=dict(os.environ))  # type: ignore[arg-type]
    return Place(folder.parent, folder, sandbox)


@pytest.fixture
def make_place(kind: str, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    opened: list[Place] = []

    def make(name: str) -> Place:
        opened.append(open_place(tmp_path, name, kind))
        return opened[-1]

    yield make
    for place in opened:
        place.sandbox.close()


@pytest.fixture(scope="module")
def long_lived(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = open_place(tmp_path_factory.mktemp(kind), "agent", kind)
    yield place
    place.sandbox.close()


@pytest.fixture
def place(long_lived: Place) -> Place:
    """One sandbox for many tests, its workspace emptied before each."""
    for path in long_lived.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    long_lived.cancel = Cancel()
    return long_lived


# --- inputs that others can replace ---


def notebook_of(words: str) -> bytes:
    """A notebook with a code cell and the images that `words` tell of."""
    found = [word for word in words.replace("-", " ").split() if word.isdigit()]
    megabytes = int(found[0]) if found else 1
    image = "A" * (megabytes * 1_000_000 * 4 // 3)
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "source": ["x = 1\n", "plot(x)"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["printed\n"]},
                {"output_type": "display_data", "metadata": {}, "data": {"image/png": image, "text/plain": "<Figure>"}},
            ],
        }
    ]
    if "attachment" in words:
        source = "![image.png](attachment:image.png)\n![b](data:image/png;base64," + "A" * 5000 + ")"
        attachments = {"image.png": {"image/png": "A" * 400_000}}
        cells.append({"cell_type": "markdown", "metadata": {}, "attachments": attachments, "source": source})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "content")
    return buffer.getvalue()


def _tar(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        archive.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


def _image(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(buffer, form)
    return buffer.getvalue()


def _numpy(save: Callable[..., None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer, np.arange(3))
    return buffer.getvalue()


def _mat() -> bytes:
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, {"x": np.arange(3)})
    return buffer.getvalue()


def _sqlite() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (x)")
        return connection.serialize()


def _wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(100))
    return buffer.getvalue()


MADE: dict[str, Callable[[], bytes]] = {
    "pdf": lambda: _image("PDF"),
    "mat": _mat,
    "npy": lambda: _numpy(np.save),
    "npz": lambda: _numpy(np.savez),
    "zip": lambda: _zip("a.txt"),
    "docx": lambda: _zip("[Content_Types].xml", "word/document.xml"),
    "pptx": lambda: _zip("[Content_Types].xml", "ppt/presentation.xml"),
    "ods": lambda: _zip("mimetype", "content.xml", "META-INF/opendocument.xml"),
    "gz": lambda: gzip.compress(b"text\n" * 9),
    "bz2": lambda: bz2.compress(b"text\n" * 9),
    "xz": lambda: lzma.compress(b"text\n" * 9),
    "tar": lambda: _tar("w"),
    "tgz": lambda: _tar("w:gz"),
    "sqlite": _sqlite,
    "db": _sqlite,
    "pkl": lambda: pickle.dumps({"x": [1, 2]}),
    "png": lambda: _image("PNG"),
    "jpg": lambda: _image("JPEG"),
    "gif": lambda: _image("GIF"),
    "webp": lambda: _image("WEBP"),
    "bmp": lambda: _image("BMP"),
    "tiff": lambda: _image("TIFF"),
    "jpeg": lambda: _image("JPEG"),
    "tif": lambda: _image("TIFF"),
    "wav": lambda: _wav(),
    "fits": lambda: b"SIMPLE  =                    T".ljust(2880),
    "dcm": lambda: bytes(128) + b"DICM\2\0\0\0UL\4\0",
    "xls": lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    "jar": lambda: _zip("META-INF/MANIFEST.MF"),
    "whl": lambda: _zip("a/__init__.py"),
    "nc": lambda: b"CDF\x01" + bytes(28),
    "bin": lambda: bytes(range(256)) * 4,
}


def sample(name: str) -> bytes:
    """A tiny valid file of the kind that `name` ends in."""
    suffix = name.rsplit(".", 1)[-1]
    if suffix in MADE:
        return MADE[suffix]()
    alias = {"hdf5": "h5", "h5ad": "h5", "rda": "RData", "Rdata": "RData", "RDS": "rds", "Rds": "rds", "xlsm": "xlsx"}
    stored = SAMPLES / f"t.{alias.get(suffix, suffix)}"
    if not stored.exists():
        pytest.fail(f"the test has no sample of {name}: add one to MADE or to {SAMPLES}")
    return stored.read_bytes()


def set_up(given: dict[str, Any], place: Place) -> list[dict[str, Any]]:
    """Make what the case's input tells of; returns the calls."""
    setup = given.pop("setup", "")
    if setup.startswith("files:"):
        names = setup.removeprefix("files:").split("(")[0].replace(",", " ").split()
        for name in names:
            (place.folder / name).write_bytes(sample(name))
        calls = given.pop("calls")
        assert calls == "read_file on each", f"can't map calls {calls!r}"
        return [{"tool": "read_file", "path": name} for name in names]
    if ".ipynb with " in setup:
        (place.folder / setup.split(" with ")[0]).write_bytes(notebook_of(setup))
    elif setup:
        subprocess.run(["bash", "-c", setup], cwd=place.folder, check=True, timeout=60)
    for name, content in given.pop("files", {}).items():
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_text(content, encoding="utf-8")
    for key in ("setup_python", "make_python"):
        if code := given.pop(key, ""):
            before = Path.cwd()
            os.chdir(place.folder)
            try:
                scope = {"json": json, "os": os, "unicodedata": unicodedata, "np": np}
                exec(code, scope | {"Image": Image, "BytesIO": io.BytesIO})
            finally:
                os.chdir(before)
    if sibling := given.pop("sibling", ""):
        path = Path(sibling.replace("<base>", str(place.base)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET-OF-THE-SIBLING", encoding="utf-8")
    calls = [*given.pop("calls", []), *given.pop("more", [])]
    return [
        {key: value.replace("<base>", str(place.base)) if key == "path" else value for key, value in call.items()}
        for call in calls
    ]


def outside(place: Place) -> dict[str, tuple[int, int]]:
    """Sizes and times of what is beside the workspace, and in folders that the cases' links lead to."""
    paths = [path for path in place.base.rglob("*") if not path.is_relative_to(place.folder)]
    paths += [*Path("/etc").iterdir(), *place.base.parent.iterdir()]
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths if path.name != "scratch"}


def rise_in_memory(work: Callable[[], None]) -> float:
    """By how many MB this process's memory rises above where it stands, at most, while `work` runs."""

    def status(key: str) -> int:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key))

    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the high-water mark starts anew
    before = status("VmRSS:")
    work()
    return (status("VmHWM:") - before) / 1024


@pytest.mark.cases("files")
def test_files_case(case: dict[str, Any], make_place: Callable[[str], Place], kind: str, tmp_path: Path) -> None:
    given, exact = dict(case["input"]), dict(case["expect"]["exact"])
    if action := given.pop("action", ""):
        assert "list the workspace" in action, f"can't map the action {action!r}"
        assert foreign_entries(tmp_path, given.pop("files_of_harness"), kind) == exact.pop("foreign_entries")
    place = make_place(given.pop("workspace", "<base>/agent").removeprefix("<base>/"))
    results: list[ToolResult] = []
    calls = set_up(given, place) if given else []
    assert not given, f"can't map the input's {sorted(given)}"
    before, began = outside(place), time.monotonic()

    def work() -> None:
        for call in calls:
            arguments = {key: value for key, value in call.items() if key != "tool"}
            results.append(place.run(call["tool"], **arguments))

    risen, seconds = rise_in_memory(work), time.monotonic() - began
    texts = [result.text() for result in results]
    good = [result.text() for result in results if result.status is Status.OK]
    assert not any("SECRET-OF-THE-SIBLING" in text for text in texts)
    for key, wanted in exact.items():
        match key:
            case "errors":
                assert len(texts) - len(good) == wanted, texts
            case "errors_or_notes":
                assert sum("To look inside" in text for text in texts) == wanted, texts
                assert not any("\ufffd" in text for text in texts)
            case "outside_changed":
                assert (outside(place) != before) == wanted
            case "crash":
                assert wanted is False  # an exception would have ended the test
            case "nonempty_messages":
                assert all(text.strip() for text in texts) == wanted
            case "max_wall_s":
                assert seconds <= wanted
            case "max_extra_rss_mb":
                assert risen <= wanted
            case "outputs":
                assert [text.strip() for text in good] == wanted
            case "outputs_contain":
                assert len(good) >= len(wanted)
                assert all(piece in text for piece, text in zip(wanted, good[-len(wanted) :], strict=True)), good
            case "bytes_python":
                assert (place.folder / calls[-1]["path"]).read_bytes() == eval(wanted)
            case "max_result_chars" | "max_result_chars_each":
                assert all(len(text) <= wanted for text in texts), [len(text) for text in texts]
            case "contains" | "output_contains":
                assert all(piece in "\n".join(texts) for piece in ([wanted] if isinstance(wanted, str) else wanted))
            case "not_contains":
                assert not any(piece in text for piece in wanted for text in texts)
            case "not_contains_python":
                assert not any(eval(piece) in text for piece in wanted for text in texts)
            case "file_exists":
                assert {name: (place.folder / name).exists() for name in wanted} == wanted
            case _:
                pytest.fail(f"can't map the expectation {key!r}")


def foreign_entries(top: Path, files_of_harness: str, kind: str) -> int:
    """Stage the example's capsule, and count what its workspace holds that is not the capsule's.

    On the way: the harness's own files, beside the workspace, can't be read.
    """
    examples = Path(__file__).parents[1] / "examples"
    capsule = next((examples / "capsules").glob("capsule-*"))
    attempt, gold = top / "attempt", examples / "dataset.json"
    workspace = stage(capsule.name, capsule, Level.HARD, attempt, kind, gold=gold).workspace
    sandbox = open_sandbox(SandboxSpec(kind=kind), workspace, owner_env=dict(os.environ))  # type: ignore[arg-type]
    try:
        place = Place(attempt, workspace.mounts[0].host, sandbox)
        for name in files_of_harness.replace(",", " ").split():
            secret = attempt / name / "secret.txt"
            secret.parent.mkdir()
            secret.write_text("SECRET", encoding="utf-8")
            for path in (str(secret), f"../{name}/secret.txt"):
                place.error("read_file", path=path)
                place.error("search_files", pattern="SECRET", path=path)
            if kind != "local":
                assert b"SECRET" not in sandbox.exec(["cat", str(secret)], timeout=20).stdout
        own = {entry.path for entry in shown(capsule, Level.HARD)} | {"results"}
        wanted = {capsule.name, *(f"{capsule.name}/{path}" for path in own)}
        lines = place.ok("list_dir", depth=20).splitlines()
        return len({line.split("  ")[0].removesuffix("/") for line in lines} ^ wanted)
    finally:
        sandbox.close()


# --- reading ---


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
    for piece in ("kernel R", "# Title\ntext", "In [7]", "fit()", "stderr\ncareful", "1 2", "image/svg+xml, 6 bytes"):
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


# --- writing and editing ---


def test_writing_makes_folders_and_keeps_the_mode(place: Place) -> None:
    assert "Wrote 3 bytes" in place.ok("write_file", path="a/b/c.txt", content="π\n")
    assert (place.folder / "a/b/c.txt").read_bytes() == "π\n".encode()
    script = place.folder / "run.sh"
    script.write_text("old", encoding="utf-8")
    script.chmod(0o755)
    assert "in place of the 3 bytes" in place.ok("write_file", path="run.sh", content="a\r\nb")
    assert script.read_bytes() == b"a\r\nb"
    assert script.stat().st_mode & 0o777 == 0o755
    place.ok("write_file", path="empty", content="")
    assert (place.folder / "empty").read_bytes() == b""
    assert place.error("write_file", path="a/b", content="x")
    assert place.error("write_file", path="x\0y", content="x")
    assert place.error("write_file", path="n" * 300, content="x")


def test_halves_of_characters_are_mended_and_told(place: Place) -> None:
    assert "U+FFFD" in place.ok("write_file", path="a.txt", content="x \ud83c y")
    assert (place.folder / "a.txt").read_text(encoding="utf-8") == "x \ufffd y"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "A\nB\nBB", b"A\r\nB\r\nBB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "b\nbb", b"a\r\nb\r\nbb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "\nb\n", "\nB\n", b"a\r\nB\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb", "A\r\nB", b"A\nB\n"),
        (b"a\r\nb\nc\r\n", "a\r\nb", "x\ny", b"x\ny\nc\r\n"),
        (b"a\rb\nc\r\nd", "a\rb", "A\rB", b"A\rB\nc\r\nd"),
        (b"a\rb\nc\r\nd", "c", "c\nC", b"a\rb\nc\r\nC\r\nd"),
        (b"a\n\n\n", "a", "", b"\n\n\n"),
        (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),
        (b"\xe9t\xe9 a\n", "\u00e9t\u00e9", "\u00e9", b"\xe9 a\n"),
        (b"\x93a\x94 b\n", "\u201ca\u201d", "\u201cc\u201d", b"\x93c\x94 b\n"),
        ("ä π\n".encode(), "π", "π²", "ä π²\n".encode()),
        ("x = 1\r\ny\r\n".encode("utf-16"), "x = 1\ny", "x\nπ", "x\r\nπ\r\n".encode("utf-16")),
        (b"tab\there .*[x] \\1\n", ".*[x] \\1", "\\g<0>", b"tab\there \\g<0>\n"),
        (b"a" * 70_000 + b"\xff\nx\n", "x", "y", b"a" * 70_000 + b"\xff\ny\n"),
    ],
)
def test_edits_leave_all_other_bytes(place: Place, before: bytes, old: str, new: str, after: bytes) -> None:
    (place.folder / "f").write_bytes(before)
    place.ok("edit_file", path="f", old=old, new=new)
    assert (place.folder / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "old", "new", "words"),
    [
        (b"a\nb\na\n", "a", "x", "2 times, at lines 1, 3"),
        (b"aaa\n", "aa", "x", "2 times, at line 1"),
        (b"\n" * 50, "\n", "x", "more than 10 times"),
        (b"\r\n\r\n", "\n", "x", "2 times"),
        (b"if x:\n\ty = 1\n", "if x:\n    y = 1", "x", "Only in blanks lines 1-2"),
        (b"alpha = 1\nbeta_value = 2\n", "beta_values = 2", "x", "Nearest is line 2:\nbeta_value = 2"),
        (b"abc\n", "zzzzzz", "x", "nor anything like it"),
        (b"", "a", "x", "nor anything like it"),
        (b"same\n", "same", "same", "are the same"),
        (b"\xe9 a\n", "a", "π", "has no 'π'"),
        (b"\0\1\2" * 99, "a", "x", "not text"),
    ],
)
def test_edits_that_are_refused_leave_the_file(place: Place, before: bytes, old: str, new: str, words: str) -> None:
    (place.folder / "f").write_bytes(before)
    assert words in place.error("edit_file", path="f", old=old, new=new)
    assert (place.folder / "f").read_bytes() == before


def test_an_edit_shows_the_lines_around_it(place: Place) -> None:
    (place.folder / "f").write_text("".join(f"line {n}\n" for n in range(1, 100)), encoding="utf-8")
    text = place.ok("edit_file", path="f", old="line 50", new="fifty\nand more")
    assert text == "Edited f at line 50:\nline 49\nfifty\nand more\nline 51"


def test_a_near_miss_in_a_large_file_is_found_in_time(place: Place) -> None:
    (place.folder / "f.csv").write_text("".join(f"{n},{n * 7},{n * n}\n" for n in range(200_000)), encoding="utf-8")
    began = time.monotonic()
    assert "does not occur" in place.error("edit_file", path="f.csv", old="1234,5678,9101112", new="x")
    assert time.monotonic() - began < 8


# --- listing and searching ---


def test_listing(place: Place) -> None:
    assert "empty" in place.ok("list_dir")
    (place.folder / "b" / "c").mkdir(parents=True)
    (place.folder / "b" / "c" / "d.txt").write_text("12345", encoding="utf-8")
    (place.folder / "a b.txt").write_text("1", encoding="utf-8")
    (place.folder / "new\nline").write_text("", encoding="utf-8")
    (place.folder / "link").symlink_to("/etc")
    lines = place.ok("list_dir").splitlines()
    assert lines == ["a b.txt  1 byte", "b/", "link  (link)", '"new\\nline"  0 bytes']
    assert "b/c/d.txt  5 bytes" in place.ok("list_dir", depth=3).splitlines()
    assert place.ok("list_dir", path="b") == "c/"
    for path in ("a b.txt", "nowhere", "..", "link", "x\0y"):
        place.error("list_dir", path=path)


def test_a_large_folder_is_listed_in_part(place: Place) -> None:
    for n in range(3000):
        (place.folder / f"a file with quite a long name {n:04}.txt").touch()
    text = place.ok("list_dir")
    assert len(text) <= 20_000
    assert "of 3,000 entries" in text


def test_searching(place: Place) -> None:
    (place.folder / "src" / "deep").mkdir(parents=True)
    (place.folder / ".git").mkdir()
    (place.folder / ".git" / "x.py").write_text("seed = 0\n", encoding="utf-8")
    (place.folder / "src" / "a.py").write_text("x = 1\nseed = 42\r\n", encoding="utf-8")
    (place.folder / "src" / "deep" / "b.R").write_bytes(b"# r\xe9sum\xe9 seed 7\n")
    (place.folder / "-n").write_text("seed 9 π\n", encoding="utf-8")
    (place.folder / "new\nline:5").write_text("seed 3\n", encoding="utf-8")
    (place.folder / "bin.dat").write_bytes(b"seed\0\n")
    os.mkfifo(place.folder / "fifo")
    (place.folder / "out").symlink_to("/etc")
    found = place.ok("search_files", pattern=r"seed\s*=?\s*\d").splitlines()
    assert sorted(found) == [
        '"new\\nline:5":1: seed 3',
        "-n:1: seed 9 π",
        "src/a.py:2: seed = 42",
        "src/deep/b.R:1: # r\ufffdsum\ufffd seed 7",
    ]
    assert place.ok("search_files", pattern="(?i)SEED", path="src", glob="*.py") == "a.py:2: seed = 42"
    assert place.ok("search_files", pattern="seed", glob="src/**/*.R").startswith("src/deep/b.R:1:")
    assert place.ok("search_files", pattern="[πψ]") == "-n:1: seed 9 π"
    assert place.ok("search_files", pattern="seed", path="-n").endswith(":1: seed 9 π")
    assert place.ok("search_files", pattern="-e", path="src").startswith("Nothing")
    assert "Nothing" in place.ok("search_files", pattern="seed", path="src", glob="*.txt")


def test_searches_that_are_refused(place: Place) -> None:
    (place.folder / "out").symlink_to("/etc")
    for path in ("..", "/etc", "out", "nowhere", "x\0y"):
        place.error("search_files", pattern="root", path=path)
    assert "grep" in place.error("search_files", pattern="(")
    assert "line feed" in place.error("search_files", pattern="a\nb")


def test_searches_end_in_time_and_in_bounds(place: Place) -> None:
    (place.folder / "evil.txt").write_text("a" * 5000 + "!\n" + "b\n", encoding="utf-8")
    (place.folder / "many.txt").write_text("hit\n" * 5000, encoding="utf-8")
    (place.folder / "wide.txt").write_text("hit" + "x" * (1 << 20) + "\n", encoding="utf-8")
    with (place.folder / "holes").open("wb") as file:
        file.truncate(10 << 30)
    began = time.monotonic()
    place.run("search_files", pattern=r"^(a+)+$", path="evil.txt")
    place.run("search_files", pattern=r"(a|aa)+(a|aa)+(a|aa)+$", path="evil.txt")
    assert time.monotonic() - began < 45
    texts: list[str] = []
    assert rise_in_memory(lambda: texts.append(place.ok("search_files", pattern="hit"))) < 30
    assert len(texts[0]) <= 20_000
    assert "many.txt:1: hit" in texts[0]
