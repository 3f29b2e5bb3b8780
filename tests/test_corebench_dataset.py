"""The dataset loader: what is right loads whole, whatever else is an InputError that says where."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.base.errors import InputError
from agentctl.benchmarks.corebench.dataset import Capsule, Dataset, Level, load_dataset

OWN = Path(__file__).parent / "data" / "corebench" / "dataset.json"


def entry(**changed: Any) -> dict[str, Any]:
    """A right entry with some of its keys changed; `None` stays null, `...` takes the key out."""
    right: dict[str, Any] = copy.deepcopy(json.loads(OWN.read_text(encoding="utf-8"))[0])
    right.update(changed)
    return {key: value for key, value in right.items() if value is not ...}


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[Any], Dataset]:
    def load(content: Any) -> Dataset:
        path = tmp_path / "dataset.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return load_dataset(path)

    return load


def refusal(load: Callable[[Any], Dataset], content: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(content)
    assert caught.value.file is not None and "dataset" in str(caught.value.file)
    assert len(str(caught.value)) < 700
    return str(caught.value)


def test_a_right_file_loads_whole() -> None:
    dataset = load_dataset(OWN)
    assert [capsule.capsule_id for capsule in dataset.capsules] == [
        "capsule-0000101",
        "capsule-0000102",
        "capsule-0000299",
    ]
    first, second, _ = dataset.capsules
    assert first.questions[0] == "Report the mean period in seconds." and len(first.results) == 3
    assert (first.gpu, second.gpu) == (False, True)
    assert type(first.results[0]["Report how many sheep are counted."]) is int
    assert Dataset.model_validate_json(dataset.model_dump_json()) == dataset


def test_a_byte_order_mark_does_no_harm(loaded: Callable[[Any], Dataset]) -> None:
    assert loaded(b"\xef\xbb\xbf" + json.dumps([entry()]).encode()).capsules


def test_find_takes_an_id_or_its_beginning() -> None:
    dataset = load_dataset(OWN)
    assert dataset.find("capsule-0000101").capsule_id == "capsule-0000101"
    assert dataset.find("capsule-00002").capsule_id == "capsule-0000299"
    with pytest.raises(InputError, match="fits 2 capsules: capsule-0000101, capsule-0000102"):
        dataset.find("capsule-00001")
    with pytest.raises(InputError, match="did you mean capsule-0000299"):
        dataset.find("capsule-0000298")
    with pytest.raises(InputError, match="there are: capsule-0000101"):
        dataset.find("x" * 100_000)
    with pytest.raises(InputError, match="fits 3 capsules"):
        dataset.find("")


def test_an_id_that_begins_another_is_found(loaded: Callable[[Any], Dataset]) -> None:
    dataset = loaded([entry(capsule_id="capsule-1"), entry(capsule_id="capsule-12")])
    assert dataset.find("capsule-1").capsule_id == "capsule-1"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"field": ...}, ["entry 0 (capsule-0000101)", "lacks field"]),
        ({"results": ..., "task_prompt": ...}, ["lacks results, task_prompt"]),
        ({"note": 1, "license": "MIT"}, ["unknown keys: license, note"]),
        ({"language": 3}, ["language", "string"]),
        ({"task_prompt": None}, ["task_prompt"]),
        ({"gpu": "yes"}, ["gpu"]),
        ({"gpu": 1}, ["gpu"]),
        ({"capsule_id": "../secret"}, ["capsule_id"]),
        ({"capsule_id": "a/b"}, ["capsule_id"]),
        ({"capsule_id": ""}, ["capsule_id"]),
        ({"capsule_id": "capsule-1\n"}, ["capsule_id"]),
        ({"results": {}}, ["results"]),
        ({"results": "abc"}, ["results"]),
        ({"results": []}, ["results", "at least 1"]),
        ({"results": [1]}, ["results"]),
        ({"results": [{}]}, ["asks no question"]),
        ({"results": [{"a": 1}, {"b": 1}]}, ["results[1]", "different questions"]),
        ({"results": [{"a": 1}, {"a": "1"}]}, ["results[1]['a'] is a text, but a number in results[0]"]),
        ({"results": [{"a": None}]}, ["results[0]['a'] must be a finite number"]),
        ({"results": [{"a": {"b": 1}}]}, ["results[0]['a']"]),
        ({"results": [{"a": 2**1023}]}, ["results[0]['a']"]),
        ({"capsule_title": "half \ud83d"}, ["surrogate"]),
        ({"results": [{"\ud800": 1}]}, ["surrogate"]),
    ],
)
def test_an_odd_entry_is_told_by_place(
    loaded: Callable[[Any], Dataset], changed: dict[str, Any], words: list[str]
) -> None:
    message = refusal(loaded, [entry(**changed)])
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not JSON"),
        (b"[\n {]", "line 2, column 3"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1" + b"0" * 5000 + b"]", "not usable JSON"),
        (b"{}", "must be a list"),
        (b"[]", "no capsule"),
        (b"[[]]", "entry 0"),
        (b'[{"capsule_id": 1, "capsule_id": 2}]', "'capsule_id' stands twice"),
        (b'[{"results": [{"a": NaN}]}]', "NaN"),
    ],
)
def test_an_odd_file_is_told(loaded: Callable[[Any], Dataset], content: bytes, word: str) -> None:
    assert word in refusal(loaded, content)


def test_literals_too_large_for_a_float_are_refused(loaded: Callable[[Any], Dataset]) -> None:
    text = json.dumps([entry(results=[{"a": 1.5}])]).replace("1.5", "1e999")
    assert "finite number" in refusal(loaded, text.encode())


def test_an_id_that_stands_twice_is_refused(loaded: Callable[[Any], Dataset]) -> None:
    assert "entry 1" in refusal(loaded, [entry(), entry(capsule_title="other")])


def test_no_file_a_folder_a_pipe_and_a_giant_are_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dataset-pipe")
    with (tmp_path / "dataset-giant").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "dataset-folder").mkdir()
    for name in ("none", "pipe", "giant", "folder", "null\0"):
        refusal(lambda _, name=name: load_dataset(tmp_path / f"dataset-{name}"), None)


def test_levels_have_names() -> None:
    assert Level.named("hard") is Level.HARD
    with pytest.raises(InputError, match="easy, medium, hard"):
        Level.named("Hard")


ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
JSON = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)
NEARLY = st.fixed_dictionaries(
    {name: JSON | st.just("capsule-1") for name in Capsule.model_fields if name not in ("results", "gpu")}
    | {"results": JSON | st.lists(st.dictionaries(st.sampled_from(["q", "fig r"]), JSON, max_size=2), max_size=3)},
    optional={"gpu": JSON},
)
quick = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150, deadline=None
)


@quick
@given(content=JSON | st.lists(NEARLY, max_size=3))
def test_any_json_loads_or_is_refused(loaded: Callable[[Any], Dataset], content: Any) -> None:
    try:
        dataset = loaded(content)
    except InputError as error:
        str(error).encode()
    else:
        assert len({capsule.capsule_id for capsule in dataset.capsules}) == len(content) >= 1
        assert all(capsule.questions for capsule in dataset.capsules)
        assert Dataset.model_validate_json(dataset.model_dump_json()) == dataset


@quick
@given(content=st.binary(max_size=60))
def test_any_bytes_load_or_are_refused(loaded: Callable[[Any], Dataset], content: bytes) -> None:
    with pytest.raises(InputError):
        loaded(content)
