"""The report check: what is said of a report, whatever bytes it holds and wherever it lies."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.base.deliverable import Severity
from agentctl.base.errors import InputError
from agentctl.base.jsonio import dumps
from agentctl.tools.host_files import HostFiles
from agentctl.tools.report_answers import as_scored, near_key
from agentctl.tools.report_check import SIZE_LIMIT, ReportCheck, check_at, check_report, schema_of, validate_file
from agentctl.tools.sandbox.protocol import FileKind, PathRefused

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # others use the machine, too
TESTS = Path(__file__).parent
INPUTS = {"expected_keys", "report_text", "report_b64", "report_python", "files", "expected_at", "make", "note"}


def lay_out(folder: Path, given: dict[str, Any]) -> Path:
    """Make what a case says, and give back where its report belongs."""
    assert not given.keys() - INPUTS, f"a case with inputs that this test can't lay out: {given.keys() - INPUTS}"
    place = folder / given.get("expected_at", "report.json")
    for name, text in given.get("files", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    if "report_text" in given:
        place.write_text(given["report_text"], encoding="utf-8")
    elif "report_b64" in given:
        place.write_bytes(base64.b64decode(given["report_b64"]))
    elif "report_python" in given:  # in a process of its own: the value may be huge
        code = "import sys; from case_fields import SCOPE; sys.stdout.buffer.write(eval(sys.argv[1], SCOPE).encode())"
        with place.open("wb") as file:
            subprocess.run([sys.executable, "-c", code, given["report_python"]], stdout=file, check=True, cwd=TESTS)
    elif "make" in given:
        for part in given["make"].split(";"):
            make(folder, part.strip())
    elif "files" not in given:
        pytest.fail("a case without a report")
    return place


def make(folder: Path, part: str) -> None:
    """One thing that a case tells of in words, as `report.json is a directory`."""
    name, _, what = part.partition(" ")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if found := re.fullmatch(r"is an? (?:sym(?:bolic )?)?link to (\S+)", what):
        target.symlink_to(found[1])
    elif re.fullmatch(r"is a (directory|folder)", what):
        target.mkdir()
    elif re.fullmatch(r"is a (fifo|named pipe)", what, re.IGNORECASE):
        os.mkfifo(target)
    elif what == "is an empty file":
        target.touch()
    elif what in ("is a file", "exists"):
        target.write_text('{"q": 1}')
    else:
        pytest.fail(f"a case that makes something this test can't make: {part}")


def holds(check: ReportCheck, place: Path, name: str, value: Any) -> bool:
    """Whether the check agrees with one exact value of a case."""
    errors = {finding.where for finding in check.findings if finding.severity is Severity.ERROR}
    warned = {finding.where for finding in check.findings if finding.severity is Severity.WARNING}
    match name:
        case "valid":
            return check.valid is value
        case "questions_total":
            return check.questions == value
        case "crash":
            return value is False
        case "missing":
            return list(check.missing) == value
        case "problem_key":
            return value in errors
        case "problem_keys":
            return set(value) <= errors
        case "warning_for":
            return set(value) <= warned
        case "suggest":
            return value.items() <= {finding.where: finding.suggestion for finding in check.findings}.items()
        case "numeric_reading":
            return value == check.numbers
        case "stored_value":
            stored = json.loads(place.read_bytes())
            wanted = value if isinstance(value, dict) else dict.fromkeys(stored, value)
            numbers = {key: each for key, each in wanted.items() if isinstance(each, float | int)}
            return stored == wanted and check.numbers == numbers
        case "found_elsewhere":
            return list(check.found_elsewhere) == value
        case "if_accepted_file_has_no_bom":
            return not check.valid and any("byte-order mark" in finding.message for finding in check.findings)
        case "max_extra_rss_mb":
            return True  # looked at around the check
    pytest.fail(f"an exact value that this test can't look at: {name}")


@pytest.mark.cases("report")
def test_report_case(case: dict[str, Any], tmp_path: Path) -> None:
    place = lay_out(tmp_path, case["input"])
    before = sorted((path, path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check = validate_file(place, case["input"].get("expected_keys", ["q"]))
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    exact = case["expect"].get("exact", {})
    assert grown_mb <= exact.get("max_extra_rss_mb", 100)
    for name, value in exact.items():
        assert holds(check, place, name, value), f"{name} should be {value!r}: {check.model_dump_json(indent=1)}"
    assert sorted((path, path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")) == before


def said(check: ReportCheck, severity: Severity = Severity.ERROR) -> list[tuple[str | None, str]]:
    return [(finding.where, finding.message) for finding in check.findings if finding.severity is severity]


def check_of(report: Any, *questions: str) -> ReportCheck:
    return check_report(json.dumps(report, ensure_ascii=False).encode(), questions or tuple(report))


def test_a_good_report_has_no_findings() -> None:
    check = check_of(
        {"Report the accuracy.": 0.91234, "fig Report the label.": "Gas Resistance", "n": 12, "yes?": True}
    )
    assert check.valid and not check.findings and not check.missing
    assert check.numbers == {"Report the accuracy.": 0.91234, "n": 12.0}


def test_the_json_error_is_placed() -> None:
    [(_, message)] = said(check_report(b'{"a": 1,\n  "b": oops}', ["a", "b"]))
    assert "line 2, column 8" in message
    [(_, message)] = said(check_report(b"{'a': 1}", ["a"]))
    assert "line 1, column 2" in message
    assert check_report(b'{"a": 1} // done', ["a"]).missing == ("a",)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\xff\xfe{\x00}\x00", "Not UTF-8 at byte 0"),
        (b'{"a": "\xc3"}', "Not UTF-8 at byte 7"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"null", "The top level is null"),
        (b'"{}"', "The top level is a text"),
        (b"NaN", "The top level is NaN"),
        (b"x" * (SIZE_LIMIT + 1), "1,048,577 bytes"),
    ],
)
def test_unusable_bytes_are_named(data: bytes, word: str) -> None:
    check = check_report(data, ["a", "b"])
    [(where, message)] = said(check)
    assert word in message and where is None
    assert not check.valid and check.missing == ("a", "b") and check.questions == 2


def test_literals_that_are_no_numbers_are_named_wherever_they_are() -> None:
    check = check_report(
        b'{"a": [1, NaN], "b": {"c": -Infinity}, "d": 1e400, "e": 1' + b"0" * 400 + b', "f": 1e308}', "abdef"
    )
    assert {where for where, message in said(check) if "not a JSON number" in message} == {"a", "b", "d", "e"}


def test_values_that_are_never_answers() -> None:
    check = check_of({"a": None, "b": {"value": 1}, "c": [1, 2], "d": False})
    assert {where for where, _ in said(check)} == {"a", "b"}
    assert {where for where, _ in said(check, Severity.WARNING)} == {"c"}


@pytest.mark.parametrize(
    "text",
    [
        *("n/a", "N/A", "NaN", "nan.", "none", "Unknown", "-", "?", "", "   ", "inf", "not available", "TBD", "—"),
        *("could not run it", "Unable to determine", "No results were found", "can't tell"),
    ],
)
def test_texts_that_stand_for_no_answer_are_warned_of(text: str) -> None:
    check = check_of({"q": text})
    assert check.valid
    [(where, message)] = said(check, Severity.WARNING)
    assert where == "q" and "guess" in message


@pytest.mark.parametrize(
    "text", ["1,234", "92,5", "0.773 m", "$5", "−0.773", "~3", "(0.5)", "<0.001", "92.5.", "12 (sd 3)"]
)
def test_texts_that_are_nearly_numbers_are_warned_of(text: str) -> None:
    [(_, message)] = said(check_of({"q": text}), Severity.WARNING)
    assert "bare" in message


@pytest.mark.parametrize(
    "text", ["92.5", " 92.5\n", "1_234", "9.25e1", "Gas Resistance", "BERT-NLI", "LASSO", "in", "Norway"]
)
def test_plain_answers_are_not_warned_of(text: str) -> None:
    assert not check_of({"q": text}).findings


def test_prose_and_outer_blanks_are_warned_of() -> None:
    for text in ["The accuracy is 0.5", "a\nb", "word " * 20, " label", "x" * 9000]:
        assert len(said(check_of({"q": text}), Severity.WARNING)) == 1, text


def test_percent_names_both_readings() -> None:
    [(_, message)] = said(check_of({"q": "95.5 %"}), Severity.WARNING)
    assert "95.5" in message and "0.955" in message


@pytest.mark.parametrize(
    ("question", "value", "word"),
    [
        ("q", 0.91, "looks rounded"),
        ("Report it to one decimal place.", 5.23, "asks for 1"),
        ("Round to 3 decimals.", 5.2345, "asks for 3"),
        ("Round to 3 decimals.", 5.234, None),
        ("Report it to one decimal.", 5.2, None),
        ("q", 0.912345, None),
        ("q", 12, None),
        ("q", 12.0, None),
        ("q", 1.5e-7, None),
        ("Round to 0 decimals", 5.5, "asks for 0"),
    ],
)
def test_precision_is_reminded_of(question: str, value: float, word: str | None) -> None:
    warnings = said(check_of({question: value}), Severity.WARNING)
    assert [word in message for _, message in warnings] == ([True] if word else [])


@pytest.mark.parametrize(
    "key",
    [
        "Report the x-axis label",
        " Report the x-axis label.\n",
        "report the X-axis label.",
        "Report the x–axis label.",
        "Report the x\u2011axis\u00a0label.",
        "Report_the_x-axis_label.",
        "Report the x-axis lable.",
        "Report  the x-axis label.",
    ],
)
def test_a_near_key_names_its_question(key: str) -> None:
    check = check_of({key: "epoch", "Report the loss.": 1}, "Report the x-axis label.", "Report the loss.")
    [finding] = check.findings
    assert (finding.where, finding.suggestion) == (key, "Report the x-axis label.")
    assert check.missing == ("Report the x-axis label.",)


def test_a_question_is_suggested_once_and_never_one_that_is_answered() -> None:
    check = check_of({"Report n": 1, "Report n ": 2}, "Report n.")
    assert [finding.suggestion for finding in check.findings] == ["Report n.", None]
    assert near_key("Report m.", []) is None
    answered = check_of({"Report n.": 1, "Report n": 2}, "Report n.")
    assert answered.valid and [where for where, _ in said(answered, Severity.WARNING)] == ["Report n"]


def test_questions_that_differ_by_a_number_are_not_mixed_up() -> None:
    check = check_of({"Report n for row 3 in the table.": 15}, "Report n for row 2 in the table.")
    assert [finding.suggestion for finding in check.findings] == [None, None]
    assert near_key("Report n for row 2 of the table", ["Report n for row 2 in the table."])


def test_nested_answers_leave_all_questions_missing() -> None:
    check = check_of({"answers": {"Report n.": 1}}, "Report n.")
    assert not check.valid and check.missing == ("Report n.",)


def test_the_schema_tells_no_type() -> None:
    properties = schema_of(["fig label", "number of birds"])["properties"]
    assert properties["fig label"] == properties["number of birds"]


def test_without_questions_the_form_alone_is_checked() -> None:
    assert check_report(b'{"anything": 12}', ()).valid
    assert not check_report(b'{"anything": null}', ()).valid


def test_a_report_with_a_thousand_faults_is_answered_in_brief_and_fast() -> None:
    began = time.monotonic()
    check = check_of({f"key {n}": None for n in range(20_000)}, *(f"question {n}" for n in range(300)))
    assert len(check.findings) <= 61 and not check.valid
    blanks = check_of({"q": "$" + " " * 900_000 + "x"})
    digits = check_of({"1" * 900_000: 0.5}, "q")
    assert time.monotonic() - began < 5
    assert len(blanks.model_dump_json()) + len(digits.model_dump_json()) < 10_000


def test_the_messages_are_valid_text() -> None:
    check = check_report(b'{"\\ud800": "\\udfff 5 m", "q": 1, "q": "\\ud83d"}', ["q", "r\ud800"])
    assert dumps(check.model_dump(mode="json"))


@calm
@given(st.binary(max_size=200), st.lists(st.text(max_size=8), max_size=4))
def test_no_bytes_make_it_raise(data: bytes, questions: list[str]) -> None:
    check = check_report(data, questions)
    assert check.questions == len(questions)
    dumps(check.model_dump(mode="json"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@calm
@given(JSON, st.lists(st.text(max_size=6), max_size=3, unique=True))
def test_no_json_makes_it_raise(value: Any, questions: list[str]) -> None:
    check = check_report(json.dumps(value).encode(), questions)
    if check.valid:
        assert isinstance(value, dict) and set(questions) <= set(value) and not check.missing
    dumps(check.model_dump(mode="json"))


@calm
@given(
    st.dictionaries(st.text(min_size=1, max_size=9), st.integers() | st.booleans() | st.text(max_size=9), max_size=5)
)
def test_a_whole_report_is_valid(answers: dict[str, Any]) -> None:
    assert check_of(answers, *answers).valid


def test_what_scorers_read() -> None:
    values = ["92.5%", "%", "a%b", "٣.٥", "1,2", 5, True, None, ["%"], "nan"]
    read = [as_scored(value) for value in values]
    assert read[:-1] == [92.5, "", "ab", 3.5, "1,2", 5, True, None, ["%"]] and read[-1] != read[-1]


# --- where it lies ---


def test_the_report_is_never_followed_out_nor_waited_for(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"q": 1}')
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "report.json").symlink_to("../secret")
    assert not check_at(HostFiles(), str(folder / "report.json"), ["q"]).valid
    (folder / "report.json").unlink()
    os.mkfifo(folder / "report.json")
    assert "regular file" in said(check_at(HostFiles(), str(folder / "report.json"), ["q"]))[0][1]
    with pytest.raises(PathRefused):
        HostFiles().read(str(folder / "report.json"))
    with pytest.raises(OSError):
        HostFiles().read(str(folder))


def test_three_wrong_places_get_three_messages(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    (tmp_path / "Report.JSON").write_text("{}")
    (tmp_path / "report.json.txt").write_text("{}")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.json").write_text("{}")
    messages = [message for _, message in said(validate_file(tmp_path / "report.json", ["q"]))]
    words = ["folder", "results/report.json", "upper and lower case", "second extension"]
    assert [word in message for word, message in zip(words, messages, strict=True)] == [True] * 4


def test_a_folder_inside_the_folder_of_that_name_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    (tmp_path / "report.json" / "report.json").write_text("{}")
    assert validate_file(tmp_path / "report.json", ["q"]).found_elsewhere == ("report.json/report.json",)


def test_a_report_that_is_given_through_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text('{"q": 12}')
    (tmp_path / "report.json").symlink_to("real.json")
    assert validate_file(tmp_path / "report.json", ["q"]).valid


def test_no_folder_at_all_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        validate_file(tmp_path / "nowhere" / "report.json", ["q"])


def test_host_files_list_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("x")
    (tmp_path / "z").symlink_to("nowhere")
    names = {Path(info.path).name: info.kind for info in HostFiles().list(str(tmp_path), depth=2)}
    assert names == {"a": FileKind.FOLDER, "b": FileKind.FOLDER, "z": FileKind.LINK}
    assert len(HostFiles().list(str(tmp_path), depth=5, limit=2)) == 2
