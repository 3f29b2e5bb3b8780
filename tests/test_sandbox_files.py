"""File access from the host, led astray in every way that files allow."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.tools.sandbox.files import MAX_WHOLE, Files
from agentctl.tools.sandbox.protocol import FileKind, Mount, PathRefused

AT_FDCWD, RENAME_EXCHANGE = -100, 2


class Laid:
    """A workspace with a read-only /data and a /results, and files outside that must stay as they are."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.w = base / "agent"
        self.data, self.results, self.outside = base / "data", base / "results", base / "agent-secret"
        for folder in (self.w, self.data, self.results, self.outside):
            folder.mkdir()
        (self.outside / "key.txt").write_text("SECRET")
        (self.data / "d.csv").write_text("1,2")
        mounts = (
            Mount(inside="/workspace", host=self.w),
            Mount(inside="/data", host=self.data, writable=False),
            Mount(inside="/results", host=self.results),
            Mount(inside="/workspace/nested", host=self.results),
        )
        self.files = Files(mounts, "/workspace")


@pytest.fixture
def laid(tmp_path: Path) -> Laid:
    return Laid(tmp_path)


# --- what must work ---


@pytest.mark.parametrize(
    "path",
    [
        "a/b.txt",
        "/workspace/a/b.txt",
        "./a//b.txt",
        "a/../a/b.txt",
        "a/./b.txt",
        "../workspace/a/b.txt",
        "/../workspace/a/b.txt",
    ],
)
def test_ways_to_say_a_path(laid: Laid, path: str) -> None:
    (laid.w / "a").mkdir()
    laid.files.write(path, b"hello")
    assert (laid.w / "a/b.txt").read_bytes() == b"hello"
    assert laid.files.read(path) == b"hello"
    assert laid.files.stat(path).path == "/workspace/a/b.txt"


def test_links_within_are_followed_as_they_stand_inside(laid: Laid) -> None:
    (laid.w / "absolute").symlink_to("/data/d.csv")
    (laid.w / "relative").symlink_to("../data/d.csv")
    (laid.w / "folder").symlink_to("/results")
    (laid.w / "chain").symlink_to("folder")
    assert laid.files.read("absolute") == b"1,2"
    assert laid.files.read("relative") == b"1,2"
    laid.files.write("chain/out.txt", b"x")
    assert (laid.results / "out.txt").read_bytes() == b"x"
    assert laid.files.stat("folder").kind is FileKind.FOLDER
    assert laid.files.read("chain/../data/d.csv") == b"1,2"  # `..` goes up from where the link leads, as in the kernel


def test_writing_through_a_link_keeps_the_link(laid: Laid) -> None:
    (laid.w / "target").write_text("old")
    (laid.w / "link").symlink_to("target")
    (laid.w / "fresh").symlink_to("not-yet")
    laid.files.write("link", b"new")
    laid.files.write("fresh", b"made")
    assert (laid.w / "link").is_symlink()
    assert (laid.w / "target").read_text() == "new"
    assert (laid.w / "not-yet").read_text() == "made"


def test_a_mount_within_a_mount(laid: Laid) -> None:
    laid.files.write("nested/x.txt", b"1")
    assert (laid.results / "x.txt").read_bytes() == b"1"
    (laid.w / "nested").mkdir()  # what a sandbox puts there to mount on
    assert [info.path for info in laid.files.list("/workspace", depth=2)] == [
        "/workspace/nested",
        "/workspace/nested/x.txt",
    ]


def test_write_makes_parents_and_keeps_the_mode(laid: Laid) -> None:
    laid.files.write("p/q/r.sh", b"1")
    (laid.w / "p/q/r.sh").chmod(0o750)
    laid.files.write("p/q/r.sh", b"2")
    assert stat.S_IMODE((laid.w / "p/q/r.sh").stat().st_mode) == 0o750
    umask = int(
        next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "Umask" in line), 8
    )
    laid.files.write("new.txt", b"")
    assert stat.S_IMODE((laid.w / "new.txt").stat().st_mode) == 0o666 & ~umask


def test_read_a_part(laid: Laid) -> None:
    laid.files.write("f", b"0123456789")
    assert laid.files.read("f", offset=3, limit=4) == b"3456"
    assert laid.files.read("f", offset=8, limit=10) == b"89"
    assert laid.files.read("f", offset=20) == b""
    assert laid.files.read("f", limit=0) == b""


def test_names_that_are_not_unicode(laid: Laid) -> None:
    raw = os.fsencode(laid.w) + b"/caf\xe9"
    Path(os.fsdecode(raw)).write_bytes(b"latin")
    listed = laid.files.list("/workspace")
    assert [info.path for info in listed] == ["/workspace/caf\udce9"]
    assert laid.files.read(listed[0].path) == b"latin"


def test_a_name_as_long_as_names_may_be(laid: Laid) -> None:
    name = "x" * 255
    laid.files.write(name, b"1")
    assert laid.files.read(name) == b"1"
    with pytest.raises(PathRefused):
        laid.files.write(name + "x", b"1")


def test_deep_trees(laid: Laid) -> None:
    laid.files.write("/".join(["d" * 100] * 60) + "/end", b"deep")  # longer than a path may be
    assert len(laid.files.list(".", depth=200)) == 61


def test_list_is_sorted_by_whole_path(laid: Laid) -> None:
    for name in ("a/x", "a.b", "a/y/z", "b", "a-", "c/"):
        if name.endswith("/"):
            (laid.w / name).mkdir()
        else:
            laid.files.write(name, b"")
    (laid.w / "link").symlink_to("/etc")
    os.mkfifo(laid.w / "fifo")
    found = laid.files.list(".", depth=3)
    paths = [info.path for info in found]
    assert paths == sorted(paths)
    assert len(paths) == 10
    kinds = {info.path.rpartition("/")[2]: info.kind for info in found}
    assert (kinds["link"], kinds["fifo"], kinds["c"], kinds["b"]) == (
        FileKind.LINK,
        FileKind.OTHER,
        FileKind.FOLDER,
        FileKind.FILE,
    )
    assert [info.path for info in laid.files.list(".", depth=3, limit=4)] == paths[:4]
    assert all(info.path.count("/") == 2 for info in laid.files.list(".", depth=1))


def test_a_sparse_giant_is_seen_for_what_it_is(laid: Laid) -> None:
    with (laid.w / "giant").open("wb") as file:
        file.truncate(1 << 40)
    info = laid.files.stat("giant")
    assert info.size == 1 << 40
    assert info.blocks < 1 << 20
    assert laid.files.read("giant", limit=10) == bytes(10)
    with pytest.raises(PathRefused, match="too large"):
        laid.files.read("giant")
    assert MAX_WHOLE < 1 << 40


# --- what must be refused ---

OUT = [
    "../agent-secret/key.txt",
    "../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "/",
    "/workspace-other/x",
    "/workspace/../agent-secret/key.txt",
    "missing/../../x",
    "a/../../x",
    "link/hostname",
    "out/key.txt",
    "up/agent-secret/key.txt",
    "chain/key.txt",
    "file",
    "loop",
    "dangling",
    "proc/self/environ",
    "a\0b",
    "bad\ud800name",
    "x" * 5000,
]


@pytest.mark.parametrize("path", OUT, ids=lambda path: ascii(path[:30]))
def test_outside_is_refused(laid: Laid, path: str) -> None:
    (laid.w / "link").symlink_to("/etc")
    (laid.w / "out").symlink_to(laid.outside)
    (laid.w / "up").symlink_to("..")
    (laid.w / "hop").symlink_to("out")
    (laid.w / "chain").symlink_to("hop")
    (laid.w / "file").symlink_to(laid.outside / "key.txt")
    (laid.w / "dangling").symlink_to(laid.base / "not-there")
    (laid.w / "loop").symlink_to("loop")
    (laid.w / "proc").symlink_to("/proc")
    before = sorted(laid.base.rglob("*"))
    for act in (laid.files.read, laid.files.stat, laid.files.list, lambda path: laid.files.write(path, b"1")):
        with pytest.raises(PathRefused):
            act(path)
    assert sorted(laid.base.rglob("*")) == before
    assert (laid.outside / "key.txt").read_text() == "SECRET"


def test_read_only_is_refused(laid: Laid) -> None:
    for path in ("/data/new", "/data/d.csv", "/data/sub/new", "into"):
        (laid.w / "into").unlink(missing_ok=True)
        (laid.w / "into").symlink_to("/data/d.csv")
        with pytest.raises(PathRefused, match="read-only"):
            laid.files.write(path, b"x")
    assert [path.name for path in laid.data.iterdir()] == ["d.csv"]
    assert (laid.data / "d.csv").read_text() == "1,2"


def test_special_files_are_refused_at_once(laid: Laid) -> None:
    os.mkfifo(laid.w / "fifo")
    (laid.w / "to-fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(laid.w, os.O_PATH)
        listener.bind(f"/proc/self/fd/{here}/sock")
        os.close(here)
        began = time.monotonic()
        for name, word in (("fifo", "FIFO"), ("to-fifo", "FIFO"), ("sock", "socket")):
            for act in (laid.files.read, laid.files.stat, lambda path: laid.files.write(path, b"1")):
                with pytest.raises(PathRefused, match=word):
                    act(name)
        assert time.monotonic() - began < 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a device")
def test_devices_are_refused(laid: Laid) -> None:
    os.mknod(laid.w / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    for act in (laid.files.read, laid.files.stat, lambda path: laid.files.write(path, b"1")):
        with pytest.raises(PathRefused, match="device"):
            act("zero")


def test_what_is_missing_or_of_another_kind(laid: Laid) -> None:
    laid.files.write("f", b"1")
    (laid.w / "d").mkdir()
    for path in ("nothing", "nothing/below", "d/nothing"):
        with pytest.raises(FileNotFoundError):
            laid.files.read(path)
        with pytest.raises(FileNotFoundError):
            laid.files.stat(path)
    for path in ("d", "/workspace", "."):
        with pytest.raises(IsADirectoryError):
            laid.files.read(path)
        with pytest.raises(IsADirectoryError):
            laid.files.write(path, b"")
    for act in (laid.files.read, laid.files.stat, lambda path: laid.files.write(path, b"")):
        with pytest.raises(NotADirectoryError):
            act("f/below")
    with pytest.raises(NotADirectoryError):
        laid.files.list("f")


# --- what goes wrong in between ---


def test_write_is_whole_or_not_at_all(laid: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    laid.files.write("f", b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        laid.files.write("f", b"new")
    assert [path.name for path in laid.w.iterdir()] == ["f"]
    assert (laid.w / "f").read_text() == "old"


def test_a_reader_never_sees_half(laid: Laid) -> None:
    blocks = [bytes([letter]) * 300_000 for letter in b"ab"]
    laid.files.write("f", blocks[0])
    done = threading.Event()

    def write() -> None:
        for turn in range(60):
            laid.files.write("f", blocks[turn % 2])
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        assert (laid.w / "f").read_bytes() in blocks
    thread.join()


@contextlib.contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """The two entries exchange places, again and again, within the block."""
    exchange = ctypes.CDLL(None).renameat2
    names = (os.fsencode(one), os.fsencode(other))
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            assert exchange(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_fifo_swapped_in_never_holds_us_up(laid: Laid) -> None:
    (laid.w / "f").write_text("file")
    os.mkfifo(laid.w / "fifo")
    seen: set[object] = set()

    def read() -> None:
        until = time.monotonic() + 0.7
        while time.monotonic() < until:
            try:
                seen.add(laid.files.read("f"))
            except PathRefused:
                seen.add("refused")
            except OSError as error:
                seen.add(error.errno)

    with swapping(laid.w / "f", laid.w / "fifo"):
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(5)
    assert not reader.is_alive()
    assert seen == {b"file", "refused"}


def test_a_link_swapped_in_never_leads_out(laid: Laid) -> None:
    """Somebody inside turns a folder into a link that leads out and back, as fast as they can."""
    inner = laid.w / "inner"
    inner.mkdir()
    (inner / "key.txt").write_text("harmless")
    (laid.w / "evil").symlink_to(laid.outside)
    seen = set()
    until = time.monotonic() + 1.0
    with swapping(inner, laid.w / "evil"):
        while time.monotonic() < until:
            try:
                seen.add(laid.files.read("inner/key.txt"))
                laid.files.write("inner/new.txt", b"x")
            except (PathRefused, OSError) as error:
                seen.add(type(error))
    assert b"harmless" in seen
    assert b"SECRET" not in seen
    assert sorted(path.name for path in laid.outside.iterdir()) == ["key.txt"]


def test_no_descriptor_is_left_open(laid: Laid) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    laid.files.write("a/b/c", b"1")
    for path in ("a/b/c", "a/b", "missing/x", "/etc/passwd", "a/b/c/d"):
        for act in (laid.files.read, laid.files.stat, laid.files.list):
            with contextlib.suppress(PathRefused, OSError):
                act(path)
    list(laid.files.list(".", depth=5, limit=1))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
