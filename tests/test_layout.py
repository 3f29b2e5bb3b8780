"""The shape of the project: imports run one way, nothing heavy is loaded early, every module imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import agentctl

ROOT = Path(__file__).parents[1]
FOLDERS = ("agents", "tools", "prompts", "benchmarks", "harness_adapter")
MAY_IMPORT = {
    "base": {"base"},
    "prompts": {"base", "prompts"},
    "tools": {"base", "tools"},
    "agents": {"base", "prompts", "tools", "agents"},
    "benchmarks": {"base", "prompts", "tools", "agents", "benchmarks"},
    "harness_adapter": {"base", "prompts", "tools", "agents", "benchmarks", "harness_adapter"},
    "cli": {"base", "prompts", "tools", "agents", "benchmarks", "harness_adapter", "cli"},
}
HEAVY = ("litellm", "openai", "pandas", "scipy", "numpy", "rich", "tiktoken", "PIL", "jsonschema", "httpx")


def modules_of(part: str) -> list[Path]:
    folder = ROOT / part if part in FOLDERS else ROOT / "src" / "agentctl" / part
    return [path for path in sorted(folder.rglob("*.py")) if "perf" not in path.parts]


def imported_parts(path: Path, part: str) -> set[str]:
    """The parts of agentctl that a file imports, by absolute names and by relative ones."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.ImportFrom):
            home = path.relative_to(path.parents[len(path.parents) - 1])
            depth = len(path.relative_to(ROOT / part if part in FOLDERS else ROOT / "src" / "agentctl" / part).parents)
            assert node.level <= depth, f"{home}: a relative import that leaves its part"
        found |= {name.split(".")[1] for name in names if name.startswith("agentctl.")}
    return found


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_run_one_way(part: str) -> None:
    files = modules_of(part)
    assert files
    for path in files:
        foreign = imported_parts(path, part) - MAY_IMPORT[part]
        assert not foreign, f"{path.relative_to(ROOT)} imports {', '.join(sorted(foreign))}"


def test_the_rule_sees_an_import_that_breaks_it(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from agentctl.benchmarks import runner\n")
    assert imported_parts(bad, "cli") == {"benchmarks"}


def loaded_after(code: str) -> set[str]:
    """The modules a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import agentctl",
        "from agentctl.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "import agentctl.cli.solve",
    ],
    ids=["import", "help", "solve"],
)
def test_nothing_heavy_is_loaded_early(code: str) -> None:
    assert not {name for name in loaded_after(code) if name in HEAVY}


def test_every_module_imports_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    before = dict(os.environ), Path.cwd()
    names = [found.name for found in walk_packages(agentctl.__path__, "agentctl.")]
    names = [name for name in names if ".examples." not in name and not name.endswith("__main__")]
    assert len(names) > 30
    for name in names:
        import_module(name)
    assert (dict(os.environ), Path.cwd()) == before


def test_links_are_in_place() -> None:
    for folder in FOLDERS:
        link = ROOT / "src" / "agentctl" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder
