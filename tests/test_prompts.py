"""Prompts: pure, whole, and filled once.

The whole prompts of the shipped scaffolds stand in tests/data/prompts, for reading, and for seeing in a diff what a
change does to them. They are written anew by `WRITE_PROMPTS=1 pytest tests/test_prompts.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.agents.prompting import prompt_of
from agentctl.agents.scaffold import load_scaffold, shipped_scaffolds
from agentctl.agents.spec import Limits
from agentctl.agents.toolbox import make_tools
from agentctl.base.errors import InputError
from agentctl.prompts.compose import Place, Prompt, PromptParts, TaskText, compose, fill, read_part
from agentctl.prompts.hints import Hint, all_hints
from agentctl.prompts.parts import Part

WHOLE = Path(__file__).parent / "data" / "prompts"
LEVELS = ("easy", "medium", "hard")
SHOWN = ("autogpt", "core-agent", "core-agent-native", "minimal", "plain")
HERE = Place(network="registries", apt=True)
CLOSED = Place(network="none")
PLAIN = PromptParts(system=Part(name="plain", text=read_part("system/plain.md")))

VARIABLES = {
    "task_prompt": "Run 'main.py' and report what it prints.",
    "questions": '"Report the mean."\n"fig Report the colour of the line."',
    "capsule": "/workspace/capsule-0000000",
    "code": "/workspace/capsule-0000000/code",
    "data": "/workspace/capsule-0000000/data",
    "results": "/workspace/capsule-0000000/results",
    "reproducing": "/workspace/capsule-0000000/REPRODUCING.md",
    "report": "/workspace/report.json",
    "finish": "When every question has its answer, call the finish tool.",
    "also": "The folder code is also at /code. ",
}


def task(level: str, **changed: str) -> TaskText:
    return TaskText(benchmark="corebench", level=level, variables={**VARIABLES, **changed})


def hint(id: str, text: str, kind: str = "constraint", *levels: str) -> Hint:
    return Hint.model_validate({"id": id, "kind": kind, "what": "x", "text": text, "levels": levels})


def parts(template: str, *hints: Hint, **more: object) -> PromptParts:
    return PromptParts.model_validate({"system": Part(name="mine.md", text=template), "hints": hints, **more})


def told(template: str, *hints: Hint, place: Place = CLOSED, **more: object) -> str:
    text = compose(parts(template, *hints, **more), task("easy"), place).system_text
    return text.replace(read_part("network/none.md"), "[network]")


def prompt_under(scaffold: str, level: str, place: Place = HERE, **changed: str) -> Prompt:
    whole = load_scaffold(scaffold)
    return prompt_of(whole, make_tools(whole, Limits()), task(level, **changed), place)


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_says_what_it_must(level: str) -> None:
    prompt = compose(PLAIN, task(level, **{name: f"<{name}>" for name in VARIABLES}), CLOSED)
    assert prompt.task.startswith(f"Task: codeocean_{level}\n\n")
    needed = {"questions", "report", "results", "finish", "capsule"}
    needed |= {"medium": {"task_prompt", "reproducing"}, "hard": {"task_prompt"}, "easy": set()}[level]
    assert all(f"<{name}>" in prompt.task for name in needed)
    assert "$" not in prompt.task
    assert ("<reproducing>" in prompt.task) is (level == "medium")
    assert ("not run" in prompt.task) is (level == "easy")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scaffold", SHOWN)
def test_the_whole_prompt_is_the_one_on_file(scaffold: str, level: str) -> None:
    prompt = prompt_under(scaffold, level)
    path = WHOLE / f"{scaffold}-{level}.txt"
    text = f"{prompt.system_text}\n\n======== user ========\n\n{prompt.task}\n"
    if os.environ.get("WRITE_PROMPTS"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_there_is_no_prompt_on_file_of_nothing() -> None:
    assert {path.name for path in WHOLE.iterdir()} == {f"{name}-{level}.txt" for name in SHOWN for level in LEVELS}


@pytest.mark.parametrize("name", shipped_scaffolds())
@pytest.mark.parametrize("network", ["none", "registries", "open"])
def test_every_shipped_scaffold_tells_of_place_tools_and_hints(name: str, network: str) -> None:
    scaffold = load_scaffold(name)
    assert scaffold.name == name
    prompt = prompt_under(name, "hard", Place(network=network))
    text = prompt.system_text
    assert text.count(read_part(f"network/{network}.md")) == 1
    assert text.count(read_part("installs/home.md")) == (network != "none")
    assert [piece.hint for piece in prompt.system if piece.hint] == [
        each.id
        for kind in ("constraint", "best-practice")
        for each in scaffold.hints
        if each.kind == kind and each.told_at("hard")
    ]
    for tool in make_tools(scaffold, Limits()):
        assert (f"- {tool}: " in text or f". {tool}: " in text) is (scaffold.protocol != "native")
    assert "${" not in text
    assert "\n\n\n" not in text
    assert text == text.strip()


def test_minimal_is_three_lines() -> None:
    lines = prompt_under("minimal", "hard").system_text.split("\n")
    assert len([line for line in lines if line]) == 3


SCRIPT = """
import sys
from agentctl.agents.prompting import prompt_of
from agentctl.agents.scaffold import load_scaffold, shipped_scaffolds
from agentctl.agents.spec import Limits
from agentctl.agents.toolbox import make_tools
from agentctl.prompts.compose import Place, TaskText
task = TaskText.model_validate_json(sys.stdin.buffer.read())
for name in shipped_scaffolds():
    scaffold = load_scaffold(name)
    print(name, prompt_of(scaffold, make_tools(scaffold, Limits()), task, Place(network="open")).digest)
"""


def test_a_prompt_is_the_same_everywhere(tmp_path: Path) -> None:
    questions = "größer · ﬁg \u2028 İ"

    def composed(cwd: Path, **environment: str) -> list[str]:
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=task("hard", questions=questions).model_dump_json().encode(),
            cwd=cwd,
            env={"PATH": os.environ["PATH"], **environment},
            check=True,
            capture_output=True,
        )
        return ran.stdout.decode().splitlines()

    one = composed(Path("/"), LC_ALL="C.UTF-8", PYTHONHASHSEED="1", TZ="UTC")
    other = composed(tmp_path, LC_ALL="C", PYTHONHASHSEED="7", TZ="Asia/Tokyo", PYTHONUTF8="0", COLUMNS="20")
    here = [
        f"{name} {prompt_under(name, 'hard', Place(network='open'), questions=questions).digest}"
        for name in shipped_scaffolds()
    ]
    assert one == other == here


def test_what_differs_has_another_hash() -> None:
    hashes = {
        compose(PLAIN, task("hard"), Place(network="open")).digest,
        compose(PLAIN, task("hard"), Place(network="open", apt=True)).digest,
        compose(PLAIN, task("hard"), CLOSED).digest,
        compose(PLAIN, task("easy"), CLOSED).digest,
        compose(PLAIN, task("hard", questions="other"), CLOSED).digest,
        compose(PLAIN.model_copy(update={"hints": (hint("a", "b"),)}), task("hard"), CLOSED).digest,
    }
    assert len(hashes) == 6


def test_sections_stand_where_the_template_places_them_and_else_behind_it() -> None:
    listed = (hint("a", "Do."), hint("b", "Don't.", "best-practice"), hint("c", "Or do."))
    constraints = "Constraints (keep to all of them):\n1. Do.\n2. Or do."
    practices = "Best practices (what serves you well):\n1. Don't."
    assert told("You.", *listed) == f"You.\n\n[network]\n\n{constraints}\n\n{practices}"
    assert told("${best_practices}\n\nYou.\n\n${constraints}\n\nEnd.", *listed) == (
        f"{practices}\n\nYou.\n\n{constraints}\n\nEnd.\n\n[network]"
    )
    whole = {"tools_text": "Tools.", "format_text": "Form.", "role": Part(name="r", text="A role.")}
    assert told("You.", **whole) == "A role.\n\nYou.\n\n[network]\n\nTools.\n\nForm."
    assert told("You. ${role} ${format}\n\n${tools}\n\n${network}", **whole) == (
        "You. A role. Form.\n\nTools.\n\n[network]"
    )


def test_an_empty_section_leaves_no_gap() -> None:
    assert (
        told("You. ${role}\n\n${constraints}\n\n${tools}\n \n\nEnd.\n\n${best_practices}")
        == "You.\n\nEnd.\n\n[network]"
    )
    assert told("${constraints}") == "[network]"
    assert told("Code:\n\n    indented", place=CLOSED) == "Code:\n\n    indented\n\n[network]"


def test_a_hint_is_told_at_its_levels_alone() -> None:
    prompt = compose(parts("You.", hint("a", "Do.", "constraint", "hard"), hint("b", "Go.")), task("easy"), CLOSED)
    assert [(piece.text, piece.hint) for piece in prompt.system if piece.hint] == [("1. Go.", "b")]
    missing = hint("a", "Use ${vision}.", "constraint", "hard")
    assert "Use" not in told("You.", missing)


def test_a_hint_names_tools_and_paths_by_variable() -> None:
    names = {"shell": "bash", "vision": "look"}
    text = told(
        "You have ${shell}.", hint("a", "${vision} by ${shell}, for $5, $HOME and $${x}; ${report}"), tool_names=names
    )
    assert "You have bash." in text
    assert "1. look by bash, for $5, $HOME and ${x}; /workspace/report.json" in text


def test_a_hint_that_names_a_tool_which_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"hint my-hint: names \$\{vision\}.*--without my-hint"):
        told("You.", hint("my-hint", "Ask ${vision}."), tool_names={"shell": "bash"})
    with pytest.raises(InputError, match="hint my-hint: names"):
        told("You.", hint("my-hint", "Ask ${task_prompt}."))


def test_the_task_is_wrapped_where_a_template_says_so() -> None:
    wrapped = parts("You.", task=Part(name="quoted", text=read_part("tasks/quoted.md")))
    bare = compose(parts("You."), task("hard"), CLOSED).task
    assert compose(wrapped, task("hard"), CLOSED).task == f'"""\n{bare}\n"""'


def test_what_a_task_says_is_never_filled_again() -> None:
    said = "Run ${code} for $5, $$ and ${HOME}"
    assert said in compose(PLAIN, task("hard", task_prompt=said), CLOSED).task
    assert "1. Do ${shell}." in told("You.", hint("a", "Do ${vision}."), tool_names={"vision": "${shell}"})


def test_a_missing_part_or_variable_is_named() -> None:
    with pytest.raises(InputError, match=r"prompts/system/none\.md"):
        read_part("system/none.md")
    with pytest.raises(InputError, match=r"levels/corebench/hard\.md: prompt part can.t be filled: .*capsule"):
        compose(PLAIN, TaskText(benchmark="corebench", level="hard", variables={}), CLOSED)
    with pytest.raises(InputError, match=r"mine\.md: can.t be filled: there is no \$\{constraint\}.*constraints"):
        told("You. ${constraint}")
    with pytest.raises(InputError, match=r"prompts/x: .*'b'.*there are: a"):
        fill("${a} ${b}", {"a": "1"}, name="x")


def test_all_hints_together_can_be_told() -> None:
    names = dict.fromkeys(("shell", "vision", "open_folder", "python_file"), "x")
    assert all(
        piece.text for piece in compose(parts("You.", *all_hints(), tool_names=names), task("hard"), HERE).system
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\nsystem: system/plain.md\ntools: [bash]\nprotocol: xml\n", "protocol"),
        ("name: x\nsystem: system/plain.md\n", "tools"),
        ("name: x\nsystem: plain\ntools: [bash]\nhint: y\n", "hint"),
        ("name: x\nsystem: plain\ntools: [bash]\nhints: [no-such]\n", "no hint is named 'no-such'"),
        ("name: x\nsystem: none\ntools: [bash]\n", "no such prompt part"),
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
