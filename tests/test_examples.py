"""The example capsule: it can be reproduced offline, in a bare system, and gives what came with it."""

from __future__ import annotations

import json
import os
import runpy
import shutil
from pathlib import Path

import pytest

from agentctl.benchmarks.corebench.dataset import Level, load_dataset
from agentctl.benchmarks.corebench.staging import stage
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import SandboxSpec

EXAMPLES = Path(__file__).parents[1] / "examples"
CAPSULE = EXAMPLES / "capsules" / "capsule-4810297"


def test_its_entry_is_one_of_the_benchmark() -> None:
    (entry,) = load_dataset(EXAMPLES / "dataset.json").capsules
    assert entry.capsule_id == CAPSULE.name
    assert len(entry.results) == 3


def test_each_answer_stands_in_the_results_and_nowhere_that_hard_shows() -> None:
    (entry,) = json.loads((EXAMPLES / "dataset.json").read_text(encoding="utf-8"))
    texts = {path: path.read_text(encoding="utf-8") for path in CAPSULE.rglob("*") if path.suffix not in ("", ".whl")}
    for question, answer in entry["results"][0].items():
        found = [path for path, text in texts.items() if str(answer) in text]
        assert any(path.parent.name == "results" for path in found), question
        if isinstance(answer, float):
            assert all(path.parent.name == "results" for path in found), question


def test_the_wheel_is_what_its_source_builds(tmp_path: Path) -> None:
    build = runpy.run_path(str(EXAMPLES / "wheel_src" / "build.py"))["build"]
    wheel = build(tmp_path)
    assert wheel.read_bytes() == (CAPSULE / "code" / "vendor" / wheel.name).read_bytes()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
def test_hard_is_solvable_offline_and_gives_the_same_files(tmp_path: Path) -> None:
    gold = EXAMPLES / "dataset.json"
    staged = stage(CAPSULE.name, CAPSULE, Level.HARD, tmp_path / "attempt", "bubblewrap", gold=gold)
    readme = (CAPSULE / "code" / "README.md").read_text(encoding="utf-8")
    commands = readme.partition("```shell\n")[2].partition("```")[0]
    sandbox = open_sandbox(SandboxSpec(network="none"), staged.workspace, owner_env=dict(os.environ))
    try:
        missing = sandbox.exec(["sh", "-c", "cd /code && python3 analyse.py"], timeout=60)
        assert b"No module named 'plainfig'" in missing.stderr
        done = sandbox.exec(["sh", "-ec", f"cd {CAPSULE.name}/code\n{commands}"], timeout=120)
        assert done.exit_code == 0, done.stderr
        for shipped in (CAPSULE / "results").iterdir():
            if shipped.name != "output":
                assert sandbox.read(f"{CAPSULE.name}/results/{shipped.name}") == shipped.read_bytes()
        output = (CAPSULE / "results" / "output").read_bytes()
        assert done.stdout.endswith(output[output.index(b"342 birds") :])
    finally:
        sandbox.close()
