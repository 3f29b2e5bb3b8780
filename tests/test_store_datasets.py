"""Datasets by name: published ones, brought ones, an encrypted one; their flaws; and finding a task in all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from mirror import Mirror, capsule_archive

from agentctl.base.errors import AgentctlError, InputError
from agentctl.base.paths import resolve
from agentctl.benchmarks.corebench.dataset import load_dataset
from agentctl.benchmarks.corebench.locate import find, flaws_of, locate
from agentctl.benchmarks.corebench.store import encrypted
from agentctl.benchmarks.corebench.store.catalog import Edition, published
from agentctl.benchmarks.corebench.store.fetch import fetch, fetch_dataset
from agentctl.benchmarks.corebench.store.flaws import known_flaws
from agentctl.benchmarks.corebench.store.library import all_held, file_of, held, named, take_in
from agentctl.benchmarks.corebench.store.place import Store, store_folder
from agentctl.benchmarks.corebench.task import CapsuleTask

OWN = Path(__file__).parent / "data" / "corebench" / "dataset.json"
ID = "capsule-0000101"
PHRASE = "reproducibility"  # as the benchmark publishes it
Encrypt: TypeAlias = Callable[[bytes, str], bytes]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="module", params=["gpg", "library"])
def encrypt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypt]:
    """Encrypts as the benchmark's authors did theirs: with the gpg program, and with the library."""
    if request.param == "library":
        import pysequoia

        yield lambda data, phrase: bytes(pysequoia.encrypt(data, passwords=[phrase], armor=False))
        return
    if shutil.which("gpg") is None:
        pytest.skip("needs gpg")
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)

    def with_gpg(data: bytes, phrase: str) -> bytes:
        command = ["gpg", "--batch", "--homedir", str(home), "--pinentry-mode", "loopback", "--passphrase", phrase]
        return subprocess.run([*command, "--symmetric"], input=data, capture_output=True, check=True).stdout

    yield with_gpg
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=True)


def entries(**changed: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(OWN.read_text(encoding="utf-8"))
    found[0].update(changed)
    return found


# ---- where the store is


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"AGENTCTL_DATA": "/data/x", "XDG_DATA_HOME": "/xdg", "HOME": "/home/me"}, "/data/x"),
        ({"XDG_DATA_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/agentctl"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/share/agentctl"),
        ({"XDG_DATA_HOME": "", "AGENTCTL_DATA": "", "HOME": "/home/me"}, "/home/me/.local/share/agentctl"),
    ],
)
def test_the_store_is_where_the_environment_says(environment: dict[str, str], folder: str) -> None:
    assert store_folder(environment) == Path(folder)
    assert store_folder({"AGENTCTL_DATA": "~/x"}) == Path("~/x").expanduser()
    assert store_folder({"AGENTCTL_DATA": "x"}) == Path.cwd() / "x"


# ---- names


def test_the_published_datasets_are_data() -> None:
    assert list(published()) == ["train", "test"]
    for edition in published().values():
        assert edition.sha256 and edition.file and edition.licence and edition.source
        assert edition.address(ID) == f"https://corebench.cs.princeton.edu/capsules/{ID}.tar.gz"
    assert (published()["test"].passphrase, published()["train"].passphrase) == (PHRASE, None)


def test_a_brought_dataset_has_a_name(store: Store) -> None:
    taken = take_in(store, OWN, Edition.brought("v1.1", version="1.1"))
    assert named(store, "v1.1") == taken == held(store, "v1.1") and all_held(store) == [taken]
    assert load_dataset(file_of(store, taken)).digest == taken.sha256 == load_dataset(OWN).digest
    assert [task.id for task in taken.tasks] == [each.capsule_id for each in load_dataset(OWN).capsules]
    assert take_in(store, OWN, taken.edition) == taken


def test_a_name_is_not_taken_from_another_unless_asked(store: Store, tmp_path: Path) -> None:
    first = take_in(store, OWN, Edition.brought("mine"))
    other = tmp_path / "other.json"
    other.write_text(json.dumps(entries(capsule_title="Another one")))
    with pytest.raises(InputError, match=r"mine is already another dataset.*--replace"):
        take_in(store, other, Edition.brought("mine"))
    second = take_in(store, other, Edition.brought("mine"), replace=True)
    assert named(store, "mine") == second and file_of(store, first).is_file()  # records may still name it


def test_a_published_name_means_the_published_file(store: Store) -> None:
    with pytest.raises(InputError, match=rf"but train is the file with {published()['train'].sha256}.*another --name"):
        take_in(store, OWN, published()["train"])


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "x y", "x" * 41, "-x", "corebench", "examples"])
def test_odd_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        Edition.brought(name)


@pytest.mark.parametrize("address", ["/tmp/{id}", "ftp://x/{id}", "https://x/all.tar.gz", "https://{id}"])
def test_odd_addresses_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="--capsules"):
        Edition.brought("mine", capsules=address)


def test_what_is_no_dataset_is_not_taken_in(store: Store, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"capsule_id": "x"}]')
    with pytest.raises(InputError, match="lacks"):
        take_in(store, tmp_path / "x.json", Edition.brought("mine"))
    assert not all_held(store)


def test_a_missing_dataset_says_how_to_get_it(store: Store) -> None:
    with pytest.raises(InputError, match=r"not here yet \(agentctl capsule fetch --dataset train\)"):
        named(store, "train")
    with pytest.raises(InputError, match="did you mean train"):
        named(store, "trian")
    with pytest.raises(InputError, match="there are train, test"):
        named(store, "v1.1")


def test_a_dataset_is_fetched_and_checked(store: Store, tmp_path: Path) -> None:
    with Mirror({"dataset.json": OWN.read_bytes()}) as mirror:
        edition = Edition(name="train", file=f"{mirror.url}/dataset.json", sha256=load_dataset(OWN).digest)
        assert fetch_dataset(store, edition).tasks and fetch_dataset(store, edition).tasks and len(mirror.asked) == 1
        mirror.files["dataset.json"] = json.dumps(entries(language="R")).encode()
        with pytest.raises(InputError, match=r"has SHA-256 .*but test is the file with"):
            fetch_dataset(store, edition.model_copy(update={"name": "test"}))
        with pytest.raises(AgentctlError, match="404"):
            fetch_dataset(store, edition.model_copy(update={"name": "test", "file": f"{mirror.url}/none"}))
    assert held(store, "test") is None and not [*store.root.glob("downloads/*/*")]


# ---- encrypted


def test_an_encrypted_dataset_is_read_and_never_written_in_clear(
    store: Store, tmp_path: Path, encrypt: Encrypt
) -> None:
    file = tmp_path / "core_test.json.gpg"
    file.write_bytes(encrypt(OWN.read_bytes(), PHRASE))
    clear = load_dataset(OWN)
    assert load_dataset(file).capsules == clear.capsules  # by the published pass phrase
    taken = take_in(store, file, Edition.brought("own-test", passphrase=PHRASE))
    assert load_dataset(file_of(store, taken)).capsules == clear.capsules
    assert file_of(store, taken).suffix == ".gpg"
    secrets = [text.encode() for each in clear.capsules for text in (each.task_prompt, *each.questions)]
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert not any(secret in path.read_bytes() for secret in secrets), path


def test_another_pass_phrase_is_kept_with_its_dataset(store: Store, tmp_path: Path, encrypt: Encrypt) -> None:
    file = tmp_path / "own.gpg"
    file.write_bytes(encrypt(OWN.read_bytes(), "open sesame"))
    with pytest.raises(InputError, match=r"own.gpg: is encrypted, and no known pass phrase.*--passphrase"):
        load_dataset(file)
    taken = take_in(store, file, Edition.brought("mine", passphrase="open sesame"))
    encrypted._opened.cache_clear()
    assert load_dataset(file_of(store, taken)).capsules == load_dataset(OWN).capsules


def test_a_damaged_encrypted_file_is_told_in_one_line(tmp_path: Path, encrypt: Encrypt) -> None:
    data = encrypt(OWN.read_bytes(), PHRASE)
    file = tmp_path / "x.gpg"
    for spoiled in (data[:-20], data[:40], data[:-5] + b"xxxxx", data[:14], data[:1], b"\x8c" + os.urandom(50)):
        file.write_bytes(spoiled)
        with pytest.raises(InputError) as caught:
            load_dataset(file)
        assert len(str(caught.value)) < 400 and "stack" not in str(caught.value).lower()


def test_armour_is_read_and_json_is_no_cipher(tmp_path: Path) -> None:
    import pysequoia

    armour = bytes(pysequoia.encrypt(OWN.read_bytes(), passwords=[PHRASE], armor=True))
    (tmp_path / "x.asc").write_bytes(armour)
    assert load_dataset(tmp_path / "x.asc").capsules
    for clear in (b"", b"[", b"\xef\xbb\xbf[]", b"\xff\xfe[", "ä".encode()[1:], b"not"):
        assert not encrypted.is_encrypted(clear)


# ---- flaws


def test_the_flaw_list_is_data_with_sources(store: Store) -> None:
    flaws = known_flaws(store.flaws)
    assert len(flaws) >= 5 and all(flaw.source and flaw.reason for flaw in flaws)
    by_task = {flaw.task: flaw for flaw in flaws}
    listed = by_task["capsule-0921079"]
    assert listed.holds("capsule-0921079", "test") and listed.holds("capsule-0921079", None)
    assert not listed.holds("capsule-0921079", "v1.1") and not listed.holds("capsule-1175539", "test")


def test_users_add_flaws(store: Store) -> None:
    store.root.mkdir()
    store.flaws.write_text(f"- {{task: {ID}, reason: the seed is missing, source: me}}\n")
    assert known_flaws(store.flaws)[-1].task == ID
    for junk, words in (("- {task: x}", "0.reason: Field required"), ("{", "not YAML"), ("- 1", "0: "), ("x", "task")):
        store.flaws.write_text(junk)
        with pytest.raises(InputError, match=words):
            known_flaws(store.flaws)


# ---- finding a task


@pytest.fixture
def filled(store: Store) -> Iterator[Store]:
    """A store with the dataset `mine`, and one of its capsules."""
    with Mirror({f"{ID}.tar.gz": capsule_archive(ID)}) as mirror:
        taken = take_in(store, OWN, Edition.brought("mine", capsules=f"{mirror.url}/{{id}}.tar.gz"))
        fetch(store, taken.edition, ID)
    store.flaws.write_text(f"- {{task: {ID}, reason: the seed is missing, source: me, datasets: [mine]}}\n")
    yield store


@pytest.mark.parametrize("dataset", ["mine", None])
def test_a_fetched_capsule_is_found_by_its_id_alone(filled: Store, dataset: str | None) -> None:
    environment = {"AGENTCTL_DATA": str(filled.root)}
    before = filled.slot("mine", ID).seal.stat().st_mtime_ns
    located = locate(ID, "hard", dataset=dataset, environment=environment)
    assert Path(located.ref.source) == filled.slot("mine", ID).folder and not located.recordings
    assert [flaw.reason for flaw in flaws_of(located.ref, environment)] == ["the seed is missing"]
    assert CapsuleTask.load(located.ref).capsule.capsule_id == ID and resolve(located.ref.dataset).is_file()
    assert filled.slot("mine", ID).seal.stat().st_mtime_ns > before


def test_a_capsule_that_is_not_here_says_what_to_type(filled: Store) -> None:
    environment = {"AGENTCTL_DATA": str(filled.root)}
    line = r"agentctl capsule fetch capsule-0000102 --dataset mine"
    for dataset in ("mine", None):
        with pytest.raises(InputError, match=line):
            locate("capsule-0000102", "hard", dataset=dataset, environment=environment)


def test_a_task_of_two_datasets_wants_a_name(filled: Store, tmp_path: Path) -> None:
    take_in(filled, OWN, Edition.brought("theirs"))
    with pytest.raises(InputError, match=r"is in several datasets \(name one of mine, theirs\)"):
        find(ID, None, filled)
    assert find(ID, "theirs", filled).dataset == "theirs"


def test_examples_come_first_and_files_work(filled: Store, tmp_path: Path) -> None:
    assert find("capsule-4810297", None, filled).dataset == "examples"
    file = tmp_path / "mine"  # a file that is named like a dataset: the dataset is meant, the path means the file
    file.write_text(json.dumps(entries(capsule_id="capsule-7")))
    assert find("capsule-7", file, filled).file == file
    with pytest.raises(InputError, match="no such dataset file"):
        find(ID, tmp_path / "none.json", filled)
    for odd in ("nine", "mine1.1", "mine\0"):
        with pytest.raises(InputError, match=r"no dataset is named .*did you mean mine"):
            find(ID, odd, filled)


def test_nothing_found_says_where_more_is(filled: Store) -> None:
    with pytest.raises(InputError, match=r"no capsule 'capsule-0000199'.*did you mean capsule-0000"):
        find("capsule-0000199", None, filled)
    with pytest.raises(InputError, match=r"not here yet: the datasets train and test \(agentctl capsule fetch"):
        find("nothing", None, filled)


def test_a_file_of_a_published_dataset_is_known_by_its_digest(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = published()["train"].model_copy(update={"sha256": load_dataset(OWN).digest})
    monkeypatch.setattr("agentctl.benchmarks.corebench.locate.published", lambda: {"train": known})
    assert find(ID, OWN, store).dataset == "train"


SHIPPED = "capsule-4810297"


@pytest.mark.parametrize("dataset", ["mine", "test", "none", "missing.json"])
def test_a_default_hides_no_shipped_example(filled: Store, tmp_path: Path, dataset: str) -> None:
    environment = {"AGENTCTL_DATA": str(filled.root)}
    said = {"dataset": dataset, "capsules": tmp_path, "environment": environment}
    located = locate(SHIPPED, "hard", **said, or_shipped=True)
    assert located.recordings and located.ref == locate(SHIPPED, "hard", environment=environment).ref
    with pytest.raises(InputError, match=rf"\({SHIPPED} comes with agentctl: --dataset examples\)"):
        locate(SHIPPED, "hard", **said)
    for other in ("capsule-48", "capsule-0000199"):  # what is no whole id of an example is looked for where it was said
        with pytest.raises(InputError) as caught:
            locate(other, "hard", **said, or_shipped=True)
        assert "comes with agentctl" not in str(caught.value)


def test_a_default_goes_before_the_shipped_examples(filled: Store, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps(entries(capsule_id=SHIPPED)))
    assert find(SHIPPED, file, filled, or_shipped=True).file == file


def test_the_examples_can_be_named(filled: Store) -> None:
    environment = {"AGENTCTL_DATA": str(filled.root)}
    by_name = locate("capsule-48", "hard", dataset="examples", environment=environment)
    assert by_name == locate(SHIPPED, "hard", environment=environment)
    assert by_name.recordings
