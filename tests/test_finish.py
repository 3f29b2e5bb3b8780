"""Finishing: what is looked at when an agent says that it is done, by each check, with and without faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from no_deliverable import keeps_no_image

from agentctl.base.cancel import Cancel
from agentctl.base.errors import Cancelled, NoAnswer
from agentctl.base.messages import Status, Text
from agentctl.benchmarks.corebench.task import ReportDeliverable
from agentctl.tools.finish import Finish, make_checks
from agentctl.tools.finish.giving_up import ANSWER_TOKENS
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import Mount, Sandbox, SandboxSpec, Workspace
from agentctl.tools.tool import ToolContext, ToolResult, spec_of

QUESTIONS = ("Report the number of sheep.", "fig Report the label on the y axis.", "Report Zo\u00eb's score.")
RIGHT = {QUESTIONS[0]: 412, QUESTIONS[1]: "sheep", QUESTIONS[2]: 0.512345678}
CAPSULE = "capsule-0000101"


@dataclass
class Place:
    """A workspace as a capsule's task has it, an agent that wants to finish, and who it asks."""

    folder: Path
    sandbox: Sandbox
    answers: list[str | Exception] = field(default_factory=list)  # of the fast model, in order
    asked: list[tuple[str, str, int, bool]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def report(self) -> Path:
        return self.folder / "report.json"

    def write(self, answers: object, at: str = "report.json") -> None:
        text = answers if isinstance(answers, str) else json.dumps(answers)
        (self.folder / at).write_text(text, encoding="utf-8")

    def finishing(self, *checks: str, faults: Sequence[str] = ()) -> Any:
        """A function that calls finish, and returns the result."""
        tool = Finish(make_checks(checks, faults=faults))

        def finish() -> ToolResult:
            return tool.run(tool.arguments(), self.context)

        return finish

    @property
    def context(self) -> ToolContext:
        def ask(role: str, parts: Sequence[Any], limit: int | None = None, *, closing: bool = False) -> str:
            assert all(isinstance(part, Text) for part in parts)
            self.asked.append((role, "".join(part.text for part in parts), limit or 0, closing))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ToolContext(
            sandbox=self.sandbox,
            deliverable=ReportDeliverable(self.sandbox, QUESTIONS),
            cancel=Cancel(),
            outputs=self.folder.parent / "outputs",
            ask=ask,
            keep_image=keeps_no_image,
            emit=lambda kind, text: self.notes.append((kind, text)),
            seconds_left=lambda: 600.0,
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder, scratch = tmp_path / "workspace", tmp_path / "scratch"
    (folder / CAPSULE / "code").mkdir(parents=True)
    scratch.mkdir()
    mounts = (Mount(inside=str(folder), host=folder),)
    workspace = Workspace(mounts=mounts, scratch=scratch, material=str(folder / CAPSULE))
    sandbox = open_sandbox(SandboxSpec(kind="local"), workspace, owner_env={})
    yield Place(folder, sandbox)
    sandbox.close()


BAD_KEYS = [
    pytest.param({QUESTIONS[0]: 412}, id="missing"),
    pytest.param({**RIGHT, "more": 1}, id="extra"),
    pytest.param({}, id="none"),
    pytest.param({key.rstrip("."): value for key, value in RIGHT.items()}, id="other punctuation"),
    pytest.param("{", id="not JSON"),
    pytest.param("", id="empty"),
    pytest.param(json.dumps(list(RIGHT)), id="a list"),
    pytest.param("\ufeff" + json.dumps(RIGHT), id="a byte order mark"),
    pytest.param("[" * 100_000, id="too deep"),
]


class TestKeys:
    @pytest.mark.parametrize(
        "answers",
        [RIGHT, dict.fromkeys(QUESTIONS), {key: {"a": [1]} for key in reversed(QUESTIONS)}],
        ids=["right", "null", "objects, the other way round"],
    )
    def test_values_types_and_order_are_not_looked_at(self, place: Place, answers: object) -> None:
        place.write(answers)
        result = place.finishing("keys")()
        assert result.finish and result.status is Status.OK

    def test_two_keys_alike_are_one(self, place: Place) -> None:
        place.write("{" + ", ".join(f"{json.dumps(key)}: 1" for key in (*QUESTIONS, QUESTIONS[0])) + "}")
        assert place.finishing("keys")().finish

    @pytest.mark.parametrize("answers", BAD_KEYS)
    def test_other_keys_are_told_and_the_report_stays(self, place: Place, answers: object) -> None:
        place.write(answers)
        before = place.report.read_bytes()
        result = place.finishing("keys")()
        assert not result.finish
        assert result.status is Status.OK  # as in the original, an ordinary result
        assert str(place.report) in result.text() and "deleted" not in result.text()
        for question in QUESTIONS:
            assert json.dumps(question, ensure_ascii=False) in result.text().splitlines()
        assert place.report.read_bytes() == before

    @pytest.mark.parametrize("answers", BAD_KEYS)
    def test_the_fault_deletes_it(self, place: Place, answers: object) -> None:
        place.write(answers)
        finish = place.finishing("keys", faults=["delete-report"])
        result = finish()
        assert not result.finish and result.status is Status.OK
        assert "deleted" in result.text()
        assert not place.report.exists()
        assert "there is no report.json" in finish().text()
        place.write(RIGHT)
        assert finish().finish

    def test_none_at_the_place(self, place: Place) -> None:
        place.write("x", "report.txt")
        result = place.finishing("keys", faults=["delete-report"])()
        assert not result.finish and result.status is Status.OK
        assert f"no report.json in {place.folder}" in result.text()
        assert f"{CAPSULE}/, report.txt." in result.text()
        assert QUESTIONS[0] not in result.text()

    def test_a_folder_with_more_than_can_be_told(self, place: Place) -> None:
        for n in range(500):
            (place.folder / f"{n:03}{'n' * 200}").touch()
        text = place.finishing("keys")().text()
        assert len(text) < 30_000 and "and more" in text

    def test_a_link_that_leads_out_is_no_report(self, place: Place, tmp_path: Path) -> None:
        (tmp_path / "outside.json").write_text(json.dumps(RIGHT))
        place.report.symlink_to(tmp_path / "outside.json")
        assert not place.finishing("keys", faults=["delete-report"])().finish
        assert (tmp_path / "outside.json").exists()

    def test_the_fault_looks_in_the_capsules_folder(self, place: Place) -> None:
        place.write(RIGHT)
        finish = place.finishing("keys", faults=["report-in-capsule"])
        result = finish()
        assert not result.finish
        assert f"no report.json in {place.folder / CAPSULE}, where it belongs" in result.text()
        assert "code/" in result.text()
        place.write(RIGHT, f"{CAPSULE}/report.json")
        assert finish().finish

    def test_both_faults_delete_there_alone(self, place: Place) -> None:
        place.write({"a": 1})
        place.write({"b": 1}, f"{CAPSULE}/report.json")
        assert not place.finishing("keys", faults=["delete-report", "report-in-capsule"])().finish
        assert place.report.exists()
        assert not (place.folder / CAPSULE / "report.json").exists()


class TestReport:
    def test_errors_refuse_and_nothing_is_deleted(self, place: Place) -> None:
        place.write({QUESTIONS[0]: None, "more": 1})
        finish = place.finishing("report", faults=["delete-report", "report-in-capsule"])
        for _ in range(2):
            result = finish()
            assert result.status is Status.ERROR and not result.finish
            assert QUESTIONS[2] in result.text()
        assert json.loads(place.report.read_text()) == {QUESTIONS[0]: None, "more": 1}

    def test_warnings_are_told_once(self, place: Place) -> None:
        place.write({**RIGHT, "more": 1})
        finish = place.finishing("report")
        first = finish()
        assert first.status is Status.OK and not first.finish and "more" in first.text()
        assert finish().finish


class TestGivingUp:
    def test_refused_where_the_fast_model_says_yes(self, place: Place) -> None:
        place.write({**RIGHT, QUESTIONS[1]: "not available"})
        place.answers = ["**Yes**", "no, it does not"]
        finish = place.finishing("giving-up")
        result = finish()
        assert result.status is Status.ERROR and not result.finish
        assert str(place.report) in result.text()
        [(role, question, limit, closing)] = place.asked
        assert (role, limit, closing) == ("fast", ANSWER_TOKENS, True)
        assert '"not available"' in question and "412" in question
        assert not finish().finish and len(place.asked) == 1  # what was judged is not paid for twice
        place.write(RIGHT)
        assert finish().finish and len(place.asked) == 2
        assert place.notes == []

    @pytest.mark.parametrize(
        ("answer", "note"),
        [
            (NoAnswer("the next fast call could cost $1"), "could cost $1"),
            ("(no answer: length)", "no answer: length"),
            ("", "neither"),
            ("Maybe." * 1000, "neither"),
        ],
    )
    def test_who_can_not_be_asked_is_in_nobodys_way(self, place: Place, answer: str | Exception, note: str) -> None:
        place.write({**RIGHT, QUESTIONS[1]: "not available"})
        place.answers = [answer]
        assert place.finishing("giving-up")().finish
        [(kind, text)] = place.notes
        assert kind == "giving-up" and note in text and len(text) < 400

    def test_a_cancel_is_one(self, place: Place) -> None:
        place.write(RIGHT)
        place.answers = [Cancelled("by its owner")]
        with pytest.raises(Cancelled):
            place.finishing("giving-up")()

    @pytest.mark.parametrize("answers", [None, " \n"])
    def test_nothing_at_all_needs_no_question(self, place: Place, answers: str | None) -> None:
        if answers is not None:
            place.write(answers)
        assert not place.finishing("giving-up")().finish
        assert place.asked == []

    def test_a_huge_answer_makes_no_huge_question(self, place: Place) -> None:
        place.write("\u20ac" * 10_000_000)
        place.answers = ["NO"]
        assert place.finishing("giving-up")().finish
        assert len(place.asked[0][1]) < 20_000


def test_in_their_order_until_one_refuses(place: Place) -> None:
    place.write({QUESTIONS[0]: 1})
    place.answers = ["YES"]
    assert "Its keys must be" in place.finishing("keys", "giving-up")().text()
    assert place.asked == []
    assert "giving up" in place.finishing("giving-up", "keys")().text()


def test_without_checks_a_word_is_enough(place: Place) -> None:
    assert place.finishing()().finish


def test_a_model_is_told_the_same_whatever_is_looked_at() -> None:
    """So that a check is a factor that changes nothing of the requests before it is asked."""
    told = {
        spec_of(Finish(make_checks(names, faults=faults))).model_dump_json()
        for names in ((), ("report",), ("keys",), ("report", "giving-up"))
        for faults in ((), ("delete-report", "report-in-capsule"))
    }
    assert len(told) == 1
