"""What the README shows is what happens."""

from __future__ import annotations

import html
import re
import runpy
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
USE = README.parent / "docs/use.md"
GUIDE = USE.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTCTL_SCAFFOLD")


def blocks(kind: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def typed_commands() -> list[str]:
    """Every `agentctl ...` line of the shell blocks of the README and of docs/use.md."""
    lines = "\n".join(blocks("sh") + blocks("sh", GUIDE)).replace("\\\n", " ").splitlines()
    found = [re.sub(r"\s#.*", "", line[line.index("agentctl ") :]) for line in lines if "agentctl " in line]
    assert len(found) > 8
    return found


@pytest.mark.parametrize("line", typed_commands())
def test_commands_and_options_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    context = click.Context(cli)
    made: click.Command | None = cli
    while isinstance(made, click.Group):
        word = words.pop(0)
        made = made.get_command(context, word)
        assert made is not None, f"there is no command {word}"
    known = {option for parameter in made.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def settled(text: str) -> str:
    """`text` without what differs from run to run: times, and the record's name."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "<time>", text)
    return re.sub(r"\b(\d+(\.\d)? s|\d+m\d\ds)\b", "<s>", text)


def words_of(picture: str) -> str:
    """What an SVG of a terminal says, from its first line to its last."""
    return " ".join(html.unescape("".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))).split())


def test_the_picture_shows_what_is_printed(tmp_path: Path) -> None:
    shown = (README.parent / "docs/pictures/solve.svg").read_text(encoding="utf-8")
    terminal = runpy.run_path(str(README.parent / "docs/pictures/terminal.py"))
    printed = terminal["picture"](["agentctl", "solve", "capsule-4810297"], tmp_path)
    assert "3 of 3 questions right" in words_of(printed)
    assert settled(words_of(printed)) == settled(words_of(shown))


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = blocks("python")[-1]
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert " finished " in done.stdout


@pytest.mark.parametrize("page", [README, USE], ids=["README", "use"])
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if not target.startswith("http")]
    assert targets
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_the_settings_shown_are_settings(tmp_path: Path) -> None:
    for example in (*blocks("toml"), *blocks("toml", GUIDE)):
        (tmp_path / "agentctl.toml").write_text(example, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", "doctor", "--config"], cwd=tmp_path, capture_output=True, text=True
        )
        assert "agentctl.toml:" in done.stdout, done.stderr


def test_the_tool_and_the_scaffold_shown_work(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(blocks("python")[0], encoding="utf-8")
    (scaffold,) = blocks("yaml")
    (tmp_path / "counting.yaml").write_text(scaffold, encoding="utf-8")
    (line,) = [each for each in typed_commands() if each.startswith("agentctl tool check")]
    for words in (shlex.split(line)[1:], ["scaffold", "check", "counting.yaml"]):
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_one_command_sets_up_and_solves() -> None:
    assert command("solve").startswith("./setup && ")
    assert command("tests").startswith("./setup && ")
