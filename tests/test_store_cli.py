"""`agentctl capsule` as a person uses it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mirror import Mirror, capsule_archive

from agentctl.benchmarks.corebench.dataset import load_dataset
from agentctl.benchmarks.corebench.store.catalog import published
from agentctl.cli.main import main

OWN = Path(__file__).parent / "data" / "corebench" / "dataset.json"
ID, OTHER = "capsule-0000101", "capsule-0000102"


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror({f"{each}.tar.gz": capsule_archive(each, filler=20_000) for each in (ID, OTHER)}) as served:
        yield served


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTCTL_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


class Said:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> Said:
        status: Any = 0
        try:
            main(list(arguments))
        except SystemExit as leaving:
            status = leaving.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err and err.count("\n") <= 10
        return Said(status, out, err)

    return run


@pytest.fixture
def imported(say: Any, mirror: Mirror) -> None:
    done = say(
        "capsule", "import", str(OWN), "--name", "own", "--version", "1.1", "--capsules", f"{mirror.url}/{{id}}.tar.gz"
    )
    assert done.status == 0 and "own: 3 capsules" in done.out


def test_an_empty_store_says_how_to_begin(say: Any) -> None:
    said = say("capsule", "list")
    assert "train 1.0: not here yet (agentctl capsule fetch --dataset train)" in said.out
    assert "capsule-4810297" in said.out and "8 were graded wrongly" in " ".join(said.out.split())
    said = say("solve", ID)
    assert said.status == 2 and "agentctl capsule fetch --dataset train" in said.err
    said = say("capsule", "verify")
    assert (said.status, said.out) == (0, "")


@pytest.mark.usefixtures("imported")
def test_from_an_import_to_a_found_capsule(say: Any, store: Path) -> None:
    said = say("solve", ID)
    assert said.status == 2
    line = re.search(r"\((agentctl (capsule fetch .*?))\)", said.err)
    assert line is not None
    said = say(*line[2].split())
    assert said.status == 0 and f"{ID}: fetched, 6 files, 20.1 kB, sha256" in said.out and not said.err
    assert f"{ID}: is here" in say(*line[2].split()).out
    said = say("solve", ID)
    assert said.status == 2 and "no model is given" in said.err  # the capsule was found
    shown = say("capsule", "list", "--dataset", "own")
    assert "own 1.1: 3 capsules, 1 here, 20.1 kB" in shown.out
    row = next(line for line in shown.out.splitlines() if ID in line)
    assert "easy medium hard" in row and "here" in row and "20.1 kB" in row
    assert OTHER not in say("capsule", "list", "--fetched").out


@pytest.mark.usefixtures("imported")
def test_fetching_all_and_as_json(say: Any, mirror: Mirror) -> None:
    mirror.files["capsule-0000299.tar.gz"] = capsule_archive("capsule-0000299")
    said = say("capsule", "fetch", "--dataset", "own", "--all", "--json", "--budget", "1GB")
    assert [each["id"] for each in said.document] == [ID, OTHER, "capsule-0000299"]
    assert all(each["new"] and Path(each["folder"]).is_dir() for each in said.document)
    said = say("capsule", "list", "--json")
    shelf = next(shelf for shelf in said.document if shelf["dataset"] == "own")
    assert all(row["here"] and row["size"] for row in shelf["rows"])
    assert say("capsule", "verify", "--json").document == {f"own/{each['id']}": [] for each in shelf["rows"]}


@pytest.mark.usefixtures("imported")
def test_truths_are_never_shown(say: Any) -> None:
    truths = json.loads(OWN.read_text(encoding="utf-8"))[0]["results"]
    said = say("capsule", "show", ID)
    assert all(question[:30] in said.out for question in truths[0])
    document = say("capsule", "show", ID, "--json").document
    assert document["questions"] == list(truths[0]) and "results" not in document
    for answer in truths[0].values():
        assert json.dumps(answer) not in json.dumps(document | {"questions": []})


@pytest.mark.usefixtures("imported")
def test_flaws_are_shown(say: Any, store: Path) -> None:
    (store / "flaws.yaml").write_text(f"- {{task: {ID}, reason: the seed is missing, source: a reader}}\n")
    assert "flaw: the seed is missing" in say("capsule", "list").out
    assert "the seed is missing (a reader)" in say("capsule", "show", ID).out


@pytest.mark.usefixtures("imported")
def test_solve_warns_of_flaws_and_validate_takes_names(say: Any, store: Path, tmp_path: Path) -> None:
    (store / "flaws.yaml").write_text(f"- {{task: {ID}, reason: the seed is missing, source: a reader}}\n")
    say("capsule", "fetch", ID)
    (tmp_path / "replies.json").write_text("[]")
    said = say("solve", ID, "--dataset", "own", "--model", f"script:{tmp_path}/replies.json", "--sandbox", "local")
    assert f"{ID} is known to be flawed: the seed is missing (a reader)\n" in said.err
    (tmp_path / "report.json").write_text("{}")
    said = say("validate", "report.json", "--task", ID, "--dataset", "own")
    assert said.status == 1 and "Report the mean period in seconds." in said.out


@pytest.mark.usefixtures("imported")
def test_verify_tells_and_exits_1(say: Any, store: Path) -> None:
    say("capsule", "fetch", ID, OTHER)
    (store / "capsules" / "own" / ID / "code" / "main.py").write_text("print(43)\n")
    said = say("capsule", "verify")
    assert said.status == 1 and f"{ID}: 1 difference\n  changed: code/main.py" in said.out
    assert f"{OTHER}: as unpacked" in said.out
    assert say("capsule", "verify", OTHER).status == 0
    assert say("capsule", "verify", "capsule-0000299").status == 2


@pytest.mark.usefixtures("imported")
def test_removing_by_name_and_by_size(say: Any, store: Path) -> None:
    say("capsule", "fetch", ID, OTHER)
    os.utime(store / "seals" / "own" / f"{OTHER}.json", (1, 1))
    said = say("capsule", "remove", "--until", "30kB")
    assert said.out == f"{OTHER}: removed, 20.1 kB\n"
    assert say("capsule", "remove", "--until", "30kB").out == ""
    assert say("capsule", "remove", f"own/{ID}").out == f"{ID}: removed, 20.1 kB\n"
    assert say("capsule", "remove", ID).status == 2


@pytest.mark.usefixtures("imported")
def test_a_changed_archive_is_refused_in_one_line(say: Any, mirror: Mirror) -> None:
    say("capsule", "fetch", ID)
    say("capsule", "remove", ID)
    mirror.files[f"{ID}.tar.gz"] = capsule_archive(ID, filler=1000)
    said = say("capsule", "fetch", ID)
    assert said.status == 2 and said.err.count("\n") == 1 and "--accept-changed" in said.err
    assert say("capsule", "fetch", ID, "--accept-changed").status == 0


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch"], "name TASKS"),
        (["fetch", "--all"], "name the --dataset"),
        (["fetch", ID, "--budget", "lots"], "write it as 20GB"),
        (["fetch", ID, "--budget", "1kB"], "1.0 kB are left"),
        (["fetch", "capsule-4810297"], "comes with agentctl"),
        (["fetch", "capsule-00001"], "fits 2 capsules"),
        (["fetch", ID, "--dataset", "nine"], "no dataset is named"),
        (["list", "--dataset", "test"], "not here yet"),
        (["show", "nothing"], "no capsule 'nothing'"),
        (["remove"], "name TASKS"),
        (["remove", ID, "--dataset", "own"], "not both"),
        (["remove", "--dataset", "none"], "no dataset is named 'none'"),
        (["import", "none.json", "--name", "x"], "no such dataset file"),
        (["import", str(OWN), "--name", "train"], "train is the file with"),
        (["import", str(OWN), "--name", "train", "--version", "2"], "leave out"),
        (["import", str(OWN), "--name", "a b"], "--name"),
    ],
)
def test_what_can_not_be_done_is_told_in_one_line(say: Any, arguments: list[str], words: str) -> None:
    said = say("capsule", *arguments)
    assert said.status == 2 and words in said.err and said.err.count("\n") == 1 and not said.out


def test_a_dead_address_is_a_failure_not_bad_input(say: Any, mirror: Mirror) -> None:
    say("capsule", "import", str(OWN), "--name", "own", "--capsules", f"{mirror.url}/none/{{id}}.tar.gz")
    said = say("capsule", "fetch", ID)
    assert said.status == 1 and "the server answered 404" in said.err


@pytest.mark.usefixtures("imported")
def test_a_dataset_is_removed_with_the_capsules_that_only_it_has(say: Any, store: Path, mirror: Mirror) -> None:
    assert say("capsule", "import", str(OWN), "--name", "same").status == 0  # of the published collection
    say("capsule", "fetch", ID, "--dataset", "own")
    say("capsule", "fetch", ID, "--dataset", "same", "--mirror", mirror.url)
    assert say("capsule", "remove", "--dataset", "same").out == "same: removed\n"
    assert say("capsule", "remove", "--dataset", "own").out == f"own: removed\n{ID}: removed, 20.1 kB\n"
    told = say("capsule", "list", "--json").document
    assert not {"own", "same"} & {each["dataset"] for each in told}
    assert [path.parent.name for path in store.glob("capsules/*/capsule-*")] == ["corebench"]
    assert not [*store.glob("datasets/*")]
    assert say("capsule", "import", str(OWN), "--name", "own").status == 0  # the name is free


def published_as_own(monkeypatch: pytest.MonkeyPatch, file: str = "http://127.0.0.1:9/core_train.json") -> None:
    """The published dataset `train` is our small one, at an address that leads nowhere."""
    edition = published()["train"].model_copy(update={"file": file, "sha256": load_dataset(OWN).digest})
    for place in ("cli.capsule", "benchmarks.corebench.store.library"):
        monkeypatch.setattr(f"agentctl.{place}.published", lambda: {"train": edition})


@pytest.mark.parametrize("form", ["address", "folder"])
def test_a_mirror_may_hold_the_datasets_file_too(
    say: Any, store: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    published_as_own(monkeypatch)
    mirror.files["core_train.json"] = OWN.read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/core_train.json").write_bytes(OWN.read_bytes())
    where = mirror.url if form == "address" else str(tmp_path / "folder")
    done = say("capsule", "fetch", "--dataset", "train", "--mirror", where)
    assert (done.status, done.out.partition(",")[0]) == (0, "train: 3 capsules"), done.err
    assert (tmp_path / "folder/core_train.json").exists()
    assert done.err == ""


@pytest.mark.parametrize("form", ["address", "folder"])
def test_a_mirror_of_archives_alone_is_passed_over(
    say: Any, mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    with Mirror({"core_train.json": OWN.read_bytes()}) as origin:
        published_as_own(monkeypatch, f"{origin.url}/core_train.json")
        where = mirror.url if form == "address" else str(tmp_path)
        done = say("capsule", "fetch", "--dataset", "train", "--mirror", where)
        assert done.status == 0, done.err
        assert f"{where}/core_train.json is not there: asking {origin.url}/core_train.json" in done.err


def test_a_mirror_with_another_file_is_refused(say: Any, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    published_as_own(monkeypatch)
    mirror.files["core_train.json"] = b"[]"
    done = say("capsule", "fetch", "--dataset", "train", "--mirror", mirror.url)
    assert done.status == 2
    assert f"{mirror.url}/core_train.json: has SHA-256" in done.err
