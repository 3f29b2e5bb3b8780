"""AutoGPT's commands for files, and its open files and folders."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import zipfile
from pathlib import Path

import pytest
from autogpt_place import Desk

from agentctl.agents.protocols.arguments import read_call
from agentctl.tools.autogpt import OpenItems
from agentctl.tools.shell.tool import LIMIT
from agentctl.tools.tool import spec_of

pytest_plugins = ("autogpt_fixtures",)

needs_pdftotext = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(text: str) -> bytes:
    """A PDF document of one line."""
    page = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(page)} >>\nstream\n{page}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body = "%PDF-1.4\n" + "".join(f"{n} 0 obj\n{each}\nendobj\n" for n, each in enumerate(objects, 1))
    return f"{body}trailer\n<< /Root 1 0 R /Size 6 >>\n%%EOF\n".encode()


def docx(body: str) -> bytes:
    """A Word document with that content."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        file.writestr("word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')
    return packed.getvalue()


@pytest.mark.parametrize("name", ["plain.txt", "with blanks .txt", "-n", "été.csv", "sub/../plain.txt", ".hidden"])
def test_a_file_is_written_and_read_again(desk: Desk, name: str) -> None:
    (desk.folder / "sub").mkdir()
    text = "first\n\n  two € \U0001f600\n"
    assert desk.inside in desk.ok("write_file", filename=name, contents=text)
    assert (desk.folder / name).read_text() == text
    assert desk.ok("read_file", filename=name) == text
    assert desk.ok("read_file", filename=f"{desk.inside}/{name}") == text
    assert "in place of" in desk.ok("create_file", filename=name, contents="")
    assert desk.ok("read_file", filename=name) == "(the file is empty)"


def test_the_report_is_written_one_folder_above(desk: Desk) -> None:
    """The task wants it there, where the original's commands did not reach."""
    above = desk.folder.parent / "report.json"
    desk.ok("write_file", filename="../report.json", contents="{}")
    assert above.read_text() == "{}"
    desk.ok("write_file", filename=str(Path(desk.inside).parent / "report.json"), contents="[]")
    assert above.read_text() == "[]"


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "/", "/nowhere/x", "out", "out/passwd"])
def test_nothing_is_reached_outside_of_the_workspace(desk: Desk, path: str) -> None:
    (desk.folder / "out").symlink_to("/etc")
    for name, arguments in {
        "read_file": {"filename": path},
        "write_file": {"filename": path, "contents": "x"},
        "list_folder": {"folder": path},
        "open_file": {"file_path": path},
        "open_folder": {"path": path},
    }.items():
        assert "is outside" in desk.error(name, **arguments), name
    assert len(desk.items) == 0


def test_what_is_in_the_way_is_said(desk: Desk) -> None:
    (desk.folder / "folder").mkdir()
    os.mkfifo(desk.folder / "fifo")
    (desk.folder / "loop").symlink_to("loop")
    (desk.folder / "data.csv").write_text("a")
    assert "list_folder" in desk.error("read_file", filename="folder")
    assert "folder" in desk.error("write_file", filename="folder", contents="")
    assert "open_folder" in desk.error("open_file", file_path="folder")
    assert "open_file" in desk.error("open_folder", path="data.csv")
    assert "not a folder" in desk.error("list_folder", folder="data.csv")
    assert "data.csv" in desk.error("read_file", filename="dat.csv")
    assert "There is no" in desk.error("list_folder", folder="none")
    assert "There is no" in desk.error("open_folder", path="none")
    for name in ("fifo", "loop", "a\0b", "x" * 300, "data.csv/deeper"):
        for command in ("read_file", "open_file"):
            assert desk.error(command, **{"filename" if command == "read_file" else "file_path": name})
        assert desk.error("write_file", filename=name, contents="x")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve\n".encode("latin-1"), "naïve\n"),
        ("“quoted”\n".encode("cp1252"), "“quoted”\n"),
        ("\ufeffname,é\n".encode(), "name,é\n"),
        ("wide é\n".encode("utf-16"), "wide é\n"),
        (b"\xff\xfea\0\xff\xff\0\xd8", "a\uffff\ufffd"),
        (b'{"a": [1, NaN, true]}', '{"a": [1, NaN, true]}'),
        (b"a\r\nb", "a\r\nb"),
    ],
)
def test_text_is_read_whatever_its_encoding(desk: Desk, data: bytes, text: str) -> None:
    (desk.folder / "file.txt").write_bytes(data)
    assert desk.ok("read_file", filename="file.txt") == text


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "latin-1"])
def test_of_a_large_file_both_ends_are_shown(desk: Desk, codec: str) -> None:
    lines = "".join(f"line é {n}\n" for n in range(200_000))
    (desk.folder / "large.log").write_bytes(lines.encode(codec))
    shown = desk.ok("read_file", filename="large.log")
    assert shown.startswith("line é 0\nline é 1\n") and shown.endswith("line é 199999\n")
    assert "left out" in shown and "\ufffd" not in shown and LIMIT - 100 < len(shown) < LIMIT + 100


def test_a_sparse_giant_is_read_at_its_ends(desk: Desk) -> None:
    with (desk.folder / "giant.txt").open("wb") as file:
        file.write(b"text\n" * 40_000)
        file.truncate(1 << 40)
    began = time.monotonic()
    assert desk.ok("read_file", filename="giant.txt").startswith("text\ntext\n")
    assert time.monotonic() - began < 2


def test_a_binary_file_is_named_with_a_way_to_look_inside(desk: Desk) -> None:
    (desk.folder / "-plot.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03" + bytes(100))
    (desk.folder / "noise").write_bytes(bytes(range(256)) * 10)
    assert "PNG, 2x3 pixels" in desk.error("read_file", filename="-plot.png")
    assert "binary data" in desk.error("read_file", filename="noise")


@needs_pdftotext
def test_a_pdf_is_read_by_what_is_in_the_sandbox(desk: Desk) -> None:
    (desk.folder / "-a paper.pdf").write_bytes(pdf("Accuracy 0.9312"))
    (desk.folder / "named.txt").write_bytes(pdf("by its bytes"))
    (desk.folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    assert desk.ok("read_file", filename="-a paper.pdf").split() == ["Accuracy", "0.9312"]
    assert "by its bytes" in desk.ok("read_file", filename="named.txt")
    assert "No text can be taken" in desk.error("read_file", filename="broken.pdf")


def test_a_word_document_is_read_with_its_tables(desk: Desk) -> None:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    table = f"<w:tbl><w:tr>{cell.format('AUC')}{cell.format('0.87')}</w:tr></w:tbl>"
    body = f"<w:p><w:r><w:t>One &amp; </w:t><w:tab/><w:t>two</w:t><w:br/><w:t>é</w:t></w:r></w:p>{table}<w:p/>"
    (desk.folder / "paper.docx").write_bytes(docx(body))
    assert desk.ok("read_file", filename="paper.docx") == "One & \ttwo\né\nAUC\n0.87"
    bomb = docx("<w:p><w:r><w:t>" + "0" * (40 << 20) + "</w:t></w:r></w:p>")
    whole = docx("<w:p/>")
    for name, data in {
        "bomb": bomb,
        "cut": whole[:-40],
        "xml": docx("<w:p>"),
        "other": docx("").replace(b"word/", b"wurd/"),
    }.items():
        (desk.folder / f"{name}.docx").write_bytes(data)
        assert f"{name}.docx" in desk.error("read_file", filename=f"{name}.docx")


def test_html_is_read_without_its_marks(desk: Desk) -> None:
    picture = "data:image/png;base64," + "A" * 3_000_000
    html = f"<html><style>p {{}}</style><script>x()</script><p>Mean&nbsp;<b>3.2</b><img src='{picture}'><p>é"
    (desk.folder / "out.HTML").write_bytes(html.encode("latin-1"))
    assert desk.ok("read_file", filename="out.HTML") == "Mean 3.2\né"


def test_a_folder_is_listed_with_all_below_it(desk: Desk) -> None:
    (desk.folder / "a/b/c").mkdir(parents=True)
    (desk.folder / "a/b/deep file").write_text("12345")
    (desk.folder / "empty").mkdir()
    (desk.folder / "link").symlink_to("/etc")
    os.mkfifo(desk.folder / "pipe")
    listed = desk.ok("list_folder", folder=".").splitlines()
    assert listed == [
        "a/",
        "a/b/",
        "a/b/c/",
        "a/b/deep file  5 bytes",
        "empty/",
        "link  (link)",
        "pipe  (device, FIFO or socket)",
    ]
    assert desk.ok("list_folder", folder="") == desk.ok("list_folder", folder=desk.inside) == "\n".join(listed)
    assert desk.ok("list_folder", folder="empty") == "(the folder is empty)"
    for n in range(10_100):
        (desk.folder / f"a/{n}").touch()
    many = desk.ok("list_folder", folder="a")
    assert len(many) < LIMIT + 200 and "10,000 or more entries; for the rest list a folder below]" in many


def test_open_items_show_what_is_there_by_then(desk: Desk) -> None:
    desk.ok("open_file", file_path="notes.txt")  # made, as it is not there
    (desk.folder / "data").mkdir()
    desk.ok("open_folder", path="data")
    (desk.folder / "notes.txt").write_text("first")
    (desk.folder / "data/x").write_text("1")
    first, second = desk.items.contents(desk.sandbox)
    assert first == (1, f"file {desk.inside}/notes.txt", "first")
    assert second == (2, f"folder {desk.inside}/data", "x  1 byte")
    assert desk.ok("open_file", path=f"{desk.inside}/data/../notes.txt").endswith("is open already.")
    (desk.folder / "notes.txt").write_text("x" * 100_000)
    shutil.rmtree(desk.folder / "data")
    first, second = desk.items.contents(desk.sandbox)
    assert first.text.startswith("xxx") and len(first.text) < 21_000
    assert second == (2, f"{desk.inside}/data", "(it is not there any more)")
    assert desk.inside in desk.ok("close_context_item", number=1)
    assert [(item.number, item.text) for item in desk.items.contents(desk.sandbox)] == [(1, second.text)]
    for number in (0, -1, 2):
        assert "only item 1" in desk.error("close_context_item", number=number)
    desk.ok("close_context_item", number=1)
    assert "nothing is open" in desk.error("close_context_item", number=1)


def test_an_open_item_that_changes_its_nature_is_told(desk: Desk) -> None:
    paths = [desk.folder / name for name in ("a", "b", "c", "d")]
    for path in paths:
        path.write_text("text")
        desk.ok("open_file", file_path=path.name)
        path.unlink()
    paths[0].mkdir()
    os.mkfifo(paths[1])
    paths[2].symlink_to("/etc/passwd")
    paths[3].write_bytes(bytes(range(256)))
    began = time.monotonic()
    titles, texts = zip(*[(item.title, item.text) for item in desk.items.contents(desk.sandbox)], strict=True)
    assert time.monotonic() - began < 2
    assert titles[0] == f"folder {desk.inside}/a" and texts[0] == "(the folder is empty)"
    assert "FIFO" in texts[1] and "is outside" in texts[2] and "binary data" in texts[3]


def test_an_item_is_open_once_and_closed_once() -> None:
    items = OpenItems()
    assert items.open("/x") and not items.open("/x")
    assert items.close(2) is None and items.close(1) == "/x" and len(items) == 0


def test_finish_ends_with_its_reason(desk: Desk) -> None:
    assert desk.run("finish", reason="all done").finish


def test_names_and_arguments_are_the_originals(desk: Desk) -> None:
    told = {
        name.removeprefix("autogpt/"): {
            argument: argument in spec_of(tool).parameters.get("required", [])
            for argument in spec_of(tool).parameters["properties"]
        }
        for name, tool in desk.tools.items()
    }
    assert told == {
        "execute_shell": {"command_line": True},
        "execute_shell_popen": {"command_line": True},
        "execute_python_code": {"code": True},
        "execute_python_file": {"filename": True, "args": False},
        "read_file": {"filename": True},
        "write_file": {"filename": True, "contents": True},
        "create_file": {"filename": True, "contents": True},
        "list_folder": {"folder": True},
        "open_file": {"file_path": True},
        "open_folder": {"path": True},
        "close_context_item": {"number": True},
        "web_search": {"query": True, "num_results": False},
        "search": {"query": True, "num_results": False},
        "read_webpage": {"url": True, "topics_of_interest": False, "question": False, "get_raw_content": False},
        "finish": {"reason": True},
    }
    assert all(name == f"autogpt/{tool.name}" for name, tool in desk.tools.items())
    tools = {tool.name: tool for tool in desk.tools.values()}
    for name, arguments in {"open_file": {"path": "x"}, "write_file": {"filename": "x", "contents": "y"}}.items():
        assert read_call("c1.1", name, json.dumps(arguments), tools).error is None
    assert read_call("c1.1", "write_file", '{"filename": "x", "content": "y"}', tools).error
