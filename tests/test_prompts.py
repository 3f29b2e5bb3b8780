"""Prompts: pure, whole, and filled once."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import Limits
from agentctl.agents.toolbox import make_tools
from agentctl.base.errors import InputError
from agentctl.prompts.compose import TaskText, compose, read_part
from agentctl.tools.tool import spec_of

VARIABLES = {
    name: f"<{name}>"
    for name in (
        "task_prompt",
        "questions",
        "capsule",
        "code",
        "data",
        "results",
        "reproducing",
        "report",
        "finish",
        "also",
    )
}


def task(level: str, **changed: str) -> TaskText:
    return TaskText(benchmark="corebench", level=level, variables={**VARIABLES, **changed})


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_each_level_says_what_it_must(level: str) -> None:
    prompt = compose("system/plain.md", task(level), network="none")
    assert prompt.task.startswith(f"Task: codeocean_{level}\n\n")
    needed = {"questions", "report", "results", "finish", "capsule"}
    needed |= {"medium": {"task_prompt", "reproducing"}, "hard": {"task_prompt"}, "easy": set()}[level]
    assert all(f"<{name}>" in prompt.task for name in needed)
    assert "$" not in prompt.task
    assert ("<reproducing>" in prompt.task) is (level == "medium")
    assert ("not run" in prompt.task) is (level == "easy")


def test_the_same_parts_give_the_same_bytes() -> None:
    one, other = (compose("system/plain.md", task("hard"), network="open") for _ in range(2))
    assert one.digest == other.digest
    assert one.digest != compose("system/plain.md", task("hard"), network="none").digest
    assert one.digest != compose("system/plain.md", task("hard", questions="other"), network="open").digest


def test_what_a_task_says_is_never_filled_again() -> None:
    prompt = compose("system/plain.md", task("hard", task_prompt="Run ${code} for $5 and ${HOME}"), network="none")
    assert "Run ${code} for $5 and ${HOME}" in prompt.task


def test_a_missing_part_or_variable_is_named() -> None:
    with pytest.raises(InputError, match=r"prompts/system/none\.md"):
        read_part("system/none.md")
    with pytest.raises(InputError, match=r"levels/corebench/hard\.md: prompt part can.t be filled"):
        compose("system/plain.md", TaskText(benchmark="corebench", level="hard", variables={}), network="none")


SHIPPED = sorted(
    entry.name.removesuffix(".yaml")
    for entry in files("agentctl.agents").joinpath("scaffolds").iterdir()
    if entry.name.endswith(".yaml")
)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scaffold_can_be_made(name: str) -> None:
    scaffold = load_scaffold(name)
    assert scaffold.name == name
    tools = make_tools(scaffold, Limits())
    words = PROTOCOLS[scaffold.protocol].tools_text([spec_of(tool) for tool in tools.values()])
    system = compose(scaffold.system, task("hard"), network="none", tools_text=words).system
    assert "network" in system
    assert all((f"- {tool}: " in system) is (scaffold.protocol == "plain") for tool in tools)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\nsystem: system/plain.md\ntools: [bash]\nprotocol: xml\n", "protocol"),
        ("name: x\nsystem: system/plain.md\n", "tools"),
        ("name: x\nsystem: s\ntools: [bash]\nhint: y\n", "hint"),
        ("a: [", "not YAML"),
        ("- 1\n", "mine.yaml"),
    ],
)
def test_a_bad_scaffold_file_is_refused_by_name(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"mine\.yaml") as caught:
        load_scaffold(str(path))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
