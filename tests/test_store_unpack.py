"""Archives that mean harm, damaged ones, and right ones."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mirror import add, capsule_archive, packed

from agentctl.base.errors import InputError, SetupError
from agentctl.benchmarks.corebench.store import archive as archives
from agentctl.benchmarks.corebench.store.unpack import ArchiveLimits, Unpacked, unpack

ID = "capsule-0000101"
LINK, SAME, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def unpacked(tmp_path: Path, data: bytes, **limits: int) -> Unpacked:
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(data)
    return unpack(archive, tmp_path / "in" / "here", ID, ArchiveLimits(**limits))


def refusal(tmp_path: Path, data: bytes, **limits: int) -> str:
    with pytest.raises(InputError) as caught:
        unpacked(tmp_path, data, **limits)
    told = str(caught.value)
    assert told.startswith(str(tmp_path / "archive.tar.gz")) and "\n" not in told and len(told) < 900
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive.tar.gz", "in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["here"]
    return told.removeprefix(f"{tmp_path / 'archive.tar.gz'}: ")


def test_a_right_archive_is_unpacked_as_it_is(tmp_path: Path) -> None:
    done = unpacked(tmp_path, capsule_archive(ID, filler=10_000))
    assert done.root == tmp_path / "in" / "here" / ID
    assert (done.root / "code" / "main.py").read_text() == "print(42)\n"
    run = (done.root / "code" / "run").stat()
    assert run.st_mode & 0o111 and run.st_mtime == 1_600_000_000
    assert not (done.root / "code" / "main.py").stat().st_mode & 0o111
    assert (done.root / "code" / "input").readlink() == Path("../data")  # it was /data, the capsule's own
    assert sorted(done.digests) == [
        "REPRODUCING.md",
        "code/input",
        "code/main.py",
        "code/run",
        "data/noise.bin",
        "results/output",
    ]
    assert done.digests["code/input"] == "-> ../data"
    assert done.size == sum(
        path.stat().st_size for path in done.root.rglob("*") if path.is_file() and not path.is_symlink()
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gz", "bz2", "xz"])
def test_other_packings_are_read_too(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    plain = gzip.decompress(capsule_archive(ID))
    assert (unpacked(tmp_path, pack(plain)).root / "code" / "run").is_file()


def test_an_archive_without_the_top_folder_is_taken(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, ".", type=FOLDER)
        add(tar, "./code/run", b"run")
        add(tar, "./code/data", type=LINK, linkname="../data")
        add(tar, "./._code", b"of macOS")
        add(tar, "./data/x", b"x")

    done = unpacked(tmp_path, packed(fill))
    assert done.root == tmp_path / "in" / "here"
    assert sorted(done.digests) == ["code/data", "code/run", "data/x"]


def test_names_that_only_look_odd_are_kept(tmp_path: Path) -> None:
    names = [
        "code/..x",
        "code/a b",
        "code/-rf",
        "code/~",
        "code/$HOME",
        "code/Größe",
        "code/x\\y",
        "code/README",
        "code/readme",
        "code/\udcff",
    ]

    def fill(tar: tarfile.TarFile) -> None:
        for name in names:
            add(tar, f"{ID}/{name}", name.encode("utf-8", "surrogateescape"))

    data = io.BytesIO()
    with tarfile.open(
        fileobj=data, mode="w:gz", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        fill(tar)
    done = unpacked(tmp_path, data.getvalue())
    for name in names:
        assert (done.root / name).read_bytes() == name.encode("utf-8", "surrogateescape")
    assert "code/\\xff" in done.digests


def one(name: str, content: bytes = b"", **changed: Any) -> Callable[[tarfile.TarFile], None]:
    return lambda tar: add(tar, name, content, **changed)


HOSTILE: dict[str, tuple[list[Callable[[tarfile.TarFile], None]], str]] = {
    "absolute name": ([one("/etc/cron.d/x")], "/etc/cron.d/x: has an absolute name"),
    "absolute, of a folder": ([one("//srv", type=FOLDER)], "absolute"),
    "dots": ([one(f"{ID}/../../x")], "leads out"),
    "dots alone": ([one("..", type=FOLDER)], "leads out"),
    "dots that come back": ([one(f"{ID}/code/../../{ID}/x")], "leads out"),
    "link out": (
        [one(f"{ID}/code/l", type=LINK, linkname="../../x")],
        f"{ID}/code/l: is a link that leads out of the capsule, to ../../x",
    ),
    "link to root": ([one(f"{ID}/code/l", type=LINK, linkname="/")], "leads out"),
    "absolute link": ([one(f"{ID}/code/l", type=LINK, linkname="/etc/passwd")], "leads out"),
    "absolute link by a root": ([one(f"{ID}/code/l", type=LINK, linkname="/data/../../etc/passwd")], "leads out"),
    "link above the capsule": ([one(f"{ID}/l", type=LINK, linkname="..")], "leads out"),
    "chain of links": (
        [one(f"{ID}/a/b/c", type=LINK, linkname=".."), one(f"{ID}/d", type=LINK, linkname="a/b/c/../../..")],
        "leads out",
    ),
    "links in a circle": (
        [one(f"{ID}/a", type=LINK, linkname="b"), one(f"{ID}/b", type=LINK, linkname="a/x")],
        "circle",
    ),
    "link to nothing": ([one(f"{ID}/a", type=LINK, linkname="")], "nowhere"),
    "a file through a link": (
        [one(f"{ID}/l", type=LINK, linkname="code"), one(f"{ID}/l/x")],
        f"wants {ID}/l to be a folder, which is a symbolic link",
    ),
    "a folder becomes a link": ([one(f"{ID}/code/x"), one(f"{ID}/code", type=LINK, linkname="/tmp")], "stands twice"),
    "a link becomes a folder": (
        [one(f"{ID}/l", type=LINK, linkname="code"), one(f"{ID}/l", type=FOLDER)],
        "which is a symbolic link",
    ),
    "a link becomes a file": ([one(f"{ID}/l", type=LINK, linkname="code"), one(f"{ID}/l")], "stands twice"),
    "a file twice": ([one(f"{ID}/x", b"1"), one(f"{ID}/./x", b"2")], "stands twice"),
    "the top is a link": ([one(ID, type=LINK, linkname="/tmp"), one(f"{ID}/x")], "which is a symbolic link"),
    "a link alone": ([one(ID, type=LINK, linkname="code")], f"not one folder {ID}"),
    "hard link out": ([one(f"{ID}/h", type=SAME, linkname="/etc/passwd")], "absolute"),
    "hard link by dots": ([one(f"{ID}/h", type=SAME, linkname="../../etc/passwd")], "leads out"),
    "hard link to a link": (
        [one(f"{ID}/l", type=LINK, linkname="code"), one(f"{ID}/h", type=SAME, linkname=f"{ID}/l")],
        "no file of the archive before it",
    ),
    "hard link ahead": ([one(f"{ID}/h", type=SAME, linkname=f"{ID}/x"), one(f"{ID}/x")], "before it"),
    "hard link to itself": ([one(f"{ID}/h", type=SAME, linkname=f"{ID}/h")], "before it"),
    "FIFO": ([one(f"{ID}/p", type=tarfile.FIFOTYPE)], f"{ID}/p: is a device, a pipe"),
    "character device": ([one(f"{ID}/d", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "device"),
    "block device": ([one(f"{ID}/d", type=tarfile.BLKTYPE, devmajor=8)], "device"),
    "unknown type": ([one(f"{ID}/d", type=b"Z")], "unknown"),
    "line feed": ([one(f"{ID}/a\nb")], f"{ID}/a\\nb: has a control character"),
    "escape": ([one(f"{ID}/\x1b[31mred")], "control character"),
    "long part": ([one(f"{ID}/{'x' * 256}")], "too long a name"),
    "long path": ([one(f"{ID}/{'/'.join(['y' * 60] * 40)}/x")], "too long a name"),
    "deep": ([one(f"{ID}/{'d/' * 100}x")], "64 folders deep"),
    "another capsule": ([one("capsule-9999999/code/x")], f"holds capsule-9999999, not one folder {ID}"),
    "two folders": ([one(f"{ID}/code/x"), one("other/x")], f"holds {ID}, other, not one folder {ID}"),
    "a file in place of the folder": ([one(ID, b"x")], "not one folder"),
    "nothing": ([], "holds nothing"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    members, words = HOSTILE[kind]
    assert words in refusal(tmp_path, packed(lambda tar: [member(tar) for member in members] and None))


def test_setuid_and_strange_times_are_not_taken_over(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        for n, odd in enumerate([float("nan"), float("inf"), -1.5, 1e300]):
            add(tar, f"{ID}/code/{n}", mode=0o7777, pax_headers={"mtime": str(odd)}, uid=12345, uname="x")

    done = unpacked(tmp_path, packed(fill))
    for n in range(4):
        status = (done.root / "code" / str(n)).stat()
        assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX | stat.S_IWOTH)
        assert status.st_mtime > 1_600_000_000 and status.st_uid == os.getuid()


WHOLE = capsule_archive(ID, filler=5000)
BROKEN = {
    "empty": b"",
    "a page": b"<!DOCTYPE html><html>",
    "a zip": b"PK\x03\x04 zip",
    "no tar inside": gzip.compress(b"not a tar"),
    "cut in a file": WHOLE[:-2000],
    "cut in its checksum": WHOLE[:-4],
    "a wrong checksum": WHOLE[:-8] + bytes(8),
    "a wrong byte": WHOLE[:30] + b"\xff\xff\xff" + WHOLE[33:],
    "a tar, cut": gzip.decompress(WHOLE)[:4000],
    "an xz, cut": lzma.compress(b"x" * 3000)[:40],
    "a bz2, cut": bz2.compress(b"x" * 3000)[:-5],
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_whole_archive_is_told(tmp_path: Path, kind: str) -> None:
    told = refusal(tmp_path, BROKEN[kind])
    assert ("is no tar archive: it begins with" if kind in ("empty", "a page", "a zip") else "is damaged") in told


@pytest.mark.parametrize(("limits", "words"), [({"entries": 10}, "more than 10 entries"), ({"total": 9000}, "0.0 GB")])
def test_limits_hold(tmp_path: Path, limits: dict[str, int], words: str) -> None:
    def many(tar: tarfile.TarFile) -> None:
        for n in range(20):
            add(tar, f"{ID}/code/{n}", b"x" * 1000)

    assert words in refusal(tmp_path, packed(many), **limits)


def test_hard_links_count_as_what_they_copy_to(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, f"{ID}/code/x", b"x" * 1000)
        for n in range(20):
            add(tar, f"{ID}/code/{n}", type=SAME, linkname=f"{ID}/code/x")

    assert "would unpack to more" in refusal(tmp_path, packed(fill), total=10_000)


def test_bombs_are_stopped_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_RATIO_FROM", 1 << 20)
    zeros = packed(one(f"{ID}/code/zeros", bytes(30 << 20)))
    assert "is a bomb" in refusal(tmp_path, zeros)
    written = sum(path.stat().st_size for path in (tmp_path / "in").rglob("*") if path.is_file())
    assert written < 10 << 20


def test_so_is_one_that_hides_behind_the_archives_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_RATIO_FROM", 1 << 20)
    plain = gzip.decompress(capsule_archive(ID))
    assert "is a bomb" in refusal(tmp_path, gzip.compress(plain + bytes(60 << 20)))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_of_gigabytes_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, 40 << 20
    data = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(40 << 20), compresslevel=1)
    tracemalloc.start()
    try:
        assert "has a header of" in refusal(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_header_that_leads_backwards_ends(tmp_path: Path) -> None:
    info = tarfile.TarInfo(f"{ID}/x")
    info.size = -1024
    first = tarfile.TarInfo(f"{ID}/a")
    data = first.tobuf(tarfile.GNU_FORMAT) + info.tobuf(tarfile.GNU_FORMAT) + bytes(10_240)
    assert refusal(tmp_path, data)


def test_a_sparse_giant_is_refused_before_it_is_written(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        pax = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 45), "GNU.sparse.name": f"{ID}/code/giant"}
        add(tar, f"{ID}/code/giant", pax_headers=pax)

    assert "would unpack to more" in refusal(tmp_path, packed(fill))
    assert (tmp_path / "in").stat().st_size < 1 << 20


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "utime", full)
    with pytest.raises(SetupError, match="the disk is full"):
        unpacked(tmp_path, capsule_archive(ID))
