"""write_file, edit_file, list_dir and search_files."""

from __future__ import annotations

import os
import time

import pytest
from file_place import Place, rise_in_memory

pytest_plugins = ("file_fixtures",)


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
