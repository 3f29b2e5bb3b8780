"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from readme_commands import command

from agentctl.cli.main import cli

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def typed_commands() -> list[str]:
    """Every `agentctl ...` line of the README's shell blocks."""
    lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
    found = [re.sub(r"\s#.*", "", line[line.index("agentctl ") :]) for line in lines if "agentctl " in line]
    assert len(found) > 8
    return found


@pytest.mark.parametrize("line", typed_commands())
def test_commands_and_options_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    context = click.Context(cli)
    made = cli.get_command(context, words[0])
    assert made is not None, f"there is no command {words[0]}"
    known = {option for parameter in made.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words[1:] if word.startswith("--")} <= known


def settled(text: str) -> str:
    """`text` without what differs from run to run: times, and the record's name."""
    text = re.sub(r"\d{8}-\d{6}(-\d+)?", "<time>", text)
    text = re.sub(r" +(\d+(\.\d)? s|\d+m\d\ds)\b", " <s>", text)
    return re.sub(r"…? +<s>", " <s>", text)


def test_the_output_shown_is_the_output(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", "solve", "capsule-4810297"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert settled(done.stdout).strip() == settled(blocks("text")[0]).strip()


def test_the_python_example_runs(tmp_path: Path) -> None:
    (example,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert " finished " in done.stdout


def test_links_lead_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", TEXT) if not target.startswith("http")]
    assert targets
    assert not [target for target in targets if not (README.parent / target).exists()]


def test_the_plain_scaffold_is_shown_as_it_is() -> None:
    shipped = (README.parent / "agents/scaffolds/plain.yaml").read_text(encoding="utf-8")
    assert shipped.rstrip() in [block.rstrip() for block in blocks("yaml")]


def test_one_command_sets_up_and_solves() -> None:
    assert command("solve").startswith("./setup && ")
    assert command("tests").startswith("./setup && ")
