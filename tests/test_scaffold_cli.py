"""`agentctl scaffold` as a person uses it, and what docs/scaffolds.md says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from agentctl.agents.manifest import read_manifest
from agentctl.agents.scaffold import load_scaffold, shipped_scaffolds
from agentctl.agents.switching import switch
from agentctl.benchmarks.corebench.locate import examples, locate
from agentctl.benchmarks.previewing import place_here, preview
from agentctl.cli.main import main
from agentctl.cli.solve import command as solve
from agentctl.prompts.hints import load_hint

GUIDE = (Path(__file__).parents[1] / "docs" / "scaffolds.md").read_text(encoding="utf-8")


class Said:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


Say = Callable[..., Said]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        status: Any = 0
        try:
            main(["scaffold", *arguments])
        except SystemExit as leaving:
            status = leaving.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert err.count("\n") <= 1
        return Said(status, out, err)

    return run


def test_list_names_all_with_a_line_each(say: Say) -> None:
    told = say("list").out
    for name in shipped_scaffolds():
        assert re.search(rf"^{name} +\w", told, re.MULTILINE)
    assert [each["name"] for each in json.loads(say("list", "--json").out)] == shipped_scaffolds()


@pytest.mark.parametrize("name", shipped_scaffolds())
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_show_prints_the_prompt_whole_with_each_hint_marked(say: Say, name: str, level: str) -> None:
    told = say("show", name, "--level", level)
    assert told.status == 0, told.err
    prompt = preview(load_scaffold(name), locate("capsule-4810297", level).ref, place_here("registries"))
    _, _, shown = told.out.partition("--- system message")
    marked = [f"[{piece.hint}]" for piece in prompt.system if piece.hint]
    assert re.findall(r"^\[[a-z-]+\]$", shown, re.MULTILINE) == marked
    bare = re.sub(r"^(\[[a-z-]+\]|--- .*|-+)\n", "", shown.partition("\n")[2], flags=re.MULTILINE)
    assert "".join(bare.split()) == "".join((prompt.system_text + prompt.task).split())
    assert f"digest {prompt.digest[:12]}" in told.out


def test_show_as_json_holds_all(say: Say) -> None:
    told = json.loads(say("show", "core-agent", "--without", "guess", "--set", "history=full", "--json").out)
    made = switch(load_scaffold("core-agent"), without=["guess"], set_={"history": "full"})
    assert told["label"] == "core-agent -guess history=full"
    assert told["digest"] == made.digest
    assert told["scaffold"] == made.model_dump(mode="json")
    states = {each["name"]: each["value"] if each["kind"] == "value" else each["on"] for each in told["factors"]}
    assert (states["guess"], states["pdf-tools"], states["history"], states["clock"]) == (False, True, "full", True)
    text = "".join(piece["text"] for piece in told["prompt"]["system"])
    assert load_hint("guess").text not in text
    assert load_hint("pdf-tools").text in text


def test_lines_fit_a_terminal_of_80_columns(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentctl.cli import scaffold

    monkeypatch.setattr(scaffold, "terminal", lambda *_: (80, False))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for arguments in (
        ["list"],
        ["show", "core-agent"],
        ["diff", "autogpt", "core-agent"],
        ["diff", "core-agent", "--set", "protocol=native"],
        ["factors"],
        ["check", "core-agent"],
    ):
        told = say(*arguments)
        assert told.status == 0, told.err
        assert [line for line in told.out.splitlines() if len(line) > 80] == [], arguments


def test_diff_tells_fields_and_prompt(say: Say) -> None:
    told = say("diff", "core-agent", "--without", "pdf-tools", "--with", "report-check").out
    fields, _, prompt = told.partition("\n\n")
    assert " ".join(fields.split()) == "hints - pdf-tools + nothing checks - nothing + report"
    assert "--- core-agent\n+++ core-agent -pdf-tools +report-check\n" in prompt
    assert any(line.startswith("-1. To get at what is in a PDF") for line in prompt.splitlines())
    assert "the prompts are the same" in say("diff", "core-agent", "--set", "history=full").out
    document = json.loads(say("diff", "plain", "plain-text", "--json").out)
    assert document["fields"] == [{"field": "protocol", "a": ["native"], "b": ["plain"]}]
    assert say("diff", "plain").status == 2


@pytest.mark.parametrize("name", shipped_scaffolds())
def test_new_is_the_same_scaffold_in_one_file(say: Say, tmp_path: Path, name: str) -> None:
    assert say("new", "mine", "--from", name).status == 0
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) < 600
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mine.yaml").rename(elsewhere / "mine.yaml")
    made, old = load_scaffold(str(elsewhere / "mine.yaml")), load_scaffold(name)
    assert made.model_copy(update={"name": name}).digest == old.digest
    assert made.name == "mine"
    ref = locate("capsule-4810297", "hard").ref
    assert preview(made, ref, place_here("none")).digest == preview(old, ref, place_here("none")).digest


def test_new_overwrites_nothing(say: Say, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    for arguments, words in (
        (["mine", "--from", "plain"], "mine.yaml: is there already"),
        (["core-agent", "--from", "plain"], "is a shipped scaffold"),
        (["../x", "--from", "plain"], "no name for a scaffold"),
        (["x", "--from", "plain", "--into", "x.txt"], "ends in .yaml"),
        (["x", "--from", "plain", "--into", "no/x.yaml"], "can't be written"),
        (["x", "--from", "nosuch"], "no scaffold is named"),
    ):
        told = say("new", *arguments)
        assert (told.status, told.out) == (2, "")
        assert words in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]
    assert (tmp_path / "mine.yaml").read_text() == "mine"


def test_check_finds_an_answer_in_a_hint(say: Say, tmp_path: Path) -> None:
    answer = json.loads((examples() / "dataset.json").read_text())[0]["results"][0]
    number = next(value for value in answer.values() if isinstance(value, float))
    (tmp_path / "leaky.md").write_text(f"---\nkind: constraint\nwhat: a leak\n---\nThe answer is about {number}.\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nsystem: minimal\nhints: [leaky.md]\ntools: [bash, finish]\n")
    told = say("check", "mine.yaml")
    assert told.status == 1
    assert "✗ answers" in told.out
    assert "hint leaky holds an answer" in told.out
    assert str(number) not in told.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: mine\nsystem: minimal\ntools: [bash]\n", "no tool to finish with"),
        ("name: mine\nsystem: minimal\ntools: [bash, finish, nosuch]\n", "no tool is named 'nosuch'"),
        ("name: mine\nsystem: minimal\nhints: [look-through-images]\ntools: [bash, finish]\n", "--with vision"),
        ("name: mine\nsystem: {name: own, text: 'Hi ${nobody}'}\ntools: [bash, finish]\n", "there is no ${nobody}"),
        ("name: mine\nsystem: minimal\ntools: [bash, finish]\nfaults: [delete-report]\n", "--with key-check"),
    ],
)
def test_check_tells_what_can_not_work(say: Say, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    told = say("check", "mine.yaml")
    assert told.status == 1
    assert words in " ".join(told.out.split())


def test_solve_tells_and_records_what_was_switched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, record = tmp_path / "script.json", tmp_path / "record"
    script.write_text(json.dumps([{"text": "Nothing to do.", "calls": [{"name": "finish"}]}]))
    flags = ["--without", "report-check", "--with", "clock", "--set", "history=condense"]
    model = ["--model", f"script:{script}", "--sandbox", "local"]
    main(["solve", "capsule-48", "--scaffold", "minimal", *flags, *model, "--record", str(record)])
    assert "minimal +clock history=condense -report-check" in capsys.readouterr().err
    made = read_manifest(record).spec.scaffold
    assert (made.checks, made.context, made.history) == ((), ("clock",), "condense")
    assert made.changes == ("+clock", "history=condense", "-report-check")
    main(["show", str(record)])
    assert made.label in capsys.readouterr().out.splitlines()[0]


def test_errors_leave_in_one_line(say: Say) -> None:
    for arguments, words in (
        (["show", "nosuch"], "no scaffold is named 'nosuch'"),
        (["show", "plain", "--without", "nosuch"], "no such factor"),
        (["show", "plain", "--set", "history"], "NAME=VALUE"),
        (["show", "plain", "--task", "capsule-9"], "no capsule"),
        (["check", "nosuch.yaml"], "no such scaffold file"),
        (["factors", "nosuch"], "no scaffold is named"),
    ):
        told = say(*arguments)
        assert told.status == 2
        assert words in told.err


# docs/scaffolds.md


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_table_of_factors_is_the_one_that_is_printed(say: Say) -> None:
    table = say("factors", "--markdown").out.strip()
    shown = GUIDE.partition("<!-- factors -->")[2].partition("<!-- end -->")[0].strip()
    assert shown == table, "agentctl scaffold factors --markdown prints it"


def commands() -> list[list[str]]:
    """The words of each command that the guide tells to type."""
    lines = [re.sub(r"\s#.*", "", line) for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) > 10
    return [shlex.split(line)[1:] for line in lines]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_commands_of_the_guide_work(say: Say, words: list[str]) -> None:
    if words[0] == "scaffold":
        if "mine.yaml" in words:
            say("new", "mine", "--from", "core-agent-native")
        assert say(*words[1:]).status == 0
        return
    parser = solve.make_parser(click.Context(solve))
    given = parser.parse_args(words[1:])[0]
    values = dict(each.split("=") for each in given.get("set_values") or ())
    with_, without = given.get("set__with") or (), given.get("set__without") or ()
    if with_ or without or values:
        switch(load_scaffold(given["set__scaffold"]), with_=with_, without=without, set_=values)


def test_the_scaffold_of_the_guide_works(say: Say, tmp_path: Path) -> None:
    [text] = blocks("yaml")
    (tmp_path / "careful.yaml").write_text(text)
    told = say("check", "careful.yaml")
    assert told.status == 0, told.out


def test_the_hint_of_the_guide_works(say: Say, tmp_path: Path) -> None:
    [text] = re.findall(r"```\n(---\nkind.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "tables-first.md").write_text(text)
    hint = load_hint(str(tmp_path / "tables-first.md"))
    assert hint.applies_to(["results/a.csv"])
    assert say("show", "plain", "--with", "tables-first.md").status == 0


def test_new_finds_tools_of_ones_own_from_where_it_stands(say: Say, tmp_path: Path) -> None:
    for folder in ("sub", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "sub/t.py").write_text("x = 1\n")
    (tmp_path / "sub/own.yaml").write_text("name: own\nsystem: plain\ntools: [bash, 't.py:T', finish]\n")
    own = load_scaffold(str(tmp_path / "sub/own.yaml"))
    for into, tool in (
        ("x.yaml", "sub/t.py:T"),
        ("other/x.yaml", f"{(tmp_path / 'sub/t.py').resolve()}:T"),
        ("sub/x.yaml", "t.py:T"),
    ):
        assert say("new", "x", "--from", "sub/own.yaml", "--into", into).status == 0
        made = load_scaffold(str(tmp_path / into))
        assert made.tools == ("bash", tool, "finish")
        assert made.code[tool] == own.code["t.py:T"]


def test_list_names_scaffolds_of_packages_unread(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("boom", "boom2"):  # which both bring a name, and can't be imported
        (tmp_path / f"{package}-1.dist-info").mkdir()
        (tmp_path / f"{package}-1.dist-info/METADATA").write_text(f"Name: {package}\nVersion: 1\n")
        (tmp_path / f"{package}-1.dist-info/entry_points.txt").write_text("[agentctl.scaffolds]\nloud = boom:PATH\n")
    (tmp_path / "boom.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = say("list")
    assert told.status == 0, told.err
    assert re.findall(r"^loud +Of the package (\w+)\.$", told.out, re.MULTILINE) == ["boom", "boom2"]
    listed = json.loads(say("list", "--json").out)
    assert listed[-2:] == [{"name": "loud", "package": "boom"}, {"name": "loud", "package": "boom2"}]
