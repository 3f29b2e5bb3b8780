"""Switching factors of a scaffold: what comes of it, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentctl.agents.coherence import check_coherent
from agentctl.agents.factors import VALUES, group_factor, shipped_hints, switches_of
from agentctl.agents.scaffold import Scaffold, load_scaffold, shipped_scaffolds
from agentctl.agents.switches import is_on
from agentctl.agents.switching import switch, value_of
from agentctl.base.errors import InputError
from agentctl.benchmarks.config import Config
from agentctl.benchmarks.solving import attempt_spec

pytest_plugins = ("config_fixtures",)

Read = Callable[..., Config]

TOOL = """
from agentctl.tools.tool import Arguments, ToolResult
class Nothing(Arguments): pass
class Nap:
    name, description, arguments = "nap", "Do nothing.", Nothing
    def run(self, arguments, context): return ToolResult.of("rested")
    def close(self): pass
"""
HINT = "---\nkind: best-practice\nwhat: tables first\n---\nLook for tables before figures.\n"


@pytest.mark.parametrize("name", shipped_scaffolds())
def test_what_is_shipped_works_together(name: str) -> None:
    scaffold = load_scaffold(name)
    check_coherent(scaffold)
    assert scaffold.description
    assert len(scaffold.description) < 120


@pytest.mark.parametrize("name", shipped_scaffolds())
def test_no_two_factors_have_one_name(name: str) -> None:
    names = [factor.name for factor in switches_of(load_scaffold(name))]
    assert len(names) == len(set(names))
    assert set(names) & set(VALUES) == {"role"}  # switched off, or set to another


def test_a_hint_goes_and_comes_back_to_its_place() -> None:
    scaffold = load_scaffold("core-agent")
    for hint in scaffold.hints:
        without = switch(scaffold, without=[hint.id])
        assert [each.id for each in without.hints] == [each.id for each in scaffold.hints if each != hint]
        assert without.changes == (f"-{hint.id}",)
        assert without.label == f"core-agent -{hint.id}"
        again = switch(without.model_copy(update={"changes": ()}), with_=[hint.id])
        assert again.hints == scaffold.hints


def test_the_order_of_switches_does_not_matter() -> None:
    scaffold = load_scaffold("core-agent-native")
    one = switch(scaffold, with_=["clock", "giving-up-check"], without=["guess", "pdf-tools"], set_={"idle_replies": 5})
    other = switch(
        scaffold, set_={"idle_replies": "5"}, without=["pdf-tools", "guess"], with_=["giving-up-check", "clock"]
    )
    assert one == other
    assert one.digest == other.digest != scaffold.digest


def test_a_group_is_one_switch_and_single_hints_come_after_it() -> None:
    scaffold = load_scaffold("core-agent")
    bare = switch(scaffold, without=["core-agent-hints"])
    assert {hint.group for hint in bare.hints} == {"autogpt"}
    one = switch(scaffold, without=["core-agent-hints"], with_=["guess"])
    assert [hint.id for hint in one.hints if hint.group != "autogpt"] == ["guess"]
    assert switch(scaffold, without=["core-agent-hints", "autogpt-hints"]).hints == ()
    assert is_on(scaffold, group_factor("core-agent")) is True
    assert is_on(load_scaffold("core-agent-native"), group_factor("core-agent")) is None
    assert is_on(bare, group_factor("core-agent")) is False


def test_autogpt_becomes_core_agent_by_its_factors() -> None:
    made = switch(load_scaffold("autogpt"), with_=["core-agent-hints", "key-check"], set_={"role": "core-agent"})
    wanted = load_scaffold("core-agent")
    assert made.model_copy(update={"name": "", "description": "", "changes": ()}) == wanted.model_copy(
        update={"name": "", "description": "", "changes": ()}
    )


def test_checks_are_asked_in_an_order_in_which_each_has_a_word() -> None:
    assert switch(load_scaffold("plain"), with_=["key-check"]).checks == ("keys", "report")
    assert switch(load_scaffold("core-agent"), with_=["report-check"]).checks == ("keys", "report")


def test_the_tool_to_finish_with_stays_last() -> None:
    assert switch(load_scaffold("minimal"), with_=["read_file", "vision"]).tools == (
        "bash",
        "read_file",
        "vision",
        "finish",
    )


@pytest.mark.parametrize(
    ("name", "switches", "words"),
    [
        ("core-agent", {"without": ["pdftools"]}, "did you mean pdf-tools"),
        ("core-agent", {"without": ["execute_shell_popn"]}, "autogpt/execute_shell_popen"),
        ("core-agent", {"with_": ["web_search"]}, "did you mean autogpt/web_search"),
        ("core-agent", {"with_": ["pdf-tools"]}, "has it"),
        ("plain", {"without": ["pdf-tools"]}, "does not have it"),
        ("plain", {"without": ["role"]}, "does not have it"),
        ("plain", {"with_": ["role"]}, "--set role=core-agent"),
        ("plain", {"with_": ["clock"], "without": ["clock"]}, "both with and without"),
        ("plain", {"with_": ["clock", "clock"]}, "twice"),
        ("plain", {"with_": ["history"]}, "--set history=VALUE"),
        ("plain", {"set_": {"clock": "on"}}, "no such factor"),
        ("plain", {"set_": {"histroy": "condense"}}, "did you mean history"),
        ("plain", {"set_": {"history": "condensed"}}, "'full', 'condense' or 'autogpt', not 'condensed'"),
        ("plain", {"set_": {"history": "full"}}, "has that value"),
        ("plain", {"set_": {"idle_replies": "3"}}, "has that value"),
        ("plain", {"set_": {"idle_replies": 0}}, "greater than or equal to 1"),
        ("plain", {"set_": {"role": "nobody"}}, "no such prompt part"),
        ("core-agent", {"without": ["vision"]}, "--without vision-exploration --without look-through-images"),
        ("plain", {"with_": ["look-through-images"]}, "--with vision"),
        ("plain", {"with_": ["no-python-file"]}, "--with autogpt/execute_python_file"),
        ("plain", {"with_": ["delete-report"]}, "--with key-check"),
        ("core-agent", {"with_": ["report-in-capsule"], "without": ["key-check"]}, "--with key-check"),
        ("core-agent", {"with_": ["overshoot"]}, "--set budget_usd=4"),
        ("core-agent", {"set_": {"budget_usd": "3"}}, "--with overshoot"),
        ("plain", {"with_": ["unparsable-ends"]}, "--set idle_replies=10"),
        ("plain", {"with_": ["open-files"]}, "no tool that opens files"),
        ("core-agent", {"without": ["open-files"]}, "nothing shows what autogpt/open_file opens"),
        ("plain", {"set_": {"roles.fast.temperature": 0.5}}, "nothing in it asks the fast model"),
        ("minimal", {"without": ["finish"]}, "say that it is done"),
        ("core-agent", {"with_": ["read_file"]}, "two tools are named 'read_file'"),
        ("plain", {"with_": ["nosuch.md"]}, "no such hint file"),
        ("plain", {"with_": ["nosuch.py:Tool"]}, "can't be read"),
    ],
)
def test_what_makes_no_arm_is_refused(name: str, switches: Mapping[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        switch(load_scaffold(name), **switches)
    assert words in str(refused.value)


def test_what_was_switched_is_not_switched_again() -> None:
    once = switch(load_scaffold("core-agent"), without=["guess"])
    with pytest.raises(InputError, match="switched before"):
        switch(once, with_=["guess"])
    assert switch(once, without=["pdf-tools"]).changes == ("-guess", "-pdf-tools")


def test_values_are_told_in_one_way() -> None:
    one, other = (
        switch(load_scaffold("core-agent"), with_=["overshoot"], set_={"budget_usd": each}) for each in ("3.50", 3.5)
    )
    assert one == other
    assert one.label == "core-agent budget_usd=3.5 +overshoot"
    assert value_of(one, VALUES["roles.fast.temperature"]) == 0.5


def test_a_hint_of_ones_own_stands_behind_its_group(tmp_path: Path) -> None:
    own = tmp_path / "tables-first.md"
    own.write_text(HINT)
    scaffold = switch(load_scaffold("core-agent"), with_=[str(own)])
    assert scaffold.changes == ("+tables-first",)
    assert scaffold.hints[-1].text == "Look for tables before figures."
    grouped = tmp_path / "also.md"
    grouped.write_text(HINT.replace("kind", "group: core-agent\nkind"))
    ids = [hint.id for hint in switch(load_scaffold("core-agent"), with_=[str(grouped)]).hints]
    assert ids.index("also") == ids.index("install-dependencies") + 1


def test_a_tool_of_ones_own_is_a_factor_too(tmp_path: Path) -> None:
    file = tmp_path / "nap.py"
    file.write_text(TOOL)
    scaffold = switch(load_scaffold("minimal"), with_=[f"{file}:Nap"])
    assert scaffold.tools == ("bash", f"{file}:Nap", "finish")
    assert set(scaffold.code) == {f"{file}:Nap"}
    (tmp_path / "doze.py").write_text(TOOL.replace('"nap"', '"doze"'))
    both = [f"{file}:Nap", f"{tmp_path / 'doze.py'}:Nap"]
    one, other = (switch(load_scaffold("minimal"), with_=each) for each in (both, both[::-1]))
    assert one == other
    assert one.tools == ("bash", both[1], both[0], "finish")
    back = switch(scaffold.model_copy(update={"changes": ()}), without=[f"{file}:Nap"])
    assert (back.tools, back.code) == (("bash", "finish"), {})


# Settings


def test_settings_switch_as_flags_do(read: Read) -> None:
    config = read(
        project='scaffold = "core-agent"\nwithout = ["guess"]\n[model]\nname = "openai/x"\n'
        '[factors]\nidle_replies = 5\n"roles.fast.temperature" = 0.1\n',
        AGENTCTL_WITH="report-check budget-notes",
    )
    scaffold = chosen(config)
    assert scaffold.label == ("core-agent +budget-notes -guess idle_replies=5 +report-check roles.fast.temperature=0.1")
    assert scaffold.idle_replies == 5
    rows = {name: (value, str(origin)) for name, value, origin in config.rows()}
    assert rows["without"] == (("guess",), "agentctl.toml:2")
    assert rows["with"][0] == ("report-check", "budget-notes")
    assert rows["factors.idle_replies"] == (5, "agentctl.toml:6")


def chosen(config: Config) -> Scaffold:
    return attempt_spec(config, "capsule-4810297", "hard", environment={}).scaffold


def test_what_a_file_switches_wrongly_is_told_with_its_line(read: Read) -> None:
    model = '[model]\nname = "openai/x"\n'
    for project, told in (
        (f'without = ["nosuch"]\n{model}', "agentctl.toml:1: --without nosuch: no such factor"),
        (f'{model}[factors]\nhistory = "short"', "agentctl.toml:4: --set history: should be"),
        (f"{model}[factors]\nhistory = true", "agentctl.toml:4: factors.history: "),
        (f'with = "clock"\n{model}', "agentctl.toml:1: with: should be a valid"),
    ):
        with pytest.raises(InputError) as refused:
            chosen(read(project=project))
        assert str(refused.value).startswith(told), refused.value


def test_a_projects_file_names_no_code(read: Read, tmp_path: Path) -> None:
    config = read(project='with = ["nap.py:Nap"]\n[model]\nname = "openai/x"\n')
    (config.files[0].path.parent / "nap.py").write_text(TOOL)
    with pytest.raises(InputError, match="may not name code"):
        chosen(config)


def test_a_scaffold_given_as_a_value_is_taken_as_it_is(read: Read) -> None:
    given = switch(load_scaffold("core-agent"), without=["guess"])
    config = read(project='without = ["pdf-tools"]\n[model]\nname = "openai/x"\n')
    spec = attempt_spec(config, "capsule-4810297", "hard", environment={}, scaffold=given)
    assert spec.scaffold == given


def test_hints_are_shipped_in_the_order_of_prompts() -> None:
    for name in shipped_scaffolds():
        ids = [hint.id for hint in load_scaffold(name).hints]
        assert ids == [id for id in shipped_hints() if id in ids]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"role: {'You are careful. ' * 20}", "own.yaml: role: is no name of a text (write it as {name: "),
        ('system: "a\\0b"', "own.yaml: system: is no name of a text (write it as {name: "),
        (f"hints: [{'look ' * 80}]", "own.yaml: hints.0: is no name of a text (write it as {id: "),
        ('hints: ["a\\0.md"]', "own.yaml: hints.0: no such hint file"),
        ('tools: ["a\\0.py:T", finish]', "tools: can't be read: embedded null byte"),
        ("description: 2024-13-45", "own.yaml: not YAML: month must be in 1..12"),
        (f"description: {'[' * 5000}", "own.yaml: not YAML: "),
    ],
)
def test_what_can_be_no_name_is_told_in_one_line(line: str, told: str, tmp_path: Path) -> None:
    fields = {"name": "name: own", "system": "system: plain", "tools": "tools: [finish]"}
    fields[line.partition(":")[0]] = line
    (tmp_path / "own.yaml").write_text("\n".join(fields.values()))
    with pytest.raises(InputError) as refused:
        load_scaffold(str(tmp_path / "own.yaml"))
    assert told in str(refused.value)


def test_a_text_in_place_of_a_name_is_told_of_a_switch_too(tmp_path: Path) -> None:
    for name in ("You are careful. " * 20, "a\0b"):
        with pytest.raises(InputError, match="--set role: is no name of a text"):
            switch(load_scaffold("plain"), set_={"role": name})
    with pytest.raises(InputError, match="no such scaffold file"):
        load_scaffold(f"{'x' * 300}.yaml")
    (tmp_path / "own.md").write_text("---\nwhat: 2024-13-45\n---\nA text.\n")
    with pytest.raises(InputError, match=r"own\.md: not YAML"):
        switch(load_scaffold("plain"), with_=[str(tmp_path / "own.md")])
