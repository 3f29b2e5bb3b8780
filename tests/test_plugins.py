"""Plug-ins by path and by a package's entry points: used for real, and refused with one line where they are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.agents.reading import RecordReader
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import Limits
from agentctl.agents.toolbox import make_tools
from agentctl.base.errors import InputError
from agentctl.base.messages import Text

TOOL = '''
from pydantic import Field

from agentctl.tools.tool import Arguments, ToolContext, ToolResult


class CountArguments(Arguments):
    path: str = Field(description="File to count the lines of.")


class Count:
    """Counts lines."""

    name = "count_lines"
    description = "Count the lines of a file."
    arguments = CountArguments

    def run(self, arguments: CountArguments, context: ToolContext) -> ToolResult:
        done = context.sandbox.exec(["wc", "-l", arguments.path], timeout=10)
        return ToolResult.of(done.stdout.decode().split()[0])

    def close(self) -> None:
        pass
'''

SCAFFOLD = """
name: mine
system: mine.md
hints: [mine-hint.md]
tools: [bash, "count.py:Count", finish]
"""

HINT = """---
kind: best-practice
what: counts lines
---
Count the lines before you look at them.
"""

MODEL = """
from agentctl.agents.models.protocol import FinishReason, RawReply
from agentctl.base.messages import Text


class Quiet:
    kind = "human"  # which costs nothing

    def send(self, request, cancel):
        return RawReply(parts=(Text(text="I say nothing of use."),), finish=FinishReason.STOP)

    def close(self):
        pass


def make(spec, environment):
    return Quiet()
"""

ENTRY_POINTS = """
[agentctl.tools]
count-lines = their_plugin.count:Count
[agentctl.scaffolds]
theirs = their_plugin:SCAFFOLD
[agentctl.hints]
their-hint = their_plugin:hint
[agentctl.models]
quiet = their_plugin.model:make
"""

INIT = """
from pathlib import Path

SCAFFOLD = Path(__file__).parent / "theirs.yaml"


def hint():
    return Path(__file__).parent / "their-hint.md"
"""

THEIRS = """
name: theirs
system: mine.md
hints: [their-hint]
tools: [bash, count-lines, finish]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a scaffold of one's own, its hint, its tool, and a model."""
    place = tmp_path / "own"
    place.mkdir()
    for name, text in {
        "count.py": TOOL,
        "mine.yaml": SCAFFOLD,
        "mine.md": "You count lines.",
        "mine-hint.md": HINT,
        "model.py": MODEL,
        "script.json": script(),
    }.items():
        (place / name).write_text(text, encoding="utf-8")
    return place


@pytest.fixture
def package(tmp_path: Path, folder: Path) -> Path:
    """A folder for PYTHONPATH with an installed package, as an installer leaves one."""
    site = tmp_path / "site"
    code = site / "their_plugin"
    info = site / "their_plugin-2.5.dist-info"
    code.mkdir(parents=True)
    info.mkdir()
    for place, text in {
        code / "__init__.py": INIT,
        code / "count.py": TOOL,
        code / "model.py": MODEL,
        code / "theirs.yaml": THEIRS,
        code / "mine.md": "You count lines.",
        code / "their-hint.md": HINT,
        info / "METADATA": "Metadata-Version: 2.1\nName: their-plugin\nVersion: 2.5\n",
        info / "entry_points.txt": ENTRY_POINTS,
    }.items():
        place.write_text(text, encoding="utf-8")
    return site


def script() -> str:
    """A model that writes a file, has its lines counted, and writes and hands in a report."""
    calls = [
        ("bash", {"command": "printf '1\\n2\\n3\\n' > /tmp/lines"}),
        ("count_lines", {"path": "/tmp/lines"}),
        ("finish", {}),
        ("finish", {}),
    ]
    return json.dumps([{"calls": [{"name": name, "arguments": arguments}]} for name, arguments in calls])


def agentctl(*arguments: str | Path, cwd: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PYTHONPATH": str(site)} if site else {})}
    command = [sys.executable, "-m", "agentctl", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def solve(*more: str | Path, cwd: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    return agentctl("solve", "capsule-4810297", "--level", "easy", "--steps", "3", *more, cwd=cwd, site=site)


def results(record: Path) -> list[str]:
    """What each call of a record gave."""
    reader = RecordReader(record)
    return ["".join(part.text for part in each.parts if isinstance(part, Text)) for each in reader.results.values()]


# By path


def test_a_scaffold_with_its_own_texts_hint_and_tool_runs(folder: Path) -> None:
    done = solve("--scaffold", "mine.yaml", "--model", "script:script.json", "--record", "r", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert results(folder / "r")[1] == "3"
    spec = RecordReader(folder / "r").manifest.spec
    assert spec.scaffold.system.text == "You count lines."
    assert [hint.id for hint in spec.scaffold.hints] == ["mine-hint"]
    system = RecordReader(folder / "r").messages[1].text()
    assert "Count the lines before you look at them." in system


def test_a_tool_is_known_by_what_its_file_says_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    first = load_scaffold(str(folder / "mine.yaml"))
    moved = folder.rename(tmp_path / "elsewhere")
    assert load_scaffold(str(moved / "mine.yaml")).digest == first.digest
    (moved / "count.py").write_text(TOOL + "\n# changed\n", encoding="utf-8")
    assert load_scaffold(str(moved / "mine.yaml")).digest != first.digest


def test_a_tools_file_that_changed_since_is_not_run(folder: Path) -> None:
    scaffold = load_scaffold(str(folder / "mine.yaml"))
    (folder / "count.py").write_text(TOOL + "\n# changed\n", encoding="utf-8")
    with pytest.raises(InputError, match="no longer the file that was named"):
        make_tools(scaffold, Limits())


@pytest.mark.parametrize(
    ("code", "named", "told"),
    [
        ("x = 1", "Count", "defines no 'Count'"),
        ("raise RuntimeError('boom')", "Count", "can't be loaded: RuntimeError: boom"),
        ("def Count(:", "Count", "can't be loaded: SyntaxError"),
        ("Count = 3", "Count", "makes no tool: TypeError"),
        ("class Count: pass", "Count", "makes no tool: AttributeError"),
        (TOOL.replace('"count_lines"', '"count lines"'), "Count", "makes no tool: its name is not"),
        (TOOL.replace('"Count the lines of a file."', '" "'), "Count", "makes no tool: its description is empty"),
        (TOOL.replace("def close", "def shut"), "Count", "makes no tool: it can't be closed"),
        (TOOL.replace('"count_lines"', '"bash"'), "Count", "two tools are named 'bash'"),
    ],
)
def test_what_is_no_tool_is_refused_in_one_line_with_nothing_left(
    code: str, named: str, told: str, folder: Path
) -> None:
    (folder / "count.py").write_text(code, encoding="utf-8")
    done = solve("--scaffold", "mine.yaml", "--model", "script:script.json", "--record", "r", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert told in line
    assert not (folder / "r").exists()
    assert list(folder.glob(".*")) == []


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "count.py").unlink()
    with pytest.raises(InputError, match=r"count\.py: tools: can't be read"):
        load_scaffold(str(folder / "mine.yaml"))


def test_a_model_by_path(folder: Path) -> None:
    done = solve(
        "--scaffold", "mine.yaml", "--model", "python:model.py:make", "--price", "python:model.py:make=free",
        "--record", "r", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert RecordReader(folder / "r").replies[0].text() == "I say nothing of use."


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("python:model.py", "as python:FILE.py:NAME"),
        ("python:none.py:make", "can't be read"),
        ("python:model.py:Quiet", "makes no model: TypeError"),
        ("python:count.py:CountArguments", "makes no model"),
    ],
)
def test_what_is_no_model_is_refused(name: str, told: str, folder: Path) -> None:
    done = solve("--scaffold", "mine.yaml", "--model", name, "--record", "r", cwd=folder)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "r").exists()


# By a package


def test_a_package_brings_scaffold_hint_and_tool(folder: Path, package: Path) -> None:
    script = folder / "script.json"
    done = solve("--scaffold", "theirs", "--model", f"script:{script}", "--record", "r", cwd=folder, site=package)
    assert done.returncode == 0, done.stderr
    assert results(folder / "r")[1] == "3"
    scaffold = RecordReader(folder / "r").manifest.spec.scaffold
    assert {name: (code.source, code.digest) for name, code in scaffold.code.items()} == {
        "count-lines": ("their-plugin", "2.5")
    }
    assert [hint.text for hint in scaffold.hints] == ["Count the lines before you look at them."]


def test_a_package_brings_a_model(folder: Path, package: Path) -> None:
    flags = ("--model", "quiet/x", "--price", "quiet/x=free", "--record", "r")
    done = solve("--scaffold", "plain", *flags, cwd=folder, site=package)
    assert done.returncode == 0, done.stderr
    assert RecordReader(folder / "r").replies[0].text() == "I say nothing of use."


def test_without_the_package_its_names_are_unknown(folder: Path) -> None:
    for flags in (("--scaffold", "theirs"), ("--scaffold", "plain", "--with", "count-lines")):
        done = solve(*flags, "--model", "script:script.json", "--record", "r", cwd=folder)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


# Records may be anybody's


def test_a_record_runs_the_code_it_names_only_when_its_reader_names_it_too(folder: Path) -> None:
    solve("--scaffold", "mine.yaml", "--model", "script:script.json", "--record", "r", cwd=folder)
    code = (folder / "count.py").resolve()
    done = agentctl("replay", "r", "--into", "again", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        f"agentctl: r: --trust-code: its tool count.py:Count is code, {code} (if you trust it: --trust-code {code})\n"
    )
    assert not (folder / "again").exists()
    done = agentctl("replay", "r", "--into", "again", "--trust-code", code, cwd=folder)
    assert results(folder / "again")[1] == "3", done.stderr
    other = folder / "other.py"
    other.write_text(TOOL.replace("wc", "cat"), encoding="utf-8")
    done = agentctl("replay", "r", "--into", "third", "--trust-code", other, cwd=folder)
    assert done.returncode == 2
    assert "is not the file" in done.stderr


def test_a_record_can_not_call_its_code_by_another_name(folder: Path) -> None:
    solve("--scaffold", "mine.yaml", "--model", "script:script.json", "--record", "r", cwd=folder)
    manifest = folder / "r" / "manifest.json"
    code = str((folder / "count.py").resolve())
    manifest.write_text(manifest.read_text(encoding="utf-8").replace(code, code + "c"), encoding="utf-8")
    done = agentctl("replay", "r", "--into", "again", cwd=folder)
    assert done.returncode == 2
    assert "--trust-code" in done.stderr
    done = agentctl("replay", "r", "--into", "again", "--trust-code", f"{code}c", cwd=folder)
    assert done.returncode == 2
    assert not (folder / "again").exists()


@pytest.mark.parametrize("change", [None, "3.0"])
def test_a_records_package_must_be_there_in_its_version(change: str | None, folder: Path, package: Path) -> None:
    script = folder / "script.json"
    solve("--scaffold", "theirs", "--model", f"script:{script}", "--record", "r", cwd=folder, site=package)
    if change:
        (info := package / "their_plugin-2.5.dist-info").rename(package / "their_plugin-3.0.dist-info")
        metadata = package / "their_plugin-3.0.dist-info" / "METADATA"
        metadata.write_text(metadata.read_text(encoding="utf-8").replace("2.5", "3.0"), encoding="utf-8")
        assert not info.exists()
    done = agentctl("replay", "r", "--into", "again", cwd=folder, site=package if change else None)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert ("now is one of their-plugin 3.0" if change else "their-plugin, which is not installed") in line


def test_trusted_code_may_lie_elsewhere_by_now(folder: Path, tmp_path: Path) -> None:
    solve("--scaffold", "mine.yaml", "--model", "script:script.json", "--record", "r", cwd=folder)
    moved = (folder / "count.py").rename(tmp_path / "count.py")
    agentctl("replay", "r", "--into", "again", "--trust-code", moved, cwd=folder)
    assert results(folder / "again")[1] == "3"


# tool check


def test_tool_check_runs_a_tool_in_every_sandbox(folder: Path) -> None:
    done = agentctl("tool", "check", "count.py:Count", "--arguments", '{"path": "/etc/passwd"}', cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ name             count_lines" in done.stdout
    assert "✓ in local         ok: " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    told = json.loads(agentctl("tool", "check", "count.py:Count", "--json", cwd=folder).stdout)
    assert [each["name"] for each in told][:4] == ["name", "description", "arguments", "their meaning"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("return ToolResult", "return str(1) or ToolResult"), "not a ToolResult"),
        (("return ToolResult", "raise ValueError('no') or ToolResult"), "run raised ValueError: no"),
        (
            ("        pass", "        self.n = 1 / self.n if hasattr(self, 'n') else 0"),
            "close, or a second close, raised",
        ),
        (
            ("        return ToolResult", "        import os; os.environ['LEAK'] = '1'\n        return ToolResult"),
            "the environment",
        ),
    ],
)
def test_tool_check_says_what_is_wrong(change: tuple[str, str], told: str, folder: Path) -> None:
    (folder / "count.py").write_text(TOOL.replace(*change), encoding="utf-8")
    done = agentctl("tool", "check", "count.py:Count", "--arguments", '{"path": "/etc/passwd"}', cwd=folder)
    assert done.returncode == 1
    assert told in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("count.py",), "as FILE.py:NAME"),
        (("none.py:Count",), "can't be read"),
        (("count.py:Count", "--arguments", "{"), "not JSON"),
        (("count.py:Count", "--arguments", "[]"), "not a JSON object"),
        (("count.py:Count", "--arguments", '{"file": "x"}'), "--arguments."),
    ],
)
def test_tool_check_refuses_bad_input(arguments: tuple[str, ...], told: str, folder: Path) -> None:
    done = agentctl("tool", "check", *arguments, cwd=folder)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
