"""What people see of records, reports and machines, on a terminal and in a pipe; and what they are told to do next."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from decimal import Decimal
from pathlib import Path

import pytest
from attempts import ANSWERS, CAPSULE, FINISH, PRICE_IN, PRICE_LINE, Provider, agentctl, bash, report
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.manifest import read_result
from agentctl.cli.words import columns, fitted, folded, harmless, padded, wrapped

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")


def at_80(folder: Path, *words: object) -> list[str]:
    """The lines that a command writes to a terminal of 80 columns."""
    line = " ".join(map(str, words))
    typed = f"stty cols 80; cd {folder}; {sys.executable} -m agentctl {line}"
    done = subprocess.run(["script", "-qec", typed, "/dev/null"], capture_output=True, text=True, check=True)
    return [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip("\r") for line in done.stdout.splitlines()]


def script(folder: Path, *turns: object) -> str:
    path = folder / "s.json"
    path.write_text(json.dumps([{"calls": [{"name": name, "arguments": given}]} for name, given in turns]))  # type: ignore[misc]
    return f"script:{path}"


@needs_bwrap
def test_show_fits_the_terminal_and_leaves_pipes_alone(tmp_path: Path) -> None:
    long = "echo " + "word " * 60
    model = script(
        tmp_path, bash(f"{long}; echo {'x' * 300}; echo 'ein   Wort\t漢字 漢字'; touch /code/new"), report(), FINISH
    )
    assert agentctl("solve", CAPSULE, "--model", model, "--record", tmp_path / "r").returncode == 0
    shown = at_80(tmp_path, "show", "r", "--full")
    assert max(map(columns, shown)) <= 80
    piped = agentctl("show", tmp_path / "r", "--full").stdout
    assert long in piped
    assert "ein   Wort\t漢字" in piped
    assert "kept 1 file of the workspace, 0 bytes" in piped
    assert "".join("".join(shown).split()) == "".join(piped.split())  # nothing is lost by folding


@given(st.text(alphabet=st.sampled_from("ab 漢é\n\t\u0301"), max_size=120), st.integers(4, 30))
def test_folding_loses_nothing(text: str, width: int) -> None:
    lines = folded(text, width)
    assert max(map(columns, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(harmless(text).split())


def test_validate_fits_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({f"{next(iter(ANSWERS))} and more {'and more ' * 20}": 1}))
    lines = at_80(tmp_path, f"validate report.json --task {CAPSULE} || true")
    assert len(lines) > 4
    assert max(map(columns, lines)) <= 80


# What to do next


@needs_bwrap
def test_a_recording_that_ends_too_soon_says_so(tmp_path: Path) -> None:
    model = script(tmp_path, bash("true"))
    agentctl("solve", CAPSULE, "--model", model, "--record", tmp_path / "r")
    done = agentctl("solve", CAPSULE, "--model", f"replay:{tmp_path / 'r'}", "--record", tmp_path / "again")
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, "--resume" in last) == (1, False)
    assert f"agentctl replay {tmp_path}/r)" in last


def test_a_level_without_a_recording_says_which_there_are() -> None:
    done = agentctl("solve", CAPSULE, "--level", "medium", env={"AGENTCTL_MODEL": ""})
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "a recorded run is shipped for easy and hard alone" in line


# doctor


def test_doctor_tells_all_and_no_secret(tmp_path: Path) -> None:
    environment = {"ANTHROPIC_API_KEY": "sk-ant-hidden-value", "AGENTCTL_MODEL": "anthropic/x"}
    done = agentctl("doctor", "--json", cwd=tmp_path, env=environment)
    told = {check["name"]: (check["state"], check["told"]) for check in json.loads(done.stdout)}
    assert told["sandbox local"][0] == "ok"
    assert told["provider keys"][0] == "ok"
    assert "ANTHROPIC_API_KEY" in told["provider keys"][1]
    assert told["default model"] == ("ok", "anthropic/x (from AGENTCTL_MODEL)")
    assert "left by killed runs" in told
    assert "hidden-value" not in done.stdout
    assert done.returncode == (1 if any(state == "missing" for state, _ in told.values()) else 0)


def test_doctor_without_bwrap(tmp_path: Path) -> None:
    done = agentctl("doctor", cwd=tmp_path, env={"PATH": "/nowhere"})
    assert done.returncode == 1
    assert "✗ bwrap" in done.stdout
    assert "✗ sandbox bubblewrap" in done.stdout


def test_doctor_tells_of_settings_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "agentctl.toml").write_text("[limits]\nstepz = 3\n")
    done = agentctl("doctor", cwd=tmp_path)
    assert done.returncode == 1
    shown = " ".join(done.stdout.split())
    assert "✗ settings agentctl.toml:2: limits.stepz: no such setting (did you mean limits.steps?)" in shown


@needs_bwrap
def test_doctor_fits_the_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(Path(os.environ.get("TMPDIR", "/tmp")).glob("*doctor*"))
    lines = at_80(tmp_path, "doctor")
    assert len(lines) > 8
    assert max(map(columns, lines)) <= 80
    assert set(Path(os.environ.get("TMPDIR", "/tmp")).glob("*doctor*")) <= before


# --prices


@needs_bwrap
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"loop": {"input": 10, "output": 30}}'),
        ("p.yaml", "loop:\n  input: 10\n  output: 30\n"),
        ("p.yml", "loop: {input_cost_per_token: 0.00001, output_cost_per_token: 0.00003}\n"),
    ],
)
def test_a_file_of_prices(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with Provider([report(), FINISH]) as provider:
        options = ["--model", "loop", "--api-base", provider.url, "--record", "r", "--network", "none"]
        done = agentctl("solve", CAPSULE, *options, "--prices", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "r")
    assert result is not None
    assert result.spend.books.spent == provider.billed > 1000 * PRICE_IN


@needs_bwrap
def test_a_price_by_flag_counts_before_one_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"loop": "free"}')
    (tmp_path / "agentctl.toml").write_text('[prices]\nfile = "p.json"\n[prices.lines]\nloop = "1,1"\n')
    with Provider([report(), FINISH]) as provider:
        options = ["--model", "loop", "--api-base", provider.url, "--record", "r", "--network", "none"]
        agentctl("solve", CAPSULE, *options, "--price", PRICE_LINE, cwd=tmp_path)
    result = read_result(tmp_path / "r")
    assert result is not None
    assert result.spend.books.spent == provider.billed > Decimal(0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such price file"),
        ("{", "p.json"),
        ("[1]", "p.json"),
        ('{"loop": {"input": 1}}', "loop"),
        ('{"loop": {"input": "x", "output": 1}}', "loop"),
        ('{"loop": 5}', "loop"),
    ],
)
def test_a_price_file_that_is_none_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "p.json").write_text(text)
    options = ["--model", "loop", "--api-base", "http://127.0.0.1:9", "--prices", "p.json"]
    done = agentctl("solve", CAPSULE, *options, cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert words in line
    assert "p.json" in line


# Lines


@needs_bwrap
def test_lines_fit_the_terminal(tmp_path: Path) -> None:
    """On a terminal of 80 columns, as `script` makes one."""
    model = script(tmp_path, bash("echo " + "long " * 40), bash("false"), bash("echo hello"), report(), FINISH)
    words = f"stty cols 80; {sys.executable} -m agentctl solve {CAPSULE} --model {model} --record {tmp_path}/r"
    done = subprocess.run(["script", "-qec", words, "/dev/null"], capture_output=True, text=True, check=True)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in done.stdout.splitlines()]
    assert sum(line.lstrip().startswith("✓") for line in lines) == 3
    assert [line for line in lines if len(line) > 80 and str(tmp_path) not in line] == []
    assert "\x1b[32m✓" in done.stdout


@given(st.text(max_size=60), st.integers(2, 30))
def test_any_text_fits_a_line(text: str, width: int) -> None:
    assert columns(fitted(text, width)) <= width
    assert columns(padded(text, width)) == width
    assert "\n" not in fitted(text, width)


@given(st.text(max_size=60))
def test_nothing_is_left_that_a_terminal_acts_on(text: str) -> None:
    shown = harmless(text)
    assert not any(unicodedata.category(each) in ("Cc", "Cs") and each not in "\n\t" for each in shown)
    assert "\u202e" not in shown
    assert harmless(shown) == shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three four", ["one two", "  three", "  four"]),
        ("漢字 漢字 漢字", ["漢字 漢字", "  漢字"]),
        ("a b " * 12, ["a b a b a", "  b a b a", "  b a b a", "  b a b …"]),
        ("\x1b[31mred", ["␛[31mred"]),
        ("", []),
    ],
)
def test_long_texts_are_wrapped(text: str, lines: list[str]) -> None:
    assert wrapped(text, 9, indent="  ") == lines
