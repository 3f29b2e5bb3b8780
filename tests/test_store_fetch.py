"""Capsules on their way into the store: pinned, budgeted, fetched twice at once, and killed at every step."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mirror import Fault, Mirror, capsule_archive

from agentctl.base.errors import AgentctlError, InputError, SetupError
from agentctl.benchmarks.corebench.store.catalog import Edition
from agentctl.benchmarks.corebench.store.fetch import Fetching, fetch
from agentctl.benchmarks.corebench.store.pins import Pin, pin, pin_of, published_pins, read_lock
from agentctl.benchmarks.corebench.store.place import Slot, Store
from agentctl.benchmarks.corebench.store.room import least_used, remove, used, used_now
from agentctl.benchmarks.corebench.store.seal import verify

ID, OTHER = "capsule-0000101", "capsule-0000102"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    files = {f"{each}.tar.gz": capsule_archive(each, filler=20_000) for each in (ID, OTHER)}
    with Mirror(files) as served:
        yield served


@pytest.fixture
def edition(mirror: Mirror) -> Edition:
    return Edition.brought("own", capsules=f"{mirror.url}/{{id}}.tar.gz")


def litter(store: Store) -> list[str]:
    """What lies in the store beside whole capsules and what belongs to them."""
    found = [path for path in (store.root / "downloads").rglob("*") if path.is_file()]
    found += (store.root / "capsules").glob("*/.*")
    return sorted(str(path.relative_to(store.root)) for path in found)


def test_a_capsule_is_fetched_once(store: Store, edition: Edition, mirror: Mirror) -> None:
    got = fetch(store, edition, ID)
    assert got.new and got.seal is not None
    assert (got.slot.folder / "code" / "main.py").is_file() and verify(got.slot) == []
    archive = mirror.files[f"{ID}.tar.gz"]
    assert (got.seal.sha256, got.seal.archive) == (hashlib.sha256(archive).hexdigest(), len(archive))
    assert got.seal.files == 6 and got.seal.levels == ("easy", "medium", "hard")
    assert read_lock(store.lock_file).capsules == {
        f"own/{ID}": Pin(sha256=got.seal.sha256, size=len(archive), unpacked=got.seal.unpacked)
    }
    assert litter(store) == []
    again = fetch(store, edition, ID)
    assert not again.new and again.seal == got.seal and len(mirror.asked) == 1


def test_a_folder_of_archives_is_a_mirror_too(store: Store, edition: Edition, mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    own = tmp_path / "archives" / f"{ID}.tar.gz"
    own.write_bytes(mirror.files[own.name])
    assert fetch(store, edition, ID, Fetching(mirror=str(own.parent))).new
    assert own.is_file() and not mirror.asked
    with pytest.raises(InputError, match=f"{OTHER}.tar.gz: --mirror: no such archive"):
        fetch(store, edition, OTHER, Fetching(mirror=str(own.parent)))


def test_another_mirror_must_have_the_same_archive(store: Store, edition: Edition, mirror: Mirror) -> None:
    first = fetch(store, edition, ID)
    assert first.seal is not None
    remove(first.slot)
    with Mirror({f"{ID}.tar.gz": capsule_archive(ID, filler=30_000)}) as other:
        changed = Fetching(mirror=other.url)
        with pytest.raises(InputError) as caught:
            fetch(store, edition, ID, changed)
        theirs = hashlib.sha256(other.files[f"{ID}.tar.gz"]).hexdigest()
        assert theirs in str(caught.value) and first.seal.sha256 in str(caught.value)
        assert "--accept-changed" in str(caught.value) and caught.value.exit_status == 2
        assert not first.slot.folder.exists() and litter(store) == []
        assert fetch(store, edition, ID).new  # the right one is not spoiled by it
        remove(first.slot)
        assert fetch(store, edition, ID, Fetching(mirror=other.url, accept_changed=True)).new
    known = pin_of(store.lock_file, first.slot.key)
    assert known is not None and known.sha256 == theirs


def test_a_lock_file_of_an_experiment_is_demanded(store: Store, edition: Edition, tmp_path: Path) -> None:
    lock = tmp_path / "experiment" / "capsules.lock"
    assert fetch(store, edition, ID, Fetching(lock_file=lock)).new
    assert list(read_lock(lock).capsules) == [f"own/{ID}"] and not store.lock_file.exists()
    pin(lock, f"own/{ID}", Pin(sha256="0" * 64))
    with pytest.raises(InputError, match=f"is here from the archive with SHA-256 .*but {'0' * 64} is pinned"):
        fetch(store, edition, ID, Fetching(lock_file=lock))


def test_digests_that_others_published_are_demanded_from_the_first_time(store: Store, mirror: Mirror) -> None:
    key, known = next(iter(published_pins().items()))
    task = key.partition("/")[2]
    mirror.files[f"{task}.tar.gz"] = capsule_archive(task)
    with pytest.raises(InputError, match=f"but {known.sha256} is the one known"):
        fetch(store, Edition(name="test"), task, Fetching(mirror=mirror.url))
    assert len(published_pins()) == 45


def test_a_lock_file_is_for_people_and_versions(tmp_path: Path) -> None:
    lock = tmp_path / "capsules.lock"
    for n in (3, 1, 2):
        pin(lock, f"own/capsule-{n}", Pin(sha256=str(n) * 64, size=n))
    lines = lock.read_text().splitlines()
    assert [line.split('"')[1] for line in lines[2:5]] == ["own/capsule-1", "own/capsule-2", "own/capsule-3"]
    assert json.loads(lock.read_text())["capsules"]["own/capsule-2"] == {"sha256": "2" * 64, "size": 2}


@pytest.mark.parametrize("junk", ["", "[]", '{"capsules": {"a/b": {"sha256": "xyz"}}}', '{"other": 1}'])
def test_a_spoiled_lock_file_is_not_overwritten(store: Store, edition: Edition, mirror: Mirror, junk: str) -> None:
    store.root.mkdir()
    store.lock_file.write_text(junk)
    with pytest.raises(InputError, match="not a lock file"):
        fetch(store, edition, ID)
    assert store.lock_file.read_text() == junk and not mirror.asked


def test_a_hostile_archive_leaves_nothing(store: Store, edition: Edition, mirror: Mirror) -> None:
    mirror.files[f"{ID}.tar.gz"] = capsule_archive(OTHER)
    with pytest.raises(InputError, match=f"{ID}.*holds {OTHER}, not one folder {ID}"):
        fetch(store, edition, ID)
    assert litter(store) == [] and not store.lock_file.exists() and not store.present()
    mirror.files[f"{ID}.tar.gz"] = capsule_archive(ID)
    assert fetch(store, edition, ID).new


def test_one_that_is_not_there_is_told(store: Store, edition: Edition, mirror: Mirror) -> None:
    with pytest.raises(AgentctlError, match=f"{mirror.url}/capsule-9.tar.gz: the server answered 404"):
        fetch(store, edition, "capsule-9")
    assert not store.present()


def test_the_budget_is_asked_before_the_download(store: Store, edition: Edition, mirror: Mirror) -> None:
    with pytest.raises(SetupError, match=r"capsule-0000101 takes at least .* of the budget of 30.0 kB are left"):
        fetch(store, edition, ID, Fetching(budget=30_000))
    assert litter(store) == []
    got = fetch(store, edition, ID, Fetching(budget=60_000))
    assert got.seal is not None and used(store) == got.seal.unpacked
    with pytest.raises(SetupError, match="capsule remove --until SIZE"):
        fetch(store, edition, OTHER, Fetching(budget=60_000))


def test_what_unpacks_to_more_than_its_room_is_refused(store: Store, edition: Edition, mirror: Mirror) -> None:
    mirror.files[f"{ID}.tar.gz"] = capsule_archive(ID, zeros=5_000_000)
    with pytest.raises(InputError, match="would unpack to more than"):
        fetch(store, edition, ID, Fetching(budget=1_000_000))
    assert litter(store) == [] and not store.present()


def test_a_disk_without_room_is_told_before_the_download(
    store: Store, edition: Edition, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 10**6))
    with pytest.raises(SetupError, match="on the disk are left"):
        fetch(store, edition, ID)
    assert litter(store) == []


def test_the_least_used_goes_first_and_removal_is_whole(store: Store, edition: Edition) -> None:
    slots = [fetch(store, edition, each).slot for each in (ID, OTHER)]
    for n, slot in enumerate(slots):
        os.utime(slot.seal, (n, n))
    assert least_used(store.sealed()) == slots
    used_now(slots[0])
    used_now(store.slot("own", "capsule-9"))  # of one that is not here there is nothing to note
    assert least_used(store.sealed()) == slots[::-1]
    assert remove(slots[0]) > 20_000 and not slots[0].folder.exists() and not slots[0].seal.exists()
    assert store.present() == [slots[1]] and remove(slots[0]) == 0
    assert pin_of(store.lock_file, slots[0].key) is not None


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: change(folder / "data/noise.bin"), [("data/noise.bin", "changed")]),
        (lambda folder: (folder / "code/run").unlink(), [("code/run", "missing")]),
        (lambda folder: (folder / "data/new").write_text(""), [("data/new", "added")]),
        (lambda folder: (folder / "data/new").symlink_to("/etc"), [("data/new", "added")]),
        (
            lambda folder: ((folder / "code/input").unlink(), (folder / "code/input").symlink_to("/etc")),
            [("code/input", "changed")],
        ),
        (lambda folder: ((folder / "code/run").unlink(), os.mkfifo(folder / "code/run")), [("code/run", "changed")]),
        (lambda folder: shutil.rmtree(folder / "results"), [("results/output", "missing")]),
    ],
    ids=["changed", "missing", "added", "link added", "link turned", "pipe", "folder gone"],
)
def test_verify_finds_what_changed(
    store: Store, edition: Edition, spoil: Callable[[Path], object], told: list[tuple[str, str]]
) -> None:
    slot = fetch(store, edition, ID).slot
    spoil(slot.folder)
    assert [(difference.path, difference.how) for difference in verify(slot)] == told


def test_verify_says_what_it_can_not_know(store: Store, edition: Edition) -> None:
    slot = store.slot("own", ID)
    with pytest.raises(InputError, match="is not here"):
        verify(slot)
    slot.folder.mkdir(parents=True)
    with pytest.raises(InputError, match="by hand"):
        verify(slot)
    assert fetch(store, edition, ID).seal is None  # what was put there by hand is left alone


# ---- other processes, and kills


def forked(work: Callable[[], object]) -> int:
    """The pid of a child that does `work` and ends with 0, or with 1 where that raises."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def test_two_processes_download_once(store: Store, edition: Edition, mirror: Mirror) -> None:
    mirror.pause = 0.02
    children = [forked(lambda: fetch(store, edition, ID)) for _ in range(3)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert len(mirror.asked) == 1 and verify(store.slot("own", ID)) == []


def test_processes_do_not_lose_each_others_pins(tmp_path: Path) -> None:
    lock = tmp_path / "capsules.lock"

    def write(start: int) -> None:
        for n in range(start, start + 20):
            pin(lock, f"own/capsule-{n}", Pin(sha256=f"{n:064d}"))

    children = [forked(lambda start=start: write(start)) for start in (0, 100, 200)]  # type: ignore[misc]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(read_lock(lock).capsules) == 60


def die_at(step: int, folder: Path) -> None:
    """Kill this process at its `step`-th touch of something in `folder`."""
    left = [step]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if not event.startswith(("open", "os.", "shutil.")) or not any(
            isinstance(each, str | os.PathLike) and str(each).startswith(str(folder)) for each in arguments
        ):
            return
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def whole(slot: Slot) -> bool:
    """Whether the capsule is there; it must then be all there."""
    if not slot.folder.exists():
        return False
    assert verify(slot) == []
    return True


def dies(step: int, store: Store, work: Callable[[], object]) -> bool:
    """Do `work` in another process that is killed at its `step`-th touch of the store; whether it came to that."""

    def dying() -> None:
        die_at(step, store.root)
        work()

    ended = os.waitstatus_to_exitcode(os.waitpid(forked(dying), 0)[1])
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


def test_a_fetch_killed_at_any_step_leaves_nothing_half(store: Store, edition: Edition) -> None:
    slot = store.slot("own", ID)
    for step in range(1, 500):
        died = dies(step, store, lambda: fetch(store, edition, ID))
        whole(slot)
        assert fetch(store, edition, ID).seal is not None and whole(slot) and litter(store) == []
        assert used(store) > 0 and list(read_lock(store.lock_file).capsules) == [slot.key]
        remove(slot)
        if not died:
            break
    assert 30 < step < 400


def test_a_fetch_killed_again_and_again_gets_there(store: Store, edition: Edition) -> None:
    slot = store.slot("own", ID)
    for step in range(1, 500):  # each leaves what it did to the next
        died = dies(step, store, lambda: fetch(store, edition, ID))
        whole(slot)
        if not died:
            break
    assert whole(slot) and litter(store) == []


def test_a_removal_killed_at_any_step_leaves_it_whole_or_gone(store: Store, edition: Edition) -> None:
    slot = store.slot("own", ID)
    for step in range(1, 100):
        fetch(store, edition, ID)
        died = dies(step, store, lambda: remove(slot))
        whole(slot)
        if not died:
            break
        assert all(seen.folder.is_dir() for seen in store.sealed())
    assert not slot.folder.exists() and 5 < step < 90


def test_a_killed_download_is_gone_on_with(store: Store, edition: Edition, mirror: Mirror) -> None:
    mirror.faults = [Fault(drop_after=9_000), Fault(status=404)]
    with pytest.raises(AgentctlError):
        fetch(store, edition, ID)
    assert litter(store) == [f"downloads/own/{ID}.part", f"downloads/own/{ID}.part.json"]
    assert used(store) > 9_000
    assert fetch(store, edition, ID).new
    assert mirror.ranges()[-1] == "bytes=9000-" and litter(store) == []
