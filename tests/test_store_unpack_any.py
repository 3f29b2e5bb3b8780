"""Any archive at all: nothing is written outside of its folder, and no link in it leads there."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from itertools import product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from mirror import add

from agentctl.base.errors import InputError
from agentctl.benchmarks.corebench.store.archive import Hostile
from agentctl.benchmarks.corebench.store.unpack import lead, unpack

ID = "capsule-0000101"
LINK, SAME, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE

PARTS = st.sampled_from(["..", ".", "", "a", "b", "code", "data", ID, "etc", "\n", "é", "\udc80", "x" * 300, "canary"])
NAMES = st.lists(PARTS, max_size=5).map("/".join)
INSIDE = NAMES.map(lambda name: f"{ID}/{name}")
TARGETS = NAMES | NAMES.map(lambda name: f"/{name}") | st.just("/tmp") | NAMES.map(lambda name: f"../../{name}")
KINDS = st.sampled_from([tarfile.REGTYPE, FOLDER, LINK, LINK, SAME, tarfile.FIFOTYPE, tarfile.CHRTYPE])
MEMBERS = st.lists(st.tuples(INSIDE | NAMES, KINDS, TARGETS | INSIDE), max_size=8)

STEPS = st.lists(st.sampled_from(["..", "..", "a", "b", "code"]), min_size=1, max_size=4).map("/".join)
TARGETS_OF_LINKS = STEPS | STEPS.map(lambda steps: f"/data/{steps}")
LINKS = st.dictionaries(st.sampled_from(["a", "b", "code/a", "code/c/a"]), TARGETS_OF_LINKS, min_size=1).map(
    lambda links: [(f"{ID}/{place}", LINK, target) for place, target in links.items()]
)


@settings(max_examples=200, deadline=None)
@given(members=MEMBERS | LINKS)
def test_nothing_is_ever_written_or_led_outside(members: list[tuple[str, bytes, str]]) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        for name, kind, target in members:
            content = b"hostile" if kind == tarfile.REGTYPE else b""
            add(tar, name, content, type=kind, linkname=target if kind in (LINK, SAME) else "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "canary").write_text("alive")
        (folder / "in").mkdir()
        (folder / "archive").write_bytes(out.getvalue())
        here = folder / "in" / "here"
        try:
            done = unpack(folder / "archive", here, ID)
        except InputError as error:
            str(error).encode()
        else:
            assert not escapes(done.root)
        assert (folder / "canary").read_text() == "alive"
        assert sorted(path.name for path in folder.iterdir()) == ["archive", "canary", "in"]
        assert [path.name for path in (folder / "in").iterdir()] == ["here"]


def escapes(root: Path) -> list[Path]:
    """What below `root` is neither folder, file nor link, or is a link that the system would follow to elsewhere."""
    found = [path for path in root.rglob("*") if not (path.is_symlink() or path.is_dir() or path.is_file())]
    for path in filter(Path.is_symlink, root.rglob("*")):
        real = Path(os.path.realpath(path))
        if real != root and root not in real.parents:
            found.append(path)
    return found


def test_names_alone_tell_where_links_lead(tmp_path: Path) -> None:
    """Every target of up to three steps, through another link, is told from the tree as the system follows it."""
    root = tmp_path.resolve() / "around" / "root"
    (root / "code" / "c").mkdir(parents=True)
    (root / "data").mkdir()
    told = {True: 0, False: 0}
    for through in ("..", "../..", "../../data", "."):
        links = {"code/c/a": through}
        (root / "code/c/a").symlink_to(through)
        for count in (1, 2, 3):
            for steps in product(("..", "code", "c", "data", "code/c/a"), repeat=count):
                target = "/".join(steps)
                try:
                    lead({**links, "l": target}, "", target)
                except Hostile:
                    told[False] += 1
                    continue
                told[True] += 1
                (root / "l").symlink_to(target)
                assert not escapes(root), (through, target)
                (root / "l").unlink()
        (root / "code/c/a").unlink()
    assert min(told.values()) > 100
